//! Handles of channels, for the codec.

use uncopy_channel::{self as channel, Object, Status};
use uncopy_fidl::{CodecHandle as _, Departing, HandleRights, ObjectType, Rule};

use crate::failure::Failure;

/// A handle of [`uncopy_channel`] in a message's fields: `OwnedHandle<FidlHandle>`.
#[derive(Debug)]
pub struct FidlHandle(channel::Handle);

impl FidlHandle {
    /// Makes a handle from any object.
    pub fn new(object: impl Into<channel::Handle>) -> FidlHandle {
        FidlHandle(object.into())
    }

    /// Returns the channel's handle.
    #[must_use]
    pub fn into_inner(self) -> channel::Handle {
        self.0
    }

    pub(crate) fn as_inner(&self) -> &channel::Handle {
        &self.0
    }
}

impl uncopy_fidl::CodecHandle for FidlHandle {
    fn object_type(&self) -> ObjectType {
        ObjectType(self.0.kind() as u32)
    }

    fn rights(&self) -> HandleRights {
        HandleRights::from_bits_retain(self.0.rights().bits())
    }

    fn narrowed(self, rights: HandleRights) -> Option<FidlHandle> {
        let rights = channel::Rights::from_bits_retain(rights.bits());
        self.0.replace(Some(rights)).ok().map(FidlHandle)
    }
}

/// Checks handles against the constraints of their fields before they are written, and reduces
/// their rights. Closes all of them on failure.
pub(crate) fn depart(leaving: Vec<Departing<FidlHandle>>) -> Result<Vec<channel::Handle>, Failure> {
    let departed = leaving.into_iter().map(|Departing { handle, constraint }| {
        match constraint.narrowing(handle.object_type(), handle.rights()) {
            Ok(None) => Ok(handle.0),
            Ok(Some(rights)) => {
                let rights = channel::Rights::from_bits_retain(rights.bits());
                Ok(handle.0.replace(Some(rights))?)
            }
            Err(Rule::WrongHandleType { .. }) => Err(Failure::Channel(Status::WrongType)),
            Err(rule) => Err(Failure::Message(rule.into())),
        }
    });
    departed.collect()
}

/// Converts handles that were read.
pub(crate) fn arrive(handles: Vec<channel::Handle>) -> Vec<FidlHandle> {
    handles.into_iter().map(FidlHandle).collect()
}
