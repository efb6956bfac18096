//! Reads how often the extents of a file are referenced, as `FSCTL_GET_RETRIEVAL_POINTERS_AND_REFCOUNT` answers (pure).

use std::io;

/// Words of an answer: a header of two, and three for each extent.
const HEADER: usize = 2;
const EXTENT: usize = 3;
const WORDS: usize = HEADER + 256 * EXTENT;

/// Answer of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Words that were written.
    pub(crate) words: usize,
    /// Whether there are extents behind those of the answer (`ERROR_MORE_DATA`).
    pub(crate) has_more: bool,
}

/// `RETRIEVAL_POINTERS_AND_REFCOUNT_BUFFER_0` (winioctl.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    /// First cluster of the file behind it.
    next: u64,
    /// Whether no cluster of the volume belongs to it: its number is -1.
    is_hole: bool,
    references: u32,
}

/// Whether a file has extents, and each of them that is no hole has two references or more. `ask` writes the extents from
/// a cluster of the file on; `None`: there are none (`ERROR_HANDLE_EOF`).
///
/// # Errors
/// Those of `ask`; an answer that makes no sense.
pub(crate) fn are_all_shared(
    mut ask: impl FnMut(u64, &mut [u64]) -> io::Result<Option<Answer>>,
) -> io::Result<bool> {
    let (mut at, mut are_any) = (0, false);
    loop {
        let mut buffer = [0; WORDS];
        let Some(Answer { words, has_more }) = ask(at, &mut buffer)? else { return Ok(are_any) };
        let before = at;
        let written = buffer.get(..words).ok_or(io::ErrorKind::InvalidData)?;
        for extent in extents(written).ok_or(io::ErrorKind::InvalidData)? {
            if extent.next <= at {
                return Err(io::ErrorKind::InvalidData.into());
            }
            at = extent.next;
            if extent.is_hole {
                continue;
            }
            if extent.references < 2 {
                return Ok(false);
            }
            are_any = true;
        }
        match has_more {
            false => return Ok(are_any),
            true if at == before => return Err(io::ErrorKind::InvalidData.into()),
            true => {}
        }
    }
}

/// Reads one answer; `None`: it is shorter than it says.
fn extents(answer: &[u64]) -> Option<Vec<Extent>> {
    /// The system's numbers are little-endian.
    const fn lower(word: u64) -> u32 {
        (word & 0xffff_ffff) as u32
    }
    let (header, extents) = answer.split_at_checked(HEADER)?;
    let count = usize::try_from(lower(header[0])).ok()?;
    let extents = extents.get(..count.checked_mul(EXTENT)?)?;
    let extent = |words: &[u64]| Extent {
        next: words[0],
        is_hole: words[1] == u64::MAX,
        references: lower(words[2]),
    };
    Some(extents.chunks_exact(EXTENT).map(extent).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLE: u64 = u64::MAX;

    /// Words of an answer with these extents, whose count may be another.
    fn answer(count: u32, extents: &[(u64, u64, u32)]) -> Vec<u64> {
        // Padding lies beside the numbers.
        let mut words = vec![u64::from(count) | 7 << 32, 0];
        for (next, cluster, references) in extents {
            words.extend([*next, *cluster, u64::from(*references) | 9 << 32]);
        }
        words
    }

    /// Asks for answers that are given one after the other; returns also where each began.
    fn answered(answers: &[(Vec<u64>, bool)]) -> (Option<bool>, Vec<u64>) {
        let (mut left, mut starts) = (answers.iter(), Vec::new());
        let found = are_all_shared(|at, buffer| {
            starts.push(at);
            let Some((words, has_more)) = left.next() else { return Ok(None) };
            buffer[..words.len()].copy_from_slice(words);
            Ok(Some(Answer { words: words.len(), has_more: *has_more }))
        });
        (found.ok(), starts)
    }

    #[test]
    fn a_file_is_shared_if_each_extent_has_two_references() {
        for (extents, expected) in [
            (&[][..], false),
            (&[(1, 100, 1)], false),
            (&[(1, 100, 2)], true),
            (&[(1, 100, 3), (9, 7, 2)], true),
            (&[(1, 100, 2), (9, 7, 1)], false),
            (&[(1, 100, 0)], false),
            (&[(5, HOLE, 0), (6, 100, 2)], true),
            (&[(5, HOLE, 0)], false),
            (&[(1, 0, 2), (5, HOLE, 0), (6, 100, 1)], false),
        ] {
            let count = u32::try_from(extents.len()).unwrap();
            let found = answered(&[(answer(count, extents), false)]);
            assert_eq!(found, (Some(expected), vec![0]), "{extents:?}");
        }
        // An empty file has no answer at all.
        assert_eq!(answered(&[]), (Some(false), vec![0]));
    }

    #[test]
    fn several_answers_are_one() {
        for (references, expected, starts) in
            [([2, 2, 2], true, vec![0, 4, 9]), ([2, 1, 2], false, vec![0, 4])]
        {
            let [first, second, third] = references;
            let answers = [
                (answer(2, &[(1, 50, first), (4, HOLE, 0)]), true),
                (answer(1, &[(9, 70, second)]), true),
                (answer(1, &[(12, 90, third)]), false),
            ];
            assert_eq!(answered(&answers), (Some(expected), starts));
        }
        // There was no more.
        let last = [(answer(1, &[(4, 50, 2)]), true)];
        assert_eq!(answered(&last), (Some(true), vec![0, 4]));
    }

    #[test]
    fn an_answer_that_makes_no_sense_says_nothing() {
        for (words, has_more) in [
            (vec![], false),
            (vec![1], false),
            (answer(2, &[(1, 100, 2)]), false),
            (answer(u32::MAX, &[(1, 100, 2)]), false),
            (answer(1, &[(1, 100, 2)])[..4].to_vec(), false),
            // It would be asked for ever.
            (answer(0, &[]), true),
            (answer(1, &[(0, 100, 2)]), true),
            (answer(2, &[(5, 100, 2), (5, 200, 2)]), false),
        ] {
            assert_eq!(answered(&[(words.clone(), has_more)]).0, None, "{words:?}");
        }
        let too_long = are_all_shared(|_, buffer| {
            Ok(Some(Answer { words: buffer.len() + 1, has_more: false }))
        });
        assert_eq!(too_long.unwrap_err().kind(), io::ErrorKind::InvalidData);
        let refused = are_all_shared(|_, _| Err(io::Error::from_raw_os_error(1)));
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(1));
    }
}
