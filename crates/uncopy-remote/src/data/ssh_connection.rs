//! Addresses of the two ends of an ssh connection, as `sshd` says them (`SSH_CONNECTION` in ssh(1)).

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::str::FromStr;

/// Longest name of a network interface (`IFNAMSIZ` less the zero byte).
const MAX_ZONE_BYTES: usize = 15;

/// Address of a machine: an IP address, and the interface that a link-local one belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostAddress {
    ip: IpAddr,
    zone: Option<String>,
}

/// Both ends of an ssh connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshConnection {
    /// Address of the near end, as the far end sees it.
    pub client: HostAddress,
    /// Its port.
    pub client_port: u16,
    /// Address that the near end connected to.
    pub server: HostAddress,
    /// Its port.
    pub server_port: u16,
}

/// Text that does not say between which addresses an ssh connection is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} names no two addresses of an ssh connection ({why}): copy through ssh alone")]
pub struct BadSshConnection {
    /// The text.
    pub given: String,
    /// Reason.
    pub why: &'static str,
}

impl SshConnection {
    /// Returns it with numbers in place of the names of interfaces.
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn with_interface_numbers(self) -> io::Result<SshConnection> {
        let (client, server) =
            (self.client.with_interface_numbers()?, self.server.with_interface_numbers()?);
        Ok(SshConnection { client, server, ..self })
    }
}

impl FromStr for SshConnection {
    type Err = BadSshConnection;

    fn from_str(text: &str) -> Result<SshConnection, BadSshConnection> {
        let bad = |why| BadSshConnection { given: text.to_owned(), why };
        let parts: Vec<&str> = text.split(' ').collect();
        let &[client, client_port, server, server_port] = parts.as_slice() else {
            return Err(bad("it has not four parts"));
        };
        // Written by sshd where the connection is no socket of IP, as behind a proxy.
        if client == "UNKNOWN" || server == "UNKNOWN" {
            return Err(bad("it is not over IP"));
        }
        let address = |part: &str| HostAddress::read(part).map_err(bad);
        let port = |part: &str| match part.parse() {
            Ok(port) if port != 0 && !part.starts_with('+') => Ok(port),
            _ => Err(bad("a port is none")),
        };
        let connection = SshConnection {
            client: address(client)?,
            client_port: port(client_port)?,
            server: address(server)?,
            server_port: port(server_port)?,
        };
        let is_one_family = connection.client.ip.is_ipv4() == connection.server.ip.is_ipv4();
        if is_one_family { Ok(connection) } else { Err(bad("its addresses are of two families")) }
    }
}

impl FromStr for HostAddress {
    type Err = BadSshConnection;

    fn from_str(text: &str) -> Result<HostAddress, BadSshConnection> {
        HostAddress::read(text).map_err(|why| BadSshConnection { given: text.to_owned(), why })
    }
}

impl HostAddress {
    /// Returns the IP address. One of IPv4 within IPv6 is one of IPv4.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    fn read(text: &str) -> Result<HostAddress, &'static str> {
        let (ip, zone) = match text.split_once('%') {
            Some((ip, zone)) => (ip, Some(zone)),
            None => (text, None),
        };
        let ip: IpAddr = ip.parse().map_err(|_| "an address is none")?;
        match zone {
            Some(_) if ip.is_ipv4() => Err("an address of IPv4 has a zone"),
            Some(zone) if !is_zone(zone) => Err("a zone is no name of an interface"),
            _ => Ok(HostAddress { ip: ip.to_canonical(), zone: zone.map(str::to_owned) }),
        }
    }

    fn with_interface_numbers(self) -> io::Result<HostAddress> {
        let number = self.zone.as_deref().map(interface_number).transpose()?;
        Ok(HostAddress { zone: number.map(|number| number.to_string()), ..self })
    }

    /// Returns the address with a port; the zone becomes the interface's number.
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn with_port(&self, port: u16) -> io::Result<SocketAddr> {
        match (self.ip, &self.zone) {
            (IpAddr::V6(ip), Some(zone)) => {
                Ok(SocketAddrV6::new(ip, port, 0, interface_number(zone)?).into())
            }
            (ip, _) => Ok(SocketAddr::new(ip, port)),
        }
    }
}

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.zone {
            Some(zone) => write!(f, "{}%{zone}", self.ip),
            None => self.ip.fmt(f),
        }
    }
}

/// Whether a text can be the name or number of an interface (`dev_valid_name` of Linux).
fn is_zone(zone: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_graphic() && !['/', ':', '%'].contains(&c);
    (1..=MAX_ZONE_BYTES).contains(&zone.len())
        && zone != "."
        && zone != ".."
        && zone.chars().all(is_plain)
}

