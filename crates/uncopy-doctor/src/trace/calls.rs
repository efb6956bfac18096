//! Records every call of functions that copy sent bytes, if the kernel has kprobes (`perf_event_open(2)` with
//! its kprobe PMU). The kernel removes the probes when their descriptors are closed, so also when the program
//! is killed.

use std::ffi::CString;
use std::fs;

use uncopy_core::Errno;
use uncopy_os::Sys;
use uncopy_os::perf::{Sample, Sampler};

/// File with the number of the kernel's kprobe PMU.
const KIND: &str = "/sys/bus/event_source/devices/kprobe/type";

/// Functions whose calls are recorded.
pub(super) struct Calls {
    probed: Vec<Probed>,
}

/// One function, on every CPU.
struct Probed {
    name: &'static str,
    samplers: Vec<Sampler>,
}

impl Calls {
    /// Starts recording calls of these functions on these CPUs. Functions that this kernel lacks are skipped.
    ///
    /// # Errors
    /// Reason why calls cannot be recorded, for people.
    pub(super) fn begin(functions: &[&'static str], processors: &[usize]) -> Result<Calls, String> {
        let kind = fs::read_to_string(KIND).ok().and_then(|text| text.trim().parse().ok());
        let kind = kind.ok_or("this kernel has no kprobes")?;
        let mut probed = Vec::new();
        for name in functions {
            let on = |processor: &usize| of_calls(name, kind, *processor);
            match processors.iter().map(on).collect::<Sys<Vec<Sampler>>>() {
                Ok(samplers) => probed.push(Probed { name, samplers }),
                // Inlined, or named differently in this version.
                Err(Errno::ENOENT | Errno::EADDRNOTAVAIL | Errno::EINVAL) => {}
                Err(errno) => return Err(refusal(errno)),
            }
        }
        match probed.is_empty() {
            true => Err(format!("this kernel has no {}", functions.join(", "))),
            false => Ok(Calls { probed }),
        }
    }

    /// Returns the calls recorded since the last time.
    pub(super) fn take(&mut self, into: &mut Vec<Sample>) {
        for sampler in self.probed.iter_mut().flat_map(|probed| &mut probed.samplers) {
            sampler.take(into);
        }
    }

    /// Describes the number of calls of each function, by any caller.
    pub(super) fn describe(&self) -> String {
        let count = |probed: &Probed| -> u64 {
            probed.samplers.iter().map(|sampler| sampler.count().unwrap_or(0)).sum()
        };
        let counted = self.probed.iter().map(|probed| format!("{} {}", probed.name, count(probed)));
        format!("calls by any caller: {}", counted.collect::<Vec<_>>().join(", "))
    }
}

fn of_calls(name: &str, kind: u32, processor: usize) -> Sys<Sampler> {
    let name = CString::new(name).map_err(|_| Errno::EINVAL)?;
    Sampler::of_calls(&name, kind, processor)
}

/// Describes why kprobes were refused. `perf_kprobe_event_init` (`kernel/events/core.c`) checks permissions
/// independently of `kernel.perf_event_paranoid`.
fn refusal(errno: Errno) -> String {
    let lockdown = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    let why = match errno {
        Errno::EACCES => "CAP_PERFMON is missing".to_owned(),
        Errno::EPERM if lockdown.contains("[confidentiality]") => {
            "the kernel is locked down".into()
        }
        Errno::EPERM => "a seccomp filter, or the kernel is locked down".to_owned(),
        Errno::EMFILE => "too few files may be open; raise RLIMIT_NOFILE".to_owned(),
        _ => errno.message(),
    };
    format!("refused: {why} ({errno})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        for (errno, expected) in [
            (Errno::EACCES, "refused: CAP_PERFMON is missing (EACCES)"),
            (Errno::EMFILE, "refused: too few files may be open; raise RLIMIT_NOFILE (EMFILE)"),
        ] {
            assert_eq!(refusal(errno), expected);
        }
        assert!(refusal(Errno::EPERM).contains("locked down"));
    }

    /// Few kernels of test machines have kprobes; `cargo xtask vm-test` has one.
    #[test]
    fn missing_kprobes_are_reported() {
        let said = Calls::begin(&["no_such_function"], &[0]).err().unwrap();
        let has = fs::exists(KIND).unwrap();
        let expected: &[&str] = match has {
            true => &["no_such_function", "refused: "],
            false => &["this kernel has no kprobes"],
        };
        assert!(expected.iter().any(|words| said.contains(words)), "{said}");
    }
}
