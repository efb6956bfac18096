//! Where the project lies, and how its programs are built.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Runs something in mount and PID namespaces of its own, with scratch space in `directory`.
///
/// # Errors
/// `failure`, if it fails, of which the reason has been printed then.
pub(crate) fn sandboxed(
    directory: &Path,
    failure: &'static str,
    body: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let code = testbed::run_sandboxed(directory, || match body() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask: {error:#}");
            ExitCode::FAILURE
        }
    });
    ensure!(code == ExitCode::SUCCESS, "{failure}");
    Ok(())
}

/// The filesystems to work on, in the sandbox: those that can be had.
pub(crate) fn places() -> Vec<(&'static str, PathBuf)> {
    let mut places = vec![("disk", testbed::Place::Disk)];
    if rustix::process::geteuid().is_root() {
        places.extend([("xfs", testbed::Place::Xfs), ("btrfs", testbed::Place::Btrfs)]);
    } else {
        println!("xfs, btrfs: skipped: need root, to mount");
    }
    places.into_iter().map(|(name, place)| (name, place.path())).collect()
}

/// Files that git tracks or would track, relative to the root.
///
/// # Errors
/// If git cannot be asked.
pub(crate) fn tracked_files() -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .context("cannot start git; this looks at the files that git knows")?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).context("a tracked name is not UTF-8")?;
    let exists = |path: &&str| !path.is_empty() && root().join(path).is_file();
    Ok(listed.split('\0').filter(exists).map(|path| Path::new(path).to_owned()).collect())
}

/// The cargo that runs this task, or the one on the path.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// Where cargo puts what it builds here.
pub(crate) fn target_directory() -> PathBuf {
    let chosen = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root().join(chosen)
}

/// Builds the release program of `package` and returns its path. `uncopy` has units of work then, also where it was built without.
///
/// # Errors
/// If cargo fails; what it said stands above.
pub(crate) fn build_release(package: &str, program: &str) -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--quiet", "--locked", "--release", "--package", package]);
    if package == "uncopy-cli" {
        build.args(["--features", "unit"]);
    }
    run(&mut build)?;
    Ok(target_directory().join("release").join(program))
}

/// Goes on in the release build of this program, if this is a debug build: what is measured inside
/// it must be optimised, and files are made and compared many times faster.
///
/// # Errors
/// If it cannot be built or started.
pub(crate) fn continue_optimised() -> Result<()> {
    if !cfg!(debug_assertions) {
        return Ok(());
    }
    let release = build_release("xtask", "xtask")?;
    let error = Command::new(release).args(std::env::args_os().skip(1)).exec();
    Err(error).context("cannot start the release build of xtask")
}

/// Runs a command to its end.
///
/// # Errors
/// If it cannot be started or does not succeed; the message holds the whole command.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}

/// The program `name` on the path, if it is there.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}
