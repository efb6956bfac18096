//! Texts for people: lines about entries, the summary, and how far it is on a terminal.

use std::fs;
use std::os::unix::fs::symlink;

use testbed::{Case, Content, Need, Program, Run, by_extent};

use crate::tree::Trees;

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_tree_is_reported_in_words,
        [] deletions_are_reported_in_words,
        [Need::Tool("script")] a_terminal_shows_how_far_it_is,
        [Need::Tool("script")] a_line_fits_the_terminal,
    ]
}

fn copy_verbosely(trees: &Trees, flags: &[&str]) -> Run {
    let program = Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["cp", "-r", "-v", "-T"]);
    trees.copy(program.args(flags))
}

#[track_caller]
fn assert_printed(run: &Run, expected: &[&str]) {
    for line in expected {
        assert!(run.stdout.contains(line), "{line:?} in {}", run.stdout);
    }
}

fn a_tree_is_reported_in_words() {
    let trees = Trees::new();
    let first = trees.file("first", "words");
    fs::hard_link(&first, trees.source().join("second")).unwrap();
    symlink("first", trees.source().join("link")).unwrap();
    trees.file("below/third", vec![3; 5000]);
    let run = copy_verbosely(&trees, &["--jobs=1"]);
    let expected = [
        ": hard link to ",
        ": symlink\n",
        ": directory\n",
        "2 files: ",
        "2 directories, 1 symbolic link, 1 hard link\n",
    ];
    assert_printed(&run, &expected);
    // Once more: each file is made anew, and nothing else said.
    assert_printed(&copy_verbosely(&trees, &["--dry-run"]), &["would "]);
}

fn deletions_are_reported_in_words() {
    let trees = Trees::new();
    trees.file("kept", "kept");
    copy_verbosely(&trees, &[]);
    let strange = trees.destination().join("strange");
    fs::create_dir(&strange).unwrap();
    fs::write(strange.join("inside"), "x").unwrap();
    fs::write(trees.destination().join("alone"), "x").unwrap();
    assert_printed(
        &copy_verbosely(&trees, &["--delete", "--dry-run"]),
        &["alone: would be deleted\n"],
    );
    assert!(strange.exists());
    let run = copy_verbosely(&trees, &["--delete"]);
    let expected = ["alone: deleted\n", "strange: deleted with 1 entry in it\n", " deleted"];
    assert_printed(&run, &expected);
    assert!(!strange.exists());
}

/// `script(1)` gives it one. Shorter copies show nothing.
fn a_terminal_shows_how_far_it_is() {
    let trees = Trees::new();
    let file = trees.from.join("file");
    Content::dense(700_001).write(&file);
    for number in 0..14 {
        trees.file(&number.to_string(), vec![number; 50_000]);
    }
    let shown = |flags: &str, from: &std::path::Path, to: &str| {
        let program = env!("CARGO_BIN_EXE_uncopy");
        let to = trees.to.join(to);
        let (from, to) = (from.display(), to.display());
        let command = format!("{program} cp {flags} --max-bandwidth=500K {from} {to}");
        let run = Program::new("script").args(["-qec", &command, "/dev/null"]).run();
        assert!(run.status.success(), "{run:?}");
        run.stdout
    };
    // Totals by a scan that ran ahead, rate, time left, and what moves the bytes.
    let text = shown("-r", &trees.source(), "tree");
    for part in ["/15 entries  ", "/683.59 KiB  ", "iB/s  ", " left  "] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    let named = |mechanism: uncopy::Mechanism| text.contains(&format!(" left  {mechanism}"));
    assert!(uncopy::Mechanism::ALL.into_iter().any(named), "{text}");
    let text = shown("-rv", &trees.source(), "reported");
    assert!(text.contains(" entries  ") && text.contains(": directory"), "{text}");
    let text = shown("--verify", &file, "copy");
    for part in ["copying file  ", "% [", "/683.59 KiB  ", "iB/s  ", " left"] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

/// The width is that of `stty`, which changes it while a file is copied.
fn a_line_fits_the_terminal() {
    let trees = Trees::new();
    let name = "\u{6f22}\u{5b57}e\u{301} of some length ".repeat(3);
    let file = trees.from.join(name.trim_end());
    Content::dense(400_001).write(&file);
    let (program, to) = (env!("CARGO_BIN_EXE_uncopy"), trees.to.display());
    let widths = [(1, 1), (7, 7), (30, 30), (200, 200), (120, 20)];
    let each = widths.into_iter().flat_map(|width| [(width, "-r"), (width, "")]);
    for ((first, then), flags) in each.step_by(by_extent([3, 1, 1])) {
        let command = format!(
            "stty cols {first} rows 5; (sleep 0.6; stty cols {then} < /dev/tty) & \
             {program} cp {flags} --max-bandwidth=300K '{}' {to}/copy; wait",
            file.display()
        );
        let run = Program::new("script").args(["-qec", &command, "/dev/null"]).run();
        assert!(run.status.success(), "{run:?}");
        let drawn: Vec<&str> = run.stdout.split('\r').filter(|line| !line.is_empty()).collect();
        let columns = |line: &&str| line.chars().filter(|c| *c != '\u{301}').map(wide).sum();
        let widest: usize = drawn.iter().map(columns).max().unwrap();
        assert!(!drawn.is_empty() && widest <= first.max(then), "{first}, {then}: {drawn:?}");
        let last: usize = drawn.last().map(columns).unwrap();
        assert!(last <= then, "{first}, {then}: {drawn:?}");
        fs::remove_file(trees.to.join("copy")).unwrap();
    }
}

fn wide(character: char) -> usize {
    if ('\u{4e00}'..'\u{a000}').contains(&character) { 2 } else { 1 }
}
