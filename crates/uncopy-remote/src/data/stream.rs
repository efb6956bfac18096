//! Data connections that stand: a half to read and a half to write, each for a thread of its own.
//!
//! A connection of TLS is one object with both directions in it. Its lock is held while bytes are encrypted or decrypted
//! and never while a half waits for the socket: each half has a buffer of its own for what it moves between the two.

use std::fmt;
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use rustls::Connection;
use uncopy_core::Errno;
use uncopy_os::stream;

use crate::gate::lock;
use crate::input::Input;

/// Bytes that are encrypted, and received, at once: four records of TLS.
const BATCH_BYTES: usize = 64 << 10;

/// Bytes that encryption may add to a batch: its records' heads and tags, and a change of keys.
const BATCH_OVERHEAD_BYTES: usize = 1 << 10;

/// Bytes of a record that is not whole yet, and of one that is decrypted and not read yet.
const RECORD_BYTES: usize = 2 * (18 << 10);

/// Maximum memory for buffers of one connection at one end: a batch received, a record in decryption and a decrypted one;
/// a batch encrypted, and the same on its way to the socket.
pub const MAX_BUFFER_BYTES: usize =
    BATCH_BYTES + RECORD_BYTES + 2 * (BATCH_BYTES + BATCH_OVERHEAD_BYTES);

/// Data connection. The end that drops it last must have read to the end: a socket that is closed with bytes in it that
/// nobody read resets the connection, and the other end may lose what it did not read yet.
pub struct DataStream {
    link: Arc<Link>,
}

/// Half of a data connection that reads. Reads end with `Ok(0)` when the other end closed its writing half, and with
/// [`io::ErrorKind::UnexpectedEof`] when the connection was cut.
#[derive(Debug)]
pub struct DataReader {
    link: Arc<Link>,
    received: Box<[u8]>,
    /// Part of `received` that is not decrypted yet.
    rest: Range<usize>,
    has_ended: bool,
    failed: Option<io::ErrorKind>,
}

/// Half of a data connection that writes. Each write goes to the system at once. Dropping it without
/// [`close`](DataWriter::close) cuts the connection, so that the other end cannot take it for the end of the data.
#[derive(Debug)]
pub struct DataWriter {
    link: Arc<Link>,
    /// Records that the socket had no room for.
    unsent: Vec<u8>,
    is_closed: bool,
    failed: Option<io::ErrorKind>,
}

/// Cuts a data connection from any thread: reads and writes that wait end with an error.
#[derive(Debug, Clone)]
pub struct StreamCutter {
    socket: Weak<TcpStream>,
}

/// Parts of both halves. The socket closes when both are dropped, and then what is held is given up.
struct Link {
    tls: Mutex<TlsState>,
    socket: Arc<TcpStream>,
    _held: Option<Box<dyn Send + Sync>>,
}

/// Connection of TLS.
struct TlsState {
    connection: Connection,
    /// Whether the other end broke the protocol. Nothing may be sent after that, least of all an end in order.
    is_broken: bool,
}

impl TlsState {
    /// Takes bytes that came; returns those that are left.
    fn take<'a>(&mut self, mut bytes: &'a [u8]) -> io::Result<&'a [u8]> {
        self.connection.read_tls(&mut bytes)?;
        self.connection.process_new_packets().map_err(|error| {
            self.is_broken = true;
            io::Error::new(io::ErrorKind::InvalidData, error)
        })?;
        Ok(bytes)
    }

    /// Encrypts what `fill` hands over, and sends as much of it as goes without waiting. The rest is left in `unsent`.
    fn encrypt(
        &mut self,
        fill: impl FnOnce(&mut Connection) -> io::Result<usize>,
        socket: &TcpStream,
        unsent: &mut Vec<u8>,
    ) -> io::Result<usize> {
        if self.is_broken {
            let message = "the other end broke the protocol of the data connection";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let taken = fill(&mut self.connection)?;
        let mut way_out = WayOut { socket, unsent };
        while self.connection.wants_write() {
            self.connection.write_tls(&mut way_out)?;
        }
        Ok(taken)
    }
}

