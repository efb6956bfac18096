//! Addresses of the far machine, as the remote shell connects to it.

use std::ffi::{OsStr, OsString};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use uncopy_os::inherit;
use uncopy_wire::DataLoss;

use crate::{Address, RemoteShell};

/// Lookup of a machine.
#[derive(Debug, Clone)]
pub(crate) struct Lookup {
    /// Program and arguments that print the settings of ssh for it.
    settings: Option<(OsString, Vec<OsString>)>,
    host: OsString,
}

impl Lookup {
    pub(crate) fn new(shell: &RemoteShell, address: &Address) -> Lookup {
        Lookup { settings: shell.settings_command(address), host: address.host.clone() }
    }

    /// Returns the ciphers that ssh offers, the preferred one first; none where the remote shell is not ssh.
    pub(crate) fn ciphers(&self) -> Vec<String> {
        let Some((program, arguments)) = &self.settings else { return Vec::new() };
        output_of(program, arguments).map(|text| read_ciphers(&text)).unwrap_or_default()
    }

    /// Finds the addresses. `~/.ssh/config` may name another host, or a machine between.
    pub(crate) fn find(self) -> Result<Vec<SocketAddr>, DataLoss> {
        let host = match self.settings {
            Some((program, arguments)) => read_settings(&output_of(&program, &arguments)?)?,
            None => self.host,
        };
        let host = host.to_str().ok_or(DataLoss::Unresolved)?;
        let found = (host, 0).to_socket_addrs().map_err(|_| DataLoss::Unresolved)?;
        Ok(found.collect())
    }
}

fn output_of(program: &OsStr, arguments: &[OsString]) -> Result<Vec<u8>, DataLoss> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
    inherit::ignore_interrupts(&mut command);
    let output = command.output().map_err(|_| DataLoss::Resources)?;
    if output.status.success() { Ok(output.stdout) } else { Err(DataLoss::Unresolved) }
}

fn read_ciphers(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().find_map(|line| line.strip_prefix("ciphers "));
    line.into_iter().flat_map(|ciphers| ciphers.split(',')).map(str::to_owned).collect()
}

/// Reads what `ssh -G` prints (`ssh(1)`).
fn read_settings(text: &[u8]) -> Result<OsString, DataLoss> {
    let mut host = Err(DataLoss::Unresolved);
    for line in text.split(|byte| *byte == b'\n') {
        let Some(space) = line.iter().position(|byte| *byte == b' ') else { continue };
        let (name, value) = (&line[..space], &line[space + 1..]);
        match name.to_ascii_lowercase().as_slice() {
            b"hostname" => host = Ok(OsStr::from_bytes(value).to_owned()),
            b"proxyjump" | b"proxycommand" if value != b"none" => return Err(DataLoss::Proxied),
            _ => {}
        }
    }
    host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ciphers_come_in_the_order_of_ssh() {
        let text = b"user me\nciphers chacha20-poly1305@openssh.com,aes128-ctr\nmacs \xff\n";
        assert_eq!(read_ciphers(text), ["chacha20-poly1305@openssh.com", "aes128-ctr"]);
        assert_eq!(read_ciphers(b"user me\n"), [""; 0]);
    }

    #[test]
    fn settings_of_ssh_name_the_host_and_what_is_between() {
        for (text, expected) in [
            ("user me\nhostname 10.0.0.1\nport 22\n", Ok("10.0.0.1".into())),
            ("hostname fe80::1%eth0\nproxycommand none", Ok("fe80::1%eth0".into())),
            ("hostname a\nproxyjump b\n", Err(DataLoss::Proxied)),
            ("proxycommand nc %h %p\nhostname a\n", Err(DataLoss::Proxied)),
            ("", Err(DataLoss::Unresolved)),
            ("hostname\n", Err(DataLoss::Unresolved)),
        ] {
            assert_eq!(read_settings(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_machine_without_ssh_is_found_by_its_name() {
        let find = |shell: &str, host: &str| {
            let shell = RemoteShell::new(Some(shell.as_ref()), None).unwrap();
            let address = Address { host: host.into(), user: None, port: None };
            Lookup::new(&shell, &address).find()
        };
        assert_eq!(find("rsh", "127.0.0.5"), Ok(vec!["127.0.0.5:0".parse().unwrap()]));
        assert_eq!(find("rsh", "::1"), Ok(vec!["[::1]:0".parse().unwrap()]));
        assert_eq!(find("rsh", "no-such-machine.invalid"), Err(DataLoss::Unresolved));
        assert_eq!(find("/nonexistent/ssh", "127.0.0.5"), Err(DataLoss::Resources));
    }
}
