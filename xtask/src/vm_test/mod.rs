//! Sends over virtio-net in a virtual machine: a device that really reads pages where they lie, and
//! a kernel in which copies can be counted (`skb_copy_ubufs`, by a kprobe). And the doctor among
//! devices that kernels of other test machines lack: bonds, VLANs, tunnels, device mapper, kprobes. And
//! copies into directories that fold names, which those lack too.
//!
//! Or tests of the project on other kernels, in `testing.rs`.
//!
//! Where there is no KVM, QEMU emulates the processor; kernel and modules are Debian's.

mod archive;
mod doctor;
mod folding;
mod initramfs;
mod kernel;
mod outcome;
mod said;
mod sends;
mod suite;
mod testing;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::workspace;
use anyhow::{Context, Result, ensure};
use initramfs::only;
use said::Said;

/// Arguments of `cargo xtask vm-test`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A directory with an unpacked package of a kernel (`boot/vmlinuz-…`, `lib/modules/…`), instead
    /// of Debian's for clouds, which is fetched once (35 MB).
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["kernel", "all"])]
    unpacked: Option<PathBuf>,
    /// Run the tests of copying, sending, channels, the C library and the program on Debian's newest kernel of
    /// this series (`6.12`) instead.
    #[arg(long, value_name = "SERIES", conflicts_with = "all")]
    kernel: Option<archive::Series>,
    /// Run them on each series that Debian's archive has now, one after the other.
    #[arg(long)]
    all: bool,
    /// Run only these parts: `copying`, `sending`, `channels`, `c`, `program`.
    #[arg(long, value_name = "PART")]
    part: Vec<String>,
    /// Run fewer programs of tests: those that depend on the kernel most.
    #[arg(long)]
    quick: bool,
}

/// Kernels to run tests on.
enum Kernels {
    All,
    One(archive::Series),
}

/// Depends on the newest kernel of its kind.
const PACKAGE: &str = "linux-image-6.12-cloud-amd64";
const DISK_BYTES: u64 = 64 << 20;
const PORT: u16 = 8000;
/// The machine takes a minute where nothing else runs.
const PATIENCE: Duration = Duration::from_secs(300);
/// Before each line that is for us.
const SIGN: &str = "@@ ";

/// Boots the machine, has it send, and judges what it says.
///
/// # Errors
/// If it does not come to its end, or says something else than is expected.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let kernels = match arguments.kernel {
        Some(series) => Some(Kernels::One(series)),
        None => arguments.all.then_some(Kernels::All),
    };
    if let Some(kernels) = kernels {
        return testing::run(&kernels, &arguments.part, arguments.quick);
    }
    let uncopy = workspace::build_release("uncopy-cli", "uncopy")?;
    let directory = workspace::target_directory().join("vm-test");
    std::fs::create_dir_all(&directory)?;
    let kernel = match &arguments.unpacked {
        Some(kernel) => kernel.clone(),
        None => fetched(&directory)?,
    };
    let initramfs = initramfs::make(&directory, &kernel, &uncopy)?;
    let disk = disk(&directory)?;
    let said = testbed::network::isolated(|network| {
        network.ip("tuntap add dev vm0 mode tap vnet_hdr");
        network.ip("address add 10.12.0.1/24 dev vm0");
        network.ip("link set vm0 mtu 9000 up");
        boot(&vmlinuz(&kernel)?, &initramfs, &disk, &uncopy)
    })?;
    let said = said.iter().filter_map(|line| Said::of(line)).collect::<Vec<_>>();
    sends::judge(&said)?;
    folding::judge(&said)?;
    doctor::judge(&said)
}

/// Debian's kernel, unpacked.
fn fetched(directory: &Path) -> Result<PathBuf> {
    let unpacked = directory.join("kernel");
    if !unpacked.exists() {
        let script = format!(
            "set -e; newest=$(apt-cache depends {PACKAGE} | awk '/Depends:/ {{ print $2; exit }}'); \
             apt-get download -q \"$newest\"; rm -rf unpacking; \
             dpkg-deb -x \"$newest\"_*.deb unpacking; rm \"$newest\"_*.deb; mv unpacking kernel"
        );
        workspace::run(Command::new("sh").args(["-c", &script]).current_dir(directory))?;
    }
    Ok(unpacked)
}

