//! The tests of sending under AddressSanitizer: whatever is freed while something in the process
//! still uses it is found. (What the kernel reads too late it cannot see: receivers compare bytes.)

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// Arguments of `cargo xtask sanitize`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A toolchain that has sanitizers.
    #[arg(long, default_value = "nightly")]
    toolchain: String,
    /// The system to build for, which must be named so that build scripts go without.
    #[arg(long, default_value = "x86_64-unknown-linux-gnu")]
    target: String,
}

/// Builds the tests with the sanitizer and runs them.
///
/// # Errors
/// If it finds something, a test fails, or the toolchain is not here.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { toolchain, target } = arguments;
    let tests = ["--test", "send", "--test", "send_async"];
    // Forgotten senders keep their memory on purpose, so that leaks are no findings.
    let status = Command::new("rustup")
        .args(["run", toolchain, "cargo", "test", "--package", "uncopy", "--all-features"])
        .args(["--target", target])
        .args(tests)
        .current_dir(workspace::root())
        .env("CARGO_TARGET_DIR", workspace::target_directory().join("sanitize"))
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .env_remove("RUSTC")
        .env_remove("RUSTDOC")
        .env_remove("CARGO")
        .env_remove("RUSTUP_TOOLCHAIN")
        .status()
        .context("cannot start rustup; install it, and `rustup toolchain install nightly`")?;
    ensure!(status.success(), "the sanitizer or a test found something: {status}");
    Ok(())
}
