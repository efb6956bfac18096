//! Data connections of the far end: it listens for them when the near end wants some.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::{Arc, Mutex};

use uncopy_core::Errno;
use uncopy_wire::{
    DataAnnouncement, DataLost, DataOffer, DataRefusal, DataSecurity, DataWish, Message, Violation,
};

use crate::data::{
    AnnouncementId, DataListener, EndKeys, ListenError, ListenOptions, ListenerEvent, PortRange,
    PublicKey, SshConnection, Token,
};
use crate::data_links::{DataLinks, DataWay, WhyNoData};
use crate::gate::lock;
use crate::link::{Link, LinkEnd, spawn};

/// Rule of the far end about data connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FarData {
    /// They are offered on the address that the remote shell came to.
    Offered(SshConnection),
    /// Those with TLS are offered there, and open ones are not.
    OfferedWithTls(SshConnection),
    /// They are refused.
    Refused(DataRefusal),
}

impl Default for FarData {
    fn default() -> FarData {
        FarData::Refused(DataRefusal::NoAddress)
    }
}

impl FarData {
    /// Offers them on the address that a value of `SSH_CONNECTION` names, if it does.
    #[must_use]
    pub fn of_ssh(connection: Option<&OsStr>) -> FarData {
        let read = connection.and_then(OsStr::to_str).and_then(|text| text.parse().ok());
        // The names of interfaces cannot be looked up any more once this process is confined.
        match read.and_then(|ssh: SshConnection| ssh.with_interface_numbers().ok()) {
            Some(ssh) => FarData::Offered(ssh),
            None => FarData::default(),
        }
    }

    /// Takes back what it offers but connections with TLS.
    #[must_use]
    pub fn with_tls_alone(self) -> FarData {
        match self {
            FarData::Offered(ssh) => FarData::OfferedWithTls(ssh),
            other => other,
        }
    }
}

#[derive(Debug)]
struct Listening {
    listener: Arc<DataListener>,
    announced: Arc<Announced>,
    next: u32,
}

/// Announcements that are not lost.
#[derive(Debug, Default)]
struct Announced(Mutex<HashMap<u32, AnnouncementId>>);

impl Announced {
    fn number_of(&self, id: AnnouncementId) -> Option<u32> {
        let numbers = lock(&self.0);
        numbers.iter().find(|(_, found)| **found == id).map(|(number, _)| *number)
    }
}

impl Listening {
    /// Returns the announcement for the near end.
    fn number(&mut self, id: AnnouncementId, token: &Token) -> Message {
        let number = self.next;
        self.next += 1;
        lock(&self.announced.0).insert(number, id);
        Message::DataAnnounced(DataAnnouncement { number, token: *token.as_bytes() })
    }
}

/// Data connections of the far end.
#[derive(Debug)]
pub(crate) struct Offering {
    rule: FarData,
    links: Arc<DataLinks>,
    listening: Mutex<Option<Listening>>,
}

impl Offering {
    pub(crate) fn new(rule: FarData, links: Arc<DataLinks>) -> Arc<Offering> {
        Arc::new(Offering { rule, links, listening: Mutex::default() })
    }

    /// Takes a message; gives it back if it is about something else.
    pub(crate) fn take(&self, link: &Link, message: Message) -> Option<Message> {
        match message {
            Message::DataWanted(wish) => self.offer(link, &wish),
            Message::DataLost(lost) => self.lose(link, lost),
            other => return Some(other),
        }
        None
    }

    /// Listens, and announces connections; or refuses them.
    pub(crate) fn offer(&self, link: &Link, wish: &DataWish) {
        self.links.want(match wish.security {
            DataSecurity::Tls { .. } => DataWay::Tls,
            DataSecurity::Open => DataWay::Open,
        });
        // Held until all is announced: the near end may lose one meanwhile.
        let mut slot = lock(&self.listening);
        let (mut listening, offer) = match self.listen(wish) {
            Ok(begun) => begun,
            Err(refusal) => {
                self.links.give_up(WhyNoData::Refused(refusal));
                // The end of the session shows elsewhere; this holds below too.
                let _ = link.send(&Message::DataRefused(refusal));
                return;
            }
        };
        let sent = link.send(&Message::DataOffered(offer));
        for _ in 0..wish.connections {
            if let Ok((id, token)) = listening.listener.announce() {
                let _ = link.send(&listening.number(id, &token));
            }
        }
        match sent.is_ok() && !self.links.is_over() {
            true => *slot = Some(listening),
            false => listening.listener.close(),
        }
    }

