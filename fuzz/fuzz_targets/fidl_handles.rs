//! Input: a number of handles and a received message. It is refused, or consists of the bytes of a
//! value; and every handle is closed exactly once.
#![no_main]
#![allow(dead_code)]

#[path = "../../crates/uncopy-fidl/tests/fidl/properties/parcels.rs"]
mod parcels;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some((count, message)) = data.split_first() {
        parcels::check_handles(message, usize::from(*count));
    }
});
