//! Fault injection: any system call of a program fails, at its first, second or third time. The
//! program needs no hook: a filter asks the test before each call (`seccomp_unotify(2)`).
//!
//! Calls are counted over all threads and children of the program.

use std::collections::BTreeMap;

use uncopy::Errno;

use crate::process::Running;
use crate::program::{Program, Run};
use crate::sys::seccomp::{self, Filter, FilterAction, Listener, PendingCall, Rule};

/// A system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SystemCall(pub(crate) i64);

/// Number of calls, by system call.
pub type Calls = BTreeMap<SystemCall, usize>;

macro_rules! system_calls {
    ($($name:ident = $number:ident: $errnos:expr;)*) => {
        impl SystemCall {
            $(
                #[doc = concat!("`", stringify!($number), "`")]
                pub const $name: SystemCall = SystemCall(libc::$number);
            )*
        }

        const TABLE: &[(SystemCall, &str, &[Errno])] = &[
            $((SystemCall::$name, stringify!($number), $errnos),)*
        ];
    };
}

// Errors that the manual pages list, and those of filters, security modules and old kernels.
const OPENING: &[Errno] =
    &[Errno::EMFILE, Errno::EINTR, Errno::EIO, Errno::ENOSPC, Errno::EACCES, Errno::ENOSYS];
const MAKING: &[Errno] = &[Errno::EMFILE, Errno::ENOMEM, Errno::EPERM, Errno::ENOSYS];
const READING: &[Errno] = &[Errno::EIO, Errno::EINTR, Errno::ENOMEM];
const WRITING: &[Errno] = &[Errno::ENOSPC, Errno::EIO, Errno::EINTR];
const MOVING: &[Errno] = &[
    Errno::EIO,
    Errno::ENOSPC,
    Errno::EINTR,
    Errno::ENOMEM,
    Errno::EXDEV,
    Errno::EINVAL,
    Errno::EPERM,
    Errno::ENOSYS,
];
const ASKING: &[Errno] = &[Errno::EIO, Errno::ENOMEM, Errno::EACCES, Errno::ENOSYS];
const NAMING: &[Errno] =
    &[Errno::EIO, Errno::ENOSPC, Errno::EPERM, Errno::EXDEV, Errno::EINVAL, Errno::ENOSYS];
const SETTING: &[Errno] =
    &[Errno::EIO, Errno::EPERM, Errno::ENOSPC, Errno::EOPNOTSUPP, Errno::EINVAL];
const FLUSHING: &[Errno] = &[Errno::EIO, Errno::ENOSPC, Errno::EINTR];
const SENDING: &[Errno] =
    &[Errno::EAGAIN, Errno::ENOBUFS, Errno::EINTR, Errno::EPIPE, Errno::ECONNRESET, Errno::EPERM];
const RECEIVING: &[Errno] = &[Errno::EAGAIN, Errno::EINTR, Errno::ENOMEM, Errno::ECONNRESET];
const OPTION: &[Errno] = &[Errno::EPERM, Errno::ENOMEM, Errno::EINVAL, Errno::ENOSYS];
const SLEEPING: &[Errno] = &[Errno::EINTR, Errno::ENOMEM];
const MAPPING: &[Errno] = &[Errno::ENOMEM, Errno::EPERM];
const STARTING: &[Errno] = &[Errno::EAGAIN, Errno::ENOMEM, Errno::EPERM];
const LOCKING: &[Errno] = &[Errno::ENOLCK, Errno::EINTR, Errno::ENOSYS];
const CONTROL: &[Errno] = &[Errno::EPERM, Errno::EINVAL, Errno::ENOSYS];
const CLOSING: &[Errno] = &[Errno::EIO, Errno::EINTR];
/// Calls about the process itself, which cannot fail for an external reason.
const NEVER: &[Errno] = &[];

