//! Input: a file of `/proc` or `/sys` that the doctor reads.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| uncopy::fuzzing::proc_files(&String::from_utf8_lossy(data)));
