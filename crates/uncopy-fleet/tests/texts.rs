//! `uncopy fleet man|completions`.

use std::fs;

use testbed::{Case, Place};

use crate::work::{failed, fleet};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] every_shell_gets_a_completion_script,
        [] manual_pages_are_printed_one_by_one_or_written_together,
        [] manual_pages_that_cannot_be_made,
        [] a_file_that_is_full_is_an_error,
    ]
}

fn every_shell_gets_a_completion_script() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let run = fleet(["completions", shell]).run();
        assert!(run.status.success(), "{shell}: {}", run.stderr);
        for word in ["uncopy-fleet", "slurm", "ack-wait", "max-deliver", "dry-run"] {
            assert!(run.stdout.contains(word), "{shell} does not complete {word}");
        }
    }
}

fn manual_pages_are_printed_one_by_one_or_written_together() {
    let scratch = Place::Disk.scratch();
    let directory = scratch.join("new/man1");
    let run = fleet(["man", "--out"]).arg(&directory).run();
    assert!(run.status.success() && run.stdout.is_empty(), "{}{}", run.stderr, run.stdout);
    let names = fs::read_dir(&directory).unwrap();
    let mut names: Vec<_> =
        names.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let commands = ["completions", "man", "slurm", "status", "submit", "work"];
    let expected = commands.map(|command| format!("uncopy-fleet-{command}.1"));
    // A full stop comes behind a hyphen.
    assert_eq!(names.pop().as_deref(), Some("uncopy-fleet.1"));
    assert_eq!(names, expected);
    for (words, name) in
        [(&["man"][..], "uncopy-fleet.1"), (&["man", "slurm"], "uncopy-fleet-slurm.1")]
    {
        let run = fleet(words).run();
        assert!(run.status.success(), "{words:?}: {}", run.stderr);
        assert_eq!(run.stdout, fs::read_to_string(directory.join(name)).unwrap(), "{name}");
    }
    let page = fs::read_to_string(directory.join("uncopy-fleet.1")).unwrap();
    for part in ["uncopy fleet", "uncopy\\-fleet\\-work(1)", "Examples:", "Exit codes:"] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

fn manual_pages_that_cannot_be_made() {
    let scratch = Place::Disk.scratch();
    let file = scratch.join("file");
    fs::write(&file, "old").unwrap();
    let run = fleet(["man", "--out"]).arg(&file).run();
    assert!(failed(&run, 1).contains("cannot write the manual pages into"), "{}", run.stderr);
    assert_eq!(fs::read(&file).unwrap(), b"old");
    let run = fleet(["man", "mv"]).run();
    assert!(failed(&run, 2).contains("no command \"mv\""), "{}", run.stderr);
    assert_eq!(fleet(["man", "work", "--out", "d"]).run().status.code(), Some(2));
}

/// A signal ended the program.
fn a_file_that_is_full_is_an_error() {
    let scratch = Place::Disk.scratch();
    let file = scratch.join("file");
    let file = file.to_str().unwrap();
    for words in [&["completions", "bash"][..], &["man"], &["man", "work"]] {
        let into_file = "exec \"$@\" >\"$0\"";
        let program =
            fleet(words).through(["sh", "-c", into_file, file, "prlimit", "--fsize=1000"]);
        let run = program.run();
        let message = failed(&run, 1);
        assert!(message.contains("cannot write to standard output"), "{words:?}: {message}");
    }
}
