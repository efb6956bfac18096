//! `cargo xtask install-c PREFIX`: the C library, its headers, its pkg-config file and its
//! suppressions for Valgrind.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace;

/// Arguments of `cargo xtask install-c`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where it will be found, such as /usr/local.
    prefix: PathBuf,
    /// Put before every path that is written to, for packages that are made elsewhere.
    #[arg(long, value_name = "DIR")]
    destdir: Option<PathBuf>,
    /// Directory of libraries below the prefix.
    #[arg(long, value_name = "NAME", default_value = "lib")]
    libdir: String,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The name of the interface, as the library says it (`crates/uncopy-zx/build.rs`).
pub(crate) const SONAME: &str = "libuncopy_zx.so.0";

/// Builds and installs.
///
/// # Errors
/// If it cannot be built, or a file cannot be written.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // With an absolute path `join` would keep nothing else.
    let prefix = std::path::absolute(&arguments.prefix).context("the prefix is no path")?;
    let root = match &arguments.destdir {
        Some(directory) => directory.join(prefix.strip_prefix("/").unwrap_or(&prefix)),
        None => prefix.clone(),
    };
    let built = build(workspace::cargo, &workspace::target_directory())?;
    install(&built, &prefix, &root, &arguments.libdir)?;
    println!("uncopy-zx {VERSION} is in {}", root.display());
    Ok(())
}

/// Builds both libraries with what `cargo` returns, which builds in `target`, and returns where they are.
///
/// # Errors
/// If cargo fails; what it said stands above.
pub(crate) fn build(cargo: impl Fn() -> Command, target: &Path) -> Result<PathBuf> {
    // One kind of output each, because cargo optimises across crates only then.
    for kind in ["cdylib", "staticlib"] {
        let build = ["rustc", "--quiet", "--locked", "--profile", "c-library", "--package"];
        let what = ["uncopy-zx", "--lib", "--crate-type", kind];
        workspace::run(cargo().args(build).args(what))?;
    }
    Ok(target.join("c-library"))
}

/// Name of the shared library's file.
pub(crate) fn full_name() -> String {
    format!("libuncopy_zx.so.{VERSION}")
}

/// Installs below `root` what was `built`, and will be found below `prefix`.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn install(built: &Path, prefix: &Path, root: &Path, libdir: &str) -> Result<()> {
    let libraries = root.join(libdir);
    let full_name = full_name();
    place(&built.join("libuncopy_zx.a"), &libraries.join("libuncopy_zx.a"))?;
    place(&built.join("libuncopy_zx.so"), &libraries.join(&full_name))?;
    link(&full_name, &libraries.join(SONAME))?;
    link(SONAME, &libraries.join("libuncopy_zx.so"))?;
    place_texts(root)?;
    let description = libraries.join("pkgconfig/uncopy-zx.pc");
    write(&description, &pkg_config(prefix, libdir))
}

/// Headers, and the suppressions for Valgrind.
fn place_texts(root: &Path) -> Result<()> {
    let sources = workspace::root().join("crates/uncopy-zx");
    place_tree(&sources.join("include"), &root.join("include"))?;
    place(&sources.join("tests/c/valgrind.supp"), &root.join(SUPPRESSIONS))
}

/// Where the suppressions are, below the prefix.
const SUPPRESSIONS: &str = "share/uncopy-zx/valgrind.supp";

/// The pkg-config file. `Libs.private` is what `rustc --print native-static-libs` says, with `-lgcc_eh` in the place of
/// `-lgcc_s`, which there is no static library of.
fn pkg_config(prefix: &Path, libdir: &str) -> String {
    format!(
        "prefix={}\n\
         libdir=${{prefix}}/{libdir}\n\
         includedir=${{prefix}}/include\n\n\
         Name: uncopy-zx\n\
         Description: Zircon's channel calls on Linux\n\
         Version: {VERSION}\n\
         Cflags: -I${{includedir}}\n\
         Libs: -L${{libdir}} -luncopy_zx\n\
         Libs.private: -lgcc_eh -lutil -lrt -lpthread -lm -ldl -lc\n",
        prefix.display()
    )
}

/// Copies beside the destination and renames, so that programs that have the old library mapped
/// keep it.
fn place(from: &Path, to: &Path) -> Result<()> {
    let aside = aside(to)?;
    fs::copy(from, &aside)
        .with_context(|| format!("cannot copy {} to {}", from.display(), aside.display()))?;
    rename(&aside, to)
}

fn write(to: &Path, text: &str) -> Result<()> {
    let aside = aside(to)?;
    fs::write(&aside, text).with_context(|| format!("cannot write {}", aside.display()))?;
    rename(&aside, to)
}

fn link(target: &str, to: &Path) -> Result<()> {
    let aside = aside(to)?;
    symlink(target, &aside).with_context(|| format!("cannot link {}", aside.display()))?;
    rename(&aside, to)
}

/// A free name in the destination's directory, which is made.
fn aside(to: &Path) -> Result<PathBuf> {
    let directory = to.parent().context("a destination without a directory")?;
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let aside = directory.join(format!(".{name}.{}", std::process::id()));
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", aside.display()))
        }
        _ => Ok(aside),
    }
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).with_context(|| format!("cannot replace {}", to.display()))
}

/// Every file below `from`, at the same place below `to`.
fn place_tree(from: &Path, to: &Path) -> Result<()> {
    let entries = fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot list {}", from.display()))?.path();
        let destination = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            place_tree(&path, &destination)?;
        } else {
            place(&path, &destination)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{SUPPRESSIONS, link, pkg_config, place, place_texts};

    #[test]
    fn pkg_config_names_the_places() {
        let text = pkg_config(Path::new("/opt/x"), "lib64");
        assert!(text.starts_with("prefix=/opt/x\nlibdir=${prefix}/lib64\n"), "{text}");
        assert!(text.contains("Libs: -L${libdir} -luncopy_zx\n"), "{text}");
    }

    #[test]
    fn files_are_replaced_and_never_written_over() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("deep/to"));
        fs::write(&from, "old").unwrap();
        place(&from, &to).unwrap();
        let held = directory.path().join("held");
        fs::hard_link(&to, &held).unwrap();
        fs::write(&from, "new").unwrap();
        place(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "new");
        assert_eq!(fs::read_to_string(&held).unwrap(), "old");
        link("to", &directory.path().join("deep/link")).unwrap();
        link("to", &directory.path().join("deep/link")).unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("deep/link")).unwrap(), "new");
        assert_eq!(fs::read_dir(directory.path().join("deep")).unwrap().count(), 2);
    }

    #[test]
    fn headers_keep_their_places_and_suppressions_have_one() {
        let directory = tempfile::tempdir().unwrap();
        place_texts(directory.path()).unwrap();
        for name in ["zircon/syscalls.h", "zircon/syscalls/port.h", "uncopy/zx.h"] {
            assert!(directory.path().join("include").join(name).is_file(), "{name}");
        }
        let suppressions = fs::read_to_string(directory.path().join(SUPPRESSIONS)).unwrap();
        assert!(suppressions.contains("fun:uncopy_zx_copy*"), "{suppressions}");
    }
}
