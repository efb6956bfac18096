//! `-i`: asks at the terminal before a file is replaced, beside the `cp` that is installed.

use std::path::Path;

use testbed::{Case, Compared, Need, Place, Program, Run, Scratch, assert_same_tree, by_extent};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Tool("script")] it_asks_and_obeys_as_cp_does,
        [Need::Tool("script")] a_question_names_the_file,
        [Need::Tool("script")] a_signal_ends_the_question,
        [] without_a_terminal_it_is_misuse,
    ]
}

/// A command in a new directory, the answers typed, and the number of questions.
struct Row(&'static str, &'static str, &'static str, usize);

const FILES: &str = "echo a > a; echo b > b; touch -d 2001-01-01 b";
const TREES: &str = "mkdir s d; for n in 1 2; do echo s > s/$n; echo d > d/$n; done; ln -s 1 s/l; ln -s y d/l; \
                     mkfifo s/p d/p; echo new > s/new";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row(FILES, "-i a b", "y\n", 1),
    Row(FILES, "-i a b", "Yes\n", 1),
    Row(FILES, "-i a b", "n\n", 1),
    Row(FILES, "-i a b", " y\n", 1),
    Row(FILES, "-i a b", "\n", 1),
    Row(FILES, "-i a b", "", 1),
    Row(FILES, "-i a c", "n\n", 0),
    Row(FILES, "--interactive -f a b", "n\n", 1),
    Row(FILES, "-i --remove-destination a b", "n\n", 1),
    Row(FILES, "-i --remove-destination a b", "y\n", 1),
    Row(FILES, "-ib a b", "y\n", 1),
    Row(FILES, "-ib a b", "n\n", 1),
    Row(FILES, "-iu a b", "n\n", 1),
    Row(FILES, "-iu a b", "y\n", 1),
    Row(FILES, "-iu b a", "y\n", 0),
    Row(FILES, "-il a b", "y\n", 1),
    Row(FILES, "-il a b", "n\n", 1),
    Row(FILES, "-i --attributes-only a b", "y\n", 1),
    Row("echo a > a; echo b > b; ln -s b l", "-i a l", "y\n", 1),
    Row("echo a > a; echo b > b; ln -s b l", "-i a l", "n\n", 1),
    Row("echo a > a; echo b > b; ln -s b l", "-iP l a", "y\n", 1),
    Row("echo a > a; echo b > b; ln -s b l", "-iP l a", "n\n", 1),
    Row("mkdir d; echo a > a; echo b > b; echo c > d/a; echo c > d/b", "-i a b d", "n\ny\n", 2),
    Row("mkdir d; echo a > a; echo b > b; echo c > d/a; echo c > d/b", "-i a b d", "y\n", 2),
    Row("mkdir d; echo a > a; echo b > b; echo c > d/a; echo c > d/b; touch -d 2001-01-01 d/*", "-iu a b d", "y\nn\n", 2),
    Row(TREES, "-riT s/1 d/1", "y\n", 1),
    Row(TREES, "-aiT s d", "n\nn\nn\nn\n", 4),
    Row(TREES, "-aiT s d", "y\ny\ny\ny\n", 4),
    Row(TREES, "-aiT s d", "", 4),
    Row(TREES, "-rilT s d", "y\ny\ny\ny\n", 4),
    Row(TREES, "-ai s e", "n\n", 0),
];

/// Runs a command line of a shell at a terminal of its own, where the answers are typed.
fn at_terminal(line: &str, answers: &str, directory: &Path) -> Run {
    let script = r#"printf "$1" | script -qec "$0" /dev/null"#;
    Program::new("sh").args(["-c", script, line, answers]).current_dir(directory).run()
}

fn ours(line: &str) -> String {
    format!("{} cp {line}", env!("CARGO_BIN_EXE_uncopy"))
}

fn prepared(given: &str) -> Scratch {
    let place = Place::Disk.scratch();
    let run = Program::new("sh").args(["-euc", given]).current_dir(place.path()).run();
    assert!(run.status.success(), "{given}: {}", run.stderr);
    place
}

/// Several at a time: `script` sleeps for a quarter of a second.
fn it_asks_and_obeys_as_cp_does() {
    let rows: Vec<&Row> = ROWS.iter().step_by(by_extent([3, 1, 1])).collect();
    for rows in rows.chunks(8) {
        std::thread::scope(|scope| {
            let compared: Vec<_> = rows.iter().map(|row| scope.spawn(|| compare(row))).collect();
            compared.into_iter().for_each(|row| row.join().unwrap());
        });
    }
}

fn compare(Row(given, line, answers, questions): &Row) {
    let (own, other) = (prepared(given), prepared(given));
    let own_run = at_terminal(&ours(line), answers, own.path());
    let run = at_terminal(&format!("cp {line}"), answers, other.path());
    eprintln!("{line} {answers:?}: {}{}", own_run.stdout, run.stdout);
    assert_eq!(own_run.status.code(), Some(0), "a declined file is no failure");
    for run in [own_run, run] {
        assert_eq!(run.stdout.matches("overwrite").count(), *questions, "{line}: {}", run.stdout);
    }
    assert_same_tree(other.path(), own.path(), Compared::default());
}

fn a_question_names_the_file() {
    let place = prepared(r"mkdir s d; f=$(printf 'a\033[1mb'); echo s > s/$f; echo d > d/$f");
    let run = at_terminal(&ours("-rivT s d"), "n\n", place.path());
    assert!(run.stdout.contains(r"uncopy: overwrite d/a\u{1b}[1mb? "), "{:?}", run.stdout);
    assert!(
        run.stdout.contains("skipped, replacing the destination was declined"),
        "{:?}",
        run.stdout
    );
    assert!(run.stdout.contains("1 skipped"), "{:?}", run.stdout);
}

fn a_signal_ends_the_question() {
    for line in ["-i a b", "-riT s d", "-i a b d"] {
        let given =
            "mkdir s d; echo a > a; echo b > b; cp a b s; cp a b d; touch -d 2001-01-01 b d/*";
        let (place, before) = (prepared(given), prepared(given));
        let script = r#"(sleep 0.3; printf '\003') | script -qec "$0" /dev/null"#;
        let program = Program::new("sh").args(["-c", script, &ours(line)]);
        let run = program.current_dir(place.path()).run();
        assert_eq!(run.status.code(), Some(130), "{line}: {}", run.stdout);
        assert_same_tree(before.path(), place.path(), Compared::default());
    }
}

fn without_a_terminal_it_is_misuse() {
    let place = prepared(FILES);
    for line in ["-i a b", "-ri a b", "-i a nothing", "-i --json a b", "-in a b", "-ri -j2 a b"] {
        let run = Program::new(env!("CARGO_BIN_EXE_uncopy")).arg("cp").args(line.split(' '));
        let run = run.current_dir(place.path()).run();
        assert_eq!(run.status.code(), Some(2), "{line}: {}", run.stderr);
        assert!(run.stderr.contains("--interactive"), "{line}: {}", run.stderr);
        assert!(!place.join("nothing").exists());
    }
}
