//! Fault injection: any system call of a program fails, lies, is late, stops or kills it. The
//! program needs no hook: a filter asks the test before each call (`seccomp_unotify(2)`).
//!
//! Calls are counted over all threads and children of the program.

mod call_pattern;
mod stopped;
mod supervisor;
mod system_call;
mod watched_call;

use std::collections::BTreeMap;

pub use call_pattern::{CallPattern, Fault};
pub use stopped::{Stepping, Stopped};
pub use system_call::SystemCall;
pub use watched_call::WatchedCall;

use crate::kernel::{KernelFeature, need};
use crate::process::Running;
use crate::program::{Program, Run};
use crate::sys::seccomp::{self, Filter, FilterAction, Listener, Rule};
use crate::witness::{Strace, Trace};
use supervisor::{Supervision, Supervisor};

/// Number of calls, by system call.
pub type CallCounts = BTreeMap<SystemCall, usize>;

/// A program whose system calls are counted or changed.
#[derive(Debug, Clone)]
pub struct Intercepted {
    program: Program,
    begin: SystemCall,
    end: Option<SystemCall>,
    role: Option<&'static str>,
    faults: Vec<Fault>,
    watched: Vec<SystemCall>,
}

/// A run whose system calls were counted or changed.
#[derive(Debug)]
pub struct Intercept {
    /// Exit status and output.
    pub run: Run,
    /// The watched calls, in the order in which they began.
    pub log: Vec<WatchedCall>,
    /// Number of those that write to a regular file, or use a ring that does.
    pub moving: CallCounts,
    /// Number of calls that met a fault.
    pub hits: usize,
}

impl Intercept {
    /// Returns how many of the watched calls were of these kinds.
    #[must_use]
    pub fn count(&self, calls: &[SystemCall]) -> usize {
        self.log.iter().filter(|call| calls.contains(&call.call)).count()
    }
}

impl Intercepted {
    /// Watches calls from the first one of `uncopy` itself on, which is whether standard input is
    /// open: this leaves out the dynamic loader.
    #[must_use]
    pub fn new(program: &Program) -> Intercepted {
        Intercepted {
            program: program.clone(),
            begin: SystemCall::FCNTL,
            end: None,
            role: None,
            faults: Vec::new(),
            watched: Vec::new(),
        }
    }

    /// Watches calls between the first and the second `mark`.
    #[must_use]
    pub fn between_marks(mut self, mark: SystemCall) -> Intercepted {
        (self.begin, self.end) = (mark, Some(mark));
        self
    }

    /// Leaves only calls of processes whose first argument is this, of all that the program starts.
    #[must_use]
    pub fn in_role(mut self, first_argument: &'static str) -> Intercepted {
        self.role = Some(first_argument);
        self
    }

    /// Adds a fault. A call that several hold for meets the first of them.
    #[must_use]
    pub fn inject(mut self, fault: Fault) -> Intercepted {
        self.faults.push(fault);
        self
    }

    /// Adds a fault before the others.
    #[must_use]
    pub fn inject_first(mut self, fault: Fault) -> Intercepted {
        self.faults.insert(0, fault);
        self
    }

    /// Adds calls to those that are watched. Calls with faults are.
    #[must_use]
    pub fn watch(mut self, calls: &[SystemCall]) -> Intercepted {
        self.watched.extend(calls);
        self
    }

    /// Runs it to its end.
    #[must_use]
    pub fn run(&self) -> Intercept {
        self.start(&self.filter(), |supervisor, _| supervisor).finish()
    }

    /// Runs it to its end with strace as a witness of the results of all calls.
    #[must_use]
    pub fn run_traced(&self) -> (Run, Trace) {
        let (program, file) = Strace::new(&self.program).prepare();
        let traced = Intercepted { program, ..self.clone() };
        let intercept = traced.start(&self.filter(), Supervisor::except).finish();
        (intercept.run, file.read())
    }

