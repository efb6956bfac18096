//! Servers: requests and answers.

#[cfg(feature = "tokio")]
use uncopy_channel as channel;
use uncopy_channel::{Channel, Deadline, MessageBuf, Status};
use uncopy_fidl::{
    Decode, Encode, FromView, Handles, Header, MethodResult, NoPayload, TakeHandles,
    UNKNOWN_METHOD, decode_message,
};

use crate::failure::Failure;
use crate::handle::{FidlHandle, arrive};
use crate::transmit::{transmit, write};

/// Treatment of methods and events that are not in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Openness {
    /// Every unknown message ends the conversation.
    Closed,
    /// Unknown flexible messages without an answer are ignored.
    Ajar,
    /// As `Ajar`, and unknown flexible calls are answered.
    Open,
}

/// Decision about an unknown message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unknown {
    PassOver,
    Answer,
    End,
}

fn unknown(openness: Openness, header: &Header) -> Unknown {
    match (header.is_flexible, header.txid, openness) {
        (true, 0, Openness::Ajar | Openness::Open) => Unknown::PassOver,
        (true, 1.., Openness::Open) => Unknown::Answer,
        _ => Unknown::End,
    }
}

/// A request: a view of the message, and its handles.
#[derive(Debug)]
#[non_exhaustive]
pub struct Request<'a, T: Decode> {
    /// View of the payload.
    pub view: T::View<'a>,
    /// Handles of the message. Those that are not taken are closed.
    pub handles: &'a mut Handles<FidlHandle>,
}

impl<T: FromView<FidlHandle>> Request<'_, T> {
    /// Makes an owned value.
    #[must_use]
    pub fn into_owned(self) -> T {
        T::from_view(self.view, self.handles)
    }
}

/// Receiver of requests. `#[protocol]` generates one for every implementation of the protocol's
/// server trait.
///
/// Not sealed: a service may be written by hand, for example to forward messages.
pub trait Service {
    /// Handles one message.
    ///
    /// # Errors
    /// Any error that ends the conversation.
    fn dispatch(&self, interaction: Interaction<'_>) -> Result<(), Failure>;
}

/// A message, and the destination of its answer.
#[derive(Debug)]
pub struct Interaction<'a> {
    header: Header,
    message: &'a [u8],
    handles: Handles<FidlHandle>,
    answers: Answers<'a>,
}

#[derive(Debug)]
enum Answers<'a> {
    /// Written at once.
    To(&'a Channel),
    /// Written if there is room, and kept for a caller that can wait otherwise.
    #[cfg(feature = "tokio")]
    Kept(&'a Channel, &'a mut Option<Kept>),
}

/// An answer for which there was no room.
#[cfg(feature = "tokio")]
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) bytes: Vec<u8>,
    pub(crate) handles: Vec<channel::Handle>,
}

