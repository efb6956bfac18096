//! `uncopy bench`: both ends over loopback, and the sending one over a device that does not copy.

mod kernel_tool;

use std::io::{Read, Write};
use std::net::{Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::network::{NEEDS, isolated};
use testbed::{Case, LONG, Need, cases, wait_for};
use uncopy::doctor::{GREETING, HELLO};

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

/// Whether a socket without a peer has the port: one that listens, or one for datagrams. Connections that have ended keep
/// their ports for a minute (`TIME_WAIT`), and do not count.
fn is_received_at(port: u16, protocol: &str, family: &str) -> bool {
    let table = std::fs::read_to_string(format!("/proc/net/{protocol}{family}")).unwrap();
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, peer, ..] = fields[..] else { return false };
        local.ends_with(&format!(":{port:04X}")) && peer.ends_with(":0000")
    })
}

/// A receiver of a stream that is there when this returns, and its port.
fn receiver(kind: &str) -> (Child, u16) {
    let family = if kind.starts_with("-6") { "6" } else { "" };
    let begin = Instant::now();
    loop {
        // The kernel may give it to a connection before the receiver has it: then another one.
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let words = format!("recv {kind} -p {port} -t 120 --json");
        let mut child = bench(&words).stdout(Stdio::piped()).spawn().unwrap();
        while child.try_wait().unwrap().is_none() {
            if is_received_at(port, "tcp", family) {
                return (child, port);
            }
            assert!(begin.elapsed() < LONG, "nobody listens on port {port}");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(begin.elapsed() < LONG, "no port to listen on");
    }
}

/// Batches of at most 1 MiB, of which two are in use: the default takes 8 MiB, all that an ordinary user may
/// lock.
const SMALL: &str = "--batch 8";
const LOCKED: Need = Need::LockedMemory(2);

fn every_mode_sends_what_arrives() {
    for kind in ["-4 tcp", "-6 tcp"] {
        let host = if kind.starts_with("-6") { "::1" } else { "127.0.0.1" };
        for mode in MODES {
            let (receiver, port) = receiver(kind);
            let words =
                format!("send {kind} -D {host} -p {port} -t 0.1 {SMALL} --mode {mode} --json");
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

fn slots_and_trains_are_counted() {
    let port = port();
    let receiver = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    let words = format!(
        "send -4 udp -D 127.0.0.1 -p {port} -t 0.1 {SMALL} --mode ring-registered --slots 3 --gso 1200 \
         --json"
    );
    let sent = json(&output(&words));
    assert_eq!(sent["size_bytes"], 54 * 1200);
    assert_eq!(sent["releases"], sent["sends"]);
    assert!(sent["notifications"].as_u64().unwrap() > 0, "{sent}");
    drop(receiver);
}

fn a_run_sends_however_short_its_time_is() {
    let receiver = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let port = receiver.local_addr().unwrap().port();
    for mode in MODES {
        let words =
            format!("send -4 udp -D 127.0.0.1 -p {port} -t 0.000001 {SMALL} --mode {mode} --json");
        let sent = json(&output(&words));
        assert!(sent["sends"].as_u64().unwrap() > 0, "{sent}");
    }
}

/// A run that is over at once is one batch.
fn a_batch_has_as_many_sends_as_were_named() {
    let receiver = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let port = receiver.local_addr().unwrap().port();
    for (mode, default) in MODES.map(|mode| (mode, if mode.starts_with("ring") { 64 } else { 16 }))
    {
        for (batch, expected) in [("", default), ("--batch 7", 7), ("--batch 200", 200)] {
            let sent = json(&output(&format!(
                "send -4 udp -D 127.0.0.1 -p {port} -t 0.000001 -s 600 --mode {mode} {batch} --json"
            )));
            assert_eq!(sent["sends"], expected, "{mode} {batch}: {sent}");
            let figure = |key: &str| sent[key].as_f64().unwrap();
            let rate = figure("sends") / figure("wall_seconds");
            assert!((figure("requests_per_second") / rate - 1.0).abs() < 1e-6, "{sent}");
        }
    }
}

/// Both kinds of memory are under one notifier: of a pool of huge pages as elsewhere.
fn registered_and_other_memory_is_sent_in_turn() {
    let receiver = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let port = receiver.local_addr().unwrap().port();
    for (batch, slots) in [(2, 1), (64, 3)] {
        let sent = json(&output(&format!(
            "send -4 udp -D 127.0.0.1 -p {port} -t 0.05 -s 600 --mode ring-mixed --batch {batch} \
             --slots {slots} --json"
        )));
        assert!(sent["huge_pages"].is_boolean(), "{sent}");
        assert_eq!(sent["releases"], sent["sends"], "{sent}");
        let count = |key: &str| sent[key].as_u64().unwrap();
        // A batch is shorter where no more buffers are free.
        let notified = count("notifications");
        assert!(notified > 0 && notified * batch >= count("sends"), "{sent}");
    }
}

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

fn a_receiver_of_datagrams_counts_them_and_answers_a_probe() {
    let port = port();
    let words = format!("recv -4 udp -p {port} -t 5 --json");
    let receiver = bench(&words).stdout(Stdio::piped()).spawn().unwrap();
    let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    socket.connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let (begin, mut room) = (Instant::now(), [0; 1000]);
    loop {
        // Refused as long as the receiver is not there.
        let _ = socket.send(HELLO);
        if let Ok(length) = socket.recv(&mut room) {
            assert_eq!(room[..length], *GREETING);
            break;
        }
        assert!(begin.elapsed() < LONG, "nobody answers");
    }
    for _ in 0..3 {
        socket.send(&room).unwrap();
    }
    let received = json(&receiver.wait_with_output().unwrap());
    let count = |key: &str| received[key].as_u64().unwrap();
    let greeted = (count("receives") - 3) * HELLO.len() as u64;
    assert!(greeted > 0 && count("bytes") == greeted + 3000, "{received}");
}

fn a_receiver_that_nobody_calls_or_that_is_left_says_so() {
    let port = port();
    for kind in ["tcp", "udp"] {
        let output = output(&format!("recv -4 {kind} -p {port} -t 0.05"));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "rx=0 (0 MB)\n");
        assert!(output.status.success(), "{output:?}");
    }
    let (receiver, port) = receiver("-4 tcp");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(&[7; 100]).unwrap();
    // A reset, in place of the end of the stream.
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
    let received = json(&receiver.wait_with_output().unwrap());
    assert!(received["bytes"].as_u64().unwrap() <= 100, "{received}");
}

fn a_run_stays_on_its_processor_and_says_what_was_copied_by_choice() {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let own = (0..rustix::thread::CpuSet::MAX_CPU).find(|number| allowed.is_set(*number)).unwrap();
    let receiver = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let port = receiver.local_addr().unwrap().port();
    let words = format!("send -4 udp -D 127.0.0.1 -p {port} -t 0.02 -s 100 --mode auto -C {own}");
    let output = output(&words);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("\ncopied by choice: "), "{output:?}");
}

fn a_port_in_use_is_refused() {
    let datagrams = UdpSocket::bind(("0.0.0.0", 0)).unwrap();
    let listener = TcpListener::bind(("0.0.0.0", 0)).unwrap();
    for (kind, taken) in [("udp", datagrams.local_addr()), ("tcp", listener.local_addr())] {
        let output = output(&format!("recv -4 {kind} -p {} -t 1", taken.unwrap().port()));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("in use") && text.contains("; choose another port (-p)"), "{text}");
    }
}

fn a_host_is_found_by_its_name() {
    let port = port();
    let receiver = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    for host in ["localhost", "127.0.0.1", "[127.0.0.1]"] {
        let sent = json(&output(&format!("send -4 udp -D {host} -p {port} -t 0.02 -s 100 --json")));
        assert_eq!(sent["size_bytes"], 100, "{host}");
    }
    drop(receiver);
}

fn refusals_name_the_next_step() {
    for (words, expected) in [
        ("send -4 udp -D no.such.host.invalid", "check the name"),
        ("send -4 udp -D ::1", "pass -4 for an IPv4 address"),
        ("send -4 udp -D 127.0.0.1 --slots 1", "pass --mode=ring, ring-registered or ring-mixed"),
        ("send -4 udp -D 127.0.0.1 -C 9999", "nproc"),
        ("send -4 udp -D 127.0.0.1 -C 1023", "nproc"),
        ("send -4 udp -D 127.0.0.1 -t 0", "above zero"),
        ("recv -4 udp -t nan", "above zero"),
        ("recv -4 udp -t 1e19", "up to a year"),
        ("send -4 udp -D 127.0.0.1 -t 1e19", "up to a year"),
        ("send -4 tcp -D 127.0.0.1 -s 18446744073709551615", "pass a smaller size"),
        ("send -4 tcp -D 127.0.0.1 -s 1073741825", "pass a smaller size"),
        ("send -4 udp -D 127.0.0.1 -p 9 --gso 65535", "at most"),
    ] {
        let output = output(words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words}: {text}");
        assert!(text.starts_with("uncopy: cannot ") && text.contains(expected), "{words}: {text}");
    }
    for words in ["send -4 udp -D ::1 --batch 0", "send -4 udp -D ::1 --batch 1025"] {
        assert_eq!(output(words).status.code(), Some(2), "{words}");
    }
    for words in ["send udp -D ::1", "send -4 -6 udp -D ::1", "send -4 udp", "recv -4 sctp"] {
        assert_eq!(output(words).status.code(), Some(2), "{words}");
    }
}

/// The bytes that the kernel's tool sends and checks for.
fn pattern(length: usize) -> Vec<u8> {
    (b'a'..=b'z').cycle().take(length).collect()
}

const MODES: [&str; 6] = ["copy", "msg-zerocopy", "ring", "ring-registered", "ring-mixed", "auto"];

fn a_stream_is_looked_at_byte_for_byte() {
    for (is_v6, mode) in [false, true].into_iter().flat_map(|v6| MODES.map(|mode| (v6, mode))) {
        let (family, host) = if is_v6 { ("-6", "::1") } else { ("-4", "127.0.0.1") };
        let listener = TcpListener::bind((host, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
            bytes
        });
        let words =
            format!("send {family} tcp -D {host} -p {port} -t 0.02 -s 30011 {SMALL} --mode {mode}");
        let sent = json(&output(&format!("{words} --json")));
        let bytes = received.join().unwrap();
        assert_eq!(sent["bytes"].as_u64().unwrap(), bytes.len() as u64, "{mode}: {sent}");
        let (whole, rest) = bytes.as_chunks::<30_011>();
        assert!(!whole.is_empty() && rest.is_empty(), "{mode}: {}", bytes.len());
        let expected = pattern(30_011);
        assert!(whole.iter().all(|send| send[..] == expected), "{mode}, {family}");
    }
}

fn datagrams_are_looked_at_byte_for_byte() {
    for (is_v6, mode) in [false, true].into_iter().flat_map(|v6| MODES.map(|mode| (v6, mode))) {
        let (family, host) = if is_v6 { ("-6", "::1") } else { ("-4", "127.0.0.1") };
        let receiver = UdpSocket::bind((host, 0)).unwrap();
        let port = receiver.local_addr().unwrap().port();
        receiver.set_nonblocking(true).unwrap();
        let words =
            format!("send {family} udp -D {host} -p {port} -t 0.01 -s 9001 {SMALL} --mode {mode}");
        let sent = json(&output(&format!("{words} --json")));
        assert!(sent["sends"].as_u64().unwrap() > 0, "{sent}");
        // As many as there was room for.
        let (mut received, mut bytes) = (0, [0; 20_000]);
        while let Ok(length) = receiver.recv(&mut bytes) {
            assert!(bytes[..length] == pattern(9001), "{mode}, {family}: {length} bytes");
            received += 1;
        }
        assert!(received > 0, "{mode}, {family}");
    }
}

/// The list of processors in a process's status, for this process or a child.
fn processors(id: u32) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(list.trim().to_owned())
}

