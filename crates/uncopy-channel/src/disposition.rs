//! Dispositions: handles that are checked and changed as they are sent, each with a result.

use std::io::IoSlice;

use super::channel::{Channel, Handle, Lengths, MessageBuf, total_bytes};
use super::identity::Kind;
use super::object::Object;
use super::region::Region;
use super::rights::{Rights, subset};
use super::sleep::Deadline;
use super::source::Source;
use super::status::Status;

/// The handle to send, and whether it is moved or duplicated. `None` stands for a handle that does
/// not exist (any more), and fails with [`Status::BadHandle`].
#[derive(Debug)]
pub enum Transfer<'a> {
    /// Moves the handle; it is consumed on success and on failure.
    Move(Option<Handle>),
    /// Sends another handle to the object; this one stays.
    Duplicate(Option<&'a Handle>),
}

/// One handle of a message: how to send it, and the result.
#[derive(Debug)]
pub struct Disposition<'a> {
    /// Handle to send.
    pub transfer: Transfer<'a>,
    /// Kind that its object must have, if checked.
    pub kind: Option<Kind>,
    /// Rights of the sent handle, or `None` for all that it has.
    pub rights: Option<Rights>,
    /// Error of this entry; not changed on success.
    pub result: Result<(), Status>,
}

impl<'a> Disposition<'a> {
    /// Moves `handle` with all its rights.
    #[must_use]
    pub fn moving(handle: impl Into<Handle>) -> Disposition<'a> {
        let transfer = Transfer::Move(Some(handle.into()));
        Disposition { transfer, kind: None, rights: None, result: Ok(()) }
    }

    /// Sends a duplicate of `handle`.
    #[must_use]
    pub fn duplicating(handle: &'a Handle) -> Disposition<'a> {
        let transfer = Transfer::Duplicate(Some(handle));
        Disposition { transfer, kind: None, rights: None, result: Ok(()) }
    }

    /// Returns the handle to send, after the checks in Zircon's order.
    fn perform(&mut self, channel: &Channel) -> Result<Handle, Status> {
        match &mut self.transfer {
            Transfer::Move(slot) => {
                let mut handle = slot.take().ok_or(Status::BadHandle)?;
                let rights = check(channel, &handle, self.kind, self.rights)?;
                handle.grant_mut().narrow(rights);
                Ok(handle)
            }
            Transfer::Duplicate(source) => {
                let source = source.ok_or(Status::BadHandle)?;
                let rights = check(channel, source, self.kind, self.rights)?;
                source.duplicate(Some(rights))
            }
        }
    }
}

fn check(
    channel: &Channel,
    handle: &Handle,
    kind: Option<Kind>,
    rights: Option<Rights>,
) -> Result<Rights, Status> {
    channel.check_handle(handle)?;
    if kind.is_some_and(|kind| kind != handle.kind()) {
        return Err(Status::WrongType);
    }
    subset(handle.rights(), rights)
}

