//! Sending end of `uncopy bench`.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use uncopy::send::{
    Counters, InetSocket, Message, PageSize, Pages, Pool, PoolSlice, Ring, RingEvent, RingOptions,
    RingSocket, Sender, SenderOptions, StableBytes, Transport, train_bytes,
};

use super::outcome::Outcome;
use super::{duration, failure, pin, processor_time};
use crate::flags::bench::{Mode, Protocol, SendArgs};
use crate::report::Failure;

/// Default number of sends per batch of a ring, and of other modes.
const RING_BATCH: u16 = 64;
const BATCH: u16 = 16;
/// Buffers in use at most, in batches: one is filled while the other is in flight.
const BATCHES: usize = 2;
/// Maximum size of one send, and of a pool.
const MAX_BYTES: usize = 1 << 30;
/// Time to wait for releases at the end.
const PATIENCE: Duration = Duration::from_secs(1);

/// Load of a run: the sends, and how they are made.
struct Load<'a> {
    flags: &'a SendArgs,
    mode: Mode,
    size: usize,
    batch: usize,
    deadline: Instant,
}

/// Results of a run, without its times.
struct Tally {
    counters: Counters,
    releases: u64,
    notifications: u64,
    pages: Option<Pages>,
    without_io_uring: Option<String>,
}

/// Sends until the time is over, and at least once, as the tool of the kernel does.
pub(super) fn run(flags: &SendArgs) -> Result<String, Failure> {
    let mode = if flags.zerocopy { Mode::MsgZerocopy } else { flags.mode };
    let is_ring = mode.is_ring();
    let batch = flags.batch.unwrap_or(if is_ring { RING_BATCH } else { BATCH }).into();
    if flags.slots > 0 && !is_ring {
        let next_step = "pass --mode=ring, ring-registered or ring-mixed";
        return Err(failure("use", "--slots", "only rings have slots", next_step));
    }
    pin(&flags.path)?;
    let time = duration(&flags.path)?;
    let size = flags.size.map_or_else(|| largest(flags), std::num::NonZeroUsize::get);
    if let (0, Some(segment)) = (size, flags.gso) {
        let next_step = "pass at most 65,507 bytes, over IPv6 65,527";
        return Err(failure(
            "cut sends into datagrams of",
            segment,
            "it does not fit into a packet",
            next_step,
        ));
    }
    if size > MAX_BYTES {
        let next_step = "pass a smaller size (-s)";
        return Err(failure("make sends of", size, "the maximum is 1 GiB", next_step));
    }
    let socket = connect(flags)?;
    let before = (Instant::now(), processor_time());
    let deadline = before.0 + time;
    let tally = match is_ring {
        true => through_ring(&Load { flags, mode, size, batch, deadline }, socket)?,
        false => through_calls(&Load { flags, mode, size, batch, deadline }, socket)?,
    };
    let outcome = Outcome {
        mode: mode.name(),
        size,
        counters: &tally.counters,
        releases: tally.releases,
        notifications: tally.notifications,
        wall: before.0.elapsed(),
        processor: processor_time().saturating_sub(before.1),
        pages: tally.pages.as_ref(),
        without_io_uring: tally.without_io_uring,
    };
    Ok(if flags.path.json { outcome.json() } else { outcome.words() })
}

fn connect(flags: &SendArgs) -> Result<InetSocket, Failure> {
    let path = &flags.path;
    let to = address(&flags.host, path.port, path.ipv6)?;
    let socket = match path.transport {
        Protocol::Udp => InetSocket::connect_udp(to),
        Protocol::Tcp => InetSocket::connect_tcp(to),
    };
    let socket = socket.map_err(|error| Failure::from(&error))?;
    if let Some(segment) = flags.gso {
        let set = socket.set_segment_bytes(Some(segment.get()));
        set.map_err(|error| Failure::from(&error))?;
    }
    Ok(socket)
}

