//! `uncopy fleet work`: takes units from the queue, has them done, and says what became of them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::jetstream::context::ConsumerInfoErrorKind;
use async_nats::jetstream::{AckKind, Message};
use futures_util::StreamExt;
use signal_hook::consts::signal::{SIGINT, SIGTERM};
use signal_hook::low_level::emulate_default_handler;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use uncopy_unit::format::UnitNumber;

use super::access::Refusals;
use super::connection::{self, Queue, Server, refused, with_sources};
use super::names::{self, GivenUpUnit, UnitMessage};
use super::unit_process::{self, UnitRun, blocking};
use crate::error::FleetError;
use crate::exit::Exit;
use crate::flags::WorkFlags;
use crate::plan::PlannedWork;
use crate::report;
use crate::verdict::{
    AfterRun, DeliveryFacts, GivenUp, MessageVerdict, RunEnd, UnitFileFacts, after, before,
    goes_on, looks_at_the_ledger,
};

/// Time that the server keeps a request for a unit while there is none.
const WAIT: Duration = Duration::from_secs(2);

/// Time between two tries to reach the server.
const PAUSE: Duration = Duration::from_secs(1);

/// How a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkerEnd {
    /// The queue is empty.
    Empty,
    /// It was asked to stop.
    Stopped,
    /// It does not know the options of the plan.
    TooOld,
}

/// Answer of the server to a worker.
enum Pulled {
    Unit(Box<Message>),
    Nothing,
    Lost(String),
}

/// State that all workers of this process share.
struct Fleet {
    work: Arc<PlannedWork>,
    uncopy: PathBuf,
    queue: Queue,
    refusals: Refusals,
    ack_wait: Duration,
    max_tries: u64,
    patience: Duration,
    is_quiet: bool,
    /// Number of tries of the last unit here that failed; the ledger knows no attempt if its machine was not reached.
    failed_last: AtomicU64,
    stop: watch::Receiver<bool>,
}

/// Does units until the queue is empty, or a signal comes.
pub(super) async fn run(
    flags: &WorkFlags,
    work: PlannedWork,
    uncopy: PathBuf,
) -> Result<Exit, FleetError> {
    let Server { context, refusals } = connection::connect(&flags.server).await?;
    let found = connection::find_within(context, &work, flags.patience);
    let queue = refusals.none_while(found).await?;
    if !flags.quiet {
        let info = queue.consumer.cached_info();
        let handed_out = u64::try_from(info.num_ack_pending).unwrap_or(u64::MAX);
        let count = info.num_pending.saturating_add(handed_out);
        report::print(&match count {
            1 => "1 unit is in the queue\n".to_owned(),
            count => format!("{count} units are in the queue\n"),
        });
    }
    let (stopper, stop) = watch::channel(false);
    let fleet = Arc::new(Fleet {
        work: Arc::new(work),
        uncopy,
        ack_wait: queue.consumer.cached_info().config.ack_wait,
        queue,
        refusals,
        max_tries: flags.max_deliver.get(),
        patience: flags.patience,
        is_quiet: flags.quiet,
        failed_last: AtomicU64::new(0),
        stop,
    });
    let signals = tokio::spawn(stop_at_signals(stopper));
    let mut workers = JoinSet::new();
    for _ in 0..flags.jobs.get() {
        let fleet = Arc::clone(&fleet);
        workers.spawn(async move { fleet.work_until_the_end().await });
    }
    let mut ends = Vec::new();
    let mut failed = None;
    while let Some(ended) = workers.join_next().await {
        match ended {
            Ok(Ok(end)) => ends.push(end),
            Ok(Err(error)) => failed = Some(error),
            Err(ended) => std::panic::resume_unwind(ended.into_panic()),
        }
    }
    if ends.contains(&WorkerEnd::Stopped)
        && let Ok(Some(number)) = signals.await
    {
        // The parent sees by which signal this was stopped.
        let _ = emulate_default_handler(number);
        return Ok(Exit::Failure);
    }
    if let Some(error) = failed {
        return Err(error);
    }
    if ends.contains(&WorkerEnd::TooOld) {
        report::say(
            "this uncopy does not know the options of the plan; install the version that made it",
        );
        return Ok(Exit::Usage);
    }
    fleet.exit().await
}

/// Waits for a signal, and lets all workers stop. A second signal kills at once. Returns the signal.
async fn stop_at_signals(stopper: watch::Sender<bool>) -> Option<i32> {
    let mut interrupt = signal(SignalKind::interrupt()).ok()?;
    let mut terminate = signal(SignalKind::terminate()).ok()?;
    let number = tokio::select! {
        _ = interrupt.recv() => SIGINT,
        _ = terminate.recv() => SIGTERM,
    };
    let _ = stopper.send(true);
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        let _ = emulate_default_handler(number);
    });
    Some(number)
}

