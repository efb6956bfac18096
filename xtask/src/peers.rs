//! Programs that are only compared with. They are built apart from the project, in `peers/` and
//! from crates.io, and never part of its build or tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace;

/// Arguments of `cargo xtask peers`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Build what is missing (minutes, once).
    Install {
        /// Where to install; default: target/peers.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Say which are there.
    List,
}

/// How a peer comes to the machine.
enum Origin {
    /// With the system.
    System { package: &'static str },
    /// A crate on crates.io, at a version that is known to build.
    Crate { name: &'static str, version: &'static str },
    /// A program of the workspace `peers/`.
    Own,
    /// Not to be had, and why.
    Nowhere { reason: &'static str },
}

/// One of those that a suite compares with.
pub(crate) struct Peer {
    /// Name in the rows.
    name: &'static str,
    /// The file.
    program: &'static str,
    /// Flags it always gets.
    flags: &'static [&'static str],
    origin: Origin,
}

const fn system(name: &'static str, package: &'static str) -> Peer {
    Peer { name, program: name, flags: &[], origin: Origin::System { package } }
}

const fn from_crates(
    name: &'static str,
    program: &'static str,
    crate_name: &'static str,
    version: &'static str,
) -> Peer {
    let origin = Origin::Crate { name: crate_name, version };
    Peer { name, program, flags: &[], origin }
}

const fn own(name: &'static str, program: &'static str) -> Peer {
    Peer { name, program, flags: &[], origin: Origin::Own }
}

/// A program that measures itself.
const fn channel(
    name: &'static str,
    program: &'static str,
    flags: &'static [&'static str],
) -> Peer {
    Peer { name, program, flags, origin: Origin::Own }
}

/// The same, for codecs.
const fn codec(name: &'static str, flags: &'static [&'static str]) -> Peer {
    Peer { name, program: "codecs", flags, origin: Origin::Own }
}

/// Those that copy.
pub(crate) const COPIERS: [Peer; 13] = [
    system("cp", "coreutils"),
    Peer { name: "cp --reflink=never", flags: &["--reflink=never"], ..system("cp", "coreutils") },
    system("rsync", "rsync"),
    from_crates("uutils cp", "cp", "uu_cp", "0.12.0"),
    Peer { flags: &["--no-progress"], ..from_crates("xcp", "xcp", "xcp", "0.24.9") },
    from_crates("fcp", "fcp", "fcp", "0.2.2"),
    from_crates("cpz", "cpz", "cpz", "3.2.1"),
    Peer {
        name: "cp-rs",
        program: "cp-rs",
        flags: &[],
        origin: Origin::Nowhere {
            reason: "it is not published; the crate of that name is another thing",
        },
    },
    own("std::fs::copy", "std_copy"),
    own("read/write 128 KiB", "read_write"),
    own("bare FICLONE", "ficlone"),
    own("copy_file_range + fsync", "copy_fsync"),
    own("copy and hash", "hash_copy"),
];

/// Those that copy trees.
pub(crate) const TREE_COPIERS: [Peer; 6] = [
    Peer { name: "cp -r", flags: &["-r"], ..system("cp", "coreutils") },
    Peer { name: "cp -a", flags: &["-a"], ..system("cp", "coreutils") },
    Peer { name: "rsync -a", flags: &["-a"], ..system("rsync", "rsync") },
    Peer { flags: &["--no-progress", "-r"], ..from_crates("xcp -r", "xcp", "xcp", "0.24.9") },
    from_crates("fcp", "fcp", "fcp", "0.2.2"),
    from_crates("cpz", "cpz", "cpz", "3.2.1"),
];

/// Those that copy between machines.
pub(crate) const REMOTE_COPIERS: [Peer; 3] =
    [system("scp", "openssh-client"), system("rsync", "rsync"), system("tar", "tar")];

/// Those that carry messages.
pub(crate) const CHANNELS: [Peer; 4] = [
    channel("crossbeam-channel", "channels", &["crossbeam-channel"]),
    channel("ipc-channel", "channels", &["ipc-channel"]),
    channel("iceoryx2", "iceoryx2", &["iceoryx2"]),
    channel("iceoryx2 + event", "iceoryx2", &["iceoryx2 + event"]),
];

/// Those that encode and decode.
pub(crate) const CODECS: [Peer; 6] = [
    codec("bincode", &["bincode"]),
    codec("postcard", &["postcard"]),
    codec("rkyv", &["rkyv"]),
    codec("prost", &["prost"]),
    codec("flatbuffers", &["flatbuffers"]),
    codec("capnp", &["capnp"]),
];

/// A peer that is there.
#[derive(Clone)]
pub(crate) struct Installed {
    pub(crate) name: &'static str,
    pub(crate) program: PathBuf,
    pub(crate) flags: &'static [&'static str],
}

impl Installed {
    /// The program with the flags it always gets.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(self.flags);
        command
    }
}

/// Which peers are there, and why the others are not.
pub(crate) struct Peers {
    pub(crate) installed: Vec<Installed>,
    pub(crate) absent: Vec<(String, String)>,
}

