//! Facilities that older kernels lack, looked up without the library.

use std::any::Any;
use std::sync::OnceLock;

use io_uring::{IoUring, Probe, opcode};

use crate::sys::seccomp::has_killable_waits;

/// Facility of newer kernels. A test that needs one shows as ignored on a kernel that lacks it, in a root
/// run too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelFeature {
    /// Sends from memory that io_uring lends, one region or several (Linux 6.1).
    RingZerocopySends,
    /// `STATX_DIOALIGN` (Linux 6.1): how `O_DIRECT` must be aligned.
    DirectAlignment,
    /// Supervised system calls that no signal interrupts (Linux 5.19), in which a program can be stopped.
    StoppedCalls,
}

impl KernelFeature {
    /// Whether this kernel has it.
    #[must_use]
    pub fn is_here(self) -> bool {
        static RING: OnceLock<bool> = OnceLock::new();
        match self {
            KernelFeature::RingZerocopySends => *RING.get_or_init(ring_sends_zerocopy),
            KernelFeature::DirectAlignment => is_at_least(6, 1),
            KernelFeature::StoppedCalls => has_killable_waits(),
        }
    }

    pub(crate) fn reason(self) -> &'static str {
        match self {
            KernelFeature::RingZerocopySends => {
                "this kernel's io_uring has no zero-copy sends (Linux 6.1)"
            }
            KernelFeature::StoppedCalls => {
                "this kernel's supervised calls can be interrupted (until Linux 5.19)"
            }
            KernelFeature::DirectAlignment => "this kernel has no STATX_DIOALIGN (Linux 6.1)",
        }
    }
}

fn ring_sends_zerocopy() -> bool {
    let Ok(ring) = IoUring::new(2) else { return false };
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).is_ok()
        && [opcode::SendZc::CODE, opcode::SendMsgZc::CODE]
            .iter()
            .all(|code| probe.is_supported(*code))
}

/// Whether the kernel's release is this one or a newer one.
fn is_at_least(major: u32, minor: u32) -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|text| text.parse().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(major), Some(minor))
}

/// Payload of a panic that ends a test as ignored.
struct Lacking(&'static str);

/// Ends the calling test, on its own thread, as ignored if the kernel lacks `feature`.
pub fn need(feature: KernelFeature) {
    if !feature.is_here() {
        // Without the message of a panic.
        std::panic::resume_unwind(Box::new(Lacking(feature.reason())));
    }
}

/// Returns why a test that ended by this payload is ignored. `None`: it failed.
pub(crate) fn lacking(payload: &(dyn Any + Send)) -> Option<&'static str> {
    payload.downcast_ref::<Lacking>().map(|Lacking(reason)| *reason)
}
