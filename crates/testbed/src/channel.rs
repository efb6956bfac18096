//! Channels for tests.

use uncopy::channel::{Channel, Event, EventPair, Fifo, Handle, Object, Socket, SocketKind};

/// Placement of the two ends that a test uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Both ends are in this process.
    Local,
    /// One end moved to another process, as the peer sees it.
    Socket,
    /// Both ends moved, one of them twice.
    Moved,
}

impl Transport {
    /// Makes both ends of a channel.
    #[must_use]
    pub fn channels(self) -> (Channel, Channel) {
        self.between(Channel::pair())
    }

    /// Makes both ends of a fifo.
    #[must_use]
    pub fn fifos(self, count: usize, element_bytes: usize) -> (Fifo, Fifo) {
        self.between(Fifo::pair(count, element_bytes).expect("sizes that are possible"))
    }

    /// Makes both ends of a socket.
    #[must_use]
    pub fn sockets(self, kind: SocketKind) -> (Socket, Socket) {
        self.between(Socket::pair(kind))
    }

    /// Makes both ends of an event pair.
    #[must_use]
    pub fn event_pairs(self) -> (EventPair, EventPair) {
        self.between(EventPair::pair())
    }

    /// Makes two handles to one event.
    #[must_use]
    pub fn events(self) -> (Event, Event) {
        let event = Event::new();
        let again = event.duplicate(None).expect("the right to duplicate");
        self.between((event, again))
    }

    /// The limits here are the objects' own, not the kernel's.
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

/// Returns the handle as another process receives it.
///
/// # Panics
/// If descriptors run out.
pub fn carried<T: Into<Handle> + TryFrom<Handle, Error = Handle>>(handle: T) -> T {
    let (near, far) = Channel::pair();
    let far = Channel::from_fd(far.into_fd().expect("descriptors")).expect("a socket");
    near.write(&[], vec![handle.into()]).expect("room for a message");
    let handle = far.read().expect("the message").take_handles().remove(0);
    T::try_from(handle).expect("a handle of the same kind")
}