system_calls! {
    OPENAT = SYS_openat: OPENING;
    OPENAT2 = SYS_openat2: OPENING;
    EXECVE = SYS_execve: STARTING;
    PIPE2 = SYS_pipe2: MAKING;
    SOCKET = SYS_socket: MAKING;
    SOCKETPAIR = SYS_socketpair: MAKING;
    EVENTFD2 = SYS_eventfd2: MAKING;
    EPOLL_CREATE1 = SYS_epoll_create1: MAKING;
    MEMFD_CREATE = SYS_memfd_create: MAKING;
    TIMERFD_CREATE = SYS_timerfd_create: MAKING;
    PIDFD_OPEN = SYS_pidfd_open: MAKING;
    PIDFD_GETFD = SYS_pidfd_getfd: MAKING;
    IO_URING_SETUP = SYS_io_uring_setup: MAKING;
    USERFAULTFD = SYS_userfaultfd: MAKING;
    DUP = SYS_dup: MAKING;
    DUP3 = SYS_dup3: MAKING;
    PERF_EVENT_OPEN = SYS_perf_event_open: MAKING;
    BPF = SYS_bpf: OPTION;
    ACCEPT4 = SYS_accept4: MAKING;
    READ = SYS_read: READING;
    PREAD64 = SYS_pread64: READING;
    READV = SYS_readv: READING;
    PREADV = SYS_preadv: READING;
    PREADV2 = SYS_preadv2: READING;
    GETDENTS64 = SYS_getdents64: READING;
    READLINKAT = SYS_readlinkat: READING;
    WRITE = SYS_write: WRITING;
    PWRITE64 = SYS_pwrite64: WRITING;
    WRITEV = SYS_writev: WRITING;
    PWRITEV = SYS_pwritev: WRITING;
    PWRITEV2 = SYS_pwritev2: WRITING;
    FTRUNCATE = SYS_ftruncate: WRITING;
    COPY_FILE_RANGE = SYS_copy_file_range: MOVING;
    SENDFILE = SYS_sendfile: MOVING;
    SPLICE = SYS_splice: MOVING;
    TEE = SYS_tee: MOVING;
    VMSPLICE = SYS_vmsplice: MOVING;
    IOCTL = SYS_ioctl: MOVING;
    FALLOCATE = SYS_fallocate: SETTING;
    IO_URING_ENTER = SYS_io_uring_enter: &[Errno::EINTR, Errno::EAGAIN, Errno::ENOMEM];
    IO_URING_REGISTER = SYS_io_uring_register: OPTION;
    FSTAT = SYS_fstat: ASKING;
    NEWFSTATAT = SYS_newfstatat: ASKING;
    STATX = SYS_statx: ASKING;
    STATFS = SYS_statfs: ASKING;
    FSTATFS = SYS_fstatfs: ASKING;
    FACCESSAT = SYS_faccessat: ASKING;
    FACCESSAT2 = SYS_faccessat2: ASKING;
    LSEEK = SYS_lseek: &[Errno::EINVAL, Errno::EIO, Errno::EPERM];
    FGETXATTR = SYS_fgetxattr: SETTING;
    FLISTXATTR = SYS_flistxattr: SETTING;
    LGETXATTR = SYS_lgetxattr: SETTING;
    LLISTXATTR = SYS_llistxattr: SETTING;
    GETXATTR = SYS_getxattr: SETTING;
    LISTXATTR = SYS_listxattr: SETTING;
    LINKAT = SYS_linkat: NAMING;
    UNLINKAT = SYS_unlinkat: NAMING;
    RENAMEAT = SYS_renameat: NAMING;
    RENAMEAT2 = SYS_renameat2: NAMING;
    MKDIRAT = SYS_mkdirat: NAMING;
    SYMLINKAT = SYS_symlinkat: NAMING;
    MKNODAT = SYS_mknodat: NAMING;
    CHDIR = SYS_chdir: ASKING;
    FCHDIR = SYS_fchdir: ASKING;
    GETCWD = SYS_getcwd: ASKING;
    FCHMOD = SYS_fchmod: SETTING;
    FCHMODAT = SYS_fchmodat: SETTING;
    FCHOWN = SYS_fchown: SETTING;
    FCHOWNAT = SYS_fchownat: SETTING;
    UTIMENSAT = SYS_utimensat: SETTING;
    FSETXATTR = SYS_fsetxattr: SETTING;
    LSETXATTR = SYS_lsetxattr: SETTING;
    SETXATTR = SYS_setxattr: SETTING;
    FREMOVEXATTR = SYS_fremovexattr: SETTING;
    REMOVEXATTR = SYS_removexattr: SETTING;
    FSYNC = SYS_fsync: FLUSHING;
    FDATASYNC = SYS_fdatasync: FLUSHING;
    SYNCFS = SYS_syncfs: FLUSHING;
    SYNC_FILE_RANGE = SYS_sync_file_range: FLUSHING;
    FADVISE64 = SYS_fadvise64: CONTROL;
    READAHEAD = SYS_readahead: CONTROL;
    FLOCK = SYS_flock: LOCKING;
    FCNTL = SYS_fcntl: &[Errno::EINVAL, Errno::EMFILE, Errno::EPERM];
    CLOSE = SYS_close: CLOSING;
    CLOSE_RANGE = SYS_close_range: CONTROL;
    SENDTO = SYS_sendto: SENDING;
    SENDMSG = SYS_sendmsg: SENDING;
    SENDMMSG = SYS_sendmmsg: SENDING;
    CONNECT = SYS_connect: &[Errno::ECONNREFUSED, Errno::EINTR, Errno::EPERM];
    BIND = SYS_bind: &[Errno::EADDRINUSE, Errno::EACCES];
    LISTEN = SYS_listen: &[Errno::EADDRINUSE];
    RECVFROM = SYS_recvfrom: RECEIVING;
    RECVMSG = SYS_recvmsg: RECEIVING;
    RECVMMSG = SYS_recvmmsg: RECEIVING;
    SETSOCKOPT = SYS_setsockopt: OPTION;
    GETSOCKOPT = SYS_getsockopt: OPTION;
    GETSOCKNAME = SYS_getsockname: OPTION;
    GETPEERNAME = SYS_getpeername: OPTION;
    SHUTDOWN = SYS_shutdown: &[Errno::ENOTCONN];
    PPOLL = SYS_ppoll: SLEEPING;
    EPOLL_PWAIT = SYS_epoll_pwait: SLEEPING;
    EPOLL_PWAIT2 = SYS_epoll_pwait2: SLEEPING;
    EPOLL_CTL = SYS_epoll_ctl: MAKING;
    NANOSLEEP = SYS_nanosleep: &[Errno::EINTR];
    CLOCK_NANOSLEEP = SYS_clock_nanosleep: &[Errno::EINTR];
    WAIT4 = SYS_wait4: &[Errno::EINTR];
    WAITID = SYS_waitid: &[Errno::EINTR];
    MMAP = SYS_mmap: MAPPING;
    MREMAP = SYS_mremap: MAPPING;
    MPROTECT = SYS_mprotect: MAPPING;
    MADVISE = SYS_madvise: CONTROL;
    MLOCK = SYS_mlock: MAPPING;
    CLONE = SYS_clone: STARTING;
    CLONE3 = SYS_clone3: STARTING;
    GETRANDOM = SYS_getrandom: &[Errno::EINTR, Errno::ENOSYS, Errno::EPERM];
    PRLIMIT64 = SYS_prlimit64: CONTROL;
    PRCTL = SYS_prctl: CONTROL;
    SCHED_GETAFFINITY = SYS_sched_getaffinity: CONTROL;
    SCHED_SETAFFINITY = SYS_sched_setaffinity: CONTROL;
    SIGNALFD4 = SYS_signalfd4: MAKING;
    RT_SIGACTION = SYS_rt_sigaction: CONTROL;
    SYSINFO = SYS_sysinfo: CONTROL;
    UNAME = SYS_uname: NEVER;
    CAPGET = SYS_capget: CONTROL;
    SCHED_SETSCHEDULER = SYS_sched_setscheduler: CONTROL;
    SETSID = SYS_setsid: NEVER;
    MEMBARRIER = SYS_membarrier: CONTROL;
    KILL = SYS_kill: &[Errno::EPERM];
    TGKILL = SYS_tgkill: &[Errno::EPERM];
    RT_SIGPROCMASK = SYS_rt_sigprocmask: NEVER;
    SIGALTSTACK = SYS_sigaltstack: NEVER;
    RT_SIGRETURN = SYS_rt_sigreturn: NEVER;
    FUTEX = SYS_futex: NEVER;
    BRK = SYS_brk: NEVER;
    MUNMAP = SYS_munmap: NEVER;
    EXIT = SYS_exit: NEVER;
    EXIT_GROUP = SYS_exit_group: NEVER;
    RESTART_SYSCALL = SYS_restart_syscall: NEVER;
    SET_ROBUST_LIST = SYS_set_robust_list: NEVER;
    SET_TID_ADDRESS = SYS_set_tid_address: NEVER;
    RSEQ = SYS_rseq: NEVER;
    GETTID = SYS_gettid: NEVER;
    GETPID = SYS_getpid: NEVER;
    GETPPID = SYS_getppid: NEVER;
    GETUID = SYS_getuid: NEVER;
    GETEUID = SYS_geteuid: NEVER;
    GETGID = SYS_getgid: NEVER;
    GETEGID = SYS_getegid: NEVER;
    GETGROUPS = SYS_getgroups: NEVER;
    GETCPU = SYS_getcpu: NEVER;
    UMASK = SYS_umask: NEVER;
    SCHED_YIELD = SYS_sched_yield: NEVER;
    CLOCK_GETTIME = SYS_clock_gettime: NEVER;
    CLOCK_GETRES = SYS_clock_getres: NEVER;
    GETTIMEOFDAY = SYS_gettimeofday: NEVER;
    GETRUSAGE = SYS_getrusage: NEVER;
    TIMES = SYS_times: NEVER;
}

