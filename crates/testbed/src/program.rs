//! The program under test.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::time::Duration;

use uncopy::Errno;

use crate::intercept::SystemCall;
use crate::process::{Running, find_tool};
use crate::receipt::Receipt;
use crate::sys::launch::Launch;
use crate::sys::seccomp::{self, Filter, FilterAction, Rule};

/// Maximum time until a program reaches the point where a test stops it.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// A command line of the program under test, in a fixed environment.
#[derive(Debug, Clone)]
pub struct Program {
    before: Vec<OsString>,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    forbidden: Vec<(Forbidden, Errno)>,
}

/// A system call that a filter can forbid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forbidden {
    /// Every call.
    Call(SystemCall),
    /// `setsockopt(2)` with this option.
    SocketOption(u32),
}

impl Forbidden {
    fn rule(self) -> Rule {
        match self {
            Forbidden::Call(call) => Rule { number: call.0, argument: None },
            Forbidden::SocketOption(option) => {
                Rule { number: SystemCall::SETSOCKOPT.0, argument: Some((2, option)) }
            }
        }
    }
}

impl Program {
    /// Makes a command line of `executable` without arguments.
    #[must_use]
    pub fn new(executable: impl AsRef<Path>) -> Program {
        Program {
            before: Vec::new(),
            arguments: vec![executable.as_ref().as_os_str().to_owned()],
            variables: Vec::new(),
            directory: None,
            forbidden: Vec::new(),
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Program {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<I>(self, arguments: I) -> Program
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        arguments.into_iter().fold(self, Program::arg)
    }

    /// Runs it through another program, whose last arguments are this command line: `["setpriv",
    /// "--reuid=65534"]`.
    #[must_use]
    pub fn through<I>(mut self, wrapper: I) -> Program
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        let wrapper = wrapper.into_iter().map(|word| word.as_ref().to_owned());
        self.before = wrapper.chain(self.before).collect();
        self
    }

    /// Runs it as another user without privileges or supplementary groups.
    #[must_use]
    pub fn as_user(self, user: u32) -> Program {
        let ids = [format!("--reuid={user}"), format!("--regid={user}")];
        let program =
            self.through(["setpriv", &ids[0], &ids[1], "--clear-groups", "--inh-caps=-all"]);
        // With coverage, it must not write to root's files, and would print an error.
        program.env("LLVM_PROFILE_FILE", "/dev/null")
    }

    /// Sets the umask.
    #[must_use]
    pub fn with_umask(self, mask: &str) -> Program {
        self.through(["sh", "-c", &format!("umask {mask}; exec \"$0\" \"$@\"")])
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Program {
        self.variables.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Sets the current directory.
    #[must_use]
    pub fn current_dir(mut self, directory: &Path) -> Program {
        self.directory = Some(directory.to_owned());
        self
    }

    /// Runs it under a filter that makes these calls fail (`seccomp(2)`), as in containers.
    #[must_use]
    pub fn forbidding(mut self, calls: &[Forbidden], errno: Errno) -> Program {
        self.forbidden.extend(calls.iter().map(|call| (*call, errno)));
        self
    }

    pub(crate) fn launch(&self) -> Launch {
        let words: Vec<&OsString> = self.before.iter().chain(&self.arguments).collect();
        let program = words[0].to_str().and_then(find_tool).unwrap_or_else(|| words[0].into());
        let mut command = Command::new(program);
        command.args(&words[1..]);
        // The user's configuration and locale must not affect the tests.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("UNCOPY") {
                command.env_remove(name);
            }
        }
        command.env("HOME", "/nonexistent").env("XDG_CONFIG_HOME", "/nonexistent");
        command.env("LC_ALL", "C").env("NO_COLOR", "1");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let mut launch = Launch::new(command);
        for (call, errno) in &self.forbidden {
            let filter = Filter {
                rules: vec![call.rule()],
                for_rules: FilterAction::Fail(errno.raw()),
                for_others: FilterAction::Allow,
            };
            seccomp::confine(&mut launch, &filter);
        }
        launch
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// If it hangs.
    #[must_use]
    pub fn run(&self) -> Run {
        Run::new(Running::start(self.launch()).finish())
    }
}

/// Exit status and output of a program.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its exit status.
    pub status: ExitStatus,
    /// Output for programs.
    pub stdout: String,
    /// Messages for the user.
    pub stderr: String,
}

impl Run {
    pub(crate) fn new(output: Output) -> Run {
        let Output { status, stdout, stderr } = output;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let run = Run { status, stdout: text(stdout), stderr: text(stderr) };
        assert!(!run.stderr.contains("panicked at"), "the program panicked: {}", run.stderr);
        run
    }

    /// Parses the lines of JSON.
    #[must_use]
    pub fn receipts(&self) -> Vec<Receipt> {
        self.stdout
            .lines()
            .map(|line| {
                assert!(line.starts_with("{\"schema\":1,"), "schema does not come first: {line}");
                Receipt::new(line)
            })
            .collect()
    }

    /// Returns the single receipt of a run that copied one file.
    ///
    /// # Panics
    /// If it failed.
    #[must_use]
    #[track_caller]
    pub fn receipt(&self) -> Receipt {
        assert!(self.status.success(), "{}: {}{}", self.status, self.stderr, self.stdout);
        let receipts = self.receipts();
        assert_eq!(receipts.len(), 1, "not one line: {}", self.stdout);
        receipts[0].clone()
    }

    /// Returns the messages of a run that must fail with this exit code.
    ///
    /// # Panics
    /// If it ended otherwise, or printed no message.
    #[track_caller]
    pub fn failed(&self, code: i32) -> &str {
        let found = self.status.code();
        assert_eq!(found, Some(code), "{}: {}{}", self.status, self.stderr, self.stdout);
        assert!(!self.stderr.trim().is_empty(), "it failed without a word");
        &self.stderr
    }

    /// Checks that this signal ended the run, as seen by a parent (a shell reports 128 + number).
    ///
    /// # Panics
    /// If it ended otherwise.
    #[track_caller]
    pub fn died_of(&self, signal: i32) {
        let found = (self.status.signal(), self.status.code());
        let expected = [(Some(signal), None), (None, Some(128 + signal))];
        assert!(expected.contains(&found), "{}: {}{}", self.status, self.stderr, self.stdout);
    }
}
