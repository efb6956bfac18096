//! Handles in messages, independent of what a handle is on this system.

use std::fmt;

use crate::decode::{Decode, DecodeOptional, Decoder, FromView, HandleTable, Inline};
use crate::encode::{Encode, EncodeOptional, Optional, Output};
use crate::error::{Error, Result, Rule};
use crate::layout::{HandleConstraint, Layout};
use crate::lazy::Items;
use crate::limits::Depth;
use crate::validity::Validity;

/// A handle that the codec can move and check.
///
/// The codec is generic over it: Zircon's number, a channel's handle, a file descriptor. Any crate
/// can implement it for its own type.
pub trait CodecHandle: Sized {
    /// Returns the type of the object. [`ObjectType::ANY`] if it is unknown; then no type is
    /// refused.
    fn object_type(&self) -> ObjectType;

    /// Returns the rights. [`HandleRights::SAME_RIGHTS`] if they are unknown; then no right is
    /// missing.
    fn rights(&self) -> HandleRights;

    /// Reduces the handle to these rights, all of which it has. `None` if that is impossible; the
    /// handle is closed then.
    fn narrowed(self, rights: HandleRights) -> Option<Self>;
}

/// The handle type of messages without handles. It has no values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoHandle {}

impl CodecHandle for NoHandle {
    fn object_type(&self) -> ObjectType {
        match *self {}
    }

    fn rights(&self) -> HandleRights {
        match *self {}
    }

    fn narrowed(self, _: HandleRights) -> Option<NoHandle> {
        match self {}
    }
}

/// Type of the object behind a handle, by Zircon's numbers (`zx_obj_type_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectType(pub u32);

impl ObjectType {
    /// Any type, or unknown (`ZX_OBJ_TYPE_NONE`).
    pub const ANY: ObjectType = ObjectType(0);
    /// A memory object (VMO).
    pub const VMO: ObjectType = ObjectType(3);
    /// An end of a channel.
    pub const CHANNEL: ObjectType = ObjectType(4);
    /// An event.
    pub const EVENT: ObjectType = ObjectType(5);
    /// A port.
    pub const PORT: ObjectType = ObjectType(6);
    /// An end of a socket.
    pub const SOCKET: ObjectType = ObjectType(14);
    /// An end of an event pair.
    pub const EVENTPAIR: ObjectType = ObjectType(16);
    /// An end of a fifo.
    pub const FIFO: ObjectType = ObjectType(19);
}

impl fmt::Display for ObjectType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            ObjectType::ANY => "anything",
            ObjectType::VMO => "a vmo",
            ObjectType::CHANNEL => "a channel",
            ObjectType::EVENT => "an event",
            ObjectType::PORT => "a port",
            ObjectType::SOCKET => "a socket",
            ObjectType::EVENTPAIR => "an event pair",
            ObjectType::FIFO => "a fifo",
            ObjectType(number) => return write!(f, "an object of type {number}"),
        };
        f.write_str(name)
    }
}

bitflags::bitflags! {
    /// Rights of a handle, by Zircon's numbers (`zx_rights_t`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct HandleRights: u32 {
        /// Duplicate the handle.
        const DUPLICATE = 1;
        /// Transfer the handle to another process.
        const TRANSFER = 1 << 1;
        /// Read from the object.
        const READ = 1 << 2;
        /// Write to the object.
        const WRITE = 1 << 3;
        /// Execute the object's memory.
        const EXECUTE = 1 << 4;
        /// Map the object's memory.
        const MAP = 1 << 5;
        /// Read the object's properties.
        const GET_PROPERTY = 1 << 6;
        /// Write the object's properties.
        const SET_PROPERTY = 1 << 7;
        /// Change the object's user signals.
        const SIGNAL = 1 << 12;
        /// Change the peer's user signals.
        const SIGNAL_PEER = 1 << 13;
        /// Wait for the object's signals.
        const WAIT = 1 << 14;
        /// Query information about the object.
        const INSPECT = 1 << 15;
        /// The same rights as before (`ZX_RIGHT_SAME_RIGHTS`).
        const SAME_RIGHTS = 1 << 31;
        /// Rights that almost every handle has (`ZX_RIGHTS_BASIC`).
        const BASIC = Self::TRANSFER.bits() | Self::DUPLICATE.bits() | Self::WAIT.bits()
            | Self::INSPECT.bits();
        /// Read and write (`ZX_RIGHTS_IO`).
        const IO = Self::READ.bits() | Self::WRITE.bits();
        /// Rights of a new channel's end (`ZX_DEFAULT_CHANNEL_RIGHTS`), which has exactly one
        /// handle.
        const CHANNEL_DEFAULT = (Self::BASIC.bits() & !Self::DUPLICATE.bits()) | Self::IO.bits()
            | Self::SIGNAL.bits() | Self::SIGNAL_PEER.bits();

        const _ = !0;
    }
}