/// Calls of this processor only, and one without a name in the crate.
#[cfg(target_arch = "x86_64")]
const FURTHER: &[(i64, &str, &[Errno])] = &[
    (libc::SYS_open, "SYS_open", OPENING),
    (libc::SYS_stat, "SYS_stat", ASKING),
    (libc::SYS_lstat, "SYS_lstat", ASKING),
    (libc::SYS_access, "SYS_access", ASKING),
    (libc::SYS_readlink, "SYS_readlink", READING),
    (libc::SYS_rename, "SYS_rename", NAMING),
    (libc::SYS_link, "SYS_link", NAMING),
    (libc::SYS_unlink, "SYS_unlink", NAMING),
    (libc::SYS_rmdir, "SYS_rmdir", NAMING),
    (libc::SYS_mkdir, "SYS_mkdir", NAMING),
    (libc::SYS_symlink, "SYS_symlink", NAMING),
    (libc::SYS_chmod, "SYS_chmod", SETTING),
    (libc::SYS_chown, "SYS_chown", SETTING),
    (libc::SYS_pipe, "SYS_pipe", MAKING),
    (libc::SYS_dup2, "SYS_dup2", MAKING),
    (libc::SYS_poll, "SYS_poll", SLEEPING),
    (libc::SYS_epoll_wait, "SYS_epoll_wait", SLEEPING),
    (libc::SYS_vfork, "SYS_vfork", STARTING),
    (libc::SYS_fork, "SYS_fork", STARTING),
    (libc::SYS_arch_prctl, "SYS_arch_prctl", NEVER),
    (libc::SYS_time, "SYS_time", NEVER),
    (451, "SYS_cachestat", CONTROL),
];
#[cfg(not(target_arch = "x86_64"))]
const FURTHER: &[(i64, &str, &[Errno])] = &[(451, "SYS_cachestat", CONTROL)];