    /// Runs it and logs every call with its paths.
    #[must_use]
    pub fn record(&self) -> Intercept {
        let with_paths = |supervisor: Supervisor, _| supervisor.keeping_paths();
        self.start(&Intercepted::filter_of_all(), with_paths).finish()
    }

    /// Runs it and counts every call.
    #[must_use]
    pub fn count(&self) -> (Run, CallCounts) {
        let intercept =
            self.start(&Intercepted::filter_of_all(), |supervisor, _| supervisor).finish();
        let mut counts = CallCounts::new();
        for call in intercept.log {
            *counts.entry(call.call).or_default() += 1;
        }
        (intercept.run, counts)
    }

    fn filter_of_all() -> Filter {
        // `execve` starts the program, and a call that returns from a signal must be allowed by the
        // filter itself.
        let rules = [SystemCall::EXECVE, SystemCall::RT_SIGRETURN];
        Filter {
            rules: rules.iter().map(|call| rule(*call)).collect(),
            for_rules: FilterAction::Allow,
            for_others: FilterAction::Ask,
        }
    }

    /// Runs until a call has ended, and stops the program there.
    ///
    /// # Panics
    /// If the program ends before.
    #[must_use]
    pub fn stop_in(&self, call: CallPattern) -> Stopped {
        need(KernelFeature::StoppedCalls);
        let context = call.to_string();
        let supervised = self.clone().inject(call.stops());
        Stopped::wait(supervised.start(&supervised.filter(), |supervisor, _| supervisor), &context)
    }

    /// Starts the program so that it stops repeatedly: in the first of these calls, the third, the fifth. The
    /// kernel restarts a call that was stopped before it did anything, so stopping all of them would
    /// never end.
    #[must_use]
    pub fn stop_in_every_second(&self, calls: &[SystemCall]) -> Stepping {
        need(KernelFeature::StoppedCalls);
        let supervised = self.clone().inject(CallPattern::of(calls).every_second().stops());
        Stepping::new(supervised.start(&supervised.filter(), |supervisor, _| supervisor))
    }

    fn filter(&self) -> Filter {
        let mut calls: Vec<SystemCall> = self.watched.clone();
        calls.extend(self.faults.iter().flat_map(|fault| fault.pattern.calls()));
        calls.push(self.begin);
        calls.extend(self.end);
        calls.sort_unstable();
        calls.dedup();
        let rules = calls.into_iter().map(rule).collect();
        Filter { rules, for_rules: FilterAction::Ask, for_others: FilterAction::Allow }
    }

    fn start(
        &self,
        filter: &Filter,
        adapt: impl FnOnce(Supervisor, i32) -> Supervisor,
    ) -> Supervision {
        let mut launch = self.program.launch();
        let socket = seccomp::confine_and_listen(&mut launch, filter).expect("sockets can be made");
        let running = Running::start(launch);
        let listener = Listener::receive(&socket).expect("kernels since 5.0 have listeners");
        let supervisor = Supervisor::new(self.begin, self.end, self.faults.clone());
        let supervisor = supervisor.in_role(self.role);
        let supervisor = adapt(supervisor, running.process_id());
        Supervision::new(running, listener, supervisor)
    }
}

impl Program {
    /// Runs it to its end with these faults.
    #[must_use]
    pub fn run_with(&self, faults: impl IntoIterator<Item = Fault>) -> Intercept {
        faults.into_iter().fold(Intercepted::new(self), Intercepted::inject).run()
    }

    /// Runs it until its `nth` call of this kind has ended, and stops it there.
    ///
    /// # Panics
    /// If it ends before.
    #[must_use]
    pub fn stop_after(&self, call: SystemCall, nth: usize) -> Stopped {
        Intercepted::new(self).stop_in(CallPattern::of(&[call]).nth(nth))
    }
}

fn rule(call: SystemCall) -> Rule {
    Rule { number: call.0, argument: None }
}
