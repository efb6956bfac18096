//! Moves bytes between files and stream sockets: by `sendfile(2)` and `splice(2)`, without a buffer of the program.

use std::fmt;
use std::ops::{ControlFlow, Range};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use uncopy_core::{
    Cost, Errno, Error, Mechanism, Objection, Obstacle, Reason, Receipt, Refusal, RefusalReason,
};
use uncopy_os::file::{self, Ready};
use uncopy_os::{Sys, stream, transfer};

/// Maximum number of bytes of one call, so that an observer is asked often also if the peer reads slowly.
const PIECE_BYTES: usize = 256 << 10;
/// The same for a peer that reads slowly.
const SLOW_PIECE_BYTES: usize = 16 << 10;
/// Size of the pipe between socket and file.
const PIPE_BYTES: usize = 1 << 20;
/// Longest wait, in the kernel or before a call, until observer and deadline are looked at.
pub(crate) const GLANCE: Duration = Duration::from_millis(50);

const THE_FILE: &str = "the file";
const THE_SOCKET: &str = "the socket";

/// Options of [`send_file`] and [`receive_to_file`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileTransferOptions {
    /// Latest moment to wait for the peer; `None`: as long as it takes.
    pub deadline: Option<Instant>,
}

impl FileTransferOptions {
    /// Makes options without a deadline: the default.
    #[must_use]
    pub fn new() -> FileTransferOptions {
        FileTransferOptions::default()
    }

    /// Sets [`FileTransferOptions::deadline`].
    #[must_use]
    pub fn deadline(self, deadline: Option<Instant>) -> FileTransferOptions {
        FileTransferOptions { deadline }
    }
}

/// Transfer that ended early.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotTransferred {
    /// Account of the bytes that were moved before the error; [`Receipt::bytes`] is their number.
    pub receipt: Box<Receipt>,
    /// The reason.
    pub error: Error,
}

