//! `uncopy doctor`.

mod json;
mod target;
mod words;

use std::collections::BTreeMap;
use std::io::IsTerminal;

use clap::error::ErrorKind;
use uncopy::doctor::{Options, Probe, Report, Verdict, condition, conditions, examine};

use crate::exit::Exit;
use crate::flags::doctor::DoctorArgs;
use crate::flags::usage_error;
use crate::report::{self, Failure};
use target::Asked;

/// Looks at every target, and says what was found. One that cannot be looked at does not keep the
/// others from being shown.
pub(crate) fn run(flags: &DoctorArgs) -> Result<Exit, clap::Error> {
    if let Some(id) = &flags.explain {
        return explain(id);
    }
    let Asked { targets, origins } = target::parse(flags)?;
    let options = options(flags, origins);
    let style = words::Style::of(std::io::stdout().is_terminal());
    let mut exit = Exit::Success;
    for (number, target) in targets.iter().enumerate() {
        let examined = examine(target, &options).map_err(|error| Failure::from(&error));
        let text = match (&examined, flags.json) {
            (examined, true) => json::report(target, examined),
            (Ok(report), false) => words::report(report, style, number > 0),
            (Err(_), false) => String::new(),
        };
        if let Err(error) = report::print(&text) {
            return Ok(report::output_failed(&error));
        }
        exit = match &examined {
            Ok(report) => worse(exit, verdict_code(report)),
            Err(failure) => {
                report::say(&failure.to_string());
                worse(exit, failure.exit)
            }
        };
    }
    Ok(exit)
}

fn options(flags: &DoctorArgs, origins: BTreeMap<String, String>) -> Options {
    let mut options = Options::default();
    options.message_bytes = flags.size.map(Into::into);
    options.segment_bytes = flags.segment.map(Into::into);
    options.in_flight_bytes = flags.in_flight.map(Into::into);
    options.probe = match (flags.probe_anyway, flags.probe) {
        (true, _) => Probe::Anyway,
        (false, true) => Probe::IfGreeted,
        (false, false) => Probe::No,
    };
    options.trace = flags.trace;
    options.stacks = flags.stacks;
    options.origins = origins;
    options
}

fn verdict_code(report: &Report) -> Exit {
    match report.verdict {
        Verdict::ZeroCopy => Exit::Success,
        Verdict::Limited => Exit::Limited,
        Verdict::Copied => Exit::Copied,
        Verdict::Unknown => Exit::NotKnown,
    }
}

/// The one of two codes that matters more.
fn worse(one: Exit, other: Exit) -> Exit {
    let order =
        [Exit::Success, Exit::Limited, Exit::NotKnown, Exit::Copied, Exit::Usage, Exit::Failure];
    let place = |exit| order.iter().position(|found| *found == exit).unwrap_or(order.len());
    if place(other) > place(one) { other } else { one }
}

/// Prints sections of the book.
fn explain(id: &str) -> Result<Exit, clap::Error> {
    let pages: Vec<String> = match (id, condition(id)) {
        ("all", _) => conditions().map(|condition| condition.page()).collect(),
        (_, Some(condition)) => vec![condition.page()],
        (_, None) => {
            let ids: Vec<&str> = conditions().map(|condition| condition.id).collect();
            let message = format!("no finding has the id {id:?}; there are: {}", ids.join(", "));
            return Err(usage_error("doctor", ErrorKind::InvalidValue, &message));
        }
    };
    Ok(match report::print(&pages.join("\n")) {
        Ok(()) => Exit::Success,
        Err(error) => report::output_failed(&error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_target_decides() {
        for (codes, expected) in [
            (&[][..], Exit::Success),
            (&[Exit::Success, Exit::Limited], Exit::Limited),
            (&[Exit::Copied, Exit::NotKnown, Exit::Success], Exit::Copied),
            (&[Exit::Limited, Exit::NotKnown], Exit::NotKnown),
            (&[Exit::Failure, Exit::Copied], Exit::Failure),
        ] {
            assert_eq!(codes.iter().copied().fold(Exit::Success, worse), expected, "{codes:?}");
        }
    }
}
