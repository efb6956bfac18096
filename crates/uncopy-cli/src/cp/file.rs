//! `uncopy cp SRC DST`: one file.

use uncopy::copy::job::JobOptions;
use uncopy::copy::{CopyContext, Outcome, Throttle, copy_file_in};

use super::target::Pair;
use super::{Reports, Signals};
use crate::exit::Exit;
use crate::flags::copy::CopyArgs;
use crate::progress::Watch;
use crate::report::Failure;

/// Copies one file and reports on it.
pub(super) fn copy(
    pair: &Pair,
    options: &JobOptions,
    flags: &CopyArgs,
    signals: Signals<'_>,
    reports: Reports,
) -> Exit {
    let Reports { mut report, mut manifest } = reports;
    if options.copy.copy_contents {
        // Opening a FIFO may wait for its other end.
        signals.stop.listen();
        signals.control.listen();
    }
    let throttle = options.bytes_per_second.map(Throttle::new);
    let gate = signals.control.gate();
    let context = CopyContext::new().gate(&gate);
    let context = throttle.as_ref().map_or(context, |throttle| context.throttle(throttle));
    let mut watch = Watch::new(&pair.source, report.shows_progress(), signals);
    let (source, destination) = (&pair.source, &pair.destination);
    let copied = copy_file_in(source, destination, &options.copy, &context, &mut watch);
    drop(watch);
    match copied {
        Ok(outcome) => {
            let actual = actual(pair, &outcome);
            report.outcome(&actual, &outcome);
            match (&mut manifest, &outcome) {
                (Some(manifest), Outcome::Copied(receipt)) => {
                    manifest.copied(&actual.destination, receipt);
                }
                (Some(manifest), _) => manifest.left_out(),
                _ => {}
            }
        }
        Err(error) => {
            manifest = None;
            let mut failure = Failure::from(&error);
            if flags.single && pair.source.is_dir() {
                failure.next_step = Some("name a file, or copy it all with: uncopy cp -r".into());
            }
            report.failed(&pair.source, &pair.destination, &failure);
        }
    }
    match signals.stop.requested() {
        Some(signal) => report.stopped(signal),
        None => {
            let written = manifest.map(|manifest| manifest.write(|| true));
            report.finish().and(written.unwrap_or(Exit::Success))
        }
    }
}

/// Returns the names of a copy, of which that of the destination may depend on its contents.
fn actual(pair: &Pair, outcome: &Outcome) -> Pair {
    let destination = outcome.renamed().unwrap_or(&pair.destination).to_owned();
    Pair { source: pair.source.clone(), destination }
}