impl fmt::Display for NotTransferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for NotTransferred {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl From<NotTransferred> for Error {
    fn from(ended: NotTransferred) -> Error {
        ended.error
    }
}

/// Sends the bytes of `range` of a file over a connected stream socket, TCP or local. Returns how: by `sendfile(2)`,
/// which lends pages of the page cache to the socket, or through a buffer where the file or the socket refuses it.
///
/// Blocks until the socket has taken all bytes; the peer need not have read them. The file's own offset stays as it is.
/// The cost of `sendfile` is [`Cost::Unknown`]: the kernel does not say whether a device without scatter-gather, or
/// loopback, copied the pages later. Whoever changes the file before the peer has its bytes may change what the
/// peer gets (`sendfile(2)`, NOTES). The send timeout of the socket (`SO_SNDTIMEO`) is 50 ms meanwhile, so that only one
/// thread may send over it.
/// A peer that is gone raises `SIGPIPE` in a program that does not ignore it, as Rust programs do.
///
/// ```
/// use std::io::{Read, Write};
/// use std::os::unix::net::UnixStream;
/// use uncopy::send::{FileTransferOptions, send_file};
///
/// let mut file = tempfile::tempfile()?;
/// file.write_all(b"sixteen bytes..!")?;
/// let (here, mut there) = UnixStream::pair()?;
/// let receipt = send_file(&file, 8..16, &here, &FileTransferOptions::new())?;
/// assert_eq!(receipt.bytes, 8);
/// let mut bytes = [0; 8];
/// there.read_exact(&mut bytes)?;
/// assert_eq!(&bytes, b"bytes..!");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The file ends before the range ([`Objection::FileEnds`]), the peer is gone (`EPIPE`, `ECONNRESET`), the deadline has
/// passed (`ETIMEDOUT`), the file cannot be read, or the descriptor is no stream socket. What was sent stays sent.
pub fn send_file(
    file: impl AsFd,
    range: Range<u64>,
    socket: impl AsFd,
    options: &FileTransferOptions,
) -> Result<Receipt, NotTransferred> {
    send_file_observed(file, range, socket, options, &mut |_| ControlFlow::Continue(()))
}

/// As [`send_file`]; `observer` receives the number of bytes so far, usually every 250 ms or more often, and may stop the
/// transfer.
///
/// # Errors
/// As [`send_file`], and one for which [`is_cancelled`](Error::is_cancelled) is true if the observer stopped it.
pub fn send_file_observed(
    file: impl AsFd,
    range: Range<u64>,
    socket: impl AsFd,
    options: &FileTransferOptions,
    observer: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Receipt, NotTransferred> {
    let mut sending = Transfer::new("send", options, observer);
    let ended = sending.send(file.as_fd(), range, socket.as_fd());
    sending.end(ended)
}

/// Receives bytes from a connected stream socket, TCP or local, and writes them to `range` of a file. Returns how: by
/// `splice(2)` through a pipe, which copies once, from the socket's pages to the page cache; or through a buffer where
/// the file or the socket refuses it.
///
/// Blocks until the whole range is written. Further bytes stay in the socket; the file's own offset stays as it is, and
/// nothing is flushed.
///
/// ```
/// use std::io::Write;
/// use std::os::unix::fs::FileExt;
/// use std::os::unix::net::UnixStream;
/// use uncopy::send::{FileTransferOptions, receive_to_file};
///
/// let (here, mut there) = UnixStream::pair()?;
/// there.write_all(b"eight b.")?;
/// let file = tempfile::tempfile()?;
/// let receipt = receive_to_file(&here, &file, 0..8, &FileTransferOptions::new())?;
/// assert_eq!(receipt.bytes, 8);
/// let mut bytes = [0; 8];
/// file.read_exact_at(&mut bytes, 0)?;
/// assert_eq!(&bytes, b"eight b.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The peer ended early ([`Objection::ShortPeer`]), the deadline has passed (`ETIMEDOUT`), the file is open to be appended
/// to ([`Objection::AppendOnly`]) or takes no more (`ENOSPC`), or the descriptor is no stream socket. The file holds
/// what came until then; if writing failed, up to 1 MiB more has been taken from the socket and is lost.
pub fn receive_to_file(
    socket: impl AsFd,
    file: impl AsFd,
    range: Range<u64>,
    options: &FileTransferOptions,
) -> Result<Receipt, NotTransferred> {
    receive_to_file_observed(socket, file, range, options, &mut |_| ControlFlow::Continue(()))
}

/// As [`receive_to_file`]; `observer` receives the number of bytes so far, at least every 250 ms, and may stop the
/// transfer. Bytes that were not written then are still in the socket.
///
/// # Errors
/// As [`receive_to_file`], and one for which [`is_cancelled`](Error::is_cancelled) is true if the observer stopped it.
pub fn receive_to_file_observed(
    socket: impl AsFd,
    file: impl AsFd,
    range: Range<u64>,
    options: &FileTransferOptions,
    observer: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Receipt, NotTransferred> {
    FileReceiver::new().receive_observed(socket, file, range, options, observer)
}

/// Receiver of many ranges, one after another, which keeps its pipe: to make one each time costs where ranges are short.
/// It has two descriptors from the first range on.
///
/// ```
/// use std::io::Write;
/// use std::os::unix::net::UnixStream;
/// use uncopy::send::{FileReceiver, FileTransferOptions};
///
/// let (here, mut there) = UnixStream::pair()?;
/// let file = tempfile::tempfile()?;
/// let (mut receiver, options) = (FileReceiver::new(), FileTransferOptions::new());
/// for part in 0..3 {
///     there.write_all(b"eight b.")?;
///     receiver.receive(&here, &file, part * 8..(part + 1) * 8, &options)?;
/// }
/// assert_eq!(file.metadata()?.len(), 24);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct FileReceiver {
    /// Pipe without a byte in it.
    pipe: Option<Pipe>,
}

impl FileReceiver {
    /// Makes one, without a pipe yet.
    #[must_use]
    pub fn new() -> FileReceiver {
        FileReceiver::default()
    }

    /// Receives one range as [`receive_to_file`] does. Another socket and another file may be named each time.
    ///
    /// # Errors
    /// As [`receive_to_file`]; the receiver can be used afterwards, and makes another pipe.
    pub fn receive(
        &mut self,
        socket: impl AsFd,
        file: impl AsFd,
        range: Range<u64>,
        options: &FileTransferOptions,
    ) -> Result<Receipt, NotTransferred> {
        let observer = &mut |_| ControlFlow::Continue(());
        self.receive_observed(socket, file, range, options, observer)
    }

    /// Receives one range as [`receive_to_file_observed`] does.
    ///
    /// # Errors
    /// As [`receive_to_file_observed`]; the receiver can be used afterwards, and makes another pipe.
    pub fn receive_observed(
        &mut self,
        socket: impl AsFd,
        file: impl AsFd,
        range: Range<u64>,
        options: &FileTransferOptions,
        observer: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Receipt, NotTransferred> {
        let mut receiving = Transfer::new("receive from", options, observer);
        let ended = receiving.receive(self, socket.as_fd(), file.as_fd(), range);
        receiving.end(ended)
    }

    /// Takes the pipe, or makes one.
    fn take_pipe(&mut self) -> Result<Pipe, Error> {
        self.pipe.take().map_or_else(Pipe::new, Ok)
    }
}

/// Next step after an error of a call (pure).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterError {
    /// Make the call again.
    Again,
    /// Wait for the peer first.
    Wait,
    /// Go on through a buffer, and say why.
    Buffer(Obstacle),
    /// Report it.
    Final,
}

/// Decides what follows an error of `sendfile(2)` or `splice(2)`.
fn after_error(errno: Errno) -> AfterError {
    match errno {
        Errno::EINTR => AfterError::Again,
        Errno::EAGAIN => AfterError::Wait,
        Errno::EINVAL | Errno::EOPNOTSUPP => AfterError::Buffer(Obstacle::NotSupported),
        Errno::ENOSYS => AfterError::Buffer(Obstacle::UnknownCall),
        Errno::EPERM => AfterError::Buffer(Obstacle::Forbidden),
        _ => AfterError::Final,
    }
}

/// A transfer on its way.
struct Transfer<'a> {
    /// Verb for the socket.
    operation: &'static str,
    deadline: Option<Instant>,
    observer: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
    begin: Instant,
    receipt: Receipt,
}

/// Bytes on their way through a buffer, once a call of the kernel was refused.
type Buffer = Option<Vec<u8>>;

impl<'a> Transfer<'a> {
    fn new(
        operation: &'static str,
        options: &FileTransferOptions,
        observer: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Transfer<'a> {
        let (deadline, begin) = (options.deadline, Instant::now());
        Transfer { operation, deadline, observer, begin, receipt: Receipt::default() }
    }

