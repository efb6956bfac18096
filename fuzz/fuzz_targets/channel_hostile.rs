//! Input: the actions of a hostile peer. No panic, no hang, no leaked descriptor.
#![no_main]

#[path = "../../crates/uncopy/tests/channel_hostile/attack.rs"]
mod attack;

use libfuzzer_sys::fuzz_target;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

fuzz_target!(|data: &[u8]| {
    // Descriptors that a thread opens once and keeps.
    attack::play_each_step();
    let before = descriptors();
    attack::play(data, || ());
    assert_eq!(descriptors(), before, "a descriptor stayed open");
});
