//! `uncopy doctor` of a copy between machines.

use std::path::Path;

use uncopy::Errno;
use uncopy::doctor::{BetweenEnd, BetweenFacts, DataWay, WhyThroughShell};
use uncopy::remote::{
    self, DataLoss, DataOptions, FarEvent, Limits, Note, OutputStream, RemoteError, RunJob,
};

use super::examined::{self, Examined, MAX_ANSWER_BYTES, Offer, Part};
use super::session;
use crate::cp::target::{Names, Route};
use crate::flags::between::{self, Direction};
use crate::flags::copy::{CopyArgs, DataArg};
use crate::flags::operand::Machine;
use crate::report::Failure;
use crate::stop::Stop;

/// Port for the path of data connections where no range is given: the first that Linux gives out by itself
/// (`ip_local_port_range` of `ip(7)`).
const ANY_PORT: u16 = 32768;

/// Facts about a copy between this machine and another one, from both.
///
/// # Errors
/// The options are none of copies between machines; or the other machine cannot be reached, or refuses to be examined.
pub(crate) fn facts(flags: &CopyArgs, names: &Names) -> Result<BetweenFacts, Failure> {
    let (machine, direction) = match &names.route {
        Route::Pull(machine) => (machine, Direction::Pull),
        Route::Push(machine) => (machine, Direction::Push),
        Route::Here => return Err(super::refused(names, "both paths are on this machine".into())),
    };
    if let Some(refusal) = between::refusal(flags, direction) {
        return Err(super::refused(names, refusal));
    }
    let asked = ask(flags, names, machine, direction);
    let Answers { near, far, facts } = asked.map_err(|error| session::failure(&error, machine))?;
    let (source, destination) = (source(names), names.destination.as_path());
    let checked = match direction {
        Direction::Push => near
            .check(Part::Source, source)
            .and_then(|()| far.check(Part::Destination, &machine.with_path(destination))),
        Direction::Pull => far
            .check(Part::Source, &machine.with_path(source))
            .and_then(|()| near.check(Part::Destination, destination)),
    };
    checked.map(|()| facts).map_err(|error| Failure::from(&error))
}

/// Returns the source that is examined.
fn source(names: &Names) -> &Path {
    names.sources.first().map_or(Path::new("."), |source| source.as_path())
}

/// Answers of both machines, and the facts from them.
struct Answers {
    near: Examined,
    far: Examined,
    facts: BetweenFacts,
}

fn ask(
    flags: &CopyArgs,
    names: &Names,
    machine: &Machine,
    direction: Direction,
) -> Result<Answers, RemoteError> {
    let source = source(names);
    let (here, there, receiver) = match direction {
        Direction::Push => (source, names.destination.as_path(), BetweenEnd::Far),
        Direction::Pull => (names.destination.as_path(), source, BetweenEnd::Near),
    };
    // Before the remote shell: one that ended must be an error of a write, and a signal must not leave it behind.
    let stop = Stop::new().map_err(|error| RemoteError::System {
        what: "listen to signals",
        errno: Errno::from_raw(error.raw_os_error().unwrap_or_default()),
    })?;
    stop.listen();
    let (far, streams) = session::start(flags, machine)?;
    let (ciphers, lookup) = (far.ciphers(), far.lookup());
    let job = RunJob { arguments: examined::words(there), sources: vec![here.into()] };
    let mut answer: Vec<u8> = Vec::new();
    let (mut near_is_confined, mut far_is_confined) = (true, true);
    let ended = remote::push(
        streams,
        &Limits::default(),
        None,
        &job,
        &[],
        &|| stop.requested().is_some(),
        &mut |event| match event {
            FarEvent::Output { stream: OutputStream::Standard, bytes } => {
                let room = MAX_ANSWER_BYTES - answer.len();
                answer.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
            FarEvent::Note(Note::NearNotConfined) => near_is_confined = false,
            FarEvent::Note(Note::FarNotConfined) => far_is_confined = false,
            _ => {}
        },
    );
    if let Some(by) = stop.requested() {
        drop(far);
        // It ends the process.
        by.end();
        return Err(RemoteError::Stopped);
    }
    far.finish(ended)?;
    let there: Examined = serde_json::from_slice(&answer).map_err(|_| RemoteError::Lost {
        what: "its answer about itself is not one of this version".to_owned(),
    })?;
    let addresses = lookup();
    let connections = flags.connections.unwrap_or(DataOptions::CONNECTIONS);
    let port = flags.data_ports.map(|ports| ports.first).filter(|port| *port != 0);
    let address = addresses.as_ref().ok().and_then(|found| found.first().copied());
    let way = match (flags.data, there.data, &addresses) {
        (DataArg::Ssh, ..) => shell(WhyThroughShell::NotWanted { by: BetweenEnd::Near }),
        (_, Offer::Policy, _) => shell(WhyThroughShell::NotWanted { by: BetweenEnd::Far }),
        (_, Offer::SettingsUnread, _) => shell(WhyThroughShell::SettingsUnread),
        (_, Offer::NoAddress, _) => shell(WhyThroughShell::NoAddress),
        (DataArg::Open, Offer::OfferedWithTls, _) => {
            shell(WhyThroughShell::NotWanted { by: BetweenEnd::Far })
        }
        (.., Err(DataLoss::Proxied)) => shell(WhyThroughShell::Proxied),
        (.., Err(_)) => shell(WhyThroughShell::Unresolved),
        (DataArg::Open, Offer::Offered, Ok(_)) => DataWay::Open { connections: connections.into() },
        (_, Offer::Offered | Offer::OfferedWithTls, Ok(_)) => {
            DataWay::Tls { connections: connections.into() }
        }
    };
    let near = Examined::here(here, Offer::Offered);
    let facts = BetweenFacts {
        address: address.map(|mut address| {
            address.set_port(port.unwrap_or(ANY_PORT));
            address
        }),
        way,
        near: near.clone().side(near_is_confined),
        far: there.clone().side(far_is_confined),
        receiver,
        ciphers,
        has_aes: has_aes(),
    };
    Ok(Answers { near, far: there, facts })
}

fn shell(why: WhyThroughShell) -> DataWay {
    DataWay::Shell(why)
}

/// Whether the processor has instructions for AES.
fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}
