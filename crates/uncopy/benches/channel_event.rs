//! Measures one event on a channel (write, wait, read), compared with copies of the same bytes through the
//! same buffers, and with the smallest system call.

use std::hint::black_box;
use std::io::IoSlice;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use uncopy::channel::{
    AsyncOptions, BatchRegion, Channel, Deadline, Filling, MAX_BYTES, Object, Port, Signals,
};

const SIZES: [usize; 5] = [64, 256, 1024, 4096, 65_280];
const REGIONS: [usize; 6] = [1, 2, 16, 64, 1024, 8192];

/// Divides `bytes` into `count` regions of the same length; the last one has the rest.
fn regions(bytes: &[u8], count: usize) -> Vec<IoSlice<'_>> {
    let each = bytes.len() / count;
    let end = |i| if i + 1 == count { bytes.len() } else { (i + 1) * each };
    (0..count).map(|i| IoSlice::new(&bytes[i * each..end(i)])).collect()
}

fn send(channel: &Channel, regions: &[IoSlice<'_>]) {
    channel.write(regions, Vec::new()).expect("room in the queue");
}

fn wait(channel: &Channel) {
    channel.wait_one(Signals::READABLE, Deadline::INFINITE).expect("a message");
}

/// Measures copies through a message buffer of the channel's pool, once and twice.
fn floors(group: &mut BenchmarkGroup<'_, WallTime>, size: usize) {
    let (near, far) = Channel::pair();
    let bytes = vec![1u8; size];
    let mut out = vec![0u8; size];
    near.write(&[IoSlice::new(&bytes)], Vec::new()).expect("room");
    let mut buffer = far.read().expect("a message");
    group.bench_function(format!("memcpy/{size}"), |b| {
        b.iter(|| black_box(&mut buffer).copy_from_slice(black_box(&bytes)));
    });
    group.bench_function(format!("memcpy_twice/{size}"), |b| {
        b.iter(|| {
            black_box(&mut buffer).copy_from_slice(black_box(&bytes));
            black_box(&mut out).copy_from_slice(black_box(&buffer));
        });
    });
}

/// Makes both ends of a channel.
type MakePair = fn() -> (Channel, Channel);

/// Returns two ends with a socket between them.
fn socket_pair() -> (Channel, Channel) {
    let (near, far) = Channel::pair();
    let socket = far.into_fd().expect("a socket");
    (near, Channel::from_fd(socket).expect("an endpoint"))
}

fn events(c: &mut Criterion) {
    let mut group = c.benchmark_group("event");
    group.bench_function("getpid", |b| b.iter(std::process::id));
    for size in SIZES {
        group.throughput(Throughput::Bytes(size as u64));
        floors(&mut group, size);
        every_count(&mut group, size, Channel::pair);
    }
    group.finish();
}

/// Measures events over a socket.
fn socket_events(c: &mut Criterion) {
    let mut group = c.benchmark_group("socket");
    for size in SIZES {
        group.throughput(Throughput::Bytes(size as u64));
        every_count(&mut group, size, socket_pair);
    }
    group.finish();
}

fn every_count(group: &mut BenchmarkGroup<'_, WallTime>, size: usize, pair: MakePair) {
    let bytes = vec![1u8; size];
    for count in REGIONS.into_iter().filter(|count| *count <= size) {
        one_way(group, &regions(&bytes, count), size, pair);
    }
}

/// Measures the ways to read a gathered message, and a message that was linearised before writing.
fn one_way(
    group: &mut BenchmarkGroup<'_, WallTime>,
    regions: &[IoSlice<'_>],
    size: usize,
    pair: MakePair,
) {
    let (near, far) = pair();
    let mut out = vec![0u8; MAX_BYTES];
    let name = |way: &str| format!("{way}/{size}/{}", regions.len());
    group.bench_function(name("gather_borrow"), |b| {
        b.iter(|| {
            send(&near, black_box(regions));
            wait(&far);
            black_box(far.read().expect("a message"));
        });
    });
    group.bench_function(name("gather_copy"), |b| {
        b.iter(|| {
            send(&near, black_box(regions));
            wait(&far);
            black_box(far.read_into(&mut out, &mut []).expect("a message"));
        });
    });
    let mut linear = Vec::with_capacity(MAX_BYTES);
    group.bench_function(name("linear_copy"), |b| {
        b.iter(|| {
            linear.clear();
            for region in black_box(regions) {
                linear.extend_from_slice(region);
            }
            send(&near, &[IoSlice::new(&linear)]);
            wait(&far);
            black_box(far.read_into(&mut out, &mut []).expect("a message"));
        });
    });
}

/// Measures sixteen messages at once: one array of regions, an array of arrays, and one by one.
fn batches(c: &mut Criterion) {
    let mut group = c.benchmark_group("batch");
    batch(&mut group, "local", Channel::pair);
    batch(&mut group, "socket", socket_pair);
    group.finish();
}

fn batch(group: &mut BenchmarkGroup<'_, WallTime>, transport: &str, pair: MakePair) {
    const MESSAGES: u16 = 16;
    let (near, far) = pair();
    let body = [1u8; 64];
    let flat: Vec<BatchRegion<'_>> = (0..MESSAGES)
        .flat_map(|message| [BatchRegion { bytes: &body, message, handles: 0 }; 2])
        .collect();
    let drain = || (0..MESSAGES).for_each(|_| drop(black_box(far.read().expect("a message"))));
    group.bench_function(format!("flat/{transport}/16x2x64"), |b| {
        b.iter(|| {
            near.write_batch(black_box(&flat), &mut Vec::new()).expect("room");
            drain();
        });
    });
    let nested = vec![vec![IoSlice::new(&body); 2]; usize::from(MESSAGES)];
    group.bench_function(format!("one_by_one/{transport}/16x2x64"), |b| {
        b.iter(|| {
            black_box(&nested).iter().for_each(|regions| send(&near, regions));
            drain();
        });
    });
}

/// Measures an event through a port: bind, write, take the packet, read.
fn ports(c: &mut Criterion) {
    let mut group = c.benchmark_group("port");
    let port = Port::new();
    for size in SIZES {
        let (near, far) = Channel::pair();
        let bytes = vec![1u8; size];
        let mut out = vec![0u8; size];
        group.bench_function(format!("event/{size}"), |b| {
            b.iter(|| {
                let options = AsyncOptions::empty();
                far.wait_async(&port, 1, Signals::READABLE, options).expect("bound");
                send(&near, &[IoSlice::new(black_box(&bytes))]);
                black_box(port.wait(Deadline::INFINITE).expect("a packet"));
                far.read_into(&mut out, &mut []).expect("a message");
            });
        });
    }
    group.bench_function("fill_hook/256", |b| {
        let (near, far) = Channel::pair();
        b.iter(|| {
            let fill = |filling: &mut Filling<'_>| Ok(filling.append(black_box(&[0; 256]))?);
            near.write_with(256, fill, &mut Vec::new()).expect("room");
            black_box(far.read().expect("a message"));
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500))
        .sample_size(20);
    targets = events, socket_events, batches, ports
}
criterion_main!(benches);
