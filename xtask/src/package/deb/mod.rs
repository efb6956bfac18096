//! Packages of Debian, of the program, of the C library, and of what compiling against it needs.
//!
//! Debian's own tools make them: they know which packages a program needs (`dpkg-shlibdeps`) and
//! whether the C library still has its interface (`dpkg-gensymbols`); `cargo-deb` does neither for a
//! library.

mod control;
mod documents;
mod tree;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::build::{self, Setting};
use super::emptied;
use super::texts::{Texts, place};
use crate::{install_c, workspace};
use control::Package;

/// The interface of the C library: a symbol that is missing or new is an error.
const SYMBOLS: &str = "xtask/src/package/deb/libuncopy-zx0.symbols";

/// Names of this machine's architecture.
struct Architecture {
    /// As Debian names it (`amd64`).
    debian: String,
    /// Directory of libraries (`x86_64-linux-gnu`).
    multiarch: String,
}

/// Builds the packages of the program and the C library.
///
/// # Errors
/// If a tool is missing, a build fails, or the C library's interface differs from its file.
pub(super) fn make(setting: &Setting) -> Result<Vec<PathBuf>> {
    let staging = setting.staging().join("deb");
    let architecture = begin(&staging)?;
    lay_out_program(setting, &staging.join(control::PROGRAM.name))?;
    lay_out_library(setting, &staging, &architecture)?;
    let packages = [&control::PROGRAM, &control::LIBRARY, &control::DEVELOPMENT];
    packages.into_iter().map(|package| close(setting, &staging, package, &architecture)).collect()
}

/// Builds the package of the program `uncopy-fleet`.
///
/// # Errors
/// If a tool is missing, or the build fails.
pub(super) fn make_fleet(setting: &Setting) -> Result<Vec<PathBuf>> {
    let staging = setting.staging().join("deb-fleet");
    let architecture = begin(&staging)?;
    let mut cargo = setting.cargo(&[]);
    cargo.args(["build", "--quiet", "--locked", "--release", "--package", "uncopy-fleet"]);
    workspace::run(&mut cargo)?;
    let root = staging.join(control::FLEET.name);
    let program = root.join(control::FLEET_FILE);
    place(&setting.target_directory().join("release/uncopy-fleet"), &program)?;
    strip(&program, "--strip-all")?;
    lay_out_texts(&Texts::by(setting, control::FLEET.name, &program)?, &root)?;
    Ok(vec![close(setting, &staging, &control::FLEET, &architecture)?])
}

/// Looks for the tools, and empties the directory for what becomes packages.
fn begin(staging: &Path) -> Result<Architecture> {
    build::tool("dpkg-deb", "dpkg")?;
    build::tool("dpkg-shlibdeps", "dpkg-dev")?;
    build::tool("strip", "binutils")?;
    emptied(staging)?;
    // Where dpkg-shlibdeps and dpkg-gensymbols expect it.
    std::fs::create_dir_all(staging.join("debian"))?;
    std::fs::write(staging.join("debian/control"), control::source())?;
    Ok(Architecture {
        debian: output_of("dpkg", &["--print-architecture"])?,
        multiarch: output_of("dpkg-architecture", &["-qDEB_HOST_MULTIARCH"])?,
    })
}

/// The program, its manual pages, its completions and the book, below `root`.
fn lay_out_program(setting: &Setting, root: &Path) -> Result<()> {
    let mut cargo = setting.cargo(&[]);
    cargo.args(["build", "--quiet", "--locked", "--release", "--package", "uncopy-cli"]);
    if !setting.is_as_built() {
        cargo.args(["--features", "full"]);
    }
    workspace::run(&mut cargo)?;
    let program = root.join(control::PROGRAM_FILE);
    place(&setting.target_directory().join("release/uncopy"), &program)?;
    strip(&program, "--strip-all")?;
    documents::write_book(&control::PROGRAM, root)?;
    lay_out_texts(&Texts::of_uncopy(setting)?, root)
}

/// Manual pages and completions, below `root`.
fn lay_out_texts(texts: &Texts, root: &Path) -> Result<()> {
    for page in texts.manual_pages()? {
        let name = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
        documents::compressed(&page, &root.join(format!("usr/share/man/man1/{name}.gz")))?;
    }
    for (directory, script) in texts.completions() {
        let name = script.file_name().unwrap_or_default();
        place(&script, &root.join("usr/share").join(directory).join(name))?;
    }
    Ok(())
}

