//! Samples of kernel stacks, and of calls of kernel functions (`perf_event_open(2)`).

use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Sys, last_errno};
use uncopy_core::Errno;

/// The first version of `struct perf_event_attr` (`linux/perf_event.h`), 64 bytes, which every kernel
/// accepts.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    /// Frequency, or number of events between samples.
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint: u32,
    /// Address of a function's name (`kprobe_func`).
    config1: u64,
}

impl Default for Attributes {
    /// Attributes that record process and call chain, of no event yet.
    fn default() -> Attributes {
        Attributes {
            kind: 0,
            size: size_of::<Attributes>() as u32,
            config: 0,
            sample_period: 0,
            sample_type: SAMPLE,
            read_format: 0,
            flags: 0,
            wakeup_events: 0,
            breakpoint: 0,
            config1: 0,
        }
    }
}

/// `PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_CPU_CLOCK`.
const SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;
/// `PERF_SAMPLE_TID`, `PERF_SAMPLE_CALLCHAIN`.
const SAMPLE: u64 = 1 << 1 | 1 << 5;
/// `exclude_idle`, `freq`, `exclude_callchain_user`.
const EXCLUDE_IDLE: u64 = 1 << 7;
const BY_FREQUENCY: u64 = 1 << 10;
const KERNEL_CHAINS: u64 = 1 << 22;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// `PERF_RECORD_SAMPLE`.
const RECORD_SAMPLE: u32 = 9;
/// Smallest context marker in a call chain (`enum perf_callchain_context`).
const MIN_CONTEXT: u64 = u64::MAX - 4094;
/// Samples per second. A prime, so that samples do not coincide with periodic timers.
const FREQUENCY: u64 = 997;
/// Data pages of a ring, a power of two, behind its control page. All rings of a processor together stay
/// below the limit for users who are not root (`kernel.perf_event_mlock_kb`).
const CLOCK_PAGES: usize = 64;
const CALL_PAGES: usize = 8;
/// Offsets of `data_head` and `data_tail` in the control page.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// Call chain of a processor at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    pub pid: u32,
    /// Kernel addresses, the innermost first. Empty: the processor ran a program.
    pub chain: Vec<u64>,
}

/// Sampler of one processor. The kernel frees its resources when the process ends, in whatever way.
pub struct Sampler {
    event: OwnedFd,
    ring: Mapped,
    data_pages: usize,
}

/// A shared mapping, unmapped on drop.
struct Mapped {
    address: NonNull<u8>,
    length: usize,
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing refers to it after this.
        let _ = unsafe { libc::munmap(self.address.as_ptr().cast(), self.length) };
    }
}

impl Sampler {
    /// Starts sampling everything that runs on a processor.
    pub fn on(processor: usize) -> Sys<Sampler> {
        let attributes = Attributes {
            kind: SOFTWARE,
            config: CPU_CLOCK,
            sample_period: FREQUENCY,
            flags: EXCLUDE_IDLE | BY_FREQUENCY | KERNEL_CHAINS,
            ..Attributes::default()
        };
        Sampler::open(&attributes, processor, CLOCK_PAGES)
    }

    /// Starts recording every call of a kernel function on a processor. `kind` is the number of the kprobe PMU
    /// (`/sys/bus/event_source/devices/kprobe/type`).
    ///
    /// # Errors
    /// `EACCES`: CAP_PERFMON is missing. `ENOENT`: there is no such function. `EPERM`: lockdown.
    pub fn of_calls(function: &CStr, kind: u32, processor: usize) -> Sys<Sampler> {
        let attributes = Attributes {
            kind,
            sample_period: 1,
            flags: KERNEL_CHAINS,
            config1: function.as_ptr() as u64,
            ..Attributes::default()
        };
        Sampler::open(&attributes, processor, CALL_PAGES)
    }

