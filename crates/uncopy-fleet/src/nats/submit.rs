//! `uncopy fleet submit`: queues units without a record.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::Stream;
use async_nats::jetstream::{Context, ErrorCode};
use futures_util::{StreamExt, TryStreamExt, stream};
use uncopy_unit::format::UnitNumber;

use super::connection::{self, jetstream_error, refused};
use super::names::{self, UnitMessage};
use crate::error::FleetError;
use crate::exit::Exit;
use crate::flags::SubmitFlags;
use crate::plan::{PlannedWork, UnitsLeft};
use crate::report;

/// Number of messages that wait for the server's answer at once.
const IN_FLIGHT: usize = 256;

/// Number of times that a message is published whose answer does not come.
const TRIES: u32 = 5;

/// Time between two of them, and between two looks at counts that differ.
const PAUSE: Duration = Duration::from_secs(1);

/// Result of a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Published {
    /// It is in the queue.
    Queued,
    /// One about its unit was there.
    WasThere,
}

/// Queues all units without a record. The last one of the plan comes last.
pub(super) async fn run(flags: &SubmitFlags, work: PlannedWork) -> Result<Exit, FleetError> {
    let left = work.left()?;
    let server = connection::connect(&flags.server).await?;
    server.refusals.none_while(queue(flags, work, left, &server.context)).await
}

async fn queue(
    flags: &SubmitFlags,
    work: PlannedWork,
    left: UnitsLeft,
    context: &Context,
) -> Result<Exit, FleetError> {
    let plan = work.plan.id;
    if left.is_empty() {
        for name in [names::queue(plan), names::given_up(plan)] {
            // There may be none.
            let _ = context.delete_stream(name).await;
        }
        report::print("all units are done; the queue is removed\n");
        return Ok(Exit::Success);
    }
    prepare(context, &work, flags).await?;
    let work = Arc::new(work);
    let queued = publish(context, &work, left.before_the_last, 0).await?;
    // Whoever has it knows by this order that no others come.
    let last = match left.last {
        Some(last) => {
            let attempts =
                super::unit_process::blocking(&work, move |work| work.attempts(last)).await?;
            publish(context, &work, vec![last], attempts).await?
        }
        None => Vec::new(),
    };
    let queued = [queued, last].concat();
    let new = queued.iter().filter(|published| **published == Published::Queued).count();
    let before = queued.len() - new;
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let mut text = format!("{} queued", report::units(count(new)));
    if before > 0 {
        text.push_str(&format!(", {before} were in the queue before"));
    }
    text.push('\n');
    Ok(if report::print(&text) { Exit::Success } else { Exit::Failure })
}

/// Makes streams and consumer, or gives them these settings, and forgets why units were given up.
async fn prepare(
    context: &Context,
    work: &PlannedWork,
    flags: &SubmitFlags,
) -> Result<(), FleetError> {
    let plan = work.plan.id;
    let failed = |error: &dyn std::error::Error| refused("make the queue", error);
    let units = context
        .get_or_create_stream(names::queue_config(plan, flags.replicas))
        .await
        .map_err(|error| failed(&error))?;
    let given_up = context
        .get_or_create_stream(names::given_up_config(plan, flags.replicas))
        .await
        .map_err(|error| failed(&error))?;
    let config = names::consumer_config(flags.workers.get(), flags.ack_wait);
    let create = || units.create_consumer(config.clone());
    let consumer = create().await.map_err(|error| failed(&error))?;
    match look_at_counts(&units, &consumer).await? {
        Counts::Agree => {}
        // A message of another submission since then stays.
        Counts::NothingIsHandedOut { last } => {
            units.purge().sequence(last + 1).await.map_err(|error| failed(&error))?;
        }
        Counts::Differ => {
            // A new consumer hands out all that the stream has. The ledger has a record of each unit that is done.
            report::say(
                "the server counts other units than it has, as after a power cut; it hands out again what it has",
            );
            units.delete_consumer(names::CONSUMER).await.map_err(|error| failed(&error))?;
            create().await.map_err(|error| failed(&error))?;
        }
    }
    given_up.purge().await.map_err(|error| failed(&error))?;
    Ok(())
}

/// Comparison of the messages that a queue has and those that it counts.
///
/// A server that was killed may keep messages that it hands out to nobody, which would keep their units from being queued, and
/// count messages that it no longer has (seen with 2.9).
enum Counts {
    Agree,
    /// No message is or will be handed out. `last`: sequence number of the last one in the stream.
    NothingIsHandedOut {
        last: u64,
    },
    /// They differed twice.
    Differ,
}

async fn look_at_counts(units: &Stream, consumer: &PullConsumer) -> Result<Counts, FleetError> {
    let failed = |error: &dyn std::error::Error| refused("look at the queue", error);
    for is_second in [false, true] {
        let state = units.get_info().await.map_err(|error| failed(&error))?.state;
        match connection::messages(consumer).await.map_err(|error| failed(&error))? {
            0 => return Ok(Counts::NothingIsHandedOut { last: state.last_sequence }),
            counted if counted == state.messages => break,
            _ if is_second => return Ok(Counts::Differ),
            // Workers may be at it.
            _ => tokio::time::sleep(PAUSE).await,
        }
    }
    Ok(Counts::Agree)
}

async fn publish(
    context: &Context,
    work: &Arc<PlannedWork>,
    units: Vec<UnitNumber>,
    attempts: u64,
) -> Result<Vec<Published>, FleetError> {
    let one = |unit| {
        let (context, work) = (context.clone(), Arc::clone(work));
        async move { publish_unit(&context, &work, unit, attempts).await }
    };
    stream::iter(units).map(one).buffer_unordered(IN_FLIGHT).try_collect().await
}

/// Publishes a message until the server answers: it may have it already, and then notices that by the message's id, or by
/// its subject.
async fn publish_unit(
    context: &Context,
    work: &Arc<PlannedWork>,
    unit: UnitNumber,
    attempts: u64,
) -> Result<Published, FleetError> {
    let digest = super::unit_process::blocking(work, move |work| work.digest(unit)).await?;
    let plan = work.plan.id;
    let id = format!("{plan}.{unit}.{digest}.{}", std::process::id());
    let text = UnitMessage::new(plan, unit, digest, attempts).to_json();
    let mut tries = 0;
    loop {
        tries += 1;
        let message = PublishMessage::build().payload(text.clone().into()).message_id(&id);
        let published =
            async { context.send_publish(names::subject(plan, unit), message).await?.await };
        match published.await {
            Ok(answer) if answer.duplicate => return Ok(Published::WasThere),
            Ok(_) => return Ok(Published::Queued),
            Err(error) if is_there_already(&error) => return Ok(Published::WasThere),
            Err(error) if tries < TRIES && may_pass(error.kind()) => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(refused(&format!("queue unit {unit}"), &error)),
        }
    }
}

/// Whether the server refuses a message because there is one with its subject.
fn is_there_already(error: &PublishError) -> bool {
    // It also answers with this code when its disk is full, with another description.
    jetstream_error(error).is_some_and(|found| {
        found.error_code() == ErrorCode::STREAM_STORE_FAILED
            && found.to_string().contains("per subject")
    })
}

fn may_pass(kind: PublishErrorKind) -> bool {
    matches!(
        kind,
        PublishErrorKind::TimedOut
            | PublishErrorKind::BrokenPipe
            | PublishErrorKind::StreamNotFound
    )
}
