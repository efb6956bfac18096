//! The serving side of a data connection: reads files that the session has open, one after the other.

use std::sync::{Arc, Mutex};

use uncopy_core::Errno;
use uncopy_wire::{Call, Frame, Server, Violation};

use super::{Serving, answer};
use crate::gate::lock;
use crate::link::Answering;
use crate::outbox::Outbox;

/// Files that are read over a data connection.
#[derive(Debug)]
pub(crate) struct DataServing {
    files: Arc<Serving>,
    server: Mutex<Server>,
    outbox: Arc<Outbox>,
}

impl DataServing {
    pub(crate) fn new(files: Arc<Serving>, outbox: Arc<Outbox>) -> DataServing {
        DataServing { files, server: Mutex::new(Server::of_data()), outbox }
    }
}

impl Answering for DataServing {
    /// Answers before the next call is looked at.
    fn take(&self, frame: &Frame) -> Result<(), Violation> {
        let mut server = lock(&self.server);
        let request = server.take(frame)?;
        // An answer takes memory only until it is written.
        if !self.outbox.wait_for_room() {
            return Ok(());
        }
        let read = match request.call {
            // A handle that is not open may have been closed while the call was on its way.
            Call::Read { file, offset, bytes } => {
                self.files.read(file, offset, bytes, self.outbox.spare())
            }
            _ => Err(Errno::ENOSYS),
        };
        let frame = match read {
            Ok(bytes) => server.data(request.id, bytes)?,
            Err(errno) => server.failed(request.id, answer::raw(errno))?,
        };
        self.outbox.push(frame);
        Ok(())
    }

    fn stop(&self) {}
}
