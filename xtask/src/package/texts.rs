//! Texts that every package of the program has beside it: manual pages and completions.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap_complete::Shell;
use uncopy_cli::Exit;

use super::build::Setting;
use super::emptied;
use crate::workspace;

/// Version of every package.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A shell, and where it looks for the completions of a program.
struct CompletionShell {
    shell: Shell,
    /// Text before and after the name of the program in the name of the file.
    around_name: [&'static str; 2],
    /// Below `/usr/share`, in Debian.
    directory: &'static str,
}

const SHELLS: [CompletionShell; 3] = [
    CompletionShell {
        shell: Shell::Bash,
        around_name: ["", ""],
        directory: "bash-completion/completions",
    },
    CompletionShell {
        shell: Shell::Zsh,
        around_name: ["_", ""],
        directory: "zsh/vendor-completions",
    },
    CompletionShell {
        shell: Shell::Fish,
        around_name: ["", ".fish"],
        directory: "fish/vendor_completions.d",
    },
];

/// Manual pages and completions of a program, in a directory.
pub(super) struct Texts {
    directory: PathBuf,
    program: &'static str,
}

impl Texts {
    /// Writes those of `uncopy`, from the definition that also parses the command line: the program itself may be for
    /// another architecture.
    ///
    /// # Errors
    /// If they cannot be written.
    pub(super) fn of_uncopy(setting: &Setting) -> Result<Texts> {
        let texts = Texts::begin(setting, "uncopy")?;
        let pages = texts.pages();
        let words = ["uncopy".into(), "man".into(), "--out".into(), pages.clone().into_os_string()];
        let exit = uncopy_cli::run(words);
        ensure!(exit == Exit::Success, "cannot write manual pages into {}", pages.display());
        for shell in &SHELLS {
            let script = uncopy_cli::completion_script(shell.shell);
            let path = texts.script(shell);
            fs::write(&path, script).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(texts)
    }

    /// Lets a program of this name write its own, by its commands `man` and `completions`.
    ///
    /// # Errors
    /// If it cannot be started, or fails.
    pub(super) fn by(setting: &Setting, name: &'static str, program: &Path) -> Result<Texts> {
        let texts = Texts::begin(setting, name)?;
        workspace::run(Command::new(program).args(["man", "--out"]).arg(texts.pages()))?;
        for shell in &SHELLS {
            let path = texts.script(shell);
            let script = fs::File::create(&path)
                .with_context(|| format!("cannot make {}", path.display()))?;
            let mut completions = Command::new(program);
            completions.args(["completions", &shell.shell.to_string()]);
            workspace::run(completions.stdout(Stdio::from(script)))?;
        }
        Ok(texts)
    }

    fn begin(setting: &Setting, program: &'static str) -> Result<Texts> {
        let directory = setting.staging().join("texts").join(program);
        emptied(&directory)?;
        Ok(Texts { directory, program })
    }

    /// Directory for manual pages.
    fn pages(&self) -> PathBuf {
        self.directory.join("man")
    }

    /// Path of a completion script, under the name that the shell looks for.
    fn script(&self, shell: &CompletionShell) -> PathBuf {
        self.directory.join(shell.around_name.join(self.program))
    }

    /// Manual pages, sorted by name.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub(super) fn manual_pages(&self) -> Result<Vec<PathBuf>> {
        let pages = self.pages();
        let cannot_list = || format!("cannot list {}", pages.display());
        let mut paths = fs::read_dir(&pages)
            .with_context(cannot_list)?
            .map(|entry| Ok(entry.with_context(cannot_list)?.path()))
            .collect::<Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    }

    /// Completion scripts, one for each shell, each with its directory below `/usr/share` of Debian.
    pub(super) fn completions(&self) -> impl Iterator<Item = (&'static str, PathBuf)> {
        SHELLS.iter().map(|shell| (shell.directory, self.script(shell)))
    }
}

/// Copies a file with the permissions that it has in a package: its owner may write, all may read, and
/// all may execute what its owner may execute.
///
/// # Errors
/// If it cannot be copied.
pub(super) fn place(from: &Path, to: &Path) -> Result<()> {
    let parent = to.parent().context("a file without a directory")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    fs::copy(from, to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    let mode = fs::metadata(from)?.permissions().mode();
    let mode = if mode & 0o100 == 0 { 0o644 } else { 0o755 };
    fs::set_permissions(to, Permissions::from_mode(mode))
        .with_context(|| format!("cannot set the permissions of {}", to.display()))
}