    fn end(self, ended: Result<(), Error>) -> Result<Receipt, NotTransferred> {
        let Transfer { mut receipt, begin, .. } = self;
        receipt.duration = begin.elapsed();
        match ended {
            Ok(()) => Ok(receipt),
            Err(error) => Err(NotTransferred { receipt: Box::new(receipt), error }),
        }
    }

    fn send(
        &mut self,
        file: BorrowedFd<'_>,
        range: Range<u64>,
        socket: BorrowedFd<'_>,
    ) -> Result<(), Error> {
        self.check_socket(socket)?;
        let _timeout = SendTimeout::set(socket).map_err(|errno| self.failed(errno))?;
        let (mut at, mut buffer, mut is_slow) = (range.start, Buffer::None, false);
        while at < range.end {
            self.go_on()?;
            // A call waits for room page by page: one for less ends sooner.
            let piece = piece(range.end - at, if is_slow { SLOW_PIECE_BYTES } else { PIECE_BYTES });
            let begin = Instant::now();
            let (moved, mechanism, cost) = match &mut buffer {
                None => {
                    let sent = transfer::sendfile(file, socket, at, piece);
                    (sent, Mechanism::Sendfile, Cost::Unknown)
                }
                Some(buffer) => {
                    let sent = read_and_send(file, socket, at, &mut buffer[..piece])?;
                    (sent, Mechanism::ReadWrite, Cost::UserCopied)
                }
            };
            is_slow = begin.elapsed() > GLANCE;
            match moved {
                Ok(0) => {
                    let end = file::stat(file).map_or(at, |stat| stat.size.min(at));
                    let reason = Reason::Refused(Objection::FileEnds { end });
                    return Err(Error::new("read", THE_FILE, reason));
                }
                Ok(moved) => {
                    self.add(mechanism, moved, cost);
                    at += moved as u64;
                }
                Err(errno) => match after_error(errno) {
                    AfterError::Again => {}
                    AfterError::Wait => {
                        self.wait(socket, Ready::ToWrite)?;
                    }
                    AfterError::Buffer(obstacle) if buffer.is_none() => {
                        self.refuse(Mechanism::Sendfile, obstacle, errno);
                        buffer = Some(vec![0; PIECE_BYTES]);
                    }
                    AfterError::Buffer(_) | AfterError::Final => {
                        return Err(self.blame(file, at, errno));
                    }
                },
            }
        }
        Ok(())
    }

