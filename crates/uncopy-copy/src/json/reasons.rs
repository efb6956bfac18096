//! Reasons against cheaper mechanisms, and notes: text for people and codes for programs.

use serde::Serialize;
use uncopy_core::{Errno, Mechanism, Note, RefusalReason};

use super::Wording;
#[cfg(feature = "trees")]
use crate::job::RefusalCount;

/// A cheaper mechanism that was not used.
#[derive(Debug, Serialize)]
pub(super) struct Refusal {
    mechanism: &'static str,
    reason: String,
    code: &'static str,
    errno: Option<i32>,
    errno_name: Option<&'static str>,
}

impl Refusal {
    pub(super) fn new(refusal: &uncopy_core::Refusal, wording: &impl Wording) -> Refusal {
        let uncopy_core::Refusal { mechanism, reason, errno } = *refusal;
        Refusal::of(mechanism, reason, errno, wording)
    }

    fn of(
        mechanism: Mechanism,
        reason: RefusalReason,
        errno: Option<Errno>,
        wording: &impl Wording,
    ) -> Refusal {
        Refusal {
            mechanism: mechanism.name(),
            reason: wording.reason(reason),
            code: reason.code(),
            errno: errno.map(Errno::raw),
            errno_name: errno.and_then(Errno::name),
        }
    }
}

/// A reason for not using a mechanism, with the number of files.
#[cfg(feature = "trees")]
#[derive(Debug, Serialize)]
pub struct CountedRefusal {
    #[serde(flatten)]
    refusal: Refusal,
    files: u64,
}

#[cfg(feature = "trees")]
impl CountedRefusal {
    /// Makes the object of a count.
    #[must_use]
    pub fn new(count: &RefusalCount, wording: &impl Wording) -> CountedRefusal {
        let RefusalCount { mechanism, reason, errno, files } = *count;
        CountedRefusal { refusal: Refusal::of(mechanism, reason, errno, wording), files }
    }
}

/// Notes as text, and as codes for programs.
#[derive(Debug, Serialize)]
pub struct Notes {
    notes: Vec<String>,
    note_codes: Vec<&'static str>,
}

impl Notes {
    /// Makes the object of some notes.
    #[must_use]
    pub fn new(notes: &[Note], wording: &impl Wording) -> Notes {
        Notes {
            notes: notes.iter().map(|note| wording.note(note)).collect(),
            note_codes: notes.iter().map(Note::code).collect(),
        }
    }
}
