//! Input: a record of temporary names. Its names are below the directory, and have the form of
//! temporary names.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| uncopy::fuzzing::record(data));
