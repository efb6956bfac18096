//! Next steps after errors, in the names that the functions here have. The library's own name its options.

use uncopy::{Error, NextStep, Objection, Reason};

/// Returns the sentence for an error: operation, subject, reason and next step.
pub(crate) fn sentence(error: &Error) -> String {
    let (operation, subject) = (error.operation(), error.subject().display());
    let (reason, next) = match error.reason() {
        Reason::Refused(objection) => (objection.reason(), after_objection(objection)),
        reason => {
            let next = error.next_step().map(|step| next_step(step).to_owned());
            (reason.to_string(), next)
        }
    };
    let next = next.map_or_else(String::new, |next| format!("; {next}"));
    format!("cannot {operation} {subject}: {reason}{next}")
}

fn after_objection(objection: &Objection) -> Option<String> {
    let next = match objection {
        Objection::MountPoint
        | Objection::MountedMeanwhile
        | Objection::ReplacingForbidden { .. }
        | Objection::MakingForbidden { .. } => {
            "copy this file alone: copyfile, copy and copy2 write into it instead"
        }
        Objection::WritingForbidden => "change its permissions (chmod), or remove it first",
        Objection::SpecialEntry { .. } => "read or write its bytes yourself, or leave it out",
        Objection::EndlessLink => "pass symlinks=True to copytree, or remove the link",
        Objection::PeerLost { .. } | Objection::NothingNoted => "copy again",
        other => return other.next_step(),
    };
    Some(next.to_owned())
}

fn next_step(step: NextStep) -> &'static str {
    match step {
        NextStep::AcceptChange => "copy again when nobody writes to it",
        NextStep::FlushSource | NextStep::CopyUnwritten => {
            "copy again when nobody writes to the source, and check the device if they still differ; this copy was \
             not put in place"
        }
        NextStep::CopyContents => "read or write its bytes yourself",
        NextStep::MakeSocket => "nothing can be read from it; leave it out",
        NextStep::CopyAsTree => "name a file, or copy it with copytree",
        NextStep::ReplaceByForce => "name another destination, or remove it first",
        NextStep::AllowMore => "require less",
        step => step.text(),
    }
}
