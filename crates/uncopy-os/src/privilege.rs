//! Capabilities of the calling thread (capabilities(7)).

use rustix::thread::{CapabilitySet, capabilities};

/// Whether the thread can change files of other users, or their owner: root, or a thread with such a
/// capability.
pub fn overrides_file_ownership() -> bool {
    let reaching = CapabilitySet::CHOWN
        | CapabilitySet::FOWNER
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::SETFCAP
        | CapabilitySet::SYS_ADMIN;
    let has = || capabilities(None).is_ok_and(|sets| sets.effective.intersects(reaching));
    super::file::effective_uid() == 0 || has()
}

/// Whether a file that the thread writes to keeps setuid and setgid (`CAP_FSETID`; `setattr_should_drop_suidgid` in
/// `fs/attr.c`).
pub fn keeps_setuid_of_written() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::FSETID))
}
