//! Checks the files below a directory against a manifest, whose names are not trusted: they lead to nothing
//! outside the directory, and through no symbolic link (`openat2(2)` with `RESOLVE_BENEATH`).

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FileType, OFlags};

use super::contents::{Buffers, digests};
use super::result::{Comparison, Difference, FindingKind, unreadable};
use super::trees::{list, open_file};
use super::{CompareObserver, CompareOptions, CompareSummary, finish};
use crate::manifest::ManifestLine;
use crate::options::Digest;
use crate::pool::Pool;
use uncopy_core::{Errno, Error, Result};
use uncopy_os::file::Stat;
use uncopy_os::{directory, file, follow};

/// Maximum length of a line: a name of any depth that a tree of practice has, escaped.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Compares the files below `directory` with the digests of a manifest, as `b3sum`, `sha256sum`, `xxhsum` and
/// `uncopy cp` write it. It says nothing about directories, links and metadata.
///
/// Names lead to nothing outside the directory and through no symbolic link, whoever wrote the manifest.
///
/// # Errors
/// The manifest cannot be read, or the directory not be opened, or the observer stopped the comparison.
pub fn check_manifest(
    manifest: impl AsRef<Path>,
    directory: impl AsRef<Path>,
    options: &CompareOptions,
    observer: &dyn CompareObserver,
) -> Result<CompareSummary> {
    let (manifest, directory) = (manifest.as_ref(), directory.as_ref());
    let opened = follow::open(manifest, OFlags::RDONLY | OFlags::NOCTTY);
    let opened = opened.map_err(|error| error.error("open", manifest))?;
    let own = file::stat(&opened).map_err(|errno| Error::system("examine", manifest, errno))?;
    let root = follow::open_root(directory).map_err(|error| error.error("open", directory))?;
    let comparison = Comparison::new(observer);
    let check = Check {
        directory,
        root,
        own,
        lines: Mutex::new(Lines { reader: BufReader::new(File::from(opened)), number: 0 }),
        spare: Mutex::default(),
        algorithm: AtomicU8::new(options.digest.map_or(0, algorithm_number)),
        given: options.digest,
        guess: Guess::default(),
        listed: options.strict.then(|| Listed::new(RandomState::new())),
        failed: Mutex::new(None),
        comparison: &comparison,
    };
    Pool::run(options.threads(), (), |(), pool| {
        if let Some((number, line)) = check.next_line() {
            pool.add(());
            check.check_line(number, &line);
        }
    });
    let failed = check.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(error) = failed {
        let errno = error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
        return Err(Error::system("read", manifest, errno));
    }
    if comparison.is_empty() {
        comparison.find(PathBuf::new(), FindingKind::Malformed { line: 1 });
    }
    if let Some(listed) = &check.listed {
        Pool::run(options.threads(), Vec::new(), |names, pool| {
            if !comparison.is_stopped() {
                check.find_extra(listed, &names, pool);
            }
        });
    }
    let doubted = check.guess.doubted();
    drop(check);
    finish(comparison, manifest).map(|summary| CompareSummary { doubted, ..summary })
}

/// Computes the digest of a file below a directory. The name leads to nothing outside, and through no
/// symbolic link.
///
/// # Errors
/// There is no such file, or it cannot be read.
pub fn digest_beneath(
    directory: impl AsRef<Path>,
    name: impl AsRef<Path>,
    algorithm: Digest,
) -> Result<String> {
    let (directory, name) = (directory.as_ref(), name.as_ref());
    let path = directory.join(name);
    let root = follow::open_directory(directory).map_err(|error| error.error("open", directory))?;
    let fail = |errno| Error::system("read", &path, errno);
    let names = names_beneath(name.as_os_str()).ok_or_else(|| fail(Errno::EINVAL))?;
    let fd = open_beneath(&root, &names).map_err(fail)?;
    let digests = digests(&fd, &[algorithm], &mut Buffers::new(), |_| true).map_err(fail)?;
    Ok(digests.into_iter().next().unwrap_or_default())
}

struct Check<'a> {
    directory: &'a Path,
    root: OwnedFd,
    /// The manifest, which may lie in the directory.
    own: Stat,
    lines: Mutex<Lines<BufReader<File>>>,
    spare: Mutex<Vec<Buffers>>,
    /// Algorithm of 64 digits, once a file agreed with one; 0 before.
    algorithm: AtomicU8,
    /// Algorithm that the caller gave.
    given: Option<Digest>,
    listed: Option<Listed>,
    guess: Guess,
    /// Error of reading the manifest.
    failed: Mutex<Option<io::Error>>,
    comparison: &'a Comparison<'a>,
}