/// A disk with an empty filesystem, anew.
fn disk(directory: &Path) -> Result<PathBuf> {
    let disk = directory.join("disk");
    std::fs::File::create(&disk)?.set_len(DISK_BYTES)?;
    workspace::run(Command::new("mkfs.ext4").arg("-q").arg(&disk))?;
    Ok(disk)
}

/// KVM where the processor virtualises: a `/dev/kvm` that only runs kernels made for it does not boot Debian's.
fn accelerator() -> &'static str {
    let is_there = |path: &str| Path::new(path).exists();
    let has_hardware =
        ["kvm_intel", "kvm_amd"].iter().any(|name| is_there(&format!("/sys/module/{name}")));
    if has_hardware && std::fs::File::options().write(true).open("/dev/kvm").is_ok() {
        "kvm"
    } else {
        "tcg"
    }
}

fn vmlinuz(kernel: &Path) -> Result<PathBuf> {
    only(&kernel.join("boot"), "vmlinuz-")
}

/// Runs the machine with a receiver for each connection beside it; gives the lines that are for us.
fn boot(vmlinuz: &Path, initramfs: &Path, disk: &Path, uncopy: &Path) -> Result<Vec<String>> {
    let mut machine = Command::new("qemu-system-x86_64");
    machine
        .args(["-accel", accelerator(), "-cpu", "max", "-m", "512", "-nodefaults", "-no-reboot"])
        .args(["-display", "none", "-serial", "stdio"])
        .args(["-netdev", "tap,id=tap,ifname=vm0,script=no,downscript=no"])
        .args(["-device", "virtio-net-pci,netdev=tap,romfile="])
        .args(["-netdev", "user,id=slirp", "-device", "virtio-net-pci,netdev=slirp,romfile="])
        .arg("-drive")
        .arg(format!("file={},format=raw,if=virtio", disk.display()))
        .args(["-append", "console=ttyS0 quiet panic=-1"])
        .arg("-kernel")
        .arg(vmlinuz)
        .arg("-initrd")
        .arg(initramfs);
    let mut machine = Machine::start(&mut machine)?;
    // Takes datagrams in that nobody reads.
    let _datagrams = std::net::UdpSocket::bind(("0.0.0.0", PORT))?;
    let begin = Instant::now();
    let mut receiver: Option<Ending> = None;
    while machine.is_running()? {
        ensure!(begin.elapsed() < PATIENCE, "the machine does not come to its end");
        // One connection each; the next receiver follows the last.
        let is_over = match &mut receiver {
            Some(running) => running.0.try_wait()?.is_some(),
            None => true,
        };
        if is_over {
            let words = ["bench", "recv", "-4", "tcp", "-p", &PORT.to_string(), "-t", "300"];
            let next = Command::new(uncopy).args(words).stdout(Stdio::null()).spawn()?;
            receiver = Some(Ending(next));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    machine.lines()
}

/// A machine at work, and the thread that reads its console. It is killed with this value.
struct Machine {
    process: Ending,
    reader: JoinHandle<Result<Vec<String>>>,
}

impl Machine {
    fn start(command: &mut Command) -> Result<Machine> {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let process = command
            .spawn()
            .context("cannot start qemu-system-x86_64; apt-get install qemu-system-x86")?;
        let mut process = Ending(process);
        let output = process.0.stdout.take().context("its output is piped")?;
        Ok(Machine { process, reader: std::thread::spawn(move || lines_of(output)) })
    }

    fn is_running(&mut self) -> Result<bool> {
        Ok(self.process.0.try_wait()?.is_none())
    }

    /// Returns the lines that are for us, of a machine that came to its end.
    fn lines(self) -> Result<Vec<String>> {
        let lines = self.reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        ensure!(lines.iter().any(|line| line == "end"), "the machine stopped early: {lines:?}");
        Ok(lines)
    }
}

/// Shows what the machine says, and keeps what is for us.
fn lines_of(output: impl std::io::Read) -> Result<Vec<String>> {
    let mut ours = Vec::new();
    for line in std::io::BufRead::lines(std::io::BufReader::new(output)) {
        let line = line?;
        match line.trim_end().split_once(SIGN) {
            Some((_, said)) => {
                writeln!(std::io::stderr(), "said: {}", said.split(' ').next().unwrap_or(said))?;
                ours.push(said.to_owned());
            }
            None => writeln!(std::io::stderr(), "guest: {}", line.trim_end())?,
        }
    }
    Ok(ours)
}

/// A process that goes with this.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // One that is over already is no failure.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
