//! Operands of `uncopy cp`: a path here, or one on another machine (pure).

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use uncopy::System;

/// Begins an operand that is written as an address.
const SCHEME: &[u8] = b"ssh://";

/// Characters that no user and no host has. A remote shell's own commands (`ProxyCommand`) may take them up.
const FORBIDDEN: &[u8] = b"'`\"$\\;&<>|(){}*?!~#^,=";

/// Reads a path. An empty one is no path, as in a script whose variable is empty.
pub(crate) fn path_parser() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|text| match text.is_empty() {
        true => Err("an empty name is no path; write the path, or . for the current directory"),
        false => Ok(PathBuf::from(text)),
    })
}

/// Reads a path on this machine, where no other one is asked: one that names a machine is refused with this next step.
pub(crate) fn here_parser(next_step: &'static str) -> impl TypedValueParser<Value = PathBuf> {
    path_parser().try_map(move |path| match Operand::is_there(&path) {
        true => Err(format!(
            "it is on another machine, which this command does not ask; {next_step}; for a file here whose name has a \
             colon, write ./ before it"
        )),
        false => Ok(path),
    })
}

/// Source or destination of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operand {
    /// On this machine.
    Here(PathBuf),
    /// On another machine.
    There(Place),
}

/// Path on another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) machine: Machine,
    /// A relative one begins at the directory of the login, which is `.`.
    pub(crate) path: PathBuf,
}

/// Another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) user: Option<String>,
    /// Name or address, without brackets.
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        match (self.host.contains(':'), self.port) {
            (true, Some(port)) => write!(f, "[{}]:{port}", self.host),
            (true, None) => write!(f, "[{}]", self.host),
            (false, Some(port)) => write!(f, "{}:{port}", self.host),
            (false, None) => f.write_str(&self.host),
        }
    }
}

impl Machine {
    /// Returns a path on this machine as an operand, for people.
    pub(crate) fn with_path(&self, path: &Path) -> PathBuf {
        let mut name = OsString::new();
        match self.port {
            None => name.push(format!("{self}:")),
            // Only an absolute path can be written so; a relative one is as clear.
            Some(_) => name.push(format!("ssh://{self}/")),
        }
        let path = match self.port {
            Some(_) => path.strip_prefix("/").unwrap_or(path),
            None => path,
        };
        name.push(path);
        name.into()
    }
}

/// Operand that names another machine in a way that cannot be meant, or is not safe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadOperand {
    operand: PathBuf,
    fault: Fault,
}

/// Fault of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    NoHost,
    NoUser,
    /// It would be read as a flag of the remote shell.
    HostIsFlag,
    UserIsFlag,
    Character,
    Bracket,
    Port,
    Home,
}

impl fmt::Display for BadOperand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadOperand { operand, fault } = self;
        let reason = match fault {
            Fault::NoHost => "it names no host before the colon",
            Fault::NoUser => "it names no user before the @",
            Fault::HostIsFlag => "a host cannot begin with -",
            Fault::UserIsFlag => "a user cannot begin with -",
            Fault::Character => {
                "a user or host has no such character: spaces, control characters and those of shells are refused"
            }
            Fault::Bracket => "an address in brackets needs ]: behind it, as in [::1]:PATH",
            Fault::Port => "the port is no number from 1 to 65535",
            Fault::Home => {
                "~ is not replaced on the other machine; a relative path begins at the directory of the login: \
                 leave ~/ out, or write ./~ for a name that begins so"
            }
        };
        write!(
            f,
            "{}: {reason}; for a file here whose name has a colon, write ./ before it",
            operand.display()
        )
    }
}

