//! The serving side of a data connection: reads files and lists directories that the session has open, one after the other.

use std::sync::{Arc, Mutex};

use uncopy_core::Errno;
use uncopy_wire::{Call, Frame, Server, Violation};

use super::Serving;
use super::answer;
use super::directory::{Asking, WantedNames, WantedPage};
use crate::gate::lock;
use crate::link::Answering;
use crate::outbox::Outbox;

/// Files that are read over a data connection, and directories that are listed.
#[derive(Debug)]
pub(crate) struct DataServing {
    asking: Asking,
    files: Arc<Serving>,
    server: Mutex<Server>,
    outbox: Arc<Outbox>,
}

impl DataServing {
    pub(crate) fn new(files: Arc<Serving>, outbox: Arc<Outbox>) -> DataServing {
        let asking = Asking::Data(files.count_connection());
        DataServing { asking, files, server: Mutex::new(Server::of_data()), outbox }
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
        let id = request.id;
        // A handle that is not open may have been closed while the call was on its way.
        let answered = match (&request.call, WantedPage::of(&request.call)) {
            (Call::Read { file, offset, bytes }, _) => {
                let read = self.files.read(*file, *offset, *bytes, self.outbox.spare());
                read.map(|bytes| server.data(id, bytes))
            }
            (Call::ListFrom { directory, .. }, Some(page)) => {
                let listed = self.files.list(self.asking, *directory, page);
                listed.map(|found| server.page(id, &found.page, found.is_last, found.position))
            }
            (call, _) => match WantedNames::of(call) {
                Some(wanted) => self.files.look_all(wanted).map(|page| server.named(id, &page)),
                None => Err(Errno::ENOSYS),
            },
        };
        let frame = answered.unwrap_or_else(|errno| server.failed(id, answer::raw(errno)))?;
        self.outbox.push(frame);
        Ok(())
    }

    /// Forgets the listings of the connection.
    fn stop(&self) {
        self.files.forget_listings(self.asking);
    }
}
