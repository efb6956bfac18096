//! An unpacked kernel: its image as an ELF file, its modules, and which of them it needs to boot.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::archive::{self, Release};
use super::initramfs::only;
use crate::workspace;

/// Directories of modules for hardware that the guest does not have.
const LEFT_OUT: [&str; 16] = [
    "drivers/gpu",
    "drivers/media",
    "drivers/infiniband",
    "drivers/iio",
    "drivers/hwmon",
    "drivers/usb",
    "drivers/scsi",
    "drivers/staging",
    "drivers/input",
    "drivers/hid",
    "drivers/mmc",
    "drivers/mtd",
    "drivers/ata",
    "drivers/net/ethernet",
    "drivers/net/wireless",
    "sound",
];

/// Kernel in a directory of its own.
#[derive(Debug)]
pub(super) struct Kernel {
    /// Image, as an ELF file that QEMU starts by its PVH entry.
    pub(super) image: PathBuf,
    /// `lib/modules/RELEASE`, unpacked, with `modules.dep`.
    pub(super) modules: PathBuf,
    /// `uname -r`.
    pub(super) release: String,
}

impl Kernel {
    /// Returns the kernel, from `directory` if it was unpacked there before.
    ///
    /// # Errors
    /// It cannot be fetched or unpacked.
    pub(super) fn of(release: &Release, directory: &Path) -> Result<Kernel> {
        let place = directory.join(&release.version);
        if !place.exists() {
            println!("fetching Linux {}", release.version);
            let unpacking = directory.join("unpacking");
            let _ = std::fs::remove_dir_all(&unpacking);
            std::fs::create_dir_all(&unpacking)?;
            for package in archive::fetch(release, &unpacking)? {
                unpack(&package, &unpacking)?;
                std::fs::remove_file(&package)?;
            }
            prepare(&unpacking)?;
            std::fs::rename(&unpacking, &place)?;
        }
        let modules = only(&place.join("lib/modules"), "")?;
        let release = modules.file_name().context("modules have a directory")?;
        let release = release.to_string_lossy().into_owned();
        Ok(Kernel { image: place.join("vmlinux"), modules, release })
    }

    /// Files of these modules and of those that they need, relative to [`Kernel::modules`]. What is built
    /// in has none.
    ///
    /// # Errors
    /// `modules.dep` cannot be read.
    pub(super) fn closure(&self, names: &[&str]) -> Result<BTreeSet<String>> {
        let dependencies = std::fs::read_to_string(self.modules.join("modules.dep"))?;
        Ok(closure(&dependencies, names))
    }
}

/// Unpacks what the guest needs.
fn unpack(package: &Path, to: &Path) -> Result<()> {
    let mut packed = Command::new("dpkg-deb");
    let mut packed = packed.arg("--fsys-tarfile").arg(package).stdout(Stdio::piped()).spawn()?;
    let output = packed.stdout.take().context("its output is piped")?;
    let mut tar = Command::new("tar");
    tar.arg("-x").arg("-C").arg(to).stdin(output);
    for directory in LEFT_OUT {
        tar.arg(format!("--exclude=*/kernel/{directory}"));
    }
    workspace::run(&mut tar)?;
    ensure!(packed.wait()?.success(), "cannot unpack {}", package.display());
    Ok(())
}

