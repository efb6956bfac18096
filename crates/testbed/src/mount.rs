//! Filesystems in images on loop devices.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::{NamedTempFile, TempDir};

use crate::process::{filesystem_and_source, run_quietly, run_tool};
use crate::sandbox;
use crate::scratch;

/// A filesystem for an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Filesystem {
    /// ext4: no reflinks.
    Ext4,
    /// XFS with reflinks.
    Xfs,
    /// btrfs: reflinks, and checksums that make direct writes buffered.
    Btrfs,
}

impl Filesystem {
    /// Returns the type for `mount -t`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Filesystem::Ext4 => "ext4",
            Filesystem::Xfs => "xfs",
            Filesystem::Btrfs => "btrfs",
        }
    }

    /// Returns the tool that formats it.
    #[must_use]
    pub fn formatter(self) -> &'static str {
        match self {
            Filesystem::Ext4 => "mkfs.ext4",
            Filesystem::Xfs => "mkfs.xfs",
            Filesystem::Btrfs => "mkfs.btrfs",
        }
    }

    fn format(self, image: &Path, features: &[&str]) {
        let options: &[&str] = match self {
            Filesystem::Ext4 => &["-q", "-F", "-m", "0", "-E", "nodiscard"],
            Filesystem::Xfs => &["-q", "-f", "-K"],
            Filesystem::Btrfs => &["-q", "-f", "-K"],
        };
        let options = options.iter().chain(features).map(OsString::from);
        let arguments = options.chain([image.as_os_str().to_owned()]);
        run_tool(self.formatter(), arguments);
    }
}

/// A mounted filesystem, unmounted when dropped.
#[derive(Debug)]
pub struct Mount {
    point: PathBuf,
    _own_point: Option<TempDir>,
    image: Option<NamedTempFile>,
    options: Vec<String>,
}

impl Mount {
    /// Makes a filesystem of `mebibytes` in a sparse image.
    #[must_use]
    pub fn image(filesystem: Filesystem, mebibytes: u64) -> Mount {
        Mount::formatted(filesystem, mebibytes, &[])
    }

    /// Makes an ext4 of `mebibytes` without a journal.
    #[must_use]
    pub fn without_journal(mebibytes: u64) -> Mount {
        Mount::formatted(Filesystem::Ext4, mebibytes, &["-O", "^has_journal"])
    }

    /// Makes an ext4 of `mebibytes` whose directories do not say of what types their entries are.
    #[must_use]
    pub fn without_types(mebibytes: u64) -> Mount {
        Mount::formatted(Filesystem::Ext4, mebibytes, &["-O", "^filetype"])
    }

    fn formatted(filesystem: Filesystem, mebibytes: u64, features: &[&str]) -> Mount {
        let image = new_image(filesystem.name());
        image.as_file().set_len(mebibytes << 20).expect("a sparse file takes no space");
        filesystem.format(image.path(), features);
        let mut options = vec!["-t".to_owned(), filesystem.name().to_owned(), "-o".to_owned()];
        options.push(match filesystem {
            // Otherwise the kernel would write inode tables in the background.
            Filesystem::Ext4 => "loop,noinit_itable".to_owned(),
            Filesystem::Xfs | Filesystem::Btrfs => "loop".to_owned(),
        });
        Mount::attached(Some(image), options)
    }

    /// Mounts a tmpfs of at most `mebibytes`.
    #[must_use]
    pub fn tmpfs(mebibytes: u64) -> Mount {
        Mount::without_image(&[
            "-t",
            "tmpfs",
            "-o",
            &format!("size={mebibytes}m,mode=755"),
            "tmpfs",
        ])
    }

    /// Makes a filesystem in memory, without birth times.
    #[must_use]
    pub fn ramfs() -> Mount {
        Mount::without_image(&["-t", "ramfs", "-o", "mode=755", "ramfs"])
    }

    /// Mounts `directory` under another name.
    #[must_use]
    pub fn bind(directory: &Path) -> Mount {
        let own = mount_point();
        let mut mount = Mount::bind_file(directory, own.path());
        mount._own_point = Some(own);
        mount
    }

    /// Mounts one file over another.
    #[must_use]
    pub fn bind_file(file: &Path, over: &Path) -> Mount {
        run_tool("mount", ["--bind".as_ref(), file.as_os_str(), over.as_os_str()]);
        Mount { point: over.to_owned(), _own_point: None, image: None, options: Vec::new() }
    }

