//! Filters on system calls, as containers have them (`seccomp(2)`).

use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use uncopy::Errno;

/// A system call, if its arguments are these.
pub(crate) type Rule = (i64, Vec<SeccompRule>);

fn is(argument: u8, comparison: SeccompCmpOp, value: libc::c_int) -> SeccompCondition {
    let value = u64::from(value.cast_unsigned());
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, comparison, value).unwrap()
}

/// There is no io_uring.
pub(crate) fn io_uring() -> Rule {
    (libc::SYS_io_uring_setup, vec![])
}

/// No socket can be asked to send without copying.
pub(crate) fn so_zerocopy() -> Rule {
    let level = is(1, SeccompCmpOp::Eq, libc::SOL_SOCKET);
    let name = is(2, SeccompCmpOp::Eq, libc::SO_ZEROCOPY);
    (libc::SYS_setsockopt, vec![SeccompRule::new(vec![level, name]).unwrap()])
}

/// What is sent without copying, of one region.
pub(crate) fn lent_sends() -> Rule {
    let flag = u64::from(libc::MSG_ZEROCOPY.cast_unsigned());
    let has = is(3, SeccompCmpOp::MaskedEq(flag), libc::MSG_ZEROCOPY);
    (libc::SYS_sendto, vec![SeccompRule::new(vec![has]).unwrap()])
}

/// Has these calls of the calling thread, and those that it starts, fail so for good.
pub(crate) fn refuse(rules: impl IntoIterator<Item = Rule>, errno: Errno) {
    let refusal = SeccompAction::Errno(errno.raw().cast_unsigned());
    let filter = SeccompFilter::new(
        rules.into_iter().collect(),
        SeccompAction::Allow,
        refusal,
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: seccompiler::BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

/// Runs `body` in a thread of its own, in which these calls fail so.
pub(crate) fn under(
    rules: impl IntoIterator<Item = Rule> + Send,
    errno: Errno,
    body: impl FnOnce() + Send,
) {
    let inside = || {
        refuse(rules, errno);
        body();
    };
    let ended = std::thread::scope(|scope| scope.spawn(inside).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}
