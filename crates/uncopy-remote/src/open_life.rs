//! Life of an open data connection at one end.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::data::StreamCutter;
use crate::link::OnEnd;

/// Byte with which the end that sends files says that it takes calls for the connection.
pub(crate) const READY: u8 = 2;

/// Life of an open data connection.
#[derive(Debug)]
pub(crate) struct OpenLife {
    cutter: StreamCutter,
    is_ready: AtomicBool,
    has_ended: AtomicBool,
    on_end: OnEnd,
}

impl OpenLife {
    /// `on_end` is called once, when the connection ends.
    pub(crate) fn new(cutter: StreamCutter, on_end: OnEnd) -> OpenLife {
        let (is_ready, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
        OpenLife { cutter, is_ready, has_ended, on_end }
    }

    /// Notes that both ends use the connection.
    pub(crate) fn begin(&self) {
        self.is_ready.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Cuts the connection.
    pub(crate) fn end(&self) {
        if !self.has_ended.swap(true, Ordering::Relaxed) {
            self.cutter.cut();
            self.on_end.call();
        }
    }
}