/// Takes records where they were encrypted: to the socket while that has room, and aside then.
struct WayOut<'a> {
    socket: &'a TcpStream,
    unsent: &'a mut Vec<u8>,
}

impl Write for WayOut<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut sent = match self.unsent.is_empty() {
            true => loop {
                match stream::send(self.socket, parts) {
                    Err(Errno::EINTR) => {}
                    Err(Errno::EAGAIN) => break 0,
                    result => break result.map_err(|e| io::Error::from_raw_os_error(e.raw()))?,
                }
            },
            false => 0,
        };
        for part in parts {
            let here = sent.min(part.len());
            self.unsent.extend_from_slice(&part[here..]);
            sent -= here;
        }
        Ok(parts.iter().map(|part| part.len()).sum())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl fmt::Debug for DataStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataStream").field("link", &self.link).finish()
    }
}

impl Link {
    /// Locks the connection. It is whole between any two statements: what fails in it, it remembers.
    fn tls(&self) -> MutexGuard<'_, TlsState> {
        lock(&self.tls)
    }

    fn cut(&self) {
        cut(&self.socket);
    }
}

fn cut(socket: &TcpStream) {
    // Fails if the other end cut it already.
    let _ = socket.shutdown(Shutdown::Both);
}

impl DataStream {
    /// Takes over a connection whose handshake is done. Gives `held` up when both halves are dropped.
    pub(super) fn new(
        tls: impl Into<Connection>,
        socket: Arc<TcpStream>,
        held: Option<Box<dyn Send + Sync>>,
    ) -> DataStream {
        let mut connection = tls.into();
        connection.set_buffer_limit(Some(BATCH_BYTES));
        let tls = Mutex::new(TlsState { connection, is_broken: false });
        DataStream { link: Arc::new(Link { tls, socket, _held: held }) }
    }

    /// Separates the halves.
    #[must_use]
    pub fn into_split(self) -> (DataReader, DataWriter) {
        let reader = DataReader {
            link: Arc::clone(&self.link),
            received: vec![0; BATCH_BYTES].into(),
            rest: 0..0,
            has_ended: false,
            failed: None,
        };
        let unsent = Vec::with_capacity(BATCH_BYTES + BATCH_OVERHEAD_BYTES);
        let writer = DataWriter { link: self.link, unsent, is_closed: false, failed: None };
        (reader, writer)
    }

    /// Returns what cuts this connection.
    #[must_use]
    pub fn cutter(&self) -> StreamCutter {
        StreamCutter::of(&self.link.socket)
    }
}

impl StreamCutter {
    pub(super) fn of(socket: &Arc<TcpStream>) -> StreamCutter {
        StreamCutter { socket: Arc::downgrade(socket) }
    }

    /// Cuts the connection, if it still stands.
    pub fn cut(&self) {
        if let Some(socket) = self.socket.upgrade() {
            cut(&socket);
        }
    }
}

