//! Connections to a server, and what a plan has there.

use std::io;
use std::time::{Duration, Instant, SystemTime};

use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::context::{
    ConsumerInfoError, ConsumerInfoErrorKind, GetStreamErrorKind,
};
use async_nats::jetstream::stream::Stream;
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{ConnectError, ConnectErrorKind, ConnectOptions, ServerAddr, ServerError};

use super::access::{Credentials, Refusals};
use super::names;
use crate::error::FleetError;
use crate::flags::ServerFlags;
use crate::plan::PlannedWork;
use crate::report;

/// Time that a server has for the greeting.
const GREETING: Duration = Duration::from_secs(10);

/// Time that a server has for an answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Oldest version of the server: it refuses a second message about a unit.
const OLDEST: (i64, i64, i64) = (2, 9, 0);

/// A server that was connected to.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) context: Context,
    pub(super) refusals: Refusals,
}

/// Streams and consumer of a plan.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    pub(super) context: Context,
    pub(super) given_up: Stream,
    pub(super) consumer: PullConsumer,
}

/// Connects to the server.
///
/// # Errors
/// It cannot be reached, lets nobody in, is too old, or has no JetStream.
pub(super) async fn connect(flags: &ServerFlags) -> Result<Server, FleetError> {
    let addresses = addresses(&flags.server)?;
    let shown = shown(&addresses);
    let refusals = Refusals::new();
    let noted = refusals.clone();
    let mut options = ConnectOptions::new()
        .name("uncopy-fleet")
        .event_callback(move |event| {
            noted.note(&event);
            std::future::ready(())
        })
        .connection_timeout(GREETING)
        .require_tls(flags.tls_ca.is_some() || addresses.iter().any(ServerAddr::tls_required));
    let with_password = addresses.iter().find(|address| address.has_user_pass());
    if let Some((user, password)) =
        with_password.and_then(|address| address.username().zip(address.password()))
    {
        options = options.user_and_password(user.to_owned(), password.to_owned());
    }
    let mut ended = None;
    if let Some(file) = &flags.credentials {
        let credentials = Credentials::read(file)?;
        ended = credentials.ended(SystemTime::now());
        options = credentials.give(options, file)?;
    }
    if let Some(file) = &flags.tls_ca {
        options = options.add_root_certificates(file.clone());
    }
    let client = options.connect(addresses).await.map_err(|error| FleetError::Engine {
        problem: format!(
            "cannot connect to {shown}: {}{}",
            with_sources(&error),
            ended.map_or(String::new(), |ended| format!(
                " (the JWT of the credentials ended at {})",
                humantime::format_rfc3339_seconds(ended)
            ))
        ),
        next: if ended.is_some() {
            "name newer ones with --credentials"
        } else {
            next_step(&error)
        },
    })?;
    let (major, minor, patch) = OLDEST;
    if !client.is_server_compatible(major, minor, patch) {
        return Err(FleetError::Engine {
            problem: format!("the server {shown} has version {}", client.server_info().version),
            next: "install nats-server 2.9 or newer",
        });
    }
    if !client.server_info().jetstream {
        return Err(FleetError::Engine {
            problem: format!("the server {shown} has no JetStream"),
            next: "start it with -js and -sd DIRECTORY",
        });
    }
    let mut context = jetstream::new(client);
    context.set_timeout(ANSWER);
    Ok(Server { context, refusals })
}

/// Reads addresses with commas between them.
fn addresses(text: &str) -> Result<Vec<ServerAddr>, FleetError> {
    let parsed: Result<Vec<ServerAddr>, _> =
        text.split(',').map(|address| address.trim().parse()).collect();
    // It may have a password, and is not shown.
    parsed.map_err(|_| {
        FleetError::Usage(
            "--server has something that is no address of a server; write nats://HOST:PORT"
                .to_owned(),
        )
    })
}

