//! Mount sessions for programs that are not tests.

use std::path::Path;
use std::process::ExitCode;

use crate::sandbox::{self, Sandbox};
use crate::scratch;

/// Runs `body` as root in new mount and process namespaces: its mounts disappear afterwards,
/// however it ends. Files and images of the run are in a new directory in `base`
/// ([`Place::Disk`](crate::Place::Disk)), which is removed at the end.
///
/// The program is started again inside the namespace, with the same arguments; only there `body`
/// runs.
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
