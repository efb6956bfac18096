//! Starts the program on the other machine, and says why that failed and what crossed.

use std::time::Duration;

use uncopy::remote::data::PortRange;
use uncopy::remote::{
    Address, DataLoss, DataOptions, DataRefusal, DataReport, DataStart, DataWay, FarEnd, Refusal,
    RemoteError, RemoteShell, Streams, Traffic, WhyNoData,
};

use crate::exit::Exit;
use crate::flags::copy::{CopyArgs, DataArg};
use crate::flags::operand::Machine;
use crate::report::{DataWire, Failure, NoTls, Wire, WireKind};

/// Starts `uncopy serve` on a machine.
///
/// # Errors
/// The flags name no remote shell, or it does not start.
pub(super) fn start(flags: &CopyArgs, machine: &Machine) -> Result<(FarEnd, Streams), RemoteError> {
    let shell = RemoteShell::new(flags.rsh.as_deref(), flags.remote_program.as_deref())?;
    let address = Address {
        host: machine.host.clone().into(),
        user: machine.user.clone().map(Into::into),
        port: machine.port,
    };
    let mut far = FarEnd::start(&shell, &address)?;
    let streams = far.streams()?;
    Ok((far, streams))
}

/// Returns the options of data connections beside the remote shell.
pub(super) fn data(flags: &CopyArgs, far: &FarEnd) -> Option<DataOptions> {
    let mut options = DataOptions::new(far.lookup());
    match flags.data {
        DataArg::Ssh => return None,
        DataArg::Tls => options.start = DataStart::First,
        DataArg::Open => {
            options.start = DataStart::First;
            options.way = DataWay::Open;
        }
        DataArg::Auto => {}
    }
    options.connections = flags.connections.unwrap_or(options.connections);
    let ports = flags.data_ports.and_then(|ports| PortRange::new(ports.first, ports.last));
    options.ports = ports.unwrap_or(options.ports);
    Some(options)
}

/// Describes what crossed. `shell` and `data` are those of the side that asks for the sources.
pub(super) fn wire(shell: Traffic, data: &DataReport, duration: Duration) -> Wire {
    Wire {
        bytes_sent: shell.received + data.traffic.received,
        bytes_received: shell.sent + data.traffic.sent,
        duration,
        data: DataWire {
            kind: match data.way {
                DataWay::Tls => WireKind::Tls,
                DataWay::Open => WireKind::Open,
            },
            connections: data.connections,
            bytes: data.traffic.received,
            resent: data.resent,
            why_none: data.why_none.map(|why| NoTls { code: code(why), words: why.to_string() }),
        },
    }
}

/// Whether people are to know without asking: it is no choice of theirs, and can be changed. A remote shell without an
/// address, as in a container, never has one.
pub(super) fn is_notable(why: WhyNoData) -> bool {
    let is_as_it_has_to_be = matches!(
        why,
        WhyNoData::NotWanted
            | WhyNoData::Small
            | WhyNoData::TooLate
            | WhyNoData::Refused(DataRefusal::NoAddress)
    );
    !is_as_it_has_to_be
}

/// Returns the stable name of a reason.
fn code(why: WhyNoData) -> &'static str {
    match why {
        WhyNoData::NotWanted => "not_wanted",
        WhyNoData::Small => "small",
        WhyNoData::TooLate => "too_late",
        WhyNoData::TooOld => "too_old",
        WhyNoData::Altered => "altered",
        WhyNoData::Refused(DataRefusal::Policy) => "policy",
        WhyNoData::Refused(DataRefusal::Settings) => "settings_unread",
        WhyNoData::Refused(DataRefusal::NoAddress) => "no_address",
        WhyNoData::Refused(DataRefusal::PortsInUse) => "ports_in_use",
        WhyNoData::Refused(_) => "cannot_listen",
        WhyNoData::Lost(DataLoss::Proxied) => "proxied",
        WhyNoData::Lost(DataLoss::Unresolved) => "unresolved",
        WhyNoData::Lost(DataLoss::Refused) => "refused",
        WhyNoData::Lost(DataLoss::TimedOut) => "timed_out",
        WhyNoData::Lost(DataLoss::NoRoute) => "no_route",
        WhyNoData::Lost(DataLoss::Ended) => "closed",
        WhyNoData::Lost(DataLoss::OtherKey) => "other_key",
        WhyNoData::Lost(DataLoss::OwnKeyRefused) => "own_key_refused",
        WhyNoData::Lost(DataLoss::TokenRefused) => "token_refused",
        WhyNoData::Lost(DataLoss::Handshake) => "other_protocol",
        WhyNoData::Lost(DataLoss::Broken) => "broken",
        WhyNoData::Lost(DataLoss::Resources) => "resources",
        _ => "unknown",
    }
}

