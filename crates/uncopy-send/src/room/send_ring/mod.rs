//! Sends through io_uring, and the memory they lend (`io_uring_enter(2)`, `IORING_OP_SEND_ZC`).
//!
//! Soundness: an [`Operation`] owns everything that its request points to. It is dropped or given back only
//! before the request was given to the kernel, or after the kernel has ended it: with a result that
//! announces no notification, or with the notification that a result announced (`IORING_CQE_F_MORE`, which
//! errors can carry too). A ring that is dropped is parked until then; at the end of its thread it waits,
//! and leaks the operations that do not end in time. A ring that is forgotten, or that a child of `fork(2)`
//! drops, keeps everything for ever.

mod completion_sink;
mod operation;
mod operation_table;
mod orphans;
mod process_ring;

use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};

use super::inet::{InetSocket, Transport};
use super::writer::Writer;
use crate::room::{Pool, StableBytes};
use completion_sink::DiscardSink;
pub(crate) use completion_sink::{CompletionSink, IndexedSocket};
use operation::Ability;
pub(crate) use operation::Operation;
use operation_table::OperationTable;
pub(crate) use orphans::{ParkOnDrop, sweep};
use process_ring::ProcessRing;
use uncopy_core::Errno;
use uncopy_os::Sys;
use uncopy_os::uring::errno_of;

/// Maximum number of pools that a ring can register.
pub(crate) const MAX_POOLS: u32 = 64;
/// Maximum number of sockets that are registered with a ring, so that the kernel neither looks them up nor
/// counts references with each request (`IOSQE_FIXED_FILE`). Further sockets are used by descriptor.
const MAX_FIXED: u32 = 256;
/// Maximum number of bytes of one request (`MAX_RW_COUNT` in `include/linux/fs.h`).
pub(crate) const MAX_BYTES: usize = 0x7fff_f000;
/// `IORING_NOTIF_USAGE_ZC_COPIED` (`include/uapi/linux/io_uring.h`).
const ZC_COPIED: u32 = 1 << 31;
/// `IORING_ENTER_GETEVENTS` (same file).
const GETEVENTS: u32 = 1 << 0;
/// User data of requests whose completion is ignored.
const IGNORED: u64 = u64::MAX;

/// Parameters of a new ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setup {
    /// Maximum number of requests that one call submits; rounded up to a power of two.
    pub(crate) entries: u32,
    /// Size of the completion queue; `None`: four for each entry.
    pub(crate) completions: Option<u32>,
    /// How long the connections of a dropped ring are kept before they are aborted.
    pub(crate) linger: Duration,
}

/// The pools that a ring has registered, for other rings.
pub(crate) struct Registered {
    /// A ring that only holds the registration. `None`: the kernel cannot clone registrations.
    ring: Option<ProcessRing>,
    pub(crate) pools: Vec<Pool>,
}

/// A ring that sends.
pub(crate) struct SendRing<B: StableBytes, C> {
    ring: ProcessRing,
    table: OperationTable<B, C>,
    linger: Duration,
    /// `IORING_SETUP_SINGLE_ISSUER`: only the thread that made the ring may use it.
    _thread: PhantomData<*const ()>,
}

