//! Copies between two machines: cases, those who copy, and targets.

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, bail};

use super::bare::BareWay;
use super::command::{self, Cipher, DataMode, Direction, Transfer};
use super::far::Far;
use super::fixture::{MachinesFixture, Payload, Scene};
use super::line::{self, SlowLine};
use super::meter::LoginMeter;
use crate::compare::brief::Options;
use crate::compare::case::{Action, Case, Role, Subject};
use crate::compare::machine::load_programs;
use crate::compare::metric::{CPU, FAR_PEAK_MEMORY, PEAK_MEMORY, Sample, WALL, WALL_OF_DELAY};
use crate::compare::verdict::{Against, Target, at_most};
use crate::peers::Peers;
use crate::process::run_measured;

/// Programs of the cases.
pub(in crate::compare) struct Programs {
    pub(in crate::compare) uncopy: PathBuf,
    pub(in crate::compare) peers: Peers,
}

const QUICK_ROUNDS: usize = 2;

/// Names of subjects that others are set against: the first of them that takes part.
const RSYNC_QUICK: &str = "rsync, aes128-gcm";
const SCP_QUICK: &str = "scp, aes128-gcm";
const TAR_QUICK: &str = "tar, aes128-gcm";
const SSH_MODE: &str = "uncopy --data=ssh";

/// Number of connections that uncopy makes unless told otherwise.
const CONNECTIONS: u8 = uncopy::remote::DataOptions::CONNECTIONS;

/// MiB of files.
const GIBIBYTE: u64 = 1024;
const LOSSY_FILES: [u64; 2] = [256, 32];

/// Seconds that a round trip of 50 ms may add to a tree: about 30 of them, however many files it has.
const MAX_WALL_OF_DELAY: f64 = 1.5;

/// Memory that each end may take however much is copied.
const MAX_MEMORY: f64 = (64 << 20) as f64;

/// How it is measured.
pub(super) const NOTES: &[&str] = &[
    "between machines: push, pull: between two network namespaces that a veth link joins, of one machine: both ends share its \
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
    "bare loop: one file over one connection that ssh tells the port of, or equal parts of it over as many as uncopy makes, \
     BLAKE3 at both ends; sealed: AES-128-GCM in records of 16 KiB; open: sendfile; no temporary name, no journal, nothing \
     checked but the digest at the end; of a tree with a delay: tar through ssh, one stream that asks nothing",
    "50ms, 100ms: round trip of a line through two tun devices and a relay of this program, whose processor time is in no \
     row; on the one of 100 ms one packet of a thousand is lost, in each direction, the same ones in each run of a case; \
     bbr, cubic: the congestion control of both machines; wall_of_delay: what the delay adds to a copy over the link itself, \
     made right after it",
];

/// A copy: of which payload, where to, and over which line.
#[derive(Debug, Clone, Copy)]
struct Journey {
    payload: Payload,
    direction: Direction,
    line: Option<SlowLine>,
}

impl Journey {
    /// Those on lines that change how TCP behaves come last: it stays so.
    fn all() -> Vec<Journey> {
        let mut all = Vec::new();
        for line in [None, Some(SlowLine::DELAYED)] {
            for payload in [Payload::File(GIBIBYTE), Payload::Tree] {
                if line.is_none() || payload == Payload::Tree {
                    let journey = |direction| Journey { payload, direction, line };
                    all.extend(Direction::BOTH.map(journey));
                }
            }
        }
        for line in SlowLine::LOSSY.map(Some) {
            for payload in LOSSY_FILES.map(Payload::File) {
                all.push(Journey { payload, direction: Direction::Push, line });
            }
        }
        all
    }

    fn name(self) -> String {
        let line = self.line.map_or_else(String::new, |line| format!("/{}", line.name));
        format!("{}/{}{line}", self.direction.name(), self.payload.name())
    }

    /// Rounds, by how long they take.
    fn rounds(self) -> usize {
        match (self.line, self.payload) {
            (None, Payload::Tree) => 11,
            (None, Payload::File(_)) => 7,
            (Some(_), Payload::Tree) => 5,
            (Some(_), Payload::File(_)) => 3,
        }
    }

    /// Whether somebody takes part: with a delay uncopy is held against itself without, beside one stream, and where a run takes
    /// minutes, against the quicker rsync, beside bare loops over as many connections.
    fn has(self, contestant: &Contestant) -> bool {
        let is_bare =
            |connections| matches!(contestant.way, CopyWay::Bare(_, own) if own == connections);
        match (self.line, self.payload) {
            _ if contestant.role == Role::Own => true,
            (None, Payload::File(_)) => !is_bare(CONNECTIONS),
            (None, Payload::Tree) => contestant.role != Role::Yardstick,
            (Some(_), Payload::Tree) => contestant.name == TAR_QUICK,
            (Some(_), Payload::File(_)) => contestant.name == RSYNC_QUICK || is_bare(CONNECTIONS),
        }
    }

