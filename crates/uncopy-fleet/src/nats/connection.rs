//! Connections to a server, and what a plan has there.

use std::time::Duration;

use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream::Stream;
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{ConnectErrorKind, ConnectOptions, ServerAddr};

use super::names;
use crate::error::FleetError;
use crate::flags::ServerFlags;
use crate::plan::PlannedWork;

/// Time that a server has for the greeting, and for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Oldest version of the server: it refuses a second message about a unit.
const OLDEST: (i64, i64, i64) = (2, 9, 0);

/// What a plan has on the server.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    pub(super) context: Context,
    pub(super) units: Stream,
    pub(super) given_up: Stream,
    pub(super) consumer: PullConsumer,
}

/// Connects to the server.
///
/// # Errors
/// It cannot be reached, lets nobody in, is too old, or has no JetStream.
pub(super) async fn connect(flags: &ServerFlags) -> Result<Context, FleetError> {
    let addresses: Result<Vec<ServerAddr>, _> =
        flags.server.split(',').map(|address| address.trim().parse()).collect();
    let addresses = addresses.map_err(|_| {
        FleetError::Usage(format!(
            "{:?} is no address of a server; write nats://HOST:PORT",
            flags.server
        ))
    })?;
    let mut options = ConnectOptions::new()
        .name("uncopy-fleet")
        .connection_timeout(PATIENCE)
        .require_tls(flags.tls_ca.is_some() || addresses.iter().any(ServerAddr::tls_required));
    if let Some(file) = &flags.credentials {
        let next = "name a file that `nsc generate creds` wrote";
        options = options.credentials_file(file).await.map_err(FleetError::system(
            "read credentials from",
            file,
            next,
        ))?;
    }
    if let Some(file) = &flags.tls_ca {
        options = options.add_root_certificates(file.clone());
    }
    let client = options.connect(addresses).await.map_err(|error| FleetError::Engine {
        problem: format!("cannot connect to {}: {}", flags.server, with_sources(&error)),
        next: next_step(error.kind()),
    })?;
    let (major, minor, patch) = OLDEST;
    if !client.is_server_compatible(major, minor, patch) {
        return Err(FleetError::Engine {
            problem: format!(
                "the server {} has version {}",
                flags.server,
                client.server_info().version
            ),
            next: "install nats-server 2.9 or newer",
        });
    }
    let mut context = async_nats::jetstream::new(client);
    context.set_timeout(PATIENCE);
    context.query_account().await.map_err(|error| FleetError::Engine {
        problem: format!("the server {} has no JetStream: {}", flags.server, with_sources(&error)),
        next: "start it with -js and -sd DIRECTORY, and enable JetStream for this account",
    })?;
    Ok(context)
}

fn next_step(kind: ConnectErrorKind) -> &'static str {
    match kind {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            "name credentials that the server knows with --credentials"
        }
        ConnectErrorKind::Tls => "name the certificate of its authority with --tls-ca",
        _ => {
            "check the address, and that the server runs: `nats-server -js -sd DIRECTORY` starts one"
        }
    }
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

/// Returns the code of an error of JetStream.
pub(super) fn code_of(error: &(dyn std::error::Error + 'static)) -> Option<ErrorCode> {
    jetstream_error(error).map(jetstream::Error::error_code)
}

/// Makes an error of a request to the server.
pub(super) fn refused(what: &str, error: &dyn std::error::Error) -> FleetError {
    FleetError::Engine {
        problem: format!("cannot {what}: {}", with_sources(error)),
        next: "look into the log of the server, and whether this user may do so",
    }
}

/// Finds what the plan has on the server.
///
/// # Errors
/// It was not submitted, or the server does not answer.
pub(super) async fn find(context: Context, work: &PlannedWork) -> Result<Queue, FleetError> {
    let plan = work.plan.id;
    let not_there = || FleetError::NoQueue {
        problem: format!("the server has no queue of plan {plan}"),
        next: "run `uncopy fleet submit`",
    };
    let find = async |name: String| match context.get_stream(name).await {
        Ok(stream) => Ok(stream),
        Err(error) => match error.kind() {
            GetStreamErrorKind::JetStream(found)
                if found.error_code() == ErrorCode::STREAM_NOT_FOUND =>
            {
                Err(not_there())
            }
            _ => Err(refused("look up the queue", &error)),
        },
    };
    let units = find(names::queue(plan)).await?;
    let given_up = find(names::given_up(plan)).await?;
    let consumer = units.get_consumer(names::CONSUMER).await.map_err(|_| not_there())?;
    Ok(Queue { context, units, given_up, consumer })
}
