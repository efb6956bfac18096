//! Checkpoints of unfinished plans (pure): how far the walk is, and how far each file is written.
//!
//! A checkpoint holds lines of JSON: the state of the plan, the waiting tasks, and a last line with the digest of
//! everything before it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Serialize};

use super::{AnewReason, PlanTotals, links};
use crate::format::{
    FormatError, FormatProblem, MAX_UNITS, PlanId, RelativePath, Root, SeenRoots, Time, UnitNumber,
    check_schema,
};
use uncopy_os::file::Stat;

/// State of an unfinished plan while nobody lists a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Checkpoint {
    pub(super) schema: u32,
    pub(super) request: RequestKey,
    pub(super) plan: PlanId,
    /// Time when it was made, for people.
    pub(super) made: Time,
    pub(super) seen: SeenRoots,
    pub(super) totals: PlanTotals,
    pub(super) units: UnitsState,
    pub(super) links: LinksState,
    /// Directories to list, the last one first.
    #[serde(skip)]
    pub(super) tasks: Vec<Task>,
}

/// Request that a plan was begun for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestKey {
    pub(super) source: Root,
    pub(super) destination: Root,
    /// Digest of everything else that decides what is in the plan.
    pub(super) digest: String,
}

/// State of the units.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UnitsState {
    /// Number of the next unit. There is a file for each one below.
    pub(super) next_unit: u32,
    /// Number of the next file that is cut.
    pub(super) next_file: u32,
    /// Units that have room.
    pub(super) open: Vec<OpenState>,
    /// Entries and bytes of the file of the last unit.
    pub(super) finish: (u64, u64),
}

/// State of a unit that has room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenState {
    pub(super) unit: UnitNumber,
    pub(super) entries: u64,
    /// Bytes that the unit copies.
    pub(super) bytes: u64,
    /// Bytes of its file.
    pub(super) length: u64,
}

/// State of the entries with several names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinksState {
    /// Number of scratch files whose entries are in units.
    pub(super) written_out: usize,
    /// Number and length of the others.
    pub(super) parts: Vec<(usize, u64)>,
    /// A directory of each filesystem, by the index that entries have.
    pub(super) devices: Vec<RelativePath>,
}

/// Directory to list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    /// Path from the roots on; empty for the roots.
    #[serde(with = "path_below")]
    pub(super) path: Vec<u8>,
    pub(super) look: Look,
    /// Whether the destination has this directory.
    pub(super) is_there: bool,
    /// Position to go on from. `None`: the beginning.
    pub(super) from: Option<Position>,
}

/// Entries that are looked for in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Look {
    /// Those of the source.
    Source,
    /// Those that only the destination has, in a directory that both have.
    Strangers,
    /// All, in a directory that only the destination has.
    Below,
}

/// Position in a listing that was not ended.
///
/// Another process may go on from it in the same directory: an NFS server does so with each `READDIR`, for which it opens
/// the directory anew and seeks to the cookie that the client sent (`nfsd_readdir` in `fs/nfsd/vfs.c`; RFC 8881, 18.23.3).
/// Not every filesystem is exported, and some number the entries of each listing anew (merged directories of overlayfs,
/// FUSE), so it is used by another process only if nothing has changed in the directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Position {
    pub(super) offset: u64,
    inode: u64,
    mtime: Time,
    ctime: Time,
}

impl Position {
    pub(super) fn new(offset: u64, stat: &Stat) -> Position {
        let (mtime, ctime) = (stat.modified.into(), stat.changed.into());
        Position { offset, inode: stat.inode, mtime, ctime }
    }

    /// Whether it is valid in a directory that is opened anew.
    pub(super) fn holds_in(&self, stat: &Stat) -> bool {
        *self == Position::new(self.offset, stat)
    }
}

/// Last line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    digest: String,
}

