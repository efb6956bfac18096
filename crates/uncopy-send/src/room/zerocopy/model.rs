//! Tests ledger and parking against a model of the kernel: in whatever order events come, memory is freed
//! once, and not before its release was read.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::errqueue::Report;
use super::ids::CompletedRange;
use super::ledger::Ledger;
use super::parking::{Parkable, Parked, ParkedSocket, ROUND, next_timeout, sweep};
use crate::room::Payload;
use uncopy_core::Errno;

const SENDERS: usize = 3;

#[derive(Debug, Clone)]
enum ModelStep {
    /// Sends a payload in parts, each lent or copied. `is_open`: more parts may follow.
    Send {
        by: usize,
        lent: Vec<bool>,
        is_open: bool,
    },
    /// Sends a payload whole in one call, which copies it.
    Copy {
        by: usize,
    },
    /// Lends one more part of the oldest open payload, and ends the payload.
    Finish {
        by: usize,
    },
    /// The kernel refuses a datagram, before or after it got a number.
    Fail {
        by: usize,
        is_counted: bool,
    },
    /// The kernel releases a run of numbers.
    Release {
        of: usize,
        at: usize,
        count: usize,
    },
    /// The kernel reports a number that was not sent, or a report is truncated.
    Confuse {
        of: usize,
        is_cut: bool,
    },
    /// An ICMP error is queued.
    Foreign {
        of: usize,
    },
    /// The owner reads its reports, and takes `count` payloads.
    Take {
        by: usize,
        count: usize,
    },
    /// The owner is dropped. Its connection is aborted after `linger` milliseconds (`None`: never).
    Leave {
        by: usize,
        linger: Option<u64>,
    },
    /// Another writer of the socket comes or leaves.
    Share {
        of: usize,
    },
    Pass {
        milliseconds: u64,
    },
    Sweep,
}

fn step() -> impl Strategy<Value = ModelStep> {
    let who = 0..SENDERS;
    let parts = prop::collection::vec(prop::bool::weighted(0.8), 0..4);
    prop_oneof![
        8 => (who.clone(), parts, prop::bool::weighted(0.2))
            .prop_map(|(by, lent, is_open)| ModelStep::Send { by, lent, is_open }),
        2 => who.clone().prop_map(|by| ModelStep::Copy { by }),
        1 => who.clone().prop_map(|by| ModelStep::Finish { by }),
        1 => (who.clone(), any::<bool>()).prop_map(|(by, is_counted)| ModelStep::Fail { by, is_counted }),
        8 => (who.clone(), 0..9usize, 1..5usize)
            .prop_map(|(of, at, count)| ModelStep::Release { of, at, count }),
        1 => (0..SENDERS * 8, any::<bool>()).prop_map(|(of, is_cut)| ModelStep::Confuse { of, is_cut }),
        1 => who.clone().prop_map(|of| ModelStep::Foreign { of }),
        2 => (who.clone(), 0..4usize).prop_map(|(by, count)| ModelStep::Take { by, count }),
        1 => (who.clone(), prop::option::weighted(0.9, 0..2000u64))
            .prop_map(|(by, linger)| ModelStep::Leave { by, linger }),
        1 => who.prop_map(|of| ModelStep::Share { of }),
        3 => (0..1000u64).prop_map(|milliseconds| ModelStep::Pass { milliseconds }),
        5 => Just(ModelStep::Sweep),
    ]
}

/// The state of one socket in the modelled kernel.
#[derive(Default)]
struct Kernel {
    next: u32,
    /// Parts that are not released, by number, and the memory they are in.
    held: BTreeMap<u32, usize>,
    /// Reports that were not read, with the memory that they release.
    queue: Vec<(Report, Vec<usize>)>,
    /// Number of parts of each memory that were lent and whose release was not read.
    owed: BTreeMap<usize, u32>,
    is_stream: bool,
    is_shared: bool,
    /// Whether a report was read that does not match the sends.
    is_confused: bool,
    aborts: u32,
    /// Number of times that the parked socket was dropped and closed.
    closed: u32,
    /// Whether the drop of memory has panicked.
    has_unwound: bool,
}

impl Kernel {
    fn lend(&mut self, key: usize) {
        self.held.insert(self.next, key);
        self.next = self.next.wrapping_add(1);
        *self.owed.entry(key).or_default() += 1;
    }