fn prepare(directory: &Path) -> Result<()> {
    // Newer packages have all of it below usr.
    if directory.join("usr/lib/modules").exists() {
        let _ = std::fs::remove_dir_all(directory.join("lib"));
        std::fs::rename(directory.join("usr/lib"), directory.join("lib"))?;
    }
    let modules = only(&directory.join("lib/modules"), "")?;
    let release = modules.file_name().context("modules have a directory")?;
    let packed =
        "find . -name '*.ko.xz' -exec xz -d {} + -o -name '*.ko.zst' -exec zstd -q --rm -d {} +";
    workspace::run(Command::new("sh").args(["-c", packed]).current_dir(&modules))?;
    let mut depmod = Command::new("busybox");
    workspace::run(depmod.args(["depmod", "-b"]).arg(directory).arg(release))?;
    let boot = [directory.join("boot"), directory.join("lib/linux-image"), modules];
    let image = boot.iter().find_map(|place| only(place, "vmlinuz").ok());
    let image = std::fs::read(image.context("no vmlinuz in these packages")?)?;
    let (payload, decompressor) = payload(&image)?;
    let packed = directory.join("packed");
    std::fs::write(&packed, payload)?;
    let image = std::fs::File::create(directory.join("vmlinux"))?;
    let mut command = Command::new(decompressor);
    workspace::run(command.arg("-dc").stdin(std::fs::File::open(&packed)?).stdout(image))?;
    Ok(std::fs::remove_file(packed)?)
}

/// Returns the packed ELF file in a `vmlinuz`, and what unpacks it (`Documentation/arch/x86/boot.rst`).
fn payload(image: &[u8]) -> Result<(&[u8], &'static str)> {
    let number = |at: usize| {
        let bytes = image.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(|bytes| u32::from_le_bytes(bytes) as usize)
    };
    let parsed = || {
        let setup_sectors = usize::from(*image.get(0x1f1)?);
        let begin = (setup_sectors + 1) * 512 + number(0x248)?;
        // Its unpacked size is behind it.
        image.get(begin..begin + number(0x24c)?.checked_sub(4)?)
    };
    let payload = parsed().context("vmlinuz is no kernel image of x86")?;
    let decompressor = match payload {
        [0xfd, b'7', b'z', ..] => "xz",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd",
        _ => bail!("vmlinuz is packed by neither xz nor zstd"),
    };
    Ok((payload, decompressor))
}

fn closure(dependencies: &str, names: &[&str]) -> BTreeSet<String> {
    let lines = dependencies.lines().filter_map(|line| line.split_once(':')).collect::<Vec<_>>();
    let is_named = |file: &str, name: &&str| {
        let stem = file.rsplit('/').next().and_then(|file| file.split('.').next());
        stem.is_some_and(|stem| stem.replace('-', "_") == name.replace('-', "_"))
    };
    let mut found = BTreeSet::new();
    for (file, needed) in lines {
        if names.iter().any(|name| is_named(file, name)) {
            found.insert(file.to_owned());
            // All of them: depmod lists also those that these need.
            found.extend(needed.split_whitespace().map(str::to_owned));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_with_those_that_they_need() {
        let dependencies = "kernel/fs/9p/9p.ko: kernel/net/9p/9pnet.ko kernel/fs/netfs.ko\n\
                            kernel/net/9p/9pnet.ko:\nkernel/fs/netfs.ko:\n\
                            kernel/lib/crc32c-intel.ko:\nkernel/fs/xfs/xfs.ko: kernel/lib/libcrc32c.ko\n";
        let found = closure(dependencies, &["9p", "crc32c_intel", "built_in"]);
        let expected = [
            "kernel/fs/9p/9p.ko",
            "kernel/fs/netfs.ko",
            "kernel/lib/crc32c-intel.ko",
            "kernel/net/9p/9pnet.ko",
        ];
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_image_is_found_in_its_wrapping() {
        let mut image = vec![0; 0x600];
        image[0x1f1] = 1;
        image[0x248..0x24c].copy_from_slice(&16_u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&10_u32.to_le_bytes());
        image[0x410..0x416].copy_from_slice(&[0x28, 0xb5, 0x2f, 0xfd, 1, 2]);
        assert_eq!(payload(&image).unwrap(), (&[0x28, 0xb5, 0x2f, 0xfd, 1, 2][..], "zstd"));
        // Too short, and not packed in a way that is known.
        payload(&image[..0x412]).unwrap_err();
        image[0x410] = 0;
        payload(&image).unwrap_err();
    }
}