impl Checkpoint {
    /// Writes a checkpoint.
    pub(super) fn to_bytes(&self) -> serde_json::Result<Vec<u8>> {
        let mut text = serde_json::to_vec(self)?;
        for task in &self.tasks {
            text.push(b'\n');
            serde_json::to_writer(&mut text, task)?;
        }
        text.push(b'\n');
        let digest = blake3::hash(&text).to_hex().to_string();
        serde_json::to_writer(&mut text, &End { digest })?;
        text.push(b'\n');
        Ok(text)
    }

    /// Reads a checkpoint.
    pub(super) fn parse(text: &[u8]) -> Result<Checkpoint, FormatError> {
        let at = |line: usize| move |problem| FormatError { line: line as u64, problem };
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        let (Some((last, rest)), true) = (lines.split_last(), text.ends_with(b"\n")) else {
            return Err(at(1)(FormatProblem::CutOff));
        };
        let Some((first, tasks)) = rest.split_first() else {
            return Err(at(1)(FormatProblem::CutOff));
        };
        let end: Result<End, _> = serde_json::from_slice(last);
        let digest = blake3::hash(&text[..text.len() - last.len()]).to_hex();
        if !end.is_ok_and(|end| end.digest == digest.as_str()) {
            return Err(at(lines.len())(FormatProblem::Digest));
        }
        check_schema(first).map_err(at(1))?;
        let read = |line, error| at(line)(FormatProblem::Json(error));
        let mut checkpoint: Checkpoint =
            serde_json::from_slice(first).map_err(|error| read(1, error))?;
        for (number, task) in tasks.iter().enumerate() {
            let task = serde_json::from_slice(task).map_err(|error| read(number + 2, error))?;
            checkpoint.tasks.push(task);
        }
        checkpoint.check_bounds().map_err(|what| at(1)(FormatProblem::OutOfBounds { what }))?;
        Ok(checkpoint)
    }

    fn check_bounds(&self) -> Result<(), &'static str> {
        let UnitsState { next_unit, open, .. } = &self.units;
        let LinksState { written_out, parts, devices } = &self.links;
        let units: BTreeSet<_> = open.iter().map(|open| open.unit).collect();
        if *next_unit > MAX_UNITS || units.iter().any(|unit| unit.get() >= *next_unit) {
            return Err("number of a unit");
        }
        let numbers: BTreeSet<_> = parts.iter().map(|(number, _)| number).collect();
        let is_part = |number| (*written_out..links::PARTS).contains(number);
        if !numbers.iter().all(|number| is_part(*number)) || *written_out > links::PARTS {
            return Err("number of a scratch file");
        }
        if units.len() < open.len() || numbers.len() < parts.len() {
            return Err("number of times that a file is named");
        }
        match devices[..] {
            [] => Err("number of filesystems"),
            [..] => Ok(()),
        }
    }

    /// Returns why a plan cannot go on from here, by what is known without looking into the roots.
    pub(super) fn other_roots(&self, now: &SeenRoots) -> Option<AnewReason> {
        let seen = &self.seen;
        // One that was made meanwhile is not looked at.
        let is_same_there = seen.destination.is_none() || seen.destination == now.destination;
        let changed = match (seen.source == now.source, is_same_there) {
            (true, true) => return None,
            (false, _) => &self.request.source,
            (true, false) => &self.request.destination,
        };
        Some(AnewReason::Changed { directory: changed.clone().into() })
    }
}

/// Paths of tasks as those of entries.
mod path_below {
    use serde::{Deserializer, Serializer};

    use super::*;

