//! Short flags: none means anything else than in `cp(1)`.

use std::path::Path;

use testbed::{Case, Compared, Content, Place, Program, Run};

use crate::cp::witnessed::Pair;

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] what_only_cp_knows_is_refused_and_nothing_touched,
        [] a_letter_may_stand_anywhere_in_a_cluster,
        [] letters_that_both_know_do_the_same,
        [] behind_two_dashes_they_are_names,
    ]
}

/// Letters of `cp(1)` (coreutils 9) that are not supported, and a flag that is near.
const REFUSED: [(char, &str); 2] = [('s', "--link"), ('Z', "--preserve=xattr")];

fn uncopy() -> Program {
    Program::new(env!("CARGO_BIN_EXE_uncopy")).arg("cp")
}

/// `a` and `b` with other contents, and nothing else.
fn two_files() -> Pair {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    std::fs::write(pair.from.join("a"), "of a").unwrap();
    std::fs::write(pair.from.join("b"), "of b").unwrap();
    pair
}

#[track_caller]
fn assert_untouched(pair: &Pair) {
    let read = |name: &str| std::fs::read(pair.from.join(name)).unwrap();
    assert_eq!((read("a"), read("b")), (b"of a".to_vec(), b"of b".to_vec()));
    assert!(pair.from.strangers(&["a", "b"]).is_empty(), "{:?}", pair.from.strangers(&[]));
}

#[track_caller]
fn run(pair: &Pair, words: &[&str]) -> Run {
    let run = uncopy().args(words).current_dir(pair.from.path()).run();
    assert!(run.stdout.is_empty(), "{words:?}: {}", run.stdout);
    run
}

/// `cp -s src dst` links dst to src; read as `--source src` it would mean something else.
fn what_only_cp_knows_is_refused_and_nothing_touched() {
    for (letter, near) in REFUSED {
        let flag = format!("-{letter}");
        for words in [
            &[flag.as_str(), "a", "b"][..],
            &["a", flag.as_str(), "b"],
            &["a", "b", flag.as_str()],
            &[flag.as_str(), "a", flag.as_str(), "b"],
            &["-r", flag.as_str(), "a", "b"],
            &["--quiet", flag.as_str(), "a", "b"],
            &["-t", ".", flag.as_str(), "a"],
            &[flag.as_str()],
        ] {
            let pair = two_files();
            let run = run(&pair, words);
            let message = run.failed(2);
            assert!(message.contains(&format!("-{letter} is ")), "{words:?}: {message}");
            assert!(message.contains(near), "{words:?}: {message}");
            assert_untouched(&pair);
        }
    }
    let pair = two_files();
    let run = run(&pair, &["-s", "a", "b"]);
    assert!(run.failed(2).contains("--source"), "{}", run.stderr);
}

fn a_letter_may_stand_anywhere_in_a_cluster() {
    for (letter, near) in REFUSED {
        for cluster in [
            format!("-{letter}v"),
            format!("-v{letter}"),
            format!("-r{letter}"),
            format!("-fr{letter}v"),
            format!("-p{letter}"),
            format!("-{letter}a.bak"),
            format!("-{letter}=b"),
        ] {
            let pair = two_files();
            let run = run(&pair, &[&cluster, "a", "b"]);
            let message = run.failed(2);
            assert!(message.contains(&format!("-{letter} is ")), "{cluster}: {message}");
            assert!(message.contains(near), "{cluster}: {message}");
            assert_untouched(&pair);
        }
    }
    // The first one that is not known is named.
    let pair = two_files();
    assert!(run(&pair, &["-vsZ", "a", "b"]).failed(2).contains("-s is "));
}

fn letters_that_both_know_do_the_same() {
    let cp = |words: &[&str], directory: &Path| {
        Program::new("cp").args(words).current_dir(directory).run().status.success()
    };
    for words in [
        &["-f", "a", "b"][..],
        &["-n", "a", "c"],
        &["-p", "a", "b"],
        &["-t", ".", "x/a"],
        &["-t.", "x/a"],
        &["-T", "a", "b"],
        &["-v", "a", "b"],
        &["-r", "x", "y"],
        &["-R", "x", "y"],
        &["-ru", "x", "y"],
        &["-rp", "x", "y"],
        &["-a", "x", "y"],
        &["-rx", "x", "y"],
        &["-d", "a", "b"],
        &["-P", "a", "b"],
        &["-L", "a", "b"],
        &["-rH", "x", "y"],
        &["-u", "a", "c"],
        &["-b", "a", "b"],
        &["-S", ".old", "a", "b"],
        &["-rb", "x", "x2"],
        &["-l", "a", "c"],
        &["-lf", "a", "b"],
        &["-al", "x", "y"],
        &["-fvT", "a", "b"],
        &["-rtx", "a", "b"],
    ] {
        let trees = [0, 1].map(|_| {
            let pair = two_files();
            std::fs::create_dir(pair.from.join("x")).unwrap();
            std::fs::write(pair.from.join("x/a"), "of x").unwrap();
            pair
        });
        let ours = uncopy().args(words).current_dir(trees[0].from.path()).run();
        assert!(ours.status.success(), "{words:?}: {}", ours.stderr);
        assert!(cp(words, trees[1].from.path()), "{words:?}");
        testbed::assert_same_tree(trees[1].from.path(), trees[0].from.path(), Compared::default());
    }
}

fn behind_two_dashes_they_are_names() {
    let pair = Pair::at(Place::Disk, &Content::dense(10));
    std::fs::rename(&pair.source, pair.from.join("-d")).unwrap();
    let run = uncopy().args(["--", "-d", "-s"]).current_dir(pair.from.path()).run();
    assert!(run.status.success(), "{}", run.stderr);
    testbed::assert_same(&pair.from.join("-d"), &pair.from.join("-s"));
}
