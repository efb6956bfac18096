//! Copies between machines as targets of the doctor, in builds that make none.

use uncopy::doctor::{Options, Report};

use super::target::Between;
use crate::exit::Exit;
use crate::report::Failure;

/// Refuses the copy.
pub(super) fn examine(copy: &Between, _: &Options) -> (String, Result<Report, Failure>) {
    let target = copy.to_string();
    let failure = Failure {
        kind: "options",
        code: None,
        operation: "examine",
        subject: std::path::Path::new(&target).into(),
        errno: None,
        os_error: None,
        reason: "this build copies on one machine alone".into(),
        next_step: Some(
            "build it with the feature `remote`, or write ./ before a file here whose name has a colon"
                .into(),
        ),
        is_at_destination: false,
        exit: Exit::Usage,
    };
    (target, Err(failure))
}
