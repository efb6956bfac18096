//! Repeats a copy while its source changes.

use std::cell::Cell;
use std::time::Duration;

use super::options::{CopyOptions, IfChanged, RETRIES};
use super::outcome::Outcome;
use super::pause::{Gate, Stopwatch};
use uncopy_core::Result;

/// Repeats a copy while its source changes, as often as the options allow.
pub(crate) fn retry_while_source_changes(
    options: &CopyOptions,
    gate: Option<&Gate>,
    mut copy_once: impl FnMut(&Cell<Flushes>) -> Result<Outcome>,
) -> Result<Outcome> {
    let begin = Stopwatch::start(gate);
    let (mut retries, flushes) = (0, Cell::default());
    loop {
        let mut copied = copy_once(&flushes);
        match &mut copied {
            Err(error)
                if error.is_source_changed()
                    && options.if_changed == IfChanged::Retry
                    && retries < RETRIES
                    && !flushes.get().gave_up
                    && !options.in_place =>
            {
                retries += 1;
                continue;
            }
            // Changed where it is: a receipt is large.
            Ok(Outcome::Copied(receipt)) => {
                receipt.retries = retries;
                let Flushes { count, took, .. } = flushes.get();
                (receipt.source_flushes, receipt.source_flush_duration) = (count, took);
                receipt.duration = begin.elapsed();
            }
            _ => {}
        }
        return copied;
    }
}

/// Flushes of one source, over all attempts to copy it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Flushes {
    pub(crate) count: u32,
    pub(crate) took: Duration,
    /// Whether the last flushes were in vain, so that another attempt would be too.
    pub(crate) gave_up: bool,
}

impl Flushes {
    /// Adds one flush.
    pub(crate) fn and(self, took: Duration) -> Flushes {
        Flushes { count: self.count + 1, took: self.took + took, ..self }
    }
}
