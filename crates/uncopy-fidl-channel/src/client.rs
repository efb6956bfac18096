//! Clients: calls and events.

use std::marker::PhantomData;

use uncopy_channel::{Channel, Deadline, MessageBuf, Status};
use uncopy_fidl::{
    ClientEnd, Decode, EPITAPH_ORDINAL, Encode, Handles, Header, NoHandle, Received, TakeHandles,
    decode_message,
};

use crate::failure::Failure;
use crate::handle::{FidlHandle, arrive};
use crate::server::Openness;
use crate::transmit::{transmit, write};

/// Bit that only transaction ids of calls have, as in Zircon.
const CALL_BIT: u32 = 1 << 31;

/// Size of an epitaph: the header, a status, and padding.
const EPITAPH_BYTES: usize = 24;

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
    /// Errors of the value or the channel; [`Failure::Epitaph`] if the server has closed it with one.
    ///
    /// # Ownership
    /// The value is consumed, and its handles are closed on failure, as by `zx_channel_write`.
    pub fn send<T: Encode + TakeHandles<FidlHandle>>(
        &self,
        header: &Header,
        value: T,
    ) -> Result<(), Failure> {
        transmit(header, value, |regions, handles| write(&self.channel, regions, handles))
            .map_err(|failure| explain(&self.channel, failure))
    }

    /// Sends a message and waits for its answer.
    ///
    /// # Errors
    /// Errors of the value, the channel or the answer; [`Failure::Epitaph`] if the server has closed the channel with
    /// one.
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
        });
        answer(header, message.map_err(|failure| explain(&self.channel, failure))?)
    }

    /// Waits for the next event. Answers to calls that have ended, which come late, are dropped.
    ///
    /// # Errors
    /// [`Failure::Epitaph`] if the server sent an epitaph; errors of the channel.
    pub fn next_event(&self, deadline: Deadline) -> Result<EventMessage, Failure> {
        loop {
            if let Some(event) = EventMessage::new(self.channel.receive(deadline)?)? {
                return Ok(event);
            }
            // A server could go on with such answers for ever.
            if deadline.remaining().is_some_and(|left| left.is_zero()) {
                return Err(Status::TimedOut.into());
            }
        }
    }
}

/// Puts the server's epitaph in the place of a closed channel, if the server sent one. Events may be unread in front of
/// it, which stays in the channel.
pub(crate) fn explain(channel: &Channel, failure: Failure) -> Failure {
    let epitaph = || {
        let mut last = [0; EPITAPH_BYTES];
        let is_whole = channel.peek_last(&mut last) == Ok(last.len());
        let is_epitaph = is_whole && Header::parse(&last).ok()?.ordinal == EPITAPH_ORDINAL;
        let mut handles = Handles::<NoHandle>::from(Vec::new());
        is_epitaph.then(|| decode_message::<i32, NoHandle>(&last, &mut handles).ok())?
    };
    match failure {
        Failure::Channel(Status::PeerClosed) => epitaph().map_or(failure, Failure::Epitaph),
        other => other,
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
    /// Reads the header; `None` for an answer to a call. An epitaph ends the conversation.
    pub(crate) fn new(message: MessageBuf) -> Result<Option<EventMessage>, Failure> {
        let header = Header::parse(&message)?;
        if header.ordinal == EPITAPH_ORDINAL {
            let epitaph = Received::<i32, MessageBuf, NoHandle>::new(message, Vec::new())?;
            return Err(Failure::Epitaph(epitaph.view()?));
        }
        let Header { ordinal, txid, .. } = header;
        match txid {
            0 => Ok(Some(EventMessage { header, message })),
            CALL_BIT.. => Ok(None),
            _ => Err(Failure::WrongTransaction { ordinal, txid }),
        }
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
