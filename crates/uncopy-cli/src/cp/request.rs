//! Converts flags to options of the library.

use std::ffi::OsString;
use std::num::NonZeroUsize;

use clap::ValueEnum;
use uncopy::copy::job::{
    Compare, Delete, HardLinks, JobOptions, LinkDest, Links, OnError, Parents, Sources,
};
use uncopy::copy::{
    Allow, Backup, Cache, CopyOptions, Existing, IfChanged, ModeChanges, Numbering, Origin, Prefer,
    Preserve, Require, Sparse, Threshold, Transform, Tuning, Verify, systems,
};
use uncopy::{Mechanism, System};

use super::list;
use crate::flags::copy::{
    Attribute, BackupArg, CacheArg, CopyArgs, DigestArg, IfChangedArg, Method, OnErrorArg,
    PreferArg, ReflinkArg, RequireArg, SparseArg,
};
use crate::flags::links::{Following, LinksArg};
use crate::flags::select::Pattern;

/// Makes the options of the library for these flags.
///
/// # Errors
/// A sentence for people: a flag has no valid meaning.
pub(crate) fn options(flags: &CopyArgs) -> Result<CopyOptions, String> {
    let mut options = CopyOptions::default();
    options.allow = allow(flags);
    options.require = require(flags.requirement());
    options.prefer = match flags.prefer {
        PreferArg::Time => Prefer::WallTime,
        PreferArg::Cpu => Prefer::CpuTime,
    };
    options.sparse = match flags.sparse {
        SparseArg::Auto => Sparse::Auto,
        SparseArg::Always => Sparse::Always,
        SparseArg::Never => Sparse::Never,
    };
    options.cache = match flags.cache {
        CacheArg::Auto => Cache::Auto,
        CacheArg::Keep => Cache::Keep,
        CacheArg::Skip => Cache::Skip,
    };
    (options.if_changed, options.flush_source) = match flags.if_changed {
        None => (IfChanged::Fail, false),
        Some(IfChangedArg::Fail) => (IfChanged::Fail, true),
        Some(IfChangedArg::Retry) => (IfChanged::Retry, true),
        Some(IfChangedArg::Accept) => (IfChanged::Accept, false),
    };
    options.existing = match (flags.no_clobber, flags.force) {
        _ if flags.remove_destination => Existing::Remove,
        (true, _) => Existing::Keep,
        (false, true) => Existing::Force,
        (false, false) => Existing::Replace,
    };
    options.ask = flags.interactive;
    options.backup = backup(flags, |name| std::env::var_os(name))?;
    options.attributes_only = flags.attributes_only;
    options.preserve = preserve(flags, System::HERE)?;
    options.mode_changes = flags.chmod.iter().cloned().reduce(ModeChanges::then);
    options.owner = flags.chown;
    options.verify = verify(flags)?;
    let by_default = flags.manifest.is_some().then_some(DigestArg::default());
    options.digest = flags.digest.or(by_default).map(DigestArg::digest);
    options.durable = flags.durable;
    options.in_place = flags.in_place;
    options.copy_contents = flags.copy_contents;
    options.read_streams = !flags.is_recursive() && !flags.copies_entries();
    options.transform = match flags.compress {
        Some(level) => Transform::Compress(level),
        None if flags.decompress => Transform::Decompress,
        None => Transform::None,
    };
    Ok(options)
}

