//! A server of NATS with JetStream, with a directory and a port of its own on 127.0.0.1.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use crate::process::find_tool;
use crate::wait::wait_for;
use crate::{Place, Scratch};

/// A server, which keeps its queues when it is killed and started again.
#[derive(Debug)]
pub struct NatsServer {
    directory: Scratch,
    address: SocketAddr,
    server: Option<Child>,
}

impl NatsServer {
    /// Starts a server with JetStream.
    ///
    /// # Panics
    /// If it does not run.
    #[must_use]
    pub fn start() -> NatsServer {
        NatsServer::start_with("jetstream: { store_dir: \"DIRECTORY\" }")
    }

    /// Starts a server with these settings, in which `DIRECTORY` stands for a directory of its own.
    ///
    /// # Panics
    /// If it does not run.
    #[must_use]
    pub fn start_with(settings: &str) -> NatsServer {
        let directory = Place::TestDirectory.scratch();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let address = free.local_addr().expect("it is bound");
        drop(free);
        let shown = directory.path().display().to_string();
        let settings = settings.replace("DIRECTORY", &shown);
        fs::write(directory.join("nats.conf"), format!("listen: \"{address}\"\n{settings}\n"))
            .expect("our own");
        let mut server = NatsServer { directory, address, server: None };
        server.restart();
        server
    }

    /// Starts it again after [`kill`](NatsServer::kill), at the same address.
    ///
    /// # Panics
    /// If it does not run.
    pub fn restart(&mut self) {
        let program = find_tool("nats-server").expect("the case needs it");
        let started = Command::new(program)
            .arg("-c")
            .arg(self.directory.join("nats.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.server = Some(started.expect("a server starts"));
        wait_for("server", || TcpStream::connect(self.address).is_ok());
    }

    /// Kills it, as a failure of its machine does.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }

    /// Returns its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its address for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}
