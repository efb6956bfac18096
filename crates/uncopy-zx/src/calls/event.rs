//! Events and event pairs.

use uncopy_channel::{Event, EventPair, Object, Signals, Status};

use super::handle::{give, give_both};
use crate::abi::{zx_handle_t, zx_signals_t};
use crate::sys::boundary::exported;
use crate::sys::memory::Out;
use crate::table;

exported! {
    /// Makes an event.
    fn zx_event_create(options: u32, out: Out<zx_handle_t>) {
        if options != 0 {
            return Err(Status::InvalidArgs);
        }
        give(Event::new(), out)
    }

    /// Makes a pair of events.
    fn zx_eventpair_create(options: u32, out0: Out<zx_handle_t>, out1: Out<zx_handle_t>) {
        if options != 0 {
            return Err(Status::NotSupported);
        }
        give_both(EventPair::pair().into(), out0, out1)
    }

    /// Changes signals of an object.
    fn zx_object_signal(handle: zx_handle_t, clear_mask: zx_signals_t, set_mask: zx_signals_t) {
        let [clear, set] = [clear_mask, set_mask].map(Signals::from_bits_retain);
        table::lease(handle)?.signal(clear, set)
    }

    /// Changes signals of the other end of an object.
    fn zx_object_signal_peer(
        handle: zx_handle_t,
        clear_mask: zx_signals_t,
        set_mask: zx_signals_t,
    ) {
        let [clear, set] = [clear_mask, set_mask].map(Signals::from_bits_retain);
        table::lease(handle)?.signal_peer(clear, set)
    }
}
