//! Copies between machines, as targets of the doctor.

use uncopy::doctor::{Options, Report, between};

use super::target::Between;
use crate::remote;
use crate::report::Failure;

/// Examines a copy between this machine and another one.
pub(super) fn examine(copy: &Between, options: &Options) -> (String, Result<Report, Failure>) {
    let target = copy.to_string();
    let facts = remote::facts(&copy.flags, &copy.names);
    let report = facts.map(|facts| between(target.clone(), &facts, options));
    (target, report)
}