/// Shows addresses, without users and passwords.
fn shown(addresses: &[ServerAddr]) -> String {
    let shown = |address: &ServerAddr| format!("{}:{}", address.host(), address.port());
    addresses.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// Next step if the server's certificate is not believed.
const TRUST: &str =
    "name the certificate of its authority with --tls-ca, and the server as its certificate does";

fn next_step(error: &ConnectError) -> &'static str {
    match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            "name credentials that the server knows with --credentials"
        }
        ConnectErrorKind::Tls => TRUST,
        _ if is_of_server(error) => "ask whoever runs the server, whose log says more",
        _ if is_of_tls(error) => TRUST,
        _ => {
            "check the address, and that the server runs: `nats-server -js -sd DIRECTORY` starts one"
        }
    }
}

/// Whether the server itself refuses a connection that stands.
fn is_of_server(error: &ConnectError) -> bool {
    let source = std::error::Error::source(error);
    source.is_some_and(|source| source.downcast_ref::<ServerError>().is_some())
}

/// Whether what the server sent was not believed, as the TLS library reports it.
fn is_of_tls(error: &ConnectError) -> bool {
    let source = std::error::Error::source(error);
    let source = source.and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|source| source.kind() == io::ErrorKind::InvalidData)
}

/// Describes an error of the client with its reasons.
pub(super) fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let reason = source.to_string();
        if !text.contains(&reason) {
            text = format!("{text}: {reason}");
        }
        next = source.source();
    }
    text
}

/// Returns what the server refused, if it is an error of JetStream.
pub(super) fn jetstream_error<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a jetstream::Error> {
    error.source().and_then(|source| source.downcast_ref())
}

/// Returns the number of messages that are or will be handed out. The stream may have more: a server that was killed may
/// keep a message whose acknowledgement it has noted, and never hands that out (seen with 2.9).
pub(super) async fn messages(consumer: &PullConsumer) -> Result<u64, ConsumerInfoError> {
    let info = consumer.get_info().await?;
    Ok(info.num_pending + u64::try_from(info.num_ack_pending).unwrap_or(u64::MAX))
}

/// Makes an error of a request to the server.
pub(super) fn refused(what: &str, error: &dyn std::error::Error) -> FleetError {
    FleetError::Engine {
        problem: format!("cannot {what}: {}", with_sources(error)),
        next: "check in the log of the server whether JetStream is enabled for this user, who may do so",
    }
}

/// Why a plan has no queue on the server, or none was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NotFound {
    /// The server has none.
    Absent,
    /// The server did not answer, or cannot answer now: another question may help.
    NoAnswer,
    /// The server refuses to say.
    Refused,
}

impl NotFound {
    /// Decides by the answer about a stream (pure).
    fn of_stream(kind: &GetStreamErrorKind) -> NotFound {
        match kind {
            GetStreamErrorKind::Request => NotFound::NoAnswer,
            GetStreamErrorKind::JetStream(error) => NotFound::of_jetstream(error),
            GetStreamErrorKind::EmptyName | GetStreamErrorKind::InvalidStreamName => {
                NotFound::Refused
            }
        }
    }

    /// Decides by the answer about a consumer (pure).
    fn of_consumer(kind: &ConsumerInfoErrorKind) -> NotFound {
        match kind {
            ConsumerInfoErrorKind::NotFound | ConsumerInfoErrorKind::StreamNotFound => {
                NotFound::Absent
            }
            ConsumerInfoErrorKind::JetStream(error) => NotFound::of_jetstream(error),
            ConsumerInfoErrorKind::InvalidName | ConsumerInfoErrorKind::Offline => {
                NotFound::Refused
            }
            ConsumerInfoErrorKind::Request
            | ConsumerInfoErrorKind::TimedOut
            | ConsumerInfoErrorKind::NoResponders => NotFound::NoAnswer,
        }
    }

    fn of_jetstream(error: &jetstream::Error) -> NotFound {
        match error.error_code() {
            ErrorCode::STREAM_NOT_FOUND | ErrorCode::CONSUMER_NOT_FOUND => NotFound::Absent,
            // As of HTTP: a server that starts, or has no leader now.
            _ if error.code() == UNAVAILABLE => NotFound::NoAnswer,
            _ => NotFound::Refused,
        }
    }

    fn error(self, work: &PlannedWork, error: &dyn std::error::Error) -> FleetError {
        match self {
            NotFound::Absent => FleetError::NoQueue {
                problem: format!("the server has no queue of plan {}", work.plan.id),
                next: "run `uncopy fleet submit`",
            },
            NotFound::NoAnswer | NotFound::Refused => refused("look up the queue", error),
        }
    }
}