    fn receive(
        &mut self,
        receiver: &mut FileReceiver,
        socket: BorrowedFd<'_>,
        file: BorrowedFd<'_>,
        range: Range<u64>,
    ) -> Result<(), Error> {
        self.check_socket(socket)?;
        if file::is_appended_to(file).map_err(unwritten)? {
            let reason = Reason::Refused(Objection::AppendOnly);
            return Err(Error::new("write to", THE_FILE, reason));
        }
        let pipe = receiver.take_pipe()?;
        self.receive_through(&pipe, socket, file, range)?;
        // After an error it may have bytes.
        receiver.pipe = Some(pipe);
        Ok(())
    }

    fn receive_through(
        &mut self,
        pipe: &Pipe,
        socket: BorrowedFd<'_>,
        file: BorrowedFd<'_>,
        range: Range<u64>,
    ) -> Result<(), Error> {
        let (mut at, mut buffer) = (range.start, Buffer::None);
        while at < range.end {
            self.go_on()?;
            // A call on a blocking socket would wait, whatever the deadline is.
            if !self.wait(socket, Ready::ToRead)? {
                continue;
            }
            let left = range.end - at;
            let taken = match &mut buffer {
                None => transfer::splice_next(socket, &pipe.into, piece(left, pipe.capacity)),
                Some(buffer) => {
                    buffer.clear();
                    stream::receive(socket, buffer, piece(left, PIECE_BYTES))
                }
            };
            let taken = match taken {
                // So it ends also where urgent data stands in the stream (`tcp_splice_read`).
                Ok(0) if buffer.is_none() => {
                    let mut bytes = Vec::with_capacity(PIECE_BYTES);
                    let taken = stream::receive(socket, &mut bytes, piece(left, PIECE_BYTES));
                    if matches!(taken, Ok(1..)) {
                        buffer = Some(bytes);
                    }
                    taken
                }
                taken => taken,
            };
            match taken {
                Ok(0) => {
                    let reason = Reason::Refused(Objection::ShortPeer { missing_bytes: left });
                    return Err(Error::new(self.operation, THE_SOCKET, reason));
                }
                Ok(taken) => {
                    match &buffer {
                        None => self.drain(pipe, file, at, taken, &mut buffer)?,
                        Some(bytes) => self.write(file, bytes, at)?,
                    }
                    at += taken as u64;
                }
                Err(errno) => match after_error(errno) {
                    AfterError::Again | AfterError::Wait => {}
                    AfterError::Buffer(obstacle) if buffer.is_none() => {
                        self.refuse(Mechanism::Splice, obstacle, errno);
                        buffer = Some(Vec::with_capacity(PIECE_BYTES));
                    }
                    AfterError::Buffer(_) | AfterError::Final => return Err(self.failed(errno)),
                },
            }
        }
        Ok(())
    }

