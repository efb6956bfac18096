//! Starts programs.
//!
//! `Command` with `pre_exec` forks, which copies the page tables of a process that is large and makes each of its
//! threads fault on what it writes next. A filter is installed by a child that shares the memory instead, as
//! `posix_spawn(3)` starts programs.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::io::{Error, PipeReader, Result, pipe};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use rustix::process::Pid;

/// Action of the child before the program, which makes system calls and nothing else.
type Entry = Box<dyn FnMut() -> Result<()>>;

/// A command line, and what happens in the child before it.
pub(crate) struct Launch {
    pub(crate) command: Command,
    entries: Vec<Entry>,
}

/// A program that was started.
pub(crate) struct Launched {
    pub(crate) process: Pid,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// Memory of the child's stack.
const STACK_BYTES: usize = 64 << 10;

/// Everything that the child reads.
struct Child<'a> {
    program: *const libc::c_char,
    arguments: *const *const libc::c_char,
    environment: *const *const libc::c_char,
    directory: Option<&'a CString>,
    standard: [RawFd; 3],
    entries: &'a mut [Entry],
    errno: i32,
}

impl Launch {
    pub(crate) fn new(command: Command) -> Launch {
        Launch { command, entries: Vec::new() }
    }

    /// Adds an action of the child.
    ///
    /// # Safety
    /// It makes system calls and does nothing else: no allocation, no lock, no panic.
    pub(super) unsafe fn before(&mut self, entry: impl FnMut() -> Result<()> + 'static) {
        self.entries.push(Box::new(entry));
    }

    /// Starts the program without input.
    pub(crate) fn start(mut self) -> Result<Launched> {
        if self.entries.is_empty() {
            self.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = self.command.spawn()?;
            let process = Pid::from_child(&child);
            let stdout = child.stdout.take().expect("it is piped").into();
            let stderr = child.stderr.take().expect("it is piped").into();
            return Ok(Launched { process, stdout, stderr });
        }
        self.start_sharing_memory()
    }

    fn start_sharing_memory(mut self) -> Result<Launched> {
        let words: Vec<CString> = std::iter::once(self.command.get_program())
            .chain(self.command.get_args())
            .map(text)
            .collect();
        let mut variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => variables.insert(name.to_owned(), value.to_owned()),
                None => variables.remove(name),
            };
        }
        let variables: Vec<CString> = variables
            .into_iter()
            .map(|(mut name, value)| {
                name.push("=");
                name.push(value);
                text(&name)
            })
            .collect();
        let directory = self.command.get_current_dir().map(|path| text(path.as_os_str()));
        let (arguments, environment) = (pointers(&words), pointers(&variables));
        let input = std::fs::File::open("/dev/null")?;
        let (out, err): ((PipeReader, _), (PipeReader, _)) = (pipe()?, pipe()?);
        let mut child = Child {
            program: words[0].as_ptr(),
            arguments: arguments.as_ptr(),
            environment: environment.as_ptr(),
            directory: directory.as_ref(),
            standard: [input.as_raw_fd(), out.1.as_raw_fd(), err.1.as_raw_fd()],
            entries: &mut self.entries,
            errno: 0,
        };
        assert!(child.standard.iter().all(|fd| *fd > 2), "this process's own are open");
        let process = child.start()?;
        if child.errno != 0 {
            // SAFETY: the child is this process's own; it has ended.
            unsafe { libc::waitpid(process, std::ptr::null_mut(), 0) };
            return Err(Error::from_raw_os_error(child.errno));
        }
        let process = Pid::from_raw(process).expect("a child has a number");
        Ok(Launched { process, stdout: out.0.into(), stderr: err.0.into() })
    }
}

impl Child<'_> {
    /// Starts it; returns its number after it has become the program, or has ended with an `errno`.
    fn start(&mut self) -> Result<libc::pid_t> {
        let mut stack = vec![MaybeUninit::<u128>::uninit(); STACK_BYTES / size_of::<u128>()];
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set lives through the call, and is filled by it.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        // SAFETY: both sets live through the call.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
        let top = stack.as_mut_ptr_range().end;
        // SAFETY: no handler of signals runs in the child on this thread's memory. The child has a stack of its
        // own, and shares the other memory while this thread waits for it to run another program or end
        // (`CLONE_VFORK`), so what `self` points to lives and nobody else uses it.
        let process = unsafe { libc::clone(enter, top.cast(), flags, (&raw mut *self).cast()) };
        let error = Error::last_os_error();
        // SAFETY: the set lives through the call, and was filled above.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
        }
        if process < 0 { Err(error) } else { Ok(process) }
    }

    /// Becomes the program; returns if that fails.
    ///
    /// # Safety
    /// Called in the child of [`Child::start`].
    unsafe fn become_program(&mut self) -> Result<()> {
        let check = |answer: i32| match answer {
            -1 => Err(Error::last_os_error()),
            _ => Ok(()),
        };
        for (number, fd) in (0..).zip(self.standard) {
            // SAFETY: takes numbers alone.
            check(unsafe { libc::dup2(fd, number) })?;
        }
        if let Some(directory) = self.directory {
            // SAFETY: the text ends in zero.
            check(unsafe { libc::chdir(directory.as_ptr()) })?;
        }
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sets no handler. Rust programs ignore SIGPIPE, and others are not to.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        // SAFETY: the set lives through the call, and is filled by it.
        unsafe { libc::sigemptyset(none.as_mut_ptr()) };
        // SAFETY: the set lives through the call, and was filled above.
        unsafe {
            libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
        }
        for entry in &mut *self.entries {
            entry()?;
        }
        // SAFETY: all texts end in zero, both lists in a null pointer.
        check(unsafe { libc::execve(self.program, self.arguments, self.environment) })
    }
}

extern "C" fn enter(child: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `Child::start` passes it, and waits meanwhile.
    let child = unsafe { &mut *child.cast::<Child<'_>>() };
    // SAFETY: this is the child.
    let result = unsafe { child.become_program() };
    child.errno = result.err().and_then(|error| error.raw_os_error()).unwrap_or(libc::EIO);
    // SAFETY: ends the child, without destructors of this process.
    unsafe { libc::_exit(127) }
}

fn text(words: &OsStr) -> CString {
    CString::new(words.as_bytes()).expect("tests pass no zero bytes")
}

fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use rustix::process::WaitOptions;

    use super::*;

    fn sharing_memory(mut command: Command) -> Result<(i32, String)> {
        command.env("ADDED", "x").env_remove("HOME").current_dir("/");
        let mut launch = Launch::new(command);
        // SAFETY: it does nothing.
        unsafe { launch.before(|| Ok(())) };
        let launched = launch.start()?;
        let mut output = String::new();
        File::from(launched.stdout).read_to_string(&mut output)?;
        let status = rustix::process::waitpid(Some(launched.process), WaitOptions::empty())?;
        Ok((status.unwrap().1.as_raw(), output))
    }

    #[test]
    fn the_program_has_its_surroundings() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo $ADDED ${HOME-none} $PWD; read -r line || exit 3"]);
        let (status, output) = sharing_memory(command).unwrap();
        assert_eq!((status >> 8, output.trim()), (3, "x none /"));
    }

    #[test]
    fn signals_have_their_defaults() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "kill -PIPE $$"]);
        assert_eq!(sharing_memory(command).unwrap().0, libc::SIGPIPE);
    }

    #[test]
    fn a_program_that_cannot_start_is_an_error() {
        let error = sharing_memory(Command::new("/no/such/program")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }
}
