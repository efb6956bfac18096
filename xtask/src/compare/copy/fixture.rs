//! Set-up and clean-up around a measured copy.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise, syncfs};

use super::contents::{check_equal, contents, warm};
use super::place::{Place, Places};
use crate::compare::case::{Fixture, Trial};
use crate::compare::machine;
use crate::compare::memory::touch_free_memory;
use crate::compare::metric::{DISK, Sample};

/// From here on a destination is flushed and evicted after its run, and removed after its round.
const LARGE: u64 = 1 << 20;

/// From here on a destination is removed right after its run, because not all of a round fit on a
/// disk.
const HUGE: u64 = 4 << 30;

/// Up to here the bytes are compared after every run, above after the first alone.
const COMPARED_EVERY_TIME: u64 = 1 << 30;

/// Source and destination of a copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Errand {
    pub(super) from: Place,
    pub(super) to: Place,
    /// Length of the source.
    pub(super) length: u64,
    /// How much of it is data.
    pub(super) data: u64,
    /// The source is not in the page cache.
    pub(super) cold: bool,
    /// All subjects share blocks, so that no data is read or written.
    pub(super) shares: bool,
}

impl Errand {
    /// On one filesystem, without holes, from the page cache.
    pub(super) fn on(place: Place, length: u64) -> Errand {
        Errand { from: place, to: place, length, data: length, cold: false, shares: false }
    }
}

/// The path of the source, once it is known.
pub(super) type Source = Rc<OnceCell<PathBuf>>;

/// One errand, for as many subjects as take part.
pub(super) struct CopyFixture {
    errand: Errand,
    places: Rc<Places>,
    source: Source,
    /// Destinations that lie there at the end of a round.
    runs_per_round: u64,
    /// Name of the folders of this case.
    folder: String,
    directory: PathBuf,
    quick: bool,
}

impl CopyFixture {
    pub(super) fn new(
        errand: Errand,
        places: Rc<Places>,
        source: Source,
        subjects: usize,
        case: &str,
        quick: bool,
    ) -> CopyFixture {
        let folder = format!("case-{}", case.replace('/', "-"));
        let runs_per_round = subjects as u64 + 1;
        let directory = PathBuf::new();
        CopyFixture { errand, places, source, runs_per_round, folder, directory, quick }
    }

    fn is_large(&self) -> bool {
        self.errand.data >= LARGE
    }

    fn source(&self) -> Result<&Path> {
        self.source.get().map(PathBuf::as_path).context("the case is not prepared")
    }

    /// Why there is not enough room, if there is not.
    fn shortage(&self, from: &Path, to: &Path) -> Result<Option<String>> {
        const GIB: f64 = (1u64 << 30) as f64;
        let data = self.errand.data;
        let at_once = if data >= HUGE { 1 } else { self.runs_per_round };
        let copies = data * at_once;
        let both = if self.errand.from == Place::Tmpfs { copies } else { copies + data };
        let rows = [(self.errand.from, from, data), (self.errand.to, to, both)];
        for (place, directory, needed) in rows {
            // A filesystem that is nearly full is slower than an empty one.
            let needed = needed + needed / 20 + (64 << 20);
            let available = self.places.available_bytes(place, directory)?;
            if available < needed {
                return Ok(Some(format!(
                    "needs {:.1} GiB on {}, where {:.1} GiB are free",
                    needed as f64 / GIB,
                    place.name(),
                    available as f64 / GIB,
                )));
            }
        }
        Ok(None)
    }
}

impl Fixture for CopyFixture {
    fn prepare(&mut self) -> Result<Option<String>> {
        if self.errand.cold && !rustix::process::geteuid().is_root() {
            return Ok(Some("needs root, to drop the page cache".to_owned()));
        }
        let roots = [self.errand.from, self.errand.to].map(|place| self.places.directory(place));
        let [from, to] = roots;
        let (from, to) = match (from?, to?) {
            (Ok(from), Ok(to)) => (from, to),
            (Err(reason), _) | (_, Err(reason)) => return Ok(Some(reason)),
        };
        if let Some(reason) = self.shortage(&from, &to)? {
            return Ok(Some(reason));
        }
        let home = from.join(format!("{}-source", self.folder));
        self.directory = to.join(&self.folder);
        for directory in [&home, &self.directory] {
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
        }
        let source = home.join("source");
        let file = contents(self.errand.length, self.errand.data).write(&source);
        file.sync_all().context("cannot flush the source")?;
        // A warm source has been read before, as most files that are copied have, and not just been
        // written: the kernel reads ahead into larger folios than this was written in.
        fadvise(&file, 0, None, Advice::DontNeed)?;
        if rustix::process::geteuid().is_root() {
            // Programs too: one that a linker has just written starts a tenth slower than one that
            // was installed and read.
            rustix::fs::sync();
            machine::drop_caches()?;
        }
        if self.source.set(source).is_err() {
            anyhow::bail!("a case is prepared once");
        }
        Ok(None)
    }

    fn directory(&self) -> PathBuf {
        self.directory.clone()
    }

    fn before(&mut self, command: &[OsString]) -> Result<()> {
        let copy = self.errand.data;
        if self.errand.cold {
            rustix::fs::sync();
            machine::drop_caches()?;
            machine::load_programs(command);
            return touch_free_memory(copy + self.errand.data);
        }
        machine::load_programs(command);
        if self.errand.shares {
            return Ok(());
        }
        warm(self.source()?)?;
        if self.is_large() { touch_free_memory(copy) } else { Ok(()) }
    }

    fn after(&mut self, trial: &Trial) -> Result<Sample> {
        let copy = File::open(&trial.path)
            .with_context(|| format!("cannot open {}", trial.path.display()))?;
        let moves = self.is_large() && !self.errand.shares;
        if moves {
            syncfs(&copy).context("cannot flush the filesystem")?;
        }
        let is_cheap = self.errand.length <= COMPARED_EVERY_TIME && !self.errand.shares;
        let whole = is_cheap || trial.round == 0;
        check_equal(self.source()?, &trial.path, whole)?;
        let disk = copy.metadata()?.blocks() * 512;
        if moves {
            fadvise(&copy, 0, None, Advice::DontNeed)?;
        }
        if self.errand.data >= HUGE {
            drop(copy);
            fs::remove_file(&trial.path)?;
            machine::settle(self.places.disk(), self.quick)?;
        }
        Ok(Sample::from([(DISK, disk as f64)]))
    }

    fn between_rounds(&mut self, round: usize) -> Result<()> {
        if self.is_large() {
            fs::remove_dir_all(self.directory.join(format!("round-{round}")))?;
        }
        machine::settle(self.places.disk(), self.quick)
    }

    fn finish(&mut self) -> Result<()> {
        let home = self.source()?.parent().context("a source lies in a folder")?;
        for directory in [home, &self.directory] {
            fs::remove_dir_all(directory)
                .with_context(|| format!("cannot remove {}", directory.display()))?;
        }
        machine::settle(self.places.disk(), self.quick)
    }
}