    /// Writes all that the pipe holds. If the file refuses to be spliced to, the rest goes through a buffer, and so does
    /// everything behind it.
    fn drain(
        &mut self,
        pipe: &Pipe,
        file: BorrowedFd<'_>,
        mut at: u64,
        mut left: usize,
        buffer: &mut Buffer,
    ) -> Result<(), Error> {
        while left > 0 {
            match transfer::splice_out(&pipe.out, file, at, left) {
                Ok(0) => return Err(unwritten(Errno::EIO)),
                Ok(moved) => {
                    self.add(Mechanism::Splice, moved, Cost::KernelCopied);
                    (at, left) = (at + moved as u64, left - moved);
                }
                Err(errno) => match after_error(errno) {
                    AfterError::Again => {}
                    AfterError::Buffer(obstacle) => {
                        self.refuse(Mechanism::Splice, obstacle, errno);
                        let mut bytes = vec![0; left];
                        let read = read_pipe(&pipe.out, &mut bytes);
                        read.map_err(|errno| Error::system("read", "a pipe", errno))?;
                        self.write(file, &bytes, at)?;
                        *buffer = Some(Vec::with_capacity(PIECE_BYTES));
                        return Ok(());
                    }
                    AfterError::Wait | AfterError::Final => return Err(unwritten(errno)),
                },
            }
        }
        Ok(())
    }

    fn write(&mut self, file: BorrowedFd<'_>, bytes: &[u8], at: u64) -> Result<(), Error> {
        transfer::write_all_at(file, bytes, at).map_err(unwritten)?;
        self.add(Mechanism::ReadWrite, bytes.len(), Cost::UserCopied);
        Ok(())
    }

    fn add(&mut self, mechanism: Mechanism, bytes: usize, cost: Cost) {
        self.receipt.bytes += bytes as u64;
        self.receipt.add(mechanism, bytes as u64, cost);
    }

    fn refuse(&mut self, mechanism: Mechanism, obstacle: Obstacle, errno: Errno) {
        let after_bytes = self.receipt.bytes;
        let reason = RefusalReason::StoppedBy { obstacle, after_bytes };
        self.receipt.refusals.push(Refusal { mechanism, reason, errno: Some(errno) });
    }

    /// Asks the observer, and looks at the deadline.
    fn go_on(&mut self) -> Result<(), Error> {
        if (self.observer)(self.receipt.bytes).is_break() {
            return Err(Error::new(self.operation, THE_SOCKET, Reason::Cancelled));
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(self.failed(Errno::ETIMEDOUT)),
            _ => Ok(()),
        }
    }

    /// Waits for the peer, but not for long. `false`: it has not moved.
    fn wait(&self, socket: BorrowedFd<'_>, ready: Ready) -> Result<bool, Error> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let limit = left.map_or(GLANCE, |left| left.min(GLANCE));
        file::wait(socket, ready, limit).map_err(|errno| self.failed(errno))
    }

    fn check_socket(&self, socket: BorrowedFd<'_>) -> Result<(), Error> {
        match stream::is_stream(socket) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let reason = Reason::Refused(Objection::MessageSocket);
                Err(Error::new(self.operation, THE_SOCKET, reason))
            }
            Err(errno) => Err(self.failed(errno)),
        }
    }

    fn failed(&self, errno: Errno) -> Error {
        Error::network(self.operation, THE_SOCKET, errno)
    }

    /// Finds out which side an error of `sendfile(2)` is of: that of the file if it cannot be read there alone.
    fn blame(&self, file: BorrowedFd<'_>, at: u64, errno: Errno) -> Error {
        match transfer::read_at(file, &mut [0], at) {
            Err(errno) if errno != Errno::EINTR => unread(errno),
            _ => self.failed(errno),
        }
    }
}

