//! Memory in the fields of messages, from peers that are honest and from others, in requests and in answers.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::thread;

use rustix::fs::{SealFlags, fcntl_add_seals};
use testbed::{LONG, Transport};
use uncopy_channel::{
    Deadline, Descriptor, EventPair, MemoryRefusal, Object, Rights, Signals, Status, Vmo,
};
use uncopy_fidl::{Departing, Fidl, Layout, ObjectType, OwnedHandle, Rule, encode, take_handles};
use uncopy_fidl_channel::{Failure, FidlHandle, MemoryBuffer, Request, protocol, serve};

const TRANSPORTS: [Transport; 2] = [Transport::Local, Transport::Socket];
const LIMIT: u64 = 1 << 20;

#[protocol(library = "test.memory")]
trait Depot {
    fn swap(buffer: MemoryBuffer) -> MemoryBuffer;
}

/// The same protocol with messages of the same layout, in which a peer can put anything.
mod forged {
    use super::{Fidl, FidlHandle, OwnedHandle, protocol};

    #[derive(Debug, Fidl)]
    #[fidl(resource = FidlHandle)]
    pub(crate) struct Buffer {
        pub(crate) handle: Option<OwnedHandle<FidlHandle>>,
        pub(crate) size: u64,
    }

    #[protocol(library = "test.memory")]
    pub(crate) trait Depot {
        fn swap(buffer: Buffer) -> Buffer;
    }
}

/// A server that keeps what it receives, and answers with what it was given.
struct Server<T> {
    answer: RefCell<Option<T>>,
    received: RefCell<Option<T>>,
}

impl<T> Server<T> {
    fn new(answer: T) -> Server<T> {
        Server { answer: RefCell::new(Some(answer)), received: RefCell::default() }
    }

    fn swap(&self, received: T) -> T {
        self.received.replace(Some(received));
        self.answer.take().unwrap()
    }
}

impl DepotServer for Server<MemoryBuffer> {
    fn swap(&self, request: Request<'_, MemoryBuffer>) -> MemoryBuffer {
        Server::swap(self, request.into_owned())
    }
}

impl forged::DepotServer for Server<forged::Buffer> {
    fn swap(&self, request: Request<'_, forged::Buffer>) -> forged::Buffer {
        Server::swap(self, request.into_owned())
    }
}

/// Deadline of a call whose other end is served by a thread.
fn soon() -> Deadline {
    Deadline::after(LONG)
}

/// Sends one buffer there and another one back.
fn swapped(transport: Transport, there: MemoryBuffer, back: MemoryBuffer) -> [MemoryBuffer; 2] {
    let (near, far) = transport.channels();
    let server = thread::spawn(move || {
        let service = DepotService(Server::new(back));
        serve(&far, &service).unwrap();
        service.0.received.into_inner().unwrap()
    });
    let client = DepotClient::new(near);
    let back = client.swap(there, soon()).unwrap().to_owned_value().unwrap();
    drop(client);
    [server.join().unwrap(), back]
}

/// Returns what a client and a server receive, if the other one sends `forge()`.
fn received(
    transport: Transport,
    forge: impl Fn() -> forged::Buffer,
) -> [Result<MemoryBuffer, Failure>; 2] {
    let honest = || MemoryBuffer::new(memory(4096, b""), 0).unwrap();

    let (near, far) = transport.channels();
    let server = thread::spawn(move || {
        let service = DepotService(Server::new(honest()));
        serve(&far, &service).map(|()| service.0.received.into_inner().unwrap())
    });
    let client = forged::DepotClient::new(near);
    let _ = client.swap(forge(), soon());
    drop(client);
    let by_server = server.join().unwrap();

    let (near, far) = transport.channels();
    let answer = forge();
    let server = thread::spawn(move || {
        serve(&far, &forged::DepotService(Server::new(answer))).unwrap();
    });
    let client = DepotClient::new(near);
    let by_client = client
        .swap(honest(), soon())
        .and_then(|answer| answer.to_owned_value().map_err(Failure::Message));
    drop(client);
    server.join().unwrap();
    [by_server, by_client]
}

