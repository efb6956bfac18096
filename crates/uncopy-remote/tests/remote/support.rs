//! Sessions within this process.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use uncopy_copy::peer::{Peer, PeerContents, PeerEntry, PeerError, PeerHandle};
use uncopy_remote::{
    Accepted, Limits, Pull, RemoteError, RemoteSource, Restriction, Streams, accept, pull,
};

/// Kind of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Line {
    Socket,
    Pipes,
    /// Each read gets at most this number of bytes.
    Chopped(usize),
    /// Each read takes this long more: the other end is far.
    Delayed(Duration),
    /// Each end greets as one of this version of the protocol, whatever it speaks besides.
    Speaking(u16),
}

/// Reader that sees another highest version in the greeting.
struct Speaking {
    socket: UnixStream,
    version: u16,
    position: usize,
}

/// Place of the highest version in a greeting: behind 16 bytes that no text begins with, and the lowest one.
const HIGHEST_VERSION: std::ops::Range<usize> = 18..20;

impl Read for Speaking {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.socket.read(buffer)?;
        for (place, byte) in (self.position..).zip(&mut buffer[..count]) {
            if HIGHEST_VERSION.contains(&place) {
                *byte = self.version.to_le_bytes()[place - HIGHEST_VERSION.start];
            }
        }
        self.position += count;
        Ok(count)
    }
}

/// Reader that gets bytes late.
struct Delayed(UnixStream, Duration);

impl Read for Delayed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer);
        thread::sleep(self.1);
        read
    }
}

/// Reader that gets a few bytes at a time.
struct Chopped(UnixStream, usize);

impl Read for Chopped {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(self.1);
        self.0.read(&mut buffer[..length])
    }
}

/// Makes a connection: the streams of the near end and of the far end.
pub(crate) fn connection(line: Line) -> (Streams, Streams) {
    match line {
        Line::Socket => {
            let (near, far) = UnixStream::pair().unwrap();
            (of_socket(near), of_socket(far))
        }
        Line::Pipes => {
            let pipe = || {
                let (input, output, _) = uncopy_os::transfer::pipe(1 << 16).unwrap();
                let file = |fd: OwnedFd| File::from(fd);
                (file(input), file(output))
            };
            let ((near_input, far_output), (far_input, near_output)) = (pipe(), pipe());
            (Streams::new(near_input, near_output), Streams::new(far_input, far_output))
        }
        Line::Delayed(delay) => {
            let (near, far) = UnixStream::pair().unwrap();
            let late = |socket: UnixStream| {
                Streams::new(Delayed(socket.try_clone().unwrap(), delay), Closing(socket))
            };
            (late(near), late(far))
        }
        Line::Speaking(version) => {
            let (near, far) = UnixStream::pair().unwrap();
            let older = |socket: UnixStream| {
                let reader = Speaking { socket: socket.try_clone().unwrap(), version, position: 0 };
                Streams::new(reader, Closing(socket))
            };
            (older(near), older(far))
        }
        Line::Chopped(bytes) => {
            let (near, far) = UnixStream::pair().unwrap();
            let chopped = |socket: UnixStream| {
                Streams::new(Chopped(socket.try_clone().unwrap(), bytes), Closing(socket))
            };
            (chopped(near), chopped(far))
        }
    }
}

/// Socket whose other half still reads when this one is dropped.
pub(crate) struct Closing(pub(crate) UnixStream);

impl io::Write for Closing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        let _ = self.0.shutdown(std::net::Shutdown::Write);
    }
}

pub(crate) fn of_socket(socket: UnixStream) -> Streams {
    Streams::new(socket.try_clone().unwrap(), Closing(socket))
}

/// Limits that no test waits for.
pub(crate) fn long() -> Limits {
    Limits { ping: Duration::from_secs(5), silence: Duration::from_secs(60) }
}

pub(crate) fn never() -> bool {
    false
}

/// Thread that is a far end.
pub(crate) type FarThread = JoinHandle<Result<(), RemoteError>>;

/// Serves whatever the near end names.
pub(crate) fn serve(streams: Streams, restriction: Restriction) -> FarThread {
    serve_within(streams, restriction, long())
}

pub(crate) fn serve_within(
    streams: Streams,
    restriction: Restriction,
    limits: Limits,
) -> FarThread {
    thread::spawn(move || match accept(streams, &limits, &restriction)? {
        Accepted::Serve(request) => request.serve(),
        Accepted::Run(_) => panic!("roots are to be served"),
    })
}

/// Session that serves these roots.
pub(crate) struct Pulled {
    pub(crate) pull: Pull,
    pub(crate) far: FarThread,
}

impl Pulled {
    pub(crate) fn new(line: Line, roots: &[&Path]) -> Pulled {
        let (near, far) = connection(line);
        let far = serve(far, Restriction::default());
        let roots: Vec<OsString> = roots.iter().map(|root| root.as_os_str().to_owned()).collect();
        Pulled { pull: pull(near, &long(), None, &roots, &never).unwrap(), far }
    }

    pub(crate) fn source(&self) -> Arc<RemoteSource> {
        self.pull.source()
    }

    pub(crate) fn end(self) {
        let near = self.pull.end();
        assert_eq!((near, self.far.join().unwrap()), (Ok(()), Ok(())));
    }
}

/// Wishes for contents of files up to a length in bytes, without attributes.
pub(crate) fn up_to(up_to: u32) -> PeerContents {
    PeerContents { up_to, with_attributes: false }
}

/// Lists a directory to its end.
pub(crate) fn list_all(
    source: &RemoteSource,
    directory: PeerHandle,
    contents_up_to: u32,
) -> Result<Vec<PeerEntry>, PeerError> {
    let mut entries = Vec::new();
    loop {
        let page = source.list(directory, up_to(contents_up_to))?;
        entries.extend(page.entries);
        if page.is_last {
            return Ok(entries);
        }
    }
}

/// Reads a range.
pub(crate) fn read_range(
    source: &RemoteSource,
    file: PeerHandle,
    range: std::ops::Range<u64>,
) -> Result<Vec<u8>, PeerError> {
    let mut bytes = Vec::new();
    let count = source.read(file, range, 0, &mut |part| {
        assert!(part.len() <= 1 << 20);
        bytes.extend_from_slice(part);
        true
    })?;
    assert_eq!(count, bytes.len() as u64);
    Ok(bytes)
}

pub(crate) fn name(text: &str) -> &OsStr {
    OsStr::new(text)
}

pub(crate) fn errno<T: std::fmt::Debug>(result: Result<T, PeerError>) -> i32 {
    match result {
        Err(PeerError::System(errno)) => errno.raw(),
        other => panic!("{other:?}"),
    }
}
