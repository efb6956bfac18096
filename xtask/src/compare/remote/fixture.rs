//! Set-up and clean-up around a copy between machines.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use rustix::fs::syncfs;
use testbed::{
    Compared, Content, Filesystem, Mount, Relay, SshKeys, assert_same, assert_same_tree,
};

use super::command::Login;
use super::far::{Far, why_alone};
use super::line::{self, SlowLine};
use crate::compare::case::{Fixture, Trial};
use crate::compare::machine;
use crate::compare::memory::touch_free_memory;
use crate::compare::metric::Sample;
use crate::compare::tree::contents::Contents;
use crate::compare::walk::{count, read, remove};
use crate::workspace;

/// Room for every copy of a usual run; the image is sparse.
const IMAGE_MEBIBYTES: u64 = 48 << 10;

/// Programs that the server and its keys need, and their packages.
const TOOLS: [(&str, &str); 4] = [
    ("sshd", "openssh-server"),
    ("ssh", "openssh-client"),
    ("ssh-keygen", "openssh-client"),
    ("mkfs.ext4", "e2fsprogs"),
];

/// A quick run copies so much of a file.
const QUICK_PART: u64 = 64;

/// Copies of more than this are removed after their run, since not all fit.
const LARGE_BYTES: u64 = 256 << 20;

/// Memory that each file takes up beside its contents.
const MEMORY_PER_FILE: u64 = 4 << 10;

/// A file or a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payload {
    /// One file of so many MiB.
    File(u64),
    /// 10,000 files of 4 KiB in 100 directories.
    Tree,
}

impl Payload {
    pub(super) fn name(self) -> String {
        match self {
            Payload::File(mebibytes) if mebibytes % 1024 == 0 => format!("{}GiB", mebibytes / 1024),
            Payload::File(mebibytes) => format!("{mebibytes}MiB"),
            Payload::Tree => "10000x4KiB".to_owned(),
        }
    }

    /// Makes it; returns the number of its files and their bytes.
    fn plant(self, at: &Path, quick: bool) -> Result<(u64, u64)> {
        match self {
            Payload::File(mebibytes) => {
                let bytes = (mebibytes << 20) / if quick { QUICK_PART } else { 1 };
                Content::dense(bytes).write(at);
                Ok((1, bytes))
            }
            Payload::Tree => {
                fs::create_dir(at)?;
                Contents::Small.plant(at, quick)
            }
        }
    }
}

/// Source and server of a case.
pub(super) struct Scene {
    /// The file or tree.
    pub(super) source: PathBuf,
    /// Keys and configuration of the server of the other machine.
    pub(super) keys: SshKeys,
    /// The slow line, until the case ends.
    _relay: Option<Relay>,
}

impl Scene {
    /// How to log in to the other machine, over the link itself or a slow line.
    pub(super) fn login(&self, line: Option<SlowLine>) -> Login {
        Login { config: self.keys.client_config(), host: line::address(line).ip().to_string() }
    }
}

pub(super) struct MachinesFixture {
    payload: Payload,
    line: Option<SlowLine>,
    quick: bool,
    disk: PathBuf,
    far: Option<Far>,
    scene: Rc<OnceCell<Scene>>,
    mount: Option<Mount>,
    files: u64,
    bytes: u64,
}

impl MachinesFixture {
    pub(super) fn new(
        payload: Payload,
        line: Option<SlowLine>,
        quick: bool,
        scene: Rc<OnceCell<Scene>>,
        far: Option<Far>,
    ) -> MachinesFixture {
        let (disk, mount, files, bytes) = (testbed::Place::Disk.path(), None, 0, 0);
        MachinesFixture { payload, line, quick, disk, far, scene, mount, files, bytes }
    }

    fn root(&self) -> Result<&Path> {
        self.mount.as_ref().map(Mount::path).context("the case is not prepared")
    }

    fn source(&self) -> Result<&Path> {
        self.scene.get().map(|scene| scene.source.as_path()).context("the case is not prepared")
    }

    fn compare(&self, copy: &Path) -> Result<()> {
        match self.payload {
            Payload::File(_) => assert_same(self.source()?, copy),
            Payload::Tree => assert_same_tree(self.source()?, copy, Compared::default()),
        }
        Ok(())
    }
}

fn missing_tool() -> Option<String> {
    let missing = TOOLS.iter().find(|(tool, _)| workspace::find_program(tool).is_none());
    missing.map(|(tool, package)| format!("needs {tool}: apt-get install {package}"))
}

impl Fixture for MachinesFixture {
    fn prepare(&mut self) -> Result<Option<String>> {
        let Some(far) = &self.far else {
            return Ok(Some(why_alone().unwrap_or("there is no other machine").to_owned()));
        };
        if let Some(reason) = missing_tool() {
            return Ok(Some(reason));
        }
        let relay = match self.line.map(|line| line.join(far)).transpose()? {
            None => None,
            Some(Ok(relay)) => Some(relay),
            Some(Err(reason)) => return Ok(Some(reason)),
        };
        let mount = Mount::image(Filesystem::Ext4, IMAGE_MEBIBYTES);
        mount.set_direct_io(true);
        let source = mount.path().join("source");
        fs::create_dir(&source)?;
        let source = source.join(self.payload.name());
        (self.files, self.bytes) = self.payload.plant(&source, self.quick)?;
        self.mount = Some(mount);
        rustix::fs::sync();
        let keys =
            SshKeys::new(&[None, self.line].map(|line| line::address(line).ip()), line::PORT);
        let scene = Scene { source, keys, _relay: relay };
        ensure!(self.scene.set(scene).is_ok(), "a case is prepared once");
        Ok(None)
    }

    fn directory(&self) -> PathBuf {
        self.root().map_or_else(|_| PathBuf::new(), |root| root.join("copies"))
    }

    fn before(&mut self, _: &[OsString]) -> Result<()> {
        read(self.source()?.parent().context("it lies in a directory")?)?;
        let memory = self.bytes + self.files * MEMORY_PER_FILE;
        if self.quick { Ok(()) } else { touch_free_memory(memory) }
    }

    fn after(&mut self, trial: &Trial) -> Result<Sample> {
        let copies = File::open(&trial.path)?;
        syncfs(&copies).context("cannot flush the filesystem")?;
        drop(copies);
        if trial.round == 0 {
            self.compare(&trial.path.join(self.payload.name()))?;
        }
        let found = count(&trial.path)?;
        let expected = (self.files, self.bytes);
        ensure!(found == expected, "{found:?} files and bytes, not {expected:?}");
        if self.bytes > LARGE_BYTES {
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
