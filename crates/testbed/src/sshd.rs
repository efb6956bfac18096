//! A server of OpenSSH with keys, configuration and port of its own, which nothing of this machine's touches.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::process::{find_tool, run_tool};
use crate::wait::wait_for;
use crate::{Place, Scratch};

/// Directory that the server's unprivileged half is confined to (`sshd(8)`); packages make it when the machine starts.
const EMPTY: &str = "/run/sshd";

/// A running server on 127.0.0.1 and ::1, which lets this user in by a key.
#[derive(Debug)]
pub struct Sshd {
    server: Child,
    directory: Scratch,
}

impl Sshd {
    /// Starts a server.
    ///
    /// # Panics
    /// If it does not run.
    #[must_use]
    pub fn start() -> Sshd {
        let directory = Place::TestDirectory.scratch();
        // It must be reached and not be written to by others (`StrictModes` looks at keys alone otherwise).
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("our own");
        for name in ["host", "client"] {
            let file = directory.join(name);
            let file = file.to_str().expect("names of tests are UTF-8");
            run_tool("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", file]);
        }
        let key = fs::read_to_string(directory.join("client.pub")).expect("it was made");
        fs::write(directory.join("authorized"), key).expect("our own");
        let sshd = Sshd::on_a_free_port(directory);
        wait_for("server", || TcpStream::connect((Ipv4Addr::LOCALHOST, sshd.port())).is_ok());
        sshd
    }

    fn on_a_free_port(directory: Scratch) -> Sshd {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = free.local_addr().expect("it is bound").port();
        drop(free);
        let shown = |name: &str| directory.join(name).display().to_string();
        let server = format!(
            "Port {port}\nListenAddress 127.0.0.1\nListenAddress ::1\nHostKey {}\nPidFile none\n\
             AuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nPermitRootLogin yes\nPrintMotd no\nLogLevel ERROR\n",
            shown("host"),
            shown("authorized"),
        );
        fs::write(directory.join("sshd_config"), server).expect("our own");
        let host = fs::read_to_string(directory.join("host.pub")).expect("it was made");
        let known = format!("[127.0.0.1]:{port} {host}[::1]:{port} {host}");
        fs::write(directory.join("known"), known).expect("our own");
        let client = format!(
            "Host *\nPort {port}\nIdentityFile {}\nIdentitiesOnly yes\nIdentityAgent none\n\
             UserKnownHostsFile {}\nGlobalKnownHostsFile none\nStrictHostKeyChecking yes\nBatchMode yes\n",
            shown("client"),
            shown("known"),
        );
        fs::write(directory.join("ssh_config"), client).expect("our own");
        if rustix::process::geteuid().is_root() {
            // It may be there.
            let _ = fs::DirBuilder::new().mode(0o755).create(EMPTY);
        }
        let program = find_tool("sshd").expect("the case needs it");
        let server = Command::new(program)
            .args(["-D", "-e", "-f"])
            .arg(directory.join("sshd_config"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a server starts");
        Sshd { server, directory }
    }

    fn port(&self) -> u16 {
        let config = fs::read_to_string(self.directory.join("sshd_config")).expect("our own");
        let line = config.lines().next().and_then(|line| line.strip_prefix("Port "));
        line.and_then(|port| port.parse().ok()).expect("it was written")
    }

    /// Process of the server, whose descendants are the logins.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.server.id()
    }

    /// Configuration of a client that gets in: `ssh -F FILE`.
    #[must_use]
    pub fn client_config(&self) -> PathBuf {
        self.directory.join("ssh_config")
    }

    /// Binds the key of the client to this command, as a line of `authorized_keys` does.
    ///
    /// # Panics
    /// If the command has a quote.
    pub fn bind_key_to(&self, command: &str) {
        assert!(!command.contains('"'), "{command}");
        let key = fs::read_to_string(self.directory.join("client.pub")).expect("it was made");
        let line = format!("restrict,command=\"{command}\" {key}");
        fs::write(self.directory.join("authorized"), line).expect("our own");
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
