//! Results of `uncopy bench` for people and programs.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;
use uncopy::send::{Counters, Pages};

/// Results of one run of the sender.
pub(super) struct Outcome<'a> {
    pub(super) mode: &'static str,
    pub(super) size: usize,
    pub(super) counters: &'a Counters,
    pub(super) releases: u64,
    pub(super) notifications: u64,
    pub(super) wall: Duration,
    pub(super) processor: Duration,
    /// Pages of a registered pool.
    pub(super) pages: Option<&'a Pages>,
    /// Reason why io_uring was not used although it was requested.
    pub(super) without_io_uring: Option<String>,
}

#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    mode: &'static str,
    size_bytes: usize,
    sends: u64,
    bytes: u64,
    failed_sends: u64,
    releases: u64,
    notifications: u64,
    zero_copy: bool,
    not_copied_sends: u64,
    copied_sends: u64,
    unknown_sends: u64,
    no_buffer_space: u64,
    huge_pages_unnamed: u64,
    fallbacks: Vec<Fallback>,
    wall_seconds: f64,
    cpu_seconds: f64,
    requests_per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    huge_pages: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    without_io_uring: Option<&'a str>,
}

#[derive(Serialize)]
struct Fallback {
    reason: &'static str,
    code: &'static str,
    sends: u64,
}

/// Converts to megabytes as the tool of the kernel does.
fn megabytes(bytes: u64) -> u64 {
    bytes >> 20
}

impl Outcome<'_> {
    fn processor_per_send(&self) -> f64 {
        self.processor.as_secs_f64() * 1e6 / self.counters.sends.max(1) as f64
    }

    fn sends_per_second(&self) -> f64 {
        self.counters.sends as f64 / self.wall.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Formats the line of the tool of the kernel, followed by further results.
    pub(super) fn words(&self) -> String {
        let Counters { sends, bytes, .. } = *self.counters;
        let zero_copy = if self.counters.is_zero_copy() { 'y' } else { 'n' };
        let mut text =
            format!("tx={sends} ({} MB) txc={} zc={zero_copy}\n", megabytes(bytes), self.releases);
        let _ = writeln!(
            text,
            "{} {} bytes: {:.3} s, {:.3} s of CPU time, {:.3} µs per send, {:.0} sends per second",
            self.mode,
            self.size,
            self.wall.as_secs_f64(),
            self.processor.as_secs_f64(),
            self.processor_per_send(),
            self.sends_per_second(),
        );
        let Counters { not_copied_sends, copied_sends, unknown_sends, .. } = *self.counters;
        let _ = writeln!(
            text,
            "released: {not_copied_sends} not copied, {copied_sends} copied, {unknown_sends} \
             unknown; {} notifications",
            self.notifications
        );
        for fallback in &self.counters.fallbacks {
            let _ = writeln!(text, "copied by choice: {} ({})", fallback.sends, fallback.reason);
        }
        if let Some(Pages::Base { reason }) = self.pages {
            let _ = writeln!(text, "no huge pages: {reason}");
        }
        if let Some(reason) = &self.without_io_uring {
            let _ = writeln!(text, "no io_uring: {reason}");
        }
        text
    }

    pub(super) fn json(&self) -> String {
        let counters = self.counters;
        let fallback = |fallback: &uncopy::send::Fallback| {
            let uncopy::send::Fallback { reason, sends, .. } = *fallback;
            Fallback { reason: reason.text(), code: reason.code(), sends }
        };
        crate::report::json::line(&Json {
            schema: crate::report::json::SCHEMA,
            mode: self.mode,
            size_bytes: self.size,
            sends: counters.sends,
            bytes: counters.bytes,
            failed_sends: counters.failed_sends,
            releases: self.releases,
            notifications: self.notifications,
            zero_copy: counters.is_zero_copy(),
            not_copied_sends: counters.not_copied_sends,
            copied_sends: counters.copied_sends,
            unknown_sends: counters.unknown_sends,
            no_buffer_space: counters.no_buffer_space,
            huge_pages_unnamed: counters.huge_pages_unnamed,
            fallbacks: counters.fallbacks.iter().map(fallback).collect(),
            wall_seconds: self.wall.as_secs_f64(),
            cpu_seconds: self.processor.as_secs_f64(),
            requests_per_second: self.sends_per_second(),
            huge_pages: self.pages.map(Pages::are_huge),
            without_io_uring: self.without_io_uring.as_deref(),
        })
    }
}

#[derive(Serialize)]
struct Received {
    schema: u32,
    receives: u64,
    bytes: u64,
}

/// Formats the results of one run of the receiver.
pub(super) fn received(receives: u64, bytes: u64, json: bool) -> String {
    match json {
        true => {
            let schema = crate::report::json::SCHEMA;
            crate::report::json::line(&Received { schema, receives, bytes })
        }
        false => format!("rx={receives} ({} MB)\n", megabytes(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Counters, Outcome, Pages, received};
    use crate::report::json::documented::listed;
    use std::time::Duration;

    #[test]
    fn codes_of_fallbacks_are_documented() {
        assert_eq!(listed("### Codes of fallbacks"), uncopy::send::FallbackReason::CODES);
    }

    #[test]
    fn the_first_line_is_that_of_the_kernels_tool() {
        let mut counters = Counters::default();
        counters.sends = 129_909;
        counters.bytes = 8106 << 20;
        let mut outcome = Outcome {
            mode: "copy",
            size: 65_435,
            counters: &counters,
            releases: 0,
            notifications: 0,
            wall: Duration::from_secs(4),
            processor: Duration::from_secs(2),
            pages: None,
            without_io_uring: None,
        };
        let words = outcome.words();
        assert_eq!(words.lines().next(), Some("tx=129909 (8106 MB) txc=0 zc=n"));
        assert!(words.contains(", 32477 sends per second\n"), "{words}");
        assert!(outcome.json().contains("\"requests_per_second\":32477.25"), "{}", outcome.json());
        let mut lent = counters.clone();
        lent.not_copied_sends = 5;
        outcome.counters = &lent;
        outcome.releases = 5;
        assert!(outcome.words().starts_with("tx=129909 (8106 MB) txc=5 zc=y\n"));
        assert!(outcome.json().contains("\"zero_copy\":true"));
        assert_eq!(received(7, 3 << 20, false), "rx=7 (3 MB)\n");
        let pages = Pages::Base { reason: String::from("none are free") };
        outcome.pages = Some(&pages);
        outcome.without_io_uring = Some(String::from("a filter forbids it"));
        let words = outcome.words();
        assert!(
            words.ends_with("no huge pages: none are free\nno io_uring: a filter forbids it\n")
        );
        assert!(outcome.json().contains("\"huge_pages\":false"), "{}", outcome.json());
    }
}
