//! Every input is what a peer does that keeps to no rule: no panic, no hang, no descriptor left.
#![no_main]

#[path = "../../crates/uncopy/tests/channel_hostile/attack.rs"]
mod attack;

use libfuzzer_sys::fuzz_target;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

fuzz_target!(|data: &[u8]| {
    // The process opens some descriptors once and keeps them.
    attack::play(&[], || ());
    let before = descriptors();
    attack::play(data, || ());
    assert_eq!(descriptors(), before, "a descriptor stayed open");
});
