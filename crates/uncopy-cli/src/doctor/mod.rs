//! `uncopy doctor`.

#[cfg(feature = "remote")]
mod between;
#[cfg(not(feature = "remote"))]
#[path = "between_missing.rs"]
mod between;
mod channel_json;
mod explain;
mod json;
mod target;
mod words;

use std::collections::BTreeMap;
use std::io::IsTerminal;

use clap::error::ErrorKind;
use uncopy::Choice;
use uncopy::copy::CopyOption;
use uncopy::doctor::{
    CopyVerdict, Options, Probe, Report, Settings, condition, conditions, examine,
};

use crate::exit::Exit;
use crate::flags::doctor::DoctorArgs;
use crate::flags::{choice, usage_error};
use crate::report::{self, Failure};
use target::Request;

/// Examines every target and prints the findings. A target that cannot be examined does not prevent
/// the others from being shown.
pub(crate) fn run(flags: &DoctorArgs) -> Result<Exit, clap::Error> {
    if let Some(id) = &flags.explain {
        return print_pages(id);
    }
    let Request { targets, between, origins } = target::parse(flags)?;
    let options = options(flags, origins);
    let examined_between = between.map(|copy| between::examine(&copy, &options)).into_iter();
    let examined = targets.iter().map(|target| {
        let report = examine(target, &options).map_err(|error| Failure::from(&error));
        (target.to_string(), report)
    });
    let style = words::Style::of(std::io::stdout().is_terminal());
    let mut exit = Exit::Success;
    for (number, (target, examined)) in examined_between.chain(examined).enumerate() {
        let text = match (&examined, flags.json) {
            (examined, true) => json::report(&target, examined),
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

fn options(flags: &DoctorArgs, origins: BTreeMap<CopyOption, String>) -> Options {
    let mut settings = Settings::default();
    settings.names =
        Choice::ALL.iter().map(|choice| (*choice, choice::flag(*choice).to_owned())).collect();
    settings.place = "the flag";
    settings.origins = origins;
    let probe = match (flags.probe_anyway, flags.probe) {
        (true, _) => Probe::Anyway,
        (false, true) => Probe::IfGreeted,
        (false, false) => Probe::No,
    };
    Options::new()
        .message_bytes(flags.size.map(Into::into))
        .segment_bytes(flags.segment.map(Into::into))
        .in_flight_bytes(flags.in_flight.map(Into::into))
        .probe(probe)
        .trace(flags.trace)
        .stacks(flags.stacks)
        .settings(settings)
}

fn verdict_code(report: &Report) -> Exit {
    match report.verdict {
        CopyVerdict::ZeroCopy => Exit::Success,
        CopyVerdict::Limited => Exit::Limited,
        CopyVerdict::Copied => Exit::Copied,
        CopyVerdict::Unknown => Exit::NotKnown,
    }
}

/// Returns the more important one of two codes.
fn worse(one: Exit, other: Exit) -> Exit {
    let order =
        [Exit::Success, Exit::Limited, Exit::NotKnown, Exit::Copied, Exit::Usage, Exit::Failure];
    let place = |exit| order.iter().position(|found| *found == exit).unwrap_or(order.len());
    if place(other) > place(one) { other } else { one }
}

/// Prints the section of a finding, or all of them.
fn print_pages(id: &str) -> Result<Exit, clap::Error> {
    let pages: Vec<String> = match (id, condition(id)) {
        ("all", _) => conditions().map(explain::page).collect(),
        (_, Some(condition)) => vec![explain::page(condition)],
        (_, None) => {
            let ids: Vec<&str> = conditions().map(|condition| condition.id).collect();
            let message = format!("no finding has the id {id:?}; valid ids: {}", ids.join(", "));
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
