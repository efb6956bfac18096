//! Confines threads to the paths of a job, by Landlock (landlock(7)).

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AddRuleError, AddRulesError, BitFlags, CompatLevel, Compatible,
    PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
};
use rustix::fs::OFlags;
use rustix::io::Errno;
use uncopy_os::follow;

/// Version from which on a file can be renamed into another directory, which the engine does (Linux 5.19).
const NEEDED: ABI = ABI::V2;
/// Latest version whose rights are handled.
const LATEST: ABI = ABI::V5;

/// Rights beneath a path.
struct Rule {
    handle: OwnedFd,
    access: BitFlags<AccessFs>,
}

/// Confines the calling thread, and all that it starts from now on, to reading beneath these handles. `false`: the kernel
/// cannot. This holds for each function here.
pub(crate) fn to_reading(of: impl Iterator<Item = OwnedFd>) -> bool {
    let access = AccessFs::ReadFile | AccessFs::ReadDir;
    let all = of.chain(random());
    apply(AccessFs::from_all, all.map(|handle| Rule { handle, access })).is_ok()
}

/// Returns a handle of the file that the standard library reads for its hash maps where getrandom(2) is forbidden.
fn random() -> Option<OwnedFd> {
    follow::open(Path::new("/dev/urandom"), OFlags::PATH).ok()
}

/// Confines it to writing beneath these handles, and to linking files from beneath the others; it reads anywhere.
pub(crate) fn to_writing(
    of: impl Iterator<Item = OwnedFd>,
    linked: impl Iterator<Item = OwnedFd>,
) -> bool {
    let access = AccessFs::from_write(LATEST);
    // A file may get no name by which more is allowed than by those that it has (landlock(7), LANDLOCK_ACCESS_FS_REFER).
    let of_files = access & AccessFs::from_file(LATEST) | AccessFs::Refer;
    let linked = linked.map(|handle| Rule { handle, access: of_files });
    apply(AccessFs::from_write, of.map(|handle| Rule { handle, access }).chain(linked)).is_ok()
}

/// Confines it to reading and writing beneath `within`, and to reading beneath `readable`.
pub(crate) fn to_directory(within: OwnedFd, readable: impl Iterator<Item = OwnedFd>) -> bool {
    let all = Rule { handle: within, access: AccessFs::from_all(LATEST) };
    let access = AccessFs::ReadFile | AccessFs::ReadDir;
    let rules = readable.chain(random()).map(|handle| Rule { handle, access });
    apply(AccessFs::from_all, std::iter::once(all).chain(rules)).is_ok()
}

/// `handled`: rights that are taken away elsewhere.
fn apply(
    handled: impl Fn(ABI) -> BitFlags<AccessFs>,
    rules: impl Iterator<Item = Rule>,
) -> Result<(), RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(handled(NEEDED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(handled(LATEST))?
        .create()?;
    for Rule { handle, access } in rules {
        // The crate leaves out rights that the kernel does not know, and on a file those of directories.
        match (&mut ruleset).add_rule(PathBeneath::new(handle.as_fd(), access)) {
            Err(error) if needs_no_rule(&error) => {}
            other => drop(other?),
        }
    }
    ruleset.restrict_self().map(drop)
}

/// Whether the kernel takes no rule for something, and forbids nobody to open it: a pipe, a socket or a memory file, which
/// lies in no directory and is found in `/proc` alone (`get_path_from_fd` in `security/landlock/syscalls.c`,
/// `is_nouser_or_private` in `security/landlock/fs.c`).
fn needs_no_rule(error: &RulesetError) -> bool {
    match error {
        RulesetError::AddRules(AddRulesError::Fs(AddRuleError::AddRuleCall { source, .. })) => {
            source.raw_os_error() == Some(Errno::BADFD.raw_os_error())
        }
        _ => false,
    }
}