/// Returns the first address of the host in this family.
fn address(host: &str, port: u16, is_v6: bool) -> Result<SocketAddr, Failure> {
    // Brackets, as in URLs, are removed.
    let name = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let next_step = "check the name (getent ahosts)";
    let found = (name, port).to_socket_addrs();
    let found = found.map_err(|error| failure("look up", host, error, next_step))?;
    found.into_iter().find(|address| address.is_ipv6() == is_v6).ok_or_else(|| {
        let next_step = "pass -4 for an IPv4 address and -6 for an IPv6 address";
        failure("send to", host, "it has only addresses of the other family", next_step)
    })
}

/// Default size of sends of the tool of the kernel: a packet of 65,535 bytes without the longest
/// headers, those of IPv6 and of TCP with all options.
const TOOLS_BYTES: usize = 65_535 - 40 - 20 - 40;

/// Returns the default size of a send.
fn largest(flags: &SendArgs) -> usize {
    flags.gso.map_or(TOOLS_BYTES, |segment| train_bytes(segment.get(), flags.path.ipv6))
}

/// Fills a buffer with the bytes that the receiver of the tool of the kernel checks.
fn fill(bytes: &mut [u8]) {
    for (byte, letter) in bytes.iter_mut().zip((b'a'..=b'z').cycle()) {
        *byte = letter;
    }
}

fn through_calls(load: &Load<'_>, socket: InetSocket) -> Result<Tally, Failure> {
    let mode = match load.mode {
        Mode::Copy => uncopy::send::Mode::Copy,
        Mode::Auto => uncopy::send::Mode::Auto,
        _ => uncopy::send::Mode::Zerocopy,
    };
    let options = SenderOptions::new().mode(mode).send_timeout(Some(PATIENCE));
    let mut bytes = vec![0; load.size];
    fill(&mut bytes);
    let payload = Arc::new(bytes);
    let mut sender = Sender::new(socket, &options);
    let mut releases = 0;
    let failed = |error: uncopy::Error| Failure::from(&error);
    loop {
        for _ in 0..load.batch {
            sender.send(payload.clone()).result.map_err(failed)?;
        }
        while sender.next_release().map_err(failed)?.is_some() {
            releases += 1;
        }
        if Instant::now() >= load.deadline {
            break;
        }
    }
    while sender.wait_release(Some(PATIENCE)).map_err(failed)?.is_some() {
        releases += 1;
    }
    let counters = sender.counters().clone();
    // The kernel reports no release for sends that were copied by choice.
    let by_choice: u64 = counters.fallbacks.iter().map(|fallback| fallback.sends).sum();
    let releases = u64::saturating_sub(releases, by_choice);
    let (notifications, pages, without_io_uring) = Default::default();
    Ok(Tally { counters, releases, notifications, pages, without_io_uring })
}

fn through_ring(load: &Load<'_>, socket: InetSocket) -> Result<Tally, Failure> {
    let mut bytes = vec![0; load.size];
    fill(&mut bytes);
    let buffers = BATCHES * load.batch;
    if load.mode == Mode::Ring {
        return batches(load, socket, None, shared(bytes, buffers));
    }
    // Over a stream huge pages would be sent like other memory.
    let pages = match socket.transport() {
        Transport::Udp => PageSize::HugeIfPossible,
        Transport::Tcp => PageSize::Base,
    };
    let pool = Pool::new(buffers, load.size, pages);
    let pool = pool.map_err(|error| Failure::from(&error))?;
    let all: Vec<PoolSlice> = std::iter::from_fn(|| pool.take())
        .map(|mut slice| {
            slice.copy_from_slice(&bytes);
            slice
        })
        .collect();
    drop(all);
    let mut tally = match load.mode {
        Mode::RingMixed => {
            let mut number = 0;
            let mut other = shared(bytes, buffers);
            batches::<Box<dyn StableBytes>>(load, socket, Some(&pool), || {
                let is_registered = number % 2 == 0;
                let buffer: Box<dyn StableBytes> = match is_registered {
                    true => Box::new(pool.take()?),
                    false => Box::new(other()?),
                };
                number += 1;
                Some(buffer)
            })?
        }
        _ => batches(load, socket, Some(&pool), || pool.take())?,
    };
    tally.pages = Some(pool.pages().clone());
    Ok(tally)
}

