//! Every input is a number of handles and a message that came with them: refused, or the bytes of a
//! value; and no handle is closed twice, or never.
#![no_main]
#![allow(dead_code)]

#[path = "../../crates/uncopy-fidl/tests/properties/parcels.rs"]
mod parcels;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some((count, message)) = data.split_first() {
        parcels::check_handles(message, usize::from(*count));
    }
});
