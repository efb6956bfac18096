//! The command that starts the far end.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use crate::{Address, RemoteError};

/// Remote shell, and the program that it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteShell {
    words: Vec<OsString>,
    program: OsString,
}

impl RemoteShell {
    /// Takes the words of the remote shell (`ssh`) and of the program on the other machine (`uncopy`), which its login
    /// shell reads as they are. Quotes are those of a shell, but no shell of this machine sees them.
    ///
    /// # Errors
    /// [`RemoteError::BadWords`].
    pub fn new(shell: Option<&OsStr>, program: Option<&OsStr>) -> Result<RemoteShell, RemoteError> {
        let shell = shell.unwrap_or(OsStr::new("ssh"));
        let program = program.unwrap_or(OsStr::new("uncopy"));
        let words = split(shell)?;
        // The far words are split there; here they are only checked.
        split(program)?;
        Ok(RemoteShell { words, program: program.to_owned() })
    }

    /// Returns the words that were given for the far program.
    #[must_use]
    pub fn program(&self) -> &OsStr {
        &self.program
    }

    /// Returns the program to be started and its arguments. No path is in them.
    pub(crate) fn command(&self, address: &Address) -> (OsString, Vec<OsString>) {
        let (program, mut arguments) = self.login(address);
        arguments.extend([self.program.clone(), "serve".into(), "--stdio".into()]);
        (program, arguments)
    }

    /// Returns a command of a shell that logs in and does nothing, for people.
    pub(crate) fn trial(&self, address: &Address) -> String {
        let (program, arguments) = self.login(address);
        let words = std::iter::once(program).chain(arguments).chain([OsString::from("true")]);
        let quoted = words.map(|word| {
            let word = word.to_string_lossy().into_owned();
            shlex::try_quote(&word).map_or_else(|_| word.clone(), Cow::into_owned)
        });
        quoted.collect::<Vec<_>>().join(" ")
    }

    /// Returns the program and its arguments up to the host.
    fn login(&self, address: &Address) -> (OsString, Vec<OsString>) {
        let (program, mut arguments) = (self.words[0].clone(), self.words[1..].to_vec());
        if let Some(user) = &address.user {
            arguments.extend([OsString::from("-l"), user.clone()]);
        }
        if let Some(port) = address.port {
            arguments.extend([OsString::from("-p"), port.to_string().into()]);
        }
        // Other shells need not know it.
        if Path::new(&program).file_name() == Some(OsStr::new("ssh")) {
            arguments.push("--".into());
        }
        arguments.push(address.host.clone());
        (program, arguments)
    }

    /// Returns the program and the arguments that print how the remote shell connects; `None`: it is not OpenSSH.
    pub(crate) fn settings_command(&self, address: &Address) -> Option<(OsString, Vec<OsString>)> {
        let (program, mut arguments) = self.command(address);
        let is_ssh = Path::new(&program).file_name() == Some(OsStr::new("ssh"));
        let place = arguments.iter().position(|argument| argument == "--")?;
        // Behind the arguments that were given, and without a command.
        arguments.insert(place, "-G".into());
        arguments.truncate(place + 3);
        is_ssh.then_some((program, arguments))
    }
}

fn split(given: &OsStr) -> Result<Vec<OsString>, RemoteError> {
    let bytes = given.as_bytes();
    let words = shlex::bytes::split(bytes)
        .filter(|words| !words.is_empty() && !bytes.iter().any(u8::is_ascii_control))
        .ok_or_else(|| RemoteError::BadWords { given: given.to_owned() })?;
    Ok(words.into_iter().map(OsString::from_vec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(shell: Option<&str>, program: Option<&str>, address: &Address) -> Vec<OsString> {
        let shell = RemoteShell::new(shell.map(OsStr::new), program.map(OsStr::new)).unwrap();
        let (program, arguments) = shell.command(address);
        [vec![program], arguments].concat()
    }

    #[test]
    fn host_user_and_port_are_arguments_of_their_own() {
        let plain = Address { host: "h".into(), user: None, port: None };
        let whole = Address { host: "::1".into(), user: Some("u v".into()), port: Some(2222) };
        assert_eq!(shown(None, None, &plain), ["ssh", "--", "h", "uncopy", "serve", "--stdio"]);
        assert_eq!(
            shown(Some("/usr/bin/ssh -F 'a file' -o \"X y\""), Some("sudo uncopy"), &whole),
            [
                "/usr/bin/ssh",
                "-F",
                "a file",
                "-o",
                "X y",
                "-l",
                "u v",
                "-p",
                "2222",
                "--",
                "::1",
                "sudo uncopy",
                "serve",
                "--stdio"
            ]
        );
        assert_eq!(shown(Some("my-rsh"), None, &plain)[..2], ["my-rsh", "h"]);
    }

    /// User, port and options are in the advice about a machine that is not reached.
    #[test]
    fn a_trial_logs_in_as_the_copy_does() {
        let plain = Address { host: "h".into(), user: None, port: None };
        let whole = Address { host: "10.77.1.2".into(), user: Some("me".into()), port: Some(9) };
        let odd = Address { host: "::1".into(), user: Some("u v".into()), port: None };
        for (shell, address, expected) in [
            (None, &plain, "ssh -- h true"),
            (None, &whole, "ssh -l me -p 9 -- 10.77.1.2 true"),
            (Some("ssh -i 'a key'"), &odd, "ssh -i 'a key' -l 'u v' -- ::1 true"),
            (Some("/opt/my-rsh"), &plain, "/opt/my-rsh h true"),
        ] {
            let shell = RemoteShell::new(shell.map(OsStr::new), Some(OsStr::new("p"))).unwrap();
            assert_eq!(shell.trial(address), expected);
        }
    }

    #[test]
    fn open_quotes_and_control_characters_are_refused() {
        for bad in ["", "  ", "ssh 'a", "ssh \"a", "ssh a\nb", "ssh\0"] {
            for (shell, program) in [(Some(bad), None), (None, Some(bad))] {
                let made = RemoteShell::new(shell.map(OsStr::new), program.map(OsStr::new));
                assert_eq!(made, Err(RemoteError::BadWords { given: bad.into() }));
            }
        }
    }
}
