//! A piece of a large file that several threads move, a range each.

use std::thread;

use super::mechanism::{Ends, Moved, Mover};
use crate::sys::Sys;

/// Ranges begin at multiples of this from the beginning of the piece.
const ALIGN_BYTES: u64 = 1 << 20;

/// Moves up to `length` bytes from `offset` on by so many threads, if the mechanism can be at work
/// several times. What is told is what was moved from the beginning on without a gap; what lies
/// behind a gap, or behind an error, is moved again by the next step, which meets that error itself.
pub(super) fn step(
    mover: &mut dyn Mover,
    ends: Ends<'_>,
    (offset, length): (u64, u64),
    ranges: usize,
) -> Sys<Moved> {
    let others: Vec<_> = (1..ranges).map_while(|_| mover.beside()).collect();
    if others.is_empty() {
        return mover.step(ends, offset, length);
    }
    let each = length.div_ceil(others.len() as u64 + 1).next_multiple_of(ALIGN_BYTES);
    thread::scope(|scope| {
        let starts = (1..).map(|number| number * each).take_while(|start| *start < length);
        let beside: Vec<_> = starts
            .zip(others)
            .map(|(start, mut other)| {
                let (at, most) = (offset + start, each.min(length - start));
                let helper = thread::Builder::new().name("uncopy".into());
                (start, helper.spawn_scoped(scope, move || other.step(ends, at, most)))
            })
            .collect();
        let mut moved = mover.step(ends, offset, each.min(length))?;
        for (start, helper) in beside {
            // Without a thread there is a gap as well.
            let Ok(helper) = helper else { break };
            let Ok(Ok(more)) = helper.join() else { break };
            if moved.bytes < start || more.cost != moved.cost {
                break;
            }
            moved.bytes += more.bytes;
            moved.hole_bytes += more.hole_bytes;
        }
        Ok(moved)
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::error::Errno;
    use crate::receipt::Cost;

    const MEBIBYTE: u64 = 1 << 20;

    /// Moves up to a place, and from another one on not at all.
    #[derive(Clone)]
    struct Limited {
        ends_at: u64,
        fails_from: u64,
        is_several: bool,
        asked: Arc<Mutex<Vec<(u64, u64)>>>,
    }

    impl Mover for Limited {
        fn step(&mut self, _: Ends<'_>, offset: u64, length: u64) -> Sys<Moved> {
            self.asked.lock().unwrap().push((offset, length));
            if offset >= self.fails_from {
                return Err(Errno::ENOSPC);
            }
            let bytes = length.min(self.ends_at.saturating_sub(offset));
            Ok(Moved { bytes, hole_bytes: 0, cost: Cost::KernelCopied })
        }

        fn beside(&self) -> Option<Box<dyn Mover + Send>> {
            self.is_several.then(|| Box::new(self.clone()) as _)
        }
    }

    type Row = ((u64, u64), (u64, u64), usize, Result<u64, Errno>, usize);

    #[test]
    fn what_is_told_has_no_gap() {
        const ALL: u64 = u64::MAX;
        let m = MEBIBYTE;
        let rows: [Row; 10] = [
            // offset, length; where the source ends, and errors begin; threads; told; calls
            ((8 * m, 8 * m), (ALL, ALL), 1, Ok(8 * m), 1),
            ((8 * m, 8 * m), (ALL, ALL), 2, Ok(8 * m), 2),
            ((8 * m, 8 * m + 5), (ALL, ALL), 3, Ok(8 * m + 5), 3),
            ((0, m), (ALL, ALL), 2, Ok(m), 1),
            ((0, m + 1), (ALL, ALL), 4, Ok(m + 1), 2),
            // The source ends in the second range, in the first, and before it.
            ((0, 8 * m), (5 * m, ALL), 2, Ok(5 * m), 2),
            ((0, 8 * m), (3 * m, ALL), 2, Ok(3 * m), 2),
            ((8 * m, 8 * m), (3 * m, ALL), 2, Ok(0), 2),
            // The second range fails, and both.
            ((0, 8 * m), (ALL, 4 * m), 2, Ok(4 * m), 2),
            ((8 * m, 8 * m), (ALL, 8 * m), 2, Err(Errno::ENOSPC), 2),
        ];
        let file = tempfile::tempfile().unwrap();
        let ends = Ends { source: file.as_fd(), destination: file.as_fd() };
        for ((offset, length), (ends_at, fails_from), threads, told, calls) in rows {
            for is_several in [true, false] {
                let asked = Arc::default();
                let mut mover = Limited { ends_at, fails_from, is_several, asked };
                let moved = step(&mut mover, ends, (offset, length), threads);
                let mut asked = mover.asked.lock().unwrap().clone();
                asked.sort_unstable();
                if is_several {
                    assert_eq!(moved.map(|moved| moved.bytes), told, "{offset} {length} {threads}");
                    assert_eq!(asked.len(), calls, "{offset} {length} {threads}");
                } else {
                    assert_eq!(asked, [(offset, length)]);
                }
                assert_eq!(asked.iter().map(|(_, length)| length).sum::<u64>(), length);
                assert!(asked.windows(2).all(|two| two[0].0 + two[0].1 == two[1].0), "{asked:?}");
            }
        }
    }
}