/// Code of JetStream for a server that cannot answer now.
const UNAVAILABLE: usize = 503;

/// Time between two questions about a queue.
const PAUSE: Duration = Duration::from_secs(1);

/// Finds what the plan has on the server.
///
/// # Errors
/// It was not submitted, or the server does not answer.
pub(super) async fn find(context: Context, work: &PlannedWork) -> Result<Queue, FleetError> {
    look_up(&context, work).await.map_err(|(_, error)| error)
}

/// Finds what the plan has on the server, and waits for a server that does not answer now.
///
/// # Errors
/// It was not submitted, or the server does not answer for so long.
pub(super) async fn find_within(
    context: Context,
    work: &PlannedWork,
    patience: Duration,
) -> Result<Queue, FleetError> {
    let since = Instant::now();
    let mut is_first = true;
    loop {
        let problem = match look_up(&context, work).await {
            Ok(queue) => return Ok(queue),
            Err((NotFound::NoAnswer, error)) if since.elapsed() < patience => error,
            Err((_, error)) => return Err(error),
        };
        if std::mem::take(&mut is_first) {
            let patience = humantime::format_duration(patience);
            report::say(&format!("{problem}; waiting for an answer for up to {patience}"));
        }
        tokio::time::sleep(PAUSE.min(patience)).await;
    }
}

async fn look_up(context: &Context, work: &PlannedWork) -> Result<Queue, (NotFound, FleetError)> {
    let plan = work.plan.id;
    let find = async |name: String| {
        context.get_stream(name).await.map_err(|error| {
            let why = NotFound::of_stream(&error.kind());
            (why, why.error(work, &error))
        })
    };
    let units = find(names::queue(plan)).await?;
    let given_up = find(names::given_up(plan)).await?;
    let consumer = units.get_consumer(names::CONSUMER).await.map_err(|error| {
        let answer = error.downcast_ref::<ConsumerInfoError>();
        let why = answer.map_or(NotFound::Refused, |answer| NotFound::of_consumer(&answer.kind()));
        (why, why.error(work, &*error))
    })?;
    Ok(Queue { context: context.clone(), given_up, consumer })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_about_a_queue_differ() {
        use NotFound::{Absent, NoAnswer, Refused};
        let answer = |code: usize, number: u64| -> jetstream::Error {
            let text = format!("{{\"code\":{code},\"err_code\":{number},\"description\":\"x\"}}");
            serde_json::from_str(&text).unwrap()
        };
        for (code, number, expected) in [
            (404, 10059, Absent),
            (404, 10014, Absent),
            (503, 10008, NoAnswer),
            (503, 10039, NoAnswer),
            (400, 10003, Refused),
            (500, 0, Refused),
        ] {
            let of_stream = GetStreamErrorKind::JetStream(answer(code, number));
            assert_eq!(NotFound::of_stream(&of_stream), expected, "{code} {number}");
            let of_consumer = ConsumerInfoErrorKind::JetStream(answer(code, number));
            assert_eq!(NotFound::of_consumer(&of_consumer), expected, "{code} {number}");
        }
        assert_eq!(NotFound::of_stream(&GetStreamErrorKind::Request), NoAnswer);
        for (kind, expected) in [
            (ConsumerInfoErrorKind::NotFound, Absent),
            (ConsumerInfoErrorKind::StreamNotFound, Absent),
            (ConsumerInfoErrorKind::Offline, Refused),
            (ConsumerInfoErrorKind::Request, NoAnswer),
            (ConsumerInfoErrorKind::TimedOut, NoAnswer),
            (ConsumerInfoErrorKind::NoResponders, NoAnswer),
        ] {
            assert_eq!(NotFound::of_consumer(&kind), expected, "{kind:?}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        for (text, expected) in [
            ("nats://u:secret@host:4333", "host:4333"),
            ("host", "host:4222"),
            ("nats://a, tls://u:secret@b:1", "a:4222, b:1"),
        ] {
            assert_eq!(shown(&addresses(text).unwrap()), expected);
        }
        let error = addresses("nats://u:secret@no such host").unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
