//! Totals of the cases, and the demands on them. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::case::{Case, Cause};
use super::play::{Outcome, Prediction};

/// Cases from which on shares are demanded.
pub(super) const FULL_CASES: u32 = 800;
/// How often every cause occurs in that many.
const MIN_OF_A_CAUSE: u32 = 10;
/// The doctor may leave one in so many open.
const UNKNOWN_OF: u32 = 10;
/// One answer in so many may be that bytes are copied that the kernel reports as not copied.
const FALSE_COPIED_OF: u32 = 20;
/// Percentage of cases that are truly copied.
const MIN_COPIED: u32 = 30;

/// Cases with one cause in them, or all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Tally {
    /// The cause.
    pub(super) what: String,
    pub(super) cases: u32,
    /// At least one send was copied, as the kernel reported.
    pub(super) truly_copied: u32,
    pub(super) predicted_copied: u32,
    pub(super) predicted_not_copied: u32,
    pub(super) predicted_unknown: u32,
    /// Copied, though the doctor had said that it was not.
    pub(super) false_not_copied: u32,
    /// Reported as not copied, though the doctor had said that it was.
    pub(super) false_copied: u32,
}

impl Tally {
    fn add(&mut self, outcome: &Outcome) {
        let is_copied = outcome.is_copied();
        self.cases += 1;
        self.truly_copied += u32::from(is_copied);
        match outcome.predicted {
            Prediction::Copied => {
                self.predicted_copied += 1;
                self.false_copied += u32::from(!is_copied);
            }
            Prediction::NotCopied => {
                self.predicted_not_copied += 1;
                self.false_not_copied += u32::from(is_copied);
            }
            Prediction::Unknown => self.predicted_unknown += 1,
        }
    }
}

/// All tallies of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Tallies {
    pub(super) all: Tally,
    by_cause: BTreeMap<Cause, Tally>,
    /// Cases that could not be made, or did not come to their end.
    pub(super) failed: u32,
}

impl Tallies {
    pub(super) fn add(&mut self, case: &Case, outcome: &Outcome) {
        self.all.add(outcome);
        for cause in &case.causes {
            self.by_cause.entry(*cause).or_default().add(outcome);
        }
    }

    /// A tally for each cause that occurred.
    pub(super) fn rows(&self) -> Vec<Tally> {
        let named = |(cause, tally): (&Cause, &Tally)| Tally {
            what: cause.name().to_owned(),
            ..tally.clone()
        };
        self.by_cause.iter().map(named).collect()
    }

    /// Returns the demands that are not met; shares are demanded of full runs alone.
    pub(super) fn unmet(&self) -> Vec<String> {
        let mut unmet = Vec::new();
        let all = &self.all;
        if all.false_not_copied > 0 {
            unmet.push(format!("{} false answers \"is not copied\"", all.false_not_copied));
        }
        if self.failed > 0 {
            unmet.push(format!("{} cases did not come to their end", self.failed));
        }
        if all.cases + self.failed < FULL_CASES {
            return unmet;
        }
        if all.predicted_unknown * UNKNOWN_OF > all.cases {
            unmet.push(format!(
                "{} of {} answers are unknown, more than a tenth",
                all.predicted_unknown, all.cases
            ));
        }
        if all.false_copied * FALSE_COPIED_OF > all.cases {
            unmet.push(format!(
                "{} of {} answers are a false \"will be copied\", more than a twentieth",
                all.false_copied, all.cases
            ));
        }
        if all.truly_copied * 100 < all.cases * MIN_COPIED {
            unmet.push(format!(
                "{} of {} cases are truly copied, less than {MIN_COPIED} %",
                all.truly_copied, all.cases
            ));
        }
        for cause in Cause::ALL {
            let found = self.by_cause.get(cause).map_or(0, |tally| tally.cases);
            if found < MIN_OF_A_CAUSE {
                let name = cause.name();
                unmet.push(format!("{name} occurs {found} times, less than {MIN_OF_A_CAUSE}"));
            }
        }
        unmet
    }

    /// The table for people.
    pub(super) fn table(&self) -> String {
        let mut text = format!(
            "  {:<26}{:>7}{:>9}   {:>11}{:>6}{:>9}   {:>10}{:>14}\n",
            "cause",
            "cases",
            "copied",
            "said copied",
            "not",
            "unknown",
            "false not",
            "false copied"
        );
        let total = Tally { what: "all".to_owned(), ..self.all.clone() };
        for row in self.rows().iter().chain([&total]) {
            text.push_str(&format!(
                "  {:<26}{:>7}{:>9}   {:>11}{:>6}{:>9}   {:>10}{:>14}\n",
                row.what,
                row.cases,
                row.truly_copied,
                row.predicted_copied,
                row.predicted_not_copied,
                row.predicted_unknown,
                row.false_not_copied,
                row.false_copied,
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw::{Offered, case};
    use super::*;

    const OFFERED: Offered = Offered { vlan: false, prio: false };

    /// `copied`: every send was.
    fn tallies(cases: u32, answer: impl Fn(u32) -> (Prediction, bool)) -> Tallies {
        let mut tallies = Tallies::default();
        for number in 0..cases {
            let (predicted, is_copied) = answer(number);
            let copied = if is_copied { 40 } else { 0 };
            let outcome = Outcome { predicted, headline: String::new(), sends: 40, copied };
            tallies.add(&case(1, number, OFFERED), &outcome);
        }
        tallies
    }

    #[test]
    fn what_is_demanded_is_found_missing() {
        use Prediction::{Copied, NotCopied, Unknown};
        fn right(is_copied: bool) -> (Prediction, bool) {
            (if is_copied { Copied } else { NotCopied }, is_copied)
        }
        for (cases, answer, expected) in [
            (800, (|n| right(n % 2 == 0)) as fn(u32) -> _, &[][..]),
            (40, |_| right(false), &[]),
            (40, |n| (NotCopied, n == 7), &["1 false answers"]),
            (40, |_| (Unknown, true), &[]),
            (800, |n| if n % 9 == 0 { (Unknown, true) } else { right(n % 2 == 0) }, &["unknown"]),
            (800, |n| right(n % 4 == 0), &["200 of 800 cases are truly copied"]),
            (800, |n| (Copied, n % 2 == 0), &["400 of 800"]),
        ] {
            let unmet = tallies(cases, answer).unmet();
            assert_eq!(unmet.len(), expected.len(), "{unmet:?}");
            assert!(
                unmet.iter().zip(expected).all(|(said, part)| said.contains(part)),
                "{unmet:?}"
            );
        }
        let failed = Tallies { failed: 1, ..tallies(39, |_| right(true)) };
        assert_eq!(failed.unmet().len(), 1);
    }
}
