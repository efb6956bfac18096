//! Set-up and clean-up around a copy between machines.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use rustix::fs::syncfs;
use testbed::network::End;
use testbed::{Compared, Content, Filesystem, Mount, SshKeys, assert_same, assert_same_tree};

use super::command::Login;
use super::far::why_alone;
use crate::compare::brief::Options;
use crate::compare::case::{Fixture, Trial};
use crate::compare::machine;
use crate::compare::memory::touch_free_memory;
use crate::compare::metric::Sample;
use crate::compare::tree::contents::Contents;
use crate::compare::walk::{count, read, remove};
use crate::workspace;

/// Room for every copy of a usual run; the image is sparse.
const IMAGE_MEBIBYTES: u64 = 48 << 10;

/// The port of the server, in a network where no other one is.
const PORT: u16 = 2222;

/// Programs that the server and its keys need, and their packages.
const TOOLS: [(&str, &str); 4] = [
    ("sshd", "openssh-server"),
    ("ssh", "openssh-client"),
    ("ssh-keygen", "openssh-client"),
    ("mkfs.ext4", "e2fsprogs"),
];

const FILE_BYTES: u64 = 1 << 30;
const QUICK_BYTES: u64 = 16 << 20;

/// Memory that each file takes up beside its contents.
const MEMORY_PER_FILE: u64 = 4 << 10;

/// What is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payload {
    /// One file of 1 GiB.
    File,
    /// 10,000 files of 4 KiB in 100 directories.
    Tree,
}

impl Payload {
    pub(super) fn name(self) -> &'static str {
        match self {
            Payload::File => "1GiB",
            Payload::Tree => "10000x4KiB",
        }
    }

    /// Makes it; returns the number of its files and their bytes.
    fn plant(self, at: &Path, quick: bool) -> Result<(u64, u64)> {
        match self {
            Payload::File => {
                let bytes = if quick { QUICK_BYTES } else { FILE_BYTES };
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

/// What is there while a case runs.
pub(super) struct Scene {
    /// What is copied.
    pub(super) source: PathBuf,
    /// Keys and configuration of the server of the other machine.
    pub(super) keys: SshKeys,
    /// Where it answers.
    pub(super) address: SocketAddr,
    pub(super) login: Login,
}

pub(super) struct MachinesFixture {
    payload: Payload,
    quick: bool,
    disk: PathBuf,
    has_far: bool,
    scene: Rc<OnceCell<Scene>>,
    mount: Option<Mount>,
    files: u64,
    bytes: u64,
}

impl MachinesFixture {
    pub(super) fn new(
        payload: Payload,
        options: &Options,
        scene: Rc<OnceCell<Scene>>,
        has_far: bool,
    ) -> MachinesFixture {
        let (quick, disk) = (options.quick, testbed::Place::Disk.path());
        MachinesFixture { payload, quick, disk, has_far, scene, mount: None, files: 0, bytes: 0 }
    }

    fn root(&self) -> Result<&Path> {
        self.mount.as_ref().map(Mount::path).context("the case is not prepared")
    }

    fn source(&self) -> Result<&Path> {
        self.scene.get().map(|scene| scene.source.as_path()).context("the case is not prepared")
    }

    fn compare(&self, copy: &Path) -> Result<()> {
        match self.payload {
            Payload::File => assert_same(self.source()?, copy),
            Payload::Tree => assert_same_tree(self.source()?, copy, Compared::default()),
        }
        Ok(())
    }
}

fn why_not(has_far: bool) -> Option<String> {
    if let Some(reason) = why_alone().filter(|_| !has_far) {
        return Some(reason.to_owned());
    }
    let missing = TOOLS.iter().find(|(tool, _)| workspace::find_program(tool).is_none());
    missing.map(|(tool, package)| format!("needs {tool}: apt-get install {package}"))
}

impl Fixture for MachinesFixture {
    fn prepare(&mut self) -> Result<Option<String>> {
        if let Some(reason) = why_not(self.has_far) {
            return Ok(Some(reason));
        }
        let mount = Mount::image(Filesystem::Ext4, IMAGE_MEBIBYTES);
        mount.set_direct_io(true);
        let source = mount.path().join("source");
        fs::create_dir(&source)?;
        let source = source.join(self.payload.name());
        (self.files, self.bytes) = self.payload.plant(&source, self.quick)?;
        self.mount = Some(mount);
        rustix::fs::sync();
        let address = End::Far.address(false, PORT);
        let keys = SshKeys::new(&[address.ip()], PORT);
        let login = Login { config: keys.client_config(), host: address.ip().to_string() };
        let scene = Scene { source, keys, address, login };
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
        if self.payload == Payload::File {
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