/// Makes the options of the library for the whole command, with these for each file.
///
/// # Errors
/// A sentence for people: a pattern is invalid.
pub(crate) fn job_options(flags: &CopyArgs, each: CopyOptions) -> Result<JobOptions, String> {
    let mut options = JobOptions::default();
    options.copy = each;
    options.on_error = match flags.on_error {
        OnErrorArg::StopOnDestination => OnError::StopOnDestination,
        OnErrorArg::Skip => OnError::Skip,
        OnErrorArg::Abort => OnError::Abort,
    };
    options.bytes_per_second = flags.max_bandwidth;
    options.jobs = if flags.interactive { NonZeroUsize::new(1) } else { flags.tree.jobs };
    options.retries = flags.tree.retries;
    if !flags.is_recursive() && !flags.copies_entries() {
        // Settings for trees, such as `links`, have no effect.
        options.sources = Sources::Files;
        return Ok(options);
    }
    let links = flags.tree.links.symbolic;
    options.links = match links {
        None | Some(Following::Named) if flags.copies_entries() => Links::Follow,
        Some(Following::Always) => Links::Follow,
        Some(Following::Never | Following::Named) => Links::Preserve,
        Some(Following::As(how)) => how.into(),
        // As by `cp`: a link to a link would be of little use.
        None if flags.link => Links::Follow,
        None => flags.tree.links.of_trees.into(),
    };
    options.follow_roots = links == Some(Following::Named);
    options.link = flags.link;
    options.hard_links = match flags.separates_hard_links() {
        true => HardLinks::Separate,
        false => HardLinks::Keep,
    };
    options.parents = if flags.keeps_paths() { Parents::Keep } else { Parents::Omit };
    options.update = flags.tree.update;
    options.compare = match (flags.tree.checksum, flags.tree.size_only) {
        (true, _) => Compare::Contents,
        (false, true) => Compare::Size,
        (false, false) => Compare::Times,
    };
    options.link_dest = (!flags.tree.link_dest.is_empty())
        .then(|| LinkDest::new().directories(flags.tree.link_dest.clone()));
    options.remove_source = flags.tree.remove_source_files;
    options.resume = flags.tree.resume;
    options.specials = flags.tree.specials || flags.tree.archive;
    if flags.copies_entries() {
        options.sources = Sources::Entries;
        return Ok(options);
    }
    options.one_filesystem = flags.tree.one_file_system;
    options.follow_outside = flags.tree.follow_outside
        || links == Some(Following::Always)
        || (flags.link && links.is_none());
    for pattern in list::with_files_read(&flags.tree.patterns.in_order)? {
        let added = match pattern {
            Pattern::Include(pattern) => options.selection.include(&pattern),
            Pattern::Exclude(pattern) => options.selection.exclude(&pattern),
            // It was replaced by its patterns.
            Pattern::ExcludeFrom(_) => continue,
        };
        added.map_err(|error| error.to_string())?;
    }
    options.delete = flags.tree.delete.then(|| {
        let mut delete = Delete::default();
        delete.most = flags.tree.max_delete;
        delete.empty_source = flags.tree.delete_empty_source;
        delete
    });
    options.dry_run = flags.tree.dry_run;
    Ok(options)
}

impl From<LinksArg> for Links {
    fn from(how: LinksArg) -> Links {
        match how {
            LinksArg::Preserve => Links::Preserve,
            LinksArg::Follow => Links::Follow,
            LinksArg::Skip => Links::Skip,
        }
    }
}

/// Returns the sizes that flags or settings give; `origin` looks up the origin by the name of the
/// setting.
pub(crate) fn tuning(flags: &CopyArgs, origin: impl Fn(&str) -> Origin) -> Tuning {
    let mut tuning = Tuning::default();
    let rows = [
        (flags.zero_copy_min, "zero-copy-min", &mut tuning.zero_copy_min),
        (flags.direct_min, "direct-min", &mut tuning.direct_min),
        (flags.direct_cpu_min, "direct-cpu-min", &mut tuning.direct_cpu_min),
        (flags.buffer_size, "buffer-size", &mut tuning.buffer),
    ];
    for (bytes, name, threshold) in rows {
        if let Some(bytes) = bytes {
            *threshold = Threshold { bytes, origin: origin(name) };
        }
    }
    tuning
}