    /// Joins neighbouring ranges as `skb_zerocopy_notify_extend` does (`net/core/skbuff.c`).
    fn queue(&mut self, first: u32, last: u32, keys: Vec<usize>) {
        if let Some((Report::Completed(before), known)) = self.queue.last_mut()
            && before.last.wrapping_add(1) == first
        {
            before.last = last;
            known.extend(keys);
            return;
        }
        let completed = CompletedRange { first, last, copied: false };
        self.queue.push((Report::Completed(completed), keys));
    }

    fn release(&mut self, at: usize, count: usize) {
        let numbers: Vec<u32> = self.held.keys().copied().collect();
        let Some(&first) = numbers.get(at % numbers.len().max(1)) else { return };
        let run = (0..count as u32).map_while(|i| self.held.remove(&(first + i)));
        let keys: Vec<usize> = run.collect();
        self.queue(first, first + keys.len() as u32 - 1, keys);
    }

    /// Reads the queue, as the owner of the ledger does.
    fn read(&mut self) -> Vec<Report> {
        let mut reports = Vec::new();
        for (report, keys) in std::mem::take(&mut self.queue) {
            reports.push(report);
            for key in keys.into_iter().filter(|_| !self.is_confused) {
                let owed = self.owed.get_mut(&key).expect("released after it was lent");
                *owed -= 1;
                if *owed == 0 {
                    self.owed.remove(&key);
                }
            }
            let is_stray = |completed: CompletedRange| completed.first >= STRAY;
            self.is_confused |= match report {
                Report::Completed(completed) => is_stray(completed),
                Report::Lost => true,
                Report::Foreign { .. } => false,
            };
        }
        reports
    }
}

/// First of the numbers that are never sent.
const STRAY: u32 = 1 << 30;

#[derive(Default)]
struct World {
    kernels: Vec<Kernel>,
    /// By memory: its owner, and the number of times it was freed.
    memory: Vec<(usize, u32)>,
    is_sweeping: bool,
    violations: Vec<String>,
}

type Shared = Arc<Mutex<World>>;

fn lock(world: &Shared) -> MutexGuard<'_, World> {
    // A check that failed while the lock was held has been reported already.
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory that records when it is freed.
struct Memory {
    key: usize,
    world: Shared,
    panics: bool,
}

impl Drop for Memory {
    fn drop(&mut self) {
        let mut world = lock(&self.world);
        let (owner, freed) = &mut world.memory[self.key];
        *freed += 1;
        let (owner, freed) = (*owner, *freed);
        if freed > 1 {
            world.violations.push(format!("{} is freed a second time", self.key));
        }
        if world.kernels[owner].owed.contains_key(&self.key) {
            world.violations.push(format!("{} is freed before its release", self.key));
        }
        if self.panics && world.is_sweeping && !std::thread::panicking() {
            world.kernels[owner].has_unwound = true;
            drop(world);
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }
}

/// A socket whose owner was dropped.
struct Left {
    by: usize,
    world: Shared,
    ledger: Ledger<Memory>,
}

impl ParkedSocket for Left {
    fn fd(&self) -> BorrowedFd<'_> {
        rustix::stdio::stdin()
    }

    fn is_stream(&self) -> bool {
        lock(&self.world).kernels[self.by].is_stream
    }

    fn abort(&self) {
        lock(&self.world).kernels[self.by].aborts += 1;
    }
}

impl Parkable for Left {
    fn socket(&self) -> &dyn ParkedSocket {
        self
    }

    fn has_no_other_writer(&self) -> bool {
        !lock(&self.world).kernels[self.by].is_shared
    }

    fn drain(&mut self) -> bool {
        let reports = lock(&self.world).kernels[self.by].read();
        reports.into_iter().for_each(|report| self.ledger.report(report));
        self.ledger.is_drained()
    }

    fn is_lost(&self) -> bool {
        self.ledger.is_lost()
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        let mut world = lock(&self.world);
        world.kernels[self.by].closed += 1;
        if !world.kernels[self.by].owed.is_empty() {
            world.violations.push(format!("socket {} is closed with memory in flight", self.by));
        }
    }
}

/// The state of the program under test.
struct Program {
    world: Shared,
    owners: Vec<Option<Ledger<Memory>>>,
    open: Vec<Vec<(u64, usize)>>,
    lot: Vec<Parked>,
    /// By parked socket: the time to abort its connection.
    deadlines: BTreeMap<usize, Option<Instant>>,
    expected_aborts: [u32; SENDERS],
    now: Instant,
}

