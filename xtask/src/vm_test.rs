//! Sends over virtio-net in a virtual machine: a device that really reads pages where they lie, and
//! a kernel in which copies can be counted (`skb_copy_ubufs`, by a kprobe).
//!
//! QEMU emulates the processor, so that it runs anywhere; kernel and modules are Debian's.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::workspace;

/// Arguments of `cargo xtask vm-test`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A directory with an unpacked package of a kernel (`boot/vmlinuz-…`, `lib/modules/…`), instead
    /// of Debian's for clouds, which is fetched once (35 MB).
    #[arg(long, value_name = "DIRECTORY")]
    kernel: Option<PathBuf>,
}

/// Depends on the newest kernel of its kind.
const PACKAGE: &str = "linux-image-6.12-cloud-amd64";
/// In the order in which they are to be loaded.
const MODULES: [&str; 3] = ["failover", "net_failover", "virtio_net"];
const PORT: u16 = 8000;
/// The machine takes half a minute where nothing else runs.
const PATIENCE: Duration = Duration::from_secs(300);
/// Before each line that is for us.
const SIGN: &str = "@@ ";

/// What the machine does.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tracefs tracefs /sys/kernel/tracing
for module in failover net_failover virtio_net; do insmod /modules/$module.ko; done
ip link set lo up
ip address add 10.12.0.2/24 dev eth0 && ip link set eth0 up
ip address add 10.0.2.15/24 dev eth1 && ip link set eth1 up
cd /sys/kernel/tracing
echo 'p:uncopy skb_copy_ubufs' > kprobe_events
echo 1 > events/kprobes/uncopy/enable
hits() { awk '$1 == "uncopy" { print $2 }' kprobe_profile; }
each() {
    name=$1
    shift
    before=$(hits)
    said=$(/uncopy bench send -4 -t 1 --json "$@" 2>&1)
    echo "@@ $name $(($(hits) - before)) $said"
}
each device/msg-zerocopy tcp -D 10.12.0.1 -z
each device/ring tcp -D 10.12.0.1 --mode ring
each device/ring-registered tcp -D 10.12.0.1 --mode ring-registered
each device/udp udp -D 10.12.0.1 -s 1400 -z
each slirp/msg-zerocopy tcp -D 10.0.2.2 -z
/uncopy bench recv -4 tcp -t 20 > /dev/null &
sleep 1
each loopback/msg-zerocopy tcp -D 127.0.0.1 -z
echo "@@ end"
poweroff -f
"#;

/// Boots the machine, has it send, and judges what it says.
///
/// # Errors
/// If it does not come to its end, or says something else than is expected.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let uncopy = workspace::build_release("uncopy-cli", "uncopy")?;
    let directory = workspace::target_directory().join("vm-test");
    std::fs::create_dir_all(&directory)?;
    let kernel = match &arguments.kernel {
        Some(kernel) => kernel.clone(),
        None => fetched(&directory)?,
    };
    let initramfs = initramfs(&directory, &kernel, &uncopy)?;
    let said = testbed::network::isolated(|network| {
        network.ip("tuntap add dev vm0 mode tap vnet_hdr");
        network.ip("address add 10.12.0.1/24 dev vm0");
        network.ip("link set vm0 up");
        boot(&vmlinuz(&kernel)?, &initramfs, &uncopy)
    })?;
    judge(&said)
}

/// What each line must say, by name.
fn judge(said: &[String]) -> Result<()> {
    let find = |name: &str| -> Result<(u64, Value)> {
        let found = said.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let found = found.with_context(|| format!("{name} said nothing: {said:?}"))?;
        let (hits, json) = found.split_once(' ').context("no count")?;
        let json = serde_json::from_str(json).with_context(|| format!("{name}: {json}"))?;
        Ok((hits.parse()?, json))
    };
    let is_right = |name: &str, expected: &dyn Fn(u64, &Value) -> bool| -> Result<()> {
        let (hits, json) = find(name)?;
        println!("{name}: skb_copy_ubufs {hits} times; {json}");
        ensure!(expected(hits, &json), "{name} is not what was expected");
        Ok(())
    };
    let sends = |json: &Value, what: &str| json[what].as_u64().unwrap_or(0);
    for name in ["device/msg-zerocopy", "device/udp"] {
        is_right(name, &|hits, json| hits == 0 && json["zero_copy"] == true)?;
    }
    // Of joined notifications over TCP io_uring reports nothing that can be relied on.
    for name in ["device/ring", "device/ring-registered"] {
        is_right(name, &|hits, json| {
            hits == 0 && sends(json, "not_copied_sends") > 0 && sends(json, "copied_sends") == 0
        })?;
    }
    is_right("slirp/msg-zerocopy", &|_, json| {
        sends(json, "sends") > 0 && json["zero_copy"] == false
    })?;
    is_right("loopback/msg-zerocopy", &|hits, json| {
        hits > 0 && json["zero_copy"] == false && sends(json, "copied_sends") > 0
    })
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

/// The only entry of a directory whose name begins so.
fn only(directory: &Path, prefix: &str) -> Result<PathBuf> {
    let entries = std::fs::read_dir(directory)
        .with_context(|| format!("cannot read {}", directory.display()))?;
    let named = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
    };
    let found = entries.filter_map(Result::ok).map(|entry| entry.path()).find(named);
    found.with_context(|| format!("no {prefix} in {}", directory.display()))
}

fn vmlinuz(kernel: &Path) -> Result<PathBuf> {
    only(&kernel.join("boot"), "vmlinuz-")
}

