//! Over a line between two networks on which packets come late, and some never.

use std::fs;
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::time::Duration;

use testbed::network::{End, Network, linked};
use testbed::{
    Case, Compared, LineConditions, Need, Place, Program, Relay, SshKeys, assert_same_tree,
    wait_for,
};

use super::{UNCOPY, succeeded};

const PORT: u16 = 2222;
const CONDITIONS: LineConditions =
    LineConditions { delay: Duration::from_millis(10), lost_per_million: 10_000 };

fn trees_go_there_and_back() {
    let scratch = Place::Disk.scratch();
    let source = scratch.subdirectory("src", 0o755);
    fs::create_dir(source.join("d")).unwrap();
    fs::write(source.join("large"), vec![7; 3 << 20]).unwrap();
    for number in 0..300 {
        fs::write(source.join(format!("d/{number}")), format!("{number}")).unwrap();
    }
    let far = End::Far.relay_address(PORT);
    let keys = SshKeys::new(&[far.ip()], PORT);
    let (give, take) = channel();
    let (ended, wait) = channel::<()>();
    let (keys, from, home) = (&keys, &source, &scratch);
    let near_side = move |network: &Network| {
        let far_end = take.recv().unwrap();
        let _relay = Relay::start(network.relay_end(End::Near), far_end, CONDITIONS);
        let cp = || {
            Program::new(UNCOPY)
                .args(["cp", "-a", "-e"])
                .arg(format!("ssh -F '{}'", keys.client_config().display()))
                .args(["--remote-program", UNCOPY])
        };
        let there = format!("{}:{}", far.ip(), home.join("there").display());
        succeeded(&cp().arg(from).arg(&there).run());
        succeeded(&cp().arg(&there).arg(home.join("back")).run());
        drop(ended);
    };
    let far_side = move |network: &Network| {
        let far_end = network.relay_end(End::Far);
        let mut command = keys.server();
        command.arg("-D").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = command.spawn().unwrap();
        wait_for("server", || TcpStream::connect(far).is_ok());
        give.send(far_end).unwrap();
        assert!(wait.recv().is_err(), "it ends with the near side");
        server.kill().unwrap();
        server.wait().unwrap();
    };
    linked(near_side, far_side);
    for copy in ["there", "back"] {
        assert_same_tree(&source, &scratch.join(copy), Compared::wholly());
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let cases = testbed::cases![[] trees_go_there_and_back];
    let needs = [Need::Tool("sshd"), Need::Tool("ssh"), Need::Tool("ssh-keygen")];
    let needs = testbed::network::NEEDS.iter().copied().chain(needs);
    cases.into_iter().map(|case| needs.clone().fold(case, Case::needing)).collect()
}
