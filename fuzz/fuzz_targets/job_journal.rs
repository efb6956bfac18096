//! Every input is a job's journal as somebody left it: read, cut off, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| uncopy::fuzzing::journal(data));
