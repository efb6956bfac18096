//! What the calling thread may do that others may not (capabilities(7)).

use rustix::thread::{CapabilitySet, capabilities};

/// Whether files of others can be given away or changed: by root, and by whoever was lent that.
pub fn overrides_file_ownership() -> bool {
    let reaching = CapabilitySet::CHOWN
        | CapabilitySet::FOWNER
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::SETFCAP
        | CapabilitySet::SYS_ADMIN;
    let has = || capabilities(None).is_ok_and(|sets| sets.effective.intersects(reaching));
    super::file::effective_uid() == 0 || has()
}
