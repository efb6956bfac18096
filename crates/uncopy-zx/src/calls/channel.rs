//! Channels: create, write, read.

use uncopy_channel::{
    Channel, Handle, Lengths, MAX_REGIONS, MessageBuf, Object, Oversized, Rights, Status,
};

use super::handle::{give_both, type_of};
use super::message::{Message, Sent};
use crate::abi::{
    ZX_CHANNEL_READ_MAY_DISCARD, ZX_CHANNEL_WRITE_USE_IOVEC, uncopy_zx_region_t,
    zx_handle_disposition_t, zx_handle_info_t, zx_handle_t,
};
use crate::sys::boundary::exported;
use crate::sys::memory::{In, Out, Plain};
use crate::table;

exported! {
    /// Makes a channel.
    fn zx_channel_create(options: u32, out0: Out<zx_handle_t>, out1: Out<zx_handle_t>) {
        if options != 0 {
            return Err(Status::InvalidArgs);
        }
        give_both(Channel::pair().into(), out0, out1)
    }

    /// Sends a message.
    fn zx_channel_write(
        handle: zx_handle_t,
        options: u32,
        bytes: In<u8>,
        num_bytes: u32,
        handles: In<zx_handle_t>,
        num_handles: u32,
    ) {
        write(handle, options, bytes, num_bytes, &Sent::moved(handles, num_handles))
    }

    /// Sends a message, with a disposition for each handle.
    fn zx_channel_write_etc(
        handle: zx_handle_t,
        options: u32,
        bytes: In<u8>,
        num_bytes: u32,
        handles: Out<zx_handle_disposition_t>,
        num_handles: u32,
    ) {
        write(handle, options, bytes, num_bytes, &Sent::disposed(handles, num_handles))
    }

    /// Takes the next message.
    fn zx_channel_read(
        handle: zx_handle_t,
        options: u32,
        bytes: Out<u8>,
        handles: Out<zx_handle_t>,
        num_bytes: u32,
        num_handles: u32,
        actual_bytes: Out<u32>,
        actual_handles: Out<u32>,
    ) {
        let reading = Reading { num_handles, actual_bytes, actual_handles };
        reading.read(handle, options, Place::linear(bytes, num_bytes), handles, |value, _| value)
    }

    /// Takes the next message, with kind and rights of each handle.
    fn zx_channel_read_etc(
        handle: zx_handle_t,
        options: u32,
        bytes: Out<u8>,
        handles: Out<zx_handle_info_t>,
        num_bytes: u32,
        num_handles: u32,
        actual_bytes: Out<u32>,
        actual_handles: Out<u32>,
    ) {
        let reading = Reading { num_handles, actual_bytes, actual_handles };
        reading.read(handle, options, Place::linear(bytes, num_bytes), handles, describe)
    }

    /// Takes the next message, spread over several regions.
    fn uncopy_zx_channel_read_scattered(
        handle: zx_handle_t,
        options: u32,
        regions: In<uncopy_zx_region_t>,
        num_regions: u32,
        handles: Out<zx_handle_t>,
        num_handles: u32,
        actual_bytes: Out<u32>,
        actual_handles: Out<u32>,
    ) {
        let reading = Reading { num_handles, actual_bytes, actual_handles };
        let place = || Place::scattered(regions, num_regions);
        reading.read(handle, options, place, handles, |value, _| value)
    }
}

#[inline]
fn write(
    handle: zx_handle_t,
    options: u32,
    bytes: In<u8>,
    num_bytes: u32,
    sent: &Sent,
) -> Result<(), Status> {
    let attempt = || {
        if options & !ZX_CHANNEL_WRITE_USE_IOVEC != 0 {
            return Err(Status::InvalidArgs);
        }
        let lease = table::lease(handle)?;
        let channel = lease.object::<Channel>(Rights::WRITE)?;
        Message::with(bytes, num_bytes, options, sent.count(), |message| {
            let Message { regions, total_bytes } = message;
            if sent.count() == 0 {
                return channel.write_regions(total_bytes, regions, &mut Vec::new());
            }
            sent.send(|dispositions| channel.write_etc_regions(total_bytes, regions, dispositions))
        })
    };
    attempt().inspect_err(|_| sent.consume())
}

/// Returns the description of a handle for `zx_channel_read_etc`.
pub(super) fn describe(value: zx_handle_t, handle: &Handle) -> zx_handle_info_t {
    zx_handle_info_t {
        handle: value,
        r#type: type_of(handle.kind()),
        rights: handle.rights().bits(),
        unused: 0,
    }
}