impl Operand {
    /// Reads an operand. A colon before the first slash makes one on another machine; on Windows a single letter
    /// before it is a drive.
    ///
    /// # Errors
    /// It names another machine, and user, host, port or path cannot be meant.
    pub(crate) fn parse(text: &OsStr, system: System) -> Result<Operand, BadOperand> {
        let bytes = text.as_encoded_bytes();
        let found = match bytes.strip_prefix(SCHEME) {
            Some(rest) => address(rest),
            None => match head(bytes, system) {
                Some(head) => short(bytes, head),
                None => return Ok(Operand::Here(text.into())),
            },
        };
        let bad = |fault| BadOperand { operand: text.into(), fault };
        let Parts { machine, path } = found.map_err(bad)?;
        let path = match path_of(path) {
            Some(path) if path.as_os_str().is_empty() => PathBuf::from("."),
            Some(path) => path,
            None => return Err(bad(Fault::Character)),
        };
        if path.as_os_str().as_encoded_bytes().starts_with(b"~") {
            return Err(bad(Fault::Home));
        }
        Ok(Operand::There(Place { machine, path }))
    }

    /// Whether it is on another machine, or says so badly.
    pub(crate) fn is_there(text: &Path) -> bool {
        !matches!(Operand::parse(text.as_os_str(), System::HERE), Ok(Operand::Here(_)))
    }
}

/// Machine, and the bytes of a path there.
struct Parts<'a> {
    machine: Machine,
    path: &'a [u8],
}

/// Returns what stands before the first slash, if it has a colon that makes the operand one on another machine.
fn head(bytes: &[u8], system: System) -> Option<&[u8]> {
    let is_slash = |byte: &u8| *byte == b'/' || (system == System::Windows && *byte == b'\\');
    let head = &bytes[..bytes.iter().position(is_slash).unwrap_or(bytes.len())];
    let colon = head.iter().position(|byte| *byte == b':')?;
    let is_drive = system == System::Windows && colon == 1 && head[0].is_ascii_alphabetic();
    (!is_drive).then_some(head)
}

/// Reads `[USER@]HOST:PATH`, of which `head` stands before the first slash.
fn short<'a>(bytes: &'a [u8], head: &[u8]) -> Result<Parts<'a>, Fault> {
    let (user, rest) = split_user(head);
    let host_at = head.len() - rest.len();
    let (host, colon) = match rest.strip_prefix(b"[") {
        Some(inside) => {
            let end = find(inside, b"]:").ok_or(Fault::Bracket)?;
            (&inside[..end], host_at + 1 + end + 1)
        }
        None => {
            let colon = find(rest, b":").ok_or(Fault::NoHost)?;
            (&rest[..colon], host_at + colon)
        }
    };
    Ok(Parts { machine: machine(user, host, None)?, path: &bytes[colon + 1..] })
}

/// Reads what follows `ssh://`: `[USER@]HOST[:PORT][/PATH]`. The path is absolute.
fn address(bytes: &[u8]) -> Result<Parts<'_>, Fault> {
    let slash = find(bytes, b"/").unwrap_or(bytes.len());
    let (authority, path) = bytes.split_at(slash);
    let (user, rest) = match authority.iter().rposition(|byte| *byte == b'@') {
        Some(at) => (Some(&authority[..at]), &authority[at + 1..]),
        None => (None, authority),
    };
    let (host, port) = match rest.strip_prefix(b"[") {
        Some(inside) => {
            let end = find(inside, b"]").ok_or(Fault::Bracket)?;
            match &inside[end + 1..] {
                [] => (&inside[..end], None),
                [b':', port @ ..] => (&inside[..end], Some(port)),
                _ => return Err(Fault::Bracket),
            }
        }
        None => match find(rest, b":") {
            Some(colon) => (&rest[..colon], Some(&rest[colon + 1..])),
            None => (rest, None),
        },
    };
    let port = port.map(port_of).transpose()?;
    Ok(Parts { machine: machine(user, host, port)?, path })
}

/// Splits off a user: what stands before the last @ that is before the host's colon or bracket.
fn split_user(head: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let bracket = find(head, b"@[").map(|at| at + 1);
    let colon = find(head, b":").unwrap_or(head.len());
    let end = bracket.filter(|at| *at < colon).unwrap_or(colon);
    match head[..end].iter().rposition(|byte| *byte == b'@') {
        Some(at) => (Some(&head[..at]), &head[at + 1..]),
        None => (None, head),
    }
}