/// Returns what lends the same bytes up to `most` times at once.
fn shared(bytes: Vec<u8>, most: usize) -> impl FnMut() -> Option<Arc<Vec<u8>>> {
    let payload = Arc::new(bytes);
    move || (Arc::strong_count(&payload) <= most).then(|| payload.clone())
}

/// Sends batches of messages until `next` returns none.
fn batches<B: StableBytes>(
    load: &Load<'_>,
    socket: InetSocket,
    pool: Option<&Pool>,
    mut next: impl FnMut() -> Option<B>,
) -> Result<Tally, Failure> {
    let failed = |error: uncopy::Error| Failure::from(&error);
    let options = RingOptions::new()
        .mode(uncopy::send::Mode::Zerocopy)
        .entries(load.batch as u32)
        // The missing ones were waited for before.
        .drop_timeout(PATIENCE);
    let mut ring = Ring::new(&options);
    if let Some(pool) = pool
        && ring.io_uring_refusal().is_none()
    {
        ring.register_pool(pool).map_err(failed)?;
    }
    let tags: Vec<u64> = (0..u64::from(load.flags.slots)).collect();
    if !tags.is_empty() {
        let next_step = "name another number of slots";
        let register = ring.register_slots(&tags);
        register.map_err(|error| failure("register", "--slots", error, next_step))?;
    }
    let socket = ring.add(socket);
    let mut counts = (0, 0);
    let mut slot = 0;
    loop {
        let taken = one_batch(&mut ring, socket, load.batch, &mut next, &tags, slot)?;
        slot = (slot + 1) % tags.len().max(1);
        match taken {
            0 => ring.wait(Some(PATIENCE)).map_err(failed)?,
            _ => ring.submit().map_err(failed)?,
        }
        count(&mut ring, &mut counts)?;
        if Instant::now() >= load.deadline {
            break;
        }
    }
    while ring.outstanding().sends > 0 {
        ring.wait(Some(PATIENCE)).map_err(failed)?;
        if count(&mut ring, &mut counts)? == 0 {
            break;
        }
    }
    Ok(Tally {
        counters: ring.counters(socket).cloned().unwrap_or_default(),
        releases: counts.0,
        notifications: counts.1,
        pages: None,
        without_io_uring: ring.io_uring_refusal().map(|errno| errno.message()),
    })
}

fn one_batch<B: StableBytes>(
    ring: &mut Ring<B>,
    socket: RingSocket,
    batch: usize,
    next: &mut impl FnMut() -> Option<B>,
    tags: &[u64],
    slot: usize,
) -> Result<usize, Failure> {
    let mut taken = 0;
    while taken < batch
        && let Some(buffer) = next()
    {
        let message = match tags.is_empty() {
            true => Message::new(buffer),
            false => Message::new(buffer).bind(slot as u32),
        };
        ring.send(socket, message).map_err(|refused| Failure::from(&refused.error))?;
        taken += 1;
    }
    if taken > 0 && !tags.is_empty() {
        let next_step = "report this";
        let flush = ring.flush(&[slot as u32]);
        flush.map_err(|error| failure("flush", format!("slot {slot}"), error, next_step))?;
    }
    Ok(taken)
}

/// Counts releases and notifications, and returns their number; the first error of a send ends the
/// run.
fn count<B: StableBytes>(ring: &mut Ring<B>, counts: &mut (u64, u64)) -> Result<usize, Failure> {
    let mut events = 0;
    while let Some(event) = ring.next_event() {
        events += 1;
        match event {
            RingEvent::Sent(sent) => {
                sent.result.map_err(|error| Failure::from(&error))?;
            }
            RingEvent::Released(_) => counts.0 += 1,
            RingEvent::Notified(notification) => {
                counts.0 += notification.releases.len() as u64;
                counts.1 += 1;
            }
        }
    }
    Ok(events)
}
