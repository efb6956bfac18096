//! Reads the ledger of a plan whose destination is on another machine.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::UnitFacts;
use crate::UnitError;
use crate::format::{LEDGER_DIRECTORY, Plan, UnitNumber};
use crate::ledger::{Failure, LedgerFile, MAX_FILE_BYTES, Record, check_place, parse};
use uncopy_copy::guarded::{GuardedEntry, GuardedSource};
use uncopy_copy::peer::Peer;
use uncopy_core::{Errno, Error};

/// Maximum length of a file that comes with the listing.
const MAX_LISTED_BYTES: u32 = 64 << 10;

/// Reads what the ledger of a plan has about each unit. The first root of `peer` is the directory of that ledger.
///
/// # Errors
/// The ledger cannot be listed, or one of its files cannot be read or is not in its format; the other machine was lost.
pub fn facts_of_peer(
    peer: &Arc<dyn Peer>,
    plan: &Plan,
) -> Result<BTreeMap<UnitNumber, UnitFacts>, UnitError> {
    let shown = plan.destination.as_path().join(LEDGER_DIRECTORY).join(plan.id.to_string());
    let ledger = match GuardedSource::there(Arc::clone(peer), 0, &shown) {
        // No worker has made it yet.
        Err(error) if error.is_not_found() => return Ok(BTreeMap::new()),
        opened => opened?,
    };
    let mut facts = BTreeMap::<UnitNumber, UnitFacts>::new();
    let (mut long, mut first_error) = (Vec::new(), None);
    let listed = ledger.list(0, MAX_LISTED_BYTES, |entry| {
        let (GuardedEntry::Name(name, _) | GuardedEntry::Failed(name, _)) = entry;
        let Some((unit, kind)) = LedgerFile::of_name(name.as_bytes()) else { return true };
        let contents = match entry {
            GuardedEntry::Name(_, Some(entry)) => entry.contents.as_deref(),
            _ => None,
        };
        let of_unit = facts.entry(unit).or_default();
        match contents {
            Some(text) => {
                let added = add(of_unit, plan, unit, kind, text, &shown);
                first_error = first_error.take().or(added.err());
            }
            None => long.push((unit, kind)),
        }
        first_error.is_none()
    });
    ledger.check_connected()?;
    listed.map_err(|errno| Error::system("list the ledger", &shown, errno))?;
    first_error.map_or(Ok(()), Err)?;
    for (unit, kind) in long {
        let name = kind.name(unit);
        let read = ledger.open_file(&name).and_then(|file| file.read(0..MAX_FILE_BYTES + 1));
        match read {
            Ok(text) => {
                add(facts.entry(unit).or_default(), plan, unit, kind, &text, &shown)?;
            }
            // It was taken back meanwhile.
            Err(Errno::ENOENT) => {}
            Err(errno) => {
                ledger.check_connected()?;
                return Err(Error::system("read", shown.join(name), errno).into());
            }
        }
    }
    Ok(facts)
}

/// Adds what a file says about its unit.
fn add(
    facts: &mut UnitFacts,
    plan: &Plan,
    unit: UnitNumber,
    kind: LedgerFile,
    text: &[u8],
    ledger: &Path,
) -> Result<(), UnitError> {
    let path = ledger.join(kind.name(unit));
    match kind {
        LedgerFile::Record => {
            let record: Record = parse(text, &path)?;
            check_place((record.plan, record.unit), (plan.id, unit), &path)?;
            facts.record = Some(record);
        }
        LedgerFile::Failure => {
            // A power cut may have taken what was written about a failure or an attempt.
            let Ok(failure) = parse::<Failure>(text, &path) else { return Ok(()) };
            check_place((failure.plan, failure.unit), (plan.id, unit), &path)?;
            facts.failure = Some(failure);
        }
        LedgerFile::Attempt => facts.attempt = parse(text, &path).ok(),
        LedgerFile::Copy => {}
    }
    Ok(())
}
