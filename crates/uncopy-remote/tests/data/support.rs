//! Two ends in this process, and data that show where they belong.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect as connect_socket, socket_with,
};
use uncopy_remote::data::{
    self, AnnouncementId, ConnectFailure, DataListener, DataStream, EndKeys, ListenOptions,
    ListenerEvent, Pinned, PublicKey, Refusals, Token,
};

/// Time that nothing here needs.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Keys of both ends, and the listener of the far one.
pub(crate) struct Ends {
    pub(crate) near: Pinned,
    pub(crate) far_key: PublicKey,
    pub(crate) listener: DataListener,
}

pub(crate) fn options(ip: &str) -> ListenOptions {
    let mut options = ListenOptions::new(ip.parse().unwrap(), ip.parse().unwrap());
    options.announced = LONG;
    options.handshake = LONG;
    options
}

impl Ends {
    pub(crate) fn new(options: &ListenOptions) -> Ends {
        let (near, far) = (EndKeys::generate().unwrap(), EndKeys::generate().unwrap());
        let listener = DataListener::bind(options, &far.pin(near.public())).unwrap();
        Ends { near: near.pin(far.public()), far_key: far.public(), listener }
    }

    /// Listens on 127.0.0.1.
    pub(crate) fn local() -> Ends {
        Ends::new(&options("127.0.0.1"))
    }

    pub(crate) fn connect(&self, token: &Token) -> Result<DataStream, ConnectFailure> {
        data::connect(&[self.listener.address()], &self.near, token, LONG)
    }

    pub(crate) fn connected(&self) -> (AnnouncementId, DataStream) {
        match self.listener.wait(Some(LONG)) {
            ListenerEvent::Connected { announcement, stream } => (announcement, stream),
            other => panic!("{other:?}"),
        }
    }

    /// Announces a connection and makes it: its number, the near end, the far end.
    pub(crate) fn pair(&self) -> (AnnouncementId, DataStream, DataStream) {
        let (announced, token) = self.listener.announce().unwrap();
        let near = self.connect(&token).unwrap();
        let (connected, far) = self.connected();
        assert_eq!(connected, announced);
        (announced, near, far)
    }

    /// Waits until the listener has counted these.
    pub(crate) fn wait_for(&self, expected: impl Fn(Refusals) -> bool) {
        let begun = Instant::now();
        while !expected(self.listener.refusals()) {
            assert!(begun.elapsed() < LONG, "{:?}", self.listener.refusals());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Connects without TLS from an address of this machine.
pub(crate) fn plain_from(ip: &str, to: SocketAddr) -> TcpStream {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &SocketAddr::new(ip.parse().unwrap(), 0)).unwrap();
    connect_socket(&socket, &to).unwrap();
    TcpStream::from(socket)
}

/// Data of which no part is like another one.
pub(crate) fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(bytes).collect()
}
