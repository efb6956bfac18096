//! Reasons against cheaper mechanisms, in text that names flags.

use uncopy::{Refusal, RefusalReason};

use crate::flags::choice::flag;

/// Returns the reason for people: `--cache=keep: it bypasses the page cache`.
pub(crate) fn words(reason: RefusalReason) -> String {
    reason.named_by(flag).to_string()
}

/// Returns mechanism, error of the kernel and reason: `reflink: EXDEV: …`.
pub(super) fn line(refusal: &Refusal) -> String {
    let Refusal { mechanism, reason, errno } = *refusal;
    let reason = words(reason);
    match errno {
        Some(errno) => format!("{mechanism}: {errno}: {reason}"),
        None => format!("{mechanism}: {reason}"),
    }
}

/// Explains why no allowed mechanism works.
pub(crate) fn no_mechanism(refusals: &[Refusal]) -> String {
    let all = refusals.iter().map(line).collect::<Vec<_>>().join("; ");
    format!("no allowed mechanism works here: {all}")
}
