//! Marks of machines, by which an end that asks knows whether the files that it is shown are those of its own machine.

use uncopy_os::name::random_bytes;
use uncopy_wire::MachineMark;

/// Number that a kernel makes when it starts (proc_sys_kernel(5)). Containers have that of their host, and copies of a
/// running virtual machine have one of their own only if their names differ.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
const NAME: &str = "/proc/sys/kernel/hostname";

/// Purpose of the digests, so that they are of use for nothing else.
const PURPOSE: &str = "uncopy 2026-11-27 mark of the machine that serves a session";

/// Returns the mark of this machine for one session. `None`: it does not know itself.
pub(crate) fn mark() -> Option<MachineMark> {
    let salt = random_bytes().ok()?;
    Some(MachineMark { salt, digest: digest(&salt)? })
}

/// Whether a mark is that of this machine.
pub(crate) fn is_here(mark: &MachineMark) -> bool {
    digest(&mark.salt) == Some(mark.digest)
}

fn digest(salt: &[u8]) -> Option<[u8; 32]> {
    let boot = std::fs::read(BOOT).ok().filter(|boot| !boot.is_empty())?;
    let name = std::fs::read(NAME).ok()?;
    let mut hasher = blake3::Hasher::new_derive_key(PURPOSE);
    // Each ends in a line feed.
    hasher.update(salt).update(&boot).update(&name);
    Some(hasher.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_knows_its_own_marks_alone() {
        let (one, other) = (mark().unwrap(), mark().unwrap());
        assert!(is_here(&one) && is_here(&other));
        assert_ne!(one.digest, other.digest);
        assert!(!is_here(&MachineMark { salt: other.salt, ..one }));
        assert!(!is_here(&MachineMark { digest: [0; 32], ..one }));
    }
}
