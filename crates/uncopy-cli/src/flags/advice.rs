//! Chooses the words of an error for the kind of copy that met it (pure): its next step is one that such a copy can take.

use uncopy::{Error, FileKind, NextStep, Objection, Reason};

use super::naming::{self, Words};

/// Kind of a copy, which not every flag is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Entries: trees, or single files with options of trees.
    Entries,
    /// Entries of another machine, or for one.
    Between,
}

/// Describes why an operation failed, and what to do about it.
pub(crate) fn words(error: &Error, scope: Scope) -> Words {
    let found = match error.reason() {
        Reason::Refused(found) if scope == Scope::Between => between(found),
        _ => None,
    };
    let step = error.next_step().map(|step| {
        let is_written = error.operation() == "write to";
        step_of(step, is_written, scope).unwrap_or(naming::next_step(step))
    });
    found.unwrap_or_else(|| naming::words(error.reason())).and(step)
}

/// Describes why the library refuses an operation, where the step on one machine is none between two.
fn between(found: &Objection) -> Option<Words> {
    Some(match found {
        Objection::MountPoint => Words::new(
            "something is mounted on it, so its name cannot be replaced",
            "unmount it, or name another destination",
        ),
        Objection::MountedMeanwhile => Words::new(
            "something is mounted on it (EBUSY)",
            "unmount it, or name another destination",
        ),
        Objection::ReplacingForbidden { errno } => Words::new(
            format!("its directory does not allow it ({errno})"),
            "change the permissions of the directory, or name another destination",
        ),
        Objection::MakingForbidden { errno } => Words::new(
            format!("no new file can be made beside it ({errno})"),
            "change the permissions of its directory, or name another destination",
        ),
        Objection::SpecialEntry { kind } if *kind != FileKind::Socket => Words::new(
            format!("it is {kind}"),
            "pass --recursive and --specials to make a new one, or read it into a file and \
             copy that",
        ),
        Objection::LeadsOutside => Words::new(
            "it leads out of the tree, or by an absolute path",
            "name what it leads to, or pass --links=preserve",
        ),
        _ => return None,
    })
}

/// Describes a next step that is another one than for a single file here. `is_written`: what is there was to be written to.
fn step_of(step: NextStep, is_written: bool, scope: Scope) -> Option<&'static str> {
    Some(match (step, scope) {
        (NextStep::CopyContents, _) if is_written => "name another destination, or remove it first",
        (NextStep::CopyContents, _) => {
            "pass --recursive and --specials to make a new one, or read it into a file and copy that"
        }
        (NextStep::AcceptChange, Scope::Between) => {
            "copy again when no program writes to it, or pass --if-changed=accept"
        }
        (NextStep::FlushSource, Scope::Between) => NextStep::CopyUnwritten.text(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use uncopy::Errno;

    use super::*;
    use crate::flags::between::{self, Direction};

    /// Returns the flags that a text advises: none of those to leave out.
    fn advised(text: &str) -> Vec<&str> {
        let steps = text.split(';').filter(|step| !step.contains("leave out"));
        let words = steps.flat_map(|step| step.split([' ', '(']));
        words
            .filter(|word| word.starts_with("--"))
            .map(|word| word.trim_end_matches([',', '.', ')']))
            .collect()
    }

    #[track_caller]
    fn check(text: &str) {
        for word in advised(text) {
            for direction in [Direction::Push, Direction::Pull] {
                let support = between::support_of(word, direction);
                assert_eq!(support, between::Support::Honoured, "{direction:?} {word}: {text}");
            }
        }
    }

    #[test]
    fn no_next_step_between_machines_is_refused_there() {
        let errno = Errno::EACCES;
        let kind = FileKind::Fifo;
        let objections = [
            Objection::MountPoint,
            Objection::MountedMeanwhile,
            Objection::ReplacingForbidden { errno },
            Objection::MakingForbidden { errno },
            Objection::OwnerForbidden { errno },
            Objection::WritingForbidden,
            Objection::SpecialEntry { kind },
            Objection::BackupIsSource,
            Objection::BackupIsDirectory,
            Objection::BackupNameTooLong,
            Objection::BackupIsCopy,
            Objection::NameOfBackup,
            Objection::BackupOfKilledRun,
            Objection::EndlessLink,
            Objection::LeadsOutside,
            Objection::RivalName { name: "a".into() },
            Objection::TooManyDeleted,
            Objection::EmptySource,
            Objection::TooDeep { levels: 7 },
            Objection::PeerLost { what: "it ended".into() },
        ];
        for found in objections {
            let error = Error::new("copy", "a", Reason::Refused(found));
            check(&words(&error, Scope::Between).to_string());
        }
        for step in NextStep::ALL {
            // Flags that lead to these are refused before.
            if matches!(step, NextStep::GetAnew | NextStep::AllowMore) {
                continue;
            }
            for is_written in [false, true] {
                check(
                    step_of(*step, is_written, Scope::Between).unwrap_or(naming::next_step(*step)),
                );
            }
        }
    }

    /// A copy of entries refuses the flag.
    #[test]
    fn contents_of_special_files_are_of_single_files() {
        for scope in [Scope::Entries, Scope::Between] {
            for operation in ["copy", "write to"] {
                let error = Error::new(operation, "a", Reason::NotRegular { kind: FileKind::Fifo });
                let words = words(&error, scope).next_step.unwrap();
                assert!(!words.contains("--copy-contents"), "{words}");
            }
        }
    }
}
