//! Roots of plans and units: at most one of them is on another machine.

use std::ffi::OsStr;
use std::path::Path;

use uncopy::System;
use uncopy::unit::format::Root;

use super::words;
use crate::exit::Exit;
use crate::flags::between::Direction;
use crate::flags::operand::{Operand, Place};
use crate::report::{self, Failure};

/// Which root is on another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sides {
    Here,
    Source(Place),
    Destination(Place),
}

impl Sides {
    /// Reads the roots of a command line.
    ///
    /// # Errors
    /// Both are on other machines, or one of them in a way that cannot be meant.
    pub(super) fn of_operands(from: &Path, to: &Path) -> Result<Sides, clap::Error> {
        let place = |root: &Path| match Operand::parse(root.as_os_str(), System::HERE) {
            Ok(Operand::Here(_)) => Ok(None),
            Ok(Operand::There(place)) => Ok(Some(place)),
            Err(bad) => Err(words::misuse(&bad.to_string())),
        };
        match (place(from)?, place(to)?) {
            (None, None) => Ok(Sides::Here),
            (Some(place), None) => Ok(Sides::Source(place)),
            (None, Some(place)) => Ok(Sides::Destination(place)),
            (Some(_), Some(_)) => Err(words::misuse(
                "both roots are on other machines: run uncopy on one of them, with the other one as a root",
            )),
        }
    }

    /// Reads the roots of a plan or unit.
    ///
    /// # Errors
    /// One of them does not name another machine, or in a way that cannot be meant.
    pub(super) fn of_roots(source: &Root, destination: &Root) -> Result<Sides, clap::Error> {
        let place = |place: &OsStr| match Operand::parse(place, System::HERE) {
            Ok(Operand::There(place)) => Ok(place),
            Ok(Operand::Here(path)) => {
                Err(words::misuse(&format!("{} names no other machine", path.display())))
            }
            Err(bad) => Err(words::misuse(&bad.to_string())),
        };
        match (source.there(), destination.there()) {
            (Some(source), _) => place(source).map(Sides::Source),
            (None, Some(destination)) => place(destination).map(Sides::Destination),
            (None, None) => Ok(Sides::Here),
        }
    }

    /// Returns the direction of the copy, if it is one between machines.
    pub(super) fn direction(&self) -> Option<Direction> {
        match self {
            Sides::Here => None,
            Sides::Source(_) => Some(Direction::Pull),
            Sides::Destination(_) => Some(Direction::Push),
        }
    }

    /// Returns the root that is on another machine.
    pub(super) fn place(&self) -> Option<&Place> {
        match self {
            Sides::Here => None,
            Sides::Source(place) | Sides::Destination(place) => Some(place),
        }
    }
}

/// Reports that the other machine was not reached.
pub(super) fn not_reached(failure: &Failure) -> Exit {
    report::say(&failure.to_string());
    failure.exit
}