    /// Mounts an overlay of three directories, of which `lower` may be on another filesystem: directories have another
    /// device than files then.
    #[must_use]
    pub fn overlay(lower: &Path, upper: &Path, work: &Path) -> Mount {
        let options = format!(
            "xino=off,lowerdir={},upperdir={},workdir={}",
            lower.display(),
            upper.display(),
            work.display()
        );
        Mount::without_image(&["-t", "overlay", "-o", &options, "overlay"])
    }

    /// Mounts `directory` under another name through FUSE.
    #[must_use]
    pub fn fuse(directory: &Path) -> Mount {
        let own = mount_point();
        let point = own.path().to_owned();
        run_tool("bindfs", [directory, &point]);
        Mount { point, _own_point: Some(own), image: None, options: Vec::new() }
    }

    fn without_image(options: &[&str]) -> Mount {
        let options = options.iter().map(|&option| option.to_owned()).collect();
        Mount::attached(None, options)
    }

    fn attached(image: Option<NamedTempFile>, options: Vec<String>) -> Mount {
        let own = mount_point();
        let point = own.path().to_owned();
        let mount = Mount { point, _own_point: Some(own), image, options };
        mount.attach();
        mount
    }

    fn attach(&self) {
        self.try_attach().expect("a filesystem just mounted is writable");
    }

    /// Mounts it. Fails if that is the filesystem of before a power cut, which a copy of the mount in another namespace keeps.
    fn try_attach(&self) -> io::Result<()> {
        let mut arguments: Vec<OsString> = self.options.iter().map(OsString::from).collect();
        arguments.extend(self.image.as_ref().map(|image| image.path().as_os_str().to_owned()));
        arguments.push(self.point.as_os_str().to_owned());
        run_tool("mount", arguments);
        std::fs::set_permissions(&self.point, Permissions::from_mode(0o755))
    }

    /// Returns the mount point.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.point
    }

    /// Returns the block device.
    #[must_use]
    pub fn device(&self) -> String {
        let (_, source) =
            filesystem_and_source(self.path()).expect("what was mounted is in the table");
        source
    }

    /// Sets whether the loop device bypasses the page cache for its image.
    pub fn set_direct_io(&self, on: bool) {
        let switch = if on { "--direct-io=on" } else { "--direct-io=off" };
        run_tool("losetup", [switch, &self.device()]);
    }

    /// Simulates a power failure: the filesystem stops at once and writes nothing of what it holds
    /// in memory (`XFS_IOC_GOINGDOWN`, which ext4 supports too, with "no log flush").
    pub fn cut_power(&self) {
        run_tool(
            "xfs_io",
            ["-x".as_ref(), "-c".as_ref(), "shutdown".as_ref(), self.path().as_os_str()],
        );
    }

    /// Mounts the filesystem again after [`Mount::cut_power`], when no file is open any more.
    pub fn restore_power(&self) {
        // A process that another thread is just starting may still hold a copy of a descriptor, or of all mounts.
        let mut attempts = (0..500).map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            run_quietly("umount", [self.path()]).status.success() && self.try_attach().is_ok()
        });
        assert!(attempts.any(|is_restored| is_restored), "{} is in use", self.point.display());
    }

    /// Mounts what its device holds now: a copy of the image, after `fsck`. It is the filesystem as it would be after a power
    /// failure, for those that write to their device through its page cache when they are shut down or unmounted.
    #[must_use]
    pub fn after_power_cut(&self) -> Mount {
        let image = self.image.as_ref().expect("a filesystem in an image");
        let copy = new_image("cut");
        let copied = std::fs::copy(image.path(), copy.path());
        copied.expect("the directory of a run has room for an image");
        // Its exit status says what was mended.
        run_quietly("fsck.ext4", ["-fy".as_ref(), copy.path().as_os_str()]);
        Mount::attached(Some(copy), self.options.clone())
    }

    /// Remounts the filesystem with other options: `ro`.
    pub fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        run_tool("mount", ["-o".as_ref(), options.as_ref(), self.path().as_os_str()]);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if !run_quietly("umount", [self.path()]).status.success() {
            run_quietly("umount", ["-l".as_ref(), self.path().as_os_str()]);
        }
    }
}

fn new_image(prefix: &str) -> NamedTempFile {
    tempfile::Builder::new()
        .prefix(prefix)
        .suffix(".img")
        .tempfile_in(scratch::run_directory())
        .expect("the directory of a run is writable")
}

fn mount_point() -> TempDir {
    tempfile::Builder::new()
        .prefix("m-")
        .tempdir_in(sandbox::mount_directory())
        .expect("the namespace has a directory for mounts")
}