fn memory(size: u64, bytes: &[u8]) -> Vmo {
    let memory = Vmo::resizable(size).unwrap();
    memory.write(bytes, 0).unwrap();
    memory
}

fn sealed(size: u64, bytes: &[u8]) -> Vmo {
    let memory = memory(size, bytes);
    memory.seal().unwrap();
    memory
}

fn forge(object: impl Into<uncopy_channel::Handle>, size: u64) -> forged::Buffer {
    forged::Buffer { handle: Some(FidlHandle::new(object).into()), size }
}

/// As `fuchsia.mem.Buffer`: a handle of four bytes, padding, the size.
#[test]
fn a_buffer_has_the_layout_of_fuchsias() {
    assert_eq!((MemoryBuffer::SIZE, MemoryBuffer::ALIGN), (16, 8));
    let mut buffer = MemoryBuffer::new(memory(8192, b""), 0x1234).unwrap();
    let mut leaving = Vec::<Departing<FidlHandle>>::new();
    take_handles(&mut buffer, &mut leaving).unwrap();
    assert_eq!(leaving[0].constraint.object_type, ObjectType::VMO);
    let bytes = encode(&buffer).unwrap();
    assert_eq!(bytes, [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0x34, 0x12, 0, 0, 0, 0, 0, 0]);
    // The handle is gone.
    assert_eq!(buffer.lend(LIMIT).unwrap_err(), Status::BadHandle);
    assert_eq!(buffer.copy(LIMIT).unwrap_err(), Status::BadHandle);
    assert_eq!(buffer.into_memory().map(drop), Err(Status::BadHandle));
}

#[test]
fn sealed_buffers_are_lent_and_others_are_copied_in_both_directions() {
    for transport in TRANSPORTS {
        let long: Vec<u8> = (0..200_001_u32).map(|n| (n % 251) as u8).collect();
        let there = MemoryBuffer::sealed(memory(1 << 18, &long), 200_001).unwrap();
        let back = MemoryBuffer::new(memory(4096, b"written later"), 7).unwrap();
        let [there, back] = swapped(transport, there, back);
        assert_eq!((there.size(), back.size()), (200_001, 7), "{transport:?}");
        assert!(there.copy(LIMIT).unwrap() == long, "{transport:?}");
        let lent = there.lend(LIMIT).unwrap();
        drop(there);
        assert!(*lent == *long, "{transport:?}");
        assert_eq!(back.lend(LIMIT).unwrap_err(), MemoryRefusal::NotSealed.into());
        assert_eq!(back.copy(LIMIT).unwrap(), b"written");

        // The other way round, without bytes, and what was received goes on.
        let short = MemoryBuffer::sealed(memory(4096, b""), 0).unwrap();
        let [back, short] = swapped(transport, back, short);
        assert_eq!(back.copy(7).unwrap(), b"written", "{transport:?}");
        assert_eq!(*short.lend(0).unwrap(), *b"", "{transport:?}");
        assert_eq!(back.into_memory().unwrap().size(), 4096, "{transport:?}");
    }
}

