//! Reasons against cheaper mechanisms, and notes: text for people and codes for programs.

use serde::Serialize;
use uncopy::copy::job::RefusalCount;
use uncopy::{Errno, Note};

use crate::flags::choice::flag;
use crate::report::refusal::words;

/// A cheaper mechanism that was not used.
#[derive(Serialize)]
pub(super) struct Refusal {
    mechanism: &'static str,
    reason: String,
    code: &'static str,
    errno: Option<i32>,
    errno_name: Option<&'static str>,
}

impl From<&uncopy::Refusal> for Refusal {
    fn from(refusal: &uncopy::Refusal) -> Refusal {
        Refusal {
            mechanism: refusal.mechanism.name(),
            reason: words(refusal.reason),
            code: refusal.reason.code(),
            errno: refusal.errno.map(Errno::raw),
            errno_name: refusal.errno.and_then(Errno::name),
        }
    }
}

/// A reason for not using a mechanism, with the number of files.
#[derive(Serialize)]
pub(super) struct CountedRefusal {
    #[serde(flatten)]
    refusal: Refusal,
    files: u64,
}

impl From<&RefusalCount> for CountedRefusal {
    fn from(count: &RefusalCount) -> CountedRefusal {
        let RefusalCount { mechanism, reason, errno, files } = *count;
        let refusal = Refusal::from(&uncopy::Refusal { mechanism, reason, errno });
        CountedRefusal { refusal, files }
    }
}

/// Notes as text, and as codes for programs.
#[derive(Serialize)]
pub(super) struct Notes {
    notes: Vec<String>,
    note_codes: Vec<&'static str>,
}

impl From<&[Note]> for Notes {
    fn from(notes: &[Note]) -> Notes {
        Notes {
            notes: notes.iter().map(|note| note.named_by(flag)).collect(),
            note_codes: notes.iter().map(Note::code).collect(),
        }
    }
}
