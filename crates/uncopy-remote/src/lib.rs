//! Copies between machines: a source on another machine, the end that serves it, and how that end is started.
//!
//! The *near* end is where the user is. It starts the *far* end by a remote shell ([`FarEnd`]), and the two speak
//! `uncopy-wire` over its streams. The end with the source serves it ([`push`] does here, [`ServeRequest::serve`] there);
//! the end with the destination runs the engine of `uncopy-copy`, which asks a [`RemoteSource`] ([`pull`],
//! [`RunRequest::run`]).
#![cfg(target_os = "linux")]
#![deny(missing_docs, unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod address;
mod beginning;
mod budget;
mod calls;
mod confine;
mod convert;
pub mod data;
mod data_links;
mod directories_ahead;
mod error;
mod far;
mod far_data;
mod far_end;
mod gate;
mod greet;
mod input;
mod lanes;
mod limits;
mod link;
mod listing;
mod lookup;
mod machine;
mod named_ahead;
mod near;
mod near_data;
mod open_life;
mod open_receiver;
mod outbox;
mod piece;
mod reading;
mod serve;
mod shell;
mod slot;
mod source;
mod spare;
mod streams;

pub use address::Address;
pub use data_links::{DATA_FROM_BYTES, DataReport, DataWay, WhyNoData};
pub use error::{Note, RemoteError, ShellEnd};
pub use far::{Accepted, Output, Restriction, RunRequest, ServeRequest, accept};
pub use far_data::FarData;
pub use far_end::FarEnd;
pub use limits::{Limits, Traffic};
pub use near::{FarEvent, Pull, RunJob, pull, push};
pub use near_data::{AddressLookup, DataOptions, DataStart};
pub use shell::RemoteShell;
pub use source::RemoteSource;
pub use streams::Streams;
pub use uncopy_wire::{
    DataLoss, DataRefusal, JobState, MAX_DATA_CONNECTIONS, OutputStream, Refusal,
};
