//! `uncopy fleet submit|work|status` with a real server of NATS.

mod between;
mod killed;
mod refused;
mod servers;
mod users;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use testbed::{Case, Need, Program, Run};

use super::work::{Work, fleet};

/// Need of every test with a server.
const SERVER: Need = Need::Tool("nats-server");

pub(crate) fn cases() -> Vec<Case> {
    let cases =
        [between::cases(), killed::cases(), refused::cases(), servers::cases(), users::cases()];
    cases.into_iter().flatten().collect()
}

/// `uncopy fleet NAME DIR --server URL`.
fn of_plan(name: &str, work: &Work, url: &str) -> Program {
    let program = fleet([name]).arg(work.directory()).args(["--server", url, "--program"]);
    work.in_environment(program.arg(work.uncopy()))
}

fn submit(work: &Work, url: &str) -> Run {
    let run = of_plan("submit", work, url).arg("--ack-wait=1s").run();
    assert!(run.status.success(), "{}{}", run.stderr, run.stdout);
    run
}

fn do_work(work: &Work, url: &str) -> Run {
    of_plan("work", work, url).run()
}

/// State of the queue.
fn queue(work: &Work, url: &str) -> serde_json::Value {
    let run = of_plan("status", work, url).arg("--json").run();
    let line = run.stdout.lines().nth(1);
    serde_json::from_str(line.unwrap_or_else(|| panic!("{}{}", run.stdout, run.stderr))).unwrap()
}

/// Publishes a message by the protocol itself.
fn publish(server: SocketAddr, subject: &str, payload: &str) {
    let mut connection = TcpStream::connect(server).unwrap();
    let text = format!(
        "CONNECT {{\"verbose\":false}}\r\nPUB {subject} {}\r\n{payload}\r\nPING\r\n",
        payload.len()
    );
    connection.write_all(text.as_bytes()).unwrap();
    let lines = BufReader::new(connection).lines();
    let mut lines = lines.map(Result::unwrap).take_while(|line| !line.starts_with("-ERR"));
    assert!(lines.any(|line| line == "PONG"), "the server did not take it");
}
