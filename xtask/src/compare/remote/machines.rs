//! Copies between two machines: cases, those who copy, and targets.

use std::cell::OnceCell;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context, Result, bail};

use super::command::{self, Cipher, DataMode, Direction, KnownModes, Transfer};
use super::far::Far;
use super::fixture::{MachinesFixture, Payload, Scene};
use super::meter::LoginMeter;
use crate::compare::brief::Options;
use crate::compare::case::{Action, Case, Role, Subject, Trial};
use crate::compare::machine::load_programs;
use crate::compare::metric::{CPU, FAR_PEAK_MEMORY, PEAK_MEMORY, Sample, WALL, sample_of};
use crate::compare::verdict::{Against, Target, at_most};
use crate::peers::Peers;
use crate::process::run_measured;

/// Programs of the cases.
pub(in crate::compare) struct Programs {
    pub(in crate::compare) uncopy: PathBuf,
    pub(in crate::compare) peers: Peers,
}

const QUICK_ROUNDS: usize = 2;

/// Memory that each end may take however much is copied.
const MAX_MEMORY: f64 = (64 << 20) as f64;

/// How it is measured.
pub(super) const NOTES: &[&str] = &[
    "push, pull: between two network namespaces that a veth link joins, of one machine: both ends share its \
     processors; in the far one a server of OpenSSH with keys and configuration of its own (sshd -i for each login)",
    "wall: of the near program, from before its start to after its end; cpu: user and system time of all processes of \
     both ends, ssh and sshd with them; peak_memory, far_peak_memory: the largest resident set of one process of \
     each end",
    "source and copies lie on one ext4 in an image on a loop device with direct I/O, a new one for each case; the source \
     is read, and as much free memory as a copy takes is written to, before each run; every copy is in a directory of \
     its own; after each run it is flushed, in the first round compared with the source and later counted; copies of \
     1 GiB are removed after their run",
    "aes128-gcm: with -c aes128-gcm@openssh.com, which ssh has for every row of uncopy and of tar; scp -r, rsync -r, \
     uncopy cp -r: no owners and times are kept",
];

impl Payload {
    /// Rounds, by how long they take.
    fn rounds(self) -> usize {
        match self {
            Payload::File => 7,
            Payload::Tree => 11,
        }
    }
}

/// The cases; they are skipped without `far`.
pub(super) fn cases(
    options: &Options,
    programs: &Programs,
    modes: &KnownModes,
    far: Option<&Far>,
) -> Vec<Case> {
    let mut cases = Vec::new();
    for payload in [Payload::File, Payload::Tree] {
        for direction in Direction::BOTH {
            cases.push(case(options, programs, modes, (payload, direction), far));
        }
    }
    cases
}

fn case(
    options: &Options,
    programs: &Programs,
    modes: &KnownModes,
    (payload, direction): (Payload, Direction),
    far: Option<&Far>,
) -> Case {
    let scene = Rc::new(OnceCell::new());
    let mut subjects = Vec::new();
    for contestant in contestants(programs, modes) {
        subjects.push(subject(contestant, direction, &scene, far));
    }
    let usual = if options.quick { QUICK_ROUNDS } else { payload.rounds() };
    let baseline = baseline(&programs.peers);
    Case {
        name: format!("{}/{}", direction.name(), payload.name()),
        rounds: options.rounds.unwrap_or(usual),
        baseline,
        again: baseline,
        subjects,
        targets: if options.quick { Vec::new() } else { targets(payload) },
        fixture: Box::new(MachinesFixture::new(payload, options, scene, far.is_some())),
    }
}

const RSYNC_QUICK: &str = "rsync, aes128-gcm";
const SCP_QUICK: &str = "scp, aes128-gcm";

/// The quicker rsync, or scp where there is none: it comes with ssh.
fn baseline(peers: &Peers) -> &'static str {
    let has_rsync = peers.installed.iter().any(|peer| peer.name == "rsync");
    if has_rsync { RSYNC_QUICK } else { SCP_QUICK }
}

/// One of those who copy.
struct Contestant {
    name: String,
    role: Role,
    way: CopyWay,
}

