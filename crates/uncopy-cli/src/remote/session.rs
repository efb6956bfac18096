//! Starts the program on the other machine, and says why that failed.

use uncopy::remote::{Address, FarEnd, Refusal, RemoteError, RemoteShell, Streams};

use crate::exit::Exit;
use crate::flags::copy::CopyArgs;
use crate::flags::operand::Machine;
use crate::report::Failure;

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

/// Describes an error of a connection as that of all files.
pub(super) fn failure(error: &RemoteError, machine: &Machine) -> Failure {
    let (kind, exit) = match (error, exit_of(error)) {
        (_, Exit::Unreachable) => ("unreachable", Exit::Unreachable),
        (RemoteError::Refused(Refusal::Arguments { .. }), exit) => ("options", exit),
        (RemoteError::System { .. }, exit) => ("system", exit),
        (_, exit) => ("refused", exit),
    };
    Failure {
        kind,
        code: None,
        operation: "copy between this machine and",
        subject: std::path::Path::new(&machine.to_string()).into(),
        errno: None,
        os_error: None,
        // It ends in its next step.
        reason: error.to_string().into(),
        next_step: None,
        is_at_destination: false,
        exit,
    }
}
