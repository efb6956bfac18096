//! The cases of the suite `copy`, and what is to be reached in them.

use std::rc::Rc;

use super::fixture::{CopyFixture, Errand, Source};
use super::place::{Place, Places};
use super::subjects::{METHODS, Programs, method_flag, own_name, shell};
use crate::compare::case::{Case, Role, Subject};
use crate::compare::metric::{CPU, DISK, Metric, WALL};
use crate::compare::verdict::{Against, Target, at_most};

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;

/// cp against itself differs by so much over seven rounds.
const BAND: f64 = 0.03;

/// Runs of some milliseconds vary more: more rounds of them.
const ROUNDS_OF_SHORT_RUNS: usize = 41;
const ROUNDS: usize = 7;

const COPIERS: [&str; 9] = [
    "cp",
    "cp --reflink=never",
    "uutils cp",
    "xcp",
    "fcp",
    "cpz",
    "rsync",
    "std::fs::copy",
    "read/write 128 KiB",
];

/// Parts shared by all cases.
pub(super) struct Setting {
    pub(super) programs: Programs,
    pub(super) places: Rc<Places>,
    /// Two rounds, small files, no targets: shows that everything runs.
    pub(super) quick: bool,
    pub(super) rounds: Option<usize>,
}

impl Setting {
    /// Every case.
    pub(super) fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for length in [4 * KIB, 64 * KIB, MIB, 16 * MIB, 128 * MIB, GIB] {
            for cold in [false, true] {
                cases.push(self.plain(Errand { cold, ..Errand::on(Place::Ext4, length) }));
            }
        }
        for place in [Place::Xfs, Place::Btrfs] {
            for (length, cold) in [(4 * KIB, false), (MIB, false), (GIB, false), (GIB, true)] {
                cases.push(self.plain(Errand { cold, ..Errand::on(place, length) }));
            }
            cases.push(self.reflink(place));
        }
        for length in [MIB, GIB] {
            let errand = Errand { from: Place::Tmpfs, ..Errand::on(Place::Ext4, length) };
            cases.push(self.plain(errand));
        }
        cases.push(self.durable());
        for place in [Place::Ext4, Place::Xfs, Place::Btrfs, Place::Tmpfs] {
            cases.push(self.sparse(place));
        }
        cases.push(self.verified());
        for cold in [false, true] {
            cases.push(self.digested(cold));
        }
        cases.push(self.huge());
        cases
    }

    /// Every copier, every way of ours.
    fn plain(&self, errand: Errand) -> Case {
        let errand = self.scaled(errand);
        let source = Source::default();
        let mut subjects = self.programs.installed(&COPIERS, &source);
        subjects.push(self.programs.own(&[], &source));
        subjects.push(self.programs.own(&["--prefer=cpu"], &source));
        subjects.extend(self.programs.own_forced(&[], &source));
        // Seven rounds cannot resolve the millisecond that sharing takes; the case of
        // those that share can.
        let shared = errand.length >= GIB && errand.to.shares();
        let mut targets = targets_on_ways(METHODS.iter().filter(|m| !shared || !shares(m)), &[]);
        targets.extend(targets_of_plain(errand));
        self.case(&case_name(errand, ""), errand, source, subjects, targets)
    }

    /// Only those that share blocks, because the others would write gigabytes.
    fn reflink(&self, place: Place) -> Case {
        let errand = self.scaled(Errand { shares: true, ..Errand::on(place, GIB) });
        let source = Source::default();
        let mut subjects = self.programs.installed(&["cp", "uutils cp", "xcp"], &source);
        let bare =
            self.programs.variant("bare FICLONE", &[], "bare FICLONE", Role::Yardstick, &source);
        subjects.extend(bare);
        subjects.push(self.programs.own(&[], &source));
        subjects.push(self.programs.own(&["--prefer=cpu"], &source));
        let sharing: Vec<&str> = METHODS.into_iter().filter(shares).collect();
        for method in &sharing {
            subjects.push(self.programs.own(&[&method_flag(method)], &source));
        }
        let mut targets = targets_on_ways(sharing.iter(), &[]);
        targets.push(at_most(0.85, WALL, "uncopy", "cp"));
        targets.push(at_most(1.8, WALL, "uncopy", "bare FICLONE"));
        let mut case = self.case(&case_name(errand, "reflink"), errand, source, subjects, targets);
        case.rounds = self.rounds_of(ROUNDS_OF_SHORT_RUNS);
        case
    }

    fn durable(&self) -> Case {
        const PEER: &str = "cp, then sync of the file";
        let errand = self.scaled(Errand::on(Place::Ext4, GIB));
        let source = Source::default();
        let mut subjects = vec![shell("cp", r#"cp "$1" "$2" && sync "$2""#, &source)];
        subjects[0].name = PEER.to_owned();
        let programs = &self.programs;
        subjects.extend(programs.installed(&["copy_file_range + fsync"], &source));
        subjects.extend(programs.variant("xcp", &["--fsync"], "xcp --fsync", Role::Peer, &source));
        subjects.extend(programs.variant(
            "rsync",
            &["--fsync"],
            "rsync --fsync",
            Role::Peer,
            &source,
        ));
        subjects.push(programs.own(&["--durable"], &source));
        subjects.extend(programs.own_forced(&["--durable"], &source));
        let mut targets = targets_on_ways(METHODS.iter(), &["--durable"]);
        targets.push(at_most(1.0 / 1.5, WALL, "uncopy --durable", PEER));
        targets.push(at_most(0.2, CPU, "uncopy --durable", PEER));
        let mut case = self.case(&case_name(errand, "durable"), errand, source, subjects, targets);
        (case.baseline, case.again) = (PEER, PEER);
        case
    }

    fn sparse(&self, place: Place) -> Case {
        let whole = Errand { data: 64 * MIB, ..Errand::on(place, 4 * GIB) };
        let errand = self.scaled(whole);
        let source = Source::default();
        let mut subjects = self.programs.installed(&["cp", "uutils cp", "xcp"], &source);
        subjects.push(self.programs.own(&[], &source));
        // A limit of space, with one in a hundred for the blocks that hold the extents.
        let disk = errand.data as f64 * 1.01;
        let targets = vec![
            at_most(1.1, WALL, "uncopy", "cp"),
            Target {
                subject: "uncopy".to_owned(),
                metric: DISK,
                against: Against::Nothing,
                limit: disk,
                band: 0.0,
            },
        ];
        self.case(&case_name(errand, "sparse"), errand, source, subjects, targets)
    }

    /// Zero-copy with verification afterwards, and copies that hash what passes by.
    fn verified(&self) -> Case {
        let errand = self.scaled(Errand::on(Place::Ext4, GIB));
        let source = Source::default();
        let mut subjects =
            vec![shell("tee | sha256sum", r#"tee "$2" < "$1" | sha256sum"#, &source)];
        subjects.extend(self.programs.installed(&["cp"], &source));
        for (name, flags) in [
            ("copy and hash blake3", &["blake3"][..]),
            ("copy and hash sha256", &["sha256"]),
            ("copy and hash blake3, fsync", &["blake3", "--fsync"]),
        ] {
            let peer = self.programs.variant("copy and hash", flags, name, Role::Peer, &source);
            subjects.extend(peer);
        }
        for flags in [
            &["--verify=blake3"][..],
            &["--verify=sha256"],
            &["--verify=blake3", "--method=direct"],
        ] {
            subjects.push(self.programs.own(flags, &source));
        }
        self.case(&case_name(errand, "verified"), errand, source, subjects, Vec::new())
    }

    /// One pass that computes the digest on the way, zero-copy with verification afterwards, and zero-copy
    /// with the digest of the copy.
    fn digested(&self, cold: bool) -> Case {
        let errand = self.scaled(Errand { cold, ..Errand::on(Place::Ext4, GIB) });
        let source = Source::default();
        let mut subjects = self.programs.installed(&["cp"], &source);
        subjects.extend(self.programs.variant(
            "copy and hash",
            &["blake3"],
            "copy and hash blake3",
            Role::Peer,
            &source,
        ));
        for flags in [
            &["--digest=blake3"][..],
            &["--verify=blake3"],
            &["--verify=blake3", "--method=direct"],
            &["--digest=blake3", "--method=copy-file-range"],
            &["--digest=blake3", "--method=direct"],
            &["--digest=blake3", "--verify=blake3"],
        ] {
            subjects.push(self.programs.own(flags, &source));
        }
        let kind = if cold { "digest cold" } else { "digest" };
        self.case(&case_name(errand, kind), errand, source, subjects, Vec::new())
    }

    /// Ten times as large, with as many subjects as fit on a disk.
    fn huge(&self) -> Case {
        let errand = self.scaled(Errand::on(Place::Ext4, 10 * GIB));
        let source = Source::default();
        let mut subjects = self.programs.installed(&["cp", "uutils cp"], &source);
        subjects.push(self.programs.own(&[], &source));
        subjects.push(self.programs.own(&["--method=direct"], &source));
        let targets = vec![within_band("uncopy", WALL, "uncopy --method=direct")];
        self.case(&case_name(errand, "warm"), errand, source, subjects, targets)
    }

    fn case(
        &self,
        name: &str,
        errand: Errand,
        source: Source,
        subjects: Vec<Subject>,
        targets: Vec<Target>,
    ) -> Case {
        let places = Rc::clone(&self.places);
        let fixture = CopyFixture::new(errand, places, source, subjects.len(), name, self.quick);
        let short = errand.data <= 16 * MIB;
        Case {
            name: name.to_owned(),
            rounds: self.rounds_of(if short { ROUNDS_OF_SHORT_RUNS } else { ROUNDS }),
            baseline: "cp",
            again: "cp",
            subjects,
            targets: if self.quick { Vec::new() } else { targets },
            fixture: Box::new(fixture),
        }
    }

    fn rounds_of(&self, usual: usize) -> usize {
        self.rounds.unwrap_or(if self.quick { 2 } else { usual })
    }

    /// In a quick run, large files are small ones.
    fn scaled(&self, errand: Errand) -> Errand {
        if !self.quick || errand.length <= 64 * MIB {
            return errand;
        }
        Errand { length: errand.length / 64, data: errand.data.div_ceil(64), ..errand }
    }
}

fn case_name(errand: Errand, kind: &str) -> String {
    let places = if errand.from == errand.to {
        errand.to.name().to_owned()
    } else {
        format!("{}-{}", errand.from.name(), errand.to.name())
    };
    let kind = match (kind, errand.cold) {
        ("", true) => "cold",
        ("", false) => "warm",
        (kind, _) => kind,
    };
    format!("{places}/{}/{kind}", size_name(errand.length))
}

pub(super) fn size_name(length: u64) -> String {
    match length {
        gibibytes if gibibytes % GIB == 0 => format!("{}GiB", gibibytes / GIB),
        mebibytes if mebibytes % MIB == 0 => format!("{}MiB", mebibytes / MIB),
        kibibytes => format!("{}KiB", kibibytes / KIB),
    }
}

/// Not more than the other, within the band.
fn within_band(subject: &str, metric: Metric, against: &str) -> Target {
    Target { band: BAND, ..at_most(1.0 + BAND, metric, subject, against) }
}

/// No way that could have been picked is better at what was asked for: time, or processor time.
fn targets_on_ways<'a>(methods: impl Iterator<Item = &'a &'a str>, flags: &[&str]) -> Vec<Target> {
    let mut targets = Vec::new();
    for method in methods {
        let method = method_flag(method);
        let forced: Vec<&str> = flags.iter().copied().chain([method.as_str()]).collect();
        targets.push(within_band(&own_name(flags), WALL, &own_name(&forced)));
        if flags.is_empty() {
            targets.push(within_band("uncopy --prefer=cpu", CPU, &own_name(&forced)));
        }
    }
    targets
}

/// It shares blocks where the filesystem can.
fn shares(method: &&str) -> bool {
    ["reflink", "copy-file-range"].contains(method)
}

/// The targets that name a size and a filesystem.
fn targets_of_plain(errand: Errand) -> Vec<Target> {
    let best_peer = Target { against: Against::BestPeer, ..within_band("uncopy", WALL, "") };
    match (errand.from, errand.to, errand.length, errand.cold) {
        (Place::Ext4, Place::Ext4, GIB, false) => {
            vec![best_peer, at_most(0.15, CPU, "uncopy --method=direct", "cp")]
        }
        (Place::Tmpfs, Place::Ext4, GIB, _) => vec![best_peer],
        (Place::Ext4, Place::Ext4, length, false) if length == 4 * KIB => {
            vec![at_most(1.0, WALL, "uncopy", "cp")]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::case::assert;

    fn setting(quick: bool) -> Setting {
        let peers =
            crate::peers::find(std::path::Path::new("/nonexistent"), &crate::peers::COPIERS);
        let programs = Programs { uncopy: "uncopy".into(), peers };
        let places = Rc::new(Places::new("/nonexistent".into()));
        Setting { programs, places, quick, rounds: None }
    }

    #[test]
    fn names_are_unique_and_show_the_case() {
        let cases = setting(false).cases();
        assert::sound(&cases);
        let names: Vec<String> = cases.into_iter().map(|case| case.name).collect();
        for expected in ["ext4/4KiB/warm", "ext4/1GiB/cold", "ext4/10GiB/warm", "xfs/1GiB/reflink"]
        {
            assert!(names.iter().any(|name| name == expected), "{expected}: {names:?}");
        }
    }

    /// Each row: case, subject, metric, limit, what it is set against.
    #[test]
    fn every_named_target_has_a_row() {
        let cases = setting(false).cases();
        let cp = || Against::Subject("cp".into());
        let cp_sync = || Against::Subject("cp, then sync of the file".into());
        let bare = || Against::Subject("bare FICLONE".into());
        let named = [
            ("xfs/1GiB/reflink", "uncopy", WALL, 0.85, cp()),
            ("btrfs/1GiB/reflink", "uncopy", WALL, 0.85, cp()),
            ("xfs/1GiB/reflink", "uncopy", WALL, 1.8, bare()),
            ("btrfs/1GiB/reflink", "uncopy", WALL, 1.8, bare()),
            ("ext4/1GiB/warm", "uncopy", WALL, 1.03, Against::BestPeer),
            ("ext4/1GiB/durable", "uncopy --durable", WALL, 1.0 / 1.5, cp_sync()),
            ("ext4/1GiB/durable", "uncopy --durable", CPU, 0.2, cp_sync()),
            ("ext4/1GiB/warm", "uncopy --method=direct", CPU, 0.15, cp()),
            ("tmpfs-ext4/1GiB/warm", "uncopy", WALL, 1.03, Against::BestPeer),
            ("ext4/4GiB/sparse", "uncopy", WALL, 1.1, cp()),
            ("xfs/4GiB/sparse", "uncopy", DISK, 67_108_864.0 * 1.01, Against::Nothing),
            ("tmpfs/4GiB/sparse", "uncopy", DISK, 67_108_864.0 * 1.01, Against::Nothing),
            ("ext4/4KiB/warm", "uncopy", WALL, 1.0, cp()),
        ];
        for (case, subject, metric, limit, against) in named {
            let target = assert::target(&cases, case, subject, limit, &against);
            assert_eq!(target.metric, metric, "{case} {subject}");
        }
    }

    #[test]
    fn full_runs_have_at_least_seven_rounds_and_a_second_run_of_a_peer() {
        for case in setting(false).cases() {
            assert!(case.rounds >= 7, "{}", case.name);
            assert!(case.subjects.iter().any(|s| s.name == case.again), "{}", case.name);
        }
    }

    #[test]
    fn quick_runs_are_small_and_judge_nothing() {
        for case in setting(true).cases() {
            assert_eq!(case.rounds, 2);
            assert!(case.targets.is_empty());
            assert!(!case.name.contains("GiB"), "{}", case.name);
        }
    }
}
