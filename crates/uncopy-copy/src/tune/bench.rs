//! Makes and times copies in a hidden directory.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{cancelled, decide};
use crate::copy_trees::copy_trees_observed;
use crate::facts::direct_path;
use crate::jobs::{JobObserver, JobOptions, JobProgress};
use crate::plan::DirectPath;
use crate::private::{self, Private};
use crate::stale::{Kind, Noting, Register};
use crate::{Control, CopyOptions, Progress, copy_file_observed, remove, stale};
use uncopy_core::{Errno, Error, Reason, Result};
use uncopy_os::{Sys, clock, file, follow};

/// Free space needed: that of all files, and some reserve.
const ROOM_BYTES: u64 = 256 << 20;

/// Name by which the directories of killed runs are recognised.
const MARK: &str = "uncopy tune";

/// Cost of one copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spent {
    pub(super) wall: Duration,
    /// Processor time of this thread.
    pub(super) cpu: Duration,
}

pub(super) struct Bench<'a> {
    given: &'a Path,
    parent: OwnedFd,
    name: OsString,
    /// Record that the directory belongs to this run.
    register: Register,
    /// The directory. Its lock shows that a run is using it.
    fd: OwnedFd,
    /// Path that reaches the directory whatever its name: the owner of `parent` may rename it.
    path: PathBuf,
    pub(super) takes_direct: bool,
    copies: u64,
    over: Instant,
    /// End of this section.
    pub(super) until: Instant,
    pub(super) setting: &'static str,
    watch: &'a mut dyn FnMut(&'static str) -> Control,
    stopped: bool,
    removed: bool,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        given: &'a Path,
        over: Instant,
        watch: &'a mut dyn FnMut(&'static str) -> Control,
    ) -> Result<Bench<'a>> {
        let fail = |operation| move |errno: Errno| Error::system(operation, given, errno);
        let parent = follow::open_directory(given)
            .map_err(|stopped| stopped.error("open the directory", given))?;
        let room = file::free_bytes(&parent).map_err(fail("examine the filesystem of"))?;
        // Free space is meaningless on a read-only filesystem.
        let register = file::duplicate(&parent)
            .map(|parent| Register::new(Arc::new(parent), OsStr::new(MARK)))
            .map_err(fail("open the directory"))?;
        let noting = Noting { register: &register, path: &PathBuf::new, brief: false };
        let (Private { fd, name, .. }, noted) =
            private::make(parent.as_fd(), OsStr::new(MARK), Kind::Tree, noting)
                .map_err(fail("measure in"))?;
        // The record lists no other names, and this one for as long as it exists.
        drop(noted);
        let path = file::path_of(fd.as_fd());
        if room < ROOM_BYTES {
            let text = format!(
                "it has {} MiB of room, and measuring takes {} MiB; free some, or name a directory \
                 of a filesystem that has them",
                room >> 20,
                ROOM_BYTES >> 20
            );
            // The directory is still empty.
            let _ = private::remove(&parent, &name);
            return Err(Error::new("measure in", given, Reason::Refused(text.into())));
        }
        if !path.join(".").is_dir() {
            let _ = private::remove(&parent, &name);
            let text = "measuring needs /proc, by which a directory is found whatever its name is by now; \
                        mount it";
            return Err(Error::new("measure in", given, Reason::Refused(text.into())));
        }
        stale::remove_leftovers(parent.as_fd(), OsStr::new(MARK));
        let mut bench = Bench {
            given,
            name,
            register,
            fd,
            path,
            takes_direct: false,
            copies: 0,
            over,
            until: over,
            setting: "",
            watch,
            stopped: false,
            removed: false,
            parent,
        };
        bench.takes_direct = bench.look_for_direct()?;
        Ok(bench)
    }

    fn look_for_direct(&self) -> Result<bool> {
        let path = self.file(4096)?;
        let fd = File::open(&path).map_err(|error| self.failed(&error))?;
        let fail = |errno| Error::system("examine a file in", self.given, errno);
        let magic = file::filesystem_magic(&fd).map_err(fail)?;
        let filesystem = uncopy_os::capabilities::Filesystem::from_magic(magic);
        let direct = direct_path(&file::stat(&fd).map_err(fail)?, filesystem);
        Ok(matches!(direct, DirectPath::Moves | DirectPath::Unknown))
    }

    /// Begins a section that measures one setting, with a time limit.
    pub(super) fn begin(&mut self, setting: &'static str, longest: Duration) {
        self.setting = setting;
        let now = Instant::now();
        self.until = now + decide::section(longest, self.over.saturating_duration_since(now));
    }

    pub(super) fn time_left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    fn failed(&self, error: &io::Error) -> Error {
        let errno = Errno::from_raw(error.raw_os_error().unwrap_or(Errno::EIO.raw()));
        Error::system("measure in", self.given, errno)
    }

    /// Makes a file of this length that is not zeros.
    pub(super) fn file(&self, bytes: u64) -> Result<PathBuf> {
        let path = self.path.join(format!("source-{bytes}"));
        if !path.exists() {
            write(&path, bytes).map_err(|error| self.failed(&error))?;
        }
        Ok(path)
    }

    /// Makes directories with this number of files of `bytes` each.
    pub(super) fn tree(&self, directories: u64, files: u64, bytes: u64) -> Result<PathBuf> {
        let path = self.path.join("tree");
        for directory in 0..directories {
            let directory = path.join(directory.to_string());
            fs::create_dir_all(&directory).map_err(|error| self.failed(&error))?;
            for file in 0..files {
                let file = directory.join(file.to_string());
                write(&file, bytes).map_err(|error| self.failed(&error))?;
            }
        }
        Ok(path)
    }

    /// Returns an unused name: recently deleted names and inodes are slow on ext4.
    fn fresh(&mut self) -> PathBuf {
        self.copies += 1;
        self.path.join(format!("copy-{}", self.copies))
    }

    /// Copies a file several times. `None`: the time is up.
    pub(super) fn copy(
        &mut self,
        source: &Path,
        options: &CopyOptions,
        times: u32,
    ) -> Result<Option<Spent>> {
        let copies: Vec<PathBuf> = (0..times).map(|_| self.fresh()).collect();
        let (wall, cpu) = (Instant::now(), clock::thread());
        for copy in &copies {
            let mut control = |_: Progress| self.control();
            let copied = copy_file_observed(source, copy, options, &mut control);
            if self.ended(copied.err())? {
                return Ok(None);
            }
        }
        let spent = Spent { wall: wall.elapsed(), cpu: clock::thread().saturating_sub(cpu) };
        // Small files stay until the end.
        if fs::metadata(source).is_ok_and(|metadata| metadata.len() > 1 << 20) {
            for copy in copies {
                fs::remove_file(copy).map_err(|error| self.failed(&error))?;
            }
        }
        Ok(Some(spent))
    }

    /// Copies a tree. `None`: the time is up.
    pub(super) fn copy_tree(
        &mut self,
        source: &Path,
        options: &JobOptions,
    ) -> Result<Option<Duration>> {
        let pairs = [(source, self.fresh())];
        let begin = Instant::now();
        let until = Until(self.until);
        let copied = copy_trees_observed(pairs, options, &until);
        let took = begin.elapsed();
        if self.control() == Control::Stop && self.stopped {
            return Err(cancelled(self.given));
        }
        Ok(if self.ended(copied.err().map(Error::from))? { None } else { Some(took) })
    }

    fn control(&mut self) -> Control {
        if (self.watch)(self.setting) == Control::Stop {
            self.stopped = true;
            return Control::Stop;
        }
        if Instant::now() < self.until { Control::Continue } else { Control::Stop }
    }

    /// Whether a copy ended because the time is up.
    fn ended(&self, error: Option<Error>) -> Result<bool> {
        match error {
            None => Ok(false),
            Some(error) if error.is_cancelled() && self.stopped => Err(cancelled(self.given)),
            Some(error) if error.is_cancelled() => Ok(true),
            // The path is of no use to the caller: it leads through a descriptor.
            Some(error) => Err(error.with_subject(self.given)),
        }
    }

    /// Removes everything that was made.
    pub(super) fn remove(mut self) -> Result<()> {
        self.removed = true;
        self.take_back()
            .map_err(|errno| Error::system("remove what was measured with in", self.given, errno))
    }

    fn take_back(&self) -> Sys<()> {
        // If even this fails, the next run removes it.
        remove::held(&self.parent, &self.name, &self.fd).inspect_err(|_| self.register.keep())
    }
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        if !self.removed {
            // An earlier error was reported already.
            let _ = self.take_back();
        }
    }
}

/// Ends a job when its time is up.
struct Until(Instant);

impl JobObserver for Until {
    fn progress(&self, _: JobProgress) -> Control {
        if Instant::now() < self.0 { Control::Continue } else { Control::Stop }
    }

    fn wants_records(&self) -> bool {
        false
    }
}

fn write(path: &Path, bytes: u64) -> io::Result<()> {
    const BLOCK: usize = 1 << 16;
    // No two blocks are equal: a filesystem may compress or deduplicate.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut block = Vec::with_capacity(BLOCK);
    let mut file = File::create_new(path)?;
    let mut left = bytes;
    while left > 0 {
        block.clear();
        while block.len() < BLOCK {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            block.extend_from_slice(&state.to_ne_bytes());
        }
        let length = left.min(BLOCK as u64) as usize;
        file.write_all(&block[..length])?;
        left -= length as u64;
    }
    Ok(())
}
