//! Programs that are no tests and mount as tests do.

use std::path::Path;
use std::process::ExitCode;

use crate::sandbox::{self, Sandbox};
use crate::scratch;

/// Runs `body`, as root in a mount and process namespace of its own: whatever it mounts is gone
/// afterwards, however it ends. Files and images of the run lie in a directory that is made in
/// `base` ([`Place::Disk`](crate::Place::Disk)) and removed at the end.
///
/// The program is started again inside the namespace, with the same arguments; `body` runs there
/// alone.
pub fn run_sandboxed(base: &Path, body: impl FnOnce() -> ExitCode) -> ExitCode {
    if rustix::process::geteuid().is_root()
        && let Sandbox::Left(code) = sandbox::enter_as_root()
    {
        return code;
    }
    scratch::open_in(base);
    let code = body();
    scratch::close();
    code
}