/// The size alone, not the memory in which it is, which comes in pages.
#[test]
fn a_buffer_above_the_limit_of_the_receiver_is_refused() {
    for transport in TRANSPORTS {
        let pair = || {
            let buffer = MemoryBuffer::sealed(memory(8192, b"abc"), 5000).unwrap();
            let other = MemoryBuffer::new(memory(8192, b"abc"), 5000).unwrap();
            swapped(transport, buffer, other)
        };
        let [sealed, unsealed] = pair();
        let refusal = Status::from(MemoryRefusal::TooLarge { bytes: 5000, limit: 4999 });
        assert_eq!(sealed.lend(4999).unwrap_err(), refusal, "{transport:?}");
        assert_eq!(sealed.copy(4999).unwrap_err(), refusal, "{transport:?}");
        assert_eq!(unsealed.copy(4999).unwrap_err(), refusal, "{transport:?}");
        assert_eq!(sealed.lend(5000).unwrap().len(), 5000, "{transport:?}");
        assert_eq!(sealed.copy(u64::MAX).unwrap().len(), 5000, "{transport:?}");
        assert_eq!(sealed.lend(u64::MAX).unwrap().len(), 5000, "{transport:?}");
        assert_eq!(unsealed.copy(5000).unwrap().len(), 5000, "{transport:?}");
    }
}

#[test]
fn more_memory_than_the_receiver_wants_is_not_mapped() {
    for transport in TRANSPORTS {
        for buffer in received(transport, || forge(sealed(1 << 20, b""), 10)) {
            let buffer = buffer.unwrap();
            let refusal = MemoryRefusal::TooLarge { bytes: 1 << 20, limit: 4096 };
            assert_eq!(buffer.lend(10).unwrap_err(), refusal.into(), "{transport:?}");
            assert_eq!(buffer.copy(10).unwrap(), [0; 10], "{transport:?}");
        }
    }
}

#[test]
fn a_size_larger_than_the_memory_is_refused() {
    assert_eq!(MemoryBuffer::new(memory(4096, b""), 4097).unwrap_err(), Status::OutOfRange);
    let unsealed = memory(4096, b"");
    let again = unsealed.duplicate(None).unwrap();
    assert_eq!(MemoryBuffer::sealed(unsealed, 4097).unwrap_err(), Status::OutOfRange);
    assert_eq!(again.examine(LIMIT), Err(MemoryRefusal::NotSealed.into()), "it was not sealed");
    for transport in TRANSPORTS {
        for size in [4097, 8192, u64::MAX] {
            let buffers = received(transport, || forge(sealed(4096, b""), size));
            for buffer in buffers.map(Result::unwrap) {
                assert_eq!(buffer.lend(u64::MAX).unwrap_err(), Status::OutOfRange, "{size}");
                assert_eq!(buffer.copy(u64::MAX).unwrap_err(), Status::OutOfRange, "{size}");
            }
            let buffers = received(transport, || forge(memory(4096, b""), size));
            for buffer in buffers.map(Result::unwrap) {
                assert_eq!(buffer.lend(u64::MAX).unwrap_err(), MemoryRefusal::NotSealed.into());
                assert_eq!(buffer.copy(u64::MAX).unwrap_err(), Status::OutOfRange, "{size}");
            }
        }
    }
}

/// Memory that its sender makes shorter, and then seals.
#[test]
fn memory_that_becomes_shorter_is_refused() {
    for transport in TRANSPORTS {
        let kept = RefCell::new(Vec::new());
        let buffers = received(transport, || {
            let memory = memory(1 << 16, b"");
            kept.borrow_mut().push(memory.duplicate(None).unwrap());
            forge(memory, 1 << 16)
        });
        for (buffer, memory) in buffers.into_iter().zip(kept.into_inner()) {
            let buffer = buffer.unwrap();
            assert_eq!(buffer.lend(LIMIT).unwrap_err(), MemoryRefusal::NotSealed.into());
            assert_eq!(buffer.copy(LIMIT).unwrap().len(), 1 << 16, "{transport:?}");
            memory.set_size(4096).unwrap();
            assert_eq!(buffer.copy(LIMIT).unwrap_err(), Status::OutOfRange, "{transport:?}");
            memory.seal().unwrap();
            assert_eq!(buffer.copy(LIMIT).unwrap_err(), Status::OutOfRange, "{transport:?}");
            assert_eq!(buffer.lend(LIMIT).unwrap_err(), Status::OutOfRange, "{transport:?}");
        }
    }
}

