//! Every input is a configuration file: shown, or refused with a message.
#![no_main]

use std::io::{Seek, Write};
use std::os::fd::AsRawFd;

use libfuzzer_sys::fuzz_target;
use rustix::fs::{MemfdFlags, memfd_create};
use uncopy_cli::Exit;

fuzz_target!(|data: &[u8]| {
    let file = memfd_create("input", MemfdFlags::CLOEXEC).expect("memory can be had");
    let mut file = std::fs::File::from(file);
    file.write_all(data).and_then(|()| file.rewind()).expect("memory can be written");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let words = ["uncopy"].into_iter().chain(["config", "show", "--config"]).map(Into::into);
    let exit = uncopy_cli::run(words.chain([path.into()]));
    assert!(matches!(exit, Exit::Success | Exit::Usage), "{exit:?}");
});