/// A handle that is sent with a message, and the constraint of its field. The writer of the message
/// checks the constraint, as `zx_channel_write_etc` does.
#[derive(Debug, PartialEq, Eq)]
pub struct Departing<H> {
    /// The handle.
    pub handle: H,
    /// Constraint of its field.
    pub constraint: HandleConstraint,
}

/// A field with a handle, until the handle is sent with a message.
///
/// [`take_handles`](crate::take_handles) takes the handle out before the value is encoded;
/// afterwards the field only records that it was present. Dropping a field closes its handle.
#[derive(Debug, PartialEq, Eq)]
pub struct OwnedHandle<H>(Option<H>);

impl<H> OwnedHandle<H> {
    /// Returns the handle, unless it was taken.
    pub fn into_inner(self) -> Option<H> {
        self.0
    }

    /// Borrows the handle, unless it was taken.
    pub fn get(&self) -> Option<&H> {
        self.0.as_ref()
    }
}

impl<H> From<H> for OwnedHandle<H> {
    fn from(handle: H) -> OwnedHandle<H> {
        OwnedHandle(Some(handle))
    }
}

/// Handles to be sent, in the order of their fields.
#[derive(Debug)]
pub struct Leaving<'a, H> {
    handles: &'a mut Vec<Departing<H>>,
}

impl<'a, H> Leaving<'a, H> {
    pub(crate) fn new(handles: &'a mut Vec<Departing<H>>) -> Leaving<'a, H> {
        Leaving { handles }
    }

    fn push(&mut self, handle: H, constraint: HandleConstraint) {
        self.handles.push(Departing { handle, constraint });
    }
}

/// A type whose handles of type `H` can be taken out. Value types have no handles of any type.
/// Implemented by `#[derive(Fidl)]`, and [by nothing else](Layout).
pub trait TakeHandles<H>: Layout {
    /// Moves every handle out, in wire order.
    ///
    /// # Errors
    /// [`Rule::HandleGone`] at the first one that was already taken; the ones before it are in
    /// `leaving`.
    fn take_handles(
        &mut self,
        leaving: &mut Leaving<'_, H>,
        constraint: Self::Constraint,
    ) -> Result<()> {
        let _ = (leaving, constraint);
        Ok(())
    }
}

impl<H> Layout for OwnedHandle<H> {
    const SIZE: usize = 4;
    const ALIGN: usize = 4;
    // Handles are counted together with out-of-line objects.
    const IS_FLAT: bool = false;
    const HAS_HANDLES: bool = true;
    const VALIDITY: Validity = Validity::Checked;
    type Constraint = HandleConstraint;
    const UNCONSTRAINED: HandleConstraint = HandleConstraint::ANY;
}

/// `FIDL_HANDLE_PRESENT`.
const PRESENT: u32 = u32::MAX;

impl<H> Encode for OwnedHandle<H> {
    #[inline]
    fn encode_inline(&self, inline: &mut [u8], _: HandleConstraint) -> Result<()> {
        if self.0.is_some() {
            return Err(Error::new(Rule::HandleNotTaken));
        }
        inline.copy_from_slice(&PRESENT.to_le_bytes());
        Ok(())
    }

    #[inline]
    fn encode_rest<'v, O: Output<'v>>(
        &'v self,
        out: &mut O,
        _: usize,
        _: HandleConstraint,
        _: Depth,
    ) -> Result<()> {
        out.count_handle()
    }
}

impl<H> TakeHandles<H> for OwnedHandle<H> {
    fn take_handles(
        &mut self,
        leaving: &mut Leaving<'_, H>,
        constraint: HandleConstraint,
    ) -> Result<()> {
        let handle = self.0.take().ok_or_else(|| Error::new(Rule::HandleGone))?;
        leaving.push(handle, constraint);
        Ok(())
    }
}

impl<H> Optional for OwnedHandle<H> {
    const OPTIONAL_SIZE: usize = 4;
    const OPTIONAL_ALIGN: usize = 4;
}

impl<H> EncodeOptional for OwnedHandle<H> {}

/// Index of a handle among those of its message. [`Handles::take`] returns the handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandleIndex(usize);

impl HandleIndex {
    /// Returns the index, from 0.
    #[must_use]
    pub fn get(self) -> usize {
        self.0
    }
}

impl<H> Decode for OwnedHandle<H> {
    type View<'a> = HandleIndex;
    type Slice<'a> = Items<'a, OwnedHandle<H>>;

    #[inline]
    fn decode<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: HandleConstraint,
        depth: Depth,
    ) -> Result<HandleIndex> {
        let handle = Self::decode_optional(inline, decoder, constraint, depth)?;
        handle.ok_or_else(|| inline.breaks(Rule::RequiredIsAbsent))
    }

    fn decode_items<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: HandleConstraint,
        depth: Depth,
    ) -> Result<Items<'a, Self>> {
        Items::decode(inline, decoder, constraint, depth)
    }
}