/// The reader would allocate its holes.
#[test]
fn a_sealed_buffer_with_holes_is_not_lent() {
    for transport in TRANSPORTS {
        for buffer in received(transport, || {
            let memory = Vmo::new(8192).unwrap();
            fcntl_add_seals(&memory, SealFlags::WRITE).unwrap();
            forge(memory, 100)
        }) {
            let buffer = buffer.unwrap();
            let refusal = MemoryRefusal::HasHoles { bytes: 8192, allocated: 0 };
            assert_eq!(buffer.lend(LIMIT).unwrap_err(), refusal.into(), "{transport:?}");
            assert_eq!(buffer.copy(LIMIT).unwrap(), [0; 100], "{transport:?}");
            assert_eq!(buffer.lend(LIMIT).unwrap_err(), refusal.into(), "{transport:?}");
        }
    }
}

#[test]
fn what_is_no_memory_ends_the_conversation() {
    for transport in TRANSPORTS {
        let kept = RefCell::new(Vec::new());
        for by in received(transport, || {
            let (near, far) = EventPair::pair();
            kept.borrow_mut().push(near);
            forge(far, 1)
        }) {
            let found = ObjectType::EVENTPAIR;
            assert_eq!(rule(by), Rule::WrongHandleType { expected: ObjectType::VMO, found });
        }
        // The handles that were refused are closed.
        for witness in kept.into_inner() {
            let closed = witness.wait_one(Signals::PEER_CLOSED, soon());
            assert!(closed.unwrap().contains(Signals::PEER_CLOSED), "{transport:?}");
        }
    }
}

/// Fields of any kind accept a descriptor, for which Zircon has no kind.
#[test]
fn a_descriptor_in_place_of_memory_is_neither_lent_nor_copied() {
    for transport in TRANSPORTS {
        let file = || OwnedFd::from(std::fs::File::open("/dev/zero").unwrap());
        for buffer in received(transport, || forge(Descriptor::from(file()), 1)) {
            let buffer = buffer.unwrap();
            assert_eq!(buffer.lend(LIMIT).unwrap_err(), Status::WrongType, "{transport:?}");
            assert_eq!(buffer.copy(LIMIT).unwrap_err(), Status::WrongType, "{transport:?}");
            assert_eq!(buffer.into_memory().map(drop), Err(Status::WrongType), "{transport:?}");
        }
    }
}

#[test]
fn a_buffer_without_a_handle_ends_the_conversation() {
    for transport in TRANSPORTS {
        let absent = || forged::Buffer { handle: None, size: 1 };
        for by in received(transport, absent) {
            assert_eq!(rule(by), Rule::RequiredIsAbsent, "{transport:?}");
        }
    }
}

#[test]
fn rights_are_checked_before_memory_is_lent_or_copied() {
    for transport in TRANSPORTS {
        for (rights, may_lend, may_copy) in [
            (Rights::READ | Rights::MAP, true, true),
            (Rights::READ, false, true),
            (Rights::MAP, false, false),
        ] {
            let rights = rights | Rights::TRANSFER;
            let buffers = received(transport, || {
                forge(sealed(4096, b"yes").replace(Some(rights)).unwrap(), 3)
            });
            for buffer in buffers.map(Result::unwrap) {
                let lent = buffer.lend(LIMIT).map(|bytes| bytes.to_vec());
                let copied = buffer.copy(LIMIT);
                for (bytes, may) in [(lent, may_lend), (copied, may_copy)] {
                    let expected =
                        if may { Ok(b"yes".to_vec()) } else { Err(Status::AccessDenied) };
                    assert_eq!(bytes, expected, "{transport:?}, {rights:?}");
                }
            }
        }
    }
}

fn rule(received: Result<MemoryBuffer, Failure>) -> Rule {
    match received.unwrap_err() {
        Failure::Message(error) => error.rule(),
        other => panic!("{other}"),
    }
}
