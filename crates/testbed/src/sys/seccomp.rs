//! Filters on the system calls of a program that a test starts (`seccomp(2)`), and the listener of
//! a filter that asks for decisions (`seccomp_unotify(2)`).

use std::io::{Error, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use super::launch::Launch;

/// Decision of a filter, for the calls in its rules and for all others.
pub(crate) struct Filter {
    pub(crate) rules: Vec<Rule>,
    pub(crate) for_rules: FilterAction,
    pub(crate) for_others: FilterAction,
}

/// A system call, optionally restricted to a value of an argument.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    pub(crate) number: i64,
    pub(crate) argument: Option<(u32, u32)>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum FilterAction {
    Allow,
    Fail(i32),
    Ask,
}

impl FilterAction {
    fn code(self) -> u32 {
        match self {
            FilterAction::Allow => libc::SECCOMP_RET_ALLOW,
            FilterAction::Fail(errno) => libc::SECCOMP_RET_ERRNO | errno.cast_unsigned(),
            FilterAction::Ask => libc::SECCOMP_RET_USER_NOTIF,
        }
    }
}

/// Value of the sixth argument that allows any call: the call that sends the listener happens when
/// the filter is active, and nobody listens yet.
const PASSWORD: u32 = 0x7563_6f70;
const LAST_ARGUMENT: u32 = 5;

/// Offsets in `struct seccomp_data`, whose arguments have 64 bits; the low half is first.
const NUMBER_AT: u32 = 0;
fn argument_at(index: u32) -> u32 {
    16 + 8 * index
}

impl Filter {
    /// Instructions from `linux/filter.h`, `linux/bpf_common.h`: load a word, compare, jump,
    /// return.
    fn program(&self) -> Vec<libc::sock_filter> {
        let statement = |code: u32, jf: u8, k: u32| libc::sock_filter {
            code: u16::try_from(code).expect("a class and its mode"),
            jt: 0,
            jf,
            k,
        };
        let load = |at| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, at);
        let unless = |skip, k| statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, skip, k);
        let end = |action: FilterAction| statement(libc::BPF_RET | libc::BPF_K, 0, action.code());
        let mut program = vec![load(argument_at(LAST_ARGUMENT)), unless(1, PASSWORD)];
        program.push(end(FilterAction::Allow));
        for rule in &self.rules {
            let number = u32::try_from(rule.number).expect("numbers of calls are small");
            program.push(load(NUMBER_AT));
            match rule.argument {
                None => program.push(unless(1, number)),
                Some((index, value)) => {
                    program.extend([unless(3, number), load(argument_at(index)), unless(1, value)]);
                }
            }
            program.push(end(self.for_rules));
        }
        program.push(end(self.for_others));
        program
    }
}

/// Puts the calling process under a filter, permanently.
fn install(program: &mut [libc::sock_filter], flags: libc::c_ulong) -> Result<i64> {
    let whole = libc::sock_fprog {
        len: u16::try_from(program.len()).unwrap_or(u16::MAX),
        filter: program.as_mut_ptr(),
    };
    // SAFETY: takes numbers alone.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(Error::last_os_error());
    }
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: the kernel reads the program, which lives through the call.
    let answer = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const whole) };
    if answer < 0 { Err(Error::last_os_error()) } else { Ok(answer) }
}

/// Installs a filter whose calls wait for an answer, and are interrupted meanwhile by nothing but a deadly
/// signal: a program that is told to stop makes its call first. Before Linux 5.19, it makes it afterwards.
fn install_with_listener(program: &mut [libc::sock_filter]) -> Result<i64> {
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    match install(program, listener | WAIT_KILLABLE_RECV) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => install(program, listener),
        result => result,
    }
}

/// `SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV` (`linux/seccomp.h`).
const WAIT_KILLABLE_RECV: libc::c_ulong = 1 << 5;

/// Whether a call that waits for an answer can be kept from being interrupted (Linux 5.19): a kernel that knows
/// the flag goes on to the program, which cannot be read.
pub(crate) fn has_killable_waits() -> bool {
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | WAIT_KILLABLE_RECV;
    let nothing = std::ptr::null::<libc::sock_fprog>();
    // SAFETY: the kernel finds that it cannot read a program there, and installs none.
    let answer = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, nothing) };
    answer < 0 && Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
}

/// Makes the program run under this filter.
pub(crate) fn confine(launch: &mut Launch, filter: &Filter) {
    let mut program = filter.program();
    // SAFETY: it makes system calls and nothing else.
    unsafe { launch.before(move || install(&mut program, 0).map(|_| ())) };
}

