//! Clients and servers for tasks of a Tokio runtime.

use std::marker::PhantomData;

use uncopy_channel::{AsyncChannel, Status};
use uncopy_fidl::{Decode, Encode, Header, RegionList, TakeHandles};

use crate::client::{EventMessage, Response, answer, explain};
use crate::failure::Failure;
use crate::handle::FidlHandle;
use crate::server::{Kept, Service, dispatch_keeping};
use crate::transmit::{departed, keep_encoder, take_encoder};

/// A [`Client`](crate::Client) whose calls wait without blocking the thread. Every future may be
/// dropped at any time, like those of [`AsyncChannel`].
#[derive(Debug)]
pub struct AsyncClient<P> {
    channel: AsyncChannel,
    of: PhantomData<fn() -> P>,
}

impl<P> AsyncClient<P> {
    /// Makes a client that uses `channel`.
    #[must_use]
    pub fn new(channel: AsyncChannel) -> AsyncClient<P> {
        AsyncClient { channel, of: PhantomData }
    }

    /// Returns the channel.
    #[must_use]
    pub fn channel(&self) -> &AsyncChannel {
        &self.channel
    }

    /// Sends a message without an answer, waiting for room in the channel.
    ///
    /// # Errors
    /// Errors of the value or the channel; [`Failure::Epitaph`] if the server has closed it with one.
    ///
    /// # Ownership
    /// The value is consumed, and its handles are closed on failure, as by `zx_channel_write`.
    ///
    /// # Cancel safety
    /// A future that is dropped before it is ready has sent nothing; its handles are closed.
    pub async fn send<T: Encode + TakeHandles<FidlHandle>>(
        &self,
        header: &Header,
        mut value: T,
    ) -> Result<(), Failure> {
        let mut handles = departed(&mut value)?;
        let (mut encoder, mut list) = (take_encoder(), RegionList::new());
        let regions = encoder.gather_message(header, &value, &mut list)?;
        let sent = self.channel.write(regions.as_slices(), &mut handles).await;
        sent.map_err(|status| self.explain(status))?;
        drop(list);
        keep_encoder(encoder);
        Ok(())
    }

    /// Sends a message and waits for its answer.
    ///
    /// # Errors
    /// Errors of the value, the channel or the answer; [`Failure::Epitaph`] if the server has closed the channel with
    /// one.
    ///
    /// # Ownership
    /// The value is consumed, and its handles are closed on failure, as by `zx_channel_write`.
    ///
    /// # Cancel safety
    /// A dropped future behaves as for [`send`](Self::send). The answer to a call that was sent and
    /// dropped is dropped by [`next_event`](Self::next_event).
    pub async fn call<T: Encode + TakeHandles<FidlHandle>, R: Decode>(
        &self,
        header: &Header,
        mut value: T,
    ) -> Result<Response<R>, Failure> {
        let mut handles = departed(&mut value)?;
        let (mut encoder, mut list) = (take_encoder(), RegionList::new());
        let regions = encoder.gather_message(header, &value, &mut list)?;
        let message = self.channel.call(regions.as_slices(), &mut handles).await;
        let message = message.map_err(|status| self.explain(status))?;
        drop(list);
        keep_encoder(encoder);
        answer(header, message)
    }

    fn explain(&self, status: Status) -> Failure {
        explain(self.channel.get_ref(), status.into())
    }

    /// Waits for the next event. Answers to calls that have ended, which come late, are dropped.
    ///
    /// # Errors
    /// [`Failure::Epitaph`] if the server sent an epitaph; errors of the channel.
    ///
    /// # Cancel safety
    /// A dropped future has taken no message.
    pub async fn next_event(&self) -> Result<EventMessage, Failure> {
        loop {
            if let Some(event) = EventMessage::new(self.channel.read().await?)? {
                return Ok(event);
            }
        }
    }
}

/// Serves like [`serve`](crate::serve), in a task. The service's methods run in this task, one at a
/// time.
///
/// # Errors
/// As for [`serve`](crate::serve).
///
/// # Cancel safety
/// An answer that waits for room is lost with the future; nothing else is lost.
pub async fn serve_async(channel: &AsyncChannel, service: &impl Service) -> Result<(), Failure> {
    loop {
        let message = match channel.read().await {
            Ok(message) => message,
            Err(Status::PeerClosed) => return Ok(()),
            Err(status) => return Err(status.into()),
        };
        if let Some(Kept { bytes, mut handles }) =
            dispatch_keeping(channel.get_ref(), service, message)?
        {
            channel.write(&[std::io::IoSlice::new(&bytes)], &mut handles).await?;
        }
    }
}
