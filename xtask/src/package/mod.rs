//! `cargo xtask package KIND`: builds what people install, the same bits each time.

mod archive;
mod build;
mod crates;
mod deb;
mod fresh_root;
mod sbom;
mod static_program;
mod sums;
mod texts;
mod twice;
mod wheel;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::workspace;
use build::Setting;

/// Arguments of `cargo xtask package`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Packages to build.
    #[arg(required = true)]
    kinds: Vec<Kind>,
    /// Where packages go; `SHA256SUMS` names all that are there. [default: target/packages]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Package the programs that `cargo build --release` makes: quicker, but paths of this machine may be in
    /// them.
    #[arg(long)]
    as_built: bool,
    /// Build everything once more from a copy of the tree in another directory, and compare.
    #[arg(long, conflicts_with = "as_built")]
    twice: bool,
    /// Have lintian look at the packages, install them into fresh roots of Debian (`debootstrap`), and use them
    /// there; needs root.
    #[arg(long)]
    try_out: bool,
}

/// Packages, one kind each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// All of those below.
    All,
    /// The program, the C library, and what compiling against it needs, for Debian.
    Deb,
    /// The program uncopy-fleet, for Debian.
    DebFleet,
    /// The program without shared libraries, for 64-bit x86 and ARM.
    Static,
    /// The Python package, as wheels for 64-bit x86 and ARM, with glibc and with musl.
    Wheel,
    /// Crates as they would be published; nothing is uploaded.
    Crates,
    /// Lists of what the program and the C library are built of (CycloneDX).
    Sbom,
}

impl Kind {
    /// Kinds that `wanted` names, each once, in the order in which they are built.
    fn expand(wanted: &[Kind]) -> Vec<Kind> {
        let is_wanted = |kind: &Kind| wanted.contains(&Kind::All) || wanted.contains(kind);
        let kinds = Kind::value_variants().iter().copied();
        kinds.filter(|kind| *kind != Kind::All && is_wanted(kind)).collect()
    }
}

/// Builds packages, and writes down their digests.
///
/// # Errors
/// If a tool is missing, or a package cannot be built.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let out = match &arguments.out {
        Some(out) => std::path::absolute(out).context("--out is no path")?,
        None => workspace::target_directory().join("packages"),
    };
    std::fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let setting = Setting::new(out, arguments.as_built)?;
    let kinds = Kind::expand(&arguments.kinds);
    for kind in &kinds {
        let packages = make(*kind, &setting)?;
        for package in &packages {
            println!("{}", package.display());
        }
        if arguments.try_out {
            try_out(*kind, &packages)?;
        }
    }
    sums::write(setting.out())?;
    if arguments.twice { twice::compare(&setting, &kinds) } else { Ok(()) }
}

/// Builds one kind, and returns its packages.
fn make(kind: Kind, setting: &Setting) -> Result<Vec<PathBuf>> {
    match kind {
        Kind::All => Ok(Vec::new()),
        Kind::Deb => deb::make(setting),
        Kind::DebFleet => deb::make_fleet(setting),
        Kind::Static => static_program::make(setting),
        Kind::Wheel => wheel::make(setting),
        Kind::Crates => crates::make(setting),
        Kind::Sbom => sbom::make(setting),
    }
}

/// Installs packages where nothing else is, and uses them.
fn try_out(kind: Kind, packages: &[PathBuf]) -> Result<()> {
    match kind {
        Kind::Deb => fresh_root::try_deb(packages),
        Kind::DebFleet => fresh_root::try_fleet(packages),
        Kind::Static => fresh_root::try_static(packages),
        // `cargo xtask python-test` installs and uses a wheel.
        Kind::Wheel | Kind::All | Kind::Crates | Kind::Sbom => Ok(()),
    }
}

/// The name by which the command line knows a kind.
fn name(kind: Kind) -> String {
    kind.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Copies all files of the project into `directory`.
fn copy_tree(directory: &Path) -> Result<()> {
    for path in workspace::tracked_files()? {
        let to = directory.join(&path);
        let parent = to.parent().context("a file without a directory")?;
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot make {}", parent.display()))?;
        std::fs::copy(workspace::root().join(&path), &to)
            .with_context(|| format!("cannot copy {} to {}", path.display(), to.display()))?;
    }
    Ok(())
}

/// Empties `directory`, which is made if it is not there.
fn emptied(directory: &Path) -> Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot empty {}", directory.display()));
        }
        _ => {}
    }
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))
}
