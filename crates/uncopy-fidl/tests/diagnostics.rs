//! What the compiler says about types that are wrong in a way that only it can see: the first words
//! name what to write, and one mistake is one error. Each source is a program of a package that is
//! checked by cargo, with the errors one on a line.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is expected of one source.
struct Mistake {
    name: &'static str,
    source: &'static str,
    /// In the first error.
    says: &'static str,
    /// Errors, where their number matters.
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

/// The package with a program of every source, and `right`, which has nothing wrong.
fn package() -> PathBuf {
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("diagnostics");
    let programs = package.join("src/bin");
    fs::create_dir_all(&programs).unwrap();
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = format!(
        "[package]\nname = \"diagnostics\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\nuncopy-fidl = {{ path = {own:?} }}\n"
    );
    fs::write(package.join("Cargo.toml"), manifest).unwrap();
    // The versions that the workspace has: what is downloaded is there.
    fs::copy(own.join("../../Cargo.lock"), package.join("Cargo.lock")).unwrap();
    let right = ("right", "#[derive(Fidl)] struct Right { name: Option<String> }");
    let wrong = MISTAKES.iter().map(|mistake| (mistake.name, mistake.source));
    for (name, source) in wrong.chain([right]) {
        let head = "#![allow(unused)]\nuse uncopy_fidl::{ClientEnd, Fidl, NoHandle, OwnedHandle};";
        let program = format!("{head}\n{source}\nfn main() {{}}\n");
        fs::write(programs.join(name).with_extension("rs"), program).unwrap();
    }
    package
}

#[test]
fn the_compiler_says_what_to_write() {
    let package = package();
    let checked = Command::new(env!("CARGO"))
        .args(["check", "--offline", "--keep-going", "--bins", "--message-format=short"])
        .current_dir(&package)
        .env("CARGO_TARGET_DIR", package.join("target"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stderr);
    let errors_of = |name: &str| -> Vec<&str> {
        let place = Path::new("src").join("bin").join(name).with_extension("rs:");
        let place = place.to_string_lossy().into_owned();
        let lines = said.lines().filter(|line| line.starts_with(&place));
        lines.filter_map(|line| line.split_once(": error").map(|(_, error)| error)).collect()
    };
    assert!(said.contains("could not compile `diagnostics`"), "cargo checks programs: {said}");
    assert_eq!(errors_of("right"), [""; 0]);
    for Mistake { name, says, count, .. } in MISTAKES {
        let errors = errors_of(name);
        assert!(errors.first().is_some_and(|first| first.contains(says)), "{name}: {errors:#?}");
        assert!(count.is_none_or(|count| errors.len() == count), "{name}: {errors:#?}");
    }
}