impl SystemCall {
    fn row(self) -> Option<(&'static str, &'static [Errno])> {
        let known = TABLE.iter().map(|(call, name, errnos)| (call.0, *name, *errnos));
        let mut rows = known.chain(FURTHER.iter().copied());
        rows.find(|(number, ..)| *number == self.0).map(|(_, name, errnos)| (name, errnos))
    }

    /// Returns the name in the manual.
    ///
    /// # Panics
    /// If there is no row for it: add one with its errors.
    #[must_use]
    pub fn name(self) -> &'static str {
        let row = self.row().unwrap_or_else(|| panic!("no row for system call {}", self.0));
        row.0.trim_start_matches("SYS_")
    }

    /// Returns the errors that it can fail with; empty: it cannot fail.
    #[must_use]
    pub fn errnos(self) -> &'static [Errno] {
        self.row().map_or(&[], |row| row.1)
    }
}

/// A program whose system calls are counted or made to fail.
#[derive(Debug, Clone)]
pub struct Intercepted {
    program: Program,
    begin: SystemCall,
    end: Option<SystemCall>,
}

/// A call that fails.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// The system call.
    pub call: SystemCall,
    /// Number of the call, from 1.
    pub nth: usize,
    /// The error.
    pub errno: Errno,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} from {} number {}", self.errno, self.call.name(), self.nth)
    }
}

/// A run with a fault.
#[derive(Debug)]
pub struct Intercept {
    /// Exit status and output.
    pub run: Run,
    /// Number of the watched calls.
    pub calls: Calls,
    /// Number of those that write to a regular file, or use a ring that does.
    pub moving: Calls,
    /// Whether the fault happened.
    pub happened: bool,
}

impl Intercepted {
    /// Watches calls from the first `begin`, included, until the next `end`, if there is one: this
    /// leaves out the dynamic loader.
    #[must_use]
    pub fn new(program: &Program, begin: SystemCall, end: Option<SystemCall>) -> Intercepted {
        Intercepted { program: program.clone(), begin, end }
    }

    /// Runs it and counts every call.
    #[must_use]
    pub fn count(&self) -> (Run, Calls) {
        // `execve` starts the program, and a call that returns from a signal must be allowed by the
        // filter itself.
        let rules = [SystemCall::EXECVE, SystemCall::RT_SIGRETURN];
        let filter = Filter {
            rules: rules.iter().map(|call| rule(*call)).collect(),
            for_rules: FilterAction::Allow,
            for_others: FilterAction::Ask,
        };
        let outcome = self.run(&filter, None);
        (outcome.run, outcome.calls)
    }

