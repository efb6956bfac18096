//! `kill -9` of either end of a copy between machines at random moments, and going on from its journal.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use testbed::{Sshd, descendants};

use super::scene::Dice;
use super::span::Span;
use super::tree::{Route, Setting, Tally, kill_each};

const HOST: &str = "127.0.0.1";

/// Programs that are killed: all of the way from one end to the other.
const VICTIMS: [Victim; 4] = [Victim::NearProgram, Victim::Ssh, Victim::Server, Victim::FarProgram];

/// An end that hears nothing gives up after 30 seconds, and is to hear at once of most ends.
const PATIENCE: Duration = Duration::from_secs(45);
const GLANCE: Duration = Duration::from_millis(2);

/// Exit code of a copy whose other machine is gone.
const CONNECTION_LOST: i32 = 9;

/// Kills processes for `span`, of trees that go there and that come from there.
///
/// # Errors
/// As the soak of trees; or if a process of either end goes on, or the near program does not say that the connection
/// is gone.
pub(super) fn run(
    uncopy: &Path,
    place: &(&'static str, PathBuf),
    data: Option<&str>,
    span: Span,
    dice: &mut Dice,
) -> Result<Vec<Tally>> {
    // As links in /proc have it.
    let uncopy = &fs::canonicalize(uncopy)?;
    let sshd = Sshd::start();
    let route = |direction| Between { direction, sshd: &sshd, uncopy, data };
    let routes = [Direction::Push, Direction::Pull].map(route);
    // Both directions and both kinds of destination soon.
    let [push, pull] = &routes;
    let conditions: [(&Between<'_>, bool); 4] =
        [(push, false), (pull, true), (push, true), (pull, false)];
    let settings = conditions.map(|(route, merges)| {
        let (place, way) = ((place.0, place.1.as_path()), route.direction.name());
        Setting { place, way, merges, shares: false, route }
    });
    kill_each(uncopy, &settings, span, dice)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Push,
    Pull,
}

impl Direction {
    fn name(self) -> &'static str {
        match self {
            Direction::Push => "push",
            Direction::Pull => "pull",
        }
    }
}

/// A process of the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    NearProgram,
    Ssh,
    Server,
    FarProgram,
}

impl Victim {
    fn name(self) -> &'static str {
        match self {
            Victim::NearProgram => "near program",
            Victim::Ssh => "ssh",
            Victim::Server => "sshd",
            Victim::FarProgram => "far program",
        }
    }
}

/// A process as /proc shows it.
struct ProcessFacts<'a> {
    is_uncopy: bool,
    /// The server has started it.
    is_of_server: bool,
    /// Words of its command line.
    words: &'a [&'a [u8]],
}

impl ProcessFacts<'_> {
    /// Returns what it is, if it belongs to a job whose ssh has this configuration.
    fn victim(&self, config: &Path) -> Option<Victim> {
        if self.is_uncopy {
            let serves = self.words.get(1) == Some(&b"serve".as_slice());
            return Some(if serves { Victim::FarProgram } else { Victim::NearProgram });
        }
        if self.is_of_server {
            return Some(Victim::Server);
        }
        let is_client = self.words.contains(&config.as_os_str().as_encoded_bytes());
        is_client.then_some(Victim::Ssh)
    }
}

/// From one machine to another, through a server on this one.
struct Between<'a> {
    direction: Direction,
    sshd: &'a Sshd,
    uncopy: &'a Path,
    data: Option<&'a str>,
}

