//! Describes errors of units with next steps that units have, which are not those of one command that copies (pure).

use std::path::Path;

use uncopy::{Errno, Error, NextStep, Objection, Reason};

use crate::flags::naming;

/// Describes why an entry of a unit was not copied or deleted, or why a unit cannot be done here.
pub(super) fn of_entry(error: &Error) -> String {
    let step = match error.reason() {
        Reason::Refused(found) => return with_step(error, &objection(found), None),
        Reason::System { errno: Errno::ENOENT | Errno::ENOTDIR } => {
            Some(match error.is_at_destination() {
                true => "run the unit again, or look who removes it",
                false => "if it is gone since the plan, make a new plan",
            })
        }
        _ => error.next_step().map(next_step),
    };
    with_step(error, &naming::reason(error.reason()), step)
}

/// Describes why the file of a unit, a plan, a root or a ledger cannot be used.
pub(super) fn of_file(error: &Error) -> String {
    let step = match error.reason() {
        Reason::Refused(_) => return of_entry(error),
        Reason::System { errno: Errno::ENOENT } => {
            Some("look whether it was removed, or is not mounted here")
        }
        Reason::System { errno: Errno::ENOTDIR } => Some("name a directory"),
        _ => error.next_step().map(next_step),
    };
    with_step(error, &naming::reason(error.reason()), step)
}

/// Describes why the file of a unit, which is not there, cannot be read.
pub(super) fn of_missing_unit(error: &Error) -> String {
    let step = "name a file of DIR/units: `uncopy unit retry DIR` prints those that are not done";
    with_step(error, &naming::reason(error.reason()), Some(step))
}

/// Describes why no plan was made in `directory`.
pub(super) fn of_plan(error: &Error, directory: &Path) -> String {
    let step = match error.reason() {
        Reason::System { errno: Errno::ENOENT } => {
            Some("check the path, and whether it is mounted")
        }
        Reason::System { errno: Errno::ENOTDIR } => Some("name a directory"),
        Reason::System { errno: Errno::ENOSPC | Errno::EDQUOT }
            if error.subject().starts_with(directory) =>
        {
            Some("free space for the plan, and give the command again: it goes on")
        }
        Reason::Refused(found) => return with_step(error, &objection(found), None),
        _ => error.next_step().map(next_step),
    };
    with_step(error, &naming::reason(error.reason()), step)
}

fn with_step(error: &Error, reason: &str, step: Option<&str>) -> String {
    let sentence = format!("cannot {} {}: {reason}", error.operation(), error.subject().display());
    step.map_or(sentence.clone(), |step| format!("{sentence}; {step}"))
}

/// Describes why the library refuses an operation, with a next step of units.
fn objection(found: &Objection) -> String {
    let text = match found {
        Objection::MountPoint | Objection::MountedMeanwhile => {
            "something is mounted on it, so its name cannot be replaced; unmount that, or make a new plan with --exclude"
        }
        Objection::ReplacingForbidden { errno } => {
            return format!(
                "its directory does not allow it ({errno}); run the unit as the owner of either, or make a new plan with \
                 --exclude"
            );
        }
        Objection::MakingForbidden { errno } => {
            return format!(
                "no new file can be made beside it ({errno}); change the permissions of its directory, and run the unit \
                 again"
            );
        }
        Objection::OwnerForbidden { errno } => {
            return format!(
                "this process may not give it that owner ({errno}); run the unit as root, or make a new plan without --chown"
            );
        }
        Objection::WritingForbidden => {
            "its permissions forbid writing (EACCES); change them, or make a new plan with --force, and it is replaced \
             anyway"
        }
        Objection::SpecialEntry { kind } => {
            return format!("it is {kind}; make a new plan, with --specials to make a new one");
        }
        Objection::PeerLost { what } => {
            return format!(
                "the connection to the other machine ended: {what}; run the command again: what was copied counts as done"
            );
        }
        Objection::KindChanged { kind } => {
            return format!("it became {kind} since the plan; make a new plan");
        }
        Objection::InsideSource { tree } => {
            return format!(
                "it is {} itself or lies in it; make a new plan for a destination outside of the source",
                tree.display()
            );
        }
        Objection::MountedSource { tree } => {
            return format!(
                "it is {} itself or a part of it, which is mounted there; unmount that, or make a new plan with --exclude",
                tree.display()
            );
        }
        Objection::MayLieInSource { tree } => {
            return format!(
                "something is mounted on it that may be a part of {}, and the table of mounts (/proc/self/mountinfo) does not \
                 say; unmount that, or make a new plan with --exclude",
                tree.display()
            );
        }
        Objection::FileReplaced => {
            "another file has its name, and no unit made it; look at it, and remove or rename it"
        }
        Objection::DirectoryReplaced | Objection::RootReplaced => {
            "another directory took its name meanwhile; make a new plan when it is no longer renamed"
        }
        Objection::AlreadyWritten => {
            "another entry of the unit was copied to this very file; make a new plan with --exclude for one of them"
        }
        Objection::NameTaken => {
            "another entry of this copy has this name already (the filesystem ignores upper and lower case, or the source \
             changed); make a new plan with --exclude for one of them"
        }
        found => return naming::reason(&Reason::Refused(found.clone())),
    };
    text.to_owned()
}

