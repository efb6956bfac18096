//! Two sets of rows side by side: pure, but for reading and printing.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::inputs::{Comparison, Inputs};
use super::number;
use crate::compare::case::Role;
use crate::compare::report::without_directories;
use crate::compare::row::Row;

/// Differences between two sets of figures.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Difference {
    /// Ours that are worse by more than noise, and targets that are no longer met; worst first.
    pub(super) regressions: Vec<Change>,
    /// Ours that are better by more than noise, and targets that are met now; best first.
    pub(super) gains: Vec<Change>,
    /// Others' figures that changed by more than noise: the machine, or their versions.
    pub(super) others: Vec<Change>,
    /// Figures within noise.
    pub(super) same: usize,
    /// Targets judged before and no longer: the figure has gone, or the target.
    pub(super) unjudged: Vec<String>,
    /// Other figures that are not in the second set, and why where its rows say it.
    pub(super) gone: Vec<String>,
    /// Figures that are not in the first set.
    pub(super) new: Vec<String>,
}

/// A figure that changed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Change {
    /// Suite, case, subject and metric.
    pub(super) name: String,
    pub(super) what: What,
    /// `after / before - 1`: less is better.
    pub(super) by: f64,
    /// The band of noise.
    pub(super) band: f64,
}

/// The compared quantity.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum What {
    /// Ratios to the same baseline, each taken within its own run.
    Ratio { before: f64, after: f64, baseline: String },
    /// The figures themselves, where there is no ratio.
    Figure { before: f64, after: f64, unit: String },
    /// Whether a target was met; `by` and `band` are of its figure.
    Target { met: bool, limit: f64 },
}

type Key<'a> = (&'a str, &'a str, &'a str, &'a str);

fn key(row: &Row) -> Key<'_> {
    (&row.suite, &row.case, &row.subject, &row.metric)
}

fn name(key: Key<'_>) -> String {
    let (suite, case, subject, metric) = key;
    format!("{suite} {case}: {subject}: {metric}")
}

/// The figures that have a value, without those that only show noise; of cases that were printed
/// twice, the first.
fn figures(inputs: &Inputs) -> BTreeMap<Key<'_>, &Row> {
    let rows = inputs.comparisons.iter().flat_map(|comparison| &comparison.rows);
    let mut figures = BTreeMap::new();
    let is_figure = |row: &&Row| row.target.is_none() && row.value.is_some() && !is_again(row);
    for row in rows.filter(is_figure) {
        figures.entry(key(row)).or_insert(row);
    }
    figures
}

/// A target: its figure, its baseline, its limit.
type Demand<'a> = (Key<'a>, &'a str, String);

/// Targets that were judged.
fn targets(inputs: &Inputs) -> BTreeMap<Demand<'_>, (&Row, bool)> {
    let rows = inputs.comparisons.iter().flat_map(|comparison| &comparison.rows);
    let judged = rows.filter_map(|row| Some((row, row.target?, row.met?)));
    judged
        .map(|(row, limit, met)| {
            let baseline = row.baseline.as_deref().unwrap_or_default();
            ((key(row), baseline, format!("{limit}")), (row, met))
        })
        .collect()
}

/// The A/A spread of a case: how far the second run of a round was from the first.
fn noise(comparison: Option<&Comparison>, case: &str, metric: &str) -> f64 {
    let Some(comparison) = comparison else { return 0.0 };
    let rows = comparison.rows.iter().filter(|row| row.case == case && row.metric == metric);
    let granted = |row: &Row| match (row.noise, row.ratio) {
        (Some(noise), _) => noise,
        (None, Some(ratio)) if is_again(row) => (ratio - 1.0).abs(),
        _ => 0.0,
    };
    rows.map(granted).fold(0.0, f64::max)
}

/// The second run of a round.
fn is_again(row: &Row) -> bool {
    row.subject.ends_with(" (again)")
}

/// Whether a change is ours to answer for. Rows that do not say whose they are count, unless the
/// others are set against them.
fn is_ours(row: &Row) -> bool {
    match row.role {
        Some(role) => role == Role::Own,
        None => row.baseline.as_deref() != Some(&row.subject),
    }
}

