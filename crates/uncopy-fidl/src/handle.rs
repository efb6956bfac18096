//! Handles: what a message carries beside its bytes, whatever they are on this system.

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
/// The codec is generic over it: Zircon's number, a channel's handle, a file descriptor. Every crate
/// may implement it for its own.
pub trait CodecHandle: Sized {
    /// What it is a handle to. [`ObjectType::ANY`] where that is not known: no type is refused
    /// then.
    fn object_type(&self) -> ObjectType;

    /// What may be done with it. [`HandleRights::SAME_RIGHTS`] where that is not known: nothing is
    /// missing then.
    fn rights(&self) -> HandleRights;

    /// The handle with these rights only, all of which it has. None if that cannot be had; the
    /// handle is closed then.
    fn narrowed(self, rights: HandleRights) -> Option<Self>;
}

/// For messages without handles: there is none of it.
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

/// What a handle is to, by Zircon's numbers (`zx_obj_type_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectType(pub u32);

impl ObjectType {
    /// Any, or not known (`ZX_OBJ_TYPE_NONE`).
    pub const ANY: ObjectType = ObjectType(0);
    /// Memory.
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
    /// What may be done with a handle, by Zircon's numbers (`zx_rights_t`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct HandleRights: u32 {
        /// Make further handles to the object.
        const DUPLICATE = 1;
        /// Send it.
        const TRANSFER = 1 << 1;
        /// Read.
        const READ = 1 << 2;
        /// Write.
        const WRITE = 1 << 3;
        /// Execute.
        const EXECUTE = 1 << 4;
        /// Map.
        const MAP = 1 << 5;
        /// Read properties.
        const GET_PROPERTY = 1 << 6;
        /// Write properties.
        const SET_PROPERTY = 1 << 7;
        /// Change user signals.
        const SIGNAL = 1 << 12;
        /// Change the peer's user signals.
        const SIGNAL_PEER = 1 << 13;
        /// Wait for signals.
        const WAIT = 1 << 14;
        /// Ask about the object.
        const INSPECT = 1 << 15;
        /// Whatever it has (`ZX_RIGHT_SAME_RIGHTS`).
        const SAME_RIGHTS = 1 << 31;
        /// Those that almost every handle has (`ZX_RIGHTS_BASIC`).
        const BASIC = Self::TRANSFER.bits() | Self::DUPLICATE.bits() | Self::WAIT.bits()
            | Self::INSPECT.bits();
        /// Read and write (`ZX_RIGHTS_IO`).
        const IO = Self::READ.bits() | Self::WRITE.bits();
        /// Those of a new channel's end (`ZX_DEFAULT_CHANNEL_RIGHTS`), which has exactly one handle.
        const CHANNEL_DEFAULT = (Self::BASIC.bits() & !Self::DUPLICATE.bits()) | Self::IO.bits()
            | Self::SIGNAL.bits() | Self::SIGNAL_PEER.bits();

        const _ = !0;
    }
}

/// A handle that leaves with a message, and what it must be when it does. Whoever writes the
/// message checks that, as `zx_channel_write_etc` does.
#[derive(Debug, PartialEq, Eq)]
pub struct Departing<H> {
    /// The handle.
    pub handle: H,
    /// What its field demands.
    pub constraint: HandleConstraint,
}

/// A field that holds a handle, until the handle leaves with a message.
///
/// The handle is taken out by [`take_handles`](crate::take_handles) before the value is encoded;
/// from then on the field only says that there was one. Dropping a field closes what is in it.
#[derive(Debug, PartialEq, Eq)]
pub struct OwnedHandle<H>(Option<H>);

impl<H> OwnedHandle<H> {
    /// The handle, unless it has left.
    pub fn into_inner(self) -> Option<H> {
        self.0
    }

    /// The handle, unless it has left.
    pub fn get(&self) -> Option<&H> {
        self.0.as_ref()
    }
}

impl<H> From<H> for OwnedHandle<H> {
    fn from(handle: H) -> OwnedHandle<H> {
        OwnedHandle(Some(handle))
    }
}

/// Handles that leave, in the order in which their fields are visited.
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

/// A type whose handles, of type `H`, can be taken out. Value types have none of any type. Made by
/// `#[derive(Fidl)]`, and [by nothing else](Layout).
pub trait TakeHandles<H>: Layout {
    /// Moves every handle out, in the order of the wire.
    ///
    /// # Errors
    /// [`Rule::HandleGone`] at the first that has left before; those before it are in `leaving`.
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
    // Handles are counted where objects out of line are written.
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

/// Names a handle that came with a message: its place among them. [`Handles::take`] gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandleIndex(usize);

impl HandleIndex {
    /// The place, from 0.
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
        let index = decoder.take_handle_place(inline)?;
        let handle = arriving.take(index, constraint).map_err(|rule| inline.breaks(rule))?;
        Ok(OwnedHandle(handle))
    }
}

/// Handles that arrive in a value while it is read.
#[derive(Debug)]
pub struct Arriving<'h, H> {
    handles: &'h mut Handles<H>,
    /// Checks one, unless all were checked before.
    claim: Option<Claim<H>>,
}

/// [`HandleTable::claim`] of handles of one type.
type Claim<H> = fn(&mut Handles<H>, usize, HandleConstraint) -> Result<(), Rule>;

impl<'h, H> Arriving<'h, H> {
    /// Handles that each field checks.
    pub(crate) fn new(handles: &'h mut Handles<H>) -> Arriving<'h, H>
    where
        H: CodecHandle,
    {
        Arriving { handles, claim: Some(HandleTable::claim) }
    }

    /// Handles that were checked when their message was. What was taken since stays away.
    pub(crate) fn checked(handles: &'h mut Handles<H>) -> Arriving<'h, H> {
        Arriving { handles, claim: None }
    }

    /// All of them.
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

/// Handles that came with a message: each can be taken once, and what is left is closed when this
/// is dropped.
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
    /// Takes the handle that a view names. None if it was taken before.
    pub fn take(&mut self, index: HandleIndex) -> Option<H> {
        self.slots.get_mut(index.0)?.take()
    }

    /// How many there are that were not taken.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// Closes all that were not taken.
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
