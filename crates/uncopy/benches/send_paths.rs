//! Measures a bunch of 64 datagrams: the cost of each kind of send, and of its steps. Over loopback, where the
//! kernel always copies; with `UNCOPY_TEST_ROOT=1`, as root, also to a device that drops them without copying.
//! (`cargo xtask compare send` compares the kinds with each other.)

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use testbed::network::{self, End};
use uncopy::send::{
    InetSocket, Message, Mode, PageSize, Pool, Ring, RingEvent, RingOptions, RingSocket, Sender,
    SenderOptions, StableBytes,
};

const BUNCH: usize = 64;
const SIZES: [usize; 3] = [600, 8000, 64_000];

/// The destination of the datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Road {
    Loopback,
    /// A device in a separate network.
    Sink,
}

impl Road {
    const fn name(self) -> &'static str {
        match self {
            Road::Loopback => "loopback",
            Road::Sink => "ifb",
        }
    }

    /// Makes a socket, and a receiver that reads nothing if one is needed.
    fn socket(self) -> (InetSocket, Option<UdpSocket>) {
        match self {
            Road::Loopback => {
                let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
                let address = receiver.local_addr().expect("an address");
                (InetSocket::connect_udp(address).expect("a socket"), Some(receiver))
            }
            Road::Sink => network::isolated(|network| {
                network.sink();
                let socket = InetSocket::connect_udp(End::Far.address(false, 9)).expect("a socket");
                socket.set_send_buffer_bytes(4 << 20).expect("room for a bunch");
                (socket, None)
            }),
        }
    }
}

type Group<'a> = BenchmarkGroup<'a, WallTime>;
type Bytes = Arc<Vec<u8>>;

/// A measured step, and the unmeasured ones around it.
struct MeasuredStep<B, T, A> {
    before: B,
    timed: T,
    after: A,
}

/// Measures only `timed`, between `before` and `after`.
fn step<T>(
    group: &mut Group<'_>,
    name: &str,
    on: &mut T,
    step: &MeasuredStep<impl Fn(&mut T), impl Fn(&mut T), impl Fn(&mut T)>,
) {
    let MeasuredStep { before, timed, after } = step;
    group.bench_function(name, |b| {
        b.iter_custom(|count| {
            let mut sum = Duration::ZERO;
            for _ in 0..count {
                before(on);
                let begin = Instant::now();
                timed(on);
                sum += begin.elapsed();
                after(on);
            }
            sum
        });
    });
}

fn send_bunch(sender: &mut Sender<Bytes>, payload: &Bytes) {
    for _ in 0..BUNCH {
        sender.send(payload.clone()).result.expect("it is taken");
    }
}

fn take_releases(sender: &mut Sender<Bytes>) {
    while sender.outstanding().sends > 0 {
        sender.wait_release(None).expect("the queue can be read");
    }
}

fn sender(road: Road, mode: Mode) -> (Sender<Bytes>, Option<UdpSocket>) {
    let options = SenderOptions::new().mode(mode);
    let (socket, receiver) = road.socket();
    (Sender::new(socket, &options), receiver)
}

fn senders(group: &mut Group<'_>, road: Road, payload: &Bytes) {
    let modes = [("copy", Mode::Copy), ("msg_zerocopy", Mode::Zerocopy), ("auto", Mode::Auto)];
    for (name, mode) in modes {
        let (mut sender, _receiver) = sender(road, mode);
        group.bench_function(format!("sender/{name}"), |b| {
            b.iter(|| {
                send_bunch(&mut sender, payload);
                take_releases(&mut sender);
            });
        });
        let send = |sender: &mut Sender<Bytes>| send_bunch(sender, payload);
        let (on, nothing) = (&mut sender, |_: &mut Sender<Bytes>| ());
        step(
            group,
            &format!("sender/{name}/send"),
            on,
            &MeasuredStep { before: nothing, timed: send, after: take_releases },
        );
        step(
            group,
            &format!("sender/{name}/release"),
            on,
            &MeasuredStep { before: send, timed: take_releases, after: nothing },
        );
    }
}

struct Loop<B: StableBytes> {
    ring: Ring<B>,
    socket: RingSocket,
    _receiver: Option<UdpSocket>,
}

/// Which sends of a bunch are bound to a notifier, and flush it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flush {
    NoSlots,
    EachSend,
    EachBunch,
}

