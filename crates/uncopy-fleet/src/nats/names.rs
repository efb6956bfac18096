//! Names on the server, and messages (pure).
//!
//! | stream | subjects | messages |
//! |---|---|---|
//! | `uncopy-PLAN` | `uncopy.PLAN.unit.NNNNNN` | [`UnitMessage`]: a unit to do; at most one for each unit |
//! | `uncopy-PLAN-given-up` | `uncopy.PLAN.given-up.NNNNNN` | [`GivenUpUnit`]: why nobody does it any more; the last one for each unit |

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use serde::{Deserialize, Serialize};
use uncopy_unit::format::{Plan, PlanId, UnitNumber};
use uncopy_unit::ledger::Worker;

use crate::verdict::GivenUp;

/// Version of the messages.
const SCHEMA: u32 = 1;

/// Name of the consumer that all workers share.
pub(super) const CONSUMER: &str = "workers";

/// Maximum length of a message.
const MAX_MESSAGE_BYTES: i32 = 4096;

/// Time in which the server notices that a message was published twice because its answer was lost.
const DUPLICATES: Duration = Duration::from_secs(120);

/// Length of a digest, hexadecimal.
const DIGEST_DIGITS: usize = 64;

/// Returns the name of the stream of units.
pub(super) fn queue(plan: PlanId) -> String {
    format!("uncopy-{plan}")
}

/// Returns the name of the stream of units that were given up.
pub(super) fn given_up(plan: PlanId) -> String {
    format!("uncopy-{plan}-given-up")
}

/// Returns the subject of a unit.
pub(super) fn subject(plan: PlanId, unit: UnitNumber) -> String {
    format!("uncopy.{plan}.unit.{unit}")
}

/// Returns the subject of the reason why the unit of another subject was given up.
pub(super) fn given_up_subject(plan: PlanId, of: &str) -> String {
    let unit = of.rsplit('.').next().unwrap_or_default();
    format!("uncopy.{plan}.given-up.{unit}")
}

/// Returns the subjects of all units that were given up.
pub(super) fn given_up_subjects(plan: PlanId) -> String {
    given_up_subject(plan, "*")
}

/// Returns the unit of a subject of the reason why it was given up. `None`: the message had none.
pub(super) fn given_up_unit(subject: &str) -> Option<UnitNumber> {
    let number = subject.rsplit('.').next()?;
    number.parse().ok().and_then(UnitNumber::new)
}

/// A message about a unit that is to be done. It never has the contents of the unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UnitMessage {
    schema: u32,
    plan: PlanId,
    /// Number of the unit.
    pub(super) unit: UnitNumber,
    /// Digest of the unit's file.
    pub(super) digest: String,
    /// Number of attempts of the last unit that the ledger had when this was published.
    #[serde(default, skip_serializing_if = "is_none")]
    pub(super) attempts: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_none(attempts: &u64) -> bool {
    *attempts == 0
}

impl UnitMessage {
    pub(super) fn new(
        plan: PlanId,
        unit: UnitNumber,
        digest: String,
        attempts: u64,
    ) -> UnitMessage {
        UnitMessage { schema: SCHEMA, plan, unit, digest, attempts }
    }