    pub(super) fn serialize<S: Serializer>(path: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        let path = match path {
            b"" => RelativePath::root(),
            path => RelativePath::new(OsString::from_vec(path.to_vec()))
                .map_err(serde::ser::Error::custom)?,
        };
        path.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let path = RelativePath::deserialize(deserializer)?;
        Ok(if path.is_root() { Vec::new() } else { path.as_path().as_os_str().as_bytes().to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{SCHEMA, SeenDirectory};

    fn checkpoint() -> Checkpoint {
        let time = Time(1_700_000_000, 7);
        let at = Position { offset: u64::MAX, inode: 9, mtime: time, ctime: time };
        let task = |path: &[u8], look, from| Task { path: path.into(), look, is_there: true, from };
        let unit = |number| UnitNumber::new(number).unwrap();
        Checkpoint {
            schema: SCHEMA,
            request: RequestKey {
                source: Root::new("/s").unwrap(),
                destination: Root::new("/d").unwrap(),
                digest: "abc".to_owned(),
            },
            plan: PlanId::from_random([7; 16]),
            made: time,
            seen: SeenRoots {
                source: Some(SeenDirectory { inode: 1, birth: Some(time) }),
                ..SeenRoots::default()
            },
            totals: PlanTotals { entries: 5, bytes: 6, ..PlanTotals::default() },
            units: UnitsState {
                next_unit: 3,
                next_file: 1,
                open: vec![OpenState { unit: unit(2), entries: 4, bytes: 5, length: 6 }],
                finish: (2, 300),
            },
            links: LinksState {
                written_out: 1,
                parts: vec![(1, 10), (63, 20)],
                devices: vec![RelativePath::root()],
            },
            tasks: vec![
                task(b"", Look::Source, Some(at)),
                task(b"a/\xff\n", Look::Strangers, None),
                task(b"b", Look::Below, None),
            ],
        }
    }

    #[test]
    fn checkpoints_come_back() {
        let mut checkpoint = checkpoint();
        for _ in 0..2 {
            let text = checkpoint.to_bytes().unwrap();
            assert_eq!(Checkpoint::parse(&text).unwrap(), checkpoint);
            checkpoint.tasks.clear();
        }
    }

    #[test]
    fn damaged_bytes_are_noticed() {
        let text = checkpoint().to_bytes().unwrap();
        for length in 0..text.len() {
            assert!(Checkpoint::parse(&text[..length]).is_err(), "{length}");
        }
        for at in 0..text.len() {
            for change in [1, 0x80] {
                let mut damaged = text.clone();
                damaged[at] ^= change;
                assert!(Checkpoint::parse(&damaged).is_err(), "{at}");
            }
        }
        assert!(Checkpoint::parse(&[&text[..], b"\n"].concat()).is_err());
        assert!(Checkpoint::parse(&[&text[..], &text[..]].concat()).is_err());
    }

    /// A whole file, with its right digest, that says what cannot be.
    #[test]
    fn impossible_states_are_refused() {
        let change = |change: &dyn Fn(&mut Checkpoint)| {
            let mut checkpoint = checkpoint();
            change(&mut checkpoint);
            let text = checkpoint.to_bytes().unwrap();
            Checkpoint::parse(&text).unwrap_err().problem.to_string()
        };
        type Change = fn(&mut Checkpoint);
        let cases: [(&str, Change); 9] = [
            ("version 3", |c| c.schema = 3),
            ("number of a unit", |c| c.units.next_unit = 2),
            ("number of a unit", |c| c.units.next_unit = MAX_UNITS + 1),
            ("times that a file", |c| c.units.open.push(c.units.open[0].clone())),
            ("number of a scratch file", |c| c.links.parts.push((64, 0))),
            ("number of a scratch file", |c| c.links.parts.push((0, 0))),
            ("number of a scratch file", |c| c.links.written_out = 65),
            ("times that a file", |c| c.links.parts.push((63, 1))),
            ("number of filesystems", |c| c.links.devices.clear()),
        ];
        for (expected, case) in cases {
            let found = change(&case);
            assert!(found.contains(expected), "{found}");
        }
        for line in [r#"{"path":"..","look":"source","is_there":true,"from":null}"#, "{}", ""] {
            let text = checkpoint().to_bytes().unwrap();
            let first = text.split_inclusive(|byte| *byte == b'\n').next().unwrap();
            let mut text = [first, line.as_bytes(), b"\n"].concat();
            let digest = blake3::hash(&text).to_hex().to_string();
            text.extend_from_slice(&serde_json::to_vec(&End { digest }).unwrap());
            text.push(b'\n');
            let error = Checkpoint::parse(&text).unwrap_err();
            assert!(matches!(error, FormatError { line: 2, problem: FormatProblem::Json(_) }));
        }
    }
}