/// Sends a part of a file through a buffer. Returns the result of the send: 0 if the file has no more.
fn read_and_send(
    file: BorrowedFd<'_>,
    socket: BorrowedFd<'_>,
    at: u64,
    buffer: &mut [u8],
) -> Result<Sys<usize>, Error> {
    let read = transfer::read_all_at(file, buffer, at).map_err(unread)?;
    if read == 0 {
        return Ok(Ok(0));
    }
    Ok(stream::send(socket, &[std::io::IoSlice::new(&buffer[..read])]))
}

/// Fills the buffer from a pipe that holds as many bytes.
fn read_pipe(pipe: &OwnedFd, buffer: &mut [u8]) -> Sys<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        match transfer::read(pipe, &mut buffer[filled..]) {
            Ok(0) => return Err(Errno::EIO),
            Ok(read) => filled += read,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn piece(left: u64, most: usize) -> usize {
    usize::try_from(left).unwrap_or(most).min(most)
}

fn unread(errno: Errno) -> Error {
    Error::system("read", THE_FILE, errno)
}

fn unwritten(errno: Errno) -> Error {
    Error::destination("write to", THE_FILE, errno)
}

/// Both ends of a pipe.
#[derive(Debug)]
struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
    capacity: usize,
}

impl Pipe {
    fn new() -> Result<Pipe, Error> {
        let made = transfer::pipe(PIPE_BYTES);
        let (out, into, capacity) = made.map_err(|errno| Error::system("make", "a pipe", errno))?;
        Ok(Pipe { out, into, capacity })
    }
}

/// Has sends on a blocking socket end after a glance, until this is dropped. Receives are not affected, so that
/// another thread may receive from the same socket meanwhile.
struct SendTimeout<'a> {
    socket: BorrowedFd<'a>,
    before: Option<Duration>,
}

impl<'a> SendTimeout<'a> {
    fn set(socket: BorrowedFd<'a>) -> Sys<SendTimeout<'a>> {
        let before = stream::send_timeout(socket)?;
        stream::set_send_timeout(socket, Some(GLANCE))?;
        Ok(SendTimeout { socket, before })
    }
}

impl Drop for SendTimeout<'_> {
    fn drop(&mut self) {
        // It was settable a moment ago.
        let _ = stream::set_send_timeout(self.socket, self.before);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn each_error_leads_on_or_ends() {
        for (errno, expected) in [
            (Errno::EINTR, AfterError::Again),
            (Errno::EAGAIN, AfterError::Wait),
            (Errno::EINVAL, AfterError::Buffer(Obstacle::NotSupported)),
            (Errno::EOPNOTSUPP, AfterError::Buffer(Obstacle::NotSupported)),
            (Errno::ENOSYS, AfterError::Buffer(Obstacle::UnknownCall)),
            (Errno::EPERM, AfterError::Buffer(Obstacle::Forbidden)),
            (Errno::EPIPE, AfterError::Final),
            (Errno::ECONNRESET, AfterError::Final),
            (Errno::ENOSPC, AfterError::Final),
            (Errno::EIO, AfterError::Final),
        ] {
            assert_eq!(after_error(errno), expected, "{errno}");
        }
    }

    #[test]
    fn a_receiver_keeps_its_pipe_as_long_as_it_is_empty() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let (to, read_only) = (tempfile::tempfile().unwrap(), File::open("/dev/null").unwrap());
        let (mut receiver, options) = (FileReceiver::new(), FileTransferOptions::new());
        let mut pipes = Vec::new();
        for _ in 0..3 {
            far.write_all(b"bytes").unwrap();
            receiver.receive(&near, &to, 0..5, &options).unwrap();
            pipes.push(receiver.pipe.as_ref().unwrap().out.as_raw_fd());
        }
        assert_eq!(pipes, [pipes[0]; 3]);
        far.write_all(b"lost").unwrap();
        receiver.receive(&near, &read_only, 0..4, &options).unwrap_err();
        assert!(receiver.pipe.is_none());
    }
}