/// An archive with busybox, the modules, the program and its libraries.
fn initramfs(directory: &Path, kernel: &Path, uncopy: &Path) -> Result<PathBuf> {
    let root = directory.join("root");
    let _ = std::fs::remove_dir_all(&root);
    for name in ["bin", "dev", "modules", "proc", "sys"] {
        std::fs::create_dir_all(root.join(name))?;
    }
    let busybox = workspace::find_program("busybox")
        .context("busybox is not here; apt-get install busybox-static")?;
    std::fs::copy(busybox, root.join("bin/busybox"))?;
    std::fs::copy(uncopy, root.join("uncopy"))?;
    for library in libraries_of(uncopy)? {
        let inside = root.join(library.strip_prefix("/")?);
        std::fs::create_dir_all(inside.parent().context("a library has a directory")?)?;
        std::fs::copy(&library, inside)?;
    }
    for module in MODULES {
        let modules = only(&kernel.join("lib/modules"), "")?;
        let script = format!(
            "set -e; file=$(find {} -name '{module}.ko*'); \
             case $file in *.xz) xz -dc \"$file\";; *) cat \"$file\";; esac > {}",
            quoted(&modules),
            quoted(&root.join(format!("modules/{module}.ko"))),
        );
        workspace::run(Command::new("sh").args(["-c", &script]))?;
    }
    let init = root.join("init");
    std::fs::write(&init, INIT)?;
    workspace::run(Command::new("chmod").arg("+x").arg(&init))?;
    let archive = directory.join("initramfs");
    let script = format!("find . | cpio -o -H newc --quiet > {}", quoted(&archive));
    workspace::run(Command::new("sh").args(["-c", &script]).current_dir(&root))?;
    Ok(archive)
}

/// The shared libraries that a program is started with, and what starts it.
fn libraries_of(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("cannot start ldd")?;
    let text = String::from_utf8(output.stdout)?;
    let words = text.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(words.map(PathBuf::from).collect())
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// Runs the machine with a receiver for each connection beside it; gives the lines that are for us.
fn boot(vmlinuz: &Path, initramfs: &Path, uncopy: &Path) -> Result<Vec<String>> {
    let mut machine = Command::new("qemu-system-x86_64");
    machine
        .args(["-accel", "tcg", "-cpu", "max", "-m", "512", "-nodefaults", "-no-reboot"])
        .args(["-display", "none", "-serial", "stdio"])
        .args(["-netdev", "tap,id=tap,ifname=vm0,script=no,downscript=no"])
        .args(["-device", "virtio-net-pci,netdev=tap,romfile="])
        .args(["-netdev", "user,id=slirp", "-device", "virtio-net-pci,netdev=slirp,romfile="])
        .args(["-append", "console=ttyS0 quiet panic=-1"])
        .arg("-kernel")
        .arg(vmlinuz)
        .arg("-initrd")
        .arg(initramfs);
    let machine = machine.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let machine = machine
        .spawn()
        .context("cannot start qemu-system-x86_64; apt-get install qemu-system-x86")?;
    let mut machine = Ending(machine);
    let output = machine.0.stdout.take().context("its output is piped")?;
    let reader = std::thread::spawn(move || lines_of(output));
    // Takes datagrams in that nobody reads.
    let _datagrams = std::net::UdpSocket::bind(("0.0.0.0", PORT))?;
    let begin = Instant::now();
    let mut receiver: Option<Ending> = None;
    while machine.0.try_wait()?.is_none() {
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
    let lines = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    ensure!(lines.iter().any(|line| line == "end"), "the machine stopped early: {lines:?}");
    Ok(lines)
}

/// Shows what the machine says, and keeps what is for us.
fn lines_of(output: impl std::io::Read) -> Result<Vec<String>> {
    let mut ours = Vec::new();
    for line in std::io::BufRead::lines(std::io::BufReader::new(output)) {
        let line = line?;
        match line.trim_end().split_once(SIGN) {
            Some((_, ours_too)) => ours.push(ours_too.to_owned()),
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

#[cfg(test)]
mod tests {
    use super::judge;

    fn line(name: &str, hits: u32, zero_copy: bool, not_copied: u32, copied: u32) -> String {
        format!(
            "{name} {hits} {{\"zero_copy\":{zero_copy},\"sends\":9,\
             \"not_copied_sends\":{not_copied},\"copied_sends\":{copied}}}"
        )
    }

    #[test]
    fn what_is_copied_behind_our_back_is_found() {
        let good = [
            line("device/msg-zerocopy", 0, true, 9, 0),
            line("device/udp", 0, true, 9, 0),
            line("device/ring", 0, false, 9, 0),
            line("device/ring-registered", 0, true, 9, 0),
            line("slirp/msg-zerocopy", 0, false, 0, 0),
            line("loopback/msg-zerocopy", 9, false, 0, 9),
        ];
        judge(&good).unwrap();
        for (index, bad) in [
            line("device/msg-zerocopy", 1, true, 9, 0),
            line("device/udp", 0, false, 0, 9),
            line("device/ring", 1, false, 9, 0),
            line("device/ring-registered", 0, false, 8, 1),
            line("slirp/msg-zerocopy", 0, true, 9, 0),
            line("loopback/msg-zerocopy", 0, false, 0, 9),
        ]
        .into_iter()
        .enumerate()
        {
            let mut said = good.clone();
            said[index] = bad;
            assert!(judge(&said).is_err(), "{}", said[index]);
        }
        assert!(judge(&good[1..]).is_err());
    }
}
