//! Set-up and clean-up around plans and units.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use rustix::fs::syncfs;
use testbed::{Compared, Filesystem, Mount, assert_same_tree};

use super::Options;
use crate::compare::case::{Fixture, Trial};
use crate::compare::machine;
use crate::compare::metric::Sample;
use crate::compare::walk::{count, read};

/// The path of the source, once it is known.
pub(super) type Source = Rc<OnceCell<PathBuf>>;

/// Room for every destination of a usual run; the image is sparse.
const MEBIBYTES: u64 = 48 << 10;

/// The source: directories, files in each, and the length of each.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) directories: usize,
    pub(super) files: usize,
    pub(super) bytes: u64,
}

impl Shape {
    fn plant(self, root: &Path) -> Result<()> {
        for directory in 0..self.directories {
            let path = root.join(directory.to_string());
            fs::create_dir(&path)?;
            for file in 0..self.files {
                let number = (directory * self.files + file) as u64;
                let contents = testbed::seeded(number, 0, self.bytes);
                fs::write(path.join(format!("file-{file}")), contents)?;
            }
        }
        Ok(())
    }
}

pub(super) struct UnitFixture {
    shape: Shape,
    source: Source,
    uncopy: PathBuf,
    disk: PathBuf,
    quick: bool,
    mount: Option<Mount>,
}

/// Returns the plan of a copy to a path.
pub(super) fn plan_beside(path: &Path) -> PathBuf {
    path.with_extension("plan")
}

/// Plans a copy, to be done in the measured time.
pub(super) fn make_plan(uncopy: &Path, from: &Path, to: &Path, flags: &[&str]) -> Result<()> {
    // As in a copy to a directory that is there.
    fs::create_dir_all(to)?;
    let mut command = Command::new(uncopy);
    command.args(["unit", "plan", "-q"]).args(flags).args([from, to]).arg("--out");
    let status = command.arg(plan_beside(to)).stdin(Stdio::null()).status()?;
    ensure!(status.success(), "uncopy unit plan: {status}");
    Ok(())
}

impl UnitFixture {
    pub(super) fn new(shape: Shape, source: Source, options: &Options) -> UnitFixture {
        let (uncopy, disk, quick) = (options.uncopy.clone(), options.disk.clone(), options.quick);
        let directories = if quick { shape.directories.div_ceil(50) } else { shape.directories };
        let shape = Shape { directories, ..shape };
        UnitFixture { shape, source, uncopy, disk, quick, mount: None }
    }

    fn root(&self) -> Result<&Path> {
        self.mount.as_ref().map(Mount::path).context("the case is not prepared")
    }

    fn source(&self) -> Result<&Path> {
        self.source.get().map(PathBuf::as_path).context("the case is not prepared")
    }

    /// Whether files are copied, and not only looked at.
    fn copies(&self) -> bool {
        self.shape.bytes > 0
    }
}

impl Fixture for UnitFixture {
    fn prepare(&mut self) -> Result<Option<String>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Some("needs root, to mount".to_owned()));
        }
        let formatter = Filesystem::Ext4.formatter();
        if crate::workspace::find_program(formatter).is_none() {
            return Ok(Some(format!("needs {formatter}")));
        }
        let mount = Mount::image(Filesystem::Ext4, MEBIBYTES);
        mount.set_direct_io(true);
        let source = mount.path().join("source");
        fs::create_dir(&source)?;
        self.shape.plant(&source)?;
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
        let source = self.source()?;
        count(source)?;
        if !self.copies() {
            return Ok(());
        }
        read(source)?;
        let Some(last) = command.last().map(Path::new) else { return Ok(()) };
        let is_plan = |path: &&Path| path.extension().is_some_and(|end| end == "plan");
        let plan = last.ancestors().find(is_plan);
        match plan {
            Some(plan) => {
                let files =
                    if self.shape.directories > 1 { "--files=1000" } else { "--files=10000" };
                make_plan(&self.uncopy, source, &plan.with_extension(""), &[files])
            }
            // A copy into a directory that is there flushes each file, as units do.
            None if self.shape.directories == 1 => Ok(fs::create_dir_all(last.join("0"))?),
            None => Ok(()),
        }
    }

    fn after(&mut self, trial: &Trial) -> Result<Sample> {
        syncfs(File::open(self.root()?)?).context("cannot flush the filesystem")?;
        if !self.copies() {
            // A walk leaves nothing.
            if trial.path.exists() {
                ensure!(trial.path.join("plan.json").exists(), "there is no plan");
                fs::remove_dir_all(&trial.path)?;
            }
            return Ok(Sample::new());
        }
        if !trial.path.exists() {
            return Ok(Sample::new());
        }
        let ledger = trial.path.join(".uncopy-ledger");
        if ledger.exists() {
            fs::remove_dir_all(ledger)?;
        }
        if trial.round == 0 {
            assert_same_tree(self.source()?, &trial.path, Compared::default());
        }
        let (found, expected) = (count(&trial.path)?, count(self.source()?)?);
        ensure!(found == expected, "{found:?} files and bytes, not {expected:?}");
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
