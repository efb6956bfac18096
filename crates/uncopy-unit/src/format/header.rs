//! Headers of units (pure).

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{MAX_UNITS, Root, SeenRoots, Word};

/// Name of a plan: 128 random bits, written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PlanId([u8; 16]);

impl PlanId {
    /// Makes one from random bytes.
    #[must_use]
    pub fn from_random(bytes: [u8; 16]) -> PlanId {
        PlanId(bytes)
    }
}

/// A text that is no [`PlanId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the id of a plan has 32 digits, 0 to 9 and a to f")]
pub struct NoPlanId;

impl FromStr for PlanId {
    type Err = NoPlanId;

    fn from_str(text: &str) -> Result<PlanId, NoPlanId> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 32 || !text.bytes().all(is_digit) {
            return Err(NoPlanId);
        }
        let number = u128::from_str_radix(text, 16).map_err(|_| NoPlanId)?;
        Ok(PlanId(number.to_be_bytes()))
    }
}

impl fmt::Display for PlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for PlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for PlanId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PlanId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PlanId, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Number of a unit in its plan, from 0 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct UnitNumber(u32);

impl UnitNumber {
    /// Makes a number. `None`: no plan has so many units.
    #[must_use]
    pub fn new(number: u32) -> Option<UnitNumber> {
        (number < MAX_UNITS).then_some(UnitNumber(number))
    }

    /// Returns the number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }

    /// Returns the number that the name of a file begins with: six digits or more, and no more zeros than that takes.
    #[must_use]
    pub fn of_file_name(name: &str) -> Option<UnitNumber> {
        let digits = name.split('.').next()?;
        let number = UnitNumber::new(digits.parse().ok()?)?;
        (number.to_string() == digits).then_some(number)
    }
}

impl fmt::Display for UnitNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06}", self.0)
    }
}

impl<'de> Deserialize<'de> for UnitNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UnitNumber, D::Error> {
        let number = u32::deserialize(deserializer)?;
        UnitNumber::new(number)
            .ok_or_else(|| D::Error::custom(format_args!("no plan has as many units as {number}")))
    }
}

/// Kind of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "the format has no others")]
pub enum UnitKind {
    /// Files, links and special files.
    Files,
    /// A part of one file.
    Range,
    /// The last unit: directories with their metadata, and deletions.
    Finish,
}

/// Options of a plan, which every unit repeats.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Options of the copy, as words that the program understands.
    pub words: Vec<Word>,
}

/// First line of a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Version of the format.
    pub schema: u32,
    /// Plan that the unit belongs to.
    pub plan: PlanId,
    /// Number of the unit.
    pub unit: UnitNumber,
    /// Kind of the unit.
    pub kind: UnitKind,
    /// Directory of the sources.
    pub source: Root,
    /// Directory of the destinations.
    pub destination: Root,
    /// Directories that the plan saw there.
    #[serde(default, skip_serializing_if = "SeenRoots::is_empty")]
    pub seen: SeenRoots,
    /// Options of the copy.
    pub options: Options,
}