/// Returns the flags of the backups that these flags and the environment ask for, so that no other environment has a
/// say.
///
/// # Errors
/// A sentence for people: the environment has no valid meaning.
pub(crate) fn backup_flags(flags: &CopyArgs) -> Result<Vec<OsString>, String> {
    if flags.backup.is_none() && flags.suffix.is_none() {
        return Ok(Vec::new());
    }
    let Some(backup) = backup(flags, |name| std::env::var_os(name))? else {
        return Ok(vec!["--backup=none".into()]);
    };
    let control = match backup.numbering {
        Numbering::Always => "--backup=numbered",
        Numbering::Never => "--backup=simple",
        Numbering::IfThereAreSome => "--backup=existing",
    };
    let mut suffix = OsString::from("--suffix=");
    suffix.push(&backup.suffix);
    Ok(vec![control.into(), suffix])
}

/// Returns the backups that the flags and, as for `cp`, two variables of the environment ask for.
fn backup(
    flags: &CopyArgs,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<Backup>, String> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let control = match (flags.backup, &flags.suffix) {
        (None, None) => return Ok(None),
        (None | Some(BackupArg::Default), _) => match set("VERSION_CONTROL") {
            None => BackupArg::Existing,
            Some(text) => {
                let known = text.to_str().and_then(|text| BackupArg::from_str(text, false).ok());
                known.filter(|known| *known != BackupArg::Default).ok_or_else(|| {
                    format!(
                        "VERSION_CONTROL in the environment is {text:?}; set it to numbered, existing, \
                         simple or none, or unset it"
                    )
                })?
            }
        },
        (Some(control), _) => control,
    };
    let mut backup = Backup::default();
    backup.numbering = match control {
        BackupArg::None => return Ok(None),
        BackupArg::Numbered => Numbering::Always,
        BackupArg::Simple => Numbering::Never,
        BackupArg::Existing | BackupArg::Default => Numbering::IfThereAreSome,
    };
    if let Some(suffix) = flags.suffix.clone().or_else(|| set("SIMPLE_BACKUP_SUFFIX")) {
        backup.suffix = suffix;
    }
    Ok(Some(backup))
}

fn allow(flags: &CopyArgs) -> Allow {
    match flags.method {
        Method::Only(mechanism) => Allow::Only(mechanism),
        Method::Auto if flags.reflink == Some(ReflinkArg::Always) => {
            Allow::Only(Mechanism::Reflink)
        }
        Method::Auto if flags.no_zero_copy => Allow::ReadWrite,
        Method::Auto if flags.reflink == Some(ReflinkArg::Never) => Allow::Unshared,
        Method::Auto => Allow::Any,
    }
}

fn require(flag: RequireArg) -> Require {
    match flag {
        RequireArg::None => Require::Nothing,
        RequireArg::NoUserCopy => Require::NoUserCopy,
        RequireArg::ZeroCopy => Require::ZeroCopy,
        RequireArg::Moved => Require::Moved,
        RequireArg::Shared => Require::Shared,
        RequireArg::Reflink => Require::Reflink,
    }
}

fn preserve(flags: &CopyArgs, system: System) -> Result<Preserve, String> {
    let lists = CopyOptions::new().preserve(Preserve::default().acl(true));
    let has_lists = systems::refused(&lists, system).is_empty();
    let mut preserve = match flags.tree.archive {
        true => Preserve::all(),
        false => Preserve::default(),
    };
    let given = flags.preserve.iter().map(|attribute| (attribute, true));
    let taken = flags.no_preserve.iter().map(|attribute| (attribute, false));
    for (attribute, is_kept) in given.chain(taken) {
        match attribute {
            // The list, where there is one, is the mode's finer part, and `cp` keeps both or none.
            Attribute::Mode => {
                preserve.mode = is_kept;
                if has_lists {
                    preserve.acl = is_kept;
                }
            }
            Attribute::Ownership => preserve.ownership = is_kept,
            Attribute::Timestamps => preserve.timestamps = is_kept,
            Attribute::Xattr => preserve.xattr = is_kept,
            Attribute::Acl => preserve.acl = is_kept,
            Attribute::Links => {}
            Attribute::All if is_kept => preserve = Preserve::all(),
            Attribute::All => preserve = Preserve::default(),
            Attribute::Context if is_kept => {
                return Err(String::from(
                    "the security context is not preserved by itself: the system labels new files; \
                     the nearest attribute is xattr",
                ));
            }
            Attribute::Context => {}
        }
    }
    Ok(preserve)
}