impl Check<'_> {
    /// Returns the next line and its number; an overlong one is empty.
    fn next_line(&self) -> Option<(u64, Vec<u8>)> {
        if self.comparison.is_stopped() {
            return None;
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.next().unwrap_or_else(|error| {
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            None
        })
    }

    fn check_line(&self, number: u64, line: &[u8]) {
        if line.first() == Some(&b'#') {
            return;
        }
        let parsed = ManifestLine::parse(line).filter(|parsed| self.fits(parsed));
        let Some(parsed) = parsed else {
            return self.comparison.find(PathBuf::new(), FindingKind::Malformed { line: number });
        };
        let name = || PathBuf::from(&parsed.name);
        let Some(names) = names_beneath(&parsed.name) else {
            return self.comparison.finish(name, Some(FindingKind::Outside));
        };
        if let Some(listed) = &self.listed {
            listed.add(&names);
        }
        let checked = self.check_file(&parsed, &names);
        if let (Ok(agrees), None, Some(Digest::Xxh3)) = (&checked, self.given, parsed.algorithm)
            && !parsed.is_named
        {
            self.guess.note(*agrees);
        }
        let found = match checked {
            Ok(true) => None,
            Ok(false) => Some(FindingKind::Differs(Difference::Content)),
            Err(Errno::ENOENT) => Some(FindingKind::Differs(Difference::Missing)),
            // A symbolic link, or anything else that is no file, or no directory on the way to it.
            Err(Errno::ENOTDIR | Errno::ELOOP | Errno::ENXIO | Errno::EINVAL) => {
                Some(FindingKind::Differs(Difference::Type))
            }
            Err(errno) => Some(unreadable("read", self.directory.join(&parsed.name), errno)),
        };
        self.comparison.finish(name, found);
    }

    /// Whether the line can have a digest by the algorithm that the caller gave.
    fn fits(&self, line: &ManifestLine) -> bool {
        match (self.given, line.algorithm) {
            (Some(given), Some(found)) => given == found,
            (Some(given), None) => given != Digest::Xxh3,
            (None, _) => true,
        }
    }

    /// Whether the file has the digest.
    fn check_file(&self, line: &ManifestLine, names: &[&OsStr]) -> uncopy_os::Sys<bool> {
        let fd = open_beneath(&self.root, names)?;
        let known = line.algorithm.or_else(|| algorithm_of(self.algorithm.load(Ordering::Relaxed)));
        let candidates = match known {
            Some(known) => vec![known],
            None => {
                [Digest::Blake3, Digest::Sha256].into_iter().filter(|d| d.is_built_in()).collect()
            }
        };
        let spare = || self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffers = spare().pop().unwrap_or_else(Buffers::new);
        let found = digests(&fd, &candidates, &mut buffers, |n| self.comparison.add_bytes(n));
        spare().push(buffers);
        let agrees = found?.iter().position(|value| *value == line.value);
        if let (Some(index), None) = (agrees, known) {
            self.algorithm.store(algorithm_number(candidates[index]), Ordering::Relaxed);
        }
        Ok(agrees.is_some())
    }

    /// Finds files of a directory that the manifest does not list.
    fn find_extra(&self, listed: &Listed, names: &[OsString], pool: &Pool<Vec<OsString>>) {
        let mut refs: Vec<&OsStr> = names.iter().map(OsString::as_os_str).collect();
        let path: PathBuf = names.iter().collect();
        let opened = directory::open_beneath(&self.root, &refs, false);
        let opened = opened.and_then(|fd| list(&fd).map(|entries| (fd, entries)));
        let (fd, entries) = match opened {
            Ok(opened) => opened,
            Err(errno) => {
                let found = unreadable("list", self.directory.join(&path), errno);
                return self.comparison.find(path, found);
            }
        };
        for (name, kind) in &entries {
            match kind {
                FileType::Directory => {
                    let mut below = names.to_vec();
                    below.push(name.clone());
                    pool.add(below);
                }
                FileType::RegularFile => {
                    refs.push(name);
                    let is_own =
                        || directory::stat_name(&fd, name).is_ok_and(|s| s.is_same_file(&self.own));
                    if !listed.has(&refs) && !is_own() {
                        let found = FindingKind::Differs(Difference::Extra);
                        self.comparison.find(path.join(name), found);
                    }
                    refs.pop();
                }
                _ => {}
            }
        }
    }
}

/// Whether files agree with digests of 32 digits, which say nothing of their algorithm: XXH3 writes so many, and MD5 too.
#[derive(Default)]
struct Guess {
    agrees: AtomicBool,
    differs: AtomicBool,
}

