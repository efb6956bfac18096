//! `uncopy bench` with the kernel's own test of `MSG_ZEROCOPY` at the other end
//! (`tools/testing/selftests/net/msg_zerocopy.c`), over loopback.
//!
//! `UNCOPY_TEST_MSG_ZEROCOPY` names that program; `.ci/run` builds it from Debian's kernel source.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use testbed::{Case, Need, wait_for};

const VARIABLE: &str = "UNCOPY_TEST_MSG_ZEROCOPY";
const SECONDS: &str = "1";

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = testbed::cases![[] the_line_of_the_tool_is_read];
    for family in ["-4", "-6"] {
        for protocol in ["udp", "tcp"] {
            let name = format!("cli::bench::kernel_tool::both_ways_{protocol}{family}");
            cases.push(Case::new(name, &[Need::Variable(VARIABLE)], move || {
                let ends = Ends::new(family, protocol);
                ends.receive();
                for mode in super::MODES {
                    ends.send(mode);
                }
            }));
        }
    }
    cases
}

struct Ends {
    tool: PathBuf,
    family: &'static str,
    protocol: &'static str,
    port: String,
}

impl Ends {
    fn new(family: &'static str, protocol: &'static str) -> Ends {
        let tool = std::env::var_os(VARIABLE).expect("the case needs it").into();
        Ends { tool, family, protocol, port: super::port().to_string() }
    }

    fn host(&self) -> &'static str {
        if self.family == "-6" { "::1" } else { "127.0.0.1" }
    }

    fn uncopy(&self, end: &str) -> Command {
        let mut command = super::bench(end);
        command.args([self.family, self.protocol, "-p", &self.port]);
        command
    }

    fn tool(&self) -> Command {
        let mut command = Command::new(&self.tool);
        command.args([self.family, "-p", &self.port, "-D", self.host()]);
        command
    }

    /// From the kernel's test to `uncopy bench recv`.
    fn receive(&self) {
        let receiver = self.start(self.uncopy("recv").args(["-t", "2.5"]));
        let mut sender = self.tool();
        let sent = sender.args(["-t", SECONDS, "-S", self.host(), "-z", self.protocol]).output();
        self.assert_same(&said(&sent.unwrap()), receiver, "recv");
    }

    /// From `uncopy bench send` to the kernel's test, which looks at every byte of datagrams.
    fn send(&self, mode: &str) {
        let receiver = self.start(self.tool().args(["-t", "2", "-r", self.protocol]));
        let mut sender = self.uncopy("send");
        let sent = sender.args(["-D", self.host(), "-t", SECONDS, "--mode", mode]).output();
        self.assert_same(&said(&sent.unwrap()), receiver, mode);
    }

    fn assert_same(&self, sent: &str, receiver: Child, what: &str) {
        let received = said(&receiver.wait_with_output().unwrap());
        assert!(number(sent, "tx=") > Some(0), "{what}: {sent}{received}");
        assert!(number(&received, "rx=") > Some(0), "{what}: {sent}{received}");
        if self.protocol == "tcp" {
            assert_eq!(number(sent, "("), number(&received, "("), "{what}: {sent}{received}");
        }
    }

    /// Starts a receiver and waits until it listens.
    fn start(&self, command: &mut Command) -> Child {
        let pipes = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = pipes.spawn().unwrap();
        let family = if self.family == "-6" { "6" } else { "" };
        let port: u16 = self.port.parse().unwrap();
        wait_for("a receiver that listens", || super::is_received_at(port, self.protocol, family));
        child
    }
}

/// Both outputs of a program that succeeded.
fn said(output: &Output) -> String {
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat();
    assert!(output.status.success(), "{}: {text}", output.status);
    text
}

/// The number behind the first `sign`.
fn number(text: &str, sign: &str) -> Option<u64> {
    let digits = text.split_once(sign)?.1;
    let end = digits.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

fn the_line_of_the_tool_is_read() {
    let line = "tx=129909 (8106 MB) txc=129909 zc=y\n";
    assert_eq!(number(line, "tx="), Some(129_909));
    assert_eq!(number(line, "("), Some(8106));
    assert_eq!((number(line, "rx="), number(line, "zc=")), (None, None));
}