impl Fleet {
    async fn work_until_the_end(&self) -> Result<WorkerEnd, FleetError> {
        let mut lost_since: Option<Instant> = None;
        // Number of times that the server had no unit to hand out, and counted some.
        let mut idle = 0;
        loop {
            if *self.stop.borrow() {
                return Ok(WorkerEnd::Stopped);
            }
            let left = match self.pull().await {
                Pulled::Unit(message) => match self.handle(&message).await? {
                    Some(end) => return Ok(end),
                    None => {
                        idle = 0;
                        self.messages().await
                    }
                },
                Pulled::Nothing => {
                    idle += 1;
                    self.messages().await
                }
                Pulled::Lost(problem) => Err(problem),
            };
            if let Some(refusal) = self.refusals.first() {
                return Err(refusal);
            }
            match left {
                Ok(0) => return Ok(WorkerEnd::Empty),
                Ok(_) if looks_at_the_ledger(idle) && self.nothing_is_left().await? => {
                    return Ok(WorkerEnd::Empty);
                }
                Ok(_) => lost_since = None,
                Err(problem) => {
                    let since = *lost_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= self.patience {
                        return Err(FleetError::Engine {
                            problem: format!("the server cannot be reached any more: {problem}"),
                            next: "start it again, and then this worker",
                        });
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Asks for a unit. Nobody leaves while the server may send one.
    async fn pull(&self) -> Pulled {
        if self.queue.context.client().connection_state() != State::Connected {
            return Pulled::Lost("the connection ended".to_owned());
        }
        let asked = self.queue.consumer.batch().max_messages(1).expires(WAIT).messages().await;
        let mut batch = match asked {
            Ok(batch) => batch,
            Err(error) => return Pulled::Lost(with_sources(&error)),
        };
        match batch.next().await {
            Some(Ok(message)) => Pulled::Unit(Box::new(message)),
            Some(Err(error)) => Pulled::Lost(with_sources(&*error)),
            None => Pulled::Nothing,
        }
    }

    /// Returns the number of messages that are or will be handed out. A queue that was removed has none.
    async fn messages(&self) -> Result<u64, String> {
        match connection::messages(&self.queue.consumer).await {
            Ok(count) => Ok(count),
            Err(error) => match error.kind() {
                ConsumerInfoErrorKind::StreamNotFound => Ok(0),
                // A submission that has units handed out again makes the consumer anew.
                _ => Err(with_sources(&error)),
            },
        }
    }

    /// Does what a message asks for, and answers it.
    async fn handle(&self, message: &Message) -> Result<Option<WorkerEnd>, FleetError> {
        if *self.stop.borrow() {
            self.answer(message, None, 0, MessageVerdict::HandBack).await;
            return Ok(Some(WorkerEnd::Stopped));
        }
        let deliveries = message.info().ok().and_then(|info| u64::try_from(info.delivered).ok());
        let deliveries = deliveries.unwrap_or(1);
        let Some(unit) = UnitMessage::parse(&message.payload, &self.work.plan) else {
            self.answer(message, None, deliveries, MessageVerdict::GiveUp(GivenUp::Message)).await;
            return Ok(None);
        };
        let number = unit.unit;
        let done = tokio::select! {
            done = self.do_unit(unit, deliveries) => done,
            () = self.show_life(message) => return Ok(None),
        };
        match done {
            Ok((verdict, end)) => {
                self.answer(message, Some(number), deliveries, verdict).await;
                Ok(match end {
                    Some(RunEnd::Stopped) => Some(WorkerEnd::Stopped),
                    Some(end) if !goes_on(end) => Some(WorkerEnd::TooOld),
                    _ => None,
                })
            }
            Err(error) => {
                self.answer(message, Some(number), deliveries, MessageVerdict::HandBack).await;
                Err(error)
            }
        }
    }

    /// Keeps the server from handing the message to another worker. It never ends.
    async fn show_life(&self, message: &Message) {
        let mut ticks = tokio::time::interval(self.ack_wait / 3);
        loop {
            ticks.tick().await;
            // While the server is away, another worker may get it: the ledger decides between the two.
            let _ = message.ack_with(AckKind::Progress).await;
        }
    }

    /// Decides about a unit, and runs it if that is to be done.
    async fn do_unit(
        &self,
        message: UnitMessage,
        deliveries: u64,
    ) -> Result<(MessageVerdict, Option<RunEnd>), FleetError> {
        let unit = message.unit;
        let is_last = self.work.is_last(unit);
        let mut delivery = DeliveryFacts { tries: deliveries, max_tries: self.max_tries, is_last };
        let done = self.decide_and_run(message, deliveries, &mut delivery).await;
        let (verdict, end) = match done {
            // Another worker may reach that machine, or this one later: as if a process had said so.
            Err(FleetError::LedgerThere { .. }) => {
                (after(&delivery, RunEnd::Code(9), &AfterRun::default()), None)
            }
            done => done?,
        };
        let is_given_up = matches!(verdict, MessageVerdict::GiveUp(_));
        let look = move |work: &PlannedWork| work.is_done(unit);
        if is_given_up && blocking(&self.work, look).await.is_ok_and(|is_done| is_done) {
            return Ok((MessageVerdict::Acknowledge, end));
        }
        let has_failed = !matches!(end, Some(RunEnd::Code(0 | 10) | RunEnd::Stopped));
        if is_last && has_failed {
            self.failed_last.fetch_add(1, Ordering::Relaxed);
        }
        Ok((verdict, end))
    }

    /// As [`do_unit`](Fleet::do_unit). `delivery` gets the number of tries that counts.
    async fn decide_and_run(
        &self,
        message: UnitMessage,
        deliveries: u64,
        delivery: &mut DeliveryFacts,
    ) -> Result<(MessageVerdict, Option<RunEnd>), FleetError> {
        let UnitMessage { unit, digest, attempts: attempts_before, .. } = message;
        if delivery.is_last {
            if self.others_in_queue().await {
                // So would the process say, or soon: whoever takes a message out of the queue has made a record before.
                let facts = match looks_at_the_ledger(deliveries) {
                    true => self.others_by_the_ledger().await?,
                    false => AfterRun { others_in_queue: true, ..AfterRun::default() },
                };
                if facts.others_in_queue || facts.others_missing > 0 {
                    let end = RunEnd::Code(10);
                    return Ok((after(delivery, end, &facts), Some(end)));
                }
            }
            // It was also handed out while it waited for others.
            delivery.tries = self.failed_last.load(Ordering::Relaxed).saturating_add(1);
            if deliveries > 1 {
                let attempts = blocking(&self.work, move |work| work.attempts(unit)).await?;
                let tries = attempts.saturating_sub(attempts_before).saturating_add(1);
                delivery.tries = delivery.tries.max(tries);
            }
        }
        let was_handed_out_often = delivery.tries > delivery.max_tries;
        let file = blocking(&self.work, move |work| {
            // On another machine the process looks itself before it does anything.
            work.check_source()?;
            let is_recorded = work.has_ledger_here() && work.is_done(unit)?;
            let is_the_file = match work.digest(unit) {
                Ok(found) => Some(found == digest),
                Err(_) if is_recorded => None,
                Err(error) => {
                    // Without its plan this machine can do no unit, and another one may.
                    work.check_directory()?;
                    report::say(&error.to_string());
                    None
                }
            };
            let is_begun = was_handed_out_often && work.is_begun(unit)?;
            Ok(UnitFileFacts { is_recorded, is_the_file, is_begun })
        })
        .await?;
        if let Some(verdict) = before(delivery, file) {
            return Ok((verdict, None));
        }
        let file = self.work.file(unit);
        let run = unit_process::run(&self.uncopy, &file, self.stop.clone()).await?;
        for reason in run.failure.iter().flat_map(|failure| &failure.reasons) {
            report::say(&reason.message);
        }
        let facts = self.after_run(&run).await?;
        let end = match run.end {
            RunEnd::Code(0) if !self.is_recorded(unit, &run).await? => RunEnd::NoRecord,
            end => end,
        };
        Ok((after(delivery, end, &facts), Some(end)))
    }

    /// Whether a unit has a record after a process has ended with 0. That of a ledger on another machine is in what the
    /// process printed, which saves a login for each unit.
    async fn is_recorded(&self, unit: UnitNumber, run: &UnitRun) -> Result<bool, FleetError> {
        if self.work.has_ledger_here() {
            return blocking(&self.work, move |work| work.is_done(unit)).await;
        }
        let expected = (self.work.plan.id, unit);
        Ok(run.record.as_ref().is_some_and(|record| (record.plan, record.unit) == expected))
    }

    /// Returns whether units have no record that nobody has given up, whatever the queue counts, and how many have none.
    async fn others_by_the_ledger(&self) -> Result<AfterRun, FleetError> {
        let left = blocking(&self.work, |work| work.left()).await?;
        let others_missing = u64::try_from(left.before_the_last.len()).unwrap_or(u64::MAX);
        let others_in_queue = !self.were_given_up(left.before_the_last).await;
        Ok(AfterRun { others_in_queue, others_missing, ..AfterRun::default() })
    }

    /// Whether each unit has a record or was given up.
    async fn nothing_is_left(&self) -> Result<bool, FleetError> {
        match blocking(&self.work, |work| work.left()).await {
            Ok(left) => Ok(self.were_given_up(left.all().collect()).await),
            // The machine of the ledger may be reached again later.
            Err(FleetError::LedgerThere { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether all of these units were given up. None was while the server is away.
    async fn were_given_up(&self, units: Vec<UnitNumber>) -> bool {
        let mut others: BTreeSet<UnitNumber> = units.into_iter().collect();
        if others.is_empty() {
            return true;
        }
        let subjects = names::given_up_subjects(self.work.plan.id);
        let Ok(mut found) = self.queue.given_up.info_with_subjects(subjects).await else {
            return false;
        };
        while let Some(Ok((subject, _))) = found.next().await {
            if let Some(unit) = names::given_up_unit(&subject) {
                others.remove(&unit);
            }
        }
        others.is_empty()
    }

    /// Whether there are further units in the queue. Nobody knows while the server is away.
    async fn others_in_queue(&self) -> bool {
        self.messages().await.map_or(true, |count| count > 1)
    }

    /// Looks at the queue first: whoever takes a message out of it has made a record before.
    async fn after_run(&self, run: &UnitRun) -> Result<AfterRun, FleetError> {
        let has_conflicts_alone = run.has_conflicts_alone();
        let facts = AfterRun { has_conflicts_alone, ..AfterRun::default() };
        if run.end != RunEnd::Code(10) {
            return Ok(facts);
        }
        let others_in_queue = self.others_in_queue().await;
        if others_in_queue {
            return Ok(AfterRun { others_in_queue, ..facts });
        }
        let left = blocking(&self.work, |work| work.left()).await?;
        let others_missing = u64::try_from(left.before_the_last.len()).unwrap_or(u64::MAX);
        Ok(AfterRun { others_in_queue, others_missing, ..facts })
    }

    /// Says to the server what becomes of a message. What does not arrive is handed out again, and decided again.
    async fn answer(
        &self,
        message: &Message,
        unit: Option<UnitNumber>,
        tries: u64,
        verdict: MessageVerdict,
    ) {
        let named = unit.map_or("a message".to_owned(), |unit| format!("unit {unit}"));
        let answered = match verdict {
            MessageVerdict::Acknowledge => {
                if !self.is_quiet {
                    report::print(&format!("{named}: done\n"));
                }
                message.double_ack().await
            }
            MessageVerdict::Again(wait) => {
                if !self.is_quiet {
                    report::print(&format!("{named}: again in {} s\n", wait.as_secs()));
                }
                let wait = (!wait.is_zero()).then_some(wait);
                message.double_ack_with(AckKind::Nak(wait)).await
            }
            MessageVerdict::HandBack => message.double_ack_with(AckKind::Nak(None)).await,
            MessageVerdict::GiveUp(reason) => {
                report::say(&format!("{named} is given up: {}", reason.words()));
                if let Err(problem) = self.note_given_up(message, unit, tries, reason).await {
                    report::say(&format!("{named} stays in the queue: {problem}"));
                    return;
                }
                message.double_ack_with(AckKind::Term).await
            }
        };
        if let Err(error) = answered {
            report::say(&format!(
                "the server does not know yet what became of {named}: {}; it will be handed out again",
                with_sources(&*error)
            ));
        }
    }

    async fn note_given_up(
        &self,
        message: &Message,
        unit: Option<UnitNumber>,
        tries: u64,
        reason: GivenUp,
    ) -> Result<(), FleetError> {
        let plan = self.work.plan.id;
        let note = GivenUpUnit::new(plan, unit, reason, tries);
        let text = serde_json::to_vec(&note).unwrap_or_default();
        let subject = names::given_up_subject(plan, &message.subject);
        let published = async { self.queue.context.publish(subject, text.into()).await?.await };
        let failed = |error| refused("note why a unit is given up", &error);
        published.await.map(|_| ()).map_err(failed)
    }

    /// Returns how the program ends when the queue is empty.
    async fn exit(&self) -> Result<Exit, FleetError> {
        let state = blocking(&self.work, |work| work.state()).await?;
        if state.missing == 0 {
            return Ok(Exit::Success);
        }
        let given_up = self.queue.given_up.get_info().await;
        let given_up = given_up.is_ok_and(|info| info.state.messages > 0);
        report::say(&format!(
            "the queue is empty, and {} not done; `uncopy fleet status` shows why, `uncopy fleet submit` queues them again",
            match state.missing {
                1 => "1 unit is".to_owned(),
                count => format!("{count} units are"),
            }
        ));
        Ok(if given_up || state.has_failures { Exit::Failure } else { Exit::NotFinished })
    }
}