    /// Writes it.
    pub(super) fn to_json(&self) -> Vec<u8> {
        // Its types always have a form in JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads a message about a unit of `plan`. `None`: it is none.
    pub(super) fn parse(text: &[u8], plan: &Plan) -> Option<UnitMessage> {
        let is_short = i32::try_from(text.len()).is_ok_and(|length| length <= MAX_MESSAGE_BYTES);
        let message: UnitMessage = serde_json::from_slice(text).ok().filter(|_| is_short)?;
        let is_digest = |digest: &str| {
            digest.len() == DIGEST_DIGITS && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let is_of_plan = message.schema == SCHEMA
            && message.plan == plan.id
            && message.unit.get() < plan.units
            && is_digest(&message.digest);
        is_of_plan.then_some(message)
    }
}

/// A unit that nobody does any more, until it is submitted again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GivenUpUnit {
    schema: u32,
    plan: PlanId,
    /// Number of the unit, if the message had one.
    pub(super) unit: Option<UnitNumber>,
    /// Reason.
    pub(super) reason: GivenUp,
    /// Number of tries.
    pub(super) tries: u64,
    /// Worker that gave it up.
    #[serde(flatten)]
    pub(super) worker: Worker,
}

impl GivenUpUnit {
    /// Notes that this worker gives a unit up.
    pub(super) fn new(
        plan: PlanId,
        unit: Option<UnitNumber>,
        reason: GivenUp,
        tries: u64,
    ) -> GivenUpUnit {
        GivenUpUnit { schema: SCHEMA, plan, unit, reason, tries, worker: Worker::this() }
    }
}

/// Settings of the stream of units. A second message about a unit is refused while the first is there.
pub(super) fn queue_config(plan: PlanId, replicas: u8) -> Config {
    Config {
        name: queue(plan),
        description: Some("units of work of uncopy".to_owned()),
        subjects: vec![format!("uncopy.{plan}.unit.*")],
        retention: RetentionPolicy::WorkQueue,
        discard: DiscardPolicy::New,
        discard_new_per_subject: true,
        max_messages_per_subject: 1,
        max_message_size: MAX_MESSAGE_BYTES,
        storage: StorageType::File,
        num_replicas: replicas.into(),
        duplicate_window: DUPLICATES,
        ..Config::default()
    }
}

/// Settings of the stream of units that were given up.
pub(super) fn given_up_config(plan: PlanId, replicas: u8) -> Config {
    Config {
        name: given_up(plan),
        description: Some("units of work of uncopy that were given up".to_owned()),
        subjects: vec![given_up_subjects(plan)],
        max_messages_per_subject: 1,
        max_message_size: MAX_MESSAGE_BYTES,
        storage: StorageType::File,
        num_replicas: replicas.into(),
        ..Config::default()
    }
}

/// Settings of the consumer. The server hands a unit out as often as it must (`max_deliver`): workers give units up, since
/// a server that does so keeps no reason.
pub(super) fn consumer_config(workers: u32, ack_wait: Duration) -> pull::Config {
    pull::Config {
        durable_name: Some(CONSUMER.to_owned()),
        deliver_policy: DeliverPolicy::All,
        ack_policy: AckPolicy::Explicit,
        ack_wait,
        max_deliver: -1,
        max_ack_pending: workers.into(),
        ..pull::Config::default()
    }
}

#[cfg(test)]
mod tests {
    use uncopy_unit::format::{Options, Root, SeenRoots};

    use super::*;

    fn plan() -> Plan {
        Plan {
            schema: 1,
            id: PlanId::from_random([7; 16]),
            source: Root::new("/s").unwrap(),
            destination: Root::new("/d").unwrap(),
            seen: SeenRoots::default(),
            options: Options::default(),
            units: 3,
            entries: 20,
            bytes: 30,
            deletions: 1,
            version: String::new(),
            finished: true,
        }
    }

    #[test]
    fn messages_come_back_and_others_are_refused() {
        let plan = plan();
        let number = |number| UnitNumber::new(number).unwrap();
        let digest = "a1".repeat(32);
        let tried = UnitMessage::new(plan.id, number(2), digest.clone(), 7);
        assert_eq!(UnitMessage::parse(&tried.to_json(), &plan), Some(tried));
        let message = UnitMessage::new(plan.id, number(2), digest.clone(), 0);
        let text = String::from_utf8(message.to_json()).unwrap();
        // Earlier workers do not know it.
        assert!(!text.contains("attempts"), "{text}");
        assert_eq!(UnitMessage::parse(text.as_bytes(), &plan), Some(message));
        for wrong in [
            text.replace("\"schema\":1", "\"schema\":2"),
            text.replace("\"unit\":2", "\"unit\":3"),
            text.replace("\"unit\":2", "\"unit\":-1"),
            text.replace("0707", "0708"),
            text.replace(&digest, "../../etc/passwd"),
            text.replace(&digest, &"g".repeat(64)),
            text.replace("\"unit\"", "\"more\":1,\"unit\""),
            format!("{text}{}", " ".repeat(5000)),
            String::new(),
        ] {
            assert_ne!(wrong, text);
            assert_eq!(UnitMessage::parse(wrong.as_bytes(), &plan), None, "{wrong}");
        }
    }

    #[test]
    fn subjects_have_the_number_of_the_unit() {
        let id = PlanId::from_random([0; 16]);
        let subject = subject(id, UnitNumber::new(12).unwrap());
        assert_eq!(subject, format!("uncopy.{}.unit.000012", "0".repeat(32)));
        let given_up = given_up_subject(id, &subject);
        assert_eq!(given_up, format!("uncopy.{}.given-up.000012", "0".repeat(32)));
        assert_eq!(given_up_unit(&given_up), UnitNumber::new(12));
        assert_eq!(given_up_unit(&given_up_subject(id, "uncopy.x.unit.other")), None);
        assert_eq!(given_up_subjects(id), given_up.replace("000012", "*"));
    }
}
