//! The process that is the far end, or leads to it.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use uncopy_core::Errno;
use uncopy_os::{inherit, transfer};

use crate::lookup::Lookup;
use crate::{Address, AddressLookup, RemoteError, RemoteShell, ShellEnd, Streams};

/// Size of the pipes: the largest that every user may have (`/proc/sys/fs/pipe-max-size`).
const PIPE_BYTES: usize = 1 << 20;
/// Time that the remote shell gets to end by itself.
const ENDING: Duration = Duration::from_secs(5);
/// Exit statuses of a shell that does not find a program or may not run it, and of ssh that does not reach a machine.
const MAY_NOT_RUN: i32 = 126;
const NOT_FOUND: i32 = 127;
const NOT_REACHED: i32 = 255;

/// Process of a remote shell. It is killed and waited for on drop.
#[derive(Debug)]
pub struct FarEnd {
    child: Child,
    streams: Option<Streams>,
    host: OsString,
    program: String,
    /// Command that shows whether the remote shell reaches the machine.
    trial: String,
    lookup: Lookup,
}

impl FarEnd {
    /// Starts the remote shell, which starts `uncopy serve --stdio` on the other machine. Its standard error is that of
    /// this process. It does not end by Ctrl-C, so that the session ends in order.
    ///
    /// # Errors
    /// The address cannot be used, or the shell cannot be started.
    pub fn start(shell: &RemoteShell, address: &Address) -> Result<FarEnd, RemoteError> {
        address.check()?;
        let (program, arguments) = shell.command(address);
        let system = |what| move |errno| RemoteError::System { what, errno };
        let make = || transfer::pipe(PIPE_BYTES).map_err(system("make a pipe"));
        let (their_input, our_output, _) = make()?;
        let (our_input, their_output, _) = make()?;
        let mut command = Command::new(&program);
        command.args(arguments).stdin(Stdio::from(their_input)).stdout(Stdio::from(their_output));
        inherit::ignore_interrupts(&mut command);
        let child = command.spawn().map_err(|error| RemoteError::Start {
            program,
            errno: Errno::from_raw(error.raw_os_error().unwrap_or_default()),
        })?;
        // The child's ends are closed here with the command, so that its end shows.
        drop(command);
        let streams = Some(Streams::of_descriptors(our_input, our_output));
        let program = shell.program().to_string_lossy().into_owned();
        let (trial, lookup) = (shell.trial(address), Lookup::new(shell, address));
        Ok(FarEnd { child, streams, host: address.host.clone(), program, trial, lookup })
    }

    /// Returns the ciphers that ssh offers, the preferred one first; none where the remote shell is not ssh.
    #[must_use]
    pub fn ciphers(&self) -> Vec<String> {
        self.lookup.ciphers()
    }

    /// Returns the lookup of the machine's addresses, for data connections.
    #[must_use]
    pub fn lookup(&self) -> AddressLookup {
        let lookup = self.lookup.clone();
        Box::new(move || lookup.find())
    }

    /// Takes the streams of the session.
    ///
    /// # Errors
    /// They were taken before.
    pub fn streams(&mut self) -> Result<Streams, RemoteError> {
        let taken = || RemoteError::Lost { what: "its streams are taken".to_owned() };
        self.streams.take().ok_or_else(taken)
    }

    /// Waits for the end of the remote shell, and kills it if it does not end. Returns the result of the session; where
    /// no session began, the reason that the exit status names.
    ///
    /// # Errors
    /// As `result`; [`RemoteError::FarMissing`], [`RemoteError::FarNotRunnable`], [`RemoteError::Unreachable`],
    /// [`RemoteError::ShellEnded`].
    pub fn finish<T>(mut self, result: Result<T, RemoteError>) -> Result<T, RemoteError> {
        // Closes what was not taken.
        self.streams = None;
        let status = self.wait();
        let shown = match &result {
            Err(RemoteError::NoGreeting { shown } | RemoteError::NotUncopy { shown }) => shown,
            _ => return result,
        };
        let (host, program) = (self.host.clone(), self.program.clone());
        let ended = match status.map(|status| (status.code(), status.signal())) {
            Some((Some(NOT_FOUND), _)) => return Err(RemoteError::FarMissing { host, program }),
            Some((Some(MAY_NOT_RUN), _)) => {
                return Err(RemoteError::FarNotRunnable { host, program });
            }
            Some((Some(NOT_REACHED), _)) => {
                let command = self.trial.clone();
                return Err(RemoteError::Unreachable { host, status: NOT_REACHED, command });
            }
            // It answered, and not as uncopy does.
            _ if matches!(result, Err(RemoteError::NotUncopy { .. })) => return result,
            Some((Some(status), _)) => ShellEnd::Exited(status),
            Some((None, Some(signal))) => ShellEnd::Killed(signal),
            Some((None, None)) | None => ShellEnd::Closed,
        };
        Err(RemoteError::ShellEnded { host, ended, shown: shown.clone() })
    }

    /// Waits for a while, and then kills. `None`: it was killed.
    fn wait(&mut self) -> Option<ExitStatus> {
        let begin = Instant::now();
        let mut pause = Duration::from_millis(1);
        while begin.elapsed() < ENDING {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) => {}
                Err(_) => break,
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
        self.kill();
        None
    }

    fn kill(&mut self) {
        // It may have ended meanwhile; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.kill();
        }
    }
}
