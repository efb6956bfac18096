//! `uncopy cp`, as a black box: what it says is held against what the kernel, the filesystem and
//! strace say.

mod asking;
mod backups;
mod changed_modes;
mod coreutils;
pub(crate) mod faults;
mod in_place;
mod large;
pub(crate) mod leftovers;
mod mapping;
mod matrix;
mod names;
mod overlapping;
mod own_files;
mod parents;
mod planted_links;
mod policy;
pub(crate) mod racing;
mod ranges;
mod requiring;
mod same_file;
mod settings;
mod short_flags;
mod sources;
mod special;
mod streams;
mod truth;
mod verdicts;
mod without_subcommand;
pub(crate) mod witnessed;

use std::path::PathBuf;
use std::sync::OnceLock;

use testbed::{Case, Place, Program};

/// The way that `--method` names, and its name in receipts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Method {
    pub(crate) flag: &'static str,
    pub(crate) name: &'static str,
}

const fn method(flag: &'static str, name: &'static str) -> Method {
    Method { flag, name }
}

pub(crate) const REFLINK: Method = method("reflink", "reflink");
pub(crate) const COPY_FILE_RANGE: Method = method("copy-file-range", "copy_file_range");
pub(crate) const DIRECT: Method = method("direct", "direct");
pub(crate) const DIRECT_RING: Method = method("direct-ring", "direct_ring");
pub(crate) const SENDFILE: Method = method("sendfile", "sendfile");
pub(crate) const SPLICE: Method = method("splice", "splice");
pub(crate) const READ_WRITE: Method = method("read-write", "read_write");

/// Those that work on every filesystem, if source and destination are on the same one.
pub(crate) const EVERYWHERE: [Method; 4] = [COPY_FILE_RANGE, SENDFILE, SPLICE, READ_WRITE];

/// Those that also work from one filesystem to another.
pub(crate) const ACROSS: [Method; 3] = [SENDFILE, SPLICE, READ_WRITE];

/// A user without privileges.
pub(crate) const NOBODY: u32 = 65534;

/// `uncopy cp --json`.
pub(crate) fn cp() -> Program {
    Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["cp", "--json"])
}

/// `uncopy cp --json --method …`.
pub(crate) fn cp_by(method: Method) -> Program {
    cp().args(["--method", method.flag])
}

/// `uncopy cp --json` as [`NOBODY`], from a place that everybody can reach. For root runs.
pub(crate) fn cp_as_nobody() -> Program {
    static COPY: OnceLock<PathBuf> = OnceLock::new();
    let program = COPY.get_or_init(|| {
        let copy = Place::Tmpfs.path().join("uncopy");
        // By another process: a program that a fork in another thread has open for writing cannot
        // be started.
        testbed::run_tool("cp", [env!("CARGO_BIN_EXE_uncopy").as_ref(), copy.as_os_str()]);
        copy
    });
    Program::new(program).args(["cp", "--json"]).as_user(NOBODY)
}

pub(crate) fn cases() -> Vec<Case> {
    [
        asking::cases(),
        backups::cases(),
        changed_modes::cases(),
        coreutils::cases(),
        faults::cases(),
        in_place::cases(),
        large::cases(),
        leftovers::cases(),
        mapping::cases(),
        matrix::cases(),
        names::cases(),
        own_files::cases(),
        overlapping::cases(),
        parents::cases(),
        planted_links::cases(),
        policy::cases(),
        racing::cases(),
        ranges::cases(),
        requiring::cases(),
        same_file::cases(),
        settings::cases(),
        short_flags::cases(),
        sources::cases(),
        special::cases(),
        streams::cases(),
        truth::cases(),
        verdicts::cases(),
        without_subcommand::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
