//! What is to be looked at, from words.

use std::ffi::OsStr;
use std::net::{SocketAddr, ToSocketAddrs};

use uncopy::doctor::Target;

use crate::flags::doctor::DoctorArgs;

/// The targets that the command line names.
///
/// # Errors
/// A sentence for people, which ends in what to do.
pub(super) fn parse(flags: &DoctorArgs) -> Result<Vec<Target>, String> {
    let mut targets = Vec::new();
    for word in &flags.targets {
        targets.push(match address(word)? {
            Some(target) => target,
            None => Target::Device(word.to_string_lossy().into_owned()),
        });
    }
    targets.extend(flags.pid.iter().copied().map(Target::Process));
    if targets.is_empty() {
        return Err("name a target: tcp://HOST:PORT, udp://HOST:PORT, a device, --pid".to_owned());
    }
    Ok(targets)
}

/// An address, if the word looks like one.
fn address(word: &OsStr) -> Result<Option<Target>, String> {
    let Some((scheme, rest)) = word.to_str().and_then(|word| word.split_once("://")) else {
        return Ok(None);
    };
    let make: fn(SocketAddr) -> Target = match scheme {
        "tcp" => Target::Tcp,
        "udp" => Target::Udp,
        _ => return Err(format!("{scheme}:// is not known here; write tcp:// or udp://")),
    };
    let rest = rest.trim_end_matches('/');
    let has_port = rest.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if !has_port {
        return Err(format!("{scheme}://{rest} names no port; write {scheme}://{rest}:PORT"));
    }
    let found = rest.to_socket_addrs().map_err(|error| {
        format!("{rest} is no address ({error}); check the name, and put IPv6 into brackets")
    })?;
    let first = found.into_iter().next();
    first.map(make).map(Some).ok_or_else(|| format!("{rest} has no address; check the name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_devices() {
        let parsed = |word: &str| address(OsStr::new(word));
        assert_eq!(
            parsed("tcp://192.0.2.1:80"),
            Ok(Some(Target::Tcp("192.0.2.1:80".parse().unwrap())))
        );
        assert_eq!(parsed("udp://[::1]:9/"), Ok(Some(Target::Udp("[::1]:9".parse().unwrap()))));
        assert_eq!(parsed("eth0"), Ok(None));
        for (word, expected) in [
            ("sctp://192.0.2.1:80", "write tcp:// or udp://"),
            ("tcp://192.0.2.1", "tcp://192.0.2.1:PORT"),
            ("tcp://[::1]", "tcp://[::1]:PORT"),
            ("udp://::1:99999", "names no port"),
        ] {
            let error = parsed(word).unwrap_err();
            assert!(error.contains(expected), "{word}: {error}");
        }
    }
}
