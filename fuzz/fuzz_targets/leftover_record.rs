//! Every input is a record of temporary names as somebody left it: what it notes leads nowhere but down,
//! to names of ours.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| uncopy::fuzzing::record(data));
