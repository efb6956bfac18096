//! A mount and process namespace for tests that mount.
//!
//! Whatever way the test program ends, also by `kill -9`, the kernel kills the processes in the
//! namespace with its first process (`pid_namespaces(7)`), unmounts what was mounted there with the
//! last one (`mount_namespaces(7)`), and detaches the loop devices, which are `autoclear`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::process::{find_tool, run_tool};

/// Which of the three processes this is: unset outside, `init` as the first process of the
/// namespace, `tests` in the one that runs the tests.
///
/// The first process of a process namespace ignores Ctrl-C, so the tests run in a second one.
const STAGE: &str = "UNCOPY_TESTBED_STAGE";

/// The directory that the first process made for mounts.
const MOUNTS: &str = "UNCOPY_TESTBED_MOUNTS";

pub(crate) enum Sandbox {
    /// This process runs the tests.
    Entered,
    /// Another process ran them, with this result.
    Left(ExitCode),
}

/// `UNCOPY_TEST_ROOT=1`: tests may mount, and a missing tool is a failure.
pub(crate) fn root_is_asked_for() -> bool {
    std::env::var_os("UNCOPY_TEST_ROOT").is_some_and(|value| value == "1")
}

/// [`root_is_asked_for`], and this is root.
pub(crate) fn is_root_run() -> bool {
    root_is_asked_for() && rustix::process::geteuid().is_root()
}

pub(crate) fn enter() -> Sandbox {
    if is_root_run() { enter_as_root() } else { Sandbox::Entered }
}

pub(crate) fn enter_as_root() -> Sandbox {
    match std::env::var(STAGE).ok().as_deref() {
        Some("tests") => Sandbox::Entered,
        Some(_) => Sandbox::Left(run_the_tests()),
        None => {
            assert!(find_tool("unshare").is_some(), "needs unshare (package util-linux)");
            let error = this_program("init", Some("unshare")).exec();
            panic!("cannot start unshare: {error}");
        }
    }
}

/// Where the tests may mount, in the namespace alone.
pub(crate) fn mount_directory() -> PathBuf {
    std::env::var_os(MOUNTS).map(PathBuf::from).expect("only tests that need root mount")
}

fn run_the_tests() -> ExitCode {
    // Everybody may enter /tmp, also the other users that some tests copy as.
    let mounts = tempfile::Builder::new()
        .prefix("uncopy-testbed-")
        .permissions(Permissions::from_mode(0o755))
        .tempdir_in("/tmp")
        .expect("/tmp is writable");
    let point = mounts.path().as_os_str();
    run_tool(
        "mount",
        [
            "-t".as_ref(),
            "tmpfs".as_ref(),
            "-o".as_ref(),
            "mode=755".as_ref(),
            "tmpfs".as_ref(),
            point,
        ],
    );
    let status = this_program("tests", None).env(MOUNTS, point).status();
    run_tool("umount", ["-l".as_ref(), point]);
    let status = status.expect("a program can start itself again");
    status
        .code()
        .map_or(ExitCode::FAILURE, |code| ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

fn this_program(stage: &str, through: Option<&str>) -> Command {
    let program = std::env::current_exe().expect("/proc is mounted");
    let mut command = match through {
        Some(unshare) => {
            let mut command = Command::new(unshare);
            command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
            command.arg(program);
            command
        }
        None => Command::new(program),
    };
    command.args(std::env::args_os().skip(1)).env(STAGE, stage);
    command
}
