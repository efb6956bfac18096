//! Facilities that older kernels lack, looked up without the library.

use std::any::Any;
use std::cell::Cell;
use std::sync::OnceLock;

use io_uring::{IoUring, Probe, opcode};
use rustix::fs::{MemfdFlags, copy_file_range, memfd_create};

use crate::harness::record_reason;
use crate::scratch::run_directory;
use crate::sys::seccomp::has_killable_waits;

/// Facility of newer kernels. A test that needs one shows as ignored on a kernel that lacks it, in a root
/// run too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelFeature {
    /// Sends from memory that io_uring lends, one region or several (Linux 6.1).
    RingZerocopySends,
    /// Rings whose releases say whether memory was copied: all but those of Linux 6.1, which lends it and does not say
    /// (`IORING_SEND_ZC_REPORT_USAGE`, Linux 6.2).
    RingReports,
    /// `STATX_DIOALIGN` (Linux 6.1): how `O_DIRECT` must be aligned.
    DirectAlignment,
    /// Supervised system calls that no signal interrupts (Linux 5.19), in which a program can be stopped.
    StoppedCalls,
    /// `FICLONE` from one mount of a filesystem to another (Linux 5.18).
    ClonesBetweenMounts,
    /// `O_DIRECT` on tmpfs (Linux 6.6).
    DirectOnTmpfs,
    /// `cachestat(2)` (Linux 6.5), which shows pages that are dirty.
    CacheState,
}

impl KernelFeature {
    /// Whether this kernel has it.
    #[must_use]
    pub fn is_here(self) -> bool {
        static RING: OnceLock<bool> = OnceLock::new();
        match self {
            KernelFeature::RingZerocopySends => *RING.get_or_init(ring_sends_zerocopy),
            KernelFeature::RingReports => {
                is_at_least(6, 2) || !KernelFeature::RingZerocopySends.is_here()
            }
            KernelFeature::DirectAlignment => is_at_least(6, 1),
            KernelFeature::StoppedCalls => has_killable_waits(),
            KernelFeature::ClonesBetweenMounts => is_at_least(5, 18),
            KernelFeature::DirectOnTmpfs => is_at_least(6, 6),
            KernelFeature::CacheState => is_at_least(6, 5),
        }
    }

    pub(crate) fn reason(self) -> &'static str {
        match self {
            KernelFeature::RingZerocopySends => {
                "this kernel's io_uring has no zero-copy sends (Linux 6.1)"
            }
            KernelFeature::RingReports => {
                "this kernel's io_uring does not say whether lent memory was copied (Linux 6.2)"
            }
            KernelFeature::StoppedCalls => {
                "this kernel's supervised calls can be interrupted (until Linux 5.19)"
            }
            KernelFeature::DirectAlignment => "this kernel has no STATX_DIOALIGN (Linux 6.1)",
            KernelFeature::ClonesBetweenMounts => {
                "this kernel clones no files between mounts (until Linux 5.18)"
            }
            KernelFeature::DirectOnTmpfs => "this kernel's tmpfs has no O_DIRECT (until Linux 6.6)",
            KernelFeature::CacheState => "this kernel has no cachestat(2) (Linux 6.5)",
        }
    }
}

/// Whether this kernel's `copy_file_range` copies from one filesystem to another, as from Linux 5.3 to 5.18. A
/// bare call is made, from memory to the directory of this run.
///
/// # Panics
/// If there is no file to try it with.
#[must_use]
pub fn copies_between_filesystems() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let memory = memfd_create("probe", MemfdFlags::CLOEXEC).expect("Linux 3.17 has such files");
        rustix::io::write(&memory, b"x").expect("a byte fits into memory");
        let file = tempfile::tempfile_in(run_directory()).expect("the directory can be written to");
        copy_file_range(&memory, Some(&mut 0), &file, Some(&mut 0), 1) == Ok(1)
    })
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

thread_local! {
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Makes [`need`] end the test that this thread runs as ignored, because a harness looks at its payload.
pub(crate) fn catch_needs() {
    IS_CAUGHT.set(true);
}

/// Ends the calling test, on its own thread, as ignored if the kernel lacks `feature`.
///
/// # Panics
/// With the reason under the standard library's harness, in which a running test cannot become ignored. The
/// reason is recorded too, so that a reader of the results can tell such a test from one that failed.
pub fn need(feature: KernelFeature) {
    if feature.is_here() {
        return;
    }
    let reason = feature.reason();
    if IS_CAUGHT.get() {
        // Without the message of a panic.
        std::panic::resume_unwind(Box::new(Lacking(reason)));
    }
    record_reason(std::thread::current().name().unwrap_or_default(), reason);
    panic!("{reason}");
}

/// Returns why a test that ended by this payload is ignored. `None`: it failed.
pub(crate) fn lacking(payload: &(dyn Any + Send)) -> Option<&'static str> {
    payload.downcast_ref::<Lacking>().map(|Lacking(reason)| *reason)
}