/// Makes the program run under this filter. The returned socket receives the listener as soon as
/// the program has started.
pub(crate) fn confine_and_listen(launch: &mut Launch, filter: &Filter) -> Result<UnixStream> {
    let (here, there) = UnixStream::pair()?;
    let mut program = filter.program();
    let enter = move || {
        let listener = install_with_listener(&mut program)?;
        hand_over(&there, i32::try_from(listener).unwrap_or(-1))
    };
    // SAFETY: it makes system calls and nothing else.
    unsafe { launch.before(enter) };
    Ok(here)
}

/// Room for one descriptor, aligned like a `cmsghdr`.
#[repr(C, align(8))]
struct OneDescriptor {
    header: libc::cmsghdr,
    descriptor: libc::c_int,
}

fn hand_over(socket: &UnixStream, descriptor: libc::c_int) -> Result<()> {
    let mut byte = [0u8; 1];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // SAFETY: computes a size.
    let length = unsafe { libc::CMSG_LEN(size_of::<libc::c_int>() as u32) };
    let mut control = OneDescriptor {
        header: libc::cmsghdr {
            cmsg_len: length as _,
            cmsg_level: libc::SOL_SOCKET,
            cmsg_type: libc::SCM_RIGHTS,
        },
        descriptor,
    };
    // SAFETY: all fields of a `msghdr` may be zero.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<OneDescriptor>() as _;
    let password = libc::c_ulong::from(PASSWORD);
    let (fd, start) = (socket.as_raw_fd(), &raw const message);
    // SAFETY: the header names memory that lives through the call; further registers are ignored.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_sendmsg,
            fd,
            start,
            libc::MSG_NOSIGNAL,
            password,
            password,
            password,
        )
    };
    if sent < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

/// Listener for the calls of a program.
#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

/// A call that waits for an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingCall {
    id: u64,
    pub(crate) number: i64,
    pub(crate) arguments: [u64; 6],
    pub(crate) thread: u32,
}

impl Listener {
    /// Receives the listener from the socket.
    pub(crate) fn receive(socket: &UnixStream) -> Result<Listener> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0u8; 1];
        let mut parts = [std::io::IoSliceMut::new(&mut byte)];
        rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        let mut rights = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        let listener = rights.next().and_then(|mut rights| rights.next());
        listener.map(Listener).ok_or_else(|| Error::other("the program sent no listener"))
    }

    /// Waits for the next call. `None`: no process is under the filter any more.
    pub(crate) fn next(&self) -> Result<Option<PendingCall>> {
        loop {
            let mut polled = [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)];
            rustix::io::retry_on_intr(|| rustix::event::poll(&mut polled, None))?;
            if !polled[0].revents().contains(PollFlags::IN) {
                return Ok(None);
            }
            // SAFETY: all its fields may be zero, and the kernel wants them so.
            let mut notification: libc::seccomp_notif = unsafe { std::mem::zeroed() };
            let request = libc::SECCOMP_IOCTL_NOTIF_RECV;
            // SAFETY: the kernel fills the struct, which lives through the call.
            let answer = unsafe { libc::ioctl(self.0.as_raw_fd(), request, &raw mut notification) };
            if answer == 0 {
                return Ok(Some(PendingCall {
                    id: notification.id,
                    number: i64::from(notification.data.nr),
                    arguments: notification.data.args,
                    thread: notification.pid,
                }));
            }
            let error = Error::last_os_error();
            // ENOENT: the caller was killed meanwhile.
            if !matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) {
                return Err(error);
            }
        }
    }

    /// Answers for a call. A caller that was killed meanwhile gets no answer.
    pub(crate) fn answer(&self, pending: PendingCall, answer: Answer) {
        let (val, error, flags) = match answer {
            Answer::Proceed => (0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            Answer::Fail(errno) => (0, -errno, 0),
            Answer::Return(value) => (value, 0, 0),
        };
        let answer = libc::seccomp_notif_resp { id: pending.id, val, error, flags };
        let request = libc::SECCOMP_IOCTL_NOTIF_SEND;
        // SAFETY: the kernel reads the struct, which lives through the call.
        let _ = unsafe { libc::ioctl(self.0.as_raw_fd(), request, &raw const answer) };
    }
}

/// Decision about a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    /// The kernel makes the call.
    Proceed,
    /// It is not made, and fails.
    Fail(i32),
    /// It is not made, and returns this.
    Return(i64),
}
