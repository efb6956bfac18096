//! Sends whose buffers are followed until nobody has them any more.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use testbed::LONG;
use uncopy::send::{
    self, Fate, Message, Mode, Release, Ring, RingEvent, RingOptions, SendId, Sender,
    SenderOptions, Sent,
};

use crate::faults::held;
use crate::faults::roles::{Outcome, PATIENCE, at};

const BYTES: usize = 20_000;
const SENDS: usize = 3;

type Owner = Arc<Vec<u8>>;

/// Every buffer that was ever sent.
static LENT: Mutex<Vec<Weak<Vec<u8>>>> = Mutex::new(Vec::new());

fn buffer() -> Owner {
    let owner = Arc::new(vec![7; BYTES]);
    LENT.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&owner));
    owner
}

/// How many of them somebody still has.
pub(crate) fn lent() -> usize {
    let mut lent = LENT.lock().unwrap_or_else(PoisonError::into_inner);
    lent.retain(|buffer| buffer.strong_count() > 0);
    lent.len()
}

/// Collects what dropped rings left pending, by using another ring on this thread.
pub(crate) fn settle() {
    let _ = Ring::<Owner>::new(&RingOptions::default()).submit();
}

fn sockets() -> Result<(UdpSocket, send::InetSocket), String> {
    let receiver = UdpSocket::bind("127.0.0.1:0").map_err(at("bind"))?;
    let address = receiver.local_addr().map_err(at("ask"))?;
    let socket = send::InetSocket::connect_udp(address).map_err(at("connect"))?;
    Ok((receiver, socket))
}

/// Results of sends by their numbers, and then their releases.
#[derive(Default)]
struct Accounts {
    results: BTreeMap<SendId, Outcome>,
    released: usize,
}

impl Accounts {
    fn result(&mut self, sent: Sent) {
        let result = sent.result.map(|bytes| assert_eq!(bytes, BYTES, "a part of a datagram"));
        let earlier = self.results.insert(sent.id, result.map_err(at("send")));
        assert!(earlier.is_none(), "{:?} has two results", sent.id);
    }

    /// Loopback copies what it delivers, and what was refused has not left.
    fn release(&mut self, release: &Release<Owner>) {
        let result = self.results.get(&release.id).expect("the result comes first");
        let expected = if result.is_ok() { (Fate::Copied, BYTES) } else { (Fate::Unsent, 0) };
        assert_eq!((release.fate, release.bytes), expected, "{result:?}");
        self.released += 1;
    }

    /// Each buffer came back; the first error there was.
    fn end(self) -> Outcome {
        assert_eq!(self.released, self.results.len(), "releases of {:?}", self.results);
        self.results.into_values().collect()
    }
}

pub(crate) fn lend() -> Outcome {
    let (_receiver, socket) = sockets()?;
    let options = SenderOptions::new().mode(Mode::Zerocopy).send_timeout(Some(PATIENCE));
    let mut sender: Sender<Owner> = Sender::new(socket, &options);
    let mut accounts = Accounts::default();
    for _ in 0..SENDS {
        accounts.result(sender.send(buffer()));
    }
    let (releases, counters) = sender.close(Some(LONG)).map_err(at("release"))?;
    assert_eq!(counters.bytes, counters.sends * BYTES as u64, "{counters:?}");
    assert_eq!((counters.sends + counters.failed_sends) as usize, SENDS, "{counters:?}");
    releases.iter().for_each(|release| accounts.release(release));
    accounts.end()
}

/// A sender that is dropped too early, until whoever looks after it has done so.
pub(crate) fn leave() {
    let sent = sockets().map(|(_receiver, socket)| {
        let options = SenderOptions::new().mode(Mode::Zerocopy);
        Sender::<Owner>::new(socket, &options).send(buffer()).result.is_ok()
    });
    let is_socket = |to: &std::path::PathBuf| to.to_string_lossy().contains("socket");
    while sent.is_ok() && held::descriptors().iter().any(is_socket) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn ring() -> Outcome {
    let (_receiver, socket) = sockets()?;
    let options = RingOptions::new().mode(Mode::Zerocopy);
    let mut ring: Ring<Owner> = Ring::new(&options);
    let socket = ring.add(socket);
    for _ in 0..SENDS {
        let sent = ring.send(socket, Message::new(buffer()));
        sent.map_err(|error| format!("send: {}", error.error))?;
    }
    let mut accounts = Accounts::default();
    let begin = Instant::now();
    while ring.outstanding().sends > 0 && begin.elapsed() < LONG {
        ring.wait(Some(PATIENCE)).map_err(at("wait"))?;
        for event in std::iter::from_fn(|| ring.next_event()) {
            match event {
                RingEvent::Sent(sent) => accounts.result(sent),
                RingEvent::Released(release) => accounts.release(&release),
                RingEvent::Notified(_) => unreachable!("no send is bound to a slot"),
            }
        }
    }
    assert_eq!(ring.outstanding().sends, 0, "something is never released");
    assert_eq!(accounts.results.len(), SENDS, "{:?}", accounts.results);
    accounts.end()
}
