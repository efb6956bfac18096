//! Tests that each stream delivers its sends whole and in order, although streams share a ring and every
//! buffer is overwritten as soon as it is released.

use std::collections::VecDeque;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::DerefMut;
use std::thread::JoinHandle;
use std::time::Duration;

use testbed::network::{End, NEEDS, Network, linked};
use testbed::{Case, Need, by_extent, cases, seeded, wait_for};
use uncopy::send::{
    InetSocket, Message, Mode, PageSize, Payload, Pool, PoolSlice, Ring, RingEvent, RingSocket,
    StableBytes,
};

use crate::send::receiver::tcp;
use crate::send::{LONG, register, ring_options};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases![
        [] streams_in_turn_with_slow_readers,
        [] a_stream_that_was_added_twice,
        [] a_failed_send_cancels_those_behind_it,
    ];
    let needs = [NEEDS, &[Need::Tool("nft")]].concat();
    let name = "order::every_kind_of_stream_over_a_link_that_loses_packets";
    cases.push(Case::new(name, &needs, every_kind_of_stream_over_a_link_that_loses_packets));
    cases
}

const MODES: [Mode; 3] = [Mode::Copy, Mode::Zerocopy, Mode::Auto];
/// Delay before a reader begins, in which its stream becomes full.
const LATE: Duration = Duration::from_millis(300);

/// The memory of a ring's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    Plain,
    Registered,
    RegisteredHuge,
}

/// The setup of one ring.
#[derive(Debug, Clone, Copy)]
struct Kind {
    streams: usize,
    mode: Mode,
    memory: Memory,
    /// Whether sends are bound to slots.
    has_slots: bool,
    without_io_uring: bool,
    messages: usize,
    /// Length of the longest message.
    bytes: usize,
}

impl Kind {
    /// Sends over the sockets in turn, from few buffers, until all are released; returns the length of each
    /// stream.
    fn send(self, sockets: Vec<InetSocket>) -> Vec<usize> {
        let Kind { memory, bytes, .. } = self;
        let count = 4 * self.streams;
        match memory {
            Memory::Plain => self.send_from(sockets, vec![vec![0; bytes]; count], None),
            Memory::Registered | Memory::RegisteredHuge => {
                let pages = match memory {
                    Memory::RegisteredHuge => PageSize::HugeIfPossible,
                    _ => PageSize::Base,
                };
                let pool = Pool::new(count, bytes, pages).unwrap();
                let slices: Vec<PoolSlice> = std::iter::from_fn(|| pool.take()).collect();
                self.send_from(sockets, slices, Some(&pool))
            }
        }
    }

    fn send_from<B: Buffer>(
        self,
        sockets: Vec<InetSocket>,
        buffers: Vec<B>,
        pool: Option<&Pool>,
    ) -> Vec<usize> {
        let mut options = ring_options(self.mode);
        // Small, so that chains end in the middle.
        options.entries = 8;
        options.without_io_uring = self.without_io_uring;
        let mut ring = Ring::new(&options);
        assert_eq!(ring.io_uring_refusal().is_some(), self.without_io_uring);
        if let Some(pool) = pool.filter(|_| !self.without_io_uring) {
            register(&mut ring, pool);
        }
        if self.has_slots {
            ring.register_slots(&vec![0; self.streams]).unwrap();
        }
        let sockets: Vec<RingSocket> = sockets.into_iter().map(|s| ring.add(s)).collect();
        let mut courier = Courier { ring, free: buffers.into() };
        let mut lengths = vec![0; sockets.len()];
        for turn in 0..self.messages {
            for (stream, socket) in sockets.iter().enumerate() {
                let bytes = 1 + (turn * 7919 + stream * 31) % self.bytes;
                let mut buffer = courier.free_buffer(self.has_slots.then_some(self.streams));
                buffer.resize_to(bytes);
                buffer.copy_from_slice(&seeded(
                    stream as u64,
                    lengths[stream] as u64,
                    bytes as u64,
                ));
                lengths[stream] += bytes;
                let message = match (self.has_slots, turn % 3) {
                    (false, _) => Message::new(buffer),
                    (true, 2) => Message::new(buffer).bind_and_flush(stream as u32),
                    (true, _) => Message::new(buffer).bind(stream as u32),
                };
                courier.ring.send(*socket, message).unwrap();
            }
            if turn % 2 == 1 {
                courier.ring.submit().unwrap();
            }
        }
        courier.settle();
        for socket in sockets {
            courier.ring.socket(socket).unwrap().finish().unwrap();
        }
        lengths
    }
}

/// Reusable memory.
trait Buffer: StableBytes + DerefMut<Target = [u8]> + std::fmt::Debug {
    fn resize_to(&mut self, bytes: usize);
}

impl Buffer for Vec<u8> {
    fn resize_to(&mut self, bytes: usize) {
        self.resize(bytes, 0);
    }
}

impl Buffer for PoolSlice {
    fn resize_to(&mut self, bytes: usize) {
        self.reset();
        self.truncate(bytes);
    }
}

