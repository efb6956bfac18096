//! Attacks of a peer that breaks the rules on its end of the socket. Every byte string is an attack.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::CreateFlags;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags,
    SocketType,
};
use uncopy::channel::{
    AsyncOptions, Channel, Deadline, Handle, MessageBuf, Object, Port, Signals, Status,
};

/// Maximum number of reads until a closed peer must be reported.
const MAX_READS: usize = 100_000;
/// First byte of a valid packet.
const MAGIC: u8 = 0xc1;
const MESSAGE: u8 = 0;
const SIGNALS: u8 = 1;
const BACKLOG: u8 = 3;
const CUT: u8 = 4;
/// Numbers of all kinds of objects, and an unknown one.
const KINDS: [u8; 9] = [0, 3, 4, 5, 6, 14, 16, 19, 77];

/// Reads the attack's bytes in order, and zeros at the end.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn up_to(&mut self, max: usize) -> usize {
        usize::from(u16::from_ne_bytes([self.byte(), self.byte()])) % (max + 1)
    }

    fn word(&mut self) -> [u8; 4] {
        [(); 4].map(|()| self.byte())
    }
}

/// Both sides of the attack, and the handles that the victim has received.
struct Scene {
    attacker: OwnedFd,
    victim: Channel,
    port: Port,
    received: Vec<MessageBuf>,
}

fn sockets(kind: SocketType) -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None).unwrap()
}

/// Returns a descriptor of some kind, and another to keep open as long.
fn descriptor(choice: u8) -> (OwnedFd, Option<OwnedFd>) {
    let memory = |size| {
        let fd = memfd_create("hostile", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, size).unwrap();
        fd
    };
    match choice % 9 {
        0 => (memory(4096), None),
        1 => {
            let fd = memory(4096);
            let again = fd.try_clone().unwrap();
            (fd, Some(again))
        }
        2 => (memory(1), None),
        3 => (eventfd(u32::MAX, EventfdFlags::CLOEXEC).unwrap(), None),
        4 => {
            let (a, b) = sockets(SocketType::SEQPACKET);
            (a, Some(b))
        }
        5 => (sockets(SocketType::SEQPACKET).0, None),
        6 => (sockets(SocketType::STREAM).0, None),
        7 => (rustix::event::epoll::create(CreateFlags::CLOEXEC).unwrap(), None),
        _ => (std::fs::File::open("/dev/null").unwrap().into(), None),
    }
}

impl Scene {
    fn new() -> Scene {
        let (attacker, victim) = sockets(SocketType::SEQPACKET);
        let victim = Channel::from_fd(victim).unwrap();
        Scene { attacker, victim, port: Port::new(), received: Vec::new() }
    }

