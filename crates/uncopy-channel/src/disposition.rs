//! Handles that are sent with checks and changes, each with its own result.

use std::io::IoSlice;

use super::channel::{Channel, Handle, Lengths, MessageBuf, total_bytes};
use super::identity::Kind;
use super::object::Object;
use super::rights::{Rights, subset};
use super::sleep::Deadline;
use super::source::Source;
use super::status::{Fill, Status};
use crate::memory::Filling;

/// Where a sent handle comes from. `None`: there is no such handle (any more), which is a
/// [`Status::BadHandle`].
#[derive(Debug)]
pub enum Transfer<'a> {
    /// It is moved, and consumed whatever happens.
    Move(Option<Handle>),
    /// It stays, and another handle to its object is sent.
    Duplicate(Option<&'a Handle>),
}

/// One handle of a message: what to do with it, and what became of that.
#[derive(Debug)]
pub struct Disposition<'a> {
    /// The handle.
    pub transfer: Transfer<'a>,
    /// What it must be, if that matters.
    pub kind: Option<Kind>,
    /// Rights to send it with, or all it has.
    pub rights: Option<Rights>,
    /// Set if this entry failed; else left as it was.
    pub result: Result<(), Status>,
}

impl<'a> Disposition<'a> {
    /// Moves `handle` as it is.
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

    /// Does it, with the checks in Zircon's order.
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

/// Every one is attempted; the first error counts.
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

/// Closes what was to be moved and was not reached.
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
    /// [`Rights::DUPLICATE`] where that is asked for.
    ///
    /// # Ownership
    /// Moved handles are consumed on success and on every failure, as by `zx_channel_write_etc`; those that
    /// were to be duplicated stay.
    pub fn write_etc(
        &self,
        regions: &[IoSlice<'_>],
        dispositions: &mut [Disposition<'_>],
    ) -> Result<(), Status> {
        let fill = |filling: &mut Filling<'_>| Ok(filling.append_all(regions)?);
        self.write_etc_with(total_bytes(regions), fill, dispositions)
    }

    /// Sends as [`write_etc`](Self::write_etc) does, a message that `fill` writes in place.
    ///
    /// # Errors
    /// As [`write_etc`](Self::write_etc), and after the sizes `fill`'s own.
    pub fn write_etc_with(
        &self,
        total_bytes: usize,
        fill: impl Fill,
        dispositions: &mut [Disposition<'_>],
    ) -> Result<(), Status> {
        let lengths = Lengths { bytes: total_bytes, handles: dispositions.len() };
        let result = self.send(lengths, fill, || collect(self, dispositions));
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
    /// As both.
    ///
    /// # Ownership
    /// As of [`write_etc`](Self::write_etc).
    pub fn call_etc(
        &self,
        regions: &[IoSlice<'_>],
        dispositions: &mut [Disposition<'_>],
        deadline: Deadline,
    ) -> Result<MessageBuf, Status> {
        let fill = |filling: &mut Filling<'_>| Ok(filling.append_all(regions)?);
        self.call_etc_with(total_bytes(regions), fill, dispositions, deadline)
    }

    /// Calls as [`call_etc`](Self::call_etc) does, with a message that `fill` writes in place, the four
    /// bytes of the transaction id included.
    ///
    /// # Errors
    /// As [`call_etc`](Self::call_etc), and after the sizes `fill`'s own.
    pub fn call_etc_with(
        &self,
        total_bytes: usize,
        fill: impl Fill,
        dispositions: &mut [Disposition<'_>],
        deadline: Deadline,
    ) -> Result<MessageBuf, Status> {
        let lengths = Lengths { bytes: total_bytes, handles: dispositions.len() };
        let collected = || collect(self, dispositions);
        let result = self.call_with(lengths, fill, collected, deadline);
        consume(dispositions);
        result
    }
}
