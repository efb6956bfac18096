//! Says which system obeys which option of a copy (pure): one table for the refusals and for the book.

#[cfg(feature = "trees")]
mod trees;

use std::fmt;

use crate::{
    Allow, Cache, CopyOptions, Existing, IfChanged, Prefer, Preserve, Require, Sparse, Transform,
    Tuning,
};
#[cfg(feature = "trees")]
pub use trees::{TREE_REQUESTS, refused_for_trees};
use uncopy_core::{CopyOption, Mechanism, System};

/// Whether a system obeys a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Support {
    /// It does.
    Honoured,
    /// It refuses it by name ([`Reason::NotHere`](uncopy_core::Reason::NotHere)) before it touches a file.
    Refused(WhyNotHere),
}

/// Reason for which a system refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhyNotHere {
    /// It chooses among mechanisms that Linux alone has.
    OnlyLinux,
    /// The system could do it, and this library does not yet.
    NotBuilt,
    /// It names a mechanism that this system does not have.
    NoSuchCall,
    /// Files have no such attribute there.
    NoSuchAttribute,
}

impl fmt::Display for WhyNotHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WhyNotHere::OnlyLinux => "it chooses among mechanisms of Linux",
            WhyNotHere::NotBuilt => "not built yet",
            WhyNotHere::NoSuchCall => "no such mechanism",
            WhyNotHere::NoSuchAttribute => "files have no such attribute",
        })
    }
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Support::Honoured => f.write_str("honoured"),
            Support::Refused(why) => write!(f, "refused: {why}"),
        }
    }
}

/// A request that values of an option make.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Request<Options: 'static = CopyOptions> {
    /// The option, as errors name it. `None`: no system refuses the value.
    pub option: Option<CopyOption>,
    /// The values, in words: "sparse = Always".
    pub values: &'static str,
    /// Whether options ask for it.
    is_in: fn(&Options) -> bool,
    /// On macOS, Windows, and other systems.
    elsewhere: [Support; 3],
}

impl<Options> Request<Options> {
    /// Whether these options ask for it.
    #[must_use]
    pub fn is_in(&self, options: &Options) -> bool {
        (self.is_in)(options)
    }

    /// Whether a system obeys it. Linux refuses none: a mechanism of another system fails as one that cannot copy.
    #[must_use]
    pub fn on(&self, system: System) -> Support {
        let [macos, windows, other] = self.elsewhere;
        match system {
            System::Linux => Support::Honoured,
            System::MacOs => macos,
            System::Windows => windows,
            _ => other,
        }
    }
}

const YES: Support = Support::Honoured;
const ONLY_LINUX: Support = Support::Refused(WhyNotHere::OnlyLinux);
const NOT_BUILT: Support = Support::Refused(WhyNotHere::NotBuilt);
const NO_SUCH_CALL: Support = Support::Refused(WhyNotHere::NoSuchCall);
const NO_SUCH: Support = Support::Refused(WhyNotHere::NoSuchAttribute);

/// Makes a row that some system refuses.
const fn row<Options>(
    option: CopyOption,
    values: &'static str,
    is_in: fn(&Options) -> bool,
    elsewhere: [Support; 3],
) -> Request<Options> {
    Request { option: Some(option), values, is_in, elsewhere }
}

/// Makes a row that every system honours.
const fn honoured<Options>(values: &'static str, is_in: fn(&Options) -> bool) -> Request<Options> {
    Request { option: None, values, is_in, elsewhere: [YES; 3] }
}

