//! Parser of the targets of `uncopy doctor`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

use clap::error::ErrorKind;
use clap::{Args, Command};
use uncopy::copy::CopyOption;
use uncopy::doctor::{Target, device_index};

use crate::config::Configured;
use crate::cp;
use crate::cp::target::{self, Names, Reading, Route};
use crate::flags::copy::CopyArgs;
use crate::flags::doctor::{ChannelArg, DoctorArgs};
use crate::flags::{short, usage_error};

/// Copy between this machine and another one.
pub(super) struct Between {
    pub(super) flags: CopyArgs,
    pub(super) names: Names,
}

impl fmt::Display for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = self.names.sources.first().cloned().unwrap_or_default();
        let destination = self.names.destination.clone();
        let (source, destination) = match &self.names.route {
            Route::Pull(machine) => (machine.with_path(&source), destination),
            Route::Push(machine) => (source, machine.with_path(&destination)),
            Route::Here => (source, destination),
        };
        write!(f, "{} -> {}", source.display(), destination.display())
    }
}

/// Targets of the command line.
pub(super) struct Request {
    pub(super) targets: Vec<Target>,
    pub(super) between: Option<Box<Between>>,
    /// Origins of options of the copy that come from settings.
    pub(super) origins: BTreeMap<CopyOption, String>,
}

/// Parses the targets of the command line.
///
/// # Errors A target is not valid.
pub(super) fn parse(flags: &DoctorArgs) -> Result<Request, clap::Error> {
    let refused = |message: String| usage_error("doctor", ErrorKind::InvalidValue, &message);
    let mut request = Request { targets: Vec::new(), between: None, origins: BTreeMap::new() };
    let mut others: Vec<&OsStr> = Vec::new();
    for word in &flags.targets {
        match address(word).map_err(refused)? {
            Some(target) => request.targets.push(target),
            None => others.push(word),
        }
    }
    match others.as_slice() {
        [source, destination] if !is_device(source) || !is_device(destination) => {
            let configured = copy_flags(destination.as_ref(), flags)?;
            request.origins = configured.origins();
            let (source, destination) = (source.as_ref(), destination.as_ref());
            match between(source, destination, &configured)? {
                Some(between) => request.between = Some(Box::new(between)),
                None => request.targets.push(copy(source, destination, &configured)?),
            }
        }
        _ if !flags.cp_flags.is_empty() => {
            return Err(refused("flags of cp need a copy; name SRC and DST".to_owned()));
        }
        [one] if !is_device(one) && Path::new(one).exists() => {
            let one = one.to_string_lossy();
            return Err(refused(format!(
                "{one} is not a network device; for a copy name SRC and DST"
            )));
        }
        devices => {
            let named = devices.iter().map(|name| name.to_string_lossy().into_owned());
            request.targets.extend(named.map(Target::Device));
        }
    }
    request.targets.extend(flags.pid.iter().copied().map(Target::Process));
    request.targets.extend(flags.channel.iter().map(|end| {
        let ChannelArg { pid, descriptor } = *end;
        Target::Channel { pid, descriptor }
    }));
    let is_address = |target: &Target| matches!(target, Target::Tcp(_) | Target::Udp(_));
    if (flags.probe || flags.probe_anyway) && !request.targets.iter().any(is_address) {
        return Err(refused("--probe needs an address; name tcp://HOST:PORT or udp://...".into()));
    }
    if request.targets.is_empty() && request.between.is_none() {
        request.targets.push(Target::System);
    }
    Ok(request)
}

fn is_device(word: &OsStr) -> bool {
    word.to_str().and_then(device_index).is_some()
}

/// Parses the flags of a copy as `uncopy cp` would.
fn copy_flags(destination: &Path, flags: &DoctorArgs) -> Result<Configured, clap::Error> {
    let words = std::iter::once(OsString::from("cp")).chain(flags.cp_flags.iter().cloned());
    let command = CopyArgs::augment_args(Command::new("cp"));
    let matches = command.try_get_matches_from(words).map_err(short::explained)?;
    let configured = Configured::parsed(&matches, Some(destination))?;
    let cp = &configured.flags;
    if !cp.paths.is_empty() || !cp.source.is_empty() || cp.dest.is_some() {
        let message = "only flags of cp may follow --; name SRC and DST before it";
        return Err(usage_error("doctor", ErrorKind::InvalidValue, message));
    }
    Ok(configured)
}

