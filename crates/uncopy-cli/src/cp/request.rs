//! Converts flags to options of the library.

use uncopy::Mechanism;
use uncopy::copy::job::{Delete, JobOptions, Links, OnError, Sources};
use uncopy::copy::{
    Allow, Cache, CopyOptions, Existing, IfChanged, Origin, Prefer, Preserve, Require, Sparse,
    Threshold, Transform, Tuning, Verify,
};

use crate::flags::copy::{
    Attribute, CacheArg, CopyArgs, DigestArg, IfChangedArg, Method, OnErrorArg, PreferArg,
    RequireArg, SparseArg,
};
use crate::flags::select::Pattern;
use crate::flags::tree::LinksArg;

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
        (true, _) => Existing::Keep,
        (false, true) => Existing::Force,
        (false, false) => Existing::Replace,
    };
    options.preserve = preserve(&flags.preserve);
    options.verify = verify(flags)?;
    let by_default = flags.manifest.is_some().then_some(DigestArg::default());
    options.digest = flags.digest.or(by_default).map(DigestArg::digest);
    options.durable = flags.durable;
    options.in_place = flags.in_place;
    options.copy_contents = flags.copy_contents;
    options.read_streams = !flags.tree.recursive;
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
    if !flags.tree.recursive {
        // Settings for trees, such as `links`, have no effect.
        options.sources = Sources::Files;
        return Ok(options);
    }
    options.links = match flags.tree.links {
        LinksArg::Preserve => Links::Preserve,
        LinksArg::Follow => Links::Follow,
        LinksArg::Skip => Links::Skip,
    };
    options.follow_outside = flags.tree.follow_outside;
    options.specials = flags.tree.specials;
    options.jobs = flags.tree.jobs;
    for pattern in &flags.tree.patterns.in_order {
        let added = match pattern {
            Pattern::Include(pattern) => options.selection.include(pattern),
            Pattern::Exclude(pattern) => options.selection.exclude(pattern),
        };
        added.map_err(|error| error.to_string())?;
    }
    options.update = flags.tree.update;
    options.delete = flags.tree.delete.then(|| {
        let mut delete = Delete::default();
        delete.most = flags.tree.max_delete;
        delete.empty_source = flags.tree.delete_empty_source;
        delete
    });
    options.dry_run = flags.tree.dry_run;
    options.resume = flags.tree.resume;
    options.retries = flags.tree.retries;
    Ok(options)
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

fn allow(flags: &CopyArgs) -> Allow {
    match flags.method {
        Method::Reflink => Allow::Only(Mechanism::Reflink),
        Method::CopyFileRange => Allow::Only(Mechanism::CopyFileRange),
        Method::Direct => Allow::Only(Mechanism::Direct),
        Method::Sendfile => Allow::Only(Mechanism::Sendfile),
        Method::Splice => Allow::Only(Mechanism::Splice),
        Method::ReadWrite => Allow::Only(Mechanism::ReadWrite),
        Method::Auto if flags.no_zero_copy => Allow::ReadWrite,
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

fn preserve(attributes: &[Attribute]) -> Preserve {
    let mut preserve = Preserve::default();
    for attribute in attributes {
        match attribute {
            Attribute::Mode => preserve.mode = true,
            Attribute::Ownership => preserve.ownership = true,
            Attribute::Timestamps => preserve.timestamps = true,
            Attribute::Xattr => preserve.xattr = true,
            Attribute::Acl => preserve.acl = true,
            Attribute::All => preserve = Preserve::all(),
        }
    }
    preserve
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
        let rows: [(&str, Change); 35] = [
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
    fn preserve_takes_a_list_behind_an_equals_sign_only() {
        let preserved = |line: &str| parse(line).unwrap().preserve;
        assert_eq!(preserved("-p a b"), Preserve::basic());
        assert_eq!(preserved("-pf a b"), Preserve::basic());
        assert_eq!(preserved("--preserve a b"), Preserve::basic());
        assert_eq!(preserved("--preserve=all a b"), Preserve::all());
        let mut some = Preserve::default();
        some.mode = true;
        some.acl = true;
        assert_eq!(preserved("--preserve=mode,acl a b"), some);
        assert_eq!(preserved("--preserve=mode --preserve=acl a b"), some);
        let mut more = Preserve::basic();
        more.xattr = true;
        assert_eq!(preserved("-p --preserve=xattr a b"), more);
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
