//! Input: the control data of a message from a socket's error queue.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| uncopy::fuzzing::error_queue(data));
