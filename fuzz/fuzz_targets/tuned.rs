//! Input: a `tuned.toml`. It gives settings, or a message.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| uncopy_cli::fuzz_tuned(data));
