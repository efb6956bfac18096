//! Those that send.

use std::io::IoSlice;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use testbed::network::End;
use testbed::{BareRing, BareSend, BareSender};
use uncopy::send::{
    InetSocket, Message, Mode, PageSize, Pool, PoolSlice, Ring, RingEvent, RingOptions, RingSocket,
    Sender, SenderOptions, StableBytes,
};

use crate::compare::case::{Role, Subject};
use crate::compare::metric::Sample;
use crate::compare::timing::{divided, sample};

/// Sends in one turn of the loop.
pub(super) const BUNCH: usize = 64;
/// More than the caches of most processors hold.
pub(super) const MANY_BUFFERS_BYTES: usize = 64 << 20;

/// The payload of each send.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) bytes: usize,
    /// Cut into datagrams of so many bytes.
    pub(super) segment: Option<u16>,
    /// The figure is the cost of so many sends.
    pub(super) sends: usize,
    /// Number of buffers sent in turn.
    pub(super) buffers: usize,
}

impl Load {
    /// Datagrams of so many bytes.
    pub(super) fn of(bytes: usize) -> Load {
        Load { bytes, segment: None, sends: 1, buffers: 1 }
    }

    /// The figure of this load, from the cost of a bunch.
    fn figure(self, bunch: Sample) -> Sample {
        divided(bunch, BUNCH as f64 / self.sends as f64)
    }
}

fn far() -> std::net::SocketAddr {
    End::Far.address(false, 9)
}

fn socket(load: Load) -> Result<InetSocket> {
    let socket = InetSocket::connect_udp(far())?;
    socket.set_send_buffer_bytes(SEND_BUFFER_BYTES)?;
    socket.set_segment_bytes(load.segment)?;
    Ok(socket)
}

/// `send(2)`, with `MSG_ZEROCOPY` and `recvmmsg(2)` from the error queue or without.
pub(super) fn bare(name: &str, how: BareSend, load: Load, time: Duration) -> Subject {
    let open = move || Ok(BareSender::new(bare_socket(load)?, how, buffers(load))?);
    Subject::piece(name, Role::Yardstick, open, move |sender, _| {
        let bunch = sample(time, || Ok(sender.bunch(BUNCH)?))?;
        Ok(load.figure(bunch))
    })
}

/// `sendmmsg(2)` for all of a bunch.
pub(super) fn bare_sendmmsg(name: &str, load: Load, time: Duration) -> Subject {
    let open = move || Ok((bare_socket(load)?, Turns::of(load)));
    Subject::piece(name, Role::Yardstick, open, move |(socket, turns), _| {
        let bunch = sample(time, || {
            let regions = [IoSlice::new(turns.next())];
            let mut controls: [_; BUNCH] = std::array::from_fn(|_| SendAncillaryBuffer::default());
            let mut headers: Vec<_> =
                controls.iter_mut().map(|control| MMsgHdr::new(&regions, control)).collect();
            let sent = sendmmsg(&*socket, &mut headers, SendFlags::NOSIGNAL)?;
            ensure!(sent == BUNCH, "{sent} went");
            Ok(())
        })?;
        Ok(load.figure(bunch))
    })
}

fn bare_socket(load: Load) -> Result<std::net::UdpSocket> {
    let socket = std::net::UdpSocket::bind(End::Near.address(false, 0))?;
    socket.connect(far())?;
    set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES)?;
    if let Some(bytes) = load.segment {
        testbed::cut_sends(&socket, bytes)?;
    }
    Ok(socket)
}

/// The same system calls as a ring's, in a plain loop.
pub(super) fn bare_ring(name: &str, how: BareSend, load: Load, time: Duration) -> Subject {
    let open = move || Ok(BareRing::new(bare_socket(load)?, how, buffers(load), BUNCH as u32)?);
    Subject::piece(name, Role::Yardstick, open, move |ring, _| {
        let bunch = sample(time, || Ok(ring.bunch(BUNCH)?))?;
        Ok(load.figure(bunch))
    })
}

/// Payloads, but for the library's pools. They live as long as the program, as slices that are
/// sent in turn do, so that nobody has to count its owners, which a plain loop does not do either.
///
/// Buffers begin with a page each, as those of a pool do: from elsewhere the kernel copies more
/// slowly, and lends one page more.
static MEMORY: LazyLock<Vec<u8>> = LazyLock::new(|| vec![7; 2 * MANY_BUFFERS_BYTES]);
const PAGE_BYTES: usize = 4096;
/// Send buffer of a socket, ours or bare.
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// The buffers of a load.
pub(super) fn buffers(load: Load) -> Vec<&'static [u8]> {
    let pages = &MEMORY[MEMORY.as_ptr().align_offset(PAGE_BYTES)..];
    let places = pages.chunks_exact(load.bytes.next_multiple_of(PAGE_BYTES));
    let buffers: Vec<_> = places.map(|place| &place[..load.bytes]).take(load.buffers).collect();
    assert_eq!(buffers.len(), load.buffers, "there is room for all");
    buffers
}

/// Buffers that are sent in turn.
struct Turns<B> {
    buffers: Vec<B>,
    last: usize,
}

impl Turns<&'static [u8]> {
    fn of(load: Load) -> Self {
        Turns { buffers: buffers(load), last: 0 }
    }
}

impl<B: Copy> Turns<B> {
    #[inline]
    fn next(&mut self) -> B {
        self.last += 1;
        if self.last >= self.buffers.len() {
            self.last = 0;
        }
        self.buffers[self.last]
    }
}