fn machine(user: Option<&[u8]>, host: &[u8], port: Option<u16>) -> Result<Machine, Fault> {
    let user = match user {
        None => None,
        Some(b"") => return Err(Fault::NoUser),
        Some([b'-', ..]) => return Err(Fault::UserIsFlag),
        Some(user) => Some(word(user)?),
    };
    let host = match host {
        b"" => return Err(Fault::NoHost),
        [b'-', ..] => return Err(Fault::HostIsFlag),
        host => word(host)?,
    };
    Ok(Machine { user, host, port })
}

/// Returns a user or host, if it has no character that is refused.
fn word(bytes: &[u8]) -> Result<String, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|_| Fault::Character)?;
    let is_refused = |c: char| {
        c.is_control() || c.is_whitespace() || c.is_ascii() && FORBIDDEN.contains(&(c as u8))
    };
    match text.contains(is_refused) {
        true => Err(Fault::Character),
        false => Ok(text.to_owned()),
    }
}

fn port_of(bytes: &[u8]) -> Result<u16, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|_| Fault::Port)?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|port| is_number && *port != 0);
    port.ok_or(Fault::Port)
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems have names of characters")]
fn path_of(bytes: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    Some(PathBuf::from(OsStr::from_bytes(bytes)))
}

#[cfg(not(unix))]
fn path_of(bytes: &[u8]) -> Option<PathBuf> {
    std::str::from_utf8(bytes).ok().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Operand, Fault> {
        Operand::parse(OsStr::new(text), System::Linux).map_err(|bad| bad.fault)
    }

    /// Machine as it is shown, and path; `None`: it is a path here.
    fn parts(text: &str) -> Option<(String, String)> {
        match parse(text).unwrap() {
            Operand::Here(path) => {
                assert_eq!(path, Path::new(text));
                None
            }
            Operand::There(Place { machine, path }) => {
                Some((machine.to_string(), path.to_str().unwrap().to_owned()))
            }
        }
    }

    #[test]
    fn a_colon_before_any_slash_makes_a_place_on_another_machine() {
        for (text, expected) in [
            ("a", None),
            ("./a:b", None),
            ("/a:b", None),
            ("a/b:c", None),
            ("../a:b", None),
            ("a@b", None),
            ("[a]", None),
            ("ssh:/x/y", Some(("ssh", "/x/y"))),
            ("h:a", Some(("h", "a"))),
            ("h:a/b:c", Some(("h", "a/b:c"))),
            ("h:a:b", Some(("h", "a:b"))),
            ("h:/a", Some(("h", "/a"))),
            ("h://a", Some(("h", "//a"))),
            ("h:", Some(("h", "."))),
            ("h:.", Some(("h", "."))),
            ("h:-r", Some(("h", "-r"))),
            ("h: a\n'$(x)", Some(("h", " a\n'$(x)"))),
            ("h:./~a", Some(("h", "./~a"))),
            ("h:a~", Some(("h", "a~"))),
            ("c:a", Some(("c", "a"))),
            ("u@h:a", Some(("u@h", "a"))),
            ("u@v@h:a@b", Some(("u@v@h", "a@b"))),
            ("h:a@b:c", Some(("h", "a@b:c"))),
            ("h.example-1.org:a", Some(("h.example-1.org", "a"))),
            ("\u{fc}.example:a", Some(("\u{fc}.example", "a"))),
            ("[::1]:a", Some(("[::1]", "a"))),
            ("[::1]:", Some(("[::1]", "."))),
            ("[fe80::1%eth0]:/a:b", Some(("[fe80::1%eth0]", "/a:b"))),
            ("u@[::1]:a", Some(("u@[::1]", "a"))),
            ("u@[127.0.0.1]:a", Some(("u@127.0.0.1", "a"))),
            ("ssh://h", Some(("h", "."))),
            ("ssh://h/", Some(("h", "/"))),
            ("ssh://h/a/b", Some(("h", "/a/b"))),
            ("ssh://u@h:22/a", Some(("u@h:22", "/a"))),
            ("ssh://u@h:65535", Some(("u@h:65535", "."))),
            ("ssh://[::1]:2222/a", Some(("[::1]:2222", "/a"))),
            ("ssh://u@[::1]/a", Some(("u@[::1]", "/a"))),
            ("ssh://h/a%20b", Some(("h", "/a%20b"))),
        ] {
            let found = parts(text);
            let found = found.as_ref().map(|(machine, path)| (machine.as_str(), path.as_str()));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_place_is_shown_as_it_is_written() {
        for text in ["h:a", "u@h:/a/b", "[::1]:a", "ssh://u@h:22/a/b", "ssh://[::1]:22/a"] {
            let Ok(Operand::There(Place { machine, path })) = parse(text) else { panic!("{text}") };
            assert_eq!(machine.with_path(&path), Path::new(text));
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (text, expected) in [
            (":a", Fault::NoHost),
            ("u@:a", Fault::NoHost),
            ("[]:a", Fault::NoHost),
            ("ssh://", Fault::NoHost),
            ("ssh:///a", Fault::NoHost),
            ("ssh://:22/a", Fault::NoHost),
            ("@h:a", Fault::NoUser),
            ("ssh://@h/a", Fault::NoUser),
            ("-oProxyCommand=x:a", Fault::HostIsFlag),
            ("u@-h:a", Fault::HostIsFlag),
            ("[-h]:a", Fault::HostIsFlag),
            ("ssh://-h/a", Fault::HostIsFlag),
            ("-l@h:a", Fault::UserIsFlag),
            ("ssh://-l@h/a", Fault::UserIsFlag),
            ("h x:a", Fault::Character),
            ("h\n:a", Fault::Character),
            ("h\u{85}:a", Fault::Character),
            ("$(x):a", Fault::Character),
            ("`x`:a", Fault::Character),
            ("u;x@h:a", Fault::Character),
            ("[::1", Fault::Bracket),
            ("[::1]", Fault::Bracket),
            ("[::1]a:b", Fault::Bracket),
            ("ssh://[::1/a", Fault::Bracket),
            ("ssh://[::1]x/a", Fault::Bracket),
            ("ssh://h:/a", Fault::Port),
            ("ssh://h:0/a", Fault::Port),
            ("ssh://h:65536/a", Fault::Port),
            ("ssh://h:+1/a", Fault::Port),
            ("ssh://h:22x", Fault::Port),
            ("h:~", Fault::Home),
            ("h:~/a", Fault::Home),
            ("h:~u/a", Fault::Home),
        ] {
            assert_eq!(parse(text), Err(expected), "{text:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn paths_are_any_bytes_and_hosts_are_text() {
        use std::os::unix::ffi::OsStrExt;
        let text = OsStr::from_bytes(b"h:a\xff");
        let Ok(Operand::There(place)) = Operand::parse(text, System::Linux) else { panic!() };
        assert_eq!(place.path.as_os_str().as_bytes(), b"a\xff");
        let text = OsStr::from_bytes(b"h\xff:a");
        let bad = Operand::parse(text, System::Linux).unwrap_err();
        assert_eq!(bad.fault, Fault::Character);
        assert!(bad.to_string().contains("write ./ before it"), "{bad}");
    }

    #[test]
    fn drives_are_local_on_windows_alone() {
        for (text, is_here) in [
            ("c:\\a", true),
            ("C:a", true),
            ("c:/a", true),
            ("cc:a", false),
            ("hh:c:\\a", false),
            ("a\\b:c", true),
            (".\\a:b", true),
        ] {
            let found = Operand::parse(OsStr::new(text), System::Windows).unwrap();
            assert_eq!(matches!(found, Operand::Here(_)), is_here, "{text}");
        }
        assert!(matches!(parse("C:a").unwrap(), Operand::There(_)));
    }
}