    fn targets(self) -> Vec<Target> {
        let [ssh, tls, open] = DataMode::ALL.map(DataMode::subject);
        let beside_rsync = |limit, metric, subject: &str| {
            let rsyncs = ["rsync", RSYNC_QUICK].map(str::to_owned).into();
            Target { against: Against::BestOf(rsyncs), ..at_most(limit, metric, subject, "") }
        };
        let at_most_in_all = |limit, metric, subject: &str| Target {
            against: Against::Nothing,
            ..at_most(limit, metric, subject, "")
        };
        let mut targets = match (self.line, self.payload) {
            (None, Payload::File(_)) => vec![
                beside_rsync(0.4, WALL, &tls),
                Target { against: Against::BestPeer, ..at_most(0.55, WALL, &tls, "") },
                beside_rsync(0.4, CPU, &tls),
                at_most(1.0, WALL, &ssh, SCP_QUICK),
                at_most(1.15, WALL, &tls, &BareWay::Sealed.subject(1)),
                at_most(1.15, CPU, &tls, &BareWay::Sealed.subject(1)),
                at_most(0.7, CPU, &open, &tls),
                at_most(1.1, CPU, &open, &BareWay::Open.subject(1)),
            ],
            (None, Payload::Tree) => {
                vec![beside_rsync(0.6, WALL, &ssh), beside_rsync(0.6, WALL, &tls)]
            }
            (Some(_), Payload::Tree) => {
                let all = [&ssh, &tls, &open];
                all.map(|subject| at_most_in_all(MAX_WALL_OF_DELAY, WALL_OF_DELAY, subject)).into()
            }
            (Some(_), Payload::File(mebibytes)) => {
                // 4 and 1.5 times its rate: a shorter file has less time to make up for the beginning.
                let limit = if mebibytes == LOSSY_FILES[0] { 1.0 / 4.0 } else { 1.0 / 1.5 };
                vec![beside_rsync(limit, WALL, &tls)]
            }
        };
        for subject in [&ssh, &tls, &open] {
            targets.extend(
                [PEAK_MEMORY, FAR_PEAK_MEMORY]
                    .map(|metric| at_most_in_all(MAX_MEMORY, metric, subject)),
            );
        }
        targets
    }
}

/// The cases; they are skipped without `far`.
pub(super) fn cases(options: &Options, programs: &Programs, far: Option<&Far>) -> Vec<Case> {
    let case = |journey| case(options, programs, journey, far);
    Journey::all().into_iter().map(case).collect()
}

fn case(options: &Options, programs: &Programs, journey: Journey, far: Option<&Far>) -> Case {
    let scene = Rc::new(OnceCell::new());
    let mut subjects = Vec::new();
    let contestants = contestants(programs);
    for contestant in contestants.into_iter().filter(|contestant| journey.has(contestant)) {
        subjects.push(subject(contestant, journey, &scene, far));
    }
    let usual = if options.quick { QUICK_ROUNDS } else { journey.rounds() };
    let candidates = [RSYNC_QUICK, SCP_QUICK, SSH_MODE];
    let is_here = |name: &&&str| subjects.iter().any(|subject| subject.name == **name);
    let baseline = candidates.iter().find(is_here).copied().unwrap_or(SSH_MODE);
    Case {
        name: journey.name(),
        rounds: options.rounds.unwrap_or(usual),
        baseline,
        again: baseline,
        subjects,
        targets: if options.quick { Vec::new() } else { journey.targets() },
        fixture: Box::new(MachinesFixture::new(
            journey.payload,
            journey.line,
            options.quick,
            scene,
            far.cloned(),
        )),
    }
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
    Uncopy {
        program: PathBuf,
        data: DataMode,
    },
    /// Over this number of connections.
    Bare(BareWay, u8),
}

fn contestants(programs: &Programs) -> Vec<Contestant> {
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
    all.extend(DataMode::ALL.map(|mode| Contestant {
        name: mode.subject(),
        role: Role::Own,
        way: CopyWay::Uncopy { program: programs.uncopy.clone(), data: mode },
    }));
    for connections in [1, CONNECTIONS] {
        all.extend(BareWay::BOTH.map(|way| Contestant {
            name: way.subject(connections),
            role: Role::Yardstick,
            way: CopyWay::Bare(way, connections),
        }));
    }
    all
}

