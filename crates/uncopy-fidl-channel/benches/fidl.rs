//! Encoding and decoding: as regions, into a reused buffer, into a new buffer; and the whole path
//! through a channel.

#[path = "../../../xtask/src/compare/fidl/values.rs"]
mod values;

use std::hint::black_box;
use std::io::IoSlice;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use uncopy_channel::{Channel, Deadline, Object, Signals};
use uncopy_fidl::{
    Encode, Encoder, Fidl, GatherOptions, Handles, Header, NoHandle, RegionList, decode,
    decode_message, decode_owned, encode, encode_message,
};
use values::{Bytes16, Bytes256, boxes, byte_vector, entry, points, text, tree};

const HEADER: Header = Header::one_way(0x1234_5678_9abc_def0);
const SIZES: [usize; 4] = [16, 256, 4096, 65_280];

fn encode_value<T: Encode>(c: &mut Criterion, name: &str, value: &T) {
    let mut group = c.benchmark_group(format!("encode/{name}"));
    let mut encoder = Encoder::new();
    group.bench_function("gather", |b| {
        b.iter(|| {
            let mut list = RegionList::new();
            let regions = encoder.gather_message(&HEADER, black_box(value), &mut list);
            let regions = regions.expect("a value that fits");
            black_box(regions.as_slices());
        });
    });
    group.bench_function("reused", |b| {
        b.iter(|| {
            let message = encoder.linear_message(&HEADER, black_box(value));
            black_box(&[IoSlice::new(message.expect("a value that fits"))]);
        });
    });
    group.bench_function("fresh", |b| {
        b.iter(|| black_box(encode_message(&HEADER, black_box(value)).expect("a value that fits")));
    });
    group.finish();
}

fn decode_value<T: Fidl>(c: &mut Criterion, name: &str, value: &T) {
    let mut group = c.benchmark_group(format!("decode/{name}"));
    let bytes = encode(value).expect("a value that fits");
    group.bench_function("view", |b| {
        b.iter(|| {
            black_box(decode::<T>(black_box(&bytes)).expect("a value"));
        });
    });
    group.bench_function("owned", |b| {
        b.iter(|| {
            let view = decode::<T>(black_box(&bytes)).expect("a value");
            T::from_view(view, &mut Handles::default())
        });
    });
    group.bench_function("owned at once", |b| {
        b.iter(|| decode_owned::<T, NoHandle>(black_box(&bytes), Vec::new()).expect("a value"));
    });
    group.finish();
}

fn both<T: Fidl>(c: &mut Criterion, name: &str, value: &T) {
    encode_value(c, name, value);
    decode_value(c, name, value);
}

fn values(c: &mut Criterion) {
    for size in SIZES {
        both(c, &format!("bytes/{size}"), &byte_vector(size));
    }
    both(c, "struct/16", &Bytes16::of(1));
    both(c, "struct/256", &Bytes256::of(1));
    both(c, "text", &text());
    both(c, "points", &points());
    both(c, "entry", &entry());
    both(c, "tree", &tree());
    both(c, "boxes", &boxes());
}

/// Compares, by size, the whole event with every body copied and with every body in place: the
/// minimum size for which staying in place pays.
fn thresholds(c: &mut Criterion) {
    let mut group = c.benchmark_group("threshold");
    for size in [16usize, 64, 256, 512, 1024, 1536, 2048, 3072, 4096, 65_280] {
        for (way, min_body_bytes) in [("copied", usize::MAX), ("left", 1)] {
            let options = GatherOptions::new().min_body_bytes(min_body_bytes);
            let mut encoder = Encoder::with_options(options).expect("possible options");
            let (near, far) = Channel::pair();
            let value = byte_vector(size);
            group.bench_function(format!("{way}/{size}"), |b| {
                b.iter(|| {
                    let mut list = RegionList::new();
                    let regions = encoder.gather_message(&HEADER, black_box(&value), &mut list);
                    let regions = regions.expect("a value that fits");
                    near.write(regions.as_slices(), Vec::new()).expect("room");
                    black_box(far.read().expect("a message"));
                });
            });
        }
    }
    group.finish();
}

fn look(message: &[u8]) {
    let mut handles = Handles::<NoHandle>::default();
    let view = decode_message::<values::ByteVector, _>(message, &mut handles);
    black_box(view.expect("a value").bytes);
}

fn events(c: &mut Criterion) {
    for size in SIZES {
        let mut group = c.benchmark_group(format!("event/bytes/{size}"));
        group.throughput(Throughput::Bytes(size as u64));
        let (near, far) = Channel::pair();
        let (value, mut encoder) = (byte_vector(size), Encoder::new());
        let receive = || {
            far.wait_one(Signals::READABLE, Deadline::INFINITE).expect("a message");
            look(&far.read().expect("a message"));
        };
        group.bench_function("gather", |b| {
            b.iter(|| {
                let mut list = RegionList::new();
                let regions = encoder.gather_message(&HEADER, black_box(&value), &mut list);
                let regions = regions.expect("a value that fits");
                near.write(regions.as_slices(), Vec::new()).expect("room");
                receive();
            });
        });
        group.bench_function("fresh", |b| {
            b.iter(|| {
                let message = encode_message(&HEADER, black_box(&value)).expect("it fits");
                near.write(&[IoSlice::new(&message)], Vec::new()).expect("room");
                receive();
            });
        });
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500))
        .sample_size(20);
    targets = values, thresholds, events
}
criterion_main!(benches);