impl Program {
    fn new(streams: [bool; SENDERS]) -> Program {
        let kernels =
            streams.map(|is_stream| Kernel { is_stream, ..Kernel::default() }).into_iter();
        let world = World { kernels: kernels.collect(), ..World::default() };
        Program {
            world: Arc::new(Mutex::new(world)),
            owners: (0..SENDERS).map(|_| Some(Ledger::new())).collect(),
            open: vec![Vec::new(); SENDERS],
            lot: Vec::new(),
            deadlines: BTreeMap::new(),
            expected_aborts: [0; SENDERS],
            now: Instant::now(),
        }
    }

    fn part(&mut self, by: usize, number: u64, key: usize, lent: bool) {
        let Some(ledger) = &mut self.owners[by] else { return };
        assert!(ledger.open(number).is_some());
        if lent {
            lock(&self.world).kernels[by].lend(key);
        }
        ledger.record(number, 10, lent);
    }

    fn memory_of(&self, by: usize) -> Memory {
        let mut world = lock(&self.world);
        let key = world.memory.len();
        world.memory.push((by, 0));
        Memory { key, world: self.world.clone(), panics: key % 16 == 7 }
    }

    fn copy(&mut self, by: usize) {
        let memory = self.memory_of(by);
        let Some(ledger) = &mut self.owners[by] else { return drop(memory) };
        let known = ledger.newly_completed().count();
        let before = ledger.completed();
        assert!(known <= before);
        let number = ledger.complete_copied(Payload::One(memory), 10);
        assert!(ledger.open(number).is_none(), "it is not under way");
        assert_eq!(ledger.completed(), before + 1);
        assert!(!ledger.has_newly_completed(), "the caller knows it");
    }

    fn send(&mut self, by: usize, lent: &[bool], is_open: bool) {
        let memory = self.memory_of(by);
        let key = memory.key;
        let Some(ledger) = &mut self.owners[by] else { return };
        let number = ledger.begin(Payload::One(memory));
        lent.iter().for_each(|lent| self.part(by, number, key, *lent));
        match is_open {
            true => self.open[by].push((number, key)),
            false => self.end(by, number),
        }
    }

    fn end(&mut self, by: usize, number: u64) {
        if let Some(ledger) = &mut self.owners[by] {
            ledger.end(number);
            assert!(ledger.open(number).is_none());
        }
    }

    fn read(&mut self, by: usize) {
        if let Some(ledger) = &mut self.owners[by] {
            let reports = lock(&self.world).kernels[by].read();
            reports.into_iter().for_each(|report| ledger.report(report));
        }
    }

    fn fail(&mut self, by: usize, is_counted: bool) {
        let Some(ledger) = &mut self.owners[by] else { return };
        ledger.doubt();
        if is_counted {
            let mut world = lock(&self.world);
            let kernel = &mut world.kernels[by];
            kernel.queue(kernel.next, kernel.next, Vec::new());
            kernel.next += 1;
        }
        self.read(by);
        if let Some(ledger) = self.owners[by].as_mut() {
            let is_left = ledger.settle();
            assert!(ledger.is_lost() || is_left != is_counted);
        }
    }

    fn leave(&mut self, by: usize, linger: Option<u64>) {
        let Some(mut ledger) = self.owners[by].take() else { return };
        self.open[by].clear();
        let left = ledger.take_outstanding();
        drop(ledger);
        let owes = !lock(&self.world).kernels[by].owed.is_empty();
        assert_eq!(left.is_some(), owes, "exactly the sockets with outstanding memory are parked");
        let Some(ledger) = left else { return };
        let linger = linger.map_or(Duration::MAX, Duration::from_millis);
        let left = Left { by, world: self.world.clone(), ledger };
        let parked = Parked::new(Box::new(left), linger, self.now);
        assert_eq!(parked.is_none(), lock(&self.world).kernels[by].is_confused);
        if let Some(parked) = parked {
            self.lot.push(parked);
            self.deadlines.insert(by, self.now.checked_add(linger));
        }
    }

