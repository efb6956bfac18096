//! Wraps an observer so that its copy waits at the gate of its context.

use std::path::Path;

use super::context::CopyContext;
use super::control::Control;
use super::observer::{Consent, Observer, Phase, Progress};
use super::pause::{Gate, Inside, Passed};

/// An observer whose copy waits at the gate of its context.
pub(super) struct Gated<'a> {
    observer: &'a mut dyn Observer,
    context: CopyContext<'a>,
    _inside: Option<Inside>,
}

impl<'a> Gated<'a> {
    pub(super) fn new(observer: &'a mut dyn Observer, context: CopyContext<'a>) -> Gated<'a> {
        Gated { observer, context, _inside: context.gate.map(Gate::enter) }
    }

    /// Waits if the gate is closed before the copy begins.
    pub(super) fn begin(&mut self) -> Control {
        match self.context.gate {
            Some(gate) if gate.is_closed() => {
                self.progress(Progress { phase: Phase::Copying, done_bytes: 0, total_bytes: 0 })
            }
            _ => Control::Continue,
        }
    }
}

impl Observer for Gated<'_> {
    fn progress(&mut self, progress: Progress) -> Control {
        let Some(gate) = self.context.gate else { return self.observer.progress(progress) };
        match gate.pass(|| self.observer.progress(progress)) {
            Passed::Open => Control::Continue,
            Passed::Opened(at) => {
                if let Some(throttle) = self.context.throttle {
                    throttle.restart(at);
                }
                Control::Continue
            }
            Passed::Stopped => Control::Stop,
        }
    }

    fn may_replace(&mut self, destination: &Path) -> Consent {
        self.observer.may_replace(destination)
    }
}