/// Sets the figures of `after` against those of `before`. A change counts if it is larger than the
/// A/A spreads of both sets together, and larger than `least`.
pub(super) fn differ(before: &Inputs, after: &Inputs, least: f64) -> Difference {
    let (old, new) = (figures(before), figures(after));
    let (mut found, mut gone) = (Difference::default(), Vec::new());
    let band_of = |(suite, case, _, metric): Key<'_>| {
        let of = |inputs: &Inputs| noise(inputs.comparison(suite), case, metric);
        (of(before) + of(after)).max(least)
    };
    for (key, row) in &old {
        let Some(later) = new.get(key) else {
            gone.push(*key);
            continue;
        };
        match change(row, later, band_of(*key)) {
            Some(change) if change.by.abs() > 0.0 && is_ours(row) && is_ours(later) => {
                found.add(change);
            }
            Some(change) => found.others.push(change),
            None => found.same += 1,
        }
    }
    found.new = new.keys().filter(|key| !old.contains_key(*key)).map(|key| name(*key)).collect();
    let (old, new) = (targets(before), targets(after));
    for (target, (row, met)) in &old {
        let Some((later, met_now)) = judged_again(target, &old, &new) else {
            found.unjudged.push(unjudged(target, after));
            gone.retain(|key| *key != target.0);
            continue;
        };
        if met == met_now {
            continue;
        }
        let by = relative(row.ratio.or(row.value), later.ratio.or(later.value));
        found.add(Change {
            name: name(target.0),
            what: What::Target { met: *met_now, limit: row.target.unwrap_or_default() },
            by: by.unwrap_or_default(),
            band: band_of(target.0),
        });
    }
    found.gone = gone.into_iter().map(|key| name(key) + &why_gone(key, after)).collect();
    found.sort();
    found
}

/// The same target in the later set. One against the best of several may name another of them.
fn judged_again<'a, 'b>(
    target: &Demand<'a>,
    old: &BTreeMap<Demand<'a>, (&'a Row, bool)>,
    new: &'b BTreeMap<Demand<'a>, (&'a Row, bool)>,
) -> Option<&'b (&'a Row, bool)> {
    let is_same = |other: &Demand<'_>| other.0 == target.0 && other.2 == target.2;
    let mut others = new.iter().filter(|(other, _)| is_same(other) && !old.contains_key(*other));
    new.get(target).or_else(|| others.next().map(|(_, judged)| judged))
}

fn unjudged(demand: &Demand<'_>, after: &Inputs) -> String {
    let (figure, baseline, limit) = demand;
    let of = if baseline.is_empty() { String::new() } else { format!(" of {baseline}") };
    let limit: f64 = limit.parse().unwrap_or_default();
    format!("{}: at most {}{of}{}", name(*figure), number::plain(limit), why_gone(*figure, after))
}

/// The reason in the later set why a subject has no figures in it.
fn why_gone(key: Key<'_>, after: &Inputs) -> String {
    let (suite, case, subject, _) = key;
    let rows = after.comparison(suite).map(|comparison| comparison.rows.iter());
    let of_it = |row: &&Row| row.case == case && (row.subject == subject || row.subject.is_empty());
    let reason = rows.and_then(|rows| rows.filter(of_it).find_map(|row| row.skipped.as_deref()));
    reason.map_or_else(String::new, |reason| format!(" ({})", without_directories(reason)))
}

fn relative(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    let by = after? / before? - 1.0;
    by.is_finite().then_some(by)
}

/// A change beyond the band, in either direction.
fn change(before: &Row, after: &Row, band: f64) -> Option<Change> {
    let has_own_ratio =
        |row: &Row| row.baseline.as_deref() != Some(&row.subject) && row.ratio.is_some();
    let same_baseline = before.baseline == after.baseline;
    let what = match (before.ratio, after.ratio, &before.baseline) {
        (Some(old), Some(new), Some(baseline)) if same_baseline && has_own_ratio(before) => {
            What::Ratio { before: old, after: new, baseline: baseline.clone() }
        }
        _ => What::Figure { before: before.value?, after: after.value?, unit: before.unit.clone() },
    };
    let (old, new) = match what {
        What::Ratio { before, after, .. } | What::Figure { before, after, .. } => (before, after),
        What::Target { .. } => return None,
    };
    let by = relative(Some(old), Some(new)).filter(|by| *by > -1.0)?;
    // Twice as long and half as long are the same distance.
    let distance = if by >= 0.0 { by } else { 1.0 / (1.0 + by) - 1.0 };
    (distance > band).then(|| Change { name: name(key(before)), what, by, band })
}

impl Difference {
    fn add(&mut self, change: Change) {
        let worse = match change.what {
            What::Target { met, .. } => !met,
            _ => change.by > 0.0,
        };
        if worse { self.regressions.push(change) } else { self.gains.push(change) }
    }

    fn sort(&mut self) {
        self.regressions.sort_by(|a, b| b.by.total_cmp(&a.by));
        self.gains.sort_by(|a, b| a.by.total_cmp(&b.by));
        self.others.sort_by(|a, b| b.by.abs().total_cmp(&a.by.abs()));
    }
}

