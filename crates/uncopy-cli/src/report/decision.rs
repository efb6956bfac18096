//! Size thresholds that decided the mechanism of a file, by the names of settings.

use uncopy::Decision;

/// Describes a decision for people: `direct-min 256 KiB (tuned)`.
pub(super) fn words(decision: &Decision) -> String {
    let Decision { choice, threshold } = decision;
    format!("{choice} {threshold} ({})", threshold.origin)
}