impl Guess {
    fn note(&self, agrees: bool) {
        let seen = if agrees { &self.agrees } else { &self.differs };
        seen.store(true, Ordering::Relaxed);
    }

    fn doubted(&self) -> Option<Digest> {
        let is_doubted =
            self.differs.load(Ordering::Relaxed) && !self.agrees.load(Ordering::Relaxed);
        is_doubted.then_some(Digest::Xxh3)
    }
}

/// Lines of a manifest.
struct Lines<R> {
    reader: R,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        let mut line = Vec::new();
        let read = self.reader.by_ref().take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if read == MAX_LINE_BYTES {
            line.clear();
            self.skip_line()?;
        }
        Ok(Some((self.number, line)))
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let some = self.reader.fill_buf()?;
            let end = some.iter().position(|byte| *byte == b'\n');
            let (length, is_end) = (end.map_or(some.len(), |end| end + 1), some.is_empty());
            self.reader.consume(length);
            if end.is_some() || is_end {
                return Ok(());
            }
        }
    }
}

/// Names that a manifest lists: keyed digests of 8 bytes each, which its author cannot foresee.
struct Listed {
    key: RandomState,
    names: Mutex<HashSet<u64>>,
}

impl Listed {
    fn new(key: RandomState) -> Listed {
        Listed { key, names: Mutex::default() }
    }

    fn add(&self, names: &[&OsStr]) {
        let hash = self.key.hash_one(names);
        self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(hash);
    }

    fn has(&self, names: &[&OsStr]) -> bool {
        let hash = self.key.hash_one(names);
        self.names.lock().unwrap_or_else(PoisonError::into_inner).contains(&hash)
    }
}

/// Returns the components of a name that stays below its directory; `None`: it is absolute, has `..`, or
/// names no file.
fn names_beneath(name: &OsStr) -> Option<Vec<&OsStr>> {
    let bytes = name.as_bytes();
    if bytes.starts_with(b"/") || bytes.ends_with(b"/") {
        return None;
    }
    let names: Vec<&OsStr> = bytes
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty() && *name != b".")
        .map(OsStr::from_bytes)
        .collect();
    (!names.is_empty() && names.iter().all(|name| *name != "..")).then_some(names)
}

/// Opens a regular file below the root, through no symbolic link.
fn open_beneath(root: impl AsFd, names: &[&OsStr]) -> uncopy_os::Sys<OwnedFd> {
    let Some((name, parents)) = names.split_last() else { return Err(Errno::EINVAL) };
    let parent = directory::open_beneath(root, parents, true)?;
    // A FIFO or device is not even opened.
    match directory::stat_name(&parent, name)?.file_type() {
        FileType::RegularFile => open_file(&parent, name),
        _ => Err(Errno::EINVAL),
    }
}

fn algorithm_number(algorithm: Digest) -> u8 {
    match algorithm {
        Digest::Blake3 => 1,
        Digest::Sha256 => 2,
        Digest::Xxh3 => 3,
    }
}

fn algorithm_of(number: u8) -> Option<Digest> {
    [Digest::Blake3, Digest::Sha256, Digest::Xxh3]
        .into_iter()
        .find(|algorithm| algorithm_number(*algorithm) == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_are_refused() {
        for (name, expected) in [
            ("a", Some(&["a"][..])),
            ("./a//b/./c", Some(&["a", "b", "c"])),
            ("...", Some(&["..."])),
            ("/a", None),
            ("//", None),
            ("..", None),
            ("../a", None),
            ("a/../b", None),
            ("a/..", None),
            ("a/", None),
            (".", None),
            ("./.", None),
        ] {
            let found = names_beneath(OsStr::new(name));
            let expected = expected.map(|e| e.iter().map(OsStr::new).collect::<Vec<_>>());
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn an_overlong_line_is_skipped() {
        let long = vec![b'x'; 3 * MAX_LINE_BYTES];
        let text = [b"a\n", &long[..], b"\nb\n", &long[..MAX_LINE_BYTES - 1], b"\n\nc"].concat();
        let mut lines = Lines { reader: &text[..], number: 0 };
        let found: Vec<_> = std::iter::from_fn(|| lines.next().unwrap()).collect();
        let lengths: Vec<_> = found.iter().map(|(number, line)| (*number, line.len())).collect();
        let expected = [(1, 1), (2, 0), (3, 1), (4, MAX_LINE_BYTES - 1), (5, 0), (6, 1)];
        assert_eq!(lengths, expected);
    }
}