/// Destination of a message's bytes in the program's memory.
enum Place {
    Linear(Out<u8>, usize),
    Scattered(Vec<uncopy_zx_region_t>),
}

impl Place {
    #[inline]
    fn linear(bytes: Out<u8>, length: u32) -> impl FnOnce() -> Result<Place, Status> {
        move || Ok(Place::Linear(bytes, length as usize))
    }

    /// Reads the list of regions, once.
    fn scattered(regions: In<uncopy_zx_region_t>, count: u32) -> Result<Place, Status> {
        let count = count as usize;
        if count > MAX_REGIONS {
            return Err(Status::OutOfRange);
        }
        let regions = regions.read_some(0, count)?;
        let is_valid = regions.iter().all(|region| region.reserved == 0);
        if is_valid { Ok(Place::Scattered(regions)) } else { Err(Status::InvalidArgs) }
    }

    #[inline]
    fn room(&self) -> usize {
        match self {
            Place::Linear(_, length) => *length,
            // At most 8,192 numbers of 32 bits.
            Place::Scattered(regions) => regions.iter().map(|one| one.capacity as usize).sum(),
        }
    }

    #[inline]
    fn write(&self, bytes: &[u8]) -> Result<(), Status> {
        match self {
            Place::Linear(at, _) => Ok(at.write_all(bytes)?),
            Place::Scattered(regions) => {
                let mut rest = bytes;
                for region in regions {
                    let (own, later) = rest.split_at(rest.len().min(region.capacity as usize));
                    if !own.is_empty() {
                        region.room().write_all(own)?;
                    }
                    rest = later;
                }
                Ok(())
            }
        }
    }
}

/// Destination of a message's sizes.
struct Reading {
    num_handles: u32,
    actual_bytes: Out<u32>,
    actual_handles: Out<u32>,
}

impl Reading {
    #[inline]
    fn read<T: Plain>(
        &self,
        handle: zx_handle_t,
        options: u32,
        place: impl FnOnce() -> Result<Place, Status>,
        handles: Out<T>,
        describe: impl Fn(zx_handle_t, &Handle) -> T,
    ) -> Result<(), Status> {
        let lease = table::lease(handle)?;
        let channel = lease.object::<Channel>(Rights::READ)?;
        let oversized = match options {
            0 => Oversized::Keep,
            ZX_CHANNEL_READ_MAY_DISCARD => Oversized::Discard,
            _ => return Err(Status::NotSupported),
        };
        let place = place()?;
        let room = Lengths { bytes: place.room(), handles: self.num_handles as usize };
        let message = match channel.read_fitting(room, oversized) {
            Ok(message) => message,
            Err(status) => {
                if let Status::BufferTooSmall { bytes, handles } = status {
                    self.write_lengths(bytes, handles)?;
                }
                return Err(status);
            }
        };
        self.write_lengths(message.len(), message.handles().len())?;
        hand_out(message, |bytes| place.write(bytes), handles, describe)
    }

    fn write_lengths(&self, bytes: usize, handles: usize) -> Result<(), Status> {
        // A message has at most 64 KiB and 64 handles.
        self.actual_bytes.write_if_wanted(bytes as u32)?;
        Ok(self.actual_handles.write_if_wanted(handles as u32)?)
    }
}

/// Copies a message to the program, bytes before handles. If either address is bad, the message is
/// lost and its handles are closed.
#[inline]
pub(super) fn hand_out<T: Plain>(
    mut message: MessageBuf,
    write: impl FnOnce(&[u8]) -> Result<(), Status>,
    handles: Out<T>,
    describe: impl Fn(zx_handle_t, &Handle) -> T,
) -> Result<(), Status> {
    if !message.is_empty() {
        write(&message)?;
    }
    if message.handles().is_empty() {
        return Ok(());
    }
    let mut values = Vec::with_capacity(message.handles().len());
    let mut described = Vec::with_capacity(message.handles().len());
    let mut result = Ok(());
    for handle in message.take_handles() {
        let inserted = table::insert(handle).and_then(|value| Ok((value, table::lease(value)?)));
        match inserted {
            Ok((value, lease)) => {
                values.push(value);
                described.push(describe(value, &lease));
            }
            Err(status) => result = Err(status),
        }
    }
    let result = result.and_then(|()| Ok(handles.write_all(&described)?));
    if result.is_err() {
        // Cannot fail, unless the program guessed and closed the numbers.
        for value in values {
            let _ = table::close(value);
        }
    }
    result
}
