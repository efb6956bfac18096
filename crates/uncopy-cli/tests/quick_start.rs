//! The commands that the README begins with: they run line by line, and print what it shows.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use testbed::patterned;

/// Above the commands.
const HEADING: &str = "## The first five minutes\n";

fn the_first_five_minutes_are_as_the_readme_says() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let (_, rest) = readme.split_once(HEADING).unwrap();
    let (_, rest) = rest.split_once("```console\n").unwrap();
    let (commands, _) = rest.split_once("\n```\n").unwrap();

    let scratch = testbed::Place::Disk.scratch();
    let files = scratch.join("quick-start.in");
    fs::create_dir_all(files.join("tree/d")).unwrap();
    fs::write(files.join("disk.img"), patterned(0, 64 << 20)).unwrap();
    fs::write(files.join("tree/d/x"), "hello\n").unwrap();
    fs::hard_link(files.join("tree/d/x"), files.join("tree/y")).unwrap();
    // The doctor says by its exit code what this filesystem can do.
    fs::write(files.join("backup.img"), "").unwrap();
    let case = scratch.join("quick-start.trycmd");
    fs::write(&case, trycmd_case(commands, |words| exit_code(&files, words))).unwrap();
    trycmd::TestCases::new().env("UNCOPY_CONFIG", "/dev/null").env("PAGER", "cat").case(case).run();
}

/// Writes the commands as a case of trycmd: lines that depend on machine and filesystem, which are
/// indented or a verdict about two files, are left open, and so are times.
fn trycmd_case(commands: &str, exit_code: impl Fn(&[&str]) -> i32) -> String {
    let mut case = String::new();
    let mut is_open = false;
    for line in commands.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            // A block of its own: nothing of the one before is expected any more.
            let end = if case.is_empty() { "" } else { "\n```\n\n" };
            let _ = writeln!(case, "{end}```\n{line}");
            let words: Vec<_> = command.split(' ').collect();
            if let ["uncopy", "doctor", ..] = words[..] {
                let code = exit_code(&words[1..]);
                assert!([0, 6, 7, 8].contains(&code), "{command}: {code}");
                if code != 0 {
                    let _ = writeln!(case, "? {code}");
                }
            }
            is_open = false;
            continue;
        }
        let is_of_this_machine = line == "..."
            || line.starts_with("  ")
            || line.starts_with("disk.img to ")
            || line.starts_with(".: ");
        if !is_of_this_machine {
            let line = match line.split_once(" in ") {
                Some((before, after)) => {
                    let rest = after.find(':').map_or("", |colon| &after[colon..]);
                    format!("{before} in [..]{rest}")
                }
                None => line.to_owned(),
            };
            let _ = writeln!(case, "{line}");
        } else if !is_open {
            let _ = writeln!(case, "...");
        }
        is_open = is_of_this_machine;
    }
    case + "\n```\n"
}

/// Exit code of a command in a directory.
fn exit_code(directory: &Path, words: &[&str]) -> i32 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uncopy"));
    command.args(words).current_dir(directory).stdout(Stdio::null());
    command.status().unwrap().code().unwrap()
}

pub(crate) fn cases() -> Vec<testbed::Case> {
    testbed::cases![[] the_first_five_minutes_are_as_the_readme_says]
}
