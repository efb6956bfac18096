use super::*;
use crate::report::CopyVerdict;
use crate::severity::Severity;
use Severity::{Copies, Note, Unknown};
use uncopy_copy::forecast::CopyFacts;
use uncopy_core::{CopyOption, Exclusion, Obstacle, Origin, Threshold};
use uncopy_os::capabilities::{AnswerReason, Filesystem};
use uncopy_os::file::DirectAlign;

const NO_REFLINKS: AnswerReason = AnswerReason::StoppedBy(Obstacle::NoReflinks(Filesystem::EXT4));
const NFS: Filesystem = Filesystem::from_magic(0x6969);
const FUSE: Filesystem = Filesystem::from_magic(0x6573_5546);

fn device(name: &str) -> Device {
    let mut device = Device::with_number(0, 0);
    device.name = name.to_owned();
    device.kind = DeviceKind::Disk;
    device
}

/// 4 MiB from ext4 to ext4 on a disk, in the page cache.
fn ordinary() -> Forecast {
    let size = 4 << 20;
    let tried = |mechanism, answer| MechanismForecast {
        mechanism,
        answer,
        proof: "it was tried".into(),
        passed_over: None,
    };
    let none = Answer::No { errno: Some(Errno::EOPNOTSUPP), reason: NO_REFLINKS };
    let mut direct = tried(Mechanism::Direct, Answer::Yes(Cost::Moved));
    direct.passed_over = Some(RefusalReason::SlowerUnlessDurable);
    Forecast {
        facts: CopyFacts::ordinary(size),
        source_bytes: size,
        is_empty: false,
        is_one_hole: false,
        cached_bytes: None,
        source_device: device("vda"),
        destination_device: device("vda"),
        written_to: "vda".into(),
        destination_align: Some(DirectAlign { memory: 512, offset: 512 }),
        mechanisms: vec![
            tried(Mechanism::Reflink, none),
            direct,
            tried(Mechanism::CopyFileRange, Answer::Yes(Cost::KernelCopied)),
            tried(Mechanism::Splice, Answer::Yes(Cost::KernelCopied)),
            tried(Mechanism::ReadWrite, Answer::Yes(Cost::UserCopied)),
        ],
        choice: Some((Mechanism::Splice, Cost::KernelCopied)),
        rivals: Vec::new(),
    }
}

fn answer(forecast: &mut Forecast, mechanism: Mechanism, answer: Answer<Cost>) {
    let tried = forecast.mechanisms.iter_mut().find(|tried| tried.mechanism == mechanism).unwrap();
    tried.answer = answer;
}

fn refused(errno: Errno) -> Answer<Cost> {
    Answer::No { errno: Some(errno), reason: AnswerReason::Refused(errno) }
}