/// Performs every disposition; returns the handles, or the first error.
fn collect(channel: &Channel, dispositions: &mut [Disposition<'_>]) -> Result<Vec<Handle>, Status> {
    let mut first = Ok(());
    let mut handles = Vec::with_capacity(dispositions.len());
    for disposition in dispositions {
        match disposition.perform(channel) {
            Ok(handle) => handles.push(handle),
            Err(status) => {
                disposition.result = Err(status);
                first = first.and(Err(status));
            }
        }
    }
    first.map(|()| handles)
}

/// Closes the handles that were to be moved and were not reached.
fn consume(dispositions: &mut [Disposition<'_>]) {
    for disposition in dispositions {
        if let Transfer::Move(slot) = &mut disposition.transfer {
            drop(slot.take());
        }
    }
}

impl Channel {
    /// Sends as [`write`](Self::write) does, with a disposition for each handle.
    ///
    /// # Errors
    /// As [`write`](Self::write). The first failing handle's status, in this order for each:
    /// [`Status::BadHandle`]; [`Status::AccessDenied`] without [`Rights::TRANSFER`];
    /// [`Status::NotSupported`] for this very endpoint; [`Status::WrongType`];
    /// [`Status::InvalidArgs`] for rights it does not have; [`Status::AccessDenied`] without
    /// [`Rights::DUPLICATE`] if it is to be duplicated.
    ///
    /// # Ownership
    /// Moved handles are consumed on success and on every failure, as by `zx_channel_write_etc`;
    /// duplicated ones stay with the caller.
    pub fn write_etc(
        &self,
        regions: &[IoSlice<'_>],
        dispositions: &mut [Disposition<'_>],
    ) -> Result<(), Status> {
        self.write_etc_regions(total_bytes(regions), regions, dispositions)
    }

    /// Sends as [`write_etc`](Self::write_etc) does, regions of any memory, which have `total_bytes`
    /// together.
    ///
    /// # Errors
    /// As [`write_etc`](Self::write_etc) and [`write_regions`](Self::write_regions).
    pub fn write_etc_regions<R: Region>(
        &self,
        total_bytes: usize,
        regions: &[R],
        dispositions: &mut [Disposition<'_>],
    ) -> Result<(), Status> {
        let lengths = Lengths { bytes: total_bytes, handles: dispositions.len() };
        let result = self.send_regions(lengths, regions, || collect(self, dispositions));
        consume(dispositions);
        result.map_err(|rejected| rejected.status)
    }

    /// Calls as [`call`](Self::call) does, with dispositions as in [`write_etc`](Self::write_etc).
    ///
    /// ```
    /// use std::io::IoSlice;
    /// use uncopy::channel::{
    ///     Channel, Deadline, Disposition, Event, Handle, Object, Rights, Signals, Status,
    /// };
    ///
    /// let (near, far) = Channel::pair();
    /// let event = Handle::from(Event::new());
    /// std::thread::scope(|threads| {
    ///     threads.spawn(|| {
    ///         far.wait_one(Signals::READABLE, Deadline::INFINITE)?;
    ///         let mut request = far.read()?;
    ///         assert_eq!(request.take_handles()[0].rights(), Rights::WAIT);
    ///         far.write(&[IoSlice::new(&request[..4]), IoSlice::new(b"seen")], vec![])
    ///     });
    ///     let lent = Disposition::duplicating(&event);
    ///     let mut lent = [Disposition { rights: Some(Rights::WAIT), ..lent }];
    ///     let request = [IoSlice::new(&[0; 4]), IoSlice::new(b"look")];
    ///     let answer = near.call_etc(&request, &mut lent, Deadline::INFINITE)?;
    ///     assert_eq!(&answer[4..], b"seen");
    ///     Ok::<(), Status>(())
    /// })?;
    /// # Ok::<(), Status>(())
    /// ```
    ///
    /// # Errors
    /// As [`call`](Self::call) and [`write_etc`](Self::write_etc).
    ///
    /// # Ownership
    /// As by [`write_etc`](Self::write_etc).
    pub fn call_etc(
        &self,
        regions: &[IoSlice<'_>],
        dispositions: &mut [Disposition<'_>],
        deadline: Deadline,
    ) -> Result<MessageBuf, Status> {
        self.call_etc_regions(total_bytes(regions), regions, dispositions, deadline)
    }

    /// Calls as [`call_etc`](Self::call_etc) does, with regions of any memory, which have
    /// `total_bytes` together, including the four bytes of the transaction id.
    ///
    /// # Errors
    /// As [`call_etc`](Self::call_etc) and [`write_regions`](Self::write_regions).
    pub fn call_etc_regions<R: Region>(
        &self,
        total_bytes: usize,
        regions: &[R],
        dispositions: &mut [Disposition<'_>],
        deadline: Deadline,
    ) -> Result<MessageBuf, Status> {
        let lengths = Lengths { bytes: total_bytes, handles: dispositions.len() };
        let collected = || collect(self, dispositions);
        let result = self.call_regions(lengths, regions, collected, deadline);
        consume(dispositions);
        result
    }
}
