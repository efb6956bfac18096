//! Support for tests: a harness that shows skipped tests, filesystems to copy on, networks to send
//! over, and independent observers of what happened.
//!
//! A plain run mounts nothing and needs no privileges. With `UNCOPY_TEST_ROOT=1`, as root, the test
//! process enters new mount and process namespaces and mounts filesystems there; a missing tool is
//! then a failure and not a skip.
#![deny(missing_docs, unsafe_code)]

mod channel;
mod content;
mod extent;
mod gathered;
mod hang;
mod harness;
mod intercept;
pub mod journal;
mod kernel;
mod locked_memory;
mod machine;
mod mount;
mod nats;
pub mod network;
mod outcome;
mod place;
mod process;
mod program;
mod receipt;
mod relay;
mod sandbox;
mod scratch;
mod session;
mod sshd;
mod sys;
mod tree;
mod wait;
pub mod witness;

pub use channel::{Transport, carried};
pub use content::{Content, assert_same, drop_from_cache, patterned, seeded};
pub use extent::{Extent, by_extent};
pub use gathered::{GATHERED, Gathered, SentParts};
pub use harness::{Case, Need, ignored, on_each_filesystem, run, threads};
pub use intercept::{
    CallCounts, CallPattern, Fault, Intercept, Intercepted, Stepping, Stopped, SystemCall,
    WatchedCall,
};
pub use kernel::{KernelFeature, copies_between_filesystems, need};
pub use machine::{Machine, hosts_of_records};
pub use mount::{Filesystem, Mount};
pub use nats::NatsServer;
pub use outcome::copied;
pub use place::Place;
pub use process::{descendants, run_quietly, run_tool, state};
pub use program::{Forbidden, Program, Run, STOP_TIMEOUT};
pub use receipt::{Receipt, Refusal};
pub use relay::{LineConditions, Relay, RelayEnd};
pub use scratch::Scratch;
pub use session::run_sandboxed;
pub use sshd::{SshKeys, Sshd, SshdSetup};
pub use sys::{
    BareRing, BareSend, BareSender, Completions, CountingAllocator, Lender, LenderOptions, Lent,
    MappedWriter, Stores, bind_to_device, cut_sends, in_a_child, is_of_one_moment, secret_memory,
    set_number, trusted_peer, zerocopy_sends,
};
pub use tree::{Compared, assert_same_tree};
pub use wait::{LONG, wait_for};

/// Makes tests from functions: `cases![[Need::Root] a_function, [] another_function]`, named by module
/// and function, without the name of the crate.
#[macro_export]
macro_rules! cases {
    ($([$($need:expr),* $(,)?] $name:ident),* $(,)?) => {
        vec![$(
            $crate::Case::of(
                concat!(module_path!(), "::", stringify!($name)),
                &[$($need),*],
                $name,
            )
        ),*]
    };
}
