//! Boots a kernel of Debian's and has it run tests, on the files of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::archive::{self, Release, Series};
use super::kernel::Kernel;
use super::outcome::{self, Outcome, Row};
use super::{Kernels, Machine, initramfs, suite};
use crate::workspace;

/// First program of the guest, and what it goes on with on the host's files.
const BOOT: &str = include_str!("boot.sh");
const TESTS: &str = include_str!("tests.sh");

/// Modules that it needs to find its files. What the kernel has built in need not be loaded.
const MODULES: [&str; 8] = [
    "virtio_pci",
    "virtio_blk",
    "9pnet_virtio",
    "9p",
    "crc32c_generic",
    "crc32c_intel",
    "ext4",
    "overlay",
];

/// A timer that comes late on a busy machine is no fault of the guest's hardware.
const PARAMETERS: &str = "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check nowatchdog";

/// Sparse: images of filesystems are as large as 6 GiB.
const DISK_BYTES: u64 = 24 << 30;

/// Runs the tests on these kernels, and prints a table of what came of them.
///
/// # Errors
/// One failed, or a kernel could not be had.
pub(super) fn run(kernels: &Kernels, parts: &[String], is_quick: bool) -> Result<()> {
    let selections = suite::selected(parts, is_quick)?;
    let directory = workspace::target_directory().join("vm-test");
    let releases = archive::releases(&directory.join("archive"))?;
    let chosen: Vec<&Release> = match kernels {
        Kernels::All => releases.values().collect(),
        Kernels::One(series) => vec![releases.get(series).with_context(|| {
            let there = releases.keys().map(Series::to_string).collect::<Vec<_>>();
            format!("Debian's archive has no Linux {series} now, but {}", there.join(", "))
        })?],
    };
    let built = suite::build(&selections)?;
    let plan = suite::plan(&selections, &built)?;
    let mut rows = Vec::new();
    for release in chosen {
        let kernel = Kernel::of(release, &directory)?;
        let shared = directory.join(format!("results-{}", release.version));
        let _ = std::fs::remove_dir_all(&shared);
        std::fs::create_dir_all(&shared)?;
        std::fs::write(shared.join("plan"), &plan)?;
        std::fs::write(shared.join("tests.sh"), TESTS)?;
        std::fs::write(shared.join("modules"), kernel.modules.as_os_str().as_encoded_bytes())?;
        let begin = Instant::now();
        // Missing results count as failed below.
        if let Err(error) = boot(&kernel, &directory, &shared, suite::patience(&selections)) {
            println!("Linux {}: {error:#}", release.version);
        }
        println!("Linux {} took {} s", release.version, begin.elapsed().as_secs());
        for selection in &selections {
            let outcome = Outcome::read(&shared, selection.name)?;
            rows.push(Row { kernel: release.version.clone(), part: selection.part, outcome });
        }
    }
    let rows = outcome::joined(rows);
    print!("{}", outcome::table(&rows));
    let failed = rows.iter().map(|row| row.outcome.failed.len()).sum::<usize>();
    ensure!(failed == 0, "{failed} tests failed; their output is in {}", directory.display());
    ensure!(rows.iter().all(|row| row.outcome.passed > 0), "a part ran no test");
    Ok(())
}

fn boot(kernel: &Kernel, directory: &Path, shared: &Path, patience: Duration) -> Result<()> {
    let archive = initramfs(kernel, directory)?;
    let disk = directory.join("tests.disk");
    let _ = std::fs::remove_file(&disk);
    std::fs::File::create(&disk)?.set_len(DISK_BYTES)?;
    workspace::run(Command::new("mkfs.ext4").arg("-q").arg(&disk))?;
    let mut machine = Command::new("qemu-system-x86_64");
    let processors = std::thread::available_parallelism().map_or(1, usize::from).clamp(2, 4);
    machine
        .args(["-accel", super::accelerator(), "-cpu", "max", "-m", "4096"])
        .args(["-smp", &processors.to_string()])
        .args(["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio", "-drive"])
        .arg(format!("file={},format=raw,if=virtio,cache=unsafe,discard=unmap", disk.display()));
    let files = "security_model=none,multidevs=remap";
    for (name, options) in [
        ("host", format!("path=/,readonly=on,{files}")),
        ("shared", format!("path={},{files}", shared.display())),
    ] {
        machine.args(["-fsdev", &format!("local,id={name},{options}"), "-device"]);
        machine.arg(format!("virtio-9p-pci,fsdev={name},mount_tag={name}"));
    }
    machine.args(["-append", PARAMETERS, "-kernel"]).arg(&kernel.image).arg("-initrd").arg(archive);
    let mut machine = Machine::start(&mut machine)?;
    let begin = Instant::now();
    while machine.is_running()? {
        ensure!(begin.elapsed() < patience, "the machine does not come to its end");
        std::thread::sleep(Duration::from_millis(100));
    }
    machine.lines()?;
    Ok(std::fs::remove_file(disk)?)
}

/// Archive with busybox and the modules that find the rest.
fn initramfs(kernel: &Kernel, directory: &Path) -> Result<PathBuf> {
    let root = directory.join("tests-root");
    let _ = std::fs::remove_dir_all(&root);
    for name in ["bin", "dev", "proc", "sbin", "sys"] {
        std::fs::create_dir_all(root.join(name))?;
    }
    std::fs::copy(initramfs::found("busybox", "busybox-static")?, root.join("bin/busybox"))?;
    let modules = root.join("lib/modules").join(&kernel.release);
    let lists = ["modules.dep", "modules.alias", "modules.symbols"].map(str::to_owned);
    for file in kernel.closure(&MODULES)?.into_iter().chain(lists) {
        let to = modules.join(&file);
        std::fs::create_dir_all(to.parent().context("a module has a directory")?)?;
        std::fs::copy(kernel.modules.join(&file), to)?;
    }
    std::fs::write(root.join("modules"), MODULES.join("\n"))?;
    initramfs::pack(&root, BOOT, &directory.join("tests-initramfs"))
}
