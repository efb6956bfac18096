//! Input: a received message. It is refused, or consists of the bytes of a value.
#![no_main]

#[path = "../../crates/uncopy-fidl/tests/fidl/properties/zoo.rs"]
mod zoo;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    zoo::check_any(data);
    assert!(uncopy_fidl::dump_message(data).to_string().is_empty() == data.is_empty());
});
