//! Copies a large file in chunks that are noted, so that another run goes on within it.

use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use super::chunk_stream::ChunkStream;
use super::decide::{self, AfterError};
use super::temporary::Temporary;
use crate::chunks::{self, ChunkLog, ChunkSizes};
use crate::digest::ChunkDigest;
use uncopy_core::{Mechanism, System};
use uncopy_os::native::CopyCalls;

/// Size of one read of what is verified.
const READ_BYTES: u64 = 1 << 20;

/// Store of flushed chunks.
pub(super) trait Keep {
    /// Begins with a source as it was before its first byte was read. Returns what an earlier run left of its copy, if it
    /// did not change since.
    ///
    /// # Errors
    /// The source cannot be identified, so that its copy has to be made as a whole.
    fn begin(&mut self, source: (&Path, &Metadata)) -> io::Result<Option<LeftPart>>;

    /// Removes what an earlier run left of a file that is copied as a whole now.
    fn discard(&mut self);

    /// Notes that the chunks from number `first` on are flushed in the file of this name. Without chunks, notes only the
    /// name.
    fn note(&mut self, copy: (&Path, &File), first: u64, chunks: &[ChunkDigest]) -> io::Result<()>;
}

/// An unfinished file that an earlier run left.
pub(super) struct LeftPart {
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// Digests of its chunks.
    pub(super) chunks: Vec<ChunkDigest>,
}

/// How a large file is copied in chunks.
pub(super) struct InChunks<'a> {
    pub(super) keep: &'a mut dyn Keep,
    pub(super) sizes: ChunkSizes,
}

/// A large file on its way.
pub(super) struct Partial<'a> {
    keep: &'a mut dyn Keep,
    pub(super) log: ChunkLog,
    pub(super) stream: ChunkStream,
    /// Digests of an earlier run, until they are verified.
    pub(super) expected: Vec<ChunkDigest>,
}

impl<'a> Partial<'a> {
    /// Makes it for a file of `size` bytes, of which an earlier run noted these chunks.
    pub(super) fn new(
        InChunks { keep, sizes }: InChunks<'a>,
        size: u64,
        expected: Vec<ChunkDigest>,
    ) -> Partial<'a> {
        let log = ChunkLog::new(sizes, size);
        let stream = ChunkStream::new(&log);
        Partial { keep, log, stream, expected }
    }

    /// Whether there is anything to resume.
    pub(super) fn is_noted(&self) -> bool {
        self.log.is_noted()
    }

    /// Adds bytes of the source that the copy has.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.stream.add(bytes, &mut self.log);
    }

    /// Adds the zeros of a hole that ends at this offset.
    pub(super) fn add_zeros_to(&mut self, end: u64) {
        self.stream.add_zeros_to(end, &mut self.log);
    }

    /// Notes the name of the copy.
    pub(super) fn begin(&mut self, copy: &Temporary<'_>) -> io::Result<()> {
        self.keep.note((copy.path(), copy.file().map_err(io::Error::from)?), self.log.next(), &[])
    }

    /// Flushes and notes whole chunks, from time to time or, if it is the `end`, in any case.
    pub(super) fn flush(
        &mut self,
        calls: &dyn CopyCalls,
        copy: &Temporary<'_>,
        end: bool,
    ) -> io::Result<()> {
        if !end && !self.log.is_due() {
            return Ok(());
        }
        let Some((first, chunks)) = self.log.unnoted() else { return Ok(()) };
        let file = copy.file().map_err(io::Error::from)?;
        calls.flush(file)?;
        self.keep.note((copy.path(), file), first, chunks)?;
        self.log.set_noted();
        Ok(())
    }
}

/// Returns the digest of a chunk of a file.
pub(super) fn digest_chunk(
    calls: &dyn CopyCalls,
    file: &File,
    range: std::ops::Range<u64>,
) -> io::Result<Option<ChunkDigest>> {
    let length = READ_BYTES.min(range.end - range.start);
    let mut buffer = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    chunks::digest(range, &mut buffer, |buffer, at| {
        repeat(calls.system(), Mechanism::ReadWrite, || calls.read_at(file, &mut *buffer, at))
    })
}

/// Makes a call again while it is interrupted.
pub(super) fn repeat<T>(
    system: System,
    mechanism: Mechanism,
    mut call: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if decide::after_error(system, mechanism, &error) == AfterError::Again => {}
            ended => return ended,
        }
    }
}
