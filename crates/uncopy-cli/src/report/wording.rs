//! Wording of reasons, notes and decisions in JSON reports: by the names of flags and settings.

use uncopy::copy::json::Wording;
use uncopy::{Decision, Note, RefusalReason};

use super::{decision, refusal};
use crate::flags::choice::flag;

/// Names options as the command line does.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlagWording;

impl Wording for FlagWording {
    fn reason(&self, reason: RefusalReason) -> String {
        refusal::words(reason)
    }

    fn note(&self, note: &Note) -> String {
        note.named_by(flag)
    }

    fn decision(&self, decision: &Decision) -> String {
        decision::words(decision)
    }
}
