//! Streams that stand: both directions, much data, parts, ends.

use std::io::{self, IoSlice, Read, Write};
use std::thread;
use std::time::Duration;

use testbed::by_extent;

use crate::support::{Ends, options, pattern};

#[test]
fn both_families_carry_both_directions() {
    for ip in ["127.0.0.1", "::1"] {
        let ends = Ends::new(&options(ip));
        assert_eq!(ends.listener.address().ip().to_string(), ip);
        let (_, near, far) = ends.pair();
        let (mut near_reader, mut near_writer) = near.into_split();
        let (mut far_reader, mut far_writer) = far.into_split();
        // A reader that waits must not keep the writer of its own end from writing.
        let waiting = thread::spawn(move || {
            let mut answer = Vec::new();
            near_reader.read_to_end(&mut answer).map(|_| answer)
        });
        thread::sleep(Duration::from_millis(20));
        near_writer.write_all(b"question").unwrap();
        let mut question = [0; 8];
        far_reader.read_exact(&mut question).unwrap();
        assert_eq!(&question, b"question");
        near_writer.close().unwrap();
        assert_eq!(far_reader.read(&mut question).unwrap(), 0, "closed in order");
        assert_eq!(far_reader.read(&mut question).unwrap(), 0, "and stays so");
        // The other direction goes on.
        far_writer.write_all(b"answer").unwrap();
        far_writer.close().unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), b"answer");
    }
}

#[test]
fn both_ends_write_before_they_read() {
    let ends = Ends::local();
    let (_, near, far) = ends.pair();
    let bytes = by_extent([4 << 20, 16 << 20, 64 << 20]);
    let data = pattern(1, bytes);
    thread::scope(|scope| {
        for stream in [near, far] {
            let (mut reader, mut writer) = stream.into_split();
            let data = &data;
            scope.spawn(move || {
                for part in data.chunks(100_000) {
                    writer.write_all(part).unwrap();
                }
                writer.close().unwrap();
            });
            scope.spawn(move || {
                let mut got = Vec::new();
                reader.read_to_end(&mut got).unwrap();
                assert!(got == *data);
            });
        }
    });
}

#[test]
fn four_connections_at_once_carry_their_own_data() {
    let ends = Ends::local();
    let bytes = by_extent([8 << 20, 64 << 20, 256 << 20]);
    let pairs: Vec<_> = (0..4).map(|_| ends.pair()).collect();
    thread::scope(|scope| {
        for (number, (_, near, far)) in pairs.into_iter().enumerate() {
            let expected = pattern(number as u64, bytes);
            let sent = expected.clone();
            scope.spawn(move || {
                let (mut reader, mut writer) = far.into_split();
                for part in sent.chunks(1 << 20) {
                    writer.write_all(part).unwrap();
                }
                writer.close().unwrap();
                assert_eq!(reader.read(&mut [0]).unwrap(), 0);
            });
            scope.spawn(move || {
                let (mut reader, writer) = near.into_split();
                let mut got = vec![0; bytes];
                reader.read_exact(&mut got).unwrap();
                assert!(got == expected, "connection {number}");
                assert_eq!(reader.read(&mut [0]).unwrap(), 0);
                writer.close().unwrap();
            });
        }
    });
}

#[test]
fn parts_arrive_as_they_were_put_together() {
    let ends = Ends::local();
    let (_, near, far) = ends.pair();
    let data = pattern(3, 600_000);
    let (_reader, mut writer) = near.into_split();
    let lengths = [0, 1, 12, 16_384, 40_000, 0, 30_000, 100_000, 65_536, 65_537, 3];
    let expected = data.clone();
    let writing = thread::spawn(move || {
        let mut rest = data.as_slice();
        let mut turn = 0;
        while !rest.is_empty() {
            let mut parts = Vec::new();
            let mut from = rest;
            for index in 0..4 {
                let length = lengths[(turn + index) % lengths.len()].min(from.len());
                let (part, after) = from.split_at(length);
                parts.push(IoSlice::new(part));
                from = after;
            }
            turn += 1;
            let written = writer.write_vectored(&parts).unwrap();
            let total: usize = parts.iter().map(|part| part.len()).sum();
            assert!(written <= total && (written > 0 || total == 0 || parts[0].is_empty()));
            rest = &rest[written..];
        }
        writer.close().unwrap();
    });
    let (mut reader, _writer) = far.into_split();
    // Reads of all lengths, also shorter and longer than a record.
    let mut got = Vec::new();
    for length in [1, 0, 5, 16_383, 16_385, 70_000, 7].into_iter().cycle() {
        let mut bytes = vec![0; length];
        let read = reader.read(&mut bytes).unwrap();
        if read == 0 && length > 0 {
            break;
        }
        got.extend_from_slice(&bytes[..read]);
    }
    writing.join().unwrap();
    assert!(got == expected);
}

#[test]
fn a_half_that_is_dropped_is_no_end_of_data() {
    let ends = Ends::local();
    let (_, near, far) = ends.pair();
    let (_near_reader, mut near_writer) = near.into_split();
    let (mut far_reader, _far_writer) = far.into_split();
    near_writer.write_all(b"not all").unwrap();
    drop(near_writer);
    let mut got = Vec::new();
    let error = far_reader.read_to_end(&mut got).unwrap_err();
    assert_eq!(
        (got.as_slice(), error.kind()),
        (b"not all".as_slice(), io::ErrorKind::UnexpectedEof)
    );
    assert_eq!(far_reader.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn a_cutter_ends_reads_and_writes_that_wait() {
    let ends = Ends::local();
    let (_, near, far) = ends.pair();
    let cutter = near.cutter();
    let (mut reader, mut writer) = near.into_split();
    let reading = thread::spawn(move || reader.read(&mut [0]).map_err(|error| error.kind()));
    let writing = thread::spawn(move || {
        let error = loop {
            if let Err(error) = writer.write_all(&[7; 1 << 20]) {
                break error;
            }
        };
        assert!(writer.write(b"more").is_err() && writer.flush().is_err(), "{error}");
        assert!(writer.close().is_err());
    });
    thread::sleep(Duration::from_millis(50));
    assert!(!reading.is_finished() && !writing.is_finished());
    cutter.cut();
    assert_eq!(reading.join().unwrap(), Err(io::ErrorKind::UnexpectedEof));
    writing.join().unwrap();
    drop(far);
    cutter.cut();
}
