//! The two streams of an end.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use uncopy_os::file::{self, Ready};
use uncopy_os::inherit;

use crate::RemoteError;

/// Stream from the other end, and stream to it.
pub struct Streams {
    /// From the other end.
    pub input: Box<dyn Read + Send>,
    /// To the other end.
    pub output: Box<dyn Write + Send>,
}

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}

impl Streams {
    /// Makes a pair.
    #[must_use]
    pub fn new(input: impl Read + Send + 'static, output: impl Write + Send + 'static) -> Streams {
        Streams { input: Box::new(input), output: Box::new(output) }
    }

    /// Makes a pair of descriptors.
    pub(crate) fn of_descriptors(input: OwnedFd, output: OwnedFd) -> Streams {
        Streams::new(Waiting(File::from(input)), Waiting(File::from(output)))
    }

    /// Takes standard input and output of this process. From then on standard input is empty, and standard output is
    /// standard error, so that nothing else gets into the streams.
    ///
    /// # Errors
    /// [`RemoteError::System`].
    pub fn stdio() -> Result<Streams, RemoteError> {
        let what = "take over standard input and output";
        let (input, output) =
            inherit::take_stdio().map_err(|errno| RemoteError::System { what, errno })?;
        Ok(Streams::of_descriptors(input, output))
    }
}

/// Interval at which a stream that is not ready is tried again.
const PATIENCE: Duration = Duration::from_secs(1);

/// Stream that is waited for also where another process that shares it has made it non-blocking.
struct Waiting(File);

impl Waiting {
    fn until<T>(
        &mut self,
        ready: Ready,
        mut attempt: impl FnMut(&mut File) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match attempt(&mut self.0) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    file::wait(&self.0, ready, PATIENCE)
                        .map_err(|errno| io::Error::from_raw_os_error(errno.raw()))?;
                }
                result => return result,
            }
        }
    }
}

impl Read for Waiting {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.until(Ready::ToRead, |file| file.read(bytes))
    }
}

impl Write for Waiting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.until(Ready::ToWrite, |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