/// Every request, in the order of the options.
///
/// A value that is not in the table asks for nothing: it is the default, or has no effect.
pub static REQUESTS: [Request; 40] = [
    honoured("allow = Any", |o| o.allow == Allow::Any),
    honoured("allow = ReadWrite or Only(ReadWrite)", |o| {
        matches!(o.allow, Allow::ReadWrite | Allow::Only(Mechanism::ReadWrite))
    }),
    honoured("allow = Unshared", |o| o.allow == Allow::Unshared),
    row(
        CopyOption::Allow,
        "allow = Only(Clonefile or Fcopyfile)",
        |o| matches!(o.allow, Allow::Only(Mechanism::Clonefile | Mechanism::Fcopyfile)),
        [YES, NO_SUCH_CALL, NO_SUCH_CALL],
    ),
    row(
        CopyOption::Allow,
        "allow = Only(BlockClone or CopyFile2)",
        |o| matches!(o.allow, Allow::Only(Mechanism::BlockClone | Mechanism::CopyFile2)),
        [NO_SUCH_CALL, YES, NO_SUCH_CALL],
    ),
    row(
        CopyOption::Allow,
        "allow = Only, of a mechanism of Linux but ReadWrite",
        |o| {
            matches!(o.allow, Allow::Only(only)
                if only != Mechanism::ReadWrite && Mechanism::LINUX.contains(&only))
        },
        [ONLY_LINUX; 3],
    ),
    row(CopyOption::Require, "require", |o| o.require != Require::Nothing, [NOT_BUILT; 3]),
    row(CopyOption::Prefer, "prefer = CpuTime", |o| o.prefer != Prefer::WallTime, [ONLY_LINUX; 3]),
    honoured("sparse = Auto or Never", |o| o.sparse != Sparse::Always),
    row(CopyOption::Sparse, "sparse = Always", |o| o.sparse == Sparse::Always, [YES; 3]),
    row(CopyOption::Cache, "cache = Keep or Skip", |o| o.cache != Cache::Auto, [NOT_BUILT; 3]),
    honoured("if_changed = Fail or Accept", |o| o.if_changed != IfChanged::Retry),
    row(
        CopyOption::IfChanged,
        "if_changed = Retry",
        |o| o.if_changed == IfChanged::Retry,
        [YES; 3],
    ),
    row(
        CopyOption::FlushSource,
        "flush_source, with if_changed = Fail",
        |o| o.flush_source && o.if_changed == IfChanged::Fail,
        [NOT_BUILT; 3],
    ),
    honoured("existing = Replace, Force or Keep", |o| o.existing != Existing::Remove),
    row(CopyOption::Remove, "existing = Remove", |o| o.existing == Existing::Remove, [YES; 3]),
    row(CopyOption::Ask, "ask", |o| o.ask, [YES; 3]),
    row(CopyOption::Backup, "backup", |o| o.backup.is_some(), [YES; 3]),
    row(CopyOption::AttributesOnly, "attributes_only", |o| o.attributes_only, [YES; 3]),
    row(CopyOption::PreserveMode, "preserve.mode", |o| o.preserve.mode, [YES; 3]),
    row(
        CopyOption::PreserveOwnership,
        "preserve.ownership",
        |o| o.preserve.ownership,
        [YES, NOT_BUILT, YES],
    ),
    row(CopyOption::PreserveTimestamps, "preserve.timestamps", |o| o.preserve.timestamps, [YES; 3]),
    row(
        CopyOption::PreserveXattr,
        "preserve.xattr",
        |o| o.preserve.xattr,
        [YES, NOT_BUILT, NOT_BUILT],
    ),
    row(CopyOption::PreserveAcl, "preserve.acl", |o| o.preserve.acl, [YES, NOT_BUILT, NOT_BUILT]),
    row(CopyOption::ModeChanges, "mode_changes", |o| o.mode_changes.is_some(), [YES, NO_SUCH, YES]),
    row(CopyOption::Owner, "owner", |o| o.owner.is_some(), [YES, NOT_BUILT, YES]),
    row(CopyOption::Verify, "verify", |o| o.verify.is_some(), [YES; 3]),
    row(CopyOption::Digest, "digest", |o| o.digest.is_some(), [YES; 3]),
    row(CopyOption::Durable, "durable", |o| o.durable, [YES; 3]),
    row(CopyOption::InPlace, "in_place", |o| o.in_place, [YES; 3]),
    row(CopyOption::CopyContents, "copy_contents", |o| o.copy_contents, [NOT_BUILT; 3]),
    // The source decides: only a stream is refused, when it is seen.
    honoured("read_streams, and the source is a regular file", |o| o.read_streams),
    row(
        CopyOption::ReadStreams,
        "read_streams, and the source is a stream",
        |_| false,
        [NOT_BUILT; 3],
    ),
    honoured("tuning.buffer", |o| o.tuning.buffer != Tuning::BUILT_IN.buffer),
    row(
        CopyOption::ZeroCopyMin,
        "tuning.zero_copy_min",
        |o| o.tuning.zero_copy_min != Tuning::BUILT_IN.zero_copy_min,
        [ONLY_LINUX; 3],
    ),
    row(
        CopyOption::DirectMin,
        "tuning.direct_min",
        |o| o.tuning.direct_min != Tuning::BUILT_IN.direct_min,
        [ONLY_LINUX; 3],
    ),
    row(
        CopyOption::DirectCpuMin,
        "tuning.direct_cpu_min",
        |o| o.tuning.direct_cpu_min != Tuning::BUILT_IN.direct_cpu_min,
        [ONLY_LINUX; 3],
    ),
    honoured("transform = None", |o| o.transform == Transform::None),
    row(
        CopyOption::Transform,
        "transform = Compress or Decompress",
        |o| o.transform != Transform::None,
        [NOT_BUILT; 3],
    ),
    honoured("suffix, which only says how transform names files", |o| o.suffix),
];

