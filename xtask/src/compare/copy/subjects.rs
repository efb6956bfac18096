//! The command lines of those that copy.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::fixture::Source;
use crate::compare::case::{Action, Role, Subject, Trial};
use crate::peers::{Installed, Peers};

/// The ways that `--method` can force.
pub(super) const METHODS: [&str; 6] =
    ["reflink", "copy-file-range", "direct", "sendfile", "splice", "read-write"];

/// The programs there are.
pub(super) struct Programs {
    pub(super) uncopy: PathBuf,
    pub(super) peers: Peers,
}

/// The name of our subject with these flags.
pub(super) fn own_name(flags: &[&str]) -> String {
    let words: Vec<&str> = std::iter::once("uncopy").chain(flags.iter().copied()).collect();
    words.join(" ")
}

/// The flag that forces a way.
pub(super) fn method_flag(method: &str) -> String {
    format!("--method={method}")
}

impl Programs {
    /// `uncopy cp FLAGS SRC DST`.
    pub(super) fn own(&self, flags: &[&str], source: &Source) -> Subject {
        let mut command = vec![self.uncopy.clone().into_os_string(), "cp".into()];
        command.extend(flags.iter().map(OsString::from));
        process(&own_name(flags), Role::Own, command, source)
    }

    /// Every way forced, with these flags beside.
    pub(super) fn own_forced(&self, flags: &[&str], source: &Source) -> Vec<Subject> {
        METHODS
            .iter()
            .map(|method| {
                let method = method_flag(method);
                let all: Vec<&str> = flags.iter().copied().chain([method.as_str()]).collect();
                self.own(&all, source)
            })
            .collect()
    }

    /// The peers of these names that are installed.
    pub(super) fn installed(&self, names: &[&str], source: &Source) -> Vec<Subject> {
        self.peers
            .installed
            .iter()
            .filter(|peer| names.contains(&peer.name))
            .map(|peer| peer_subject(peer, &[], peer.name, Role::Peer, source))
            .collect()
    }

    /// One peer with further flags, under another name.
    pub(super) fn variant(
        &self,
        peer: &str,
        flags: &[&str],
        name: &str,
        role: Role,
        source: &Source,
    ) -> Option<Subject> {
        let found = self.peers.installed.iter().find(|installed| installed.name == peer)?;
        Some(peer_subject(found, flags, name, role, source))
    }
}

fn peer_subject(
    peer: &Installed,
    flags: &[&str],
    name: &str,
    role: Role,
    source: &Source,
) -> Subject {
    let mut command = vec![peer.program.clone().into_os_string()];
    command.extend(peer.flags.iter().chain(flags).map(OsString::from));
    process(name, role, command, source)
}

/// A line of the shell, which has the source as `$1` and the destination as `$2`.
pub(super) fn shell(name: &str, line: &str, source: &Source) -> Subject {
    let command = ["/bin/sh", "-c", line, "sh"].map(OsString::from).to_vec();
    process(name, Role::Peer, command, source)
}

fn process(name: &str, role: Role, command: Vec<OsString>, source: &Source) -> Subject {
    let source = source.clone();
    let action = Action::Process(Box::new(move |trial: &Trial| {
        let source = source.get().map_or(Path::new(""), PathBuf::as_path);
        let mut whole = command.clone();
        whole.extend([source.into(), trial.path.clone().into_os_string()]);
        whole
    }));
    Subject { name: name.to_owned(), role, action }
}
