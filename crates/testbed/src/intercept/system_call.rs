//! System calls, and the errors that each can fail with.

use uncopy::Errno;

/// A system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SystemCall(pub(crate) i64);

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
const OPENING: &[Errno] = &[
    Errno::EMFILE,
    Errno::EINTR,
    Errno::EIO,
    Errno::ENOSPC,
    Errno::EACCES,
    Errno::ENOSYS,
    Errno::EOPNOTSUPP,
];
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
const LANDLOCK: &[Errno] = &[Errno::ENOSYS, Errno::EOPNOTSUPP, Errno::ENOMEM, Errno::EPERM];
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
    LANDLOCK_CREATE_RULESET = SYS_landlock_create_ruleset: LANDLOCK;
    LANDLOCK_ADD_RULE = SYS_landlock_add_rule: LANDLOCK;
    LANDLOCK_RESTRICT_SELF = SYS_landlock_restrict_self: LANDLOCK;
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
