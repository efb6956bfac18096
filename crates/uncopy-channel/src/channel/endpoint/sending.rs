//! Writing to an end in another process.

use std::io::IoSlice;

use super::{Channel, Rejected, total_bytes};
use crate::channel::handle::Handle;
use crate::channel::message::MessageBuf;
use crate::channel::packing::{pack, unpack};
use crate::rights::Rights;
use crate::transport::packet::Content;
use crate::{MAX_BYTES, MAX_HANDLES, Status};

impl Channel {
    /// The other end is in another process: the regions go to the socket as they are.
    pub(super) fn write_wired(
        &self,
        regions: &[IoSlice<'_>],
        handles: &mut Vec<Handle>,
    ) -> Result<(), Status> {
        let own = std::mem::take(handles);
        self.0.grant.check(Rights::WRITE)?;
        if total_bytes(regions) > MAX_BYTES || own.len() > MAX_HANDLES {
            return Err(Status::OutOfRange);
        }
        own.iter().try_for_each(|handle| self.check_handle(handle))?;
        let sent = self.transmit(regions, own);
        sent.map_err(|(status, back)| {
            if status == Status::ShouldWait {
                *handles = back;
            }
            status
        })
    }

    /// Sends a message over the socket.
    pub(crate) fn transmit_message(&self, mut message: MessageBuf) -> Result<(), Rejected> {
        let handles = message.take_handles();
        let sent = self.transmit(&[IoSlice::new(&message)], handles);
        sent.map_err(|(status, back)| (status, message.with_handles(back)))
    }

    /// Sends a message over the socket. The handles come back with [`Status::ShouldWait`]; after
    /// any other failure they are closed.
    fn transmit(
        &self,
        regions: &[IoSlice<'_>],
        handles: Vec<Handle>,
    ) -> Result<(), (Status, Vec<Handle>)> {
        let lost = |status| (status, Vec::new());
        if handles.is_empty() {
            return self.0.transmit(regions).map_err(lost);
        }
        // Before the handles are taken apart.
        let wire = match self.0.wire_with_room() {
            Ok(wire) => wire,
            Err(Status::ShouldWait) => return Err((Status::ShouldWait, handles)),
            Err(status) => return Err(lost(status)),
        };
        let parcel = pack(handles).map_err(lost)?;
        match self.0.note(wire.send_parcel(Content::Message, regions, &parcel)) {
            Ok(()) => Ok(()),
            // Nothing that was taken apart here fails to go together.
            Err(Status::ShouldWait) => {
                Err((Status::ShouldWait, unpack(parcel).unwrap_or_default()))
            }
            Err(status) => Err(lost(status)),
        }
    }
}
