//! The summary of a job in words and as JSON: the same numbers and the same reasons.

use indicatif::BinaryBytes;
use testbed::{Case, Content, Program, Run};

use crate::tree::{Trees, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] words_and_json_agree_on_bytes_and_refusals,
        [] words_and_json_agree_where_a_way_is_asked_for,
    ]
}

/// The same copy, reported in words.
fn in_words(trees: &Trees, flags: &[&str]) -> Run {
    let program = Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["cp", "-r", "-v"]);
    let program = program.args(flags).arg(trees.source()).arg(trees.to.join("in words"));
    let run = program.run();
    assert!(run.status.success(), "{}", run.stderr);
    run
}

/// Small files, a large one and one with a hole.
fn mixed() -> Trees {
    let trees = Trees::new();
    for number in 0..12 {
        trees.file(&format!("small/{number}"), vec![number; 3000]);
    }
    trees.file("small/empty", "");
    Content::dense(9_000_001).write(&trees.source().join("large"));
    let hole = std::fs::File::create(trees.source().join("hole")).unwrap();
    hole.set_len(3 << 20).unwrap();
    trees
}

/// Lines of the summary in words, from the one that begins with the number of files.
fn summary_in_words(run: &Run) -> Vec<&str> {
    let lines: Vec<&str> = run.stdout.lines().collect();
    let first = lines.iter().rposition(|line| line.contains(" files: ")).unwrap();
    lines[first..].to_vec()
}

/// Returns how many reasons there were.
#[track_caller]
fn assert_agree(flags: &[&str]) -> usize {
    let trees = mixed();
    let as_json = summary(&trees.copy(crate::tree::cp().args(flags)));
    let run = in_words(&trees, flags);
    let words = summary_in_words(&run);
    let value = as_json.value();
    let count = |key: &str| value[key].as_u64().unwrap();

    let files = format!("{} files: {} in ", count("files"), BinaryBytes(count("bytes")));
    assert!(words[0].starts_with(&files), "{files:?}: {words:#?}");
    assert!(words.contains(&"  2 directories"), "{words:#?}");
    assert_eq!((count("files"), count("directories")), (15, 2));
    let sum: u64 = ["shared", "moved", "kernel_copied", "zeros", "user_copied", "hole", "unknown"]
        .iter()
        .map(|cost| as_json.at(cost))
        .sum();
    assert_eq!(sum, count("bytes"), "{value}");

    let mut expected = Vec::new();
    for way in value["mechanisms"].as_array().unwrap() {
        let (bytes, name) = (BinaryBytes(way["bytes"].as_u64().unwrap()), way["name"].as_str());
        let name = name.unwrap();
        expected.push(match way["cost"].as_str().unwrap() {
            "shared" => format!("  {bytes} shared with the source by {name}"),
            "moved" => format!("  {bytes} moved by {name}"),
            "kernel_copied" => format!("  {bytes} copied inside the kernel by {name}"),
            "user_copied" => format!("  {bytes} copied through this program's memory by {name}"),
            "hole" => format!("  {bytes} left as holes"),
            _ => format!("  {bytes} by {name}; the kernel does not say"),
        });
    }
    let refusals = value["refusals"].as_array().unwrap();
    for refusal in refusals {
        let text = |key: &str| refusal[key].as_str().map(str::to_owned);
        let (mechanism, reason) = (text("mechanism").unwrap(), text("reason").unwrap());
        let errno = text("errno_name").map_or(String::new(), |name| format!("{name}: "));
        let files = refusal["files"].as_u64().unwrap();
        let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
        expected.push(format!("  not by {mechanism}: {errno}{reason} ({files})"));
    }
    for line in &expected {
        assert!(words.iter().any(|word| word.starts_with(line)), "{line:?} in {words:#?}");
    }
    // And the words have no more than that.
    let explained = words.iter().filter(|line| line.starts_with("  not by ")).count();
    assert_eq!(explained, refusals.len(), "{words:#?}");
    refusals.len()
}

/// On a filesystem that shares there may be nothing to refuse.
fn words_and_json_agree_on_bytes_and_refusals() {
    assert_agree(&["--jobs=1"]);
}

/// `read-write` alone: everything cheaper was refused, for every file that has bytes.
fn words_and_json_agree_where_a_way_is_asked_for() {
    let reasons = assert_agree(&["--jobs=1", "--method=read-write"]);
    assert!(reasons > 0, "nothing was refused");
}
