//! Reads what the ledger of a plan has, on this machine or on that of the destination.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use clap::ArgMatches;
use uncopy::copy::peer::Peer;
use uncopy::unit::format::{LEDGER_DIRECTORY, Plan, UnitNumber};
use uncopy::unit::plan::read_plan;
use uncopy::unit::status::{UnitFacts, facts_of, facts_of_peer, unfinished_of, unfinished_of_peer};

use super::roots::{self, Sides};
use super::{failed, words};
use crate::exit::Exit;
use crate::remote::{NotServed, Served};
use crate::report;
use crate::stop::{self, Stop};

/// A plan, and what its ledger has about each unit.
pub(super) type LedgerFacts = (Plan, BTreeMap<UnitNumber, UnitFacts>);

/// Units that are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhichUnits {
    /// Each that the ledger knows.
    Known,
    /// Each without a record.
    Unfinished,
}

/// Reads the plan in a directory and its ledger; or the exit code of an error that was reported.
///
/// # Errors
/// A flag or a setting has no valid meaning, or a root of the plan.
pub(super) fn read(
    directory: &Path,
    which: WhichUnits,
    given: &ArgMatches,
) -> Result<Result<LedgerFacts, Exit>, clap::Error> {
    let plan = match read_plan(directory) {
        Ok(plan) => plan,
        Err(error) => return Ok(Err(failed(&error))),
    };
    let sides = Sides::of_roots(&plan.source, &plan.destination)?;
    let Sides::Destination(place) = sides else {
        let facts = match which {
            WhichUnits::Known => facts_of(&plan),
            WhichUnits::Unfinished => unfinished_of(&plan),
        };
        let facts = facts.map_err(|error| failed(&error));
        return Ok(facts.map(|facts| (plan, facts)));
    };
    let connection = words::connection(given, true)?;
    let stop = match Stop::new() {
        Ok(stop) => stop,
        Err(error) => return Ok(Err(stop::failed(&error))),
    };
    let ledger = place.path.join(LEDGER_DIRECTORY).join(plan.id.to_string());
    let served = match Served::begin(&connection, &place.machine, &[ledger.into()], &stop) {
        Ok(served) => served,
        Err(NotServed::Stopped(by)) => {
            report::say(&format!("stopped by {}", by.name()));
            return Ok(Err(by.end()));
        }
        Err(NotServed::Failed(failure)) => return Ok(Err(roots::not_reached(&failure))),
    };
    let peer: Arc<dyn Peer> = served.source();
    let facts = match which {
        WhichUnits::Known => facts_of_peer(&peer, &plan),
        WhichUnits::Unfinished => unfinished_of_peer(&peer, &plan),
    };
    let facts = facts.map_err(|error| failed(&error));
    let exit = served.end(facts.as_ref().err().copied().unwrap_or(Exit::Success));
    Ok(facts.map(|facts| (plan, facts)).map_err(|_| exit))
}
