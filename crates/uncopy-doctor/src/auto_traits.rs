//! Tests of the auto traits of public types.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::*;

/// Requires the auto traits of plain data.
fn data<T: Send + Sync + UnwindSafe + RefUnwindSafe>() {}

#[test]
fn public_types_keep_their_auto_traits() {
    data::<ChannelFacts>();
    data::<Condition>();
    data::<Topic>();
    data::<Evidence>();
    data::<Effect>();
    data::<DoctorFinding>();
    data::<FoundFact>();
    data::<NextStep>();
    data::<Settings>();
    data::<Setting>();
    data::<Severity>();
    data::<Probe>();
    data::<ReportFact>();
    data::<Report>();
    data::<Stack>();
    data::<CopyVerdict>();
    data::<TriedMechanism>();
    data::<Target>();
    data::<Options>();
}
