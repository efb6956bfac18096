//! Access to a server: credentials of a user, and refusals, which the server sends apart from its answers: to what is forbidden
//! it sends no answer at all.

use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_nats::{ClientError, ConnectErrorKind, ConnectOptions, Event, ServerError};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::{KeyPair, KeyPairType};
use serde::Deserialize;
use tokio::sync::watch;

use crate::error::FleetError;

/// Next step if a file has no credentials.
const NO_CREDENTIALS: &str =
    "name a file that `nsc generate creds` wrote, or one with the seed of a user's key";

/// Credentials of a user.
pub(super) enum Credentials {
    /// A JWT and the seed of its key.
    Signed { contents: String, expires: Option<SystemTime> },
    /// The seed of a key that the server knows.
    Seed(String),
}

impl Credentials {
    /// Reads them from a file.
    ///
    /// # Errors
    /// It cannot be read, or has none.
    pub(super) fn read(file: &Path) -> Result<Credentials, FleetError> {
        let failed =
            |error| FleetError::system("read credentials from", file, NO_CREDENTIALS)(error);
        Ok(Credentials::parse(std::fs::read_to_string(file).map_err(failed)?))
    }

    /// Decides by the lines of a file (pure). What has no form is left to the client, which refuses it.
    fn parse(contents: String) -> Credentials {
        let is_meant = |line: &&str| !line.is_empty() && !line.starts_with(['#', '-']);
        let mut lines = contents.lines().map(str::trim).filter(is_meant);
        let is_seed = |line: &str| {
            let pair = KeyPair::from_seed(line).ok();
            pair.is_some_and(|pair| matches!(pair.key_pair_type(), KeyPairType::User))
        };
        match (lines.next(), lines.next()) {
            (Some(line), None) if is_seed(line) => Credentials::Seed(line.to_owned()),
            (first, _) => {
                let expires = first.and_then(expiry);
                Credentials::Signed { contents, expires }
            }
        }
    }

    /// Gives them to a client.
    ///
    /// # Errors
    /// They are none.
    pub(super) fn give(
        self,
        to: ConnectOptions,
        file: &Path,
    ) -> Result<ConnectOptions, FleetError> {
        let given: io::Result<ConnectOptions> = match self {
            Credentials::Signed { contents, .. } => to.credentials(&contents),
            Credentials::Seed(seed) => Ok(to.nkey(seed)),
        };
        given.map_err(FleetError::system("read credentials from", file, NO_CREDENTIALS))
    }

    /// Returns the time at which they ended, if they have.
    pub(super) fn ended(&self, now: SystemTime) -> Option<SystemTime> {
        match self {
            Credentials::Signed { expires, .. } => expires.filter(|expires| *expires <= now),
            Credentials::Seed(_) => None,
        }
    }
}

/// Returns when a JWT ends, without a look at its signature (RFC 7519, 4.1.4).
fn expiry(jwt: &str) -> Option<SystemTime> {
    #[derive(Deserialize)]
    struct Claims {
        exp: Option<u64>,
    }
    let claims = URL_SAFE_NO_PAD.decode(jwt.split('.').nth(1)?).ok()?;
    let claims: Claims = serde_json::from_slice(&claims).ok()?;
    UNIX_EPOCH.checked_add(Duration::from_secs(claims.exp.filter(|exp| *exp > 0)?))
}

/// Something that the server does not let its user do.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Refusal {
    /// It forbids an operation.
    Forbidden(String),
    /// It lets the user in no more.
    Out(String),
}

impl Refusal {
    /// Decides whether an event of the client is one (pure).
    fn of(event: &Event) -> Option<Refusal> {
        match event {
            Event::ServerError(ServerError::AuthorizationViolation) => {
                Some(Refusal::Out(ConnectErrorKind::AuthorizationViolation.to_string()))
            }
            Event::ServerError(ServerError::Other(said)) => {
                // As in `errors.go` of the server, which has no codes.
                let lower = said.to_lowercase();
                let is_out = ["authentication expired", "authentication revoked"];
                if lower.starts_with("permissions violation") {
                    Some(Refusal::Forbidden(said.clone()))
                } else if is_out.iter().any(|out| lower.contains(out)) {
                    Some(Refusal::Out(said.clone()))
                } else {
                    None
                }
            }
            // So the client reports a connection that it tried to make again.
            Event::ClientError(ClientError::Other(said)) => {
                let kinds =
                    [ConnectErrorKind::AuthorizationViolation, ConnectErrorKind::Authentication];
                let is_out = kinds.iter().any(|kind| kind.to_string() == *said);
                is_out.then(|| Refusal::Out(said.clone()))
            }
            _ => None,
        }
    }