#[inline]
fn is_present(inline: Inline<'_>) -> Result<bool> {
    match u32::from_le_bytes(inline.array()) {
        0 => Ok(false),
        PRESENT => Ok(true),
        found => Err(inline.breaks(Rule::InvalidHandlePresence { found })),
    }
}

impl<H> DecodeOptional for OwnedHandle<H> {
    #[inline]
    fn decode_optional<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: HandleConstraint,
        _: Depth,
    ) -> Result<Option<HandleIndex>> {
        match is_present(inline)? {
            true => decoder.claim_handle(inline, constraint).map(|i| Some(HandleIndex(i))),
            false => Ok(None),
        }
    }

    fn present<'a>(
        inline: Inline<'a>,
        _: &mut Decoder<'a, '_>,
        depth: Depth,
    ) -> Result<Option<(Inline<'a>, Depth)>> {
        Ok(is_present(inline)?.then_some((inline, depth)))
    }
}

impl<H> FromView<H> for OwnedHandle<H> {
    fn from_view(view: HandleIndex, handles: &mut Handles<H>) -> OwnedHandle<H> {
        OwnedHandle(handles.take(view))
    }

    fn from_items(items: Self::Slice<'_>, handles: &mut Handles<H>) -> impl Iterator<Item = Self> {
        items.into_values(handles)
    }

    #[inline]
    fn read<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        arriving: &mut Arriving<'_, H>,
        constraint: HandleConstraint,
        _: Depth,
    ) -> Result<OwnedHandle<H>> {
        if !is_present(inline)? {
            return Err(inline.breaks(Rule::RequiredIsAbsent));
        }
        let index = decoder.take_handle_index(inline)?;
        let handle = arriving.take(index, constraint).map_err(|rule| inline.breaks(rule))?;
        Ok(OwnedHandle(handle))
    }
}

/// Handles of a message while a value is read from it.
#[derive(Debug)]
pub struct Arriving<'h, H> {
    handles: &'h mut Handles<H>,
    /// Function that checks a handle. `None` if all were checked before.
    claim: Option<Claim<H>>,
}

/// [`HandleTable::claim`] for handles of one type.
type Claim<H> = fn(&mut Handles<H>, usize, HandleConstraint) -> Result<(), Rule>;

impl<'h, H> Arriving<'h, H> {
    /// Makes a source of handles that checks each one.
    pub(crate) fn new(handles: &'h mut Handles<H>) -> Arriving<'h, H>
    where
        H: CodecHandle,
    {
        Arriving { handles, claim: Some(HandleTable::claim) }
    }

    /// Makes a source of handles that were checked with their message. A handle that was already
    /// taken stays absent.
    pub(crate) fn checked(handles: &'h mut Handles<H>) -> Arriving<'h, H> {
        Arriving { handles, claim: None }
    }

    /// Returns all of them.
    pub(crate) fn handles(&mut self) -> &mut Handles<H> {
        self.handles
    }

    fn take(&mut self, index: usize, wanted: HandleConstraint) -> Result<Option<H>, Rule> {
        if let Some(claim) = self.claim {
            claim(self.handles, index, wanted)?;
        }
        Ok(self.handles.take(HandleIndex(index)))
    }
}

/// Handles received with a message. Each can be taken once; the others are closed when this is
/// dropped.
#[derive(Debug)]
pub struct Handles<H> {
    slots: Vec<Option<H>>,
}

impl<H> Default for Handles<H> {
    fn default() -> Handles<H> {
        Handles { slots: Vec::new() }
    }
}

impl<H> From<Vec<H>> for Handles<H> {
    #[inline]
    fn from(handles: Vec<H>) -> Handles<H> {
        Handles { slots: handles.into_iter().map(Some).collect() }
    }
}

impl<H> Handles<H> {
    /// Takes the handle at this index. `None` if it was already taken.
    pub fn take(&mut self, index: HandleIndex) -> Option<H> {
        self.slots.get_mut(index.0)?.take()
    }

    /// Returns the number of handles that were not taken.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// Closes all handles that were not taken.
    pub fn close(&mut self) {
        self.slots.clear();
    }
}

impl<H: CodecHandle> HandleTable for Handles<H> {
    fn count(&self) -> usize {
        self.slots.len()
    }

    fn claim(&mut self, index: usize, wanted: HandleConstraint) -> Result<(), Rule> {
        let slot = &mut self.slots[index];
        let handle = slot.as_ref().ok_or(Rule::HandleGone)?;
        let Some(rights) = wanted.narrowing(handle.object_type(), handle.rights())? else {
            return Ok(());
        };
        *slot = slot.take().and_then(|handle| handle.narrowed(rights));
        if slot.is_some() { Ok(()) } else { Err(Rule::CannotNarrow { wanted: rights }) }
    }

    fn close(&mut self, index: usize) {
        self.slots[index] = None;
    }
}
