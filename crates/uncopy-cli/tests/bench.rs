//! `uncopy bench`: both ends over loopback.
#![cfg(target_os = "linux")]

use std::net::{Ipv6Addr, TcpListener, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::LONG;

fn bench(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uncopy"));
    command.arg("bench").args(words.split_whitespace());
    command
}

fn output(words: &str) -> Output {
    bench(words).output().unwrap()
}

#[track_caller]
fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A port for datagrams that nobody uses now.
fn port() -> u16 {
    UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap().local_addr().unwrap().port()
}

/// A receiver of a stream that is there when this returns, and its port.
fn receiver(kind: &str) -> (Child, u16) {
    let table = if kind.starts_with("-6") { "/proc/net/tcp6" } else { "/proc/net/tcp" };
    let begin = Instant::now();
    loop {
        // The kernel may give it to a connection before the receiver has it: then another one.
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let words = format!("recv {kind} -p {port} -t 120 --json");
        let mut child = bench(&words).stdout(Stdio::piped()).spawn().unwrap();
        // Its own address, and TCP_LISTEN (include/net/tcp_states.h).
        let listens = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.len() > 3 && fields[1].ends_with(&format!(":{port:04X}")) && fields[3] == "0A"
        };
        while child.try_wait().unwrap().is_none() {
            if std::fs::read_to_string(table).unwrap().lines().any(listens) {
                return (child, port);
            }
            assert!(begin.elapsed() < LONG, "nobody listens on port {port}");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(begin.elapsed() < LONG, "no port to listen on");
    }
}

#[test]
fn every_mode_sends_what_arrives() {
    for kind in ["-4 tcp", "-6 tcp"] {
        let host = if kind.starts_with("-6") { "::1" } else { "127.0.0.1" };
        for mode in ["copy", "msg-zerocopy", "ring", "ring-registered", "auto"] {
            let (receiver, port) = receiver(kind);
            let words = format!("send {kind} -D {host} -p {port} -t 0.1 --mode {mode} --json");
            let sent = json(&output(&words));
            let received: Value =
                serde_json::from_slice(&receiver.wait_with_output().unwrap().stdout).unwrap();
            assert_eq!(sent["bytes"], received["bytes"], "{kind} {mode}: {sent} {received}");
            assert!(sent["sends"].as_u64().unwrap() > 0, "{sent}");
            assert_eq!(sent["mode"], mode);
            assert_eq!(sent["zero_copy"], false, "over loopback the kernel copies");
            assert_eq!(sent["failed_sends"], 0);
        }
    }
}

#[test]
fn slots_and_trains_are_counted() {
    let port = port();
    let receiver = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    let words = format!(
        "send -4 udp -D 127.0.0.1 -p {port} -t 0.1 --mode ring-registered --slots 3 --gso 1200 --json"
    );
    let sent = json(&output(&words));
    assert_eq!(sent["size_bytes"], 54 * 1200);
    assert_eq!(sent["releases"], sent["sends"]);
    assert!(sent["notifications"].as_u64().unwrap() > 0, "{sent}");
    drop(receiver);
}

#[test]
fn a_run_sends_however_short_its_time_is() {
    let receiver = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let port = receiver.local_addr().unwrap().port();
    for mode in ["copy", "msg-zerocopy", "ring", "ring-registered", "auto"] {
        let words = format!("send -4 udp -D 127.0.0.1 -p {port} -t 0.000001 --mode {mode} --json");
        let sent = json(&output(&words));
        assert!(sent["sends"].as_u64().unwrap() > 0, "{sent}");
    }
}

#[test]
fn the_first_line_is_that_of_the_kernels_tool() {
    let port = port();
    let receiver = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    let output = output(&format!("send -4 udp -D 127.0.0.1 -p {port} -t 0.1 -s 9000 -z"));
    let text = String::from_utf8(output.stdout).unwrap();
    let first: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
    let [tx, _, "MB)", txc, "zc=n"] = first[..] else { panic!("{text}") };
    let count = |word: &str| word.split_once('=').unwrap().1.parse::<u64>().unwrap();
    assert!(count(tx) > 0 && count(tx) == count(txc), "{text}");
    drop(receiver);
}

#[test]
fn a_host_is_found_by_its_name() {
    let port = port();
    let receiver = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    for host in ["localhost", "127.0.0.1", "[127.0.0.1]"] {
        let sent = json(&output(&format!("send -4 udp -D {host} -p {port} -t 0.02 -s 100 --json")));
        assert_eq!(sent["size_bytes"], 100, "{host}");
    }
    drop(receiver);
}

#[test]
fn refusals_name_the_next_step() {
    for (words, expected) in [
        ("send -4 udp -D no.such.host.invalid", "check the name"),
        ("send -4 udp -D ::1", "pass -4 for an IPv4 address"),
        ("send -4 udp -D 127.0.0.1 --slots 1", "pass --mode=ring"),
        ("send -4 udp -D 127.0.0.1 -C 9999", "nproc"),
        ("send -4 udp -D 127.0.0.1 -t 0", "above zero"),
        ("recv -4 udp -t nan", "above zero"),
        ("send -4 udp -D 127.0.0.1 -p 9 --gso 65535", "at most"),
    ] {
        let output = output(words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words}: {text}");
        assert!(text.starts_with("uncopy: cannot ") && text.contains(expected), "{words}: {text}");
    }
    for words in ["send udp -D ::1", "send -4 -6 udp -D ::1", "send -4 udp", "recv -4 sctp"] {
        assert_eq!(output(words).status.code(), Some(2), "{words}");
    }
}