    fn error(self) -> FleetError {
        match self {
            Refusal::Forbidden(said) => FleetError::Engine {
                problem: format!("the server forbids its user a part of this: {said}"),
                next: "let the user publish to $JS.API.>, $JS.ACK.> and uncopy.>, and subscribe to _INBOX.>, or name \
                       another one with --credentials",
            },
            Refusal::Out(said) => FleetError::Engine {
                problem: format!("the server lets its user in no more: {said}"),
                next: "name new credentials with --credentials, and begin again",
            },
        }
    }
}

/// First refusal of a server, if there was one.
#[derive(Debug, Clone)]
pub(super) struct Refusals(Arc<watch::Sender<Option<Refusal>>>);

impl Refusals {
    /// Begins without one.
    pub(super) fn new() -> Refusals {
        Refusals(Arc::new(watch::Sender::new(None)))
    }

    /// Takes an event of the client into account.
    pub(super) fn note(&self, event: &Event) {
        if let Some(refusal) = Refusal::of(event) {
            self.0.send_if_modified(|first| {
                let is_first = first.is_none();
                first.get_or_insert(refusal);
                is_first
            });
        }
    }

    /// Returns the first one as an error.
    pub(super) fn first(&self) -> Option<FleetError> {
        self.0.borrow().clone().map(Refusal::error)
    }

    /// Does something until it ends, or the server refuses a part of it.
    ///
    /// # Errors
    /// Those of `task`; a refusal.
    pub(super) async fn none_while<T>(
        &self,
        task: impl Future<Output = Result<T, FleetError>>,
    ) -> Result<T, FleetError> {
        let mut noted = self.0.subscribe();
        let refused = async {
            let first = noted.wait_for(Option::is_some).await.ok()?;
            first.clone()
        };
        tokio::select! {
            done = task => done,
            Some(refusal) = refused => Err(refusal.error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_differ_from_other_events() {
        use Refusal::{Forbidden, Out};
        let other = |said: &str| Event::ServerError(ServerError::Other(said.to_owned()));
        let client = |said: &str| Event::ClientError(ClientError::Other(said.to_owned()));
        let forbidden = "Permissions Violation for Publish to \"$JS.API.STREAM.INFO.x\"";
        for (event, expected) in [
            (other(forbidden), Some(Forbidden(forbidden.to_owned()))),
            (
                other("User Authentication Expired"),
                Some(Out("User Authentication Expired".to_owned())),
            ),
            (
                Event::ServerError(ServerError::AuthorizationViolation),
                Some(Out("authorization violation".to_owned())),
            ),
            (client("authorization violation"), Some(Out("authorization violation".to_owned()))),
            (client("IO error"), None),
            (other("Stale Connection"), None),
            (Event::Disconnected, None),
        ] {
            assert_eq!(Refusal::of(&event), expected, "{event}");
        }
    }

    #[test]
    fn files_have_a_seed_or_a_signed_user() {
        let seed = KeyPair::new_user().seed().unwrap();
        let account = KeyPair::new_account().seed().unwrap();
        let is_seed = |text: String| matches!(Credentials::parse(text), Credentials::Seed(found) if found == seed);
        assert!(is_seed(seed.clone()));
        assert!(is_seed(format!("# of a worker\r\n{seed}\r\n\r\n")));
        assert!(is_seed(format!("-----BEGIN USER NKEY SEED-----\n{seed}\n------END------\n")));
        for text in [String::new(), "nothing".to_owned(), account, format!("{seed}\n{seed}")] {
            assert!(!is_seed(text.clone()), "{text}");
        }
    }

    #[test]
    fn signed_users_end() {
        let ended = |claims: &str, now: u64| {
            let jwt = format!("x.{}.x", URL_SAFE_NO_PAD.encode(claims));
            let contents =
                format!("-----BEGIN NATS USER JWT-----\n{jwt}\n------END------\n\nseed\n");
            let now = UNIX_EPOCH + Duration::from_secs(now);
            let ended = Credentials::parse(contents).ended(now);
            ended.map(|ended| ended.duration_since(UNIX_EPOCH).unwrap().as_secs())
        };
        assert_eq!(ended(r#"{"exp":100,"sub":"U"}"#, 99), None);
        assert_eq!(ended(r#"{"exp":100}"#, 100), Some(100));
        for never in [r#"{"exp":0}"#, "{}", r#"{"exp":"x"}"#, "", "[]"] {
            assert_eq!(ended(never, u64::MAX >> 1), None, "{never}");
        }
    }
}