fn interface_number(zone: &str) -> io::Result<u32> {
    if let Ok(number) = zone.parse() {
        return Ok(number);
    }
    let number = std::fs::read_to_string(format!("/sys/class/net/{zone}/ifindex"))?;
    number.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str, zone: Option<&str>) -> HostAddress {
        HostAddress { ip: text.parse().unwrap(), zone: zone.map(str::to_owned) }
    }

    #[test]
    fn connections_are_read() {
        let good = [
            ("10.0.0.1 50000 10.0.0.2 22", host("10.0.0.1", None), host("10.0.0.2", None)),
            (
                "2001:db8::1 50000 2001:db8::2 22",
                host("2001:db8::1", None),
                host("2001:db8::2", None),
            ),
            ("::1 50000 ::1 22", host("::1", None), host("::1", None)),
            (
                "fe80::1%eth0 50000 fe80::2%eth0 22",
                host("fe80::1", Some("eth0")),
                host("fe80::2", Some("eth0")),
            ),
            (
                "fe80::1%2 50000 fe80::2%2 22",
                host("fe80::1", Some("2")),
                host("fe80::2", Some("2")),
            ),
            (
                "fe80::1%br-5.10 50000 fe80::2 22",
                host("fe80::1", Some("br-5.10")),
                host("fe80::2", None),
            ),
            ("::ffff:10.0.0.1 50000 10.0.0.2 22", host("10.0.0.1", None), host("10.0.0.2", None)),
        ];
        for (text, client, server) in good {
            let expected = SshConnection { client, client_port: 50000, server, server_port: 22 };
            assert_eq!(text.parse(), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let bad = [
            ("", "it has not four parts"),
            ("10.0.0.1 50000 10.0.0.2", "it has not four parts"),
            ("10.0.0.1 50000 10.0.0.2 22 more", "it has not four parts"),
            ("10.0.0.1  50000 10.0.0.2 22", "it has not four parts"),
            ("UNKNOWN 65535 UNKNOWN 65535", "it is not over IP"),
            ("10.0.0.1 50000 UNKNOWN 65535", "it is not over IP"),
            ("10.0.0 50000 10.0.0.2 22", "an address is none"),
            ("host 50000 10.0.0.2 22", "an address is none"),
            ("[::1] 50000 ::1 22", "an address is none"),
            ("10.0.0.1 0 10.0.0.2 22", "a port is none"),
            ("10.0.0.1 +5 10.0.0.2 22", "a port is none"),
            ("10.0.0.1 65536 10.0.0.2 22", "a port is none"),
            ("10.0.0.1 50000 10.0.0.2 ssh", "a port is none"),
            ("10.0.0.1 50000 10.0.0.2 22\n", "a port is none"),
            ("10.0.0.1%eth0 50000 10.0.0.2 22", "an address of IPv4 has a zone"),
            ("fe80::1% 50000 fe80::2 22", "a zone is no name of an interface"),
            ("fe80::1%../.. 50000 fe80::2 22", "a zone is no name of an interface"),
            ("fe80::1%.. 50000 fe80::2 22", "a zone is no name of an interface"),
            ("fe80::1%a%b 50000 fe80::2 22", "a zone is no name of an interface"),
            ("fe80::1%sixteen-letters- 50000 fe80::2 22", "a zone is no name of an interface"),
            ("10.0.0.1 50000 ::1 22", "its addresses are of two families"),
        ];
        for (text, why) in bad {
            let expected = BadSshConnection { given: text.to_owned(), why };
            assert_eq!(text.parse::<SshConnection>(), Err(expected));
        }
    }

    #[test]
    fn a_zone_becomes_a_number() {
        let with_port = |text: &str| text.parse::<HostAddress>().unwrap().with_port(7);
        let loopback = std::fs::read_to_string("/sys/class/net/lo/ifindex").unwrap();
        let number: u32 = loopback.trim().parse().unwrap();
        for text in ["fe80::1%lo".to_owned(), format!("fe80::1%{number}")] {
            let expected = SocketAddrV6::new("fe80::1".parse().unwrap(), 7, 0, number);
            assert_eq!(with_port(&text).unwrap(), expected.into(), "{text}");
        }
        assert_eq!(with_port("10.0.0.1").unwrap(), "10.0.0.1:7".parse().unwrap());
        assert_eq!(with_port("fe80::1%none-such").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!("fe80::1%lo".parse::<HostAddress>().unwrap().to_string(), "fe80::1%lo");
    }
}
