//! Sizes that decided which way a file went, by the names of settings.

use uncopy::Decision;

/// Returns the words for people: `direct-min 256 KiB (tuned)`.
pub(super) fn words(decision: &Decision) -> String {
    let Decision { choice, threshold } = decision;
    format!("{choice} {threshold} ({})", threshold.origin)
}