impl<'a> Interaction<'a> {
    fn new(message: &'a mut MessageBuf, answers: Answers<'a>) -> Result<Interaction<'a>, Failure> {
        let handles = Handles::from(arrive(message.take_handles()));
        let header = Header::parse(message)?;
        Ok(Interaction { header, message, handles, answers })
    }

    /// Returns the ordinal of the method.
    #[must_use]
    pub fn ordinal(&self) -> u64 {
        self.header.ordinal
    }

    /// Handles a method without an answer.
    ///
    /// # Errors
    /// Any rule that the message breaks.
    pub fn one_way<T: Decode>(self, act: impl FnOnce(Request<'_, T>)) -> Result<(), Failure> {
        let Interaction { header, message, mut handles, .. } = self;
        let Header { ordinal, txid, .. } = header;
        if txid != 0 {
            return Err(Failure::WrongTransaction { ordinal, txid });
        }
        let view = decode_message::<T, FidlHandle>(message, &mut handles)?;
        act(Request { view, handles: &mut handles });
        Ok(())
    }

    /// Handles a method with an answer.
    ///
    /// # Errors
    /// Errors of the message, the answer or the channel.
    pub fn two_way<T: Decode, R: Encode + TakeHandles<FidlHandle>>(
        self,
        answer: impl FnOnce(Request<'_, T>) -> R,
    ) -> Result<(), Failure> {
        let Interaction { header, message, mut handles, answers } = self;
        let Header { ordinal, txid, .. } = header;
        if txid == 0 {
            return Err(Failure::WrongTransaction { ordinal, txid });
        }
        let view = decode_message::<T, FidlHandle>(message, &mut handles)?;
        answers.send(&header, answer(Request { view, handles: &mut handles }))
    }

    /// Handles a method that is not in the protocol. `note` is called for those that are ignored or
    /// answered.
    ///
    /// # Errors
    /// [`Failure::UnknownInteraction`].
    pub fn unknown(self, openness: Openness, note: impl FnOnce(u64)) -> Result<(), Failure> {
        let ordinal = self.header.ordinal;
        match unknown(openness, &self.header) {
            Unknown::PassOver => note(ordinal),
            Unknown::Answer => {
                note(ordinal);
                let answer = MethodResult::<NoPayload, NoPayload, true>::Framework(UNKNOWN_METHOD);
                self.answers.send(&self.header, answer)?;
            }
            Unknown::End => return Err(Failure::UnknownInteraction { ordinal }),
        }
        Ok(())
    }
}

impl Answers<'_> {
    fn send<R: Encode + TakeHandles<FidlHandle>>(
        self,
        header: &Header,
        answer: R,
    ) -> Result<(), Failure> {
        match self {
            Answers::To(channel) => {
                transmit(header, answer, |regions, handles| write(channel, regions, handles))
            }
            #[cfg(feature = "tokio")]
            Answers::Kept(channel, kept) => {
                transmit(header, answer, |regions, mut handles| {
                    let written = channel.try_write(regions, &mut handles);
                    if written != Err(Status::ShouldWait) {
                        return written;
                    }
                    // The regions are the value's, which does not live as long as the wait.
                    let bytes = regions.iter().flat_map(|region| region.iter().copied()).collect();
                    *kept = Some(Kept { bytes, handles });
                    Ok(())
                })
            }
        }
    }
}

/// Handles one message, and returns the answer if there is no room for it.
#[cfg(feature = "tokio")]
pub(crate) fn dispatch_keeping(
    channel: &Channel,
    service: &impl Service,
    mut message: MessageBuf,
) -> Result<Option<Kept>, Failure> {
    let mut kept = None;
    service.dispatch(Interaction::new(&mut message, Answers::Kept(channel, &mut kept))?)?;
    Ok(kept)
}

/// Serves until the other end is closed.
///
/// # Errors
/// Any error that ends the conversation. Close the channel then; call [`send_epitaph`] first to
/// give the client the reason.
pub fn serve(channel: &Channel, service: &impl Service) -> Result<(), Failure> {
    loop {
        match channel.receive(Deadline::INFINITE) {
            Ok(mut message) => {
                service.dispatch(Interaction::new(&mut message, Answers::To(channel))?)?;
            }
            Err(Status::PeerClosed) => return Ok(()),
            Err(status) => return Err(status.into()),
        }
    }
}

/// Sends an event, waiting for room in the channel.
///
/// # Errors
/// Errors of the value or the channel.
///
/// # Ownership
/// The value is consumed, and its handles are closed on failure, as by `zx_channel_write`.
pub fn send_event<T: Encode + TakeHandles<FidlHandle>>(
    channel: &Channel,
    header: &Header,
    event: T,
) -> Result<(), Failure> {
    transmit(header, event, |regions, handles| write(channel, regions, handles))
}

/// Sends an epitaph with this status. Close the channel afterwards.
///
/// # Errors
/// Errors of the channel.
pub fn send_epitaph(channel: &Channel, status: i32) -> Result<(), Failure> {
    send_event(channel, &Header::epitaph(), status)
}

#[cfg(test)]
mod tests {
    use super::{Header, Openness, Unknown, unknown};

    #[test]
    fn unknown_messages_go_by_their_flag_and_the_protocol() {
        let one_way = Header::one_way(9);
        let two_way = Header::two_way(3, 9);
        for (header, open, ajar, closed) in [
            (one_way.flexible(), Unknown::PassOver, Unknown::PassOver, Unknown::End),
            (two_way.flexible(), Unknown::Answer, Unknown::End, Unknown::End),
            (one_way, Unknown::End, Unknown::End, Unknown::End),
            (two_way, Unknown::End, Unknown::End, Unknown::End),
        ] {
            assert_eq!(unknown(Openness::Open, &header), open);
            assert_eq!(unknown(Openness::Ajar, &header), ajar);
            assert_eq!(unknown(Openness::Closed, &header), closed);
        }
    }
}