impl DataReader {
    /// Decrypts what is there and hands it on; `None`: more must be received. `take` returns how much it takes.
    fn decrypt(&mut self, take: &mut dyn FnMut(&[u8]) -> usize) -> io::Result<Option<usize>> {
        let mut taken = 0;
        let mut tls = self.link.tls();
        loop {
            match tls.connection.reader().fill_buf() {
                // The other end closed its half.
                Ok([]) => return Ok(Some(taken)),
                Ok(chunk) => {
                    let (here, all) = (take(chunk), chunk.len());
                    tls.connection.reader().consume(here);
                    taken += here;
                    if here < all {
                        return Ok(Some(taken));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // An end is taken when all before it is given out.
                    if self.rest.is_empty() && (taken > 0 || !self.has_ended) {
                        return Ok((taken > 0).then_some(taken));
                    }
                    let rest = tls.take(&self.received[self.rest.clone()])?;
                    self.rest.start = self.rest.end - rest.len();
                }
                // Reported by the next read.
                Err(_) if taken > 0 => return Ok(Some(taken)),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(cut_short());
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        let received = loop {
            let mut socket = &*self.link.socket;
            match socket.read(&mut self.received) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        self.rest = 0..received;
        self.has_ended = received == 0;
        Ok(())
    }

    /// Waits for bytes and hands them on from where they were decrypted. Returns their number; 0: their end.
    ///
    /// # Errors
    /// As a read.
    fn read_with(&mut self, take: &mut dyn FnMut(&[u8]) -> usize) -> io::Result<usize> {
        check_standing(self.failed)?;
        let result = loop {
            match self.decrypt(take).transpose() {
                Some(result) => break result,
                None => match self.receive() {
                    Ok(()) => {}
                    Err(error) => break Err(error),
                },
            }
        };
        if let Err(error) = &result {
            self.failed = Some(error.kind());
            self.link.cut();
        }
        result
    }
}

impl Read for DataReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return check_standing(self.failed).map(|()| 0);
        }
        let mut filled = 0;
        self.read_with(&mut |chunk| {
            let free = &mut bytes[filled..];
            let count = chunk.len().min(free.len());
            free[..count].copy_from_slice(&chunk[..count]);
            filled += count;
            count
        })
    }
}

impl Input for DataReader {
    fn feed(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        self.read_with(&mut |chunk| {
            take(chunk);
            chunk.len()
        })
    }
}

impl DataWriter {
    /// Closes this half in order: the other end gets all data, and then their end. The reading half goes on.
    ///
    /// # Errors
    /// If the connection is cut.
    pub fn close(mut self) -> io::Result<()> {
        check_standing(self.failed)?;
        let link = Arc::clone(&self.link);
        self.encrypt(|tls| {
            tls.send_close_notify();
            Ok(0)
        })?;
        self.is_closed = true;
        // Fails if the other end, which has all data now, is gone already.
        let _ = link.socket.shutdown(Shutdown::Write);
        Ok(())
    }

    /// Encrypts what `fill` hands over and sends it; waits for the socket after the lock is given back.
    fn encrypt(
        &mut self,
        fill: impl FnOnce(&mut Connection) -> io::Result<usize>,
    ) -> io::Result<usize> {
        check_standing(self.failed)?;
        let result = self.encrypt_and_send(fill);
        if let Err(error) = &result {
            self.failed = Some(error.kind());
            self.link.cut();
        }
        result
    }

    fn encrypt_and_send(
        &mut self,
        fill: impl FnOnce(&mut Connection) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.unsent.clear();
        let mut socket = &*self.link.socket;
        let taken = self.link.tls().encrypt(fill, socket, &mut self.unsent)?;
        socket.write_all(&self.unsent)?;
        Ok(taken)
    }
}

impl Write for DataWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(BATCH_BYTES)];
        self.encrypt(|tls| tls.writer().write(bytes))
    }

    /// Encrypts parts straight from where they are, small ones together in one record.
    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut room = BATCH_BYTES;
        let fits = |part: &&IoSlice<'_>| {
            let is_room = part.len() <= room;
            room = room.saturating_sub(part.len());
            is_room
        };
        match (parts.iter().take_while(fits).count(), parts.first()) {
            (0, Some(first)) => self.write(first),
            (fitting, _) => self.encrypt(|tls| tls.writer().write_vectored(&parts[..fitting])),
        }
    }

    /// Does nothing: each write went out at once.
    fn flush(&mut self) -> io::Result<()> {
        check_standing(self.failed)
    }
}

impl Drop for DataWriter {
    fn drop(&mut self) {
        if !self.is_closed {
            self.link.cut();
        }
    }
}

fn check_standing(failed: Option<io::ErrorKind>) -> io::Result<()> {
    match failed {
        Some(kind) => Err(io::Error::new(kind, "the data connection broke before")),
        None => Ok(()),
    }
}

fn cut_short() -> io::Error {
    let message = "the data connection was cut in the middle: its data are not whole";
    io::Error::new(io::ErrorKind::UnexpectedEof, message)
}

#[cfg(test)]
mod tests;
