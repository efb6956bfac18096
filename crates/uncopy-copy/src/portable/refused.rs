//! Finds options that a copy by the standard library alone cannot obey (pure).

use crate::{
    Allow, Cache, CopyOptions, Existing, IfChanged, Prefer, Preserve, Require, Sparse, Transform,
    Tuning,
};
use uncopy_core::CopyOption;
use uncopy_core::Mechanism;

/// Those that ask for something it does not do, in the order of [`CopyOption::ALL`].
///
/// The structs are taken apart field by field, so that a new option has to be thought of here.
pub(super) fn refused(options: &CopyOptions) -> Vec<CopyOption> {
    let CopyOptions {
        allow,
        require,
        prefer,
        sparse,
        cache,
        if_changed,
        flush_source,
        existing,
        ask,
        backup,
        attributes_only,
        preserve,
        mode_changes,
        owner,
        verify,
        digest,
        durable,
        in_place,
        copy_contents,
        // Matters for sources that are streams, which are refused when they are seen.
        read_streams: _,
        tuning,
        transform,
        // Says how `transform` names its files.
        suffix: _,
        // Obeyed.
    } = options;
    let Preserve { mode, ownership, timestamps, xattr, acl } = *preserve;
    // The buffer has the requested size.
    let Tuning { zero_copy_min, direct_min, direct_cpu_min, buffer: _ } = *tuning;
    let reads_and_writes =
        matches!(allow, Allow::Any | Allow::ReadWrite | Allow::Only(Mechanism::ReadWrite));
    let usual = Tuning::BUILT_IN;
    [
        (!reads_and_writes, CopyOption::Allow),
        (*require != Require::Nothing, CopyOption::Require),
        (*prefer != Prefer::WallTime, CopyOption::Prefer),
        (*sparse == Sparse::Always, CopyOption::Sparse),
        (*cache != Cache::Auto, CopyOption::Cache),
        // It flushes the source first, as the next one does.
        (*if_changed == IfChanged::Retry, CopyOption::IfChanged),
        (*flush_source && *if_changed == IfChanged::Fail, CopyOption::FlushSource),
        (*existing == Existing::Remove, CopyOption::Remove),
        (*ask, CopyOption::Ask),
        (backup.is_some(), CopyOption::Backup),
        (*attributes_only, CopyOption::AttributesOnly),
        (mode, CopyOption::PreserveMode),
        (ownership, CopyOption::PreserveOwnership),
        (timestamps, CopyOption::PreserveTimestamps),
        (xattr, CopyOption::PreserveXattr),
        (acl, CopyOption::PreserveAcl),
        (mode_changes.is_some(), CopyOption::ModeChanges),
        (owner.is_some(), CopyOption::Owner),
        (verify.is_some(), CopyOption::Verify),
        (digest.is_some(), CopyOption::Digest),
        (*durable, CopyOption::Durable),
        (*in_place, CopyOption::InPlace),
        (*copy_contents, CopyOption::CopyContents),
        (zero_copy_min != usual.zero_copy_min, CopyOption::ZeroCopyMin),
        (direct_min != usual.direct_min, CopyOption::DirectMin),
        (direct_cpu_min != usual.direct_cpu_min, CopyOption::DirectCpuMin),
        (*transform != Transform::None, CopyOption::Transform),
    ]
    .into_iter()
    .filter_map(|(is_asked_for, option)| is_asked_for.then_some(option))
    .collect()
}
