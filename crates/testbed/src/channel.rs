//! Channels that tests talk over.

use uncopy::channel::{
    Channel, Deadline, Event, EventPair, Fifo, Handle, MessageBuf, Object, Signals, Socket,
    SocketKind, Status,
};

/// The next message, which is waited for.
///
/// # Errors
/// Why none comes.
pub fn next_message(channel: &Channel, deadline: Deadline) -> Result<MessageBuf, Status> {
    loop {
        match channel.read() {
            Err(Status::ShouldWait) => {
                channel.wait_one(Signals::READABLE | Signals::PEER_CLOSED, deadline)?;
            }
            other => return other,
        }
    }
}

/// What lies between two ends that tests work with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Both are in this process.
    Local,
    /// One has moved to another process, as far as anybody can tell.
    Socket,
    /// Both have, one of them twice.
    Moved,
}

impl Transport {
    /// Both ends of a channel.
    #[must_use]
    pub fn channels(self) -> (Channel, Channel) {
        self.between(Channel::pair())
    }

    /// Both ends of a fifo.
    #[must_use]
    pub fn fifos(self, count: usize, element_bytes: usize) -> (Fifo, Fifo) {
        self.between(Fifo::pair(count, element_bytes).expect("sizes that are possible"))
    }

    /// Both ends of a socket.
    #[must_use]
    pub fn sockets(self, kind: SocketKind) -> (Socket, Socket) {
        self.between(Socket::pair(kind))
    }

    /// Both ends of an event pair.
    #[must_use]
    pub fn event_pairs(self) -> (EventPair, EventPair) {
        self.between(EventPair::pair())
    }

    /// Two handles to one event.
    #[must_use]
    pub fn events(self) -> (Event, Event) {
        let event = Event::new();
        let again = event.duplicate(None).expect("the right to duplicate");
        self.between((event, again))
    }

    /// The bounds are those of the objects, not of the kernel.
    #[must_use]
    pub fn is_local(self) -> bool {
        self == Transport::Local
    }

    fn between<T: Into<Handle> + TryFrom<Handle, Error = Handle>>(self, ends: (T, T)) -> (T, T) {
        let (near, far) = ends;
        match self {
            Transport::Local => (near, far),
            Transport::Socket => (near, carried(far)),
            Transport::Moved => {
                let far = carried(far);
                (carried(near), carried(far))
            }
        }
    }
}

/// The handle as another process gets it.
fn carried<T: Into<Handle> + TryFrom<Handle, Error = Handle>>(handle: T) -> T {
    let (near, far) = Channel::pair();
    let far = Channel::from_fd(far.into_fd().expect("descriptors")).expect("a socket");
    near.write(&[], vec![handle.into()]).expect("room for a message");
    let handle = far.read().expect("the message").take_handles().remove(0);
    T::try_from(handle).expect("a handle of the same kind")
}
