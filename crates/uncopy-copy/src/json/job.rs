//! Totals of a job.

use serde::Serialize;

use super::leftovers::Leftovers;
use super::{CountedRefusal, MechanismBytes, SCHEMA, Wording, is_zero, microseconds};
use crate::job::{self, Summary};

/// Totals of a whole job: the event `summary`.
#[derive(Debug, Serialize)]
pub struct WholeJob<'a> {
    schema: u32,
    event: &'static str,
    files: u64,
    directories: u64,
    symlinks: u64,
    hard_links: u64,
    specials: u64,
    skipped: u64,
    deleted: u64,
    resumed: u64,
    #[serde(skip_serializing_if = "is_zero")]
    sources_removed: u64,
    failed: u64,
    #[serde(skip_serializing_if = "is_zero")]
    discarded: u64,
    #[serde(skip_serializing_if = "is_zero")]
    discarded_bytes: u64,
    #[serde(skip_serializing_if = "is_zero")]
    compared: u64,
    #[serde(skip_serializing_if = "is_zero")]
    compared_bytes: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "is_zero")]
    resumed_bytes: u64,
    mechanisms: Vec<MechanismBytes>,
    refusals: Vec<CountedRefusal>,
    duration_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    transformed: Option<Transformed>,
    #[serde(flatten)]
    leftovers: Leftovers<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped_early: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_tried: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sources_not_tried: Option<u64>,
}

impl<'a> WholeJob<'a> {
    /// Makes the event of a job.
    #[must_use]
    pub fn new(summary: &'a Summary, wording: &impl Wording) -> WholeJob<'a> {
        WholeJob {
            schema: SCHEMA,
            event: "summary",
            files: summary.files,
            directories: summary.directories,
            symlinks: summary.symlinks,
            hard_links: summary.hard_links,
            specials: summary.specials,
            skipped: summary.skipped,
            deleted: summary.deleted,
            resumed: summary.resumed,
            sources_removed: summary.sources_removed,
            failed: summary.failed,
            discarded: summary.discarded,
            discarded_bytes: summary.discarded_bytes,
            compared: summary.compared,
            compared_bytes: summary.compared_bytes,
            bytes: summary.bytes,
            resumed_bytes: summary.resumed_bytes,
            mechanisms: summary.portions.iter().map(MechanismBytes::from).collect(),
            refusals: summary
                .refusals
                .iter()
                .map(|count| CountedRefusal::new(count, wording))
                .collect(),
            duration_us: microseconds(summary.duration),
            transformed: Transformed::of(summary),
            leftovers: Leftovers::from(&summary.leftovers),
            stopped_early: summary.stopped_early.then_some(true),
            not_tried: summary.stopped_early.then_some(summary.not_tried),
            sources_not_tried: summary.stopped_early.then_some(summary.sources_not_tried),
        }
    }
}

/// Files that were compressed or decompressed.
#[derive(Debug, Serialize)]
pub struct Transformed {
    files: u64,
    source_bytes: u64,
    bytes: u64,
}

impl Transformed {
    /// Makes the object of a job, if there were such files.
    #[must_use]
    pub fn of(summary: &Summary) -> Option<Transformed> {
        let job::Transformed { files, source_bytes, bytes, .. } = summary.transformed;
        (files > 0).then_some(Transformed { files, source_bytes, bytes })
    }
}
