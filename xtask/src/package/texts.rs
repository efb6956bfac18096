//! Texts that every package of the program has beside it: manual pages and completions.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap_complete::{Shell, generate};
use uncopy_cli::Exit;

use super::build::Setting;
use super::emptied;

/// Version of every package.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A shell, and the name that it looks for its completions by.
pub(super) struct CompletionShell {
    shell: Shell,
    pub(super) file_name: &'static str,
    /// Below `/usr/share`, in Debian.
    pub(super) directory: &'static str,
}

const SHELLS: [CompletionShell; 3] = [
    CompletionShell {
        shell: Shell::Bash,
        file_name: "uncopy",
        directory: "bash-completion/completions",
    },
    CompletionShell {
        shell: Shell::Zsh,
        file_name: "_uncopy",
        directory: "zsh/vendor-completions",
    },
    CompletionShell {
        shell: Shell::Fish,
        file_name: "uncopy.fish",
        directory: "fish/vendor_completions.d",
    },
];

/// Manual pages and completions in a directory.
pub(super) struct Texts {
    directory: PathBuf,
}

impl Texts {
    /// Writes them, from the definition that also parses the command line.
    ///
    /// # Errors
    /// If they cannot be written.
    pub(super) fn make(setting: &Setting) -> Result<Texts> {
        let directory = setting.staging().join("texts");
        emptied(&directory)?;
        let texts = Texts { directory };
        let pages = texts.directory.join("man");
        let words = ["uncopy".into(), "man".into(), "--out".into(), pages.clone().into_os_string()];
        let exit = uncopy_cli::run(words);
        ensure!(exit == Exit::Success, "cannot write manual pages into {}", pages.display());
        for (shell, path) in texts.completions() {
            let mut script = Vec::new();
            generate(shell.shell, &mut uncopy_cli::completed_command(), "uncopy", &mut script);
            fs::write(&path, script).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(texts)
    }

    /// Manual pages, sorted by name.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub(super) fn manual_pages(&self) -> Result<Vec<PathBuf>> {
        let pages = self.directory.join("man");
        let cannot_list = || format!("cannot list {}", pages.display());
        let mut paths = fs::read_dir(&pages)
            .with_context(cannot_list)?
            .map(|entry| Ok(entry.with_context(cannot_list)?.path()))
            .collect::<Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    }

    /// Completion scripts, one for each shell.
    pub(super) fn completions(&self) -> impl Iterator<Item = (&'static CompletionShell, PathBuf)> {
        SHELLS.iter().map(|shell| (shell, self.directory.join(shell.file_name)))
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
