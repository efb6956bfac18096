//! Copies that are to have been made.

use uncopy::Receipt;
use uncopy::copy::Outcome;

/// Returns the receipt of a file that was copied.
///
/// # Panics
/// If it was left alone.
#[must_use]
#[track_caller]
pub fn copied(outcome: Outcome) -> Receipt {
    match outcome {
        Outcome::Copied(receipt) => receipt,
        other => panic!("it was not copied: {other:?}"),
    }
}
