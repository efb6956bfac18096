//! `uncopy doctor --channel`, with real channels between real processes.

use std::io::IoSlice;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use serde_json::Value;
use testbed::network::{NEEDS, isolated};
use testbed::{Case, Forbidden, LONG, Need, SystemCall, cases, wait_for};
use uncopy::channel::{self, Channel, Deadline, Descriptor, Handle, Object, Signals, Status};

use crate::doctor::{finding, report, uncopy};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases![
        [] both_ends_of_two_channels_are_found,
        [] a_full_socket_is_found_and_holds_what_was_predicted,
        [] a_crowded_socket_takes_no_handles,
        [] a_stopped_reader_is_found,
        [] an_end_without_peer_has_ended,
        [] both_ends_in_one_process_are_found,
        [] an_end_in_a_message_is_held_by_nobody,
        [] other_descriptors_are_refused_by_name,
        [] options_are_found_at_the_end_that_receives,
        [] without_the_rights_of_a_debugger_the_options_are_unknown,
        [] a_process_near_its_limit_is_found,
        [Need::Tool("setpriv")] descriptors_in_unread_messages_are_counted,
        [Need::Root, Need::Tool("setpriv")] other_users_learn_nothing,
    ];
    let name = "doctor::channel::a_socket_of_another_network_is_examined_by_its_duplicate";
    cases.push(Case::new(name, NEEDS, another_network));
    cases
}

/// Environment variable with the role of a child.
pub(crate) const ROLE: &str = "UNCOPY_TEST_CHANNEL_ROLE";

pub(crate) fn play(role: &str) -> ExitCode {
    let channel = Channel::inherited().unwrap();
    match role {
        "reader" => while channel.receive(Deadline::INFINITE).is_ok() {},
        "hoard" => hoard(&channel),
        other => unreachable!("no role is called {other}"),
    }
    ExitCode::SUCCESS
}

/// Sends [`HOARDED`] descriptors, half of what it may open, until the peer is closed.
fn hoard(channel: &Channel) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(2 * HOARDED), maximum }).unwrap();
    for _ in 0..HOARDED / 64 {
        let null = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let handles: Vec<Handle> = (0..64).map(|_| Descriptor::from(null()).into()).collect();
        channel.write(&[], handles).unwrap();
    }
    let _ = channel.wait_one(Signals::PEER_CLOSED, Deadline::INFINITE);
}

const HOARDED: u64 = 128;