/// Makes a target of a copy on this machine, with the options that `uncopy cp` would use.
fn copy(source: &Path, destination: &Path, configured: &Configured) -> Result<Target, clap::Error> {
    let options = cp::options(configured)?;
    let destination = match (destination.is_dir() && !source.is_dir(), source.file_name()) {
        (true, Some(name)) => destination.join(name),
        _ => destination.to_owned(),
    };
    Ok(Target::Copy { source: source.to_owned(), destination, options })
}

/// Returns the copy, if one of the paths is on another machine.
fn between(
    source: &Path,
    destination: &Path,
    configured: &Configured,
) -> Result<Option<Between>, clap::Error> {
    let mut flags = configured.flags.clone();
    flags.paths = vec![source.to_owned(), destination.to_owned()];
    let names = target::names(&flags, Reading::Operands)
        .map_err(|misused| usage_error("doctor", misused.kind(), &misused.to_string()))?;
    Ok((names.route != Route::Here).then_some(Between { flags, names }))
}

/// Parses an address, if the word looks like one.
fn address(word: &OsStr) -> Result<Option<Target>, String> {
    let Some((scheme, rest)) = word.to_str().and_then(|word| word.split_once("://")) else {
        return Ok(None);
    };
    let make: fn(SocketAddr) -> Target = match scheme {
        "tcp" => Target::Tcp,
        "udp" => Target::Udp,
        _ => return Err(format!("{scheme}:// is not supported; write tcp:// or udp://")),
    };
    let rest = rest.trim_end_matches('/');
    let last = rest.rsplit_once(':');
    if last.is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
        let is_number = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
        // In an IPv6 address without brackets the last part is not a port.
        let is_port = |host: &str| host.ends_with(']') || !host.contains(':');
        return Err(match last {
            Some((host, port)) if is_number(port) && is_port(host) => {
                format!("the port {port} is too large; write one of at most {}", u16::MAX)
            }
            _ => format!("{scheme}://{rest} has no port; write {scheme}://{rest}:PORT"),
        });
    }
    let rest = &with_device_index(rest)?;
    let found = rest.to_socket_addrs().map_err(|error| {
        format!("{rest} is not an address ({error}); check the name, and put IPv6 into brackets")
    })?;
    let first = found.into_iter().next();
    first.map(make).map(Some).ok_or_else(|| format!("{rest} has no address; check the name"))
}

/// Replaces the device of a link-local address (`[fe80::1%eth0]:9`) by its index.
fn with_device_index(text: &str) -> Result<String, String> {
    let zone = text.split_once('%').and_then(|(_, rest)| rest.split_once(']'));
    match zone {
        Some((device, _)) if device.parse::<u32>().is_err() => match device_index(device) {
            Some(index) => Ok(text.replacen(device, &index.to_string(), 1)),
            None => Err(format!("{device} is not a network device; see `ip link`")),
        },
        _ => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_distinguished_from_devices() {
        let parsed = |word: &str| address(OsStr::new(word));
        assert_eq!(
            parsed("tcp://192.0.2.1:80"),
            Ok(Some(Target::Tcp("192.0.2.1:80".parse().unwrap())))
        );
        assert_eq!(parsed("udp://[::1]:9/"), Ok(Some(Target::Udp("[::1]:9".parse().unwrap()))));
        assert_eq!(parsed("eth0"), Ok(None));
        let Ok(Some(Target::Udp(SocketAddr::V6(local)))) = parsed("udp://[fe80::1%lo]:9") else {
            panic!("{:?}", parsed("udp://[fe80::1%lo]:9"));
        };
        assert_eq!(Some(local.scope_id()), device_index("lo"));
        assert_eq!(
            parsed("udp://[fe80::1%7]:9"),
            Ok(Some(Target::Udp("[fe80::1%7]:9".parse().unwrap())))
        );
        for (word, expected) in [
            ("sctp://192.0.2.1:80", "write tcp:// or udp://"),
            ("tcp://192.0.2.1", "tcp://192.0.2.1:PORT"),
            ("tcp://[::1]", "tcp://[::1]:PORT"),
            ("udp://::1:99999", "has no port"),
            ("tcp://192.0.2.1:", "has no port"),
            ("udp://192.0.2.1:99999", "the port 99999 is too large"),
            ("udp://[::1]:65536", "the port 65536 is too large"),
            ("udp://[fe80::1%nonesuch]:9", "nonesuch is not a network device"),
        ] {
            let error = parsed(word).unwrap_err();
            assert!(error.contains(expected), "{word}: {error}");
        }
    }
}
