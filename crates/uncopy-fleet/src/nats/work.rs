//! `uncopy fleet work`: takes units from the queue, has them done, and says what became of them.

use std::path::PathBuf;
use std::sync::Arc;
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
use uncopy_unit::status::{of_directory, status};

use super::connection::{self, Queue, refused, with_sources};
use super::names::{self, GivenUpUnit, UnitMessage};
use super::unit_process::{self, blocking};
use crate::error::FleetError;
use crate::exit::Exit;
use crate::flags::WorkFlags;
use crate::plan::PlannedWork;
use crate::report;
use crate::verdict::{
    AfterRun, DeliveryFacts, GivenUp, MessageVerdict, RunEnd, UnitFileFacts, after, before, goes_on,
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
    ack_wait: Duration,
    max_tries: u64,
    patience: Duration,
    is_quiet: bool,
    stop: watch::Receiver<bool>,
}

/// Does units until the queue is empty, or a signal comes.
pub(super) async fn run(
    flags: &WorkFlags,
    work: PlannedWork,
    uncopy: PathBuf,
) -> Result<Exit, FleetError> {
    let context = connection::connect(&flags.server).await?;
    let queue = connection::find_within(context, &work, flags.patience).await?;
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
        max_tries: flags.max_deliver.get(),
        patience: flags.patience,
        is_quiet: flags.quiet,
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
        loop {
            if *self.stop.borrow() {
                return Ok(WorkerEnd::Stopped);
            }
            let left = match self.pull().await {
                Pulled::Unit(message) => match self.handle(&message).await? {
                    Some(end) => return Ok(end),
                    None => self.messages().await,
                },
                Pulled::Nothing => self.messages().await,
                Pulled::Lost(problem) => Err(problem),
            };
            match left {
                Ok(0) => return Ok(WorkerEnd::Empty),
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
                ConsumerInfoErrorKind::NotFound | ConsumerInfoErrorKind::StreamNotFound => Ok(0),
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
        let UnitMessage { unit, digest, .. } = message;
        let is_last = self.work.is_last(unit);
        let (file, attempts, waits) = blocking(&self.work, move |work| {
            let is_the_file = work.digest(unit).ok().map(|found| found == digest);
            let file = UnitFileFacts { is_recorded: work.is_done(unit)?, is_the_file };
            let waits = is_last && !work.left()?.before_the_last.is_empty();
            Ok((file, work.attempts(unit)?, waits))
        })
        .await?;
        let tries = if is_last { attempts.saturating_add(1) } else { deliveries };
        let delivery = DeliveryFacts { tries, max_tries: self.max_tries, is_last };
        if let Some(verdict) = before(&delivery, file) {
            return Ok((verdict, None));
        }
        let end = match waits {
            // So would the process say.
            true => RunEnd::Code(10),
            false => {
                let file = self.work.file(unit);
                unit_process::run(&self.uncopy, &file, self.stop.clone()).await?
            }
        };
        let facts = self.after_run(unit, end).await?;
        Ok((after(&delivery, end, &facts), Some(end)))
    }

    /// Looks at the queue first: whoever takes a message out of it has made a record before.
    async fn after_run(&self, unit: UnitNumber, end: RunEnd) -> Result<AfterRun, FleetError> {
        match end {
            RunEnd::Code(10) => {
                // Nobody knows while the server is away.
                let others_in_queue = self.messages().await.map_or(true, |count| count > 1);
                let left = blocking(&self.work, |work| work.left()).await?;
                let others_missing = u64::try_from(left.before_the_last.len()).unwrap_or(u64::MAX);
                Ok(AfterRun { others_in_queue, others_missing, ..AfterRun::default() })
            }
            RunEnd::Code(1) => {
                let has_conflicts_alone =
                    blocking(&self.work, move |work| work.has_conflicts_alone(unit)).await?;
                Ok(AfterRun { has_conflicts_alone, ..AfterRun::default() })
            }
            _ => Ok(AfterRun::default()),
        }
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
        let status = blocking(&self.work, |work| {
            let (plan, facts) = of_directory(&work.directory)?;
            Ok(status(&plan, facts))
        })
        .await?;
        if status.is_complete() {
            return Ok(Exit::Success);
        }
        let given_up = self.queue.given_up.get_info().await;
        let given_up = given_up.is_ok_and(|info| info.state.messages > 0);
        report::say(&format!(
            "the queue is empty, and {} not done; `uncopy fleet status` shows why, `uncopy fleet submit` queues them again",
            match status.units - status.done {
                1 => "1 unit is".to_owned(),
                count => format!("{count} units are"),
            }
        ));
        Ok(if given_up || !status.failed.is_empty() { Exit::Failure } else { Exit::NotFinished })
    }
}
