//! The rows of a comparison.

use serde::{Deserialize, Serialize};

use super::case::{Case, Role};
use super::metric::Metric;
use super::report::without_directories;
use super::rounds::{Outcome, name_again};
use super::verdict::{Against, Target, finished, judge, range, ratio, spread, value};

/// One figure. The first eight fields are the format; the others are there where they say something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) suite: String,
    pub(crate) case: String,
    pub(crate) subject: String,
    pub(crate) metric: String,
    /// The median over the rounds.
    pub(crate) value: Option<f64>,
    pub(crate) unit: String,
    pub(crate) baseline: Option<String>,
    /// The median of each round's ratio to the baseline.
    pub(crate) ratio: Option<f64>,
    /// The round with the least of it, and the one with the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) range: Option<[f64; 2]>,
    /// The role of the subject for targets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<Role>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) met: Option<bool>,
    /// For a target: the larger of its band and the A/A spread. For the subject that runs twice: the
    /// A/A spread alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) noise: Option<f64>,
    /// Why there is no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) skipped: Option<String>,
}

impl Row {
    fn new(suite: &str, case: &str, subject: &str, metric: Metric) -> Row {
        Row {
            suite: suite.to_owned(),
            case: case.to_owned(),
            subject: subject.to_owned(),
            metric: metric.name.to_owned(),
            value: None,
            unit: metric.unit.to_owned(),
            baseline: None,
            ratio: None,
            range: None,
            role: None,
            target: None,
            met: None,
            noise: None,
            skipped: None,
        }
    }

    /// The line that says why a subject has no figures. It is recorded: its paths lose their directories.
    pub(crate) fn skipped(suite: &str, case: &str, subject: &str, reason: &str) -> Row {
        let none = Metric { rank: 0, name: "", unit: "" };
        let reason = without_directories(reason);
        Row { skipped: Some(reason), ..Row::new(suite, case, subject, none) }
    }
}

/// The rows of a case whose rounds are done.
pub(super) fn rows_of(suite: &str, case: &Case, outcomes: &[Outcome]) -> Vec<Row> {
    let mut rows = Vec::new();
    for outcome in outcomes {
        match &outcome.failure {
            Some(reason) => rows.push(Row::skipped(suite, &case.name, &outcome.subject, reason)),
            None => rows.extend(figures(suite, case, outcome, outcomes)),
        }
    }
    let targets = case.targets.iter();
    rows.extend(targets.map(|target| target_row(suite, case, target, outcomes)));
    rows
}

/// A row for each target of a case that cannot run here.
pub(super) fn rows_of_skipped(suite: &str, case: &Case, reason: &str) -> Vec<Row> {
    let mut rows = vec![Row::skipped(suite, &case.name, "", reason)];
    for target in &case.targets {
        let mut row = target_row(suite, case, target, &[]);
        row.skipped = Some(without_directories(reason));
        rows.push(row);
    }
    rows
}

fn figures(suite: &str, case: &Case, outcome: &Outcome, outcomes: &[Outcome]) -> Vec<Row> {
    let is_second = outcome.subject == name_again(case.again);
    let against = if is_second { case.again } else { case.baseline };
    let baseline = finished(outcomes, against);
    let metrics = outcome.samples.first().map(|sample| sample.keys().copied());
    let figure = |metric: Metric| Row {
        value: value(outcome, metric),
        baseline: baseline.map(|baseline| baseline.subject.clone()),
        ratio: baseline.and_then(|baseline| ratio(outcome, baseline, metric)),
        range: range(outcome, metric),
        role: Some(outcome.role),
        noise: is_second.then(|| spread(outcomes, case.again, metric)),
        ..Row::new(suite, &case.name, &outcome.subject, metric)
    };
    metrics.into_iter().flatten().map(figure).collect()
}

fn target_row(suite: &str, case: &Case, target: &Target, outcomes: &[Outcome]) -> Row {
    let spread = spread(outcomes, case.again, target.metric);
    let row = Row {
        target: Some(target.limit),
        ..Row::new(suite, &case.name, &target.subject, target.metric)
    };
    match judge(target, outcomes, spread) {
        Some(verdict) => Row {
            value: Some(verdict.value),
            baseline: verdict.baseline,
            ratio: verdict.ratio,
            met: Some(verdict.met),
            noise: verdict.noise,
            ..row
        },
        None => Row { skipped: Some(why_unjudged(target, outcomes)), ..row },
    }
}

fn why_unjudged(target: &Target, outcomes: &[Outcome]) -> String {
    let involved = |outcome: &&Outcome| {
        outcome.failure.is_some()
            && (outcome.subject == target.subject
                || target.against == Against::Subject(outcome.subject.clone()))
    };
    let failed: Vec<&str> =
        outcomes.iter().filter(involved).map(|outcome| outcome.subject.as_str()).collect();
    match failed.as_slice() {
        [] => "a subject it names is not here".to_owned(),
        failed => format!("{} does not work here", failed.join(" and ")),
    }
}
