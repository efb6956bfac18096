//! Names of the destination for whoever reads the report on another machine: a path here would be taken for one there.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use uncopy::copy::job::{EntryOutcome, Record, Summary};
use uncopy::{Leftovers, Receipt};

use super::Failure;
use crate::cp::Pair;
use crate::flags::operand::Machine;

/// This machine, as the reader on another one knows it.
#[derive(Debug)]
pub(super) struct ShownMachine {
    pub(super) machine: Machine,
    /// Sources as the reader knows them, who has them.
    pub(super) sources: Vec<PathBuf>,
}

impl ShownMachine {
    fn name(&self, path: &mut PathBuf) {
        *path = self.machine.with_path(path);
    }

    fn name_all(&self, leftovers: &mut Leftovers) {
        leftovers.paths.iter_mut().for_each(|path| self.name(path));
    }

    /// Names the subject of an error, unless it is a source. One that has the same path at both machines is taken for the
    /// destination where a call on that failed.
    fn subject(&self, subject: &Path, is_at_destination: bool) -> PathBuf {
        let is_source = || self.sources.iter().any(|source| subject.starts_with(source));
        match is_at_destination || !is_source() {
            true => self.machine.with_path(subject),
            false => subject.to_owned(),
        }
    }
}

/// Report whose names at the destination can be written for another machine.
pub(super) trait NamedAt: Clone {
    fn name_at(&mut self, shown: &ShownMachine);
}

/// Returns the report with the names that its reader knows.
pub(super) fn shown<'a, T: NamedAt>(item: &'a T, machine: Option<&ShownMachine>) -> Cow<'a, T> {
    let Some(machine) = machine else { return Cow::Borrowed(item) };
    let mut item = item.clone();
    item.name_at(machine);
    Cow::Owned(item)
}

impl NamedAt for Pair {
    fn name_at(&mut self, shown: &ShownMachine) {
        shown.name(&mut self.destination);
    }
}

impl NamedAt for Receipt {
    fn name_at(&mut self, shown: &ShownMachine) {
        shown.name_all(&mut self.leftovers);
    }
}

impl NamedAt for Failure {
    fn name_at(&mut self, shown: &ShownMachine) {
        self.subject = shown.subject(&self.subject, self.is_at_destination).into();
    }
}

impl NamedAt for Record {
    fn name_at(&mut self, shown: &ShownMachine) {
        shown.name(&mut self.destination);
        match &mut self.outcome {
            EntryOutcome::Copied(receipt) => receipt.name_at(shown),
            EntryOutcome::Linked { to } => shown.name(to),
            EntryOutcome::Failed(error) => {
                let subject = shown.subject(error.subject(), error.is_at_destination());
                *error = error.clone().with_subject(&subject);
            }
            _ => {}
        }
    }
}

impl NamedAt for Summary {
    fn name_at(&mut self, shown: &ShownMachine) {
        shown.name_all(&mut self.leftovers);
        if let Some(incomplete) = &mut self.incomplete {
            shown.name(&mut incomplete.destination);
            shown.name(&mut incomplete.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    fn machine(port: Option<u16>) -> ShownMachine {
        let machine = Machine { user: None, host: "far".to_owned(), port };
        ShownMachine { machine, sources: ["same", "/here/tree"].map(PathBuf::from).into() }
    }

    #[test]
    fn only_paths_at_the_destination_get_the_machine() {
        let failure = |subject: &str, is_at_destination| Failure {
            kind: "system",
            code: None,
            operation: "open",
            subject: Path::new(subject).into(),
            errno: None,
            os_error: None,
            reason: "no".into(),
            next_step: None,
            is_at_destination,
            exit: Exit::Failure,
        };
        for (subject, is_at_destination, expected) in [
            ("/there/a", false, "far:/there/a"),
            ("/there/a", true, "far:/there/a"),
            ("/here/tree/a", false, "/here/tree/a"),
            ("same/a", false, "same/a"),
            ("same/a", true, "far:same/a"),
        ] {
            let failure = failure(subject, is_at_destination);
            let found = shown(&failure, Some(&machine(None))).subject.clone();
            assert_eq!(&*found, Path::new(expected), "{subject} {is_at_destination}");
            assert_eq!(&*shown(&failure, None).subject, Path::new(subject));
        }
        let pair = Pair { source: "same".into(), destination: "/d".into() };
        let found = shown(&pair, Some(&machine(Some(22)))).into_owned();
        assert_eq!(found.destination, Path::new("ssh://far:22/d"));
        assert_eq!(found.source, pair.source);
    }
}
