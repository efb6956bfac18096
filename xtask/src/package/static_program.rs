//! The program without shared libraries, for any Linux of an architecture: linked with musl.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::build::{self, Setting};
use super::texts;
use super::{archive, emptied};
use crate::workspace;

/// An architecture that a static program is built for.
struct StaticTarget {
    /// As users say it.
    architecture: &'static str,
    /// As rustc names it.
    triple: &'static str,
    /// Compiler of the C code in dependencies, and the package of Debian that has it.
    c_compiler: (&'static str, &'static str),
    c_flags: &'static str,
    linker: Option<&'static str>,
}

const TARGETS: [StaticTarget; 2] = [
    StaticTarget {
        architecture: "x86_64",
        triple: "x86_64-unknown-linux-musl",
        c_compiler: ("musl-gcc", "musl-tools"),
        c_flags: "",
        linker: None,
    },
    // There is no cross compiler with musl's headers in Debian: the C code of the dependencies needs
    // only what the headers of both C libraries say alike. Rust brings musl itself.
    StaticTarget {
        architecture: "aarch64",
        triple: "aarch64-unknown-linux-musl",
        c_compiler: ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"),
        // Without calls into libgcc, which is not linked.
        c_flags: "-mno-outline-atomics -U_FORTIFY_SOURCE",
        linker: Some("rust-lld"),
    },
];

/// Builds an archive for each architecture.
///
/// # Errors
/// If a compiler or a standard library is missing, or a build fails.
pub(super) fn make(setting: &Setting) -> Result<Vec<PathBuf>> {
    let texts = texts::Texts::of_uncopy(setting)?;
    TARGETS.iter().map(|target| make_one(setting, target, &texts)).collect()
}

fn make_one(setting: &Setting, target: &StaticTarget, texts: &texts::Texts) -> Result<PathBuf> {
    let program = build_program(setting, target)?;
    let name = format!("uncopy-{}-{}-linux", texts::VERSION, target.architecture);
    let staging = setting.staging().join("static");
    emptied(&staging)?;
    let root = staging.join(&name);
    texts::place(&program, &root.join("uncopy"))?;
    for page in texts.manual_pages()? {
        texts::place(&page, &root.join("man/man1").join(page.file_name().unwrap_or_default()))?;
    }
    for (_, script) in texts.completions() {
        let name = script.file_name().unwrap_or_default();
        texts::place(&script, &root.join("completions").join(name))?;
    }
    for path in workspace::tracked_files()?.iter().filter(|path| is_in_archive(path)) {
        texts::place(&workspace::root().join(path), &root.join(path))?;
    }
    archive::write(setting, &staging, &name)
}

/// Whether a file of the repository is a text of the archive: README, and the pages and pictures that it leads to.
fn is_in_archive(path: &Path) -> bool {
    let ends_with = |end: &str| path.extension().is_some_and(|extension| extension == end);
    let is_at_the_root = path.parent() == Some(Path::new(""));
    let is_license = path.to_string_lossy().starts_with("LICENSE-");
    is_at_the_root && (is_license || ends_with("md"))
        || path.starts_with("docs") && (ends_with("md") || ends_with("svg"))
}

/// Builds the program, and checks that it needs no shared library.
fn build_program(setting: &Setting, target: &StaticTarget) -> Result<PathBuf> {
    let (compiler, package) = target.c_compiler;
    build::tool(compiler, package)?;
    let mut cargo = setting.cargo(&[]);
    let variable = target.triple.replace('-', "_");
    cargo.env(format!("CC_{variable}"), compiler);
    let c_flags = setting.c_flags();
    cargo.env(format!("CFLAGS_{variable}"), format!("{c_flags} {}", target.c_flags).trim());
    if let Some(linker) = target.linker {
        let variable = format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase());
        cargo.env(variable, linker);
    }
    cargo.args(["build", "--quiet", "--locked", "--release", "--package", "uncopy-cli"]);
    cargo.args(["--features", "full", "--target", target.triple]);
    workspace::run(&mut cargo).with_context(|| {
        format!("if there is no standard library: rustup target add {}", target.triple)
    })?;
    let program = setting.target_directory().join(target.triple).join("release/uncopy");
    ensure!(is_static(&program)?, "{} asks for a dynamic loader", program.display());
    Ok(program)
}

/// Whether an ELF file names no dynamic loader (`PT_INTERP`, `elf(5)`).
fn is_static(program: &Path) -> Result<bool> {
    const PT_INTERP: u32 = 3;
    let bytes =
        std::fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    let u16_at = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let kinds = || {
        let table = usize::try_from(u64_at(32)?).ok()?;
        let (size, count) = (usize::from(u16_at(54)?), usize::from(u16_at(56)?));
        (0..count).map(|index| u32_at(table + index * size)).collect::<Option<Vec<_>>>()
    };
    ensure!(bytes.starts_with(b"\x7fELF\x02\x01"), "{} is no program", program.display());
    let kinds = kinds().with_context(|| format!("{} is cut off", program.display()))?;
    Ok(!kinds.contains(&PT_INTERP))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{is_in_archive, is_static};
    use crate::workspace;

    #[test]
    fn what_the_readme_links_to_is_in_the_archive() {
        let readme = std::fs::read_to_string(workspace::root().join("README.md")).unwrap();
        let targets = readme.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let files: Vec<&str> = targets.filter(|target| !target.contains("://")).collect();
        assert!(files.contains(&"docs/install.md"), "{files:?}");
        for file in files {
            assert!(file.is_empty() || is_in_archive(Path::new(file)), "{file}");
        }
        for other in ["Cargo.toml", "docs/evidence/figures.toml", "crates/uncopy/README.md"] {
            assert!(!is_in_archive(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn a_program_with_a_loader_is_not_static() {
        // These tests are linked with the GNU C library.
        if cfg!(target_env = "gnu") {
            assert!(!is_static(&std::env::current_exe().unwrap()).unwrap());
        }
        let directory = tempfile::tempdir().unwrap();
        let cut_off = directory.path().join("cut off");
        std::fs::write(&cut_off, b"\x7fELF\x02\x01").unwrap();
        is_static(&cut_off).unwrap_err();
        std::fs::write(&cut_off, "#!/bin/sh").unwrap();
        is_static(&cut_off).unwrap_err();
    }
}
