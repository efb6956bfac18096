//! Virtual environments of Python below the target directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// A virtual environment.
pub(crate) struct Environment {
    directory: PathBuf,
}

impl Environment {
    /// Makes an environment with these packages, or finds the one that an earlier run made.
    ///
    /// # Errors
    /// If the interpreter is too old or has no `venv`, or pip cannot install a package.
    pub(super) fn kept(name: &str, interpreter: &Path, packages: &[&str]) -> Result<Environment> {
        let environment = Environment { directory: place(name) };
        let list = environment.directory.join("installed");
        let wanted = format!("{}\n{}", interpreter.display(), packages.join("\n"));
        if fs::read_to_string(&list).is_ok_and(|installed| installed == wanted) {
            return Ok(environment);
        }
        let environment = Environment::fresh(name, interpreter)?;
        environment.install(packages)?;
        fs::write(&list, wanted).with_context(|| format!("cannot write {}", list.display()))?;
        Ok(environment)
    }

    /// Makes an empty environment.
    ///
    /// # Errors
    /// If the interpreter is too old or has no `venv`.
    pub(super) fn fresh(name: &str, interpreter: &Path) -> Result<Environment> {
        const IS_NEW: &str = "import sys; sys.exit(sys.version_info < (3, 11))";
        let new_enough = Command::new(interpreter).args(["-c", IS_NEW]).status();
        let new_enough =
            new_enough.with_context(|| format!("cannot start {}", interpreter.display()))?;
        ensure!(new_enough.success(), "{} is older than Python 3.11", interpreter.display());
        let directory = place(name);
        let mut make = Command::new(interpreter);
        workspace::run(make.args(["-m", "venv", "--clear"]).arg(&directory))?;
        Ok(Environment { directory })
    }

    /// Installs packages by pip: names with versions, or files.
    ///
    /// # Errors
    /// If pip fails; what it said stands above.
    pub(super) fn install(&self, packages: &[&str]) -> Result<()> {
        let mut pip = self.program("python");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        workspace::run(pip.args(packages))
    }

    /// Returns the command of a program of the environment.
    pub(super) fn program(&self, name: &str) -> Command {
        let programs = self.directory.join("bin");
        let mut program = Command::new(programs.join(name));
        // Programs of the environment find each other.
        let others = std::env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(programs).chain(std::env::split_paths(&others));
        if let Ok(path) = std::env::join_paths(all) {
            program.env("PATH", path);
        }
        // Set by a caller for an interpreter of its own.
        for variable in ["PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"] {
            program.env_remove(variable);
        }
        program
    }
}

pub(super) fn place(name: &str) -> PathBuf {
    workspace::target_directory().join("python").join(name)
}