    /// Opens an event. `attributes.config1` is 0, or the address of a zero-terminated text that outlives the
    /// call.
    fn open(attributes: &Attributes, processor: usize, data_pages: usize) -> Sys<Sampler> {
        let processor = libc::c_int::try_from(processor).map_err(|_| Errno::EINVAL)?;
        let attributes: *const Attributes = attributes;
        // SAFETY: the kernel reads `size` bytes of the structure, which has the kernel's layout and outlives
        // the call, and a text if `config1` is its address, which outlives the call too; all other fields
        // are numbers. For an invalid address the kernel answers EFAULT.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                attributes,
                -1 as libc::pid_t,
                processor,
                -1 as libc::c_int,
                CLOSE_ON_EXEC,
            )
        };
        let fd = libc::c_int::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(last_errno)?;
        // SAFETY: the kernel has just made this descriptor, and nothing else owns it.
        let event = unsafe { OwnedFd::from_raw_fd(fd) };
        let length = (1 + data_pages) * rustix::param::page_size();
        // SAFETY: a new mapping at an address that the kernel chooses touches no other memory.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(last_errno());
        }
        let address = NonNull::new(address.cast()).ok_or(Errno::ENOMEM)?;
        Ok(Sampler { event, ring: Mapped { address, length }, data_pages })
    }

    /// Returns the number of events, which is exact unless the kernel throttled them.
    pub fn count(&self) -> Sys<u64> {
        let mut count = [0; 8];
        rustix::io::read(&self.event, &mut count)?;
        Ok(u64::from_ne_bytes(count))
    }

    /// Moves all available samples to `into`.
    pub fn take(&mut self, into: &mut Vec<Sample>) {
        let head = self.counter(HEAD).load(Ordering::Acquire);
        let tail = self.counter(TAIL).load(Ordering::Relaxed);
        let records = self.bytes(tail, head.wrapping_sub(tail));
        self.counter(TAIL).store(head, Ordering::Release);
        into.extend(samples_in(&records));
    }

    fn counter(&self, offset: usize) -> &AtomicU64 {
        let number = self.ring.address.as_ptr().wrapping_add(offset).cast();
        // SAFETY: both offsets are inside the first page, which is mapped while `self` is borrowed,
        // and multiples of eight; the kernel changes these numbers as atomic ones.
        unsafe { AtomicU64::from_ptr(number) }
    }

    /// Copies bytes from `tail` on, wrapping at the end of the ring.
    fn bytes(&self, tail: u64, length: u64) -> Vec<u8> {
        let page = rustix::param::page_size();
        let size = self.data_pages * page;
        let length = (length as usize).min(size);
        let at = tail as usize % size;
        let first = length.min(size - at);
        let mut bytes = vec![0; length];
        let data = self.ring.address.as_ptr().wrapping_add(page);
        let from = data.wrapping_add(at);
        // SAFETY: `at + first` is at most `size`, so the source lies within the mapping, whose data begin
        // at the second page; the kernel does not write between tail and head.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), first) };
        let rest = &mut bytes[first..];
        // SAFETY: as before; the remaining length is at most `at`.
        unsafe { std::ptr::copy_nonoverlapping(data, rest.as_mut_ptr(), rest.len()) };
        bytes
    }
}

/// Parses the samples in records: header, process and thread, number of addresses, addresses.
fn samples_in(mut records: &[u8]) -> Vec<Sample> {
    let mut samples = Vec::new();
    while let Some((header, _)) = records.split_at_checked(8) {
        let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        let length = usize::from(u16::from_ne_bytes([header[6], header[7]]));
        let Some(record) = records.get(8..length) else { break };
        if kind == RECORD_SAMPLE {
            samples.extend(sample_in(record));
        }
        records = &records[length..];
    }
    samples
}

fn sample_in(record: &[u8]) -> Option<Sample> {
    let number = |at: usize| Some(u64::from_ne_bytes(record.get(at..at + 8)?.try_into().ok()?));
    let pid = u32::from_ne_bytes(record.get(..4)?.try_into().ok()?);
    let count = usize::try_from(number(8)?).ok()?;
    let chain =
        (0..count).map_while(|n| number(16 + 8 * n)).filter(|address| *address < MIN_CONTEXT);
    Some(Sample { pid, chain: chain.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, numbers: &[u64]) -> Vec<u8> {
        let body: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        let length = (8 + body.len()) as u16;
        [&kind.to_ne_bytes()[..], &[0, 0], &length.to_ne_bytes(), &body].concat()
    }

    #[test]
    fn records_are_parsed() {
        let kernel = u64::MAX - 127;
        let records = [
            record(2, &[1, 2]),
            record(RECORD_SAMPLE, &[7 | 8 << 32, 3, kernel, 0xffff_0001, 0xffff_0002]),
            record(RECORD_SAMPLE, &[9, 0]),
        ]
        .concat();
        let samples = samples_in(&records);
        assert_eq!(
            samples,
            [
                Sample { pid: 7, chain: vec![0xffff_0001, 0xffff_0002] },
                Sample { pid: 9, chain: vec![] }
            ]
        );
        for end in 0..records.len() {
            let _ = samples_in(&records[..end]);
        }
        assert_eq!(samples_in(&[0; 16]), [], "a record of no length");
    }
}