    fn listen(&self, wish: &DataWish) -> Result<(Listening, DataOffer), DataRefusal> {
        let ssh = match (&self.rule, wish.security) {
            (FarData::Offered(ssh), _)
            | (FarData::OfferedWithTls(ssh), DataSecurity::Tls { .. }) => ssh,
            (FarData::OfferedWithTls(_), DataSecurity::Open) => return Err(DataRefusal::Policy),
            (FarData::Refused(refusal), _) => return Err(*refusal),
        };
        let mut options = ListenOptions::for_ssh(ssh);
        options.max_connections = wish.connections.into();
        options.ports =
            PortRange::new(wish.first_port, wish.last_port).ok_or_else(|| system(Errno::EINVAL))?;
        let (listener, security) = match wish.security {
            DataSecurity::Tls { key } => {
                let keys = EndKeys::generate().map_err(|_| system(Errno::EIO))?;
                let pinned = keys.pin(PublicKey::from_bytes(key));
                let key = *keys.public().as_bytes();
                (DataListener::bind(&options, &pinned), DataSecurity::Tls { key })
            }
            DataSecurity::Open => (DataListener::bind_open(&options), DataSecurity::Open),
        };
        let listener = listener.map_err(|error| match error {
            ListenError::PortsInUse { .. } => DataRefusal::PortsInUse,
            ListenError::Bind { errno, .. } | ListenError::System { errno, .. } => system(errno),
            ListenError::Keys(_) => system(Errno::EIO),
        })?;
        let offer = DataOffer { security, port: listener.address().port() };
        let (listener, announced) = (Arc::new(listener), Arc::<Announced>::default());
        let (accepting, links) = (Arc::clone(&listener), Arc::clone(&self.links));
        let numbers = Arc::clone(&announced);
        let started = spawn("listen", move || {
            loop {
                match accepting.wait(None) {
                    ListenerEvent::Connected { stream, .. } => {
                        // One that cannot be started ends at once, which the near end sees.
                        let _ = links.join(stream, || ());
                    }
                    ListenerEvent::ConnectedOpen { announcement, stream } => {
                        // One that is lost already ends at once.
                        if let Some(number) = numbers.number_of(announcement) {
                            let _ = links.join_open(number, stream, || ());
                        }
                    }
                    // The near end sees that it did not get it.
                    ListenerEvent::Expired { .. } | ListenerEvent::TimedOut => {}
                    ListenerEvent::Closed => return,
                }
            }
        });
        if started.is_err() {
            listener.close();
            return Err(system(Errno::EAGAIN));
        }
        Ok((Listening { listener, announced, next: 0 }, offer))
    }

    fn lose(&self, link: &Link, lost: DataLost) {
        let mut slot = lock(&self.listening);
        let Some(listening) = slot.as_mut() else { return };
        let Some(id) = lock(&listening.announced.0).remove(&lost.number) else {
            drop(slot);
            let violation = Violation::Malformed { what: "message" };
            return link.finish(&LinkEnd::Failed(violation.into()));
        };
        if lost.again {
            if let Ok((id, token)) = listening.listener.announce_again(id) {
                let _ = link.send(&listening.number(id, &token));
            }
            return;
        }
        listening.listener.withdraw(id);
        let is_last = lock(&listening.announced.0).is_empty();
        if is_last {
            let ended = slot.take();
            drop(slot);
            self.links.give_up(WhyNoData::Lost(lost.why));
            close(ended);
        }
    }

    /// Listens no more.
    pub(crate) fn close(&self) {
        let ended = lock(&self.listening).take();
        close(ended);
    }
}

fn close(listening: Option<Listening>) {
    if let Some(listening) = listening {
        listening.listener.close();
    }
}

fn system(errno: Errno) -> DataRefusal {
    let known = u16::try_from(errno.raw()).unwrap_or(5);
    DataRefusal::System { errno: known }
}
