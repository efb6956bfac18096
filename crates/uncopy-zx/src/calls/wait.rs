//! Blocking waits.

use uncopy_channel::{MAX_WAIT_ITEMS, Object, Rights, Signals, Status, WaitItem, wait_many};

use super::clock::deadline_at;
use crate::abi::{zx_handle_t, zx_signals_t, zx_time_t, zx_wait_item_t};
use crate::sys::boundary::exported;
use crate::sys::memory::Out;
use crate::table::{self, Lease};

exported! {
    /// Waits for a signal of one object.
    fn zx_object_wait_one(
        handle: zx_handle_t,
        signals: zx_signals_t,
        deadline: zx_time_t,
        observed: Out<zx_signals_t>,
    ) {
        let lease = table::lease(handle)?;
        let result = lease.wait_one(Signals::from_bits_retain(signals), deadline_at(deadline));
        let set = match result {
            Ok(set) => set,
            Err(Status::TimedOut) => lease.signals(),
            Err(Status::Canceled) => lease.signals() | Signals::HANDLE_CLOSED,
            Err(status) => return Err(status),
        };
        observed.write_if_wanted(set.bits())?;
        result.map(drop)
    }

    /// Waits for a signal of several objects.
    fn zx_object_wait_many(array: Out<zx_wait_item_t>, num_items: usize, deadline: zx_time_t) {
        if num_items > MAX_WAIT_ITEMS {
            return Err(Status::OutOfRange);
        }
        let mut requested = array.as_in().read_some(0, num_items)?;
        let leases = requested.iter().map(|item| lease_to_wait(item.handle));
        let leases = leases.collect::<Result<Vec<Lease>, Status>>()?;
        let mut items: Vec<WaitItem<'_>> = leases
            .iter()
            .zip(&requested)
            .map(|(lease, item)| WaitItem::new(&**lease, Signals::from_bits_retain(item.waitfor)))
            .collect();
        let result = wait_many(&mut items, deadline_at(deadline));
        if !matches!(result, Ok(()) | Err(Status::TimedOut | Status::Canceled)) {
            return result;
        }
        for (item, done) in requested.iter_mut().zip(&items) {
            item.pending = done.pending.bits();
        }
        array.write_all(&requested)?;
        result
    }
}

fn lease_to_wait(handle: zx_handle_t) -> Result<Lease, Status> {
    let lease = table::lease(handle)?;
    lease.check_rights(Rights::WAIT)?;
    Ok(lease)
}
