//! The other machine: a network of its own, joined to this one by a veth link.

use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};

use anyhow::{Context, Result};
use testbed::network::{Network, linked};

use crate::workspace;

/// A handle to the other machine.
#[derive(Clone)]
pub(in crate::compare) struct Far(Sender<Job>);

/// Something that is done there.
type Job = Box<dyn FnOnce(&Network) + Send>;

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
    let (jobs, received) = channel::<Job>();
    let each = move |network: &Network| received.into_iter().for_each(|job| job(network));
    linked(move |_| body(Some(&Far(jobs))), each)
}

/// Why there is no other machine here.
pub(super) fn why_alone() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root, to make networks");
    }
    workspace::find_program("ip").is_none().then_some("needs ip: apt-get install iproute2")
}

impl Far {
    /// Does something there.
    pub(super) fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Network) -> T + Send + 'static,
    ) -> Result<T> {
        let (done, result) = channel();
        let job: Job = Box::new(move |network| {
            // Whoever does not wait for it has failed otherwise.
            let _ = done.send(job(network));
        });
        self.0.send(job).ok().context("the other machine is gone")?;
        result.recv().context("the other machine is gone")
    }

    /// Starts a process there: those that a thread starts are in its network.
    pub(super) fn start(&self, mut command: Command) -> Result<Child> {
        let shown = format!("{command:?}");
        self.run(move |_| command.spawn())?.with_context(|| format!("cannot start {shown}"))
    }
}