/// Describes the next step after an error.
fn next_step(step: NextStep) -> &'static str {
    match step {
        NextStep::AcceptChange => {
            "make a new plan when no program writes to it, or one with --if-changed=retry or =accept"
        }
        NextStep::FlushSource => {
            "make a new plan with --if-changed=retry, which flushes the source first, and check the device if they still \
             differ; this copy was not put in place"
        }
        NextStep::CopyUnwritten => {
            "run the unit again when nobody writes to the source, and check the device if they still differ; this copy was \
             not put in place"
        }
        NextStep::AllowMore => {
            "make a new plan without --method, --reflink, --require or --no-user-copy to fall back"
        }
        NextStep::ShareBlocks => {
            "put source and destination on one filesystem that shares blocks (XFS, btrfs, bcachefs), or make a new plan \
             without --require"
        }
        NextStep::MoveToDisk => {
            "plan for a destination that takes direct writes (ext4, XFS or f2fs, directly on a disk), or without --require"
        }
        NextStep::ShareOrMove => {
            "put source and destination on one filesystem that shares blocks (XFS, btrfs, bcachefs), or the destination on \
             ext4, XFS or f2fs directly on a disk, or make a new plan without --require"
        }
        NextStep::NameRegularSource => "make a new plan without --require, or with --exclude",
        NextStep::MountedReadOnly | NextStep::ReadOnlyFilesystem => {
            "the filesystem is read-only; mount it for writing"
        }
        NextStep::MountAgain => {
            "the filesystem or its server is not there any more; check the mount (findmnt), and run the command again"
        }
        NextStep::LinkWithin => "plan for a destination on one filesystem",
        NextStep::NameOtherDestination
        | NextStep::NameDirectories
        | NextStep::CheckPath
        | NextStep::ReplaceByForce
        | NextStep::NameNoDirectory => "look what has its name, and run the command again",
        NextStep::CopyAsTree
        | NextStep::NameFile
        | NextStep::CopyContents
        | NextStep::MakeSocket => "make a new plan, since it is of another kind now",
        NextStep::TryAgain => "run the command again",
        step => naming::next_step(step),
    }
}

#[cfg(test)]
mod tests {
    use uncopy::FileKind;

    use super::*;

    /// Every flag in a sentence is one of `uncopy unit plan`, and no option of the library is named.
    fn check(sentence: &str) {
        let mut command = crate::command();
        command.build();
        let plan = command.find_subcommand("unit").and_then(|unit| unit.find_subcommand("plan"));
        let known: Vec<&str> =
            plan.unwrap().get_arguments().filter_map(|flag| flag.get_long()).collect();
        for word in sentence.split([' ', '(']).filter_map(|word| word.strip_prefix("--")) {
            let name = word.split(['=', ',', ';', ':', ')']).next().unwrap();
            assert!(known.contains(&name), "there is no --{name}: {sentence}");
        }
        assert!(sentence.contains("; "), "no next step: {sentence}");
        for option in ["in_place", "in-place", "existing =", "if_changed", "copy again", "resume"] {
            assert!(!sentence.contains(option), "{option}: {sentence}");
        }
    }

    #[test]
    fn next_steps_are_those_of_units() {
        let errno = Errno::EACCES;
        for found in [
            Objection::MountPoint,
            Objection::MountedMeanwhile,
            Objection::ReplacingForbidden { errno },
            Objection::MakingForbidden { errno },
            Objection::OwnerForbidden { errno },
            Objection::WritingForbidden,
            Objection::InsideSource { tree: "a".into() },
            Objection::MountedSource { tree: "a".into() },
            Objection::MayLieInSource { tree: "a".into() },
            Objection::SpecialEntry { kind: FileKind::Fifo },
            Objection::PeerLost { what: "end of file".to_owned() },
            Objection::KindChanged { kind: FileKind::Fifo },
            Objection::FileReplaced,
            Objection::DirectoryReplaced,
            Objection::AlreadyWritten,
            Objection::NameTaken,
            Objection::NotDirectory,
            Objection::IsDirectory,
            Objection::SourceSincePlan { what: "size".to_owned() },
            Objection::DestinationSincePlan,
            Objection::Overtaken,
        ] {
            let error = Error::new("copy", "f", Reason::Refused(found));
            for sentence in [of_entry(&error), of_file(&error), of_plan(&error, Path::new("p"))] {
                check(&sentence);
            }
        }
        for number in 1..=133 {
            let errno = Errno::from_raw(number);
            for error in [Error::system("open", "f", errno), Error::destination("open", "f", errno)]
            {
                let sentences =
                    [of_entry(&error), of_file(&error), of_plan(&error, Path::new("p"))];
                sentences.iter().for_each(|sentence| check(sentence));
            }
        }
        // Units neither decompress nor run on other systems.
        let not_here = [NextStep::GetAnew, NextStep::LeaveOut];
        for step in NextStep::ALL.iter().filter(|step| !not_here.contains(step)) {
            check(&format!("; {}", next_step(*step)));
        }
    }

    #[test]
    fn a_full_directory_of_a_plan_is_not_the_destination() {
        let full = |path: &str| Error::system("write", path, Errno::ENOSPC);
        let of = |path: &str| of_plan(&full(path), Path::new("/p"));
        assert!(of("/p/units/000001.jsonl").ends_with("it goes on"));
        assert!(of("/destination/f").ends_with("destination's filesystem"));
    }
}
