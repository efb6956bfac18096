//! Memory that the machine really has.
//!
//! A virtual machine whose hypervisor takes back free pages (free page reporting,
//! `mm/page_reporting.c`, some two seconds after they became free) pays for each page it takes up
//! again, tens of microseconds or more for the first touch; whoever fills much page cache pays
//! most. So as much memory as a run will take up is written to and given back right before it, for
//! every subject alike.

use std::ffi::OsString;
use std::hint::black_box;
use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace;

/// Memory that stays free, for the processes that run meanwhile.
const RESERVE_BYTES: u64 = 512 << 20;

/// Memory that a copy takes up beside the page cache of what it reads and writes.
const OWN_BYTES: u64 = 64 << 20;

/// Arguments of `cargo xtask touch`.
#[derive(clap::Args)]
pub(crate) struct TouchArguments {
    /// How much.
    bytes: usize,
}

/// Writes to every page of a fresh allocation and ends, which gives it back.
///
/// # Errors
/// None: it is a task as all are.
pub(crate) fn touch(arguments: &TouchArguments) -> Result<()> {
    let mut memory: Vec<u8> = Vec::with_capacity(arguments.bytes);
    memory.resize(arguments.bytes, 1);
    black_box(&memory);
    Ok(())
}

/// Has free memory written to, for a copy that takes up `bytes` of page cache, as far as so much is
/// free: page cache is left alone.
///
/// In a process of its own, so that the harness stays small, and with huge pages (`mallopt(3)`,
/// `glibc.malloc.hugetlb`), so that it is quick.
///
/// # Errors
/// If the process cannot be started.
pub(super) fn touch_free_memory(bytes: u64) -> Result<()> {
    let bytes = (bytes + OWN_BYTES).min(free_bytes()?.saturating_sub(RESERVE_BYTES));
    if bytes == 0 {
        return Ok(());
    }
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("touch").arg(OsString::from(bytes.to_string()));
    workspace::run(command.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"))
}

fn free_bytes() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    let kibibytes = text
        .lines()
        .find_map(|line| line.strip_prefix("MemFree:")?.trim().strip_suffix(" kB")?.parse().ok());
    let kibibytes: u64 = kibibytes.context("/proc/meminfo has no MemFree")?;
    Ok(kibibytes * 1024)
}