#[derive(Debug, Clone)]
enum CopyWay {
    Scp(Cipher),
    Rsync(Cipher),
    Tar(Cipher),
    Uncopy { program: PathBuf, data: Option<&'static str> },
}

fn contestants(programs: &Programs, modes: &KnownModes) -> Vec<Contestant> {
    let both = [Cipher::Default, Cipher::Aes128Gcm];
    let mut all = Vec::new();
    for peer in &programs.peers.installed {
        let (ciphers, way): (&[Cipher], fn(Cipher) -> CopyWay) = match peer.name {
            "scp" => (&both, CopyWay::Scp),
            "rsync" => (&both, CopyWay::Rsync),
            _ => (&both[1..], CopyWay::Tar),
        };
        all.extend(ciphers.iter().map(|&cipher| Contestant {
            name: cipher.subject(peer.name),
            role: Role::Peer,
            way: way(cipher),
        }));
    }
    all.extend(modes.present().into_iter().map(|mode| Contestant {
        name: mode.subject(),
        role: Role::Own,
        way: CopyWay::Uncopy { program: programs.uncopy.clone(), data: modes.flag(mode) },
    }));
    all
}

fn subject(
    contestant: Contestant,
    direction: Direction,
    scene: &Rc<OnceCell<Scene>>,
    far: Option<&Far>,
) -> Subject {
    let Contestant { name, role, way } = contestant;
    let (scene, far) = (Rc::clone(scene), far.cloned());
    let action = Action::Closure(Box::new(move |trial| {
        let scene = scene.get().context("the case is not prepared")?;
        let Some(far) = &far else { bail!("there is no other machine") };
        copy(&way, direction, scene, far, trial)
    }));
    Subject { name, role, action }
}

/// Copies into a new directory; both ends are measured.
fn copy(
    way: &CopyWay,
    direction: Direction,
    scene: &Scene,
    far: &Far,
    trial: &Trial,
) -> Result<Sample> {
    fs::create_dir(&trial.path)?;
    let transfer = Transfer { direction, source: &scene.source, directory: &trial.path };
    let login = &scene.login;
    let command = match way {
        CopyWay::Scp(cipher) => command::scp(login, *cipher, &transfer),
        CopyWay::Rsync(cipher) => command::rsync(login, *cipher, &transfer),
        CopyWay::Tar(cipher) => command::tar(login, *cipher, &transfer),
        CopyWay::Uncopy { program, data } => command::uncopy(login, program, *data, &transfer),
    }?;
    load_programs(&command);
    let meter = LoginMeter::start(far, scene.address, scene.keys.server().arg("-i"))?;
    let near = run_measured(&command)?;
    let other = meter.finish()?;
    let mut sample = sample_of(&near);
    *sample.entry(CPU).or_default() += other.cpu_seconds;
    sample.insert(FAR_PEAK_MEMORY, other.peak_bytes as f64);
    Ok(sample)
}

fn targets(payload: Payload) -> Vec<Target> {
    let [ssh, tls, open] = DataMode::ALL.map(DataMode::subject);
    let rsync = Against::BestOf(vec!["rsync".to_owned(), RSYNC_QUICK.to_owned()]);
    let beside_rsync = |limit, metric, subject: &str| {
        let against = rsync.clone();
        Target { against, ..at_most(limit, metric, subject, "") }
    };
    let mut targets = match payload {
        Payload::File => vec![
            beside_rsync(0.4, WALL, &tls),
            Target { against: Against::BestPeer, ..at_most(0.55, WALL, &tls, "") },
            beside_rsync(0.4, CPU, &tls),
            at_most(1.0, WALL, &ssh, SCP_QUICK),
        ],
        Payload::Tree => vec![beside_rsync(0.6, WALL, &ssh), beside_rsync(0.6, WALL, &tls)],
    };
    for subject in [&ssh, &tls, &open] {
        for metric in [PEAK_MEMORY, FAR_PEAK_MEMORY] {
            let against = Against::Nothing;
            targets.push(Target { against, ..at_most(MAX_MEMORY, metric, subject, "") });
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::compare::case::assert;
    use crate::peers::Installed;

    fn programs(names: &[&'static str]) -> Programs {
        let installed = names
            .iter()
            .map(|&name| Installed { name, program: name.into(), flags: &[] })
            .collect();
        Programs { uncopy: "uncopy".into(), peers: Peers { installed, absent: Vec::new() } }
    }

    fn cases_with(names: &[&'static str]) -> Vec<Case> {
        let modes = KnownModes::ask(Path::new("true"));
        cases(&Options::nowhere(), &programs(names), &modes, None)
    }

    #[test]
    fn cases_are_sound_with_rsync_and_without() {
        for names in [&["scp", "rsync", "tar"][..], &["scp", "tar"]] {
            let cases = cases_with(names);
            assert_eq!(cases.len(), 4);
            assert::sound(&cases);
        }
    }

    #[test]
    fn everybody_takes_part_with_the_same_cipher() {
        let cases = cases_with(&["scp", "rsync", "tar"]);
        let names: Vec<&str> = cases[0].subjects.iter().map(|s| s.name.as_str()).collect();
        let expected = [
            "scp",
            SCP_QUICK,
            "rsync",
            RSYNC_QUICK,
            "tar, aes128-gcm",
            "uncopy --data=ssh",
            "uncopy --data=tls",
            "uncopy --data=open",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn goals_stand_where_they_belong() {
        let cases = cases_with(&["scp", "rsync", "tar"]);
        let against = Against::Subject(SCP_QUICK.to_owned());
        assert::target(&cases, "pull/1GiB", "uncopy --data=ssh", 1.0, &against);
        assert::target(&cases, "push/1GiB", "uncopy --data=tls", 0.55, &Against::BestPeer);
        let rsync = Against::BestOf(vec!["rsync".to_owned(), RSYNC_QUICK.to_owned()]);
        let target = assert::target(&cases, "push/10000x4KiB", "uncopy --data=tls", 0.6, &rsync);
        assert_eq!(target.metric, WALL);
    }
}
