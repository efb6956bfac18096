//! Servers that cannot be used, and those that ask for more than an address.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;

use testbed::{Case, NatsServer, Need, Run, run_tool};

use super::{SERVER, do_work, of_plan, submit};
use crate::work::{Work, failed};

pub(super) fn cases() -> Vec<Case> {
    testbed::cases![
        [] servers_that_are_not_there,
        [] servers_that_are_too_old,
        [SERVER] servers_without_a_queue,
        [SERVER] passwords_and_credentials,
        [SERVER, Need::Tool("openssl")] certificates,
    ]
}

fn planned() -> Work {
    let work = Work::new();
    work.fill(10);
    work.plan(&[]);
    work
}

/// Runs each command that needs a server.
fn each(work: &Work, url: &str, check: impl Fn(&Run)) {
    for name in ["submit", "work", "status"] {
        check(&of_plan(name, work, url).run());
    }
}

fn servers_that_are_not_there() {
    let work = planned();
    // Bound and never listened at.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    each(&work, &format!("nats://{closed}"), |run| {
        assert!(failed(run, 11).contains("cannot connect to"), "{}", run.stderr);
        assert!(run.stderr.contains("check the address"), "{}", run.stderr);
    });
    each(&work, "nats://no such host", |run| {
        failed(run, 2);
    });
}

/// A server that says so, and takes everything.
fn servers_that_are_too_old() {
    let work = planned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let info = "INFO {\"server_id\":\"x\",\"version\":\"2.8.4\",\"jetstream\":true,\"headers\":true,\"max_payload\":1048576}\r\n";
            let _ = connection.write_all(info.as_bytes());
            let mut answers = connection.try_clone().unwrap();
            for line in BufReader::new(connection).lines().map_while(Result::ok) {
                if line == "PING" {
                    let _ = answers.write_all(b"PONG\r\n");
                }
            }
        }
    });
    each(&work, &format!("nats://{address}"), |run| {
        assert!(failed(run, 11).contains("has version 2.8.4"), "{}", run.stderr);
        assert!(run.stderr.contains("2.9 or newer"), "{}", run.stderr);
    });
}

fn servers_without_a_queue() {
    let work = planned();
    let bare = NatsServer::start_with("");
    each(&work, &bare.url(), |run| {
        assert!(failed(run, 11).contains("no JetStream"), "{}", run.stderr);
    });
    let server = NatsServer::start();
    let run = do_work(&work, &server.url());
    assert!(failed(&run, 1).contains("run `uncopy fleet submit`"), "{}", run.stderr);
}

fn passwords_and_credentials() {
    let work = planned();
    let settings =
        "jetstream: { store_dir: \"DIRECTORY\" }\nauthorization { user: u, password: right }";
    let server = NatsServer::start_with(settings);
    let address = server.address();
    for url in [server.url(), format!("nats://u:wrong@{address}")] {
        each(&work, &url, |run| {
            assert!(failed(run, 11).contains("--credentials"), "{}", run.stderr);
        });
    }
    let credentials = work.scratch.join("no credentials");
    let run =
        |file: &Path| of_plan("submit", &work, &server.url()).arg("--credentials").arg(file).run();
    assert!(failed(&run(&credentials), 1).contains("no credentials"));
    fs::write(&credentials, "nothing of the kind").unwrap();
    failed(&run(&credentials), 1);
    let url = format!("nats://u:right@{address}");
    submit(&work, &url);
    assert!(do_work(&work, &url).status.success());
    work.assert_done();
}

/// Makes an authority, and a server's certificate from it.
fn make_certificates(directory: &Path) {
    let at = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let authority = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
    let rest = ["-nodes", "-days", "2", "-subj", "/CN=test authority", "-keyout"];
    let words = authority.iter().chain(&rest).map(ToString::to_string);
    run_tool("openssl", words.chain([at("ca.key"), "-out".into(), at("ca.pem")]));
    let request = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let words =
        request.iter().map(ToString::to_string).chain(["-subj".into(), "/CN=server".into()]);
    let files = ["-keyout".into(), at("server.key"), "-out".into(), at("server.csr")];
    run_tool("openssl", words.chain(files));
    fs::write(directory.join("extensions"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    let words = ["x509", "-req", "-days", "2", "-CAcreateserial", "-extfile"];
    let files = [
        at("extensions"),
        "-in".into(),
        at("server.csr"),
        "-CA".into(),
        at("ca.pem"),
        "-CAkey".into(),
        at("ca.key"),
        "-out".into(),
        at("server.pem"),
    ];
    run_tool("openssl", words.iter().map(ToString::to_string).chain(files));
}

fn certificates() {
    let work = planned();
    make_certificates(work.scratch.path());
    let at = |name: &str| work.scratch.join(name).display().to_string();
    let server = NatsServer::start_with(&format!(
        "jetstream: {{ store_dir: \"DIRECTORY\" }}\ntls {{ cert_file: \"{}\", key_file: \"{}\" }}",
        at("server.pem"),
        at("server.key")
    ));
    each(&work, &server.url(), |run| {
        assert!(failed(run, 11).contains("--tls-ca"), "{}", run.stderr);
    });
    let other = work.scratch.join("other");
    fs::create_dir(&other).unwrap();
    make_certificates(&other);
    let of_other = |name: &str, url: &str| {
        of_plan(name, &work, url).arg("--tls-ca").arg(other.join("ca.pem")).run()
    };
    for name in ["submit", "work", "status"] {
        let run = of_other(name, &server.url());
        assert!(failed(&run, 11).contains("certificate"), "{}", run.stderr);
        assert!(run.stderr.contains("--tls-ca"), "{}", run.stderr);
    }
    let with_authority =
        |name: &str| of_plan(name, &work, &server.url()).args(["--tls-ca", &at("ca.pem")]).run();
    for name in ["submit", "work", "status"] {
        let run = with_authority(name);
        assert!(run.status.success(), "{name}: {}", run.stderr);
    }
    work.assert_done();
}
