//! Links GCC's unwinder into the program, where the toolchain has it as an archive.
//!
//! `libgcc_s.so` costs about a tenth of the time that a whole 4 KiB copy takes: the dynamic loader
//! maps it, and its constructor executes `cpuid` two dozen times, each of which traps in a virtual
//! machine (`__cpu_indicator_init`, libgcc/config/i386/cpuinfo.c). Where the archive is missing, or
//! the linker prefers the shared library, the program works all the same.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const ARCHIVE: &str = "libgcc_eh.a";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if let Some(directory) = is_wanted().then(archive_directory).flatten() {
        println!("cargo::rustc-link-search=native={}", directory.display());
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
}

/// Not in a static build, which has no shared libraries, and not when building for another
/// machine, whose archive the compiler of this one does not know.
fn is_wanted() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let is_static = env::var("CARGO_CFG_TARGET_FEATURE")
        .is_ok_and(|features| features.split(',').any(|feature| feature == "crt-static"));
    is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && env::var("HOST") == env::var("TARGET")
        && !is_static
}

/// Where the compiler driver, which is also the linker, keeps the archive.
fn archive_directory() -> Option<PathBuf> {
    let compiler = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let output = Command::new(compiler).arg(format!("-print-file-name={ARCHIVE}")).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    // A compiler that does not have the file repeats the bare name.
    let path = Path::new(path.trim());
    path.is_absolute().then(|| path.parent().map(Path::to_owned)).flatten()
}
