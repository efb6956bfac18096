//! Results of copies that must have been made.

use uncopy::Receipt;
use uncopy::copy::Outcome;

/// Returns the receipt of a copied file.
///
/// # Panics
/// If the file was skipped.
#[must_use]
#[track_caller]
pub fn copied(outcome: Outcome) -> Receipt {
    match outcome {
        Outcome::Copied(receipt) => receipt,
        other => panic!("it was not copied: {other:?}"),
    }
}
