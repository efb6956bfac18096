//! Input: a command line, its arguments separated by zeros. It is parsed, or refused with a
//! message.
#![no_main]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let words = data.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec()));
    let words = std::iter::once(OsString::from("uncopy")).chain(words);
    if let Err(error) = uncopy_cli::command().try_get_matches_from(words) {
        assert!(!error.to_string().is_empty());
    }
});
