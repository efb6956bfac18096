//! Documents of a package: copyright, changelogs, pages of the book.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::control::{self, Package};
use crate::package::build::Setting;
use crate::package::texts::place;
use crate::workspace;

/// Writes the documents of `package` below `root`.
///
/// # Errors
/// If one cannot be written.
pub(super) fn write(setting: &Setting, package: &Package, root: &Path) -> Result<()> {
    let directory = root.join("usr/share/doc").join(package.name);
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    std::fs::write(directory.join("copyright"), copyright()?)?;
    compressed(&workspace::root().join("CHANGELOG.md"), &directory.join("changelog.gz"))?;
    let revision = directory.join("changelog.Debian");
    std::fs::write(&revision, changelog(setting.epoch())?)?;
    compressed(&revision, &directory.join("changelog.Debian.gz"))?;
    std::fs::remove_file(&revision)?;
    Ok(())
}

/// Copies the pages of the book to where its package has documents, as `docs/` has them: help texts and pages name them so.
///
/// # Errors
/// If one cannot be copied.
pub(super) fn write_book(package: &Package, root: &Path) -> Result<()> {
    let directory = root.join("usr/share/doc").join(package.name);
    let files = workspace::tracked_files()?;
    let is_page = |path: &&PathBuf| {
        path.starts_with("docs") && path.extension().is_some_and(|extension| extension == "md")
    };
    for page in files.iter().filter(is_page) {
        place(&workspace::root().join(page), &directory.join(page))?;
    }
    Ok(())
}

/// Writes a file as gzip does without the time and the name of the file.
///
/// # Errors
/// If it cannot be read or written, or gzip fails.
pub(super) fn compressed(from: &Path, to: &Path) -> Result<()> {
    let parent = to.parent().context("a file without a directory")?;
    std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let file =
        std::fs::File::create(to).with_context(|| format!("cannot make {}", to.display()))?;
    let mut gzip = Command::new("gzip");
    gzip.args(["-9", "-n", "-c"]).arg(from).stdout(Stdio::from(file));
    workspace::run(&mut gzip)
}

/// Licences, in the machine-readable form.
/// <https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/>
fn copyright() -> Result<String> {
    let path = workspace::root().join("LICENSE-MIT");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let terms = text.split_once("\n\n").map_or(text.as_str(), |(_, terms)| terms);
    let terms = terms.trim().lines().map(|line| match line.trim() {
        "" => " .\n".to_owned(),
        line => format!(" {line}\n"),
    });
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: uncopy\n\n\
         Files: *\n\
         Copyright: 2026 The uncopy contributors\n\
         License: Apache-2.0 or MIT\n\n\
         License: Apache-2.0\n On Debian systems the text of this license is in\n \
         /usr/share/common-licenses/Apache-2.0.\n\n\
         License: MIT\n{}",
        terms.collect::<String>()
    ))
}

/// The changelog of the packaging.
fn changelog(epoch: u64) -> Result<String> {
    let output = Command::new("date")
        .args(["--utc", "--rfc-email", &format!("--date=@{epoch}")])
        .env("LC_ALL", "C")
        .output()
        .context("cannot start date")?;
    ensure!(output.status.success(), "date: {}", String::from_utf8_lossy(&output.stderr));
    Ok(format!(
        "uncopy ({}) unstable; urgency=medium\n\n  * See changelog.gz for what changed.\n\n \
         -- {}  {}",
        control::version(),
        control::maintainer(),
        String::from_utf8_lossy(&output.stdout)
    ))
}
