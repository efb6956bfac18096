//! Our own channel.

use std::hint::black_box;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::Result;
use uncopy::channel::{Channel, Deadline, MAX_BYTES, Object, Signals};

use super::endpoint::Endpoint;

/// How messages are written and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style {
    /// Copied into one buffer before they are written.
    pub(super) is_linearised: bool,
    /// Lent, and not copied out.
    pub(super) is_lent: bool,
    /// Waited for and taken by one call.
    pub(super) is_one_call: bool,
    /// Time to look for a message before the thread sleeps.
    pub(super) spin: Duration,
}

impl Style {
    pub(super) const COPIED: Style =
        Style { is_linearised: false, is_lent: false, is_one_call: false, spin: Duration::ZERO };
    pub(super) const LENT: Style = Style { is_lent: true, ..Style::COPIED };
    pub(super) const RECEIVED: Style = Style { is_one_call: true, ..Style::COPIED };
    pub(super) const RECEIVED_LENT: Style = Style { is_lent: true, ..Style::RECEIVED };
    pub(super) const RECEIVED_LINEARISED: Style = Style { is_linearised: true, ..Style::RECEIVED };
    pub(super) const LINEARISED: Style = Style { is_linearised: true, ..Style::COPIED };
    /// Longer than any answer takes on a processor of its own.
    pub(super) const SPINNING: Style =
        Style { spin: Duration::from_micros(200), ..Style::RECEIVED };
}

/// One end, and the memory that it needs.
pub(super) struct Own {
    channel: Channel,
    style: Style,
    awaited: Signals,
    out: Vec<u8>,
    linear: Vec<u8>,
}

/// Both ends in this process.
pub(super) fn local_pair() -> Result<(Channel, Channel)> {
    Ok(Channel::pair())
}

/// Both ends in this process, with a socket between them.
pub(super) fn socket_pair() -> Result<(Channel, Channel)> {
    let (near, far) = Channel::pair();
    Ok((near, Channel::from_fd(far.into_fd()?).map_err(|(_, status)| status)?))
}

impl Own {
    pub(super) fn new(channel: Channel, style: Style) -> Own {
        let (out, linear) = (vec![0; MAX_BYTES], Vec::with_capacity(MAX_BYTES));
        Own { channel, style, awaited: Signals::READABLE, out, linear }
    }

    /// One whose peer may go at any time.
    pub(super) fn of_second_process(channel: Channel, style: Style) -> Own {
        let awaited = Signals::READABLE | Signals::PEER_CLOSED;
        Own { awaited, ..Own::new(channel, style) }
    }

    /// One end of a new channel, and the socket that the other has become.
    pub(super) fn with_far(style: Style) -> Result<(Own, OwnedFd)> {
        let (near, far) = Channel::pair();
        Ok((Own::new(near, style), far.into_fd()?))
    }
}

impl Endpoint for Own {
    #[inline]
    fn send(&mut self, regions: &[IoSlice<'_>]) -> Result<()> {
        if !self.style.is_linearised {
            return Ok(self.channel.write(regions, Vec::new())?);
        }
        self.linear.clear();
        for region in regions {
            self.linear.extend_from_slice(region);
        }
        Ok(self.channel.write(&[IoSlice::new(&self.linear)], Vec::new())?)
    }

    #[inline]
    fn receive(&mut self) -> Result<usize> {
        let deadline = Deadline::INFINITE.spinning(self.style.spin);
        if self.style.is_one_call {
            let message = self.channel.receive(deadline)?;
            if !self.style.is_lent {
                self.out[..message.len()].copy_from_slice(&message);
                black_box(&self.out[..message.len()]);
            }
            return Ok(black_box(message).len());
        }
        self.channel.wait_one(self.awaited, deadline)?;
        if self.style.is_lent {
            return Ok(black_box(self.channel.read()?).len());
        }
        let lengths = self.channel.read_into(&mut self.out, &mut [])?;
        black_box(&self.out[..lengths.bytes]);
        Ok(lengths.bytes)
    }
}
