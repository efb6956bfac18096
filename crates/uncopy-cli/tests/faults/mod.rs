//! Every system call that the program makes fails, one at a time: the first of its kind, the second,
//! until a run makes no further one.
//!
//! Whatever fails: the exit code is a documented one, a failure is reported with operation and subject,
//! no temporary file stays, nothing is half-written under its name, the source is untouched, and a
//! receipt says what really happened. What hangs is killed and fails the test.
//!
//! A short run fails the first call of every second kind, by one error. `UNCOPY_TEST_FULL=1` fails all calls,
//! by its errors in turn; `UNCOPY_TEST_FULL=soak` tries each error at each place.

#[cfg(feature = "remote")]
mod between;
#[cfg(feature = "compress")]
mod compressed;
mod copies;
mod forbidden;
mod lasting;
mod others;
mod trees;

use std::panic::{AssertUnwindSafe, catch_unwind};

use testbed::{
    CallPattern, Case, Fault, Intercept, Intercepted, Program, Receipt, Run, SystemCall, by_extent,
};
use uncopy::Errno;

/// The program under test.
fn uncopy() -> Program {
    Program::new(env!("CARGO_BIN_EXE_uncopy")).env("RUST_BACKTRACE", "0")
}

/// A program, and what must hold whatever fails in it.
struct Scene<'a> {
    program: Program,
    /// Faults that each run has.
    always: &'a [Fault],
    /// Puts everything as it was before.
    reset: &'a dyn Fn(),
    check: &'a dyn Fn(&Intercept, &Fault),
    /// Calls of one kind that fail, at most; programs that run for a time make any number.
    most: usize,
    /// Whether these are spread over all calls of the kind, and not the first ones.
    is_spread: bool,
    /// First argument of the processes whose calls fail, where the program starts others.
    role: Option<&'static str>,
    /// Kinds of calls that fail; empty: all.
    only: &'a [SystemCall],
    /// How it ends where nothing fails.
    ends: &'a [i32],
}

/// Calls that move bytes: a receipt may claim no mechanism whose calls were never made.
const MOVING: [SystemCall; 10] = [
    SystemCall::IOCTL,
    SystemCall::COPY_FILE_RANGE,
    SystemCall::SENDFILE,
    SystemCall::SPLICE,
    SystemCall::IO_URING_ENTER,
    SystemCall::WRITE,
    SystemCall::PWRITE64,
    SystemCall::WRITEV,
    SystemCall::PWRITEV,
    SystemCall::PWRITEV2,
];

/// Places where calls of one kind fail, in scenes whose runs take long.
const FEW: usize = 3;

impl Scene<'_> {
    /// Makes a scene of which nothing is checked but how it ends.
    fn new(program: Program) -> Self {
        let (reset, check) = (&|| (), &|_: &Intercept, _: &Fault| ());
        Scene {
            program,
            always: &[],
            reset,
            check,
            most: usize::MAX,
            is_spread: false,
            role: None,
            only: &[],
            ends: &[0],
        }
    }

    fn intercepted(&self) -> Intercepted {
        let (program, always) = (Intercepted::new(&self.program), self.always.iter().cloned());
        let intercepted = always.fold(program, Intercepted::inject);
        match self.role {
            Some(role) => intercepted.in_role(role),
            None => intercepted,
        }
    }

    /// The calls that it makes where nothing fails.
    fn each(&self) -> Vec<SystemCall> {
        let intercepted = self.intercepted();
        (self.reset)();
        let (run, calls) = intercepted.count();
        assert!(self.ends_well(&run), "{}: {}", run.status, run.stderr);
        assert!(calls.len() >= 5, "{calls:?}");
        let names: Vec<&str> = calls.keys().map(|call| call.name()).collect();
        println!("{} calls of {} kinds: {names:?}", calls.values().sum::<usize>(), names.len());
        let mut wrong = Vec::new();
        let is_tried = |call: &SystemCall| self.only.is_empty() || self.only.contains(call);
        let calls: Vec<(SystemCall, usize)> =
            calls.into_iter().filter(|(call, _)| is_tried(call)).collect();
        // At the short extent every second kind, every third or sixth where a run takes long, and not the
        // same ones in each scene.
        let long = if self.is_spread { 6 } else { 3 };
        let step = by_extent([if self.most <= FEW { long } else { 2 }, 1, 1]);
        for (call, times) in calls.iter().skip(calls.len() % step).step_by(step) {
            self.each_of(&intercepted, *call, *times, &mut wrong);
        }
        let count = wrong.len();
        wrong.truncate(20);
        assert!(wrong.is_empty(), "{count} faults did harm:\n{}", wrong.join("\n"));
        calls.into_iter().map(|(call, _)| call).collect()
    }

    fn each_of(
        &self,
        intercepted: &Intercepted,
        call: SystemCall,
        times: usize,
        wrong: &mut Vec<String>,
    ) {
        let (most, full) = by_extent([(1, false), (self.most, false), (usize::MAX, true)]);
        let errnos = call.errnos();
        if errnos.is_empty() {
            return;
        }
        // Other errors in each scene, where few calls of a kind fail.
        let (step, first) = match self.is_spread && !full {
            true => (times.div_ceil(most), times),
            false => (1, 0),
        };
        for (place, nth) in (1..).step_by(step).take(most).enumerate() {
            let in_turn = [errnos[(first + place) % errnos.len()]];
            let tried = if full { errnos } else { &in_turn };
            let happened =
                tried.iter().all(|errno| self.one(intercepted, call, nth, *errno, wrong));
            if !happened {
                break;
            }
        }
        if !full && !self.is_spread && most > errnos.len() {
            // Each of them in the first, which is often the only one.
            for errno in &errnos[1..] {
                self.one(intercepted, call, 1, *errno, wrong);
            }
        }
    }

    fn ends_well(&self, run: &Run) -> bool {
        run.status.code().is_some_and(|code| self.ends.contains(&code))
    }

    /// Whether there was such a call. What went wrong is collected, so that one run shows all.
    fn one(
        &self,
        intercepted: &Intercepted,
        call: SystemCall,
        nth: usize,
        errno: Errno,
        wrong: &mut Vec<String>,
    ) -> bool {
        let fault = CallPattern::of(&[call]).nth(nth).fails(errno);
        (self.reset)();
        let tried = catch_unwind(AssertUnwindSafe(|| {
            let intercept = intercepted.clone().inject_first(fault.clone()).watch(&MOVING).run();
            let happened = intercept.log.iter().filter(|made| made.call == call).count() >= nth;
            if happened {
                check_end(&intercept, &fault);
                (self.check)(&intercept, &fault);
            } else {
                let run = &intercept.run;
                assert!(self.ends_well(run), "{fault} did not happen: {run:?}");
            }
            happened
        }));
        tried.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            wrong.push(format!("{fault}: {}", text.chars().take(2000).collect::<String>()));
            true
        })
    }
}

