//! The initramfs of the machine: busybox, modules of its kernel, programs and their libraries.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// Its first program.
const INIT: &str = include_str!("guest.sh");

/// In the order in which they are to be loaded. What the kernel has built in need not be.
const MODULES: [&str; 21] = [
    "failover",
    "net_failover",
    "virtio_net",
    "virtio_blk",
    "llc",
    "stp",
    "garp",
    "mrp",
    "bridge",
    "8021q",
    "tls",
    "bonding",
    "udp_tunnel",
    "ip6_udp_tunnel",
    "vxlan",
    "dm-mod",
    "loop",
    "nls_ascii",
    "nls_cp437",
    "fat",
    "vfat",
];

/// Programs that it needs, and the packages that they come from.
const PROGRAMS: [(&str, &str); 5] = [
    ("ip", "iproute2"),
    ("dmsetup", "dmsetup"),
    ("tcpdump", "tcpdump"),
    ("mkfs.ext4", "e2fsprogs"),
    ("chattr", "e2fsprogs"),
];

/// Makes the archive for this unpacked kernel.
///
/// # Errors
/// A program or a module is not here.
pub(super) fn make(directory: &Path, kernel: &Path, uncopy: &Path) -> Result<PathBuf> {
    let root = directory.join("root");
    let _ = std::fs::remove_dir_all(&root);
    for name in ["bin", "dev", "etc", "mnt", "modules", "proc", "sbin", "sys", "tmp"] {
        std::fs::create_dir_all(root.join(name))?;
    }
    std::fs::copy(found("busybox", "busybox-static")?, root.join("bin/busybox"))?;
    install(&root, uncopy, "uncopy")?;
    for (name, package) in PROGRAMS {
        install(&root, &found(name, package)?, &format!("sbin/{name}"))?;
    }
    let mut order = String::new();
    for module in MODULES {
        if unpack(kernel, module, &root.join(format!("modules/{module}.ko")))? {
            order.push_str(module);
            order.push('\n');
        }
    }
    std::fs::write(root.join("modules/order"), order)?;
    pack(&root, INIT, &directory.join("initramfs"))
}

/// Packs a root with its first program.
///
/// # Errors
/// cpio is not here, or a file cannot be written.
pub(super) fn pack(root: &Path, init: &str, archive: &Path) -> Result<PathBuf> {
    let program = root.join("init");
    std::fs::write(&program, init)?;
    workspace::run(Command::new("chmod").arg("+x").arg(&program))?;
    let script = format!("find . | cpio -o -H newc --quiet > {}", quoted(archive));
    workspace::run(Command::new("sh").args(["-c", &script]).current_dir(root))?;
    Ok(archive.to_owned())
}

/// A program of this machine.
///
/// # Errors
/// It is not here.
pub(super) fn found(name: &str, package: &str) -> Result<PathBuf> {
    let missing = || format!("{name} is not here; apt-get install {package}");
    workspace::find_program(name).with_context(missing)
}

/// Puts a program there, with the libraries that it is started with.
fn install(root: &Path, program: &Path, name: &str) -> Result<()> {
    std::fs::copy(program, root.join(name))?;
    for library in libraries_of(program)? {
        let inside = root.join(library.strip_prefix("/")?);
        std::fs::create_dir_all(inside.parent().context("a library has a directory")?)?;
        std::fs::copy(&library, inside)?;
    }
    Ok(())
}

/// The shared libraries that a program is started with, and what starts it.
fn libraries_of(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("cannot start ldd")?;
    let text = String::from_utf8(output.stdout)?;
    let words = text.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(words.map(PathBuf::from).collect())
}

/// Unpacks a module; `false`: the kernel has it built in.
fn unpack(kernel: &Path, module: &str, to: &Path) -> Result<bool> {
    let modules = only(&kernel.join("lib/modules"), "")?;
    let built_in = std::fs::read_to_string(modules.join("modules.builtin")).unwrap_or_default();
    if built_in.lines().any(|line| line.ends_with(&format!("/{module}.ko"))) {
        return Ok(false);
    }
    let script = format!(
        "set -e; file=$(find {} -name '{module}.ko*'); test -n \"$file\"; \
         case $file in *.xz) xz -dc \"$file\";; *) cat \"$file\";; esac > {}",
        quoted(&modules),
        quoted(to),
    );
    let status = Command::new("sh").args(["-c", &script]).status().context("cannot start sh")?;
    ensure!(status.success(), "no module {module} in {}", modules.display());
    Ok(true)
}

/// The only entry of a directory whose name begins so.
///
/// # Errors
/// There is none.
pub(super) fn only(directory: &Path, prefix: &str) -> Result<PathBuf> {
    let entries = std::fs::read_dir(directory)
        .with_context(|| format!("cannot read {}", directory.display()))?;
    let named = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
    };
    let found = entries.filter_map(Result::ok).map(|entry| entry.path()).find(named);
    found.with_context(|| format!("no {prefix} in {}", directory.display()))
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}