type Row = (fn(&mut Forecast), &'static str, Severity);

const ROWS: &[Row] = &[
    (|_| (), "kernel-copies", Copies),
    (|_| (), "no-reflink", Note),
    (|_| (), "direct-needs-durable", Note),
    (|f| answer(f, Mechanism::Reflink, refused(Errno::EXDEV)), "cross-filesystem", Note),
    (|f| answer(f, Mechanism::Reflink, refused(Errno::EINVAL)), "reflink-refused", Note),
    (|f| answer(f, Mechanism::Reflink, refused(Errno::ETXTBSY)), "reflink-refused", Note),
    (
        |f| {
            answer(
                f,
                Mechanism::Reflink,
                Answer::unknown(AnswerReason::Inconclusive(Errno::ENOSPC)),
            )
        },
        "not-tried",
        Unknown,
    ),
    (|f| answer(f, Mechanism::Direct, refused(Errno::EINVAL)), "no-direct-io", Note),
    (|f| answer(f, Mechanism::Direct, Answer::Yes(Cost::KernelCopied)), "direct-copies", Note),
    (|f| f.facts.size = Some(100 << 10), "direct-too-small", Note),
    (|f| f.facts.size = Some(100), "small-file", Note),
    (|f| f.choice = Some((Mechanism::ReadWrite, Cost::UserCopied)), "program-copies", Copies),
    (|f| f.choice = Some((Mechanism::Reflink, Cost::Shared)), "blocks-shared", Note),
    (|f| f.choice = Some((Mechanism::Direct, Cost::Moved)), "direct-moves", Note),
    (|f| f.choice = Some((Mechanism::Direct, Cost::Unknown)), "direct-unknown", Unknown),
    (
        |f| f.choice = Some((Mechanism::CopyFileRange, Cost::Unknown)),
        "filesystem-may-copy",
        Unknown,
    ),
    (|f| f.choice = None, "no-mechanism", Unknown),
    (|f| f.is_empty = true, "empty-file", Note),
    (|f| f.facts.source = Filesystem::from_magic(0x9fa0), "pseudo-file", Copies),
    (|f| f.facts.destination_is_stream = true, "destination-is-stream", Copies),
    (|f| f.facts.source = NFS, "network-filesystem", Note),
    (|f| f.facts.destination = NFS, "network-filesystem", Note),
    (|f| f.facts.source = FUSE, "fuse", Note),
    (|f| f.facts.in_place = true, "in-place", Note),
    (|f| f.cached_bytes = Some(4 << 20), "source-cached", Note),
    (|f| f.cached_bytes = Some(1 << 20), "source-not-cached", Note),
    (|f| f.facts.has_holes = true, "holes", Note),
    (|f| f.facts.size = Some((4 << 20) + 1), "unaligned-tail", Note),
    (|f| f.source_device.rotational = Some(true), "rotational", Note),
    (|f| f.destination_device.kind = DeviceKind::Network, "remote-device", Note),
    (
        |f| f.mechanisms[1].passed_over = Some(RefusalReason::ExcludedBy(Exclusion::BypassesCache)),
        "setting-refuses",
        Note,
    ),
];

#[test]
fn each_fact_has_its_finding() {
    for (row, (change, id, severity)) in ROWS.iter().enumerate() {
        let mut forecast = ordinary();
        change(&mut forecast);
        // Two different devices, by their names.
        forecast.destination_device.name.push('2');
        let found = findings(&forecast, false, &Settings::default());
        let finding = found.iter().find(|finding| finding.condition.id == *id);
        let finding = finding.unwrap_or_else(|| panic!("row {row}: {id}: {found:#?}"));
        assert_eq!(finding.severity, *severity, "row {row}: {finding:#?}");
        assert!(!finding.evidence.is_empty(), "row {row}: {finding:#?}");
    }
}

#[test]
fn shared_blocks_give_only_one_finding() {
    let mut forecast = ordinary();
    forecast.choice = Some((Mechanism::Reflink, Cost::Shared));
    answer(&mut forecast, Mechanism::Reflink, Answer::Yes(Cost::Shared));
    let ids: Vec<_> = findings(&forecast, false, &Settings::default())
        .iter()
        .map(|one| one.condition.id)
        .collect();
    assert_eq!(ids, ["blocks-shared"]);
    assert_eq!(
        CopyVerdict::of(&findings(&forecast, false, &Settings::default())),
        CopyVerdict::ZeroCopy
    );
}

/// Settings of a program: its flags, and one option that was set elsewhere.
fn flags(origin: Option<(CopyOption, &str)>) -> Settings {
    let mut settings = Settings { place: "the flag", ..Settings::default() };
    let names = [
        (Choice::ReadWriteOnly, "--no-zero-copy"),
        (Choice::CacheKeep, "--cache=keep"),
        (Choice::DirectMin, "--direct-min"),
        (Choice::Verify, "--verify"),
    ];
    settings.names.extend(names.map(|(choice, name)| (choice, name.to_owned())));
    settings.origins.extend(origin.map(|(option, origin)| (option, origin.to_owned())));
    settings
}

#[test]
fn settings_are_named_with_their_origin() {
    let file = "/etc/uncopy.toml, line 2";
    let only = RefusalReason::ExcludedBy(Exclusion::ReadWriteOnly);
    let keep = RefusalReason::ExcludedBy(Exclusion::BypassesCache);
    for (reason, settings, setting, seen) in [
        (
            only,
            flags(Some((CopyOption::Cache, file))),
            "--no-zero-copy",
            "the flag: --no-zero-copy",
        ),
        (
            only,
            flags(Some((CopyOption::Allow, "UNCOPY_METHOD in the environment"))),
            "--no-zero-copy (UNCOPY_METHOD in the environment)",
            "UNCOPY_METHOD in the environment: --no-zero-copy",
        ),
        (
            keep,
            flags(Some((CopyOption::Cache, file))),
            "--cache=keep (/etc/uncopy.toml, line 2)",
            "/etc/uncopy.toml, line 2: --cache=keep: it bypasses the page cache",
        ),
        (
            keep,
            Settings::default(),
            "cache=keep",
            "the option: cache=keep: it bypasses the page cache",
        ),
    ] {
        let mut forecast = ordinary();
        for tried in &mut forecast.mechanisms[..4] {
            tried.passed_over = Some(reason);
        }
        forecast.choice = Some((Mechanism::ReadWrite, Cost::UserCopied));
        let found = findings(&forecast, false, &settings);
        let said = |id: &str| found.iter().find(|finding| finding.condition.id == id).unwrap();
        let refuses = said("setting-refuses");
        // Reflinks do not work in any case.
        let words = format!("{setting} excludes direct, copy_file_range, splice");
        assert_eq!(refuses.summary.to_string(), words);
        assert_eq!(refuses.evidence[0].found, seen);
        let step = |finding: &DoctorFinding| finding.next_step.as_ref().map(NextStep::to_string);
        assert_eq!(step(refuses), Some(format!("Remove the setting {setting}.")));
        let copies = said("program-copies");
        let words = copies.summary.to_string();
        assert!(words.ends_with(&format!(", because of the setting {setting}")), "{words}");
        assert_eq!(
            step(copies),
            Some(format!(
                "Remove the setting {setting}. Keep such files on XFS or btrfs, which have reflinks."
            ))
        );
    }
}

/// A given threshold is a setting too, but is not reported as the cause of the copy.
#[test]
fn a_threshold_that_was_given_is_a_setting() {
    let mut forecast = ordinary();
    let least = |origin| Threshold { bytes: 8 << 20, origin };
    for (origin, expected) in [
        (Origin::BuiltIn, None),
        (Origin::Given, Some("the flag: too small to pay for O_DIRECT (below direct-min, 8 MiB)")),
    ] {
        let reason = RefusalReason::TooSmallForDirect(least(origin));
        forecast.mechanisms[1].passed_over = Some(reason);
        let found = findings(&forecast, false, &flags(None));
        let refuses = found.iter().find(|finding| finding.condition.id == "setting-refuses");
        assert_eq!(refuses.map(|refuses| refuses.evidence[0].found.as_str()), expected);
        let copies = found.iter().find(|one| one.condition.id == "kernel-copies").unwrap();
        let words = copies.summary.to_string();
        assert!(!words.contains("because of the setting"), "{words}");
        let starts = |refuses: &DoctorFinding| {
            refuses.summary.to_string().starts_with("--direct-min excludes")
        };
        assert!(refuses.is_none_or(starts));
    }
}

#[test]
fn verification_is_named_with_its_origin() {
    for (settings, seen) in [
        (flags(None), "the flag --verify"),
        (
            flags(Some((CopyOption::Verify, "UNCOPY_VERIFY in the environment"))),
            "UNCOPY_VERIFY in the environment",
        ),
        (Settings::default(), "the option verify"),
    ] {
        let found = findings(&ordinary(), true, &settings);
        let found = found.iter().find(|finding| finding.condition.id == "verification").unwrap();
        assert_eq!(found.evidence[0].found, seen);
        assert!(found.summary.to_string().contains("8388608 bytes"));
    }
}
