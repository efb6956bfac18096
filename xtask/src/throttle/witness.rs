//! Who counts the bytes: the kernel, in `/proc/PID/io` of the program that copies
//! (`proc_pid_io(5)`), and not the library, which keeps the rate and would believe itself.
//!
//! Lengths and blocks of the copies would not do: where blocks are reserved beforehand both leap.

use std::process::Child;

use anyhow::{Context, Result};
use uncopy::Mechanism;

/// A line of `/proc/PID/io`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Witness {
    /// `wchar`: what `write(2)`, `pwrite(2)` and `sendfile(2)` were given, to the byte
    /// (`fs/read_write.c`, `add_wchar`). Splices and direct writes of a ring are not in it.
    Written,
    /// `write_bytes`: pages of the cache that became dirty, and direct writes
    /// (`mm/page-writeback.c`, `folio_account_dirtied`; `fs/iomap/direct-io.c`), whoever made the
    /// calls. A large folio counts whole however little of it is written, which adds some per cent to
    /// files of 100 KiB, and metadata that a filesystem keeps in such pages is in it too: fit for one
    /// large file.
    Dirtied,
}

impl Witness {
    /// The one that sees bytes which go this way, and as little else as there is.
    pub(super) fn of(mechanism: Mechanism) -> Witness {
        match mechanism {
            Mechanism::ReadWrite | Mechanism::Sendfile => Witness::Written,
            _ => Witness::Dirtied,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Witness::Written => "wchar",
            Witness::Dirtied => "write_bytes",
        }
    }

    /// What the kernel has counted so far.
    ///
    /// # Errors
    /// If it does not count (`CONFIG_TASK_IO_ACCOUNTING`), or not for us.
    pub(super) fn count(self, child: &Child) -> Result<u64> {
        let file = format!("/proc/{}/io", child.id());
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
        self.parse(&text).with_context(|| format!("{file} has no {}", self.name()))
    }

    fn parse(self, text: &str) -> Option<u64> {
        let value = |line: &str| line.strip_prefix(self.name())?.strip_prefix(": ")?.parse().ok();
        text.lines().find_map(value)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_line_is_read_and_no_other() {
        let text = "rchar: 1\nwchar: 22\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 66\n\
                    cancelled_write_bytes: 7\n";
        assert_eq!(Witness::Written.parse(text), Some(22));
        assert_eq!(Witness::Dirtied.parse(text), Some(66));
        assert_eq!(Witness::Dirtied.parse("cancelled_write_bytes: 7\n"), None);
    }

    /// A program of which it is known what it writes.
    #[test]
    fn the_kernel_counts_for_another_process() {
        let mut child = Command::new("sh")
            .args(["-c", "printf %0200000d 7 >/dev/null; read -r line"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let written = || Witness::Written.count(&child).unwrap();
        testbed::wait_for("all of it", || written() >= 200_000);
        assert_eq!(written(), 200_000);
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
