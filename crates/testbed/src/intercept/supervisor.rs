//! Decides about each call of a running program.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::call_pattern::{Effect, Fault};
use super::{CallCounts, Intercept, SystemCall, WatchedCall};
use crate::process::Running;
use crate::program::Run;
use crate::sys::seccomp::{Answer, Listener, PendingCall};
use crate::wait::LONG;

/// A running program, and the thread that answers for its calls.
#[derive(Debug)]
pub(crate) struct Supervision {
    pub(crate) running: Running,
    /// Says when the program is sent a stop.
    pub(crate) stops: Receiver<()>,
    answering: JoinHandle<Supervisor>,
}

impl Supervision {
    pub(crate) fn new(running: Running, listener: Listener, supervisor: Supervisor) -> Supervision {
        let (sender, stops) = channel();
        let answering = std::thread::spawn(move || supervisor.answer_all(listener, &sender));
        Supervision { running, stops, answering }
    }

    /// Waits for the end of the program, and of all processes that it has started.
    ///
    /// # Panics
    /// If one of them goes on.
    pub(crate) fn finish(self) -> Intercept {
        // The program ends or is killed, and nobody waits for the answer.
        let run = Run::new(self.running.finish());
        let deadline = Instant::now() + LONG;
        // Whoever answers lets go of this at the end of the last process.
        let left = || deadline.saturating_duration_since(Instant::now());
        while match self.stops.recv_timeout(left()) {
            Ok(()) => true,
            Err(RecvTimeoutError::Disconnected) => false,
            Err(RecvTimeoutError::Timeout) => panic!("a process of the program goes on: {run:?}"),
        } {}
        let supervisor = self.answering.join().expect("whoever answers does not panic");
        let Supervisor { log, moving, hits, .. } = supervisor;
        Intercept { run, log, moving, hits }
    }
}

#[derive(Debug)]
pub(crate) struct Supervisor {
    begin: SystemCall,
    end: Option<SystemCall>,
    /// Each with the number of calls that its pattern held for.
    faults: Vec<(Fault, usize)>,
    /// First argument of the processes whose calls count.
    role: Option<&'static str>,
    /// A process above the program whose calls are not the program's.
    tracer: Option<u32>,
    /// Whether the files of each call are looked up.
    keeps_paths: bool,
    has_begun: bool,
    has_ended: bool,
    seen: CallCounts,
    log: Vec<WatchedCall>,
    moving: CallCounts,
    hits: usize,
}

impl Supervisor {
    pub(crate) fn new(
        begin: SystemCall,
        end: Option<SystemCall>,
        faults: Vec<Fault>,
    ) -> Supervisor {
        Supervisor {
            begin,
            end,
            faults: faults.into_iter().map(|fault| (fault, 0)).collect(),
            role: None,
            tracer: None,
            keeps_paths: false,
            has_begun: false,
            has_ended: false,
            seen: CallCounts::new(),
            log: Vec::new(),
            moving: CallCounts::new(),
            hits: 0,
        }
    }

    /// Leaves the calls of processes with another first argument alone.
    pub(crate) fn in_role(self, role: Option<&'static str>) -> Supervisor {
        Supervisor { role, ..self }
    }

    /// Leaves the calls of this process alone.
    pub(crate) fn except(self, tracer: i32) -> Supervisor {
        Supervisor { tracer: Some(tracer.cast_unsigned()), ..self }
    }

    /// Looks the files of each call up.
    pub(crate) fn keeping_paths(self) -> Supervisor {
        Supervisor { keeps_paths: true, ..self }
    }

    fn answer_all(mut self, listener: Listener, stops: &Sender<()>) -> Supervisor {
        let listener = Arc::new(listener);
        while let Some(pending) = listener.next().expect("the kernel lets a listener listen") {
            match self.effect(pending, stops) {
                None => listener.answer(pending, Answer::Proceed),
                Some(Effect::Fail(errno)) => listener.answer(pending, Answer::Fail(errno.raw())),
                Some(Effect::Return(value)) => listener.answer(pending, Answer::Return(value)),
                Some(Effect::Answer { argument, bytes }) => {
                    WatchedCall::new(pending, 0).write(argument, &bytes);
                    listener.answer(pending, Answer::Return(0));
                }
                Some(Effect::Delay(by)) => {
                    // The other threads' calls do not wait.
                    let listener = Arc::clone(&listener);
                    std::thread::spawn(move || {
                        std::thread::sleep(by);
                        listener.answer(pending, Answer::Proceed);
                    });
                }
                Some(Effect::Cut(bytes)) => {
                    // It may wait for the other end, whose calls are answered meanwhile.
                    let listener = Arc::clone(&listener);
                    std::thread::spawn(move || {
                        let answer = WatchedCall::new(pending, 0).make_in_part(bytes);
                        listener.answer(pending, answer);
                    });
                }
                Some(Effect::Kill) => signal(pending, Signal::KILL),
                Some(Effect::Stop) => unreachable!("it was sent"),
            }
        }
        self
    }

    fn effect(&mut self, pending: PendingCall, stops: &Sender<()>) -> Option<Effect> {
        let is_other = |role| first_argument(pending.thread).is_none_or(|found| found != role);
        if self.tracer == Some(pending.thread) || self.role.is_some_and(is_other) {
            return None;
        }
        let kind = SystemCall(pending.number);
        self.has_ended |= self.has_begun && Some(kind) == self.end;
        self.has_begun |= kind == self.begin;
        let mut call = WatchedCall::new(pending, 0);
        let is_out = !self.has_begun || self.has_ended;
        if is_out || call.closes_no_file() || call.hears_of_a_start() {
            return None;
        }
        let seen = self.seen.entry(kind).or_default();
        *seen += 1;
        call.nth = *seen;
        let mut effect = None;
        for (fault, seen) in &mut self.faults {
            if !fault.pattern.holds(&call) {
                continue;
            }
            *seen += 1;
            if !fault.pattern.has_number(*seen) {
                continue;
            }
            call.is_faulty = true;
            match &fault.effect {
                Effect::Stop => {
                    // The call is made with the signal pending, and the thread stops when it ends.
                    signal(pending, Signal::STOP);
                    // Nobody may be waiting any more.
                    let _ = stops.send(());
                }
                other => effect = effect.or_else(|| Some(other.clone())),
            }
        }
        self.hits += usize::from(call.is_faulty);
        let is_made = matches!(effect, None | Some(Effect::Delay(_) | Effect::Cut(_)));
        if is_made && call.puts_into_a_file() {
            *self.moving.entry(kind).or_default() += 1;
        }
        if self.keeps_paths {
            call.remember_paths();
        }
        self.log.push(call);
        effect
    }
}

/// Returns the first argument of the process of a thread, behind the program.
fn first_argument(thread: u32) -> Option<String> {
    let words = std::fs::read(format!("/proc/{thread}/cmdline")).ok()?;
    let first = words.split(|byte| *byte == 0).nth(1)?;
    Some(String::from_utf8_lossy(first).into_owned())
}

fn signal(pending: PendingCall, signal: Signal) {
    let process = Pid::from_raw(pending.thread.cast_signed()).expect("a caller has a number");
    // It may have been killed meanwhile.
    let _ = kill_process(process, signal);
}