impl<B: StableBytes + Clone + std::fmt::Debug> Loop<B> {
    fn new(road: Road, mode: Mode) -> Loop<B> {
        let options = RingOptions::new().mode(mode);
        let mut ring = Ring::new(&options);
        ring.register_slots(&[1]).expect("none are registered");
        let (socket, _receiver) = road.socket();
        let socket = ring.add(socket);
        Loop { ring, socket, _receiver }
    }

    fn send_bunch(&mut self, payload: &B, flush: Flush) {
        for number in 1..=BUNCH {
            let message = Message::new(payload.clone());
            let message = match flush {
                Flush::NoSlots => message,
                Flush::EachBunch if number < BUNCH => message.bind(0),
                Flush::EachSend | Flush::EachBunch => message.bind_and_flush(0),
            };
            self.ring.send(self.socket, message).expect("it is taken");
        }
    }

    fn submit(&mut self) {
        self.ring.submit().expect("the ring works");
    }

    fn take_events(&mut self) {
        while self.ring.outstanding().sends > 0 {
            self.ring.wait(None).expect("the ring works");
            while let Some(event) = self.ring.next_event() {
                if let RingEvent::Sent(sent) = event {
                    sent.result.expect("it is sent");
                }
            }
        }
    }

    fn measure(&mut self, group: &mut Group<'_>, name: &str, payload: &B, flush: Flush) {
        group.bench_function(format!("ring/{name}"), |b| {
            b.iter(|| {
                self.send_bunch(payload, flush);
                self.take_events();
            });
        });
    }
}

fn rings(group: &mut Group<'_>, road: Road, payload: &Bytes) {
    for (name, mode) in [("copy", Mode::Copy), ("send_zc", Mode::Zerocopy)] {
        let mut each = Loop::new(road, mode);
        each.measure(group, name, payload, Flush::NoSlots);
        let send = |each: &mut Loop<Bytes>| each.send_bunch(payload, Flush::NoSlots);
        let (submit, take) = (Loop::submit, Loop::take_events);
        let sent = |each: &mut Loop<Bytes>| {
            send(each);
            submit(each);
        };
        let nothing = |_: &mut Loop<Bytes>| ();
        let rest = |each: &mut Loop<Bytes>| {
            submit(each);
            take(each);
        };
        step(
            group,
            &format!("ring/{name}/send"),
            &mut each,
            &MeasuredStep { before: nothing, timed: send, after: rest },
        );
        step(
            group,
            &format!("ring/{name}/submit"),
            &mut each,
            &MeasuredStep { before: send, timed: submit, after: take },
        );
        step(
            group,
            &format!("ring/{name}/release"),
            &mut each,
            &MeasuredStep { before: sent, timed: take, after: nothing },
        );
    }
    let pool = Pool::new(1, payload.len(), PageSize::Base).expect("memory");
    let slice = Arc::new(pool.take().expect("one is free"));
    for (name, flush) in [
        ("registered", Flush::NoSlots),
        ("registered/flush_each", Flush::EachSend),
        ("registered/flush_bunch", Flush::EachBunch),
    ] {
        let mut each = Loop::new(road, Mode::Zerocopy);
        // Without io_uring, its slices are sent like other memory.
        let _ = each.ring.register_pool(&pool);
        each.measure(group, name, &slice, flush);
    }
}

fn bare(group: &mut Group<'_>, payload: &Bytes) {
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let bare = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    bare.connect(receiver.local_addr().expect("an address")).expect("it is there");
    group.bench_function("bare_send", |b| {
        b.iter(|| {
            for _ in 0..BUNCH {
                bare.send(payload).expect("it is taken");
            }
        });
    });
}

fn paths(c: &mut Criterion) {
    let unmet = network::NEEDS.iter().find_map(|need| need.unmet());
    if let Some(reason) = &unmet {
        eprintln!("send/ifb: skipped: {reason}");
    }
    let roads = [Some(Road::Loopback), unmet.is_none().then_some(Road::Sink)];
    for road in roads.into_iter().flatten() {
        for size in SIZES {
            let mut group = c.benchmark_group(format!("send/{}/{size}", road.name()));
            group.throughput(Throughput::Bytes((size * BUNCH) as u64));
            let payload = Arc::new(vec![7u8; size]);
            if road == Road::Loopback {
                bare(&mut group, &payload);
            }
            senders(&mut group, road, &payload);
            rings(&mut group, road, &payload);
            group.finish();
        }
    }
}

criterion_group!(benches, paths);
criterion_main!(benches);
