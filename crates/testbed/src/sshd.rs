//! A server of OpenSSH with keys, configuration and port of its own, which nothing of this machine's touches.

use std::ffi::OsStr;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Deref;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::process::{find_tool, run_tool};
use crate::wait::wait_for;
use crate::{Place, Scratch};

/// Directory that the server's unprivileged half is confined to (`sshd(8)`); packages make it when the machine starts.
const EMPTY: &str = "/run/sshd";

/// Name of a user of a test's own, who has a shell.
const USER: &str = "uncopy-test";

/// How a server runs.
#[derive(Debug, Clone)]
pub struct SshdSetup {
    /// Addresses that it listens on; the first one has to be there at once.
    pub addresses: Vec<IpAddr>,
    /// Number of a user without privileges who runs it, and logs in. Needs root.
    pub user: Option<u32>,
}

impl Default for SshdSetup {
    fn default() -> SshdSetup {
        SshdSetup {
            addresses: vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
            user: None,
        }
    }
}

/// Keys and configuration of a server, and of a client that it lets in as this user.
#[derive(Debug)]
pub struct SshKeys {
    directory: Scratch,
    /// Words of a command line before a program of the user who may log in.
    wrapper: Vec<String>,
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
        SshKeys { directory, wrapper: Vec::new() }
    }

    /// Gives the files to a user without privileges, who logs in then. Needs root.
    fn of_user(self, user: u32) -> SshKeys {
        SshKeys { wrapper: wrapper_of(&self.directory, user), ..self }
    }

    /// Words of a command line before a program of the user who may log in.
    #[must_use]
    pub fn as_its_user(&self) -> &[String] {
        &self.wrapper
    }

    /// Returns the command line of a server, which says what is wrong on its standard error. It wants `-D` (listen)
    /// or `-i` (one connection, which is its standard input).
    ///
    /// # Panics
    /// If there is no sshd.
    #[must_use]
    pub fn server(&self) -> Command {
        let program = find_tool("sshd").expect("the case needs it");
        let mut words = self.wrapper.iter().map(OsStr::new).chain([program.as_os_str()]);
        let mut command = Command::new(words.next().expect("one at least"));
        command.args(words).args(["-e", "-f"]).arg(self.directory.join("sshd_config"));
        command
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

/// A running server, with its keys.
#[derive(Debug)]
pub struct Sshd {
    server: Child,
    keys: SshKeys,
}

impl Sshd {
    /// Starts a server of this user, for this user.
    ///
    /// # Panics
    /// If it does not run.
    #[must_use]
    pub fn start() -> Sshd {
        Sshd::start_with(&SshdSetup::default())
    }

    /// Starts a server.
    ///
    /// # Panics
    /// If it does not run.
    #[must_use]
    pub fn start_with(setup: &SshdSetup) -> Sshd {
        let first = setup.addresses[0];
        let free = TcpListener::bind((first, 0)).expect("a port is free");
        let port = free.local_addr().expect("it is bound").port();
        drop(free);
        let keys = SshKeys::new(&setup.addresses, port);
        let keys = match setup.user {
            Some(user) => keys.of_user(user),
            None => keys,
        };
        let server = keys
            .server()
            .arg("-D")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a server starts");
        let address = SocketAddr::new(first, port);
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

/// Gives the files of a server to a user, who gets a name and a shell in a mount namespace of each program.
fn wrapper_of(directory: &Scratch, user: u32) -> Vec<String> {
    let everyone = fs::read_to_string("/etc/passwd").expect("there are users");
    let home = directory.display();
    let own = format!("{USER}:x:{user}:{user}::{home}:/bin/sh\n");
    fs::write(directory.join("passwd"), format!("{own}{everyone}")).expect("our own");
    chown(directory.path(), Some(user), Some(user)).expect("root gives files away");
    for name in ["host", "client", "authorized", "known", "sshd_config", "ssh_config"] {
        chown(directory.join(name), Some(user), Some(user)).expect("root gives files away");
    }
    let as_user = "mount --bind \"$0\" /etc/passwd && exec \"$@\"";
    let passwd = directory.join("passwd").display().to_string();
    let ids = [format!("--reuid={user}"), format!("--regid={user}")];
    let words = ["unshare", "--mount", "sh", "-c", as_user, &passwd, "setpriv", &ids[0], &ids[1]];
    let words = words.into_iter().chain(["--clear-groups", "--inh-caps=-all"]);
    words.map(str::to_owned).collect()
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