fn verify(flags: &CopyArgs) -> Result<Option<Verify>, String> {
    let by_default = (flags.single && !flags.no_verify).then_some(DigestArg::default());
    match flags.verify.or(by_default) {
        None if flags.trust_shared_extents => Err(String::from(
            "--trust-shared-extents only says how --verify is to be done; add --verify",
        )),
        None => Ok(None),
        Some(algorithm) => {
            let mut verify = Verify::default();
            verify.algorithm = algorithm.digest();
            verify.trust_shared_extents = flags.trust_shared_extents;
            Ok(Some(verify))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};
    use uncopy::copy::{Digest, Level};

    use super::*;

    fn parse(line: &str) -> Result<CopyOptions, String> {
        let arguments = std::iter::once("cp").chain(line.split_whitespace());
        let matches = CopyArgs::augment_args(clap::Command::new("cp")).get_matches_from(arguments);
        options(&CopyArgs::from_arg_matches(&matches).unwrap())
    }

    /// Default options of the library, and reading of streams.
    fn usual() -> CopyOptions {
        let mut options = CopyOptions::default();
        options.read_streams = true;
        options
    }

    #[test]
    fn no_flag_is_the_librarys_default_and_streams() {
        assert_eq!(parse("a b").unwrap(), usual());
        assert_eq!(parse("--zero-copy --method auto a b").unwrap(), usual());
        assert_eq!(parse("-r a b").unwrap(), CopyOptions::default());
    }

    #[test]
    fn every_flag_reaches_its_option() {
        type Change = fn(&mut CopyOptions);
        let rows: [(&str, Change); 45] = [
            ("--chmod=u=rwX,Fo-r", |o| o.mode_changes = "u=rwX,Fo-r".parse().ok()),
            ("--chmod 644 --chmod=-x", |o| o.mode_changes = "644,-x".parse().ok()),
            ("--chown=1:2", |o| o.owner = Some(uncopy::copy::Owner::new().user(1).group(2))),
            ("-i", |o| o.ask = true),
            ("--manifest sums", |o| o.digest = Some(Digest::Blake3)),
            ("--digest", |o| o.digest = Some(Digest::Blake3)),
            ("--digest=sha256", |o| o.digest = Some(Digest::Sha256)),
            ("--method reflink", |o| o.allow = Allow::Only(Mechanism::Reflink)),
            ("--method copy-file-range", |o| o.allow = Allow::Only(Mechanism::CopyFileRange)),
            ("--method direct", |o| o.allow = Allow::Only(Mechanism::Direct)),
            ("--method sendfile", |o| o.allow = Allow::Only(Mechanism::Sendfile)),
            ("--method splice", |o| o.allow = Allow::Only(Mechanism::Splice)),
            ("--method=read-write", |o| o.allow = Allow::Only(Mechanism::ReadWrite)),
            ("--require-zero-copy --no-user-copy", |o| o.require = Require::ZeroCopy),
            ("--no-user-copy", |o| o.require = Require::NoUserCopy),
            ("--require=no-user-copy", |o| o.require = Require::NoUserCopy),
            ("--require zero-copy", |o| o.require = Require::ZeroCopy),
            ("--require=moved", |o| o.require = Require::Moved),
            ("--require=shared", |o| o.require = Require::Shared),
            ("--require=reflink", |o| o.require = Require::Reflink),
            ("--require=moved --no-user-copy", |o| o.require = Require::Moved),
            ("--require=no-user-copy --require-zero-copy", |o| o.require = Require::ZeroCopy),
            ("--reflink", |o| o.allow = Allow::Only(Mechanism::Reflink)),
            ("--reflink=auto", |_| {}),
            ("--reflink=never", |o| o.allow = Allow::Unshared),
            ("--no-zero-copy", |o| o.allow = Allow::ReadWrite),
            ("--prefer cpu", |o| o.prefer = Prefer::CpuTime),
            ("--sparse=always", |o| o.sparse = Sparse::Always),
            ("--sparse=never", |o| o.sparse = Sparse::Never),
            ("--cache=keep", |o| o.cache = Cache::Keep),
            ("--cache=skip", |o| o.cache = Cache::Skip),
            ("--if-changed=fail", |o| o.flush_source = true),
            ("--if-changed=retry", |o| (o.if_changed, o.flush_source) = (IfChanged::Retry, true)),
            ("--if-changed=accept", |o| o.if_changed = IfChanged::Accept),
            ("-n", |o| o.existing = Existing::Keep),
            ("-f", |o| o.existing = Existing::Force),
            ("--remove-destination", |o| o.existing = Existing::Remove),
            ("-f --remove-destination", |o| o.existing = Existing::Remove),
            ("--attributes-only", |o| o.attributes_only = true),
            ("--durable", |o| o.durable = true),
            ("--in-place", |o| o.in_place = true),
            ("--copy-contents", |o| o.copy_contents = true),
            ("--compress=zstd", |o| o.transform = Transform::Compress(Level::default())),
            ("--compress zstd:19", |o| {
                o.transform = Transform::Compress(Level::new(19).unwrap());
            }),
            ("--decompress", |o| o.transform = Transform::Decompress),
        ];
        for (flags, change) in rows {
            let mut expected = usual();
            change(&mut expected);
            assert_eq!(parse(&format!("{flags} a b")).unwrap(), expected, "{flags}");
        }
    }

    #[test]
    fn the_mode_has_lists_where_the_system_has_them() {
        for (system, line, expected) in [
            (System::Linux, "--preserve=mode", (true, true)),
            (System::MacOs, "--preserve=mode", (true, true)),
            (System::Windows, "--preserve=mode", (true, false)),
            (System::Other, "--preserve=mode", (true, false)),
            (System::MacOs, "--preserve=acl --no-preserve=mode", (false, false)),
            (System::Windows, "--preserve=acl,mode", (true, true)),
            (System::Windows, "--preserve=mode,acl", (true, true)),
            (System::Windows, "-a --no-preserve=mode", (false, true)),
        ] {
            let arguments = ["cp"].into_iter().chain(line.split_whitespace()).chain(["a", "b"]);
            let command = CopyArgs::augment_args(clap::Command::new("cp"));
            let flags = CopyArgs::from_arg_matches(&command.get_matches_from(arguments)).unwrap();
            let found = preserve(&flags, system).unwrap();
            assert_eq!((found.mode, found.acl), expected, "{system} {line}");
        }
    }

    #[test]
    fn preserve_takes_a_list_behind_an_equals_sign_only() {
        let preserved = |line: &str| parse(line).unwrap().preserve;
        assert_eq!(preserved("-p a b"), Preserve::basic());
        assert_eq!(preserved("-pf a b"), Preserve::basic());
        assert_eq!(preserved("--preserve a b"), Preserve::basic());
        assert_eq!(preserved("--preserve=all a b"), Preserve::all());
        let mut some = Preserve::default();
        (some.mode, some.acl) = (true, true);
        assert_eq!(preserved("--preserve=mode a b"), some);
        assert_eq!(preserved("-p --no-preserve=ownership,timestamps a b"), some);
        assert_eq!(preserved("-a --no-preserve=all --preserve=mode a b"), Preserve::default());
        assert_eq!(preserved("-a a b"), Preserve::all());
        assert_eq!(preserved("--preserve=links,all --no-preserve=links a b"), Preserve::all());
        assert!(parse("--preserve=context a b").is_err());
        assert_eq!(preserved("--preserve=mode,acl a b"), some);
        assert_eq!(preserved("--preserve=mode --preserve=acl a b"), some);
        assert!(!preserved("-p --no-preserve=acl --no-preserve=context a b").acl);
        let mut more = Preserve::basic();
        more.xattr = true;
        assert_eq!(preserved("-p --preserve=xattr a b"), more);
    }

    #[test]
    fn backups_are_those_of_cp() {
        use Numbering::{Always, IfThereAreSome, Never};
        let variables = |pairs: &'static [(&str, &str)]| {
            move |name: &str| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.into())
        };
        let none: &'static [(&str, &str)] = &[];
        let environment: &'static [(&str, &str)] =
            &[("VERSION_CONTROL", "t"), ("SIMPLE_BACKUP_SUFFIX", ".old")];
        for (line, pairs, expected) in [
            ("a b", environment, None),
            ("-b a b", none, Some((IfThereAreSome, "~"))),
            ("-S.x a b", none, Some((IfThereAreSome, ".x"))),
            ("-bS .x a b", none, Some((IfThereAreSome, ".x"))),
            ("--backup=none a b", none, None),
            ("--backup=off -S.x a b", none, None),
            ("--backup=nil a b", none, Some((IfThereAreSome, "~"))),
            ("--backup=simple a b", none, Some((Never, "~"))),
            ("--backup=never a b", none, Some((Never, "~"))),
            ("--backup=numbered a b", none, Some((Always, "~"))),
            ("--backup=t a b", none, Some((Always, "~"))),
            ("-b a b", environment, Some((Always, ".old"))),
            ("-b --suffix=.x a b", environment, Some((Always, ".x"))),
            ("--backup=simple a b", environment, Some((Never, ".old"))),
            ("-b a b", &[("VERSION_CONTROL", "off")][..], None),
            ("-b a b", &[("VERSION_CONTROL", "")], Some((IfThereAreSome, "~"))),
        ] {
            let words = std::iter::once("cp").chain(line.split(' '));
            let matches = CopyArgs::augment_args(clap::Command::new("cp")).get_matches_from(words);
            let flags = CopyArgs::from_arg_matches(&matches).unwrap();
            let found = backup(&flags, variables(pairs)).unwrap();
            let found = found.as_ref().map(|b| (b.numbering, b.suffix.to_str().unwrap()));
            assert_eq!(found, expected, "{line} {pairs:?}");
        }
    }

    #[test]
    fn nonsense_in_the_environment_is_refused_where_it_matters() {
        for (line, expected) in
            [("-b a b", true), ("-S.x a b", true), ("--backup=t a b", false), ("a b", false)]
        {
            let words = std::iter::once("cp").chain(line.split(' '));
            let matches = CopyArgs::augment_args(clap::Command::new("cp")).get_matches_from(words);
            let flags = CopyArgs::from_arg_matches(&matches).unwrap();
            for nonsense in ["sometimes", "default"] {
                let found =
                    backup(&flags, |name| (name == "VERSION_CONTROL").then(|| nonsense.into()));
                assert_eq!(found.is_err(), expected, "{line} {nonsense}");
            }
        }
    }

    #[test]
    fn verification_is_asked_for_by_its_flag() {
        for (line, expected) in [
            ("a b", None),
            ("--no-verify a b", None),
            ("--verify a b", Some(Digest::Blake3)),
            ("--verify=sha256 a b", Some(Digest::Sha256)),
            ("--verify=xxh3 a b", Some(Digest::Xxh3)),
        ] {
            let verify = parse(line).unwrap().verify;
            assert_eq!(verify.map(|verify| verify.algorithm), expected, "{line}");
        }
    }

    #[test]
    fn trusting_shared_extents_needs_verification() {
        assert!(parse("--trust-shared-extents a b").is_err());
        let options = parse("--trust-shared-extents --verify a b").unwrap();
        assert!(options.verify.unwrap().trust_shared_extents);
    }
}