    /// Runs it with this fault; `watched` calls are counted.
    #[must_use]
    pub fn fail(&self, fault: Fault, watched: &[SystemCall]) -> Intercept {
        let mut calls: Vec<SystemCall> = watched.to_vec();
        calls.extend([fault.call, self.begin]);
        calls.extend(self.end);
        calls.sort_unstable();
        calls.dedup();
        let rules = calls.into_iter().map(rule).collect();
        let filter =
            Filter { rules, for_rules: FilterAction::Ask, for_others: FilterAction::Allow };
        self.run(&filter, Some(fault))
    }

    fn run(&self, filter: &Filter, fault: Option<Fault>) -> Intercept {
        let mut command = self.program.command();
        let socket =
            seccomp::confine_and_listen(&mut command, filter).expect("sockets can be made");
        let running = Running::start(command);
        let listener = Listener::receive(&socket).expect("kernels since 5.0 have listeners");
        let mut counter = Counter::new(self.begin, self.end, fault);
        let answering = std::thread::spawn(move || {
            counter.answer(&listener);
            counter
        });
        // The program ends or is killed, and nobody waits for the answer.
        let run = Run::new(running.finish());
        let counter = answering.join().expect("whoever answers does not panic");
        let Counter { calls, moving, happened, .. } = counter;
        Intercept { run, calls, moving, happened }
    }
}

fn rule(call: SystemCall) -> Rule {
    Rule { number: call.0, argument: None }
}

/// Closing can fail only for files (NFS, FUSE, quotas), so only that is made to fail. A call that
/// does not reach the kernel leaves the descriptor open; for other objects, a peer would wait
/// forever for its end.
fn closes_no_file(pending: PendingCall) -> bool {
    pending.number == SystemCall::CLOSE.0 && is_file(pending, 0) == Some(false)
}

/// Whether this argument is a descriptor of a regular file.
fn is_file(pending: PendingCall, argument: usize) -> Option<bool> {
    let path = format!("/proc/{}/fd/{}", pending.thread, pending.arguments[argument] as i32);
    std::fs::metadata(path).ok().map(|metadata| metadata.is_file())
}

/// `FICLONE` and `FICLONERANGE` (`ioctl_ficlonerange(2)`).
const CLONES: [u32; 2] = [0x4004_9409, 0x4020_940D];

/// Whether this call writes to a regular file.
fn puts_into_a_file(pending: PendingCall) -> bool {
    let into = match SystemCall(pending.number) {
        SystemCall::IO_URING_ENTER => return true,
        SystemCall::IOCTL if !CLONES.contains(&(pending.arguments[1] as u32)) => return false,
        SystemCall::COPY_FILE_RANGE | SystemCall::SPLICE => 2,
        SystemCall::IOCTL
        | SystemCall::SENDFILE
        | SystemCall::WRITE
        | SystemCall::PWRITE64
        | SystemCall::WRITEV
        | SystemCall::PWRITEV
        | SystemCall::PWRITEV2 => 0,
        _ => return false,
    };
    is_file(pending, into) == Some(true)
}

struct Counter {
    begin: SystemCall,
    end: Option<SystemCall>,
    fault: Option<Fault>,
    has_begun: bool,
    has_ended: bool,
    calls: Calls,
    moving: Calls,
    seen: usize,
    happened: bool,
}

impl Counter {
    fn new(begin: SystemCall, end: Option<SystemCall>, fault: Option<Fault>) -> Counter {
        let (calls, moving) = (Calls::new(), Calls::new());
        Counter {
            begin,
            end,
            fault,
            has_begun: false,
            has_ended: false,
            calls,
            moving,
            seen: 0,
            happened: false,
        }
    }

    fn answer(&mut self, listener: &Listener) {
        while let Some(pending) = listener.next().expect("the kernel lets a listener listen") {
            let errno = self.errno(pending);
            listener.answer(pending, errno.map(Errno::raw));
        }
    }

    fn errno(&mut self, pending: PendingCall) -> Option<Errno> {
        let call = SystemCall(pending.number);
        self.has_ended |= self.has_begun && Some(call) == self.end;
        self.has_begun |= call == self.begin;
        if !self.has_begun || self.has_ended || closes_no_file(pending) {
            return None;
        }
        if let Some(fault) = self.fault
            && fault.call == call
        {
            self.seen += 1;
            if self.seen == fault.nth {
                self.happened = true;
                return Some(fault.errno);
            }
        }
        *self.calls.entry(call).or_default() += 1;
        if puts_into_a_file(pending) {
            *self.moving.entry(call).or_default() += 1;
        }
        None
    }
}
