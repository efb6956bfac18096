//! Bytes that come over a connection, from wherever they lie.

use std::io::{self, Read, Write};

use crate::Streams;

/// Number of bytes of one read.
const READ_BYTES: usize = 256 << 10;

/// Source of the bytes of a connection.
pub(crate) trait Input: Send {
    /// Waits for bytes and hands them on. Returns their number; 0: their end.
    fn feed(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<usize>;
}

/// Stream that is read through a buffer.
struct Buffered {
    input: Box<dyn Read + Send>,
    buffer: Box<[u8]>,
}

impl Input for Buffered {
    fn feed(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let read = self.input.read(&mut self.buffer)?;
        take(&self.buffer[..read]);
        Ok(read)
    }
}

/// The two directions of a connection.
pub(crate) struct Directions {
    pub(crate) input: Box<dyn Input>,
    pub(crate) output: Box<dyn Write + Send>,
}

impl From<Streams> for Directions {
    fn from(streams: Streams) -> Directions {
        let Streams { input, output } = streams;
        let input = Buffered { input, buffer: vec![0; READ_BYTES].into() };
        Directions { input: Box::new(input), output }
    }
}
