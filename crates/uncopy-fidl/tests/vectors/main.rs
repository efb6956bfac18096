//! Test cases as data: a value and its bytes, or a value or bytes and the rule that they break.
//! Each is encoded and decoded, in one buffer and as regions.
//!
//! The project's cases are in `rules/`, a file for each rule of the format. `UNCOPY_FIDL_CASES` can
//! name a file with further cases in the same notation, for the same types.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod case;
mod check;
mod handle;
mod types;
mod value;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use case::Case;

const FURTHER: &str = "UNCOPY_FIDL_CASES";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/rules");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(own).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut trials: Vec<Trial> = files.iter().flat_map(|file| trials_of(file)).collect();
    match std::env::var_os(FURTHER) {
        Some(file) => trials.extend(trials_of(Path::new(&file))),
        None => {
            let reason = format!("needs {FURTHER}, the path of a file of further cases");
            let ignored = move || Ok(Completion::ignored_with(reason));
            trials.push(Trial::ignorable_test("further cases", ignored));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trials_of(file: &Path) -> Vec<Trial> {
    let name = file.file_stem().unwrap().to_string_lossy().into_owned();
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            let failed = format!("{}: {error}", file.display());
            return vec![Trial::test(name, move || Err(Failed::from(failed)))];
        }
    };
    case::parse(&text).into_iter().map(|case| trial(&name, case)).collect()
}

fn trial(file: &str, case: Case) -> Trial {
    let name = format!("{file}/{:?} {}", case.kind, case.name);
    Trial::test(name, move || check::check(&case).map_err(Failed::from))
}