impl Between<'_> {
    fn there(path: &Path) -> OsString {
        let mut operand = OsString::from(format!("{HOST}:"));
        operand.push(path);
        operand
    }

    /// Processes of a job that run, and what they are.
    fn processes(&self) -> Result<Vec<(u32, Victim)>> {
        let servers = descendants(self.sshd.process_id());
        let config = self.sshd.client_config();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")?.flatten() {
            let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let Some(id) = id else { continue };
            // It may end meanwhile; what has ended and waits for its parent has no program.
            let Ok(program) = fs::read_link(entry.path().join("exe")) else { continue };
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = command.split(|byte| *byte == 0).collect();
            let facts = ProcessFacts {
                is_uncopy: program == self.uncopy,
                is_of_server: servers.contains(&id),
                words: &words,
            };
            found.extend(facts.victim(&config).map(|victim| (id, victim)));
        }
        Ok(found)
    }

    /// Waits until no process of the job is left.
    fn wait_for_all(&self, first: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let named = |(id, victim): (u32, Victim)| format!("{} ({id})", victim.name());
            let left: Vec<String> = self.processes()?.into_iter().map(named).collect();
            if left.is_empty() {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "after the end of the {first} goes on: {}",
                left.join(", ")
            );
            sleep(GLANCE);
        }
    }
}

impl Route for Between<'_> {
    /// Between a login, which takes a part of a second, and what two processors can encrypt.
    fn rate(&self) -> &'static str {
        "--max-bandwidth=96Mi"
    }

    fn flags(&self) -> Vec<OsString> {
        let config = self.sshd.client_config();
        let shell = format!("ssh -F '{}' -c aes128-gcm@openssh.com", config.display());
        let mut flags = vec!["-e".into(), shell.into(), "--remote-program".into()];
        flags.push(format!("'{}'", self.uncopy.display()).into());
        flags.extend(self.data.map(|mode| format!("--data={mode}").into()));
        flags
    }

    fn operands(&self, source: &Path, destination: &Path) -> [OsString; 2] {
        match self.direction {
            Direction::Push => [source.into(), Between::there(destination)],
            Direction::Pull => [Between::there(source), destination.into()],
        }
    }

    fn reads_source(&self) -> bool {
        false
    }

    fn strike(&self, child: &mut Child, dice: &mut Dice) -> Result<Option<&'static str>> {
        let wanted = dice.pick(&VICTIMS);
        // Before the login there is no other end yet.
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait()?.is_none() {
            let found: Vec<u32> = self
                .processes()?
                .into_iter()
                .filter_map(|(id, victim)| (victim == wanted).then_some(id))
                .collect();
            if !found.is_empty() && kill(dice.pick(&found))? {
                return Ok(Some(wanted.name()));
            }
            ensure!(Instant::now() < deadline, "there is no {}", wanted.name());
            sleep(GLANCE);
        }
        Ok(None)
    }

    fn end(&self, child: &mut Child, victim: Option<&'static str>) -> Result<ExitStatus> {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            match child.try_wait()? {
                Some(status) => break status,
                None if victim.is_none() || Instant::now() < deadline => sleep(GLANCE),
                None => bail!("the near program goes on after the end of the {victim:?}"),
            }
        };
        self.wait_for_all(victim.unwrap_or("near program"))?;
        let is_loss = victim.is_some_and(|victim| victim != Victim::NearProgram.name());
        if is_loss && !status.success() {
            ensure!(
                status.code() == Some(CONNECTION_LOST),
                "after the end of the {} the near program ended with {status}",
                victim.unwrap_or_default()
            );
        }
        Ok(status)
    }
}

/// Whether it was there to be killed.
fn kill(process: u32) -> Result<bool> {
    let id = Pid::from_raw(process.try_into()?).context("a process has a number")?;
    match kill_process(id, Signal::KILL) {
        Ok(()) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_known_by_program_parent_and_command_line() {
        let victim = |is_uncopy, is_of_server, line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            ProcessFacts { is_uncopy, is_of_server, words: &words }.victim(Path::new("/k/config"))
        };
        assert_eq!(victim(true, false, "uncopy cp -e x a b:c"), Some(Victim::NearProgram));
        assert_eq!(victim(true, true, "uncopy serve --stdio"), Some(Victim::FarProgram));
        assert_eq!(victim(true, false, "uncopy serve --stdio"), Some(Victim::FarProgram));
        assert_eq!(victim(false, true, "sshd-session: root@notty"), Some(Victim::Server));
        assert_eq!(victim(false, false, "ssh -F /k/config -- b"), Some(Victim::Ssh));
        assert_eq!(victim(false, false, "ssh -F /other/config -- b"), None);
    }
}
