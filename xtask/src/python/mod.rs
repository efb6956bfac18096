//! `cargo xtask python-test`: the Python package, built as a wheel, installed into a fresh environment, and tested there.

mod environment;
pub(crate) mod wheel;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::workspace;
pub(crate) use environment::Environment;
use wheel::Wheel;

/// Arguments of `cargo xtask python-test`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only look whether the tests can run: whether there is a Python from 3.11 on, and pip can install what they need.
    #[arg(long)]
    check: bool,
    /// Test an optimised wheel, as it is published; otherwise one that is built quickly.
    #[arg(long)]
    release: bool,
    /// Interpreters to test with. [default: python3]
    #[arg(long = "python", value_name = "PROGRAM")]
    interpreters: Vec<PathBuf>,
    /// Arguments of pytest.
    #[arg(last = true)]
    pytest: Vec<String>,
}

/// Builds the wheel and runs the tests with each interpreter.
///
/// # Errors
/// If there is no such Python, the wheel cannot be built, or a test fails.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let default = [PathBuf::from("python3")];
    let interpreters = match arguments.interpreters.as_slice() {
        [] => &default,
        named => named,
    };
    let tools = Environment::kept("tools", &interpreters[0], &[MATURIN])?;
    if arguments.check {
        return Ok(());
    }
    let wheel = Wheel::build(&tools, arguments.release)?;
    wheel.check()?;
    for (number, interpreter) in interpreters.iter().enumerate() {
        let fresh = Environment::fresh(&format!("test-{number}"), interpreter)?;
        fresh.install(&TESTED_WITH)?;
        fresh.install(&[wheel.path().to_str().context("the path of the wheel is not UTF-8")?])?;
        let mut pytest = fresh.program("python");
        pytest.args(["-m", "pytest"]).args(&arguments.pytest).current_dir(package());
        workspace::run(&mut pytest)?;
    }
    Ok(())
}

/// Installs an optimised wheel into an environment of its own, for measurements.
///
/// # Errors
/// As [`run`].
pub(crate) fn install_optimised() -> Result<()> {
    let tools = Environment::kept("tools", Path::new("python3"), &[MATURIN])?;
    let wheel = Wheel::build(&tools, true)?;
    let environment = Environment::fresh(MEASURED, Path::new("python3"))?;
    environment.install(&[wheel.path().to_str().context("the path of the wheel is not UTF-8")?])
}

/// Returns the interpreter of that environment.
pub(crate) fn installed() -> PathBuf {
    environment::place(MEASURED).join("bin/python")
}

/// Name of the environment for measurements.
const MEASURED: &str = "measured";

/// Makes an environment with what builds the wheels that are published.
///
/// # Errors
/// As [`Environment::kept`].
pub(crate) fn tools_for_all_systems() -> Result<Environment> {
    Environment::kept("cross-tools", Path::new("python3"), &[MATURIN, "ziglang>=0.13,<1"])
}

/// Program that builds wheels.
const MATURIN: &str = "maturin>=1.16,<2";

/// Packages that the tests import.
const TESTED_WITH: [&str; 3] = ["pytest>=8", "numpy>=1.26", "mypy>=1.11,<3"];

/// The folder of the package.
fn package() -> PathBuf {
    workspace::root().join("crates/uncopy-python")
}