/// In words, a line for each change.
pub(super) fn in_words(difference: &Difference) -> String {
    let mut text = String::new();
    for (title, changes) in [
        ("worse", &difference.regressions),
        ("better", &difference.gains),
        ("changed, and not ours", &difference.others),
    ] {
        if !changes.is_empty() {
            let _ = writeln!(text, "{title}: {}", changes.len());
        }
        for change in changes {
            let _ = writeln!(text, "  {}", line(change));
        }
    }
    for (title, names) in [
        ("judged before, and no longer", &difference.unjudged),
        ("no longer measured", &difference.gone),
        ("new", &difference.new),
    ] {
        if !names.is_empty() {
            let _ = writeln!(text, "{title}: {}", names.len());
        }
        for name in names {
            let _ = writeln!(text, "  {name}");
        }
    }
    let _ = writeln!(text, "within noise: {}", difference.same);
    text
}

fn line(change: &Change) -> String {
    let sign = if change.by < 0.0 { "−" } else { "+" };
    let by = format!("{sign}{:.1} % (noise {:.1} %)", change.by.abs() * 100.0, change.band * 100.0);
    let name = &change.name;
    match &change.what {
        What::Ratio { before, after, baseline } => {
            format!("{name}: {before:.3} → {after:.3} of {baseline}, {by}")
        }
        What::Figure { before, after, unit } => {
            let (before, after) = (number::quantity(*before, unit), number::quantity(*after, unit));
            format!("{name}: {before} → {after}, {by}")
        }
        What::Target { met, limit } => {
            let now = if *met { "met now" } else { "no longer met" };
            format!("{name}: the target {limit:.3} is {now}, {by}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One case with a baseline, its second run and one of ours.
    struct Set {
        ours: f64,
        ratio: Option<f64>,
        again: f64,
        role: Option<Role>,
        met: Option<bool>,
    }

    impl Default for Set {
        fn default() -> Set {
            Set { ours: 1.0, ratio: Some(0.5), again: 1.01, role: Some(Role::Own), met: None }
        }
    }

    fn row(subject: &str, value: f64, ratio: Option<f64>, role: Option<Role>) -> Row {
        let mut row = Row::skipped("copy", "c", subject, "");
        (row.metric, row.unit, row.skipped) = ("wall".into(), "s".into(), None);
        (row.value, row.ratio, row.role) = (Some(value), ratio, role);
        row.baseline = ratio.map(|_| "cp".into());
        row
    }

    fn inputs(set: &Set) -> Inputs {
        let peer = set.role.map(|_| Role::Peer);
        let mut rows = vec![
            row("cp", 2.0, Some(1.0), peer),
            row("uncopy", set.ours, set.ratio, set.role),
            row("cp (again)", 2.0, Some(set.again), peer),
        ];
        if let Some(met) = set.met {
            let mut target = row("uncopy", set.ours, set.ratio, None);
            (target.target, target.met) = (Some(1.0), Some(met));
            rows.push(target);
        }
        let comparison = Comparison { suite: "copy".into(), rows, ..Comparison::default() };
        Inputs { comparisons: vec![comparison], ..Inputs::default() }
    }

    fn counts(before: &Set, after: &Set) -> [usize; 4] {
        let found = differ(&inputs(before), &inputs(after), 0.03);
        [found.regressions.len(), found.gains.len(), found.others.len(), found.same]
    }

    #[test]
    fn changes_count_beyond_both_spreads_and_the_least() {
        let ratio = |ratio, again| Set { ratio: Some(ratio), again, ..Set::default() };
        for (before, after, expected) in [
            ((0.5, 1.0), (0.5, 1.0), [0, 0, 0, 2]),
            ((0.5, 1.0), (0.514, 1.0), [0, 0, 0, 2]),
            ((0.5, 1.0), (0.52, 1.0), [1, 0, 0, 1]),
            ((0.5, 1.0), (0.48, 1.0), [0, 1, 0, 1]),
            ((0.5, 1.0), (0.486, 1.0), [0, 0, 0, 2]),
            // 2 % and 3 % of noise: a change of 4 % says nothing, one of 6 % does.
            ((0.5, 1.02), (0.52, 0.97), [0, 0, 0, 2]),
            ((0.5, 1.02), (0.53, 0.97), [1, 0, 0, 1]),
            // A peer against itself is nobody's regression.
            ((0.5, 1.0), (0.5, 1.9), [0, 0, 0, 2]),
        ] {
            let (a, b) = (ratio(before.0, before.1), ratio(after.0, after.1));
            assert_eq!(counts(&a, &b), expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn a_slower_machine_is_no_regression_where_there_are_ratios() {
        let slow = Set { ours: 3.0, ..Set::default() };
        assert_eq!(counts(&Set::default(), &slow), [0, 0, 0, 2]);
        let bare = |ours| Set { ours, ratio: None, ..Set::default() };
        assert_eq!(counts(&bare(1.0), &bare(3.0)), [1, 0, 0, 1]);
        assert_eq!(counts(&bare(3.0), &bare(1.0)), [0, 1, 0, 1]);
    }

    #[test]
    fn only_ours_regress() {
        let worse = |role| {
            let set = |ratio| Set { ratio: Some(ratio), role, ..Set::default() };
            counts(&set(0.5), &set(0.9))
        };
        assert_eq!(worse(Some(Role::Own)), [1, 0, 0, 1]);
        assert_eq!(worse(Some(Role::Peer)), [0, 0, 1, 1]);
        assert_eq!(worse(Some(Role::Yardstick)), [0, 0, 1, 1]);
        assert_eq!(worse(None), [1, 0, 0, 1], "older rows do not say whose they are");
    }

    #[test]
    fn targets_that_are_no_longer_met_are_regressions() {
        let met = |met| Set { met: Some(met), ..Set::default() };
        assert_eq!(counts(&met(true), &met(false)), [1, 0, 0, 2]);
        assert_eq!(counts(&met(false), &met(true)), [0, 1, 0, 2]);
        assert_eq!(counts(&met(false), &met(false)), [0, 0, 0, 2]);
    }

    #[test]
    fn rows_of_one_set_alone_are_named() {
        let mut more = inputs(&Set::default());
        more.comparisons[0].rows.push(row("xcp", 1.0, Some(0.5), Some(Role::Peer)));
        let plain = inputs(&Set::default());
        let found = differ(&plain, &more, 0.03);
        assert_eq!(found.new, ["copy c: xcp: wall"]);
        let found = differ(&more, &plain, 0.03);
        assert_eq!(found.gone, ["copy c: xcp: wall"]);
        assert_eq!(
            in_words(&found),
            "no longer measured: 1\n  copy c: xcp: wall\nwithin noise: 2\n"
        );
        // A skipped row has no figure.
        more.comparisons[0].rows[3].value = None;
        assert!(differ(&plain, &more, 0.03).new.is_empty());
    }

    #[test]
    fn judged_rows_that_are_gone_are_listed_separately() {
        let judged = inputs(&Set { met: Some(true), ..Set::default() });
        let without = |keep: &dyn Fn(&Row) -> bool| {
            let mut less = inputs(&Set { met: Some(true), ..Set::default() });
            less.comparisons[0].rows.retain(keep);
            less
        };
        // The figure with its target, and a peer's, which nothing was demanded of.
        let mut less = without(&|row| row.subject == "cp (again)");
        less.comparisons[0].rows.push(Row::skipped("copy", "c", "uncopy", "no /dev/x here"));
        let found = differ(&judged, &less, 0.03);
        assert_eq!(found.unjudged, ["copy c: uncopy: wall: at most 1 of cp (no x here)"]);
        assert_eq!(found.gone, ["copy c: cp: wall"]);
        let words = "judged before, and no longer: 1\n  \
            copy c: uncopy: wall: at most 1 of cp (no x here)\n\
            no longer measured: 1\n  copy c: cp: wall\n\
            within noise: 0\n";
        assert_eq!(in_words(&found), words);
        // The target alone: its figure is still there.
        let found = differ(&judged, &without(&|row| row.target.is_none()), 0.03);
        assert_eq!(found.unjudged, ["copy c: uncopy: wall: at most 1 of cp"]);
        assert_eq!((found.gone.len(), found.same), (0, 2));
    }

    #[test]
    fn the_best_peer_may_be_another_one() {
        let judged = |met, best: &str| {
            let mut set = inputs(&Set { met: Some(met), ..Set::default() });
            set.comparisons[0].rows[3].baseline = Some(best.to_owned());
            set
        };
        let found = differ(&judged(true, "cp"), &judged(true, "xcp"), 0.03);
        assert_eq!((found.unjudged.len(), found.regressions.len()), (0, 0));
        let found = differ(&judged(true, "cp"), &judged(false, "xcp"), 0.03);
        assert_eq!((found.unjudged.len(), found.regressions.len()), (0, 1));
    }

    #[test]
    fn nothing_can_be_set_against_zero() {
        let zero = Set { ours: 0.0, ratio: None, ..Set::default() };
        let one = Set { ratio: None, ..Set::default() };
        assert_eq!(counts(&zero, &one), [0, 0, 0, 2]);
        assert_eq!(counts(&one, &zero), [0, 0, 0, 2]);
    }

    #[test]
    fn words() {
        let worse = Set { ratio: Some(0.75), met: Some(false), ..Set::default() };
        let before = Set { met: Some(true), ..Set::default() };
        let text = in_words(&differ(&inputs(&before), &inputs(&worse), 0.03));
        let expected = "worse: 2\n  \
            copy c: uncopy: wall: 0.500 → 0.750 of cp, +50.0 % (noise 3.0 %)\n  \
            copy c: uncopy: wall: the target 1.000 is no longer met, +50.0 % (noise 3.0 %)\n\
            within noise: 1\n";
        assert_eq!(text, expected);
    }
}
