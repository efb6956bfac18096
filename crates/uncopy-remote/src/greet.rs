//! Greetings of both ends.

use std::io;

use uncopy_wire::{Frames, Greeting, GreetingSearch, Versions, Violation};

use crate::beginning::Heard;
use crate::{RemoteError, Streams};

/// Other end that has greeted.
#[derive(Debug)]
pub(crate) struct Greeted {
    /// Frames that came behind its greeting.
    pub(crate) frames: Frames,
    /// Version of the protocol that both speak.
    pub(crate) version: u16,
}

/// Greets, and waits for the greeting of the other end.
pub(crate) fn greet(streams: &mut Streams, heard: &Heard<'_>) -> Result<Greeted, RemoteError> {
    let own = Greeting { versions: Versions::OWN, program: env!("CARGO_PKG_VERSION").to_owned() };
    // If the other end has ended already, what it printed says more.
    let sent = streams.output.write_all(&own.encode()).and_then(|()| streams.output.flush());
    let mut search = GreetingSearch::default();
    let mut buffer = vec![0; 4096];
    loop {
        let count = match streams.input.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(RemoteError::Lost { what: format!("reading from it failed: {error}") });
            }
        };
        if count == 0 {
            return Err(RemoteError::NoGreeting { shown: search.banner().to_vec() });
        }
        heard.something();
        let found = match search.feed(&buffer[..count]) {
            Err(Violation::NoGreeting) => {
                return Err(RemoteError::NotUncopy { shown: search.banner().to_vec() });
            }
            other => other?,
        };
        let Some((greeting, behind)) = found else { continue };
        let Ok(version) = Versions::OWN.common(greeting.versions) else {
            let Greeting { versions: Versions { min, max }, program } = greeting;
            return Err(RemoteError::Versions { program, min, max });
        };
        sent.map_err(|error| RemoteError::Lost { what: format!("writing to it failed: {error}") })?;
        let mut frames = Frames::default();
        frames.feed(&behind);
        return Ok(Greeted { frames, version });
    }
}
