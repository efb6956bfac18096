//! A bunch of 64 datagrams over loopback, where the kernel always copies: what each way of sending
//! costs around that. (Where nothing is copied is measured by `cargo xtask compare send`, which needs
//! a network of its own.)

use std::net::UdpSocket;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use uncopy::send::{
    Event, Message, Mode, PageSize, Pool, Ring, RingOptions, RingSocket, Sender, SenderOptions,
    Socket, StableBytes,
};

const BUNCH: usize = 64;
const SIZES: [usize; 3] = [600, 8000, 64_000];

/// A receiver that reads nothing, and a socket to it.
fn pair() -> (UdpSocket, Socket) {
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let socket = Socket::connect_udp(receiver.local_addr().expect("an address"));
    (receiver, socket.expect("a socket"))
}

fn through_sender(sender: &mut Sender<Arc<Vec<u8>>>, payload: &Arc<Vec<u8>>) {
    for _ in 0..BUNCH {
        sender.send(payload.clone()).result.expect("it is taken");
    }
    while sender.outstanding().sends > 0 {
        sender.wait_release(None).expect("the queue can be read");
    }
}

fn through_ring<B: StableBytes + Clone + std::fmt::Debug>(
    ring: &mut Ring<B>,
    socket: RingSocket,
    payload: &B,
) {
    for _ in 0..BUNCH {
        let sent = ring.send(socket, Message::new(payload.clone()));
        sent.expect("it is taken");
    }
    while ring.outstanding().sends > 0 {
        ring.wait(None).expect("the ring works");
        while let Some(event) = ring.next_event() {
            if let Event::Sent(sent) = event {
                sent.result.expect("it is sent");
            }
        }
    }
}

fn ring<B: StableBytes>(mode: Mode) -> (UdpSocket, Ring<B>, RingSocket) {
    let mut options = RingOptions::default();
    options.mode = mode;
    let (receiver, socket) = pair();
    let mut ring = Ring::new(&options);
    let socket = ring.add(socket);
    (receiver, ring, socket)
}

fn paths(c: &mut Criterion) {
    for size in SIZES {
        let mut group = c.benchmark_group(format!("send/{size}"));
        group.throughput(Throughput::Bytes((size * BUNCH) as u64));
        let payload = Arc::new(vec![7u8; size]);
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let bare = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        bare.connect(receiver.local_addr().expect("an address")).expect("it is there");
        group.bench_function("bare_send", |b| {
            b.iter(|| {
                for _ in 0..BUNCH {
                    bare.send(&payload).expect("it is taken");
                }
            });
        });
        for (name, mode) in [("copy", Mode::Copy), ("msg_zerocopy", Mode::Zerocopy)] {
            let mut options = SenderOptions::default();
            options.mode = mode;
            let (_receiver, socket) = pair();
            let mut sender = Sender::new(socket, &options);
            group.bench_function(format!("sender/{name}"), |b| {
                b.iter(|| through_sender(&mut sender, &payload));
            });
        }
        for (name, mode) in [("copy", Mode::Copy), ("send_zc", Mode::Zerocopy)] {
            let (_receiver, mut ring, socket) = ring(mode);
            group.bench_function(format!("ring/{name}"), |b| {
                b.iter(|| through_ring(&mut ring, socket, &payload));
            });
        }
        let (_receiver, mut ring, socket) = ring(Mode::Zerocopy);
        let pool = Pool::new(1, size, PageSize::Base).expect("memory");
        let slice = Arc::new(pool.take().expect("one is free"));
        // Where there is no io_uring, its slices are sent like other memory.
        let _ = ring.register_pool(&pool);
        group.bench_function("ring/registered", |b| {
            b.iter(|| through_ring(&mut ring, socket, &slice));
        });
        group.finish();
    }
}

criterion_group!(benches, paths);
criterion_main!(benches);
