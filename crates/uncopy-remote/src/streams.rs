//! The two streams of an end.

use std::fs::File;
use std::io::{Read, Write};

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

    /// Takes standard input and output of this process. From then on standard input is empty, and standard output is
    /// standard error, so that nothing else gets into the streams.
    ///
    /// # Errors
    /// [`RemoteError::System`].
    pub fn stdio() -> Result<Streams, RemoteError> {
        let what = "take over standard input and output";
        let (input, output) =
            inherit::take_stdio().map_err(|errno| RemoteError::System { what, errno })?;
        Ok(Streams::new(File::from(input), File::from(output)))
    }
}