fn it_runs_on_the_processor_that_is_named() {
    let all = processors(std::process::id()).unwrap();
    // The last: whoever names none, or forgets it, is on the others too.
    let last = all.rsplit([',', '-']).next().unwrap().to_owned();
    let receiver = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let port = receiver.local_addr().unwrap().port();
    for words in [
        format!("send -4 udp -D 127.0.0.1 -p {port} -t 60 -C {last}"),
        format!("recv -4 udp -p 0 -t 60 -C {last}"),
    ] {
        let mut child = bench(&words).stdout(Stdio::null()).spawn().unwrap();
        wait_for("place on the processor", || processors(child.id()).as_ref() == Some(&last));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

fn the_line_says_where_nothing_is_copied() {
    isolated(|network| {
        network.sink();
        for (words, expected) in [
            ("-4 udp -D 10.11.0.2 -z", "zc=y"),
            ("-6 udp -D fd11::2 --mode ring-registered", "zc=y"),
            ("-6 udp -D fd11::2 --mode copy", "zc=n"),
        ] {
            let output = output(&format!("send {words} -p 9 -s 30000 -t 0.05"));
            let text = String::from_utf8(output.stdout).unwrap();
            let first = text.lines().next().unwrap_or_default();
            assert!(first.starts_with("tx=") && first.ends_with(expected), "{words}: {text}");
        }
    });
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases![
        [LOCKED] every_mode_sends_what_arrives,
        [LOCKED] slots_and_trains_are_counted,
        [LOCKED] a_run_sends_however_short_its_time_is,
        [LOCKED] a_batch_has_as_many_sends_as_were_named,
        [LOCKED] registered_and_other_memory_is_sent_in_turn,
        [LOCKED] the_first_line_is_that_of_the_kernels_tool,
        [] a_host_is_found_by_its_name,
        [] refusals_name_the_next_step,
        [LOCKED] a_stream_is_looked_at_byte_for_byte,
        [LOCKED] datagrams_are_looked_at_byte_for_byte,
        [LOCKED] it_runs_on_the_processor_that_is_named,
        [] a_receiver_of_datagrams_counts_them_and_answers_a_probe,
        [] a_receiver_that_nobody_calls_or_that_is_left_says_so,
        [LOCKED] a_run_stays_on_its_processor_and_says_what_was_copied_by_choice,
        [] a_port_in_use_is_refused,
    ];
    let name = "bench::the_line_says_where_nothing_is_copied";
    cases.push(Case::new(name, NEEDS, the_line_says_where_nothing_is_copied));
    cases.extend(kernel_tool::cases());
    cases
}