/// Returns the exit code for an error of a connection.
pub(super) fn exit_of(error: &RemoteError) -> Exit {
    match error {
        RemoteError::BadAddress { .. }
        | RemoteError::BadWords { .. }
        | RemoteError::TooManyNames
        | RemoteError::Refused(Refusal::Arguments { .. }) => Exit::Usage,
        RemoteError::Refused(_) | RemoteError::System { .. } => Exit::Failure,
        _ => Exit::Unreachable,
    }
}

/// Next step after the end of a connection in the middle of a copy.
const AFTER_LOSS: &str = "run the command again; a copy with --resume goes on where it ended, any other from its beginning";

/// Describes an error of a connection as that of all files.
pub(super) fn failure(error: &RemoteError, machine: &Machine) -> Failure {
    let (kind, exit) = match (error, exit_of(error)) {
        (_, Exit::Unreachable) => ("unreachable", Exit::Unreachable),
        (RemoteError::Refused(Refusal::Arguments { .. }), exit) => ("options", exit),
        (RemoteError::System { .. }, exit) => ("system", exit),
        (_, exit) => ("refused", exit),
    };
    let (reason, next_step) = words(error);
    Failure {
        kind,
        code: None,
        operation: "copy between this machine and",
        subject: std::path::Path::new(&machine.to_string()).into(),
        errno: None,
        os_error: None,
        reason: reason.into(),
        next_step: next_step.map(Into::into),
        is_at_destination: false,
        exit,
    }
}

/// Describes an error, with the next step where that names a flag; other errors end in theirs.
fn words(error: &RemoteError) -> (String, Option<&'static str>) {
    match error {
        RemoteError::FarMissing { host, program } => (
            format!("there is no program {program:?} on {host:?}"),
            Some("install uncopy there, or name where it is with --remote-program"),
        ),
        RemoteError::FarNotRunnable { host, program } => (
            format!("the program {program:?} on {host:?} cannot be run"),
            Some("let this user run it, or name another one with --remote-program"),
        ),
        RemoteError::NoData { why } => (
            format!("no data connection stands: {why}"),
            Some("pass --data=ssh to copy through the remote shell alone"),
        ),
        RemoteError::Refused(Refusal::JournalOutside { path }) => (
            format!(
                "the journal of --resume would lie beside {:?}, out of the directory that this login may use",
                String::from_utf8_lossy(path)
            ),
            Some("leave out --resume, or name a directory in it"),
        ),
        lost @ RemoteError::Lost { .. } => (lost.to_string(), Some(AFTER_LOSS)),
        other => (other.to_string(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_name_of_its_own_in_the_book() {
        let refusals = [
            DataRefusal::Policy,
            DataRefusal::Settings,
            DataRefusal::NoAddress,
            DataRefusal::PortsInUse,
            DataRefusal::System { errno: 1 },
        ];
        let losses = [
            DataLoss::Proxied,
            DataLoss::Unresolved,
            DataLoss::Refused,
            DataLoss::TimedOut,
            DataLoss::NoRoute,
            DataLoss::Ended,
            DataLoss::OtherKey,
            DataLoss::OwnKeyRefused,
            DataLoss::TokenRefused,
            DataLoss::Handshake,
            DataLoss::Broken,
            DataLoss::Resources,
        ];
        let mut all = vec![WhyNoData::NotWanted, WhyNoData::Small, WhyNoData::TooLate];
        all.extend([WhyNoData::Altered, WhyNoData::TooOld]);
        all.extend(refusals.map(WhyNoData::Refused));
        all.extend(losses.map(WhyNoData::Lost));
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
        let book = std::fs::read_to_string(path).unwrap();
        let row = book.lines().find(|line| line.starts_with("| `wire.not_tls`")).unwrap();
        let mut codes: Vec<&str> = all.iter().map(|why| code(*why)).collect();
        for code in &codes {
            assert!(row.contains(&format!("`{code}`")), "{code}");
        }
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), all.len());
        assert!(
            all.iter().all(|why| why.to_string() != "for a reason that this version does not know")
        );
    }
}
