//! The other machine: a network of its own, joined to this one by a veth link.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::{Context, Result};
use testbed::network::linked;

use crate::workspace;

/// A handle to the other machine, which starts processes there.
#[derive(Clone)]
pub(in crate::compare) struct Far(Sender<StartRequest>);

struct StartRequest {
    command: Command,
    started: Sender<io::Result<Child>>,
}

/// Runs `body` in a network that is joined to that of another machine; without one where such networks cannot be
/// made.
///
/// # Errors
/// Those of `body`.
pub(in crate::compare) fn beside_another_machine(
    body: impl FnOnce(Option<&Far>) -> Result<()> + Send,
) -> Result<()> {
    if why_alone().is_some() {
        return body(None);
    }
    let (requests, received) = channel();
    linked(move |_| body(Some(&Far(requests))), move |_| start_each(&received))
}

/// Why there is no other machine here.
pub(super) fn why_alone() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root, to make networks");
    }
    workspace::find_program("ip").is_none().then_some("needs ip: apt-get install iproute2")
}

/// Processes that a thread starts are in its network.
fn start_each(requests: &Receiver<StartRequest>) {
    for StartRequest { mut command, started } in requests {
        // Whoever does not wait for it has failed otherwise.
        let _ = started.send(command.spawn());
    }
}

impl Far {
    /// Starts a process there.
    pub(super) fn start(&self, command: Command) -> Result<Child> {
        let (started, result) = channel();
        let shown = format!("{command:?}");
        self.0.send(StartRequest { command, started }).ok().context("the other machine is gone")?;
        let child = result.recv().context("the other machine is gone")?;
        child.with_context(|| format!("cannot start {shown}"))
    }
}
