//! Input: a file that claims to be compressed, and a seek table after valid frames.
#![no_main]

use std::os::fd::AsFd;

use libfuzzer_sys::fuzz_target;

/// Frames of 3, 0 and 10,000 bytes, as written by `zstd`.
const FRAMES: [&[u8]; 3] = [
    include_bytes!("../frames/abc.zst"),
    include_bytes!("../frames/empty.zst"),
    include_bytes!("../frames/ones.zst"),
];

fuzz_target!(|data: &[u8]| {
    uncopy::fuzzing::compressed(uncopy_fuzz::file_of(data).as_fd());
    let (count, payload) = data.split_first().unwrap_or((&0, &[]));
    let mut file = FRAMES[..usize::from(*count) % 4].concat();
    file.extend(uncopy::fuzzing::seek_table(payload));
    uncopy::fuzzing::compressed(uncopy_fuzz::file_of(&file).as_fd());
});
