//! Names: any bytes but `/` and NUL, up to 255 of them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use base64::Engine;
use testbed::{Case, Content, Place, Receipt, assert_same};

use crate::both::{Form, cases_over};
use crate::cp::cp;
use crate::cp::witnessed::Pair;

pub(crate) fn cases() -> Vec<Case> {
    cases_over![
        Form::ALL;
        [] names_that_are_not_utf_8,
        [] names_with_control_characters,
        [] the_longest_name,
    ]
}

/// A file of this name, which its copy gets too.
fn named(form: Form, name: &OsStr) -> Pair {
    let mut pair = Pair::empty_of(form, Place::Disk, Place::Disk);
    pair.source.set_file_name(name);
    pair.destination.set_file_name(name);
    Content::dense(10_000).write(&pair.source);
    pair
}

fn decoded(receipt: &Receipt, key: &str) -> Vec<u8> {
    let text = receipt.value()[key].as_str();
    let text = text.unwrap_or_else(|| panic!("no {key} in {}", receipt.value()));
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}

/// Copies twice: the second time the name is there. Returns the second receipt.
#[track_caller]
fn copy_twice(pair: &Pair) -> Receipt {
    let _ = pair.succeed(cp());
    let receipt = pair.succeed(cp());
    assert_same(&pair.source, &pair.destination);
    let directory = fs::read_dir(pair.destination.parent().unwrap()).unwrap();
    assert_eq!(directory.count(), 1, "a name was left beside the copy");
    receipt
}

fn names_that_are_not_utf_8(form: Form) {
    let pair = named(form, OsStr::from_bytes(b"s\xff\xfe\x80\xc3("));
    let receipt = copy_twice(&pair);
    for (key, path) in [("source_base64", &pair.source), ("destination_base64", &pair.destination)]
    {
        assert_eq!(decoded(&receipt, key), path.as_os_str().as_bytes());
    }
}

/// A newline in a name is no end of a line of JSON, and an escape is no command to a terminal.
fn names_with_control_characters(form: Form) {
    let pair = named(form, OsStr::new("a\nb\x1b[31m\"\\c\r\t d"));
    let receipt = copy_twice(&pair);
    assert_eq!(receipt.value()["source"], pair.source.to_str().unwrap());
    assert!(receipt.value().get("source_base64").is_none(), "{}", receipt.value());
}

/// The temporary file's name must not be made by adding to it.
fn the_longest_name(form: Form) {
    let pair = named(form, OsStr::new(&"d".repeat(255)));
    let _ = copy_twice(&pair);
    if form == Form::File {
        let too_long = pair.to.join("d".repeat(256));
        let run = cp().arg(&pair.source).arg(&too_long).run();
        assert!(run.failed(1).contains("ENAMETOOLONG"), "{}", run.stderr);
    }
}
