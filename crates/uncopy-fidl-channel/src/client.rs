//! Clients: calls and events.

use std::marker::PhantomData;

use uncopy_channel::{Channel, Deadline, MessageBuf};
use uncopy_fidl::{
    ClientEnd, Decode, EPITAPH_ORDINAL, Encode, Header, NoHandle, Received, TakeHandles,
};

use crate::failure::Failure;
use crate::handle::{FidlHandle, arrive};
use crate::server::Openness;
use crate::transmit::{transmit, write};

/// A checked answer, in the memory in which it was received.
pub type Response<T> = Received<T, MessageBuf, FidlHandle>;

/// The client end of a channel with protocol `P`, without the methods' names. `#[protocol]` wraps
/// it in typed clients.
#[derive(Debug)]
pub struct Client<P> {
    channel: Channel,
    of: PhantomData<fn() -> P>,
}

/// A message that is not an answer.
#[derive(Debug)]
pub struct EventMessage {
    header: Header,
    message: MessageBuf,
}

impl<P> Client<P> {
    /// Makes a client that uses `channel`.
    #[must_use]
    pub fn new(channel: Channel) -> Client<P> {
        Client { channel, of: PhantomData }
    }

    /// Makes a client from an end received in a message. `None` if the handle was taken, or is not
    /// a channel.
    #[must_use]
    pub fn from_end(end: ClientEnd<P, FidlHandle>) -> Option<Client<P>> {
        let channel = Channel::try_from(end.into_inner()?.into_inner());
        channel.ok().map(Client::new)
    }

    /// Returns the channel.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Sends a message without an answer, waiting for room in the channel.
    ///
    /// # Errors
    /// Errors of the value or the channel.
    ///
    /// # Ownership
    /// The value is consumed, and its handles are closed on failure, as by `zx_channel_write`.
    pub fn send<T: Encode + TakeHandles<FidlHandle>>(
        &self,
        header: &Header,
        value: T,
    ) -> Result<(), Failure> {
        transmit(header, value, |regions, handles| write(&self.channel, regions, handles))
    }

    /// Sends a message and waits for its answer.
    ///
    /// # Errors
    /// Errors of the value, the channel or the answer.
    ///
    /// # Ownership
    /// The value is consumed, and its handles are closed on failure, as by `zx_channel_write`.
    pub fn call<T: Encode + TakeHandles<FidlHandle>, R: Decode>(
        &self,
        header: &Header,
        value: T,
        deadline: Deadline,
    ) -> Result<Response<R>, Failure> {
        let message = transmit(header, value, |regions, handles| {
            self.channel.call(regions, handles, deadline)
        })?;
        answer(header, message)
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// [`Failure::Epitaph`] if the server sent an epitaph; errors of the channel.
    pub fn next_event(&self, deadline: Deadline) -> Result<EventMessage, Failure> {
        EventMessage::new(self.channel.receive(deadline)?)
    }
}

/// Checks the answer to `header`.
pub(crate) fn answer<R: Decode>(
    header: &Header,
    mut message: MessageBuf,
) -> Result<Response<R>, Failure> {
    let found = Header::parse(&message)?.ordinal;
    if found != header.ordinal {
        return Err(Failure::WrongAnswer { expected: header.ordinal, found });
    }
    let handles = arrive(message.take_handles());
    Ok(Received::new(message, handles)?)
}

impl EventMessage {
    /// Reads the header. An epitaph ends the conversation.
    pub(crate) fn new(message: MessageBuf) -> Result<EventMessage, Failure> {
        let header = Header::parse(&message)?;
        if header.ordinal == EPITAPH_ORDINAL {
            let epitaph = Received::<i32, MessageBuf, NoHandle>::new(message, Vec::new())?;
            return Err(Failure::Epitaph(epitaph.view()?));
        }
        if header.txid != 0 {
            let Header { ordinal, txid, .. } = header;
            return Err(Failure::WrongTransaction { ordinal, txid });
        }
        Ok(EventMessage { header, message })
    }

    /// Returns the ordinal of the event.
    #[must_use]
    pub fn ordinal(&self) -> u64 {
        self.header.ordinal
    }

    /// Decodes the payload.
    ///
    /// # Errors
    /// Any rule that the payload breaks.
    pub fn payload<T: Decode>(self) -> Result<Response<T>, Failure> {
        let mut message = self.message;
        let handles = arrive(message.take_handles());
        Ok(Received::new(message, handles)?)
    }

    /// Ignores an event that is not in the protocol, if the protocol allows it.
    ///
    /// # Errors
    /// [`Failure::UnknownInteraction`].
    pub fn unknown(self, openness: Openness) -> Result<(), Failure> {
        if self.header.is_flexible && openness != Openness::Closed {
            return Ok(());
        }
        Err(Failure::UnknownInteraction { ordinal: self.header.ordinal })
    }
}
