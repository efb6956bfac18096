//! Space on the device and in the page cache.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::SeekFrom;

use crate::process::run_tool;

/// Returns the bytes allocated to the file (`st_blocks`), after flushing delayed allocations.
#[must_use]
pub fn allocated_bytes(path: &Path) -> u64 {
    let file = File::open(path).expect("the file is there");
    file.sync_all().expect("the filesystem can flush");
    file.metadata().expect("an open file").blocks() * 512
}

/// Returns the runs of data from `SEEK_DATA` and `SEEK_HOLE`: offset and length.
#[must_use]
pub fn data_runs(path: &Path) -> Vec<(u64, u64)> {
    let file = File::open(path).expect("the file is there");
    let mut runs = Vec::new();
    let mut position = 0;
    while let Ok(start) = rustix::fs::seek(&file, SeekFrom::Data(position)) {
        let end = rustix::fs::seek(&file, SeekFrom::Hole(start)).expect("data ends somewhere");
        runs.push((start, end - start));
        position = end;
    }
    runs
}

/// Returns the bytes of the file in the page cache, as counted by `fincore`.
#[must_use]
pub fn cached_bytes(path: &Path) -> u64 {
    let arguments = ["--bytes", "--noheadings", "--output", "RES"].map(AsRef::as_ref);
    let printed = run_tool("fincore", arguments.into_iter().chain([path.as_os_str()]));
    printed.trim().parse().unwrap_or_else(|_| panic!("fincore printed {printed:?}"))
}