struct Courier<B: StableBytes> {
    ring: Ring<B>,
    free: VecDeque<B>,
}

impl<B: Buffer> Courier<B> {
    /// Waits for a free buffer; flushes the slots, so that bound sends are released.
    fn free_buffer(&mut self, slots: Option<usize>) -> B {
        loop {
            if let Some(buffer) = self.free.pop_front() {
                return buffer;
            }
            let slots: Vec<u32> = (0..slots.unwrap_or(0) as u32).collect();
            self.ring.flush(&slots).unwrap();
            self.ring.wait(Some(LONG)).unwrap();
            self.take_events();
        }
    }

    fn settle(&mut self) {
        while self.ring.outstanding().sends > 0 {
            self.ring.wait(Some(LONG)).unwrap();
            self.take_events();
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.ring.next_event() {
            match event {
                RingEvent::Sent(sent) => drop(sent.result.unwrap()),
                RingEvent::Released(release) => self.take_back(release.payload),
                RingEvent::Notified(notification) => {
                    notification.releases.into_iter().for_each(|r| self.take_back(r.payload));
                }
            }
        }
    }

    /// Zeroes the released buffers, so that a late read of the kernel would show.
    fn take_back(&mut self, payload: Payload<B>) {
        for mut buffer in payload.into_vec() {
            buffer.fill(0);
            self.free.push_back(buffer);
        }
    }
}

/// Reads a stream to its end, late and slowly at first; returns the number of bytes before the first wrong
/// one, and the number of all bytes.
fn read_late(mut stream: TcpStream, seed: u64) -> (usize, usize) {
    stream.set_read_timeout(Some(LONG)).unwrap();
    std::thread::sleep(LATE);
    let (mut right, mut length, mut is_right) = (0, 0, true);
    let mut room = vec![0; 1 << 16];
    loop {
        let max_bytes = if length < 1 << 17 { 5000 } else { room.len() };
        let n = stream.read(&mut room[..max_bytes]).unwrap();
        if n == 0 {
            return (right, length);
        }
        let expected = seeded(seed, length as u64, n as u64);
        let same = room.iter().zip(&expected).take_while(|(a, b)| a == b).count();
        right += if is_right { same } else { 0 };
        is_right &= same == n;
        length += n;
        if length < 1 << 17 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn streams_in_turn_with_slow_readers() {
    let messages = by_extent([40, 100, 100]);
    let kinds = MODES.into_iter().flat_map(|mode| {
        [(2, false), (3, false), (3, true)].map(|(streams, without_io_uring)| Kind {
            streams,
            mode,
            memory: Memory::Plain,
            has_slots: false,
            without_io_uring,
            messages,
            bytes: 64 << 10,
        })
    });
    for kind in kinds {
        let (streams, sockets): (Vec<_>, Vec<_>) = (0..kind.streams).map(|_| tcp(false)).unzip();
        let readers: Vec<JoinHandle<_>> = (0..)
            .zip(streams)
            .map(|(seed, stream)| std::thread::spawn(move || read_late(stream, seed)))
            .collect();
        let mut ring = Ring::new(&{
            let mut options = ring_options(kind.mode);
            options.without_io_uring = kind.without_io_uring;
            options
        });
        let sockets: Vec<_> = sockets.into_iter().map(|socket| ring.add(socket)).collect();
        for turn in 0..kind.messages {
            for (seed, socket) in sockets.iter().enumerate() {
                let offset = turn * kind.bytes;
                let content = seeded(seed as u64, offset as u64, kind.bytes as u64);
                ring.send(*socket, Message::new(content)).unwrap();
            }
        }
        let events = crate::send::run(&mut ring);
        assert_eq!(events.sent_bytes(), vec![kind.bytes; kind.messages * kind.streams]);
        drop(ring);
        let all = kind.messages * kind.bytes;
        for reader in readers {
            assert_eq!(reader.join().unwrap(), (all, all), "{kind:?}");
        }
    }
}

fn a_stream_that_was_added_twice() {
    for (mode, without_io_uring) in MODES.into_iter().flat_map(|mode| [(mode, false), (mode, true)])
    {
        let (stream, socket) = tcp(false);
        let reader = std::thread::spawn(move || read_late(stream, 0));
        let lending = crate::send::sender::<Vec<u8>>(socket, mode);
        let mut options = ring_options(mode);
        options.without_io_uring = without_io_uring;
        let mut ring = Ring::new(&options);
        let sockets = [(); 2].map(|()| ring.add_shared(&lending));
        for turn in 0..100 {
            let content = seeded(0, turn * (50 << 10), 50 << 10);
            ring.send(sockets[turn as usize % 2], Message::new(content)).unwrap();
        }
        assert_eq!(crate::send::run(&mut ring).sent_bytes().len(), 100);
        drop((ring, lending));
        let whole = (5000 << 10, 5000 << 10);
        assert_eq!(reader.join().unwrap(), whole, "{mode:?}, without io_uring: {without_io_uring}");
    }
}

fn a_failed_send_cancels_those_behind_it() {
    for without_io_uring in [false, true] {
        let (stream, socket) = tcp(false);
        socket.set_send_buffer_bytes(16 << 10).unwrap();
        let (other, beside) = tcp(false);
        let mut options = ring_options(Mode::Copy);
        options.entries = 2;
        options.without_io_uring = without_io_uring;
        let mut ring = Ring::new(&options);
        let (socket, beside) = (ring.add(socket), ring.add(beside));
        let content = |at: usize| seeded(0, (at * (8 << 20)) as u64, 8 << 20);
        // More sends than the ring has entries: some are linked, and some wait.
        let ids: Vec<_> =
            (0..4).map(|at| ring.send(socket, Message::new(content(at))).unwrap()).collect();
        ring.send(beside, Message::new(seeded(1, 0, 5000))).unwrap();
        ring.submit().unwrap();
        ring.cancel(ids[0]);
        let reader = std::thread::spawn(move || read_late(stream, 0));
        let events = crate::send::run(&mut ring);
        let failed: Vec<_> = events.results.iter().filter(|(_, r)| r.is_err()).collect();
        assert_eq!(failed.len(), 4, "without io_uring: {without_io_uring}");
        let sent: usize = events.releases.iter().map(|release| release.bytes).sum();
        drop(ring);
        let sent = sent - 5000;
        assert_eq!(reader.join().unwrap(), (sent, sent), "the sent bytes have no gap");
        assert_eq!(read_late(other, 1), (5000, 5000), "another stream is not affected");
    }
}

const FIRST_PORT: u16 = 4000;

fn kinds() -> Vec<Kind> {
    let messages = testbed::by_extent([20, 60, 1000]);
    let mut kinds = Vec::new();
    for (streams, mode) in [2, 3].into_iter().flat_map(|n| MODES.map(|mode| (n, mode))) {
        for memory in [Memory::Plain, Memory::Registered, Memory::RegisteredHuge] {
            for (has_slots, without_io_uring) in [(false, false), (true, false), (true, true)] {
                let bytes = 24 << 10;
                #[rustfmt::skip]
                kinds.push(Kind {
                    streams, mode, memory, has_slots, without_io_uring, messages, bytes,
                });
            }
        }
    }
    kinds
}

/// Bytes by kind and stream.
type Lengths = Vec<Vec<usize>>;

/// Runs all kinds at once, so that they fill the link.
fn every_kind_of_stream_over_a_link_that_loses_packets() {
    let kinds = kinds();
    let (report, reported) = std::sync::mpsc::channel::<Lengths>();
    let sent = linked(
        |network| {
            network.tc("qdisc add dev veth0 root tbf rate 400mbit burst 128kb limit 512kb");
            for_each_stream(
                &kinds,
                |kind, sockets: Vec<_>| kind.send(sockets),
                |at| {
                    let mut socket = None;
                    // The listener may not exist yet.
                    wait_for("a listener", || {
                        socket = InetSocket::connect_tcp(at).ok();
                        socket.is_some()
                    });
                    socket.unwrap()
                },
            )
        },
        |network| {
            lose_packets(network);
            let listen = |at: SocketAddr| TcpListener::bind(at).unwrap();
            report
                .send(for_each_stream(&kinds, |kind, at: Vec<_>| receive(kind, &at), listen))
                .unwrap();
        },
    );
    assert_eq!(sent, reported.recv().unwrap());
}

fn lose_packets(network: &Network) {
    network.nft("add table inet lossy");
    network.nft("add chain inet lossy in { type filter hook input priority 0 ; }");
    network.nft("add rule inet lossy in tcp flags & syn == 0 numgen inc mod 50 0 drop");
}

/// Runs each kind in a thread of its own, with a socket that `open` makes for the address of each stream.
fn for_each_stream<T>(
    kinds: &[Kind],
    run: impl Fn(Kind, Vec<T>) -> Vec<usize> + Sync,
    open: impl Fn(SocketAddr) -> T + Sync,
) -> Lengths {
    let (run, open) = (&run, &open);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(kinds)
            .map(|(place, kind)| {
                let is_v6 = place % 2 == 1;
                let port = move |stream| FIRST_PORT + 10 * place + stream as u16;
                let addresses = (0..kind.streams).map(move |s| End::Far.address(is_v6, port(s)));
                scope.spawn(move || run(*kind, addresses.map(open).collect()))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Reads every stream of a ring to its end, and checks all bytes.
fn receive(kind: Kind, listeners: &[TcpListener]) -> Vec<usize> {
    let accepted: Vec<_> = listeners.iter().map(|listener| listener.accept().unwrap().0).collect();
    let readers: Vec<JoinHandle<_>> = (0..)
        .zip(accepted)
        .map(|(seed, stream)| std::thread::spawn(move || read_late(stream, seed)))
        .collect();
    let read = readers.into_iter().map(|reader| {
        let (right, length) = reader.join().unwrap();
        assert_eq!(right, length, "{kind:?}: right bytes, and all bytes");
        length
    });
    read.collect()
}