    /// Sends as far as the kernel accepts it.
    fn send(&self, bytes: &[u8], fds: &[OwnedFd]) {
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&fds));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let _ = rustix::net::sendmsg(&self.attacker, &[IoSlice::new(bytes)], &mut control, flags);
    }

    /// Sends a plausible packet, sometimes with wrong numbers.
    fn send_packet(&self, script: &mut Script<'_>) {
        let count = script.up_to(8);
        let (mut records, mut fds, mut alive) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..count {
            let own = usize::from(script.byte() % 5);
            let claimed = if script.byte() < 230 { own as u8 } else { script.byte() };
            records.extend([KINDS[usize::from(script.byte()) % KINDS.len()], claimed, 0, 0]);
            records.extend(script.word());
            records.extend([script.word(), script.word()].concat());
            for _ in 0..own {
                let (fd, with) = descriptor(script.byte());
                fds.push(fd);
                alive.extend(with);
            }
        }
        let bytes = vec![script.byte(); script.up_to(70_000)];
        let mut header = vec![MAGIC, MESSAGE];
        header.extend((count as u16).to_ne_bytes());
        header.extend((bytes.len() as u32).to_ne_bytes());
        if script.byte() > 200 {
            let at = script.up_to(7);
            header[at] = script.byte();
        }
        self.send(&[header, bytes, records].concat(), &fds);
        for memory in alive {
            // Memory is shortened; sockets are closed.
            let _ = ftruncate(&memory, 0);
        }
    }

    fn step(&mut self, script: &mut Script<'_>) {
        match script.byte() % STEPS {
            0 => {
                let garbage: Vec<u8> = (0..script.up_to(40)).map(|_| script.byte()).collect();
                self.send(&garbage, &[]);
            }
            1..=3 => self.send_packet(script),
            4 => {
                let mut packet = vec![MAGIC, SIGNALS, 0, 0, 8, 0, 0, 0];
                packet.extend([script.word(), script.word()].concat());
                (0..script.up_to(2000)).for_each(|_| self.send(&packet, &[]));
            }
            5 => {
                let count = script.up_to(20);
                let fds: Vec<_> = (0..count).map(|_| descriptor(script.byte())).collect();
                let (fds, _alive): (Vec<_>, Vec<_>) = fds.into_iter().unzip();
                (0..=script.up_to(50))
                    .for_each(|_| self.send(&[MAGIC, BACKLOG, 0, 0, 0, 0, 0, 0], &fds));
            }
            6 => {
                let how = [Shutdown::Read, Shutdown::Write, Shutdown::Both];
                let _ = rustix::net::shutdown(&self.attacker, how[script.up_to(2)]);
            }
            7 => self.read(),
            8 => {
                let _ = self.victim.wait_one(Signals::all(), Deadline::after(NOTHING));
                let _ = self.victim.signals();
            }
            9 => {
                let options = AsyncOptions::empty();
                let _ = self.victim.wait_async(&self.port, 1, Signals::READABLE, options);
                let _ = self.port.wait(Deadline::after(NOTHING));
            }
            10 => self.send(&[MAGIC, CUT, 0, 0, 2, 0, 0, 0, 7, 7], &[]),
            11 => {
                let _ = self.victim.write(&[IoSlice::new(b"good morning")], vec![]);
                let _ = self.victim.signal_peer(Signals::empty(), Signals::USER_0);
            }
            _ => {
                let _ =
                    self.victim.call(&[IoSlice::new(b"0000")], vec![], Deadline::after(NOTHING));
            }
        }
    }

    fn read(&mut self) {
        if let Ok(message) = self.victim.read() {
            message.handles().iter().for_each(use_it);
            self.received.push(message);
        }
        self.received.truncate(4);
    }
}

const NOTHING: std::time::Duration = std::time::Duration::ZERO;

/// Uses a handle by its kind.
fn use_it(handle: &Handle) {
    let _ = handle.signals();
    let _ = handle.signal(Signals::empty(), Signals::USER_2);
    let _ = handle.signal_peer(Signals::empty(), Signals::USER_3);
    let mut bytes = [0; 64];
    match handle {
        Handle::Channel(channel) => {
            let _ = channel.write(&[IoSlice::new(b"x")], vec![]);
            let _ = channel.read();
        }
        Handle::Vmo(memory) => {
            let _ = memory.read(&mut bytes, 0);
            let _ = memory.write(&bytes, 4000);
        }
        Handle::Fifo(fifo) => {
            let _ = fifo.read(&mut bytes);
            let _ = fifo.write(&bytes);
        }
        Handle::Socket(socket) => {
            let _ = socket.read(&mut bytes);
            let _ = socket.write(&bytes);
            let _ = socket.disable_write();
        }
        _ => {}
    }
}

/// Number of kinds of steps.
const STEPS: u8 = 13;

/// Plays an attack of one step of each kind. A thread has opened then what it keeps, as the descriptor with which it waits
/// for calls.
pub(crate) fn play_each_step() {
    (0..STEPS).for_each(|step| play(&[step, 0, 0, step, step], || ()));
}

/// Plays the attack, and looks after each step with `look`.
///
/// # Panics
/// If the victim does not see the peer closed once the attacker is gone, or receives something after
/// that.
pub(crate) fn play(attack: &[u8], mut look: impl FnMut()) {
    let mut scene = Scene::new();
    let mut script = Script(attack);
    while !script.0.is_empty() {
        scene.step(&mut script);
        look();
    }
    let Scene { attacker, victim, .. } = scene;
    drop(attacker);
    for _ in 0..MAX_READS {
        match victim.read() {
            Ok(message) => message.handles().iter().for_each(use_it),
            // A peer may say that a message was cut off on its way.
            Err(Status::ShouldWait | Status::DescriptorLimit { .. }) => {}
            Err(status) => {
                assert_eq!(status, Status::PeerClosed);
                assert_eq!(victim.signals() & !Signals::USER_ALL, Signals::PEER_CLOSED);
                assert_eq!(victim.read().unwrap_err(), Status::PeerClosed);
                return;
            }
        }
    }
    panic!("the victim reads for ever");
}