impl<B: StableBytes, C> SendRing<B, C> {
    /// Makes a ring for the calling thread; as its only issuer where the kernel supports that.
    pub(crate) fn new(setup: Setup) -> Sys<SendRing<B, C>> {
        let entries = setup.entries.next_power_of_two();
        let completions = setup.completions.unwrap_or(entries.saturating_mul(4));
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            // Without it each call would end at the first send that may not lock its memory.
            .setup_submit_all()
            .setup_cqsize(completions)
            .dontfork()
            .build(entries)
            .or_else(|_| IoUring::builder().setup_cqsize(completions).dontfork().build(entries))
            .map_err(|error| errno_of(&error))?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe).map_err(|error| errno_of(&error))?;
        let needed = [opcode::SendZc::CODE, opcode::SendMsgZc::CODE];
        if !needed.iter().all(|code| probe.is_supported(*code)) {
            return Err(Errno::EOPNOTSUPP);
        }
        // If this fails, all sockets are used by descriptor.
        let _ = ring.submitter().register_files_sparse(MAX_FIXED);
        Ok(SendRing {
            ring: ProcessRing::new(ring),
            table: OperationTable::new(Ability::of(&uncopy_os::probe::kernel_release())),
            linger: setup.linger,
            _thread: PhantomData,
        })
    }

    /// Has the kernel look up and pin the pages of a pool once. The ring keeps the pool's memory as long as
    /// it lives. `ENOMEM`: more memory than may be locked.
    pub(crate) fn register(&mut self, pool: &Pool) -> Sys<()> {
        if self.table.pools.is_empty() {
            match self.ring.submitter().register_buffers_sparse(MAX_POOLS) {
                Err(error) if errno_of(&error) != Errno::EBUSY => return Err(errno_of(&error)),
                _ => {}
            }
        }
        let index = u32::try_from(self.table.pools.len()).ok().filter(|index| *index < MAX_POOLS);
        let index = index.ok_or(Errno::EMFILE)?;
        let region = libc::iovec { iov_base: pool.start().as_ptr().cast(), iov_len: pool.length() };
        // SAFETY: the memory stays mapped as long as the pool, a handle of which is kept until the ring is
        // dropped; and the kernel pins the pages.
        let registered =
            unsafe { self.ring.submitter().register_buffers_update(index, &[region], None) };
        registered.map_err(|error| errno_of(&error))?;
        self.table.pools.push(pool.clone());
        Ok(())
    }

    /// Returns the registered pools, for other rings, also in other threads.
    ///
    /// Only the owning thread may clone from a ring with a single issuer (`EEXIST`), so the registration is
    /// first cloned into a small ring without one.
    pub(crate) fn registered(&self) -> Registered {
        let ring = IoUring::builder().dontfork().build(1).and_then(|ring| {
            ring.submitter().register_buffers_clone(self.ring.as_raw_fd())?;
            Ok(ProcessRing::new(ring))
        });
        Registered { ring: ring.ok(), pools: self.table.pools.clone() }
    }

    /// Clones the registration of another ring, without the kernel looking up the pages again (Linux 6.12).
    /// `EBUSY`: this ring has registered buffers already.
    pub(crate) fn register_clone(&mut self, registered: &Registered) -> Sys<()> {
        let from = registered.ring.as_ref().ok_or(Errno::EOPNOTSUPP)?;
        let clone = self.ring.submitter().register_buffers_clone(from.as_raw_fd());
        clone.map_err(|error| errno_of(&error))?;
        self.table.pools = registered.pools.clone();
        Ok(())
    }

    /// Returns whether the pool is registered.
    pub(crate) fn has(&self, pool: &Pool) -> bool {
        self.table.pools.iter().any(|known| known.is(pool))
    }

    /// Adds a socket for the lifetime of the ring, under the next index.
    pub(crate) fn add(&mut self, socket: Arc<InetSocket>) {
        let index = self.table.sockets.len();
        if index == self.table.fixed && index < MAX_FIXED as usize && !self.is_inherited() {
            let descriptors = [socket.fd().as_raw_fd()];
            let registered =
                self.ring.submitter().register_files_update(index as u32, &descriptors);
            self.table.fixed += usize::from(registered.is_ok());
        }
        self.table.writers.push(Some(Writer::new(socket.clone())));
        self.table.sockets.push(socket);
    }

    /// Returns whether the ring belongs to the process that forked this one.
    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        self.ring.is_inherited()
    }

    /// Ends each stream over which all sends have their results.
    pub(crate) fn end_streams(&mut self) {
        self.table.end_streams();
    }

    pub(crate) fn socket(&self, index: usize) -> Option<&InetSocket> {
        self.table.sockets.get(index).map(|socket| &**socket)
    }

    /// Takes in the send that `make` returns, whose socket was added; returns its number.
    #[inline]
    pub(crate) fn push(&mut self, make: impl FnOnce() -> Operation<B, C>) -> u64 {
        self.table.push(make)
    }

    /// Returns the number of sends that were not submitted.
    pub(crate) fn waiting(&self) -> usize {
        self.table.waiting()
    }

    /// Submits waiting sends, as far as the queue has room, and waits for `want` completions or until the
    /// timeout (`None`: none).
    ///
    /// Consecutive sends of a stream are submitted together as a linked chain. The next chain is submitted
    /// after the results of the one before: otherwise it would overtake a send that finds the socket full.
    pub(crate) fn submit(&mut self, want: usize, timeout: Option<Duration>) -> Sys<()> {
        let mut queue = self.ring.submission();
        self.table.fill(&mut queue);
        let (count, is_due) = (queue.len(), queue.taskrun() || queue.cq_overflow());
        drop(queue);
        // Waits for no more completions than can come.
        let want = want.min(self.table.in_kernel);
        let submitter = self.ring.submitter();
        let submitted = match (want, timeout) {
            // Asks for all completions with a timeout of zero: with fewer wanted, the kernel processes only
            // twenty in a call (`IO_LOCAL_TW_DEFAULT_MAX` in `io_uring/io_uring.c`).
            (0, _) if count > 0 => {
                let time = Timespec::new();
                submitter.submit_with_args(count, &SubmitArgs::new().timespec(&time))
            }
            (1.., Some(timeout)) => {
                let time = Timespec::from(timeout);
                submitter.submit_with_args(want, &SubmitArgs::new().timespec(&time))
            }
            (0, _) if !is_due => return Ok(()),
            // SAFETY: no argument is passed. The memory that the queued entries point to is kept by `table`
            // (see `OperationTable::queue`).
            _ => unsafe {
                // `GETEVENTS` also posts notifications that are ready.
                submitter.enter::<libc::sigset_t>(count as u32, want as u32, GETEVENTS, None)
            },
        };
        match submitted.map_err(|error| errno_of(&error)) {
            Ok(taken) if taken < count => {
                // The kernel has no memory for more requests. Aborts the streams whose chain it has split,
                // so that their peers read no gap.
                let split = self.table.split_streams((count - taken) as u64);
                split.iter().for_each(|socket| socket.abort());
                Ok(())
            }
            // ETIME: the timeout is over. EBUSY: completions overflowed and must be read first.
            Ok(_) | Err(Errno::EINTR | Errno::EAGAIN | Errno::EBUSY | ETIME) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Asks the kernel to end a send early; the result of the send shows whether it did. A send that was not
    /// submitted ends at once.
    pub(crate) fn cancel(&mut self, number: u64, sink: &mut impl CompletionSink<B, C>) {
        if !self.table.cancel(number, sink) {
            return;
        }
        let entry = opcode::AsyncCancel::new(number).build().user_data(IGNORED);
        // SAFETY: the request points to no memory.
        let mut pushed = unsafe { self.ring.submission().push(&entry) };
        if pushed.is_err() && self.submit(0, None).is_ok() {
            // SAFETY: the request points to no memory. If this fails too, the send ends normally.
            pushed = unsafe { self.ring.submission().push(&entry) };
        }
        self.table.requests += u64::from(pushed.is_ok());
    }

    /// Handles all completions in the queue; returns whether there were any.
    pub(crate) fn reap(&mut self, sink: &mut impl CompletionSink<B, C>) -> Sys<bool> {
        if self.ring.completion().is_empty() && self.has_deferred_work() {
            self.submit(0, None)?;
        }
        let mut has_any = false;
        for completion in self.ring.completion() {
            has_any = true;
            let (number, flags) = (completion.user_data(), completion.flags());
            if cqueue::notif(flags) {
                let copied = completion.result() as u32 & ZC_COPIED != 0;
                self.table.notified(number, copied, sink);
            } else if number != IGNORED {
                let result = completion.result();
                let result = usize::try_from(result).map_err(|_| Errno::from_raw(-result));
                self.table.ended(number, result, cqueue::more(flags), sink);
            }
        }
        Ok(has_any)
    }

    /// Returns whether completions wait in the kernel until the next call.
    fn has_deferred_work(&mut self) -> bool {
        let queue = self.ring.submission();
        queue.taskrun() || queue.cq_overflow()
    }

    /// Waits until the kernel has ended all operations, up to `patience`; ends each stream as soon as
    /// possible.
    fn settle(&mut self, patience: Duration) {
        let deadline = Instant::now().checked_add(patience);
        while !self.table.is_settled() {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            // Also takes in the operations that have ended when the time is over.
            if self.submit(1, left).is_err() || self.reap(&mut DiscardSink).is_err() {
                return;
            }
            self.table.end_streams();
            if left == Some(Duration::ZERO) {
                return;
            }
        }
    }
}

/// `ETIME` (`errno(3)`).
const ETIME: Errno = Errno::from_raw(62);

/// Time to wait after connections were aborted; their memory is normally released at once.
const AFTER_ABORT: Duration = Duration::from_secs(1);

impl<B: StableBytes, C> Drop for SendRing<B, C> {
    fn drop(&mut self) {
        if self.is_inherited() {
            return self.table.abandon();
        }
        // Sends that were not submitted are never made.
        self.table.give_up_waiting();
        self.settle(self.linger);
        if self.table.in_kernel > 0 {
            let sockets = self.table.sockets_in_kernel();
            let streams = sockets.iter().filter(|socket| socket.transport() == Transport::Tcp);
            for socket in streams {
                match self.table.is_under_way(socket) {
                    // The peer must not read the end of a stream whose rest is missing.
                    true => InetSocket::abort(socket),
                    false => InetSocket::abort_unacknowledged(socket),
                }
            }
            self.settle(AFTER_ABORT);
        }
        // Otherwise the kernel would close the sockets, and give locked memory back, some time after the ring.
        if self.table.fixed > 0 {
            let _ = self.ring.submitter().unregister_files();
        }
        // It waits for sends that use the memory.
        if !self.table.pools.is_empty() && self.table.in_kernel == 0 {
            let _ = self.ring.submitter().unregister_buffers();
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Some(ring) = self.ring.as_ref().filter(|ring| !ring.is_inherited()) {
            let _ = ring.submitter().unregister_buffers();
        }
    }
}

impl Registered {
    /// Returns whether the pools belong to the process that forked this one.
    pub(crate) fn is_inherited(&self) -> bool {
        self.pools.iter().any(Pool::is_inherited)
            || self.ring.as_ref().is_some_and(ProcessRing::is_inherited)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{SocketAddr, TcpListener, UdpSocket};
    use std::panic::resume_unwind;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::{Duration, Instant};

    use super::{CompletionSink, IndexedSocket, InetSocket, MAX_FIXED, Operation, SendRing, Setup};
    use crate::room::zerocopy::Completed;
    use crate::room::{PageSize, Payload, Pool, PoolSlice, StableBytes};
    use uncopy_core::Errno;
    use uncopy_os::Sys;
    use uncopy_os::probe::{kernel_release, version_of};

    const LONG: Duration = Duration::from_secs(60);

    fn ring() -> SendRing<PoolSlice, ()> {
        ring_with(Setup { entries: 4, completions: None, linger: Duration::ZERO })
    }

    fn ring_with<B: StableBytes>(setup: Setup) -> SendRing<B, ()> {
        testbed::need(testbed::KernelFeature::RingZerocopySends);
        SendRing::new(setup).unwrap()
    }

    /// A ring that is made without these flags would not be noticed otherwise.
    #[test]
    fn a_ring_has_a_single_issuer_where_the_kernel_supports_it() {
        // Deferred task work requires a single issuer (`io_uring_create`), so both came with Linux 6.1.
        if version_of(&kernel_release()) < [6, 1, 0] {
            return;
        }
        assert!(ring().ring.params().is_setup_single_issuer());
    }

    /// Counts results and completed sends.
    #[derive(Default)]
    struct Count {
        ended: usize,
        completed: usize,
    }

    impl<B> CompletionSink<B, ()> for Count {
        fn should_retry_copied(&mut self, _: IndexedSocket<'_>, _: Errno, _: bool) -> bool {
            false
        }

        fn ended(
            &mut self,
            _: u64,
            _: IndexedSocket<'_>,
            _: impl FnOnce() -> Option<SocketAddr>,
            result: Sys<usize>,
        ) {
            result.unwrap();
            self.ended += 1;
        }

        fn completed(&mut self, _: IndexedSocket<'_>, _: Completed<B>, (): ()) {
            self.completed += 1;
        }
    }

    #[test]
    fn completions_that_overflow_the_queue_are_not_lost() {
        const ENTRIES: usize = 8;
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let completions = Some(ENTRIES as u32);
        let setup = Setup { entries: ENTRIES as u32, completions, linger: Duration::ZERO };
        let mut ring = ring_with(setup);
        let socket = InetSocket::connect_udp(receiver.local_addr().unwrap()).unwrap();
        ring.add(Arc::new(socket));
        let count = 5 * ENTRIES;
        for _ in 0..count {
            let payload = Payload::One(vec![5; 50]);
            ring.push(|| Operation::new(payload, 0, None, true, ()));
        }
        // Each send has two completions, and none are read yet.
        ring.submit(0, None).unwrap();
        ring.submit(0, None).unwrap();
        assert!(ring.ring.submission().cq_overflow(), "the kernel keeps some in its overflow list");
        let mut recorded = Count::default();
        let begin = Instant::now();
        while recorded.completed < count {
            assert!(begin.elapsed() < Duration::from_secs(60), "{} completed", recorded.completed);
            ring.submit(0, None).unwrap();
            ring.reap(&mut recorded).unwrap();
        }
        assert_eq!((recorded.ended, ring.table.in_kernel), (count, 0));
        assert!(!ring.ring.submission().cq_overflow());
    }

    #[test]
    fn sockets_beyond_the_registered_ones_are_used_by_descriptor() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut ring = ring_with(Setup { entries: 4, completions: None, linger: LONG });
        let last = MAX_FIXED as usize;
        for _ in 0..=last {
            let socket = InetSocket::connect_udp(receiver.local_addr().unwrap()).unwrap();
            ring.add(Arc::new(socket));
        }
        assert_eq!(ring.table.fixed, last);
        for (index, lend) in [(0, true), (last - 1, false), (last, true), (last, false)] {
            let port = ring.socket(index).unwrap().local_address().unwrap().port();
            ring.push(|| Operation::new(Payload::One(vec![5; 50]), index, None, lend, ()));
            ring.submit(1, None).unwrap();
            let (bytes, from) = receiver.recv_from(&mut [0; 100]).unwrap();
            assert_eq!((bytes, from.port()), (50, port), "{index} {lend}");
        }
    }

    #[test]
    fn connections_are_closed_with_their_ring() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ring = ring();
        ring.add(Arc::new(InetSocket::connect_tcp(listener.local_addr().unwrap()).unwrap()));
        assert_eq!(ring.table.fixed, 1);
        let (mut peer, _) = listener.accept().unwrap();
        peer.set_nonblocking(true).unwrap();
        assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        drop(ring);
        // Over loopback the end arrives at once.
        assert_eq!(peer.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn registered_pools_are_cloned_in_another_thread() {
        let pool = Pool::new(1, 100, PageSize::Base).unwrap();
        let mut first = ring();
        first.register(&pool).unwrap();
        let registered = first.registered();
        drop(first);
        if registered.ring.is_none() {
            // Not supported before Linux 6.12.
            return;
        }
        let cloned = || ring().register_clone(&registered);
        std::thread::scope(|scope| assert_eq!(scope.spawn(cloned).join().unwrap(), Ok(())));
    }

    /// Memory that counts its drops, and may panic when it is dropped.
    struct Fragile {
        bytes: Vec<u8>,
        panics: bool,
        freed: Arc<AtomicU32>,
    }

    // SAFETY: the bytes are those of a `Vec<u8>`, whose contract holds for them.
    unsafe impl StableBytes for Fragile {
        fn bytes(&self) -> &[u8] {
            &self.bytes
        }
    }

    impl Drop for Fragile {
        fn drop(&mut self) {
            self.freed.fetch_add(1, Ordering::Relaxed);
            if self.panics {
                resume_unwind(Box::new("on purpose"));
            }
        }
    }

    #[test]
    fn a_panic_in_the_drop_of_a_buffer_frees_nothing_early() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = InetSocket::connect_tcp(listener.local_addr().unwrap()).unwrap();
        let linger = Duration::from_millis(20);
        let mut ring = ring_with(Setup { entries: 4, completions: None, linger });
        ring.add(Arc::new(socket));
        let freed = Arc::new(AtomicU32::new(0));
        // The peer does not read, so the kernel keeps the second buffer.
        for (length, panics) in [(10, true), (64 << 20, false)] {
            let memory = Fragile { bytes: vec![5; length], panics, freed: freed.clone() };
            ring.push(|| Operation::new(Payload::One(memory), 0, None, false, ()));
        }
        ring.submit(0, None).unwrap();
        assert_eq!((ring.table.in_kernel, freed.load(Ordering::Relaxed)), (2, 0));
        // If the panic unwound from here, it would free memory that is still being sent.
        drop(ring);
        assert_eq!(freed.load(Ordering::Relaxed), 2, "after the connection was aborted");
    }
}