/// Looks for each of `wanted` below `directory` and on the path.
pub(crate) fn find(directory: &Path, wanted: &[Peer]) -> Peers {
    let mut peers = Peers { installed: Vec::new(), absent: Vec::new() };
    for peer in wanted {
        let (place, missing) = match &peer.origin {
            Origin::System { package } => (
                workspace::find_program(peer.program),
                format!("it is not installed: apt-get install {package}"),
            ),
            Origin::Nowhere { reason } => (None, (*reason).to_owned()),
            Origin::Crate { .. } | Origin::Own => (
                Some(program_of(directory, peer)).filter(|program| program.is_file()),
                "it is not built: cargo xtask peers install".to_owned(),
            ),
        };
        match place {
            Some(program) => {
                peers.installed.push(Installed { name: peer.name, program, flags: peer.flags });
            }
            None => peers.absent.push((peer.name.to_owned(), missing)),
        }
    }
    peers
}

/// The versions of those of `wanted` that are there.
pub(crate) fn versions(directory: &Path, wanted: &[Peer]) -> BTreeMap<&'static str, String> {
    let lock = std::fs::read_to_string(workspace::root().join("peers/Cargo.lock"));
    let lock = lock.unwrap_or_default();
    let installed = find(directory, wanted).installed;
    let is_installed = |peer: &&Peer| installed.iter().any(|found| found.name == peer.name);
    let version = |peer: &Peer| match &peer.origin {
        Origin::System { .. } => first_line(Command::new(peer.program).arg("--version")),
        Origin::Crate { name, version } => Some(format!("{name} {version}")),
        Origin::Own => locked_version(&lock, peer.name.split(' ').next()?)
            .or_else(|| first_line(Command::new("rustc").arg("--version"))),
        Origin::Nowhere { .. } => None,
    };
    wanted
        .iter()
        .filter(is_installed)
        .filter_map(|peer| Some((peer.name, version(peer)?)))
        .collect()
}

fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The version of the package `name` in the text of a lockfile.
fn locked_version(lock: &str, name: &str) -> Option<String> {
    let lock: toml::Table = lock.parse().ok()?;
    let packages = lock.get("package")?.as_array()?;
    let of_name =
        |package: &&toml::Value| package.get("name").and_then(|n| n.as_str()) == Some(name);
    let version = packages.iter().find(of_name)?.get("version")?.as_str()?;
    Some(format!("{name} {version}"))
}

/// Folders of the workspace `peers/`, each built alone: one that fails leaves the others.
const PACKAGES: [&str; 4] = [".", "channels", "codecs", "iceoryx2"];

/// Default folder of the peers.
pub(crate) fn default_directory() -> PathBuf {
    workspace::target_directory().join("peers")
}

/// Each crate has a root of its own: some install programs of the same name.
fn root_of(directory: &Path, peer: &Peer) -> PathBuf {
    match &peer.origin {
        Origin::Crate { name, version } => directory.join(format!("{name}-{version}")),
        _ => directory.join("own"),
    }
}

fn program_of(directory: &Path, peer: &Peer) -> PathBuf {
    root_of(directory, peer).join("bin").join(peer.program)
}

/// Installs or lists.
///
/// # Errors
/// If a peer cannot be built; the others are built all the same.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.action {
        Action::Install { dir } => install(&dir.clone().unwrap_or_else(default_directory)),
        Action::List => {
            list(&find(&default_directory(), &COPIERS));
            list(&find(&default_directory(), &CHANNELS));
            list(&find(&default_directory(), &CODECS));
            Ok(())
        }
    }
}

fn list(peers: &Peers) {
    for peer in &peers.installed {
        println!("{:<26} {}", peer.name, peer.program.display());
    }
    for (name, reason) in &peers.absent {
        println!("{name:<26} skipped: {reason}");
    }
}

fn install(directory: &Path) -> Result<()> {
    let directory = std::path::absolute(directory).context("cannot name the directory")?;
    let build = directory.join("build");
    let mut failed = Vec::new();
    for package in PACKAGES {
        let mut cargo = workspace::cargo();
        cargo.args(["install", "--quiet", "--locked", "--force", "--path"]);
        cargo.arg(workspace::root().join("peers").join(package));
        cargo.arg("--root").arg(directory.join("own")).env("CARGO_TARGET_DIR", &build);
        if let Err(error) = workspace::run(&mut cargo) {
            failed.push(format!("peers/{package}: {error:#}"));
        }
    }
    for peer in &COPIERS {
        let Origin::Crate { name, version } = &peer.origin else { continue };
        if program_of(&directory, peer).is_file() {
            continue;
        }
        println!("building {} ({name} {version})", peer.name);
        let mut cargo = workspace::cargo();
        cargo.args(["install", "--quiet", "--locked", name, "--version", version, "--root"]);
        cargo.arg(root_of(&directory, peer)).env("CARGO_TARGET_DIR", &build);
        if let Err(error) = workspace::run(&mut cargo) {
            failed.push(format!("{}: {error:#}", peer.name));
        }
    }
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
    }
    println!("peers are in {}", directory.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lockfile() {
        let lock = "version = 4\n[[package]]\nname = \"rkyv\"\nversion = \"0.8.1\"\n";
        assert_eq!(locked_version(lock, "rkyv").as_deref(), Some("rkyv 0.8.1"));
        assert_eq!(locked_version(lock, "prost"), None);
        assert_eq!(locked_version("no TOML", "rkyv"), None);
    }

    #[test]
    fn what_is_not_installed_has_no_version() {
        assert!(versions(Path::new("/nonexistent"), &CODECS).is_empty());
    }
}
