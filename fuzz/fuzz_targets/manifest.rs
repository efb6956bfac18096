//! Input: a line of a manifest. What it names is written as a line that names the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uncopy::copy::Digest;
use uncopy::copy::compare::{ManifestLine, manifest_line};

fuzz_target!(|data: &[u8]| {
    let Some(found) = ManifestLine::parse(data) else { return };
    for algorithm in [Digest::Blake3, Digest::Sha256, Digest::Xxh3] {
        let line = manifest_line(algorithm, &found.value, &found.name);
        let (end, line) = line.split_last().expect("a line has an end");
        assert!(*end == b'\n' && !line.contains(&b'\n'));
        let again = ManifestLine::parse(line).expect("it was written by the library");
        assert_eq!((again.name, again.value), (found.name.clone(), found.value.clone()));
    }
});
