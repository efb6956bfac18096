//! Set-up and clean-up around a copied tree.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use rustix::fs::syncfs;
use testbed::{Compared, Filesystem, Mount, assert_same_tree};

use super::Options;
use super::contents::Contents;
use crate::compare::case::{Fixture, Trial};
use crate::compare::machine;
use crate::compare::memory::touch_free_memory;
use crate::compare::metric::Sample;
use crate::compare::walk::{count, read, remove};

/// The path of the source, once it is known.
pub(super) type Source = Rc<OnceCell<PathBuf>>;

/// Room for every destination of a usual run; the image is sparse.
const MIN_MEBIBYTES: u64 = 48 << 10;

/// ext4 gets one inode for 16 KiB (`mke2fs.conf(5)`); what is copied is smaller.
const INODES_PER_MEBIBYTE: u64 = 64;

/// Memory that each file takes up beside its contents: inode, dentry, and what the filesystem has of them.
const MEMORY_PER_FILE: u64 = 4 << 10;

pub(super) struct TreeFixture {
    place: Filesystem,
    contents: Contents,
    merge: bool,
    /// Copies that are made.
    runs: u64,
    source: Source,
    quick: bool,
    disk: PathBuf,
    mount: Option<Mount>,
    files: u64,
    bytes: u64,
}

impl TreeFixture {
    pub(super) fn new(
        place: Filesystem,
        contents: Contents,
        merge: bool,
        runs: usize,
        source: Source,
        options: &Options,
    ) -> TreeFixture {
        let (quick, disk, runs) = (options.quick, options.disk.clone(), runs as u64);
        let (mount, files, bytes) = (None, 0, 0);
        TreeFixture { place, contents, merge, runs, source, quick, disk, mount, files, bytes }
    }

    /// So large that it has an inode for each file of each copy.
    fn image_mebibytes(&self) -> u64 {
        let inodes = (self.runs + 1) * self.contents.inodes(self.quick);
        MIN_MEBIBYTES.max(inodes.div_ceil(INODES_PER_MEBIBYTE))
    }

    fn root(&self) -> Result<&Path> {
        self.mount.as_ref().map(Mount::path).context("the case is not prepared")
    }

    fn source(&self) -> Result<&Path> {
        self.source.get().map(PathBuf::as_path).context("the case is not prepared")
    }

    /// A tree whose copies do not all fit is removed after its run.
    fn is_large(&self) -> bool {
        self.bytes > 256 << 20
    }
}

impl Fixture for TreeFixture {
    fn prepare(&mut self) -> Result<Option<String>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Some("needs root, to mount".to_owned()));
        }
        let formatter = self.place.formatter();
        if crate::workspace::find_program(formatter).is_none() {
            return Ok(Some(format!("needs {formatter}")));
        }
        let mount = Mount::image(self.place, self.image_mebibytes());
        mount.set_direct_io(true);
        let source = mount.path().join("source");
        fs::create_dir(&source)?;
        (self.files, self.bytes) = self.contents.plant(&source, self.quick)?;
        self.mount = Some(mount);
        rustix::fs::sync();
        ensure!(self.source.set(source).is_ok(), "a case is prepared once");
        Ok(None)
    }

    fn directory(&self) -> PathBuf {
        self.root().map_or_else(|_| PathBuf::new(), |root| root.join("copies"))
    }

    fn before(&mut self, command: &[OsString]) -> Result<()> {
        machine::load_programs(command);
        read(self.source()?)?;
        let destination = command.last().context("a command has a destination")?;
        if self.merge {
            fs::create_dir(destination)?;
        }
        let memory = self.bytes + self.files * MEMORY_PER_FILE;
        if self.quick { Ok(()) } else { touch_free_memory(memory) }
    }

    fn after(&mut self, trial: &Trial) -> Result<Sample> {
        let copy = File::open(&trial.path)
            .with_context(|| format!("cannot open {}", trial.path.display()))?;
        syncfs(&copy).context("cannot flush the filesystem")?;
        if trial.round == 0 {
            assert_same_tree(self.source()?, &trial.path, Compared::default());
        }
        let (files, bytes) = count(&trial.path)?;
        let expected = (self.files, self.bytes);
        ensure!((files, bytes) == expected, "{files} files of {bytes} bytes, not {expected:?}");
        if self.is_large() {
            drop(copy);
            remove(&trial.path, self.root()?)?;
        }
        Ok(Sample::new())
    }

    fn between_rounds(&mut self, _: usize) -> Result<()> {
        machine::settle(&self.disk, self.quick)
    }

    fn finish(&mut self) -> Result<()> {
        self.mount = None;
        machine::settle(&self.disk, self.quick)
    }
}