/// A channel to a child, which is killed when this is dropped.
struct Peer {
    channel: Channel,
    child: Child,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Peer {
    /// Starts a program that never looks at its end.
    fn idle() -> Peer {
        Peer::by(Command::new("sleep").arg("1000"))
    }

    fn playing(role: &str) -> Peer {
        Peer::by(Command::new(std::env::current_exe().unwrap()).env(ROLE, role))
    }

    fn by(command: &mut Command) -> Peer {
        let (channel, child) = channel::spawn(command).unwrap();
        Peer { channel, child }
    }

    /// Returns the child's end as the program takes it: `812:5`.
    fn end(&self) -> String {
        let path = format!("/proc/{}/environ", self.child.id());
        let name = format!("{}=", channel::FD_VARIABLE);
        let mut number = None;
        // `execve(2)` closes descriptors, which ends the wait for it, before it shows the environment.
        wait_for("the environment of the program", || {
            let environment = String::from_utf8(std::fs::read(&path).unwrap()).unwrap();
            let mut all = environment.split('\0');
            number = all.find_map(|one| one.strip_prefix(&name)).map(str::to_owned);
            number.is_some()
        });
        format!("{}:{}", self.child.id(), number.unwrap())
    }

    #[track_caller]
    fn examined(&self) -> Value {
        examined(&self.end(), 6)
    }

    fn signal(&self, signal: Signal) {
        let process = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(process, signal).unwrap();
    }
}

/// Returns the report about a channel, which ends with this code.
#[track_caller]
fn examined(end: &str, code: i32) -> Value {
    let run = uncopy(&format!("doctor --json --channel {end}")).run();
    report(&run, code)
}

/// Returns the report about a channel once it has these findings. Other tests start programs, which hold
/// the descriptors of this process for a moment.
#[track_caller]
fn examined_once(end: &str, code: i32, expected: &[&str]) -> Value {
    let mut last = Value::Null;
    wait_for("report with these findings", || {
        let run = uncopy(&format!("doctor --json --channel {end}")).run();
        last = serde_json::from_str(&run.stdout).unwrap();
        run.status.code() == Some(code) && ids(&last) == expected
    });
    last
}

/// Returns a descriptor of this process as the program takes it.
fn own(fd: impl AsFd) -> String {
    format!("{}:{}", std::process::id(), fd.as_fd().as_raw_fd())
}

fn ids(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().unwrap();
    // The limit of the machine that runs the tests.
    let own = findings.iter().filter(|finding| finding["id"] != "wmem-max");
    own.map(|finding| finding["id"].as_str().unwrap()).collect()
}

/// Returns the first process that holds an end of the examined channel; 0 is the examined one. Programs that
/// other tests start may hold it too for a moment.
/// Whether this process is among the holders of an end. A program that a test beside this one is starting may
/// be one for the moment.
fn is_held(report: &Value, end: usize, process: u32) -> bool {
    let holders = report["channel"]["ends"][end]["holders"].as_array().unwrap();
    holders.iter().any(|holder| holder["pid"] == process)
}

fn write(channel: &Channel, bytes: usize) -> Result<(), Status> {
    channel.write(&[IoSlice::new(&vec![7; bytes])], vec![])
}

fn both_ends_of_two_channels_are_found() {
    let peers = [Peer::playing("reader"), Peer::idle()];
    let words = format!("doctor --json --channel {} --channel {}", peers[0].end(), peers[1].end());
    let name = std::fs::read_to_string("/proc/self/comm").unwrap();
    let reader = format!("messages to {} (pid", name.trim());
    let mut reports: Vec<Value> = Vec::new();
    // A program that a test beside this one is starting may be the one that is named for the moment.
    wait_for("reports that name this process", || {
        let run = uncopy(&words).run();
        assert_eq!(run.status.code(), Some(6), "{}", run.stderr);
        reports = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(reports.len(), 2, "{}", run.stdout);
        let summary = |report: &Value| report["findings"][0]["summary"].as_str().map(str::to_owned);
        reports.iter().all(|report| summary(report).is_some_and(|text| text.contains(&reader)))
    });
    for (report, peer) in reports.iter().zip(&peers) {
        assert_eq!(report["target"], format!("channel {}", peer.end()));
        assert_eq!(ids(report), ["channel-socket"], "{report}");
        assert!(is_held(report, 0, peer.child.id()), "{report}");
        assert!(is_held(report, 1, std::process::id()), "{report}");
    }
    // For people.
    let text = uncopy(&format!("doctor --channel {}", peers[0].end())).run().stdout;
    assert!(text.contains("\ncopies: messages to "), "{text}");
    assert!(text.contains("\n  holds   "), "{text}");
}

fn a_full_socket_is_found_and_holds_what_was_predicted() {
    let peer = Peer::idle();
    let empty = peer.examined();
    assert_eq!(ids(&empty), ["channel-socket"], "{empty}");
    let largest = 65_536;
    let mut sent = 0;
    while write(&peer.channel, largest) == Ok(()) {
        sent += 1;
    }
    let writer = &empty["channel"]["ends"][1];
    assert_eq!(writer["holds"][0]["message_bytes"], largest);
    assert_eq!(writer["holds"][0]["messages"], sent, "{empty}");
    let full = peer.examined();
    let found = finding(&full, "channel-queue-full").unwrap();
    assert_eq!(found["summary"], format!("the socket to sleep (pid {}) is full", peer.child.id()));
    assert_eq!(full["channel"]["ends"][0]["unread_bytes"], sent * (largest + 8), "{full}");
    assert!(finding(&full, "channel-queue-crowded").is_none(), "{full}");
}

/// The border is where the library stops to send handles.
fn a_crowded_socket_takes_no_handles() {
    let peer = Peer::idle();
    let event = || vec![Handle::from(channel::Event::new())];
    let mut sent = 0;
    loop {
        let found = finding(&peer.examined(), "channel-queue-crowded").is_some();
        let accepted = peer.channel.write(&[], event());
        assert_eq!(accepted.is_ok(), !found, "after {sent} messages: {accepted:?}");
        if found {
            break;
        }
        // About a sixteenth of the room.
        let room = peer.examined()["channel"]["ends"][1]["holds"][0]["messages"].as_u64();
        for _ in 0..(room.unwrap() / 16).max(1) {
            write(&peer.channel, 65_536).unwrap();
            sent += 1;
        }
    }
    assert!(sent > 1);
    assert_eq!(write(&peer.channel, 100), Ok(()), "messages without handles are accepted");
}

fn a_stopped_reader_is_found() {
    let peers = [Peer::playing("reader"), Peer::idle()];
    for peer in &peers {
        peer.signal(Signal::STOP);
        wait_for("stopped process", || testbed::state(peer.child.id()) == 'T');
        let expected = ["channel-socket", "channel-reader-stopped"];
        let stopped = examined_once(&peer.end(), 6, &expected);
        let found = finding(&stopped, "channel-reader-stopped").unwrap();
        let step = format!("Let it continue: kill -CONT {}.", peer.child.id());
        assert_eq!(found["next_step"], step);
        assert_eq!(found["severity"], "limits");
        peer.signal(Signal::CONT);
        wait_for("running process", || testbed::state(peer.child.id()) != 'T');
        assert!(finding(&peer.examined(), "channel-reader-stopped").is_none());
    }
}

fn an_end_without_peer_has_ended() {
    let (near, far) = Channel::pair();
    let far = far.into_fd().unwrap();
    write(&near, 300).unwrap();
    drop(near);
    let ended = examined_once(&own(&far), 7, &["channel-ended"]);
    assert_eq!(ended["channel"]["far"], "closed");
    assert_eq!(ended["channel"]["ends"].as_array().unwrap().len(), 1);
    assert_eq!(ended["channel"]["ends"][0]["unread_bytes"], 308, "it can still be read");
    // A process that has ended, and whose status nobody has read.
    let mut peer = Peer::idle();
    let end = peer.end();
    peer.child.kill().unwrap();
    wait_for("end of the process", || testbed::state(peer.child.id()) == 'Z');
    let run = uncopy(&format!("doctor --channel {end}")).run();
    assert!(run.failed(1).contains("cannot find the process"), "{}", run.stderr);
    peer.child.wait().unwrap();
}

fn both_ends_in_one_process_are_found() {
    let (near, far) = Channel::pair();
    let far = far.into_fd().unwrap();
    let number = own(&far);
    let expected = ["channel-one-process", "channel-socket"];
    let alone = examined_once(&number, 6, &expected);
    assert!(alone["headline"].as_str().unwrap().ends_with("holds both ends"), "{alone}");
    // As an endpoint it is the same socket.
    let far = Channel::from_fd(far).unwrap();
    examined_once(&number, 6, &expected);
    drop((near, far));
}

fn an_end_in_a_message_is_held_by_nobody() {
    let (near, far) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    let (carrier, receiver) = Channel::pair();
    let _receiver = receiver.into_fd().unwrap();
    carrier.write(&[], vec![Descriptor::from(far).into()]).unwrap();
    let seen = examined_once(&own(&near), 6, &["channel-socket", "channel-peer-unseen"]);
    let found = finding(&seen, "channel-peer-unseen").unwrap();
    let is_complete = seen["channel"]["holders_complete"] == true;
    assert_eq!(found["needs_root"], !is_complete, "{found}");
    assert!(seen["findings"][0]["summary"].as_str().unwrap().contains("an unknown process"));
    // A socket that was not made by uncopy holds less.
    assert!(finding(&seen, "wmem-max").is_some(), "{seen}");
}

fn other_descriptors_are_refused_by_name() {
    let file = std::fs::File::open("/dev/null").unwrap();
    let (pipe, _writer) = std::io::pipe().unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (stream, _other) = UnixStream::pair().unwrap();
    let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    let flags = SocketFlags::CLOEXEC;
    let (unix, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let alone = rustix::net::socket_with(unix, kind, flags, None).unwrap();
    let listener = rustix::net::socket_with(unix, kind, flags, None).unwrap();
    rustix::net::bind(&listener, &rustix::net::SocketAddrUnix::new_unnamed()).unwrap();
    rustix::net::listen(&listener, 1).unwrap();
    for (fd, expected) in [
        (file.as_fd(), "it is the file /dev/null"),
        (pipe.as_fd(), "it is a pipe"),
        (tcp.as_fd(), "it is a TCP socket"),
        (udp.as_fd(), "it is a UDP socket"),
        (stream.as_fd(), "it is a stream socket of unix(7)"),
        (event.as_fd(), "it is no socket (anon_inode:[eventfd])"),
        (alone.as_fd(), "it is a socket that is not connected"),
        (listener.as_fd(), "it is a socket that listens"),
    ] {
        let words = format!("doctor --json --channel {}", own(fd));
        let run = uncopy(&words).run();
        assert!(run.failed(1).contains(expected), "{expected}: {}", run.stderr);
        let failed: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(failed["error"]["code"], "not_channel", "{failed}");
    }
    let absent = format!("{}:{}", std::process::id(), i32::MAX);
    for (words, code, expected) in [
        (absent.as_str(), 1, "(EBADF); check the number of the descriptor"),
        ("4194305:3", 1, "cannot find the process 4194305"),
        ("812", 2, "such as 812:5"),
        ("812:x", 2, "such as 812:5"),
        ("812:5 --explain channel-socket", 2, "cannot be used with"),
    ] {
        let run = uncopy(&format!("doctor --channel {words}")).run();
        assert!(run.failed(code).contains(expected), "{words}: {}", run.stderr);
    }
}

fn options_are_found_at_the_end_that_receives() {
    let (near, far) = Channel::pair();
    let far = far.into_fd().unwrap();
    sockopt::set_socket_passcred(&far, true).unwrap();
    let seen = examined(&own(&far), 6);
    let found = finding(&seen, "channel-options").unwrap();
    assert!(found["evidence"][0]["found"].as_str().unwrap().starts_with("SO_PASSCRED at the"));
    assert_eq!(found["severity"], "note");
    let ends = &seen["channel"]["ends"];
    assert_eq!(ends[0]["options"], serde_json::json!(["SO_PASSCRED"]));
    assert_eq!((&ends[1]["options"], &ends[1]["filter"]), (&serde_json::json!([]), &false.into()));
    sockopt::set_socket_passcred(&far, false).unwrap();
    assert!(finding(&examined(&own(&far), 6), "channel-options").is_none());
    drop(near);
}

fn without_the_rights_of_a_debugger_the_options_are_unknown() {
    let peer = Peer::idle();
    write(&peer.channel, 4000).unwrap();
    let mut whole = peer.examined();
    let refused = |end: &str, code| {
        let program = uncopy(&format!("doctor --json --channel {end}"));
        let getfd = Forbidden::Call(SystemCall::PIDFD_GETFD);
        report(&program.forbidding(&[getfd], uncopy::Errno::EPERM).run(), code)
    };
    let mut part = refused(&peer.end(), 6);
    assert_eq!(ids(&part), ["channel-socket", "channel-options-unseen"], "{part}");
    let found = finding(&part, "channel-options-unseen").unwrap();
    assert_eq!(found["evidence"][0]["found"], "Operation not permitted (EPERM)");
    // Everything else is known without them.
    for end in part["channel"]["ends"].as_array_mut().unwrap() {
        assert_eq!((&end["options"], &end["filter"]), (&Value::Null, &Value::Null));
        (end["options"], end["filter"]) = (serde_json::json!([]), false.into());
    }
    for report in [&mut part, &mut whole] {
        // Processes run and sleep, and other tests open descriptors in this one, and start programs.
        for end in report["channel"]["ends"].as_array_mut().unwrap() {
            end["holders"].as_array_mut().unwrap().truncate(1);
            end["holders"][0]["open_files"] = Value::Null;
            end["holders"][0]["state"] = Value::Null;
        }
    }
    assert_eq!(part["channel"]["ends"], whole["channel"]["ends"]);
    // Sockets of TCP cannot be distinguished from those of other networks then.
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(ids(&refused(&own(&tcp), 7)), ["sockets-hidden"]);
}

fn a_process_near_its_limit_is_found() {
    let peer = Peer::by(Command::new("sh").args(["-c", "ulimit -n 200; exec sleep 1000"]));
    wait_for("sleep", || {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", peer.child.id()));
        name.is_ok_and(|name| name == "sleep\n")
    });
    let seen = peer.examined();
    let found = finding(&seen, "channel-descriptors").unwrap();
    assert_eq!(found["evidence"][0]["found"], "RLIMIT_NOFILE is 200");
    let holder = &seen["channel"]["ends"][0]["holders"][0];
    let open = holder["open_files"].as_u64().unwrap();
    let summary = format!("sleep (pid {}) can open only {} more", peer.child.id(), 200 - open);
    assert!(found["summary"].as_str().unwrap().starts_with(&summary), "{found}");
}

fn descriptors_in_unread_messages_are_counted() {
    let is_root = rustix::process::geteuid().is_root();
    for is_exempt in [false, true].into_iter().filter(|is_exempt| is_root || !is_exempt) {
        descriptors_in_unread_messages(is_root, is_exempt);
    }
}

/// A peer that hoards, as root with or without the capabilities that lift the limit.
fn descriptors_in_unread_messages(is_root: bool, is_exempt: bool) {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-sys_admin,-sys_resource", "--inh-caps=-all"]).arg(&program);
    let mut command = if is_root && !is_exempt { command } else { Command::new(program) };
    let peer = Peer::by(command.env(ROLE, "hoard"));
    let mut seen = Value::Null;
    wait_for("messages with descriptors, and the finding about them", || {
        // Not read by this process, which does not look at its end.
        seen = peer.examined();
        let is_there = seen["channel"]["ends"][1]["unread_descriptors"] == HOARDED;
        is_there && finding(&seen, "channel-in-flight").is_some() != is_exempt
    });
    let Some(found) = finding(&seen, "channel-in-flight") else { return };
    assert_eq!(found["evidence"][0]["found"], format!("scm_fds is {HOARDED}"));
    let limit = found["evidence"][1]["found"].as_str().unwrap();
    assert!(limit.ends_with(&format!("is {}", 2 * HOARDED)), "{limit}");
    for _ in 0..HOARDED / 64 {
        peer.channel.receive(Deadline::after(LONG)).unwrap();
    }
    assert!(finding(&peer.examined(), "channel-in-flight").is_none());
}

fn other_users_learn_nothing() {
    let peer = Peer::idle();
    let run = uncopy(&format!("doctor --json --channel {}", peer.end())).as_user(65534).run();
    let hidden = report(&run, 7);
    assert_eq!(ids(&hidden), ["sockets-hidden"], "{hidden}");
    assert_eq!(hidden.get("channel"), None);
    let found = finding(&hidden, "sockets-hidden").unwrap();
    assert_eq!(found["needs_root"], true);
    // A descriptor that is not there looks the same.
    let words = format!("doctor --json --channel {}:{}", peer.child.id(), i32::MAX);
    report(&uncopy(&words).as_user(65534).run(), 7);
}

/// The socket is of the network in which it was made, whatever network its holders are in later.
fn another_network() {
    let mut end = None;
    isolated(|_| {
        let (near, far) = Channel::pair();
        let far = far.into_fd().unwrap();
        write(&near, 300).unwrap();
        end = Some((near, far));
    });
    let (_near, far) = end.unwrap();
    let seen = examined(&own(&far), 6);
    let found = finding(&seen, "channel-peer-unseen").unwrap();
    assert!(found["evidence"][0]["found"].as_str().unwrap().contains("ENOENT"), "{found}");
    assert_eq!(seen["channel"]["far"], "unknown");
    let end = &seen["channel"]["ends"][0];
    assert_eq!((&end["unread_bytes"], &end["filter"]), (&308.into(), &false.into()), "{seen}");
    assert!(end["send_buffer_bytes"].as_u64() > Some(0), "{seen}");
}