/// A [`Sender`].
pub(super) fn sender(name: &str, mode: Mode, load: Load, time: Duration) -> Subject {
    let open = move || {
        let options = SenderOptions::new().mode(mode);
        Ok((Sender::new(socket(load)?, &options), Turns::of(load)))
    };
    Subject::piece(name, Role::Own, open, move |(sender, turns), _| {
        let bunch = sample(time, || {
            for _ in 0..BUNCH {
                sender.send(turns.next()).result?;
            }
            while sender.next_release()?.is_some() {}
            while sender.outstanding().sends >= BUNCH {
                sender.wait_release(None)?;
            }
            Ok(())
        })?;
        Ok(load.figure(bunch))
    })
}

/// Whose notifiers are flushed when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flush {
    /// No slots: each send is released by itself.
    NoSlots,
    EachSend,
    EachBunch,
    /// Released buffers are kept, so that many sends need many buffers, or a shared one.
    Never,
}

struct Loop<B: StableBytes> {
    ring: Ring<B>,
    socket: RingSocket,
}

fn open_loop<B: StableBytes>(mode: Mode, load: Load, flush: Flush) -> Result<Loop<B>> {
    let options = RingOptions::new().mode(mode).entries(BUNCH as u32);
    let mut ring = Ring::new(&options);
    if let Some(errno) = ring.io_uring_refusal() {
        bail!("no io_uring: {errno}");
    }
    if flush != Flush::NoSlots {
        ring.register_slots(&[1])?;
    }
    let socket = ring.add(socket(load)?);
    Ok(Loop { ring, socket })
}

impl<B: StableBytes> Loop<B> {
    fn bunch(&mut self, flush: Flush, mut next: impl FnMut() -> Option<B>) -> Result<()> {
        let Loop { ring, socket } = self;
        for number in 0..BUNCH {
            let Some(buffer) = next() else { bail!("no buffer is free") };
            let message = Message::new(buffer);
            let is_last = number + 1 == BUNCH;
            let message = match flush {
                Flush::NoSlots => message,
                Flush::Never => message.bind(0),
                Flush::EachBunch if !is_last => message.bind(0),
                Flush::EachSend | Flush::EachBunch => message.bind_and_flush(0),
            };
            ring.send(*socket, message).map_err(|refused| refused.error)?;
        }
        ring.submit()?;
        loop {
            while let Some(event) = ring.next_event() {
                if let RingEvent::Sent(sent) = event {
                    sent.result?;
                }
            }
            if ring.outstanding().sends < BUNCH {
                return Ok(());
            }
            ring.wait(None)?;
        }
    }
}

/// A [`Ring`] over ordinary memory.
pub(super) fn ring(name: &str, mode: Mode, flush: Flush, load: Load, time: Duration) -> Subject {
    let open = move || Ok((open_loop(mode, load, flush)?, Turns::of(load)));
    Subject::piece(name, Role::Own, open, move |(each, turns), _| {
        let bunch = sample(time, || each.bunch(flush, || Some(turns.next())))?;
        Ok(load.figure(bunch))
    })
}

/// A [`Ring`] over a registered pool, whose slices are sent in turn.
pub(super) fn registered(
    name: &str,
    mode: Mode,
    flush: Flush,
    pages: PageSize,
    load: Load,
    time: Duration,
) -> Subject {
    let open = move || {
        let mut each = open_loop(mode, load, flush)?;
        let pool = Pool::new(load.buffers, load.bytes, pages)?;
        if let (PageSize::HugeIfPossible, uncopy::send::Pages::Base { reason }) =
            (pages, pool.pages())
        {
            bail!("no huge pages: {reason}");
        }
        each.ring.register_pool(&pool)?;
        let slices: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        let lent: &'static [PoolSlice] = slices.leak();
        Ok((each, Turns { buffers: lent.iter().collect(), last: 0 }))
    };
    Subject::piece(name, Role::Own, open, move |(each, turns), _| {
        let bunch = sample(time, || each.bunch(flush, || Some(turns.next())))?;
        Ok(load.figure(bunch))
    })
}

/// Which sends of a bunch are out of a registered pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    None,
    EverySecond,
    All,
}

/// A [`Ring`] whose sends are bound to one notifier for each bunch, out of a registered pool or not.
pub(super) fn mixed(name: &str, share: Share, load: Load, time: Duration) -> Subject {
    let payload = Arc::new(vec![7u8; load.bytes]);
    let open = move || {
        let mut each = open_loop::<Box<dyn StableBytes>>(Mode::Zerocopy, load, Flush::EachBunch)?;
        let pool = Pool::new(1, load.bytes, PageSize::Base)?;
        each.ring.register_pool(&pool)?;
        let slice = pool.take().context("a new pool is empty")?;
        Ok((each, Arc::new(slice)))
    };
    Subject::piece(name, Role::Own, open, move |(each, slice), _| {
        let mut number = 0;
        let mut next = || -> Option<Box<dyn StableBytes>> {
            number += 1;
            let is_registered = match share {
                Share::None => false,
                Share::EverySecond => number % 2 == 0,
                Share::All => true,
            };
            match is_registered {
                true => Some(Box::new(slice.clone())),
                false => Some(Box::new(payload.clone())),
            }
        };
        let bunch = sample(time, || each.bunch(Flush::EachBunch, &mut next))?;
        Ok(load.figure(bunch))
    })
}