/// Returns the options that ask for something that a system refuses, in the order of [`CopyOption::ALL`].
#[must_use]
pub fn refused(options: &CopyOptions, system: System) -> Vec<CopyOption> {
    every_field_has_rows(options);
    let asked = REQUESTS.iter().filter(|request| request.is_in(options));
    let refused = asked.filter(|request| request.on(system) != Support::Honoured);
    refused.filter_map(|request| request.option).collect()
}

/// Takes the options apart field by field, so that a new one has to be thought of here.
fn every_field_has_rows(options: &CopyOptions) {
    let CopyOptions {
        allow: _,
        require: _,
        prefer: _,
        sparse: _,
        cache: _,
        if_changed: _,
        flush_source: _,
        existing: _,
        ask: _,
        backup: _,
        attributes_only: _,
        preserve: Preserve { mode: _, ownership: _, timestamps: _, xattr: _, acl: _ },
        mode_changes: _,
        owner: _,
        verify: _,
        digest: _,
        durable: _,
        in_place: _,
        copy_contents: _,
        read_streams: _,
        tuning: Tuning { zero_copy_min: _, direct_min: _, direct_cpu_min: _, buffer: _ },
        transform: _,
        suffix: _,
    } = options;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backup, Digest, Level, Origin, Owner, Threshold, Verify};

    type Change = fn(&mut CopyOptions);

    const fn given(bytes: u64) -> Threshold {
        Threshold { bytes, origin: Origin::Given }
    }

    /// How to ask for each row, by its words.
    const CHANGES: [(&str, Change); 39] = [
        ("allow = Any", |_| {}),
        ("allow = ReadWrite or Only(ReadWrite)", |o| o.allow = Allow::ReadWrite),
        ("allow = Unshared", |o| o.allow = Allow::Unshared),
        ("allow = Only(Clonefile or Fcopyfile)", |o| o.allow = Allow::Only(Mechanism::Fcopyfile)),
        ("allow = Only(BlockClone or CopyFile2)", |o| o.allow = Allow::Only(Mechanism::CopyFile2)),
        ("allow = Only, of a mechanism of Linux but ReadWrite", |o| {
            o.allow = Allow::Only(Mechanism::Splice);
        }),
        ("require", |o| o.require = Require::ZeroCopy),
        ("prefer = CpuTime", |o| o.prefer = Prefer::CpuTime),
        ("sparse = Auto or Never", |o| o.sparse = Sparse::Never),
        ("sparse = Always", |o| o.sparse = Sparse::Always),
        ("cache = Keep or Skip", |o| o.cache = Cache::Keep),
        ("if_changed = Fail or Accept", |o| o.if_changed = IfChanged::Accept),
        ("if_changed = Retry", |o| o.if_changed = IfChanged::Retry),
        ("flush_source, with if_changed = Fail", |o| o.flush_source = true),
        ("existing = Replace, Force or Keep", |o| o.existing = Existing::Force),
        ("existing = Remove", |o| o.existing = Existing::Remove),
        ("ask", |o| o.ask = true),
        ("backup", |o| o.backup = Some(Backup::new())),
        ("attributes_only", |o| o.attributes_only = true),
        ("preserve.mode", |o| o.preserve.mode = true),
        ("preserve.ownership", |o| o.preserve.ownership = true),
        ("preserve.timestamps", |o| o.preserve.timestamps = true),
        ("preserve.xattr", |o| o.preserve.xattr = true),
        ("preserve.acl", |o| o.preserve.acl = true),
        ("mode_changes", |o| o.mode_changes = "600".parse().ok()),
        ("owner", |o| o.owner = Some(Owner::new().user(0))),
        ("verify", |o| o.verify = Some(Verify::default())),
        ("digest", |o| o.digest = Some(Digest::Xxh3)),
        ("durable", |o| o.durable = true),
        ("in_place", |o| o.in_place = true),
        ("copy_contents", |o| o.copy_contents = true),
        ("read_streams, and the source is a regular file", |o| o.read_streams = true),
        ("tuning.buffer", |o| o.tuning.buffer = given(4096)),
        ("tuning.zero_copy_min", |o| o.tuning.zero_copy_min = given(1)),
        ("tuning.direct_min", |o| o.tuning.direct_min = given(1)),
        ("tuning.direct_cpu_min", |o| o.tuning.direct_cpu_min = given(1)),
        ("transform = None", |_| {}),
        ("transform = Compress or Decompress", |o| {
            o.transform = Transform::Compress(Level::default());
        }),
        ("suffix, which only says how transform names files", |o| o.suffix = true),
    ];

    #[test]
    fn each_request_is_found_and_refused_as_its_row_says_on_every_system() {
        let mut seen = Vec::new();
        for request in &REQUESTS {
            let change = CHANGES.iter().find(|(values, _)| *values == request.values);
            let Some((_, change)) = change else {
                // Options cannot show it: the source decides.
                assert_eq!(request.option, Some(CopyOption::ReadStreams));
                continue;
            };
            seen.push(request.values);
            let mut options = CopyOptions::default();
            change(&mut options);
            assert!(request.is_in(&options), "{}", request.values);
            for system in System::ALL {
                let expected: Vec<_> = match request.on(system) {
                    Support::Honoured => Vec::new(),
                    Support::Refused(_) => request.option.into_iter().collect(),
                };
                assert_eq!(refused(&options, system), expected, "{}, {system}", request.values);
            }
        }
        assert_eq!(seen.len(), CHANGES.len());
    }

    #[test]
    fn what_some_system_refuses_has_a_name_and_every_name_a_row() {
        for request in &REQUESTS {
            let is_refused =
                System::ALL.into_iter().any(|system| request.on(system) != Support::Honoured);
            assert!(request.option.is_some() || !is_refused, "{}", request.values);
            assert_eq!(request.on(System::Linux), Support::Honoured);
        }
        let mut named: Vec<_> = REQUESTS.iter().filter_map(|request| request.option).collect();
        named.dedup();
        assert_eq!(named, CopyOption::ALL[..named.len()]);
    }

    #[test]
    fn plain_options_are_honoured_everywhere() {
        for system in System::ALL {
            assert_eq!(refused(&CopyOptions::default(), system), []);
        }
    }
}
