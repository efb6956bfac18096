//! `uncopy cp`, as a black box: what it says is held against what the kernel, the filesystem and
//! strace say.

mod cache;
mod changing;
mod durable;
mod existing;
mod faults;
mod in_place;
mod interrupted;
mod job_control;
mod large;
mod leftovers;
mod mapping;
mod matrix;
mod metadata;
mod names;
mod no_clobber;
mod permissions;
mod planted_links;
mod policy;
pub(crate) mod racing;
mod ranges;
mod same_file;
mod settings;
mod short_flags;
mod sources;
mod space;
mod sparse;
mod special;
mod streams;
mod truth;
mod verify;
mod without_subcommand;
mod witnessed;

use std::path::PathBuf;
use std::sync::OnceLock;

use testbed::{Case, Place, Program};

/// The way that `--method` names, and its name in receipts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Method {
    flag: &'static str,
    name: &'static str,
}

const fn method(flag: &'static str, name: &'static str) -> Method {
    Method { flag, name }
}

const REFLINK: Method = method("reflink", "reflink");
const COPY_FILE_RANGE: Method = method("copy-file-range", "copy_file_range");
const DIRECT: Method = method("direct", "direct");
const SENDFILE: Method = method("sendfile", "sendfile");
const SPLICE: Method = method("splice", "splice");
const READ_WRITE: Method = method("read-write", "read_write");

/// Those that work on every filesystem, if source and destination are on the same one.
const EVERYWHERE: [Method; 4] = [COPY_FILE_RANGE, SENDFILE, SPLICE, READ_WRITE];

/// Those that also work from one filesystem to another.
const ACROSS: [Method; 3] = [SENDFILE, SPLICE, READ_WRITE];

/// A user without privileges.
const NOBODY: u32 = 65534;

/// `uncopy cp --json`.
fn cp() -> Program {
    Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["cp", "--json"])
}

/// `uncopy cp --json --method …`.
fn cp_by(method: Method) -> Program {
    cp().args(["--method", method.flag])
}

/// `uncopy cp --json` as [`NOBODY`], from a place that everybody can reach. For root runs.
fn cp_as_nobody() -> Program {
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
        cache::cases(),
        changing::cases(),
        durable::cases(),
        existing::cases(),
        faults::cases(),
        in_place::cases(),
        interrupted::cases(),
        job_control::cases(),
        large::cases(),
        leftovers::cases(),
        mapping::cases(),
        matrix::cases(),
        metadata::cases(),
        names::cases(),
        no_clobber::cases(),
        permissions::cases(),
        planted_links::cases(),
        policy::cases(),
        racing::cases(),
        ranges::cases(),
        same_file::cases(),
        settings::cases(),
        short_flags::cases(),
        sources::cases(),
        space::cases(),
        sparse::cases(),
        special::cases(),
        streams::cases(),
        truth::cases(),
        verify::cases(),
        without_subcommand::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