/// Checks that hold for every command.
fn check_end(intercept: &Intercept, fault: &Fault) {
    let run = &intercept.run;
    if ends_for_want_of_memory(intercept, fault) {
        return;
    }
    let code = run.status.code();
    assert!(code.is_some_and(|code| (0..=9).contains(&code)), "{fault}: {run:?}");
    if matches!(code, Some(1..=5 | 9)) && !is_about_messages(fault) {
        // The second is how settings and flags are refused.
        let begins = |line: &str| line.starts_with("uncopy: ") || line.starts_with("error: ");
        let is_reported = run.stderr.lines().any(begins);
        assert!(is_reported, "{fault}: it failed without a word: {run:?}");
    }
}

/// The allocator of a Rust program that gets no memory ends it, and so says the standard library.
fn ends_for_want_of_memory(intercept: &Intercept, fault: &Fault) -> bool {
    let memory = [SystemCall::MMAP, SystemCall::MREMAP, SystemCall::MPROTECT];
    memory.contains(&fault.call())
        && intercept.run.status.code().is_none()
        && intercept.run.stderr.contains("memory allocation of")
}

/// The messages themselves may be what could not be written.
fn is_about_messages(fault: &Fault) -> bool {
    fault.call() == SystemCall::WRITE
}

/// The mechanisms of a receipt are those whose calls were made on a file: that they moved as much as
/// it says is what `copies::bytes_are_accounted_for` adds up, from what each call returned.
fn check_truth(receipt: &Receipt, intercept: &Intercept, fault: &Fault) {
    let made = |calls: &[SystemCall]| calls.iter().any(|call| intercept.moving.contains_key(call));
    for mechanism in receipt.mechanisms() {
        let holds = match mechanism.as_str() {
            "reflink" => made(&[SystemCall::IOCTL]),
            "copy_file_range" => made(&[SystemCall::COPY_FILE_RANGE]),
            "sendfile" => made(&[SystemCall::SENDFILE]),
            "splice" => made(&[SystemCall::SPLICE]),
            "read_write" => made(&MOVING[5..]),
            _ => made(&MOVING[4..]),
        };
        assert!(holds, "{fault}: {mechanism} without its call: {}", receipt.value());
    }
    if let Some(refusal) = receipt.refusals().iter().find(|refusal| refusal.reason.is_empty()) {
        panic!("{fault}: {} was not used, and why?", refusal.mechanism);
    }
}

/// Whether what is left over may stay: the very call that removes it failed, or the one that finds
/// it.
fn cannot_tidy(fault: &Fault) -> bool {
    let name = fault.call().name();
    name.starts_with("unlink") || name == "rmdir"
}

/// Whether no run may succeed where a flush fails in this way.
fn is_hard(fault: &Fault) -> bool {
    matches!(fault.errno(), Some(Errno::EIO | Errno::ENOSPC))
}

pub(crate) fn cases() -> Vec<Case> {
    let all = [
        #[cfg(feature = "remote")]
        between::cases(),
        copies::cases(),
        forbidden::cases(),
        lasting::cases(),
        others::cases(),
        trees::cases(),
        #[cfg(feature = "compress")]
        compressed::cases(),
    ];
    all.into_iter().flatten().collect()
}