    fn sweep(&mut self) {
        for (by, deadline) in &mut self.deadlines {
            if deadline.is_some_and(|deadline| deadline <= self.now) {
                *deadline = None;
                let kernel = &lock(&self.world).kernels[*by];
                self.expected_aborts[*by] += u32::from(kernel.is_stream && !kernel.is_shared);
            }
        }
        lock(&self.world).is_sweeping = true;
        let gone = sweep(&mut self.lot, self.now);
        let mut world = lock(&self.world);
        world.is_sweeping = false;
        let before = self.deadlines.len();
        self.deadlines.retain(|by, _| world.kernels[*by].closed == 0);
        assert_eq!(gone, before - self.deadlines.len(), "each dropped socket is counted once");
        self.deadlines.retain(|by, _| {
            let kernel = &world.kernels[*by];
            let is_kept = !kernel.is_confused && !kernel.has_unwound;
            assert!(!is_kept || !kernel.owed.is_empty(), "{by} is drained and still parked");
            is_kept
        });
        assert_eq!(self.lot.len(), self.deadlines.len());
    }

    fn run(&mut self, step: ModelStep) {
        match step {
            ModelStep::Send { by, lent, is_open } => self.send(by, &lent, is_open),
            ModelStep::Copy { by } => self.copy(by),
            ModelStep::Finish { by } if !self.open[by].is_empty() => {
                let (number, key) = self.open[by].remove(0);
                self.part(by, number, key, true);
                self.end(by, number);
            }
            ModelStep::Finish { .. } => {}
            ModelStep::Fail { by, is_counted } => self.fail(by, is_counted),
            ModelStep::Release { of, at, count } => {
                lock(&self.world).kernels[of].release(at, count)
            }
            ModelStep::Confuse { of, is_cut } => {
                // Rare, because nothing is freed afterwards.
                let mut world = lock(&self.world);
                let Some(kernel) = world.kernels.get_mut(of) else { return };
                let stray = CompletedRange { first: STRAY, last: STRAY, copied: false };
                let report = if is_cut { Report::Lost } else { Report::Completed(stray) };
                kernel.queue.push((report, Vec::new()));
            }
            ModelStep::Foreign { of } => {
                let report = Report::Foreign { origin: 2, errno: Errno::ECONNREFUSED };
                lock(&self.world).kernels[of].queue.push((report, Vec::new()));
            }
            ModelStep::Take { by, count } => {
                self.read(by);
                let Some(ledger) = &mut self.owners[by] else { return };
                (0..count).for_each(|_| drop(ledger.next_completed()));
            }
            ModelStep::Leave { by, linger } => self.leave(by, linger),
            ModelStep::Share { of } => lock(&self.world).kernels[of].is_shared ^= true,
            ModelStep::Pass { milliseconds } => self.now += Duration::from_millis(milliseconds),
            ModelStep::Sweep => self.sweep(),
        }
    }

    fn check(&self) {
        let world = lock(&self.world);
        assert_eq!(world.violations, Vec::<String>::new());
        let aborts: Vec<u32> = world.kernels.iter().map(|kernel| kernel.aborts).collect();
        assert_eq!(
            aborts, self.expected_aborts,
            "one abort after the deadline, only of streams without another writer"
        );
        let next = self.deadlines.values().flatten().min();
        let left = next.map(|next| next.saturating_duration_since(self.now));
        let expected = (!self.lot.is_empty()).then(|| left.map_or(ROUND, |left| left.min(ROUND)));
        assert_eq!(next_timeout(&self.lot, self.now), expected);
    }

    /// Drops all owners; the kernel releases everything.
    fn finish(&mut self) {
        (0..SENDERS).for_each(|by| self.leave(by, Some(0)));
        self.sweep();
        self.check();
        for kernel in &mut lock(&self.world).kernels {
            while !kernel.held.is_empty() {
                kernel.release(1, 3);
            }
        }
        self.sweep();
        self.check();
        assert!(self.lot.is_empty());
        let world = lock(&self.world);
        let is_leaked = |by: usize| world.kernels[by].is_confused || world.kernels[by].has_unwound;
        let kept: BTreeSet<usize> =
            world.memory.iter().filter(|memory| memory.1 == 0).map(|memory| memory.0).collect();
        assert!(
            kept.into_iter().all(is_leaked),
            "all memory is freed except that of confused sockets"
        );
    }
}

proptest! {
    #[test]
    fn memory_is_freed_once_and_not_before_its_release(
        streams: [bool; SENDERS],
        steps in prop::collection::vec(step(), 0..150),
    ) {
        let mut program = Program::new(streams);
        for step in steps {
            program.run(step);
            program.check();
        }
        program.finish();
    }
}