fn subject(
    contestant: Contestant,
    journey: Journey,
    scene: &Rc<OnceCell<Scene>>,
    far: Option<&Far>,
) -> Subject {
    let Contestant { name, role, way } = contestant;
    let (scene, far) = (Rc::clone(scene), far.cloned());
    let action = Action::Closure(Box::new(move |trial| {
        let scene = scene.get().context("the case is not prepared")?;
        let Some(far) = &far else { bail!("there is no other machine") };
        let mut sample = copy(&way, journey, scene, far, &trial.path)?;
        if let (Some(_), Payload::Tree) = (journey.line, journey.payload) {
            let at_once = Journey { line: None, ..journey };
            let beside = trial.path.with_extension("at-once");
            let without = copy(&way, at_once, scene, far, &beside)?;
            sample.insert(WALL_OF_DELAY, sample[&WALL] - without[&WALL]);
        }
        Ok(sample)
    }));
    Subject { name, role, action }
}

/// Copies into a new directory; both ends are measured.
fn copy(
    way: &CopyWay,
    journey: Journey,
    scene: &Scene,
    far: &Far,
    directory: &Path,
) -> Result<Sample> {
    fs::create_dir(directory)?;
    let transfer = Transfer { direction: journey.direction, source: &scene.source, directory };
    let login = &scene.login(journey.line);
    let command = match way {
        CopyWay::Scp(cipher) => command::scp(login, *cipher, &transfer),
        CopyWay::Rsync(cipher) => command::rsync(login, *cipher, &transfer),
        CopyWay::Tar(cipher) => command::tar(login, *cipher, &transfer),
        CopyWay::Uncopy { program, data } => command::uncopy(login, program, *data, &transfer),
        CopyWay::Bare(way, connections) => command::bare(login, *way, *connections, &transfer),
    }?;
    load_programs(&command);
    let address = line::address(journey.line);
    let meter = LoginMeter::start(far, address, scene.keys.server().arg("-i"))?;
    let near = run_measured(&command)?;
    let other = meter.finish()?;
    Ok(Sample::from([
        (WALL, near.wall_seconds),
        (CPU, near.cpu_seconds + other.cpu_seconds),
        (PEAK_MEMORY, near.peak_bytes as f64),
        (FAR_PEAK_MEMORY, other.peak_bytes as f64),
    ]))
}

#[cfg(test)]
mod tests {
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
        cases(&Options::nowhere(), &programs(names), None)
    }

    #[test]
    fn cases_are_sound_with_rsync_and_without() {
        for names in [&["scp", "rsync", "tar"][..], &["scp", "tar"]] {
            let cases = cases_with(names);
            assert_eq!(cases.len(), 10);
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
            "bare loop, sealed",
            "bare loop, open",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn goals_stand_where_they_belong() {
        let cases = cases_with(&["scp", "rsync", "tar"]);
        let against = Against::Subject(SCP_QUICK.to_owned());
        assert::target(&cases, "pull/1GiB", "uncopy --data=ssh", 1.0, &against);
        assert::target(&cases, "push/1GiB", "uncopy --data=tls", 0.55, &Against::BestPeer);
        for name in ["push/1GiB", "pull/1GiB"] {
            for (limit, other) in [(0.7, "uncopy --data=tls"), (1.1, "bare loop, open")] {
                let against = Against::Subject(other.to_owned());
                let target = assert::target(&cases, name, "uncopy --data=open", limit, &against);
                assert_eq!(target.metric, CPU);
            }
        }
        let rsync = Against::BestOf(vec!["rsync".to_owned(), RSYNC_QUICK.to_owned()]);
        let target = assert::target(&cases, "push/10000x4KiB", "uncopy --data=tls", 0.6, &rsync);
        assert_eq!(target.metric, WALL);
        let target = assert::target(
            &cases,
            "pull/10000x4KiB/50ms",
            "uncopy --data=tls",
            1.5,
            &Against::Nothing,
        );
        assert_eq!(target.metric, WALL_OF_DELAY);
        assert::target(&cases, "push/256MiB/100ms-bbr", "uncopy --data=tls", 0.25, &rsync);
        assert::target(&cases, "push/32MiB/100ms-cubic", "uncopy --data=tls", 1.0 / 1.5, &rsync);
    }

    #[test]
    fn on_slow_lines_only_those_take_part_that_are_judged() {
        let cases = cases_with(&["scp", "rsync", "tar"]);
        let subjects = |name: &str| {
            let case = cases.iter().find(|case| case.name == name).unwrap();
            (case.baseline, case.subjects.len())
        };
        assert_eq!(subjects("push/10000x4KiB/50ms"), ("uncopy --data=ssh", 4));
        assert_eq!(subjects("push/256MiB/100ms-cubic"), (RSYNC_QUICK, 6));
    }
}
