//! Public types go to other threads, are shared among them, and outlive a panic, as far as is said here.

use std::panic::{RefUnwindSafe, UnwindSafe};

use uncopy::capabilities::{
    Alignment, Answer, Device, DeviceKind, Filesystem, Identity, IoUring, Kernel, Limit, Limits,
    Sharing, SocketProtocol, Storage, UringOperation, ZerocopySocket,
};
use uncopy::copy::{
    Allow, Cache, Contradiction, Control, CopyContext, CopyOptions, Digest, Existing, Gate,
    IfChanged, Level, Origin, Outcome, Pause, Phase, Prefer, Preserve, Progress, Skip, Sparse,
    Threshold, Throttle, Transform, Tuning, Verify, job,
};
use uncopy::{
    Compression, Cost, Decision, Errno, Error, InodeFlags, Leftovers, Mechanism, NextStep, Note,
    Objection, Portion, Reason, Receipt, Refusal, RefusalReason, SourceDoubt, SystemError, Unseen,
    Verification,
};

/// Asserts the traits of plain data: a panic cannot leave it in an inconsistent state.
fn data<T: Send + Sync + UnwindSafe + RefUnwindSafe>() {}

/// Holds a function of the caller, which need not be unwind safe.
fn shared<T: Send + Sync>() {}

#[test]
fn what_is_known_of_a_copy() {
    data::<Error>();
    data::<Reason>();
    data::<SystemError>();
    data::<NextStep>();
    data::<Note>();
    data::<Objection>();
    data::<RefusalReason>();
    data::<Errno>();
    data::<SourceDoubt>();
    data::<Compression>();
    data::<Cost>();
    data::<Decision>();
    data::<InodeFlags>();
    data::<Leftovers>();
    data::<Mechanism>();
    data::<Portion>();
    data::<Receipt>();
    data::<Refusal>();
    data::<Unseen>();
    data::<Verification>();
}

#[test]
fn what_systems_can_do() {
    data::<Alignment>();
    data::<Answer>();
    data::<Device>();
    data::<DeviceKind>();
    data::<Filesystem>();
    data::<Identity>();
    data::<IoUring>();
    data::<Kernel>();
    data::<Limit>();
    data::<Limits>();
    data::<Sharing>();
    data::<SocketProtocol>();
    data::<Storage>();
    data::<UringOperation>();
    data::<ZerocopySocket>();
}

#[test]
fn what_is_asked_of_a_copy() {
    data::<Allow>();
    data::<Cache>();
    data::<Contradiction>();
    data::<Control>();
    data::<CopyOptions>();
    data::<Digest>();
    data::<Existing>();
    data::<Gate>();
    shared::<CopyContext<'_>>();
    data::<IfChanged>();
    data::<Level>();
    data::<Origin>();
    data::<Pause>();
    data::<Outcome>();
    data::<Phase>();
    data::<Prefer>();
    data::<Preserve>();
    data::<Progress>();
    data::<Skip>();
    data::<Sparse>();
    data::<Threshold>();
    data::<Throttle>();
    data::<Transform>();
    data::<Tuning>();
    data::<Verify>();
}

#[test]
fn jobs() {
    data::<job::Delete>();
    data::<job::JobOptions>();
    data::<job::Links>();
    data::<job::OnError>();
    data::<job::Action>();
    data::<job::EntryKind>();
    data::<job::JobProgress>();
    data::<job::RefusalCount>();
    data::<job::Transformed>();
    data::<job::Selection>();
    data::<job::Incomplete>();
    data::<job::EntryOutcome>();
    data::<job::Record>();
    data::<job::Summary>();
}
