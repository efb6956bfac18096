//! Mount and process namespaces for tests that mount.
//!
//! However the test program ends, even by `kill -9`, the kernel kills the processes in the
//! namespace with its first process (`pid_namespaces(7)`), unmounts its mounts with the last one
//! (`mount_namespaces(7)`), and detaches the loop devices, which are `autoclear`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::process::{find_tool, run_tool};

/// Environment variable with the role of this process: unset outside, `init` for the first process
/// of the namespace, `tests` for the one that runs the tests.
///
/// The first process of a process namespace ignores Ctrl-C, so the tests run in a second one.
const STAGE: &str = "UNCOPY_TESTBED_STAGE";

/// Directory for mounts, created by the first process.
const MOUNTS: &str = "UNCOPY_TESTBED_MOUNTS";

pub(crate) enum Sandbox {
    /// This process runs the tests.
    Entered,
    /// Another process ran them, with this result.
    Left(ExitCode),
}

/// Whether `UNCOPY_TEST_ROOT=1` is set: tests may mount, and a missing tool is a failure.
pub(crate) fn root_is_asked_for() -> bool {
    std::env::var_os("UNCOPY_TEST_ROOT").is_some_and(|value| value == "1")
}

/// Whether [`root_is_asked_for`], and the user is root.
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

/// Returns the directory for mounts, which exists only in the namespace.
pub(crate) fn mount_directory() -> PathBuf {
    std::env::var_os(MOUNTS).map(PathBuf::from).expect("only tests that need root mount")
}

fn run_the_tests() -> ExitCode {
    // Some tests copy as other users, who must be able to enter it, like /tmp.
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
