//! The cost of one whole process: wall time, processor time, memory, bytes to and from devices.
//!
//! A small process of its own starts the program and waits for it, because the kernel adds up the
//! costs of children only once they are waited for, and keeps but one maximum of their memory for
//! all of them (`getrusage(2)`).

use std::ffi::OsString;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};

/// Arguments of `cargo xtask measure`.
#[derive(clap::Args)]
pub(crate) struct MeasureArguments {
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// The cost of a process, its own children included.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// From before its start to after its end.
    pub(crate) wall_seconds: f64,
    /// User and system time (`getrusage(2)`); kernel threads that write pages back are not in it.
    pub(crate) cpu_seconds: f64,
    /// Largest resident set (`ru_maxrss`). Never below that of the process that started it, whose
    /// memory the child has until `execve(2)`.
    pub(crate) peak_bytes: u64,
    /// Read from devices for it (`read_bytes` of `proc_pid_io(5)`).
    pub(crate) device_read_bytes: u64,
    /// Sent to devices for it, now or later (`write_bytes` of `proc_pid_io(5)`): pages are counted
    /// when they become dirty.
    pub(crate) device_written_bytes: u64,
    /// It ended with 0.
    pub(crate) success: bool,
    /// How it ended.
    pub(crate) status: String,
}

/// Usage of the children of this process that have ended, and of theirs (`getrusage(2)`).
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct ChildrenUsage {
    /// User and system time.
    pub(crate) cpu_seconds: f64,
    /// Largest resident set of one of them (`ru_maxrss`).
    pub(crate) peak_bytes: u64,
}

impl ChildrenUsage {
    /// Usage so far.
    ///
    /// # Errors
    /// If the system call fails.
    pub(crate) fn now() -> Result<ChildrenUsage> {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let cpu = usage.user_time() + usage.system_time();
        Ok(ChildrenUsage {
            cpu_seconds: cpu.num_microseconds() as f64 / 1e6,
            peak_bytes: u64::try_from(usage.max_rss())? * 1024,
        })
    }
}

/// Runs the command and prints its [`Cost`] as a line of JSON.
///
/// # Errors
/// If it cannot be started.
pub(crate) fn measure(arguments: &MeasureArguments) -> Result<()> {
    let (program, rest) = arguments.command.split_first().context("no program is named")?;
    let mut command = Command::new(program);
    command.args(rest).stdin(Stdio::null()).stdout(Stdio::null());
    let before = DeviceBytes::of_self()?;
    let begin = Instant::now();
    let mut child =
        command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
    let status = child.wait().context("cannot wait for the program")?;
    let wall_seconds = begin.elapsed().as_secs_f64();
    let after = DeviceBytes::of_self()?;
    let children = ChildrenUsage::now()?;
    let cost = Cost {
        wall_seconds,
        cpu_seconds: children.cpu_seconds,
        peak_bytes: children.peak_bytes,
        device_read_bytes: after.read - before.read,
        device_written_bytes: after.written - before.written,
        success: status.success(),
        status: status.to_string(),
    };
    println!("{}", serde_json::to_string(&cost)?);
    Ok(())
}

/// Has `command` run and measured by a process of its own.
///
/// # Errors
/// If it cannot be started, or does not succeed: with what it said last.
pub(crate) fn run_measured(command: &[OsString]) -> Result<Cost> {
    let output = Command::new(std::env::current_exe()?)
        .arg("measure")
        .arg("--")
        .args(command)
        .stdin(Stdio::null())
        .output()
        .context("cannot start the measuring process")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().lines().next_back().unwrap_or("it said nothing").to_owned();
    if !output.status.success() {
        bail!("{said}");
    }
    let cost: Cost = serde_json::from_slice(&output.stdout)
        .context("the measuring process printed something else than its costs")?;
    if !cost.success {
        bail!("{}: {said}", cost.status);
    }
    Ok(cost)
}

/// `read_bytes` and `write_bytes` of this process and of the children it has waited for.
struct DeviceBytes {
    read: u64,
    written: u64,
}

impl DeviceBytes {
    fn of_self() -> Result<DeviceBytes> {
        let text = fs::read_to_string("/proc/self/io").context("cannot read /proc/self/io")?;
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse().ok())
                .with_context(|| format!("/proc/self/io has no {name}"))
        };
        Ok(DeviceBytes { read: field("read_bytes")?, written: field("write_bytes")? })
    }
}
