//! A server of OpenSSH with keys, configuration and port of its own, which nothing of this machine's touches.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Deref;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::process::{find_tool, run_tool};
use crate::wait::wait_for;
use crate::{Place, Scratch};

/// Directory that the server's unprivileged half is confined to (`sshd(8)`); packages make it when the machine starts.
const EMPTY: &str = "/run/sshd";

/// Keys and configuration of a server, and of a client that it lets in as this user.
#[derive(Debug)]
pub struct SshKeys {
    directory: Scratch,
}

impl SshKeys {
    /// Makes keys, and configuration for a server that has these addresses.
    ///
    /// # Panics
    /// If they cannot be made.
    #[must_use]
    pub fn new(addresses: &[IpAddr], port: u16) -> SshKeys {
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
        let shown = |name: &str| directory.join(name).display().to_string();
        let listen: String =
            addresses.iter().map(|address| format!("ListenAddress {address}\n")).collect();
        let server = format!(
            "Port {port}\n{listen}HostKey {}\nPidFile none\n\
             AuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nPermitRootLogin yes\nPrintMotd no\nLogLevel ERROR\n\
             Subsystem sftp internal-sftp\n",
            shown("host"),
            shown("authorized"),
        );
        fs::write(directory.join("sshd_config"), server).expect("our own");
        let host = fs::read_to_string(directory.join("host.pub")).expect("it was made");
        let known: String =
            addresses.iter().map(|address| format!("[{address}]:{port} {host}")).collect();
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
        SshKeys { directory }
    }

    /// Returns the command line of a server, which says what is wrong on its standard error. It wants `-D` (listen)
    /// or `-i` (one connection, which is its standard input).
    ///
    /// # Panics
    /// If there is no sshd.
    #[must_use]
    pub fn server(&self) -> Command {
        let mut command = Command::new(find_tool("sshd").expect("the case needs it"));
        command.args(["-e", "-f"]).arg(self.directory.join("sshd_config"));
        command
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

/// A running server on 127.0.0.1 and ::1, with its keys.
#[derive(Debug)]
pub struct Sshd {
    server: Child,
    keys: SshKeys,
}

impl Sshd {
    /// Starts a server.
    ///
    /// # Panics
    /// If it does not run.
    #[must_use]
    pub fn start() -> Sshd {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = free.local_addr().expect("it is bound").port();
        drop(free);
        let keys = SshKeys::new(&[Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()], port);
        let server = keys
            .server()
            .arg("-D")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a server starts");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        wait_for("server", || TcpStream::connect(address).is_ok());
        Sshd { server, keys }
    }

    /// Returns its process, whose descendants are the ends of connections and what runs there.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.server.id()
    }
}

impl Deref for Sshd {
    type Target = SshKeys;

    fn deref(&self) -> &SshKeys {
        &self.keys
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
