use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use uncopy_core::Errno;

/// Results, and the places asked for that do not begin a block.
type Row = (&'static str, (u64, u64), Limits, Result<u64, Refused>);

const ALL: u64 = u64::MAX;

/// Where the source ends, from where on nothing can be written, and from where on it costs more.
#[derive(Clone, Copy)]
struct Limits {
    ends_at: u64,
    fails_from: u64,
    copied_from: u64,
}

const NONE: Limits = Limits { ends_at: ALL, fails_from: ALL, copied_from: ALL };

/// Moves within limits, and notes what it was asked for.
#[derive(Clone)]
struct Limited {
    limits: Limits,
    asked: Arc<Mutex<Vec<(u64, u64)>>>,
}

impl Mover for Limited {
    fn step(&mut self, _: Ends<'_>, offset: u64, length: u64) -> Result<Moved, Refused> {
        self.asked.lock().unwrap().push((offset, length));
        // So that both have their share.
        thread::sleep(Duration::from_micros(200));
        if offset >= self.limits.fails_from {
            return Err(Refused::at_destination(Errno::ENOSPC));
        }
        let is_copied = offset >= self.limits.copied_from;
        let cost = if is_copied { Cost::UserCopied } else { Cost::KernelCopied };
        let ends_at = self.limits.ends_at.min(self.limits.fails_from);
        let bytes = length.min(ends_at.saturating_sub(offset));
        Ok(Moved { bytes, hole_bytes: bytes / 2, cost })
    }
}

fn files() -> std::fs::File {
    tempfile::tempfile().unwrap()
}

#[test]
fn reported_progress_has_no_gap() {
    const M: u64 = BLOCK_BYTES;
    let rows: [Row; 12] = [
        ("whole blocks", (8 * M, 8 * M), NONE, Ok(8 * M)),
        ("a tail", (8 * M, 4 * M + 5), NONE, Ok(4 * M + 5)),
        ("one block", (3, M), NONE, Ok(M)),
        ("less than a block", (3, 5), NONE, Ok(5)),
        ("one block and a byte", (0, M + 1), NONE, Ok(M + 1)),
        ("it ends", (0, 8 * M), Limits { ends_at: 5 * M + 7, ..NONE }, Ok(5 * M + 7)),
        ("it ends in the first", (0, 8 * M), Limits { ends_at: 7, ..NONE }, Ok(7)),
        ("it has ended", (8 * M, 8 * M), Limits { ends_at: 3 * M, ..NONE }, Ok(0)),
        ("an error", (0, 8 * M), Limits { fails_from: 4 * M, ..NONE }, Ok(4 * M)),
        ("within a block", (0, 8 * M), Limits { fails_from: 2 * M + 9, ..NONE }, Ok(2 * M + 9)),
        (
            "at once",
            (8 * M, 8 * M),
            Limits { fails_from: 0, ..NONE },
            Err(Refused::at_destination(Errno::ENOSPC)),
        ),
        ("another cost", (0, 8 * M), Limits { copied_from: 3 * M, ..NONE }, Ok(3 * M)),
    ];
    let file = files();
    let ends = Ends { source: file.as_fd(), destination: file.as_fd() };
    for (name, (offset, length), limits, reported) in rows {
        let asked = Arc::default();
        let mut mover = Limited { limits, asked };
        let mut second_mover = mover.clone();
        let moved =
            step(&mut mover, &mut second_mover, ends, offset..offset + length, Duration::MAX);
        assert_eq!(moved.map(|moved| moved.bytes), reported, "{name}");
        if let Ok(moved) = moved {
            assert!(moved.hole_bytes <= moved.bytes / 2, "{name}: {moved:?}");
            assert!(moved.hole_bytes + 8 >= moved.bytes / 2, "{name}: {moved:?}");
        }
        let mut asked = mover.asked.lock().unwrap().clone();
        asked.sort_unstable();
        assert_eq!(asked[0].0, offset, "{name}");
        assert!(asked.windows(2).all(|two| two[0].0 + two[0].1 == two[1].0), "{name}: {asked:?}");
        let sum: u64 = asked.iter().map(|(_, length)| length).sum();
        if reported == Ok(length) {
            assert_eq!(sum, length, "{name}: {asked:?}");
        } else if limits.copied_from == ALL {
            let reached = reported.unwrap_or(0);
            assert!(sum <= (reached + 3 * M).min(length), "{name}: went on: {asked:?}");
        }
    }
}

#[test]
fn a_piece_whose_time_is_over_ends_without_a_gap() {
    let file = files();
    let ends = Ends { source: file.as_fd(), destination: file.as_fd() };
    for max_time in [Duration::ZERO, Duration::from_millis(3)] {
        let asked = Arc::default();
        let mut mover = Limited { limits: NONE, asked };
        let mut second_mover = mover.clone();
        let range = BLOCK_BYTES..10_001 * BLOCK_BYTES;
        let moved = step(&mut mover, &mut second_mover, ends, range, max_time).unwrap();
        let asked = mover.asked.lock().unwrap();
        // Each thread moves its first block at least, if it comes to it.
        assert!((1..10_000).contains(&asked.len()), "{max_time:?}: {}", asked.len());
        assert_eq!(moved.bytes, asked.len() as u64 * BLOCK_BYTES, "{max_time:?}");
    }
}

/// Panics where nobody else can be.
struct Panics;

impl Mover for Panics {
    fn step(&mut self, _: Ends<'_>, _: u64, _: u64) -> Result<Moved, Refused> {
        panic!("the helper")
    }
}

#[test]
fn a_panic_of_the_other_thread_is_not_lost() {
    let file = files();
    let outcome = panic::catch_unwind(|| {
        let ends = Ends { source: file.as_fd(), destination: file.as_fd() };
        let mut mover = Limited { limits: NONE, asked: Arc::default() };
        step(&mut mover, &mut Panics, ends, 0..1000 * BLOCK_BYTES, Duration::MAX)
    });
    assert_eq!(*outcome.unwrap_err().downcast::<&str>().unwrap(), "the helper");
}
