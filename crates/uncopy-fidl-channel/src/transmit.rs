//! Writing of values into channels.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::io::IoSlice;

use uncopy_channel::{self as channel, Channel, Deadline, Object, Signals, Status};
use uncopy_fidl::{Encode, Encoder, Header, RegionList, TakeHandles, take_handles};

use crate::failure::Failure;
use crate::handle::{FidlHandle, depart};

/// Values that can be sent as a `T`: a `T`, or a `&T` if it has no handles.
///
/// Sealed: no other crate can implement it.
pub trait SendAs<T>: Encode + TakeHandles<FidlHandle> + Borrow<T> {}

impl<T, P: Encode + TakeHandles<FidlHandle> + Borrow<T>> SendAs<T> for P {}

thread_local! {
    /// Encoder of each thread, which keeps the memory for everything that does not stay in place.
    static ENCODER: RefCell<Encoder> = RefCell::default();
}

/// Takes the thread's encoder, for a task that keeps it while it waits. Other users of the thread
/// get a new one meanwhile.
#[cfg(feature = "tokio")]
pub(crate) fn take_encoder() -> Encoder {
    ENCODER
        .with(|encoder| encoder.try_borrow_mut().map(|mut e| std::mem::take(&mut *e)))
        .unwrap_or_default()
}

/// Puts the encoder back, on the thread where the task continues.
#[cfg(feature = "tokio")]
pub(crate) fn keep_encoder(encoder: Encoder) {
    ENCODER.with(|kept| {
        if let Ok(mut kept) = kept.try_borrow_mut() {
            *kept = encoder;
        }
    });
}

/// Takes the handles out of `value`, and checks and reduces them.
pub(crate) fn departed<T: TakeHandles<FidlHandle>>(
    value: &mut T,
) -> Result<Vec<channel::Handle>, Failure> {
    let mut leaving = Vec::new();
    take_handles(value, &mut leaving)?;
    depart(leaving)
}

/// Encodes `value` and passes its regions and handles to `send`.
pub(crate) fn transmit<T: Encode + TakeHandles<FidlHandle>, R>(
    header: &Header,
    mut value: T,
    send: impl FnOnce(&[IoSlice<'_>], Vec<channel::Handle>) -> Result<R, Status>,
) -> Result<R, Failure> {
    let handles = departed(&mut value)?;
    let with = |encoder: &mut Encoder| {
        let mut list = RegionList::new();
        let regions = encoder.gather_message(header, &value, &mut list)?;
        Ok(send(regions.as_slices(), handles)?)
    };
    ENCODER.with(|encoder| match encoder.try_borrow_mut() {
        Ok(mut encoder) => with(&mut encoder),
        // Taken already: a signal handler or an allocator sends while this thread does.
        Err(_) => with(&mut Encoder::new()),
    })
}

/// Writes, waiting for room in the channel.
pub(crate) fn write(
    channel: &Channel,
    regions: &[IoSlice<'_>],
    mut handles: Vec<channel::Handle>,
) -> Result<(), Status> {
    loop {
        match channel.try_write(regions, &mut handles) {
            Err(Status::ShouldWait) => {
                let room = Signals::WRITABLE | Signals::PEER_CLOSED;
                channel.wait_one(room, Deadline::INFINITE)?;
            }
            done => return done,
        }
    }
}
