//! Input: a job's journal. It is read, truncated, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| uncopy::fuzzing::journal(data));