/// The C library, in two packages: what programs need, and what compilers need.
fn lay_out_library(setting: &Setting, staging: &Path, architecture: &Architecture) -> Result<()> {
    let runtime = staging.join(control::LIBRARY.name);
    let development = staging.join(control::DEVELOPMENT.name);
    let libdir = format!("lib/{}", architecture.multiarch);
    let built = install_c::build(|| setting.cargo(&[]), &setting.target_directory())?;
    install_c::install(&built, Path::new("/usr"), &development.join("usr"), &libdir)?;
    let (from, to) = (development.join("usr").join(&libdir), runtime.join("usr").join(&libdir));
    std::fs::create_dir_all(&to).with_context(|| format!("cannot make {}", to.display()))?;
    let full_name = install_c::full_name();
    for name in [full_name.as_str(), install_c::SONAME] {
        std::fs::rename(from.join(name), to.join(name))
            .with_context(|| format!("cannot move {name} to {}", to.display()))?;
    }
    strip(&to.join(&full_name), "--strip-unneeded")?;
    strip(&from.join("libuncopy_zx.a"), "--strip-debug")?;
    check_symbols(staging, &runtime)
}

/// Compares the symbols of the library with their file, and puts them into its package.
fn check_symbols(staging: &Path, runtime: &Path) -> Result<()> {
    let expected = workspace::root().join(SYMBOLS);
    let mut gensymbols = Command::new("dpkg-gensymbols");
    gensymbols.current_dir(staging).arg(format!("-p{}", control::LIBRARY.name));
    gensymbols.arg(format!("-v{}", control::version())).args(["-c4", "-q"]);
    gensymbols.arg(format!("-P{}", runtime.display())).arg(format!("-I{}", expected.display()));
    std::fs::create_dir_all(runtime.join("DEBIAN"))?;
    gensymbols.arg(format!("-O{}", runtime.join("DEBIAN/symbols").display()));
    workspace::run(&mut gensymbols)
        .with_context(|| format!("the interface is another one: change {SYMBOLS} on purpose"))
}

/// Writes what every package has, and packs it.
fn close(
    setting: &Setting,
    staging: &Path,
    package: &Package,
    architecture: &Architecture,
) -> Result<PathBuf> {
    let root = staging.join(package.name);
    documents::write(setting, package, &root)?;
    let needed = needed_packages(staging, package, &architecture.multiarch)?;
    let size = tree::installed_kibibytes(&root)?;
    let text = package.control(&architecture.debian, &needed, size);
    let meta = root.join("DEBIAN");
    std::fs::create_dir_all(&meta)?;
    std::fs::write(meta.join("control"), text)?;
    if let control::Binary::Library = package.binary {
        // For programs whose packages are made by tools that read no symbols (`deb-shlibs(5)`).
        let (name, version) = install_c::SONAME.split_once(".so.").unwrap_or_default();
        let shlibs = format!("{name} {version} {}\n", package.name);
        std::fs::write(meta.join("shlibs"), shlibs)?;
    }
    if let Some(triggers) = package.triggers {
        std::fs::write(meta.join("triggers"), triggers)?;
    }
    std::fs::write(meta.join("md5sums"), tree::md5sums(&root)?)?;
    tree::plain_permissions(&root)?;
    let version = control::version();
    let name = format!("{}_{version}_{}.deb", package.name, architecture.debian);
    let path = setting.out().join(name);
    let mut pack = Command::new("dpkg-deb");
    // More threads than one cut the stream elsewhere.
    pack.args(["--root-owner-group", "-Zxz", "--threads-max=1", "--build"]).arg(&root).arg(&path);
    pack.env("SOURCE_DATE_EPOCH", setting.epoch().to_string()).stdout(std::process::Stdio::null());
    workspace::run(&mut pack)?;
    Ok(path)
}

/// Packages with the shared libraries that programs and libraries of `package` need.
fn needed_packages(staging: &Path, package: &Package, multiarch: &str) -> Result<String> {
    let file = match package.binary {
        control::Binary::Program(file) => file.to_owned(),
        control::Binary::Library => format!("usr/lib/{multiarch}/{}", install_c::full_name()),
        control::Binary::None => return Ok(String::new()),
    };
    let mut shlibdeps = Command::new("dpkg-shlibdeps");
    shlibdeps.current_dir(staging).args(["-O", "--warnings=0"]);
    let output = shlibdeps.arg(format!("-e{}/{file}", package.name)).output();
    let output = output.context("cannot start dpkg-shlibdeps")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "dpkg-shlibdeps: {}", said.trim());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match text.lines().find_map(|line| line.strip_prefix("shlibs:Depends=")) {
        Some(needed) => Ok(needed.to_owned()),
        None => bail!("dpkg-shlibdeps names no package that {file} needs: {text}"),
    }
}

fn strip(file: &Path, how: &str) -> Result<()> {
    // Sections that are for compilers' notes alone; policy of Debian, 10.1.
    let sections = ["--remove-section=.comment", "--remove-section=.note"];
    workspace::run(Command::new("strip").arg(how).args(sections).arg("-D").arg(file))
}

/// Output of a program, without the end of the line.
fn output_of(program: &str, words: &[&str]) -> Result<String> {
    let output = Command::new(program).args(words).output();
    let output = output.with_context(|| format!("cannot start {program}; apt install dpkg-dev"))?;
    ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
