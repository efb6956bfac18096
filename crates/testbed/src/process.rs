//! Runs other programs.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open};

use crate::sys::launch::Launch;

/// Directories of administrators' tools, which an ordinary user's `PATH` may lack.
const ADMIN_PATHS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Maximum time of a program before it counts as hanging.
const HANG: Duration = Duration::from_secs(180);

/// Returns the full path of a tool.
pub(crate) fn find_tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(ADMIN_PATHS.iter().map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
}

/// Runs a tool that must succeed; returns what it printed.
///
/// # Panics
/// If it fails, with its messages.
pub fn run_tool<I>(name: &str, arguments: I) -> String
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    let output = run_quietly(name, arguments);
    assert!(
        output.status.success(),
        "{name} failed ({}): {}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout),
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a tool that may fail.
///
/// # Panics
/// If it is not installed.
pub fn run_quietly<I>(name: &str, arguments: I) -> Output
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    let path = find_tool(name).unwrap_or_else(|| panic!("{name} is not installed"));
    let arguments: Vec<_> = arguments.into_iter().map(|a| a.as_ref().to_owned()).collect();
    Command::new(path)
        .args(&arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("cannot start {name} {arguments:?}: {error}"))
}

/// A running program whose output is read, killed when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    process: Pid,
    status: Option<ExitStatus>,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

impl Running {
    pub(crate) fn start(launch: Launch) -> Running {
        let name = format!("{:?}", launch.command);
        let launched = launch.start().unwrap_or_else(|error| panic!("{name}: {error}"));
        let stdout = Some(drain(File::from(launched.stdout)));
        let stderr = Some(drain(File::from(launched.stderr)));
        Running { process: launched.process, status: None, stdout, stderr }
    }

    pub(crate) fn process_id(&self) -> i32 {
        self.process.as_raw_pid()
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.wait(WaitOptions::NOHANG).is_some()
    }

    fn wait(&mut self, options: WaitOptions) -> Option<ExitStatus> {
        if self.status.is_none() {
            let wait = || rustix::process::waitpid(Some(self.process), options);
            let ended = retry_on_intr(wait).expect("a child can be waited for");
            self.status = ended.map(|(_, status)| ExitStatus::from_raw(status.as_raw()));
        }
        self.status
    }

    /// Waits for the end; returns exit status and output.
    ///
    /// # Panics
    /// If it hangs.
    pub(crate) fn finish(mut self) -> Output {
        // Whoever asked whether it has ended has waited for it.
        if !self.has_ended() && !ends_within(self.process, HANG) {
            let process = self.process_id();
            let stack = std::fs::read_to_string(format!("/proc/{process}/stack"));
            panic!("the program hangs in {}", stack.unwrap_or_default());
        }
        let status = self.wait(WaitOptions::empty()).expect("it has ended");
        Output { status, stdout: joined(self.stdout.take()), stderr: joined(self.stderr.take()) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = kill_process(self.process, Signal::KILL);
            let _ = self.wait(WaitOptions::empty());
        }
    }
}

/// Waits until a child has ended. `false`: it goes on after `limit`.
fn ends_within(process: Pid, limit: Duration) -> bool {
    let handle = pidfd_open(process, PidfdFlags::empty()).expect("Linux 5.3 has such handles");
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).expect("minutes");
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            ready => return ready.expect("a process can be waited for") > 0,
        }
    }
}

fn drain(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

fn joined(reader: Option<JoinHandle<Vec<u8>>>) -> Vec<u8> {
    reader.map(|handle| handle.join().expect("a reader does not panic")).unwrap_or_default()
}

/// Returns the type and source of the filesystem that holds `path`, from this process's mount table. `None`: the table does
/// not have it, as in a directory that `chroot(2)` made the root.
pub(crate) fn filesystem_and_source(path: &Path) -> Option<(String, String)> {
    let output = run_quietly(
        "findmnt",
        [
            OsStr::new("-n"),
            OsStr::new("-o"),
            OsStr::new("FSTYPE,SOURCE"),
            OsStr::new("-T"),
            path.as_os_str(),
        ],
    );
    let printed = String::from_utf8_lossy(&output.stdout);
    let mut words = printed.split_whitespace().map(str::to_owned);
    words.next().zip(words.next())
}

/// Returns the state of a process from `proc_pid_stat(5)`: `T` if it is stopped.
///
/// # Panics
/// If there is no such process.
#[must_use]
pub fn state(process: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("a process");
    state_in(&stat).expect("a state")
}

/// Returns the children of a process and theirs, each before its own.
#[must_use]
pub fn descendants(of: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process may end meanwhile.
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1));
        if parent.and_then(|parent| parent.parse().ok()) == Some(of) {
            found.push(id);
            found.extend(descendants(id));
        }
    }
    found
}

/// Returns the states of the threads of a process. Empty: it is gone.
pub(crate) fn thread_states(process: i32) -> Vec<char> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    let stats = threads.flatten().filter_map(|thread| {
        // A thread may end meanwhile.
        std::fs::read_to_string(thread.path().join("stat")).ok()
    });
    stats.filter_map(|stat| state_in(&stat)).collect()
}

fn state_in(stat: &str) -> Option<char> {
    stat.rsplit(") ").next()?.chars().next()
}
