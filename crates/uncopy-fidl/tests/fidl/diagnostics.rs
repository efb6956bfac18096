//! Compiler errors about wrong types that only the compiler can detect: the first error names what to
//! write, and one mistake gives one error. Each source is a program, checked by the compiler.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A wrong source, and the expected error.
struct Mistake {
    name: &'static str,
    source: &'static str,
    /// Text in the first error.
    says: &'static str,
    /// Number of errors, where it matters.
    count: Option<usize>,
}

const RESOURCE: &str = "a value type has no handles: add `#[fidl(resource = …)]` with their type";

const MISTAKES: [Mistake; 8] = [
    Mistake {
        name: "optional_struct",
        source: "#[derive(Fidl)] struct Size { width: u32 }
                 #[derive(Fidl)] struct Photo { title: String, size: Option<Size> }",
        says: "write `Option<Box<Size>>`",
        count: None,
    },
    Mistake {
        name: "optional_number_in_a_type_that_borrows",
        source: "#[derive(Fidl)] struct Photo<'a> { title: &'a str, size: Option<u32> }",
        says: "FIDL has no optional `u32`",
        count: None,
    },
    Mistake {
        name: "no_repr",
        source: "#[derive(Fidl)] enum Color { Red = 1 }",
        says: "add `#[repr(u32)]`",
        count: Some(1),
    },
    Mistake {
        name: "no_resource_struct",
        source: "#[derive(Fidl)] struct Gift { name: String, event: OwnedHandle<NoHandle> }",
        says: RESOURCE,
        count: Some(1),
    },
    Mistake {
        name: "no_resource_table",
        source: "#[derive(Fidl)] #[fidl(table)] struct Gift {
                     #[fidl(ordinal = 1)] events: Option<Vec<OwnedHandle<NoHandle>>>
                 }",
        says: RESOURCE,
        count: Some(1),
    },
    Mistake {
        name: "no_resource_union",
        source: "#[derive(Fidl)] enum Gift {
                     #[fidl(ordinal = 1)] End(ClientEnd<(), NoHandle>),
                     #[fidl(ordinal = 2)] Name(String),
                 }",
        says: RESOURCE,
        count: Some(1),
    },
    Mistake {
        name: "no_resource_around_one",
        source: "#[derive(Fidl)] #[fidl(resource = NoHandle)]
                 struct Gift { event: OwnedHandle<NoHandle> }
                 #[derive(Fidl)] struct Gifts { gifts: Vec<Gift> }",
        says: RESOURCE,
        count: Some(1),
    },
    Mistake {
        name: "no_resource_in_a_type_that_borrows",
        source: "#[derive(Fidl)]
                 struct Gift<'a> { name: &'a str, event: OwnedHandle<NoHandle> }",
        says: RESOURCE,
        count: Some(1),
    },
];

/// A source without mistakes: shows that errors come from the mistakes alone.
const RIGHT: (&str, &str) = ("right", "#[derive(Fidl)] struct Right { name: Option<String> }");

/// Starts the compiler on a program. Nothing is generated, as with `cargo check`.
fn start_check(directory: &Path, name: &str, source: &str) -> Child {
    let imports = "#![allow(unused)]\nuse uncopy_fidl::{ClientEnd, Fidl, NoHandle, OwnedHandle};";
    let file = format!("{name}.rs");
    fs::write(directory.join(&file), format!("{imports}\n{source}\nfn main() {{}}\n")).unwrap();
    let dependencies = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let mut library = OsString::from("uncopy_fidl=");
    library.push(newest_library(&dependencies));
    let mut search = OsString::from("dependency=");
    search.push(&dependencies);
    Command::new(Path::new(env!("CARGO")).with_file_name("rustc"))
        .args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "--error-format=short"])
        .args([OsStr::new("--extern"), &library, OsStr::new("-L"), &search])
        .arg(&file)
        .current_dir(directory)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The library that this test was linked with, or one built later from the same sources: cargo keeps
/// older ones in the directory.
fn newest_library(directory: &Path) -> PathBuf {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("libuncopy_fidl-") && name.ends_with(".rlib")
    };
    let built = |path: &PathBuf| fs::metadata(path).unwrap().modified().unwrap();
    files.filter(is_library).max_by_key(built).expect("cargo builds the library before its tests")
}

#[test]
fn the_compiler_says_what_to_write() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("diagnostics");
    fs::create_dir_all(&directory).unwrap();
    let check = |name, source| start_check(&directory, name, source);
    let right = check(RIGHT.0, RIGHT.1);
    let checks = MISTAKES.map(|mistake| (check(mistake.name, mistake.source), mistake));
    let right = right.wait_with_output().unwrap();
    assert!(right.status.success(), "{}", String::from_utf8_lossy(&right.stderr));
    for (check, Mistake { name, says, count, .. }) in checks {
        let output = check.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        let place = format!("{name}.rs:");
        let lines = text.lines().filter(|line| line.starts_with(&place));
        let errors: Vec<&str> =
            lines.filter_map(|line| line.split_once(": error").map(|(_, error)| error)).collect();
        assert!(errors.first().is_some_and(|first| first.contains(says)), "{name}: {text}");
        assert!(count.is_none_or(|count| errors.len() == count), "{name}: {text}");
    }
}
