//! System call filters as in containers (`seccomp(2)`).

use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use uncopy::Errno;

/// A system call, and the arguments for which it is refused.
pub(crate) type Rule = (i64, Vec<SeccompRule>);

fn is(argument: u8, comparison: SeccompCmpOp, value: libc::c_int) -> SeccompCondition {
    let value = u64::from(value.cast_unsigned());
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, comparison, value).unwrap()
}

/// Refuses io_uring.
pub(crate) fn io_uring() -> Rule {
    (libc::SYS_io_uring_setup, vec![])
}

/// Refuses to enable `SO_ZEROCOPY`.
pub(crate) fn so_zerocopy() -> Rule {
    let level = is(1, SeccompCmpOp::Eq, libc::SOL_SOCKET);
    let name = is(2, SeccompCmpOp::Eq, libc::SO_ZEROCOPY);
    (libc::SYS_setsockopt, vec![SeccompRule::new(vec![level, name]).unwrap()])
}

/// Refuses lent sends of one region.
pub(crate) fn lent_sends() -> Rule {
    let flag = u64::from(libc::MSG_ZEROCOPY.cast_unsigned());
    let has = is(3, SeccompCmpOp::MaskedEq(flag), libc::MSG_ZEROCOPY);
    (libc::SYS_sendto, vec![SeccompRule::new(vec![has]).unwrap()])
}

/// Makes these calls fail with `errno` in the calling thread and the threads it starts, for good.
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

/// Runs `body` in a thread of its own, in which these calls fail with `errno`.
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
