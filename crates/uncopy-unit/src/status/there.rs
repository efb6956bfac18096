//! Reads the ledger of a plan whose destination is on another machine.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::{FileKinds, UnitFacts, unfinished};
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
    let Some(ledger) = LedgerThere::open(peer, plan)? else { return Ok(BTreeMap::new()) };
    let mut facts = BTreeMap::<UnitNumber, UnitFacts>::new();
    let mut long = Vec::new();
    ledger.list(MAX_LISTED_BYTES, |unit, kind, contents| {
        let of_unit = facts.entry(unit).or_default();
        match contents {
            Some(text) => ledger.add(of_unit, unit, kind, text),
            None => {
                long.push((unit, kind));
                Ok(())
            }
        }
    })?;
    for (unit, kind) in long {
        ledger.read(facts.entry(unit).or_default(), unit, kind)?;
    }
    Ok(facts)
}

/// Reads what the ledger of a plan has about each unit without a record. The first root of `peer` is the directory of that
/// ledger. No record crosses.
///
/// # Errors
/// As [`facts_of_peer`].
pub fn unfinished_of_peer(
    peer: &Arc<dyn Peer>,
    plan: &Plan,
) -> Result<BTreeMap<UnitNumber, UnitFacts>, UnitError> {
    let ledger = LedgerThere::open(peer, plan)?;
    let mut kinds = FileKinds::new();
    if let Some(ledger) = &ledger {
        ledger.list(0, |unit, kind, _| {
            kinds.entry(unit).or_default().push(kind);
            Ok(())
        })?;
    }
    unfinished(plan, &kinds, |facts, unit, kind| match &ledger {
        Some(ledger) => ledger.read(facts, unit, kind),
        None => Ok(()),
    })
}

/// Ledger on another machine.
struct LedgerThere<'a> {
    directory: GuardedSource,
    shown: PathBuf,
    plan: &'a Plan,
}

impl<'a> LedgerThere<'a> {
    /// Opens it. `None`: no worker has made it yet.
    fn open(peer: &Arc<dyn Peer>, plan: &'a Plan) -> Result<Option<LedgerThere<'a>>, UnitError> {
        let shown = plan.destination.as_path().join(LEDGER_DIRECTORY).join(plan.id.to_string());
        match GuardedSource::there(Arc::clone(peer), 0, &shown) {
            Err(error) if error.is_not_found() => Ok(None),
            opened => Ok(Some(LedgerThere { directory: opened?, shown, plan })),
        }
    }

    /// Hands on its files. Those of up to so many bytes come with their contents.
    fn list(
        &self,
        contents_up_to: u32,
        mut take: impl FnMut(UnitNumber, LedgerFile, Option<&[u8]>) -> Result<(), UnitError>,
    ) -> Result<(), UnitError> {
        let mut first_error = None;
        let listed = self.directory.list(0, contents_up_to, |entry| {
            let (GuardedEntry::Name(name, _) | GuardedEntry::Failed(name, _)) = entry;
            let Some((unit, kind)) = LedgerFile::of_name(name.as_bytes()) else { return true };
            let contents = match entry {
                GuardedEntry::Name(_, Some(entry)) => entry.contents.as_deref(),
                _ => None,
            };
            first_error = take(unit, kind, contents).err();
            first_error.is_none()
        });
        self.directory.check_connected()?;
        listed.map_err(|errno| Error::system("list the ledger", &self.shown, errno))?;
        first_error.map_or(Ok(()), Err)
    }

    /// Reads a file, and adds what it says about its unit.
    fn read(
        &self,
        facts: &mut UnitFacts,
        unit: UnitNumber,
        kind: LedgerFile,
    ) -> Result<(), UnitError> {
        let name = kind.name(unit);
        let read =
            self.directory.open_file(&name).and_then(|file| file.read(0..MAX_FILE_BYTES + 1));
        match read {
            Ok(text) => self.add(facts, unit, kind, &text),
            // It was taken back meanwhile.
            Err(Errno::ENOENT) => Ok(()),
            Err(errno) => {
                self.directory.check_connected()?;
                Err(Error::system("read", self.shown.join(name), errno).into())
            }
        }
    }

    /// Adds what a file says about its unit.
    fn add(
        &self,
        facts: &mut UnitFacts,
        unit: UnitNumber,
        kind: LedgerFile,
        text: &[u8],
    ) -> Result<(), UnitError> {
        let (path, plan) = (self.shown.join(kind.name(unit)), self.plan);
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
}
