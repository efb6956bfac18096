//! Messages about data connections: connections beside the streams of a session, over which files are read.

use crate::Violation;
use crate::codec::{Reader, Writer};
use crate::frame::FrameKind;

/// Maximum number of data connections of a session.
pub const MAX_DATA_CONNECTIONS: u8 = 16;
/// Maximum number of announcements of a session, those in place of lost connections included.
pub const MAX_ANNOUNCEMENTS: u32 = 1024;

/// First version of the protocol that has open data connections.
pub const OPEN_VERSION: u16 = 2;

/// Protection of data connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataSecurity {
    /// TLS.
    Tls {
        /// Public key of the sender of the message (Ed25519).
        key: [u8; 32],
    },
    /// None: whoever is on the way can read the bytes, and change them until their digest is looked at.
    Open,
}

impl DataSecurity {
    fn is_open(self) -> bool {
        self == DataSecurity::Open
    }
}

/// Wish of the near end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataWish {
    /// Protection.
    pub security: DataSecurity,
    /// Number of connections: 1 to [`MAX_DATA_CONNECTIONS`].
    pub connections: u8,
    /// First port to listen on; 0: any, and then the last one is 0 too.
    pub first_port: u16,
    /// Last port to listen on.
    pub last_port: u16,
}

/// Offer of the far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataOffer {
    /// Protection, as the wish has it.
    pub security: DataSecurity,
    /// Port on which it listens.
    pub port: u16,
}

/// Announcement of one connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DataAnnouncement {
    /// Its number.
    pub number: u32,
    /// Token that the near end shows.
    pub token: [u8; 32],
}

/// Never shows the token.
impl std::fmt::Debug for DataAnnouncement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataAnnouncement").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Loss of an announced connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataLost {
    /// Number of its announcement.
    pub number: u32,
    /// Reason.
    pub why: DataLoss,
    /// Whether another one is to be announced in its place.
    pub again: bool,
}

/// Reason why the far end offers no data connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DataRefusal {
    /// The settings there forbid them.
    Policy,
    /// The settings there cannot be read.
    Settings,
    /// The remote shell does not say to which address it came.
    NoAddress,
    /// All ports are in use.
    PortsInUse,
    /// The system there cannot listen.
    System {
        /// Error number of Linux.
        errno: u16,
    },
}

/// Reason why a data connection could not be made, or does not stand any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DataLoss {
    /// The remote shell goes through another machine or program.
    Proxied,
    /// The name of the far machine has no address.
    Unresolved,
    /// Nothing listens there, as the near end sees it.
    Refused,
    /// No answer came in time.
    TimedOut,
    /// No route leads there.
    NoRoute,
    /// The far end closed the connection in its handshake.
    Ended,
    /// The far end showed another key.
    OtherKey,
    /// The far end expects another key.
    OwnKeyRefused,
    /// The far end did not take the token.
    TokenRefused,
    /// Another protocol is spoken there.
    Handshake,
    /// It stood, and broke.
    Broken,
    /// The near end has no descriptor, thread or memory for it.
    Resources,
}

impl DataLoss {
    /// Every reason, by its number on the line from 1 on.
    const ALL: [DataLoss; 12] = [
        DataLoss::Proxied,
        DataLoss::Unresolved,
        DataLoss::Refused,
        DataLoss::TimedOut,
        DataLoss::NoRoute,
        DataLoss::Ended,
        DataLoss::OtherKey,
        DataLoss::OwnKeyRefused,
        DataLoss::TokenRefused,
        DataLoss::Handshake,
        DataLoss::Broken,
        DataLoss::Resources,
    ];
}

fn key(from: &mut Reader<'_>) -> Result<[u8; 32], Violation> {
    let malformed = from.malformed();
    from.raw(32)?.try_into().map_err(|_| malformed)
}

impl DataSecurity {
    fn write(self, to: &mut Writer) {
        if let DataSecurity::Tls { key } = self {
            to.raw(&key);
        }
    }

    /// Reads a key, which a frame about open connections does not have.
    fn read(from: &mut Reader<'_>, is_open: bool) -> Result<DataSecurity, Violation> {
        if is_open { Ok(DataSecurity::Open) } else { Ok(DataSecurity::Tls { key: key(from)? }) }
    }
}

impl DataWish {
    pub(crate) fn kind(&self) -> FrameKind {
        if self.security.is_open() { FrameKind::OpenWanted } else { FrameKind::DataWanted }
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        self.security.write(to);
        to.u8(self.connections).u16(self.first_port).u16(self.last_port);
    }

    pub(crate) fn read(from: &mut Reader<'_>, kind: FrameKind) -> Result<DataWish, Violation> {
        let security = DataSecurity::read(from, kind == FrameKind::OpenWanted)?;
        let connections = from.u8()?;
        let (first_port, last_port) = (from.u16()?, from.u16()?);
        let is_range = first_port <= last_port && (first_port != 0 || last_port == 0);
        match is_range && (1..=MAX_DATA_CONNECTIONS).contains(&connections) {
            true => Ok(DataWish { security, connections, first_port, last_port }),
            false => Err(from.malformed()),
        }
    }
}

impl DataOffer {
    pub(crate) fn kind(&self) -> FrameKind {
        if self.security.is_open() { FrameKind::OpenOffered } else { FrameKind::DataOffered }
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        self.security.write(to);
        to.u16(self.port);
    }

    pub(crate) fn read(from: &mut Reader<'_>, kind: FrameKind) -> Result<DataOffer, Violation> {
        let security = DataSecurity::read(from, kind == FrameKind::OpenOffered)?;
        let offer = DataOffer { security, port: from.u16()? };
        if offer.port == 0 { Err(from.malformed()) } else { Ok(offer) }
    }
}

impl DataAnnouncement {
    pub(crate) fn write(&self, to: &mut Writer) {
        to.u32(self.number).raw(&self.token);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<DataAnnouncement, Violation> {
        Ok(DataAnnouncement { number: from.u32()?, token: key(from)? })
    }
}

impl DataLost {
    pub(crate) fn write(&self, to: &mut Writer) {
        let place = DataLoss::ALL.iter().position(|why| *why == self.why);
        to.u32(self.number).u8(place.map_or(0, |place| place as u8 + 1)).bool(self.again);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<DataLost, Violation> {
        let (number, place) = (from.u32()?, from.u8()?);
        let why = usize::from(place).checked_sub(1).and_then(|place| DataLoss::ALL.get(place));
        let why = *why.ok_or(from.malformed())?;
        Ok(DataLost { number, why, again: from.bool()? })
    }
}

impl DataRefusal {
    pub(crate) fn write(self, to: &mut Writer) {
        match self {
            DataRefusal::Policy => to.u8(1),
            DataRefusal::Settings => to.u8(2),
            DataRefusal::NoAddress => to.u8(3),
            DataRefusal::PortsInUse => to.u8(4),
            DataRefusal::System { errno } => to.u8(5).u16(errno),
        };
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<DataRefusal, Violation> {
        Ok(match from.u8()? {
            1 => DataRefusal::Policy,
            2 => DataRefusal::Settings,
            3 => DataRefusal::NoAddress,
            4 => DataRefusal::PortsInUse,
            5 => DataRefusal::System { errno: from.u16()? },
            _ => return Err(from.malformed()),
        })
    }
}

/// Stage of the data connections of a session, the same at both ends but for what is on its way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum DataStage {
    #[default]
    Unasked,
    Wanted(DataWish),
    Refused,
    Offered {
        /// Announcements that the far end owes.
        due: u32,
        /// Connections that are announced and not lost.
        standing: u32,
        /// Announcements so far, those that are due included.
        all: u32,
    },
}

impl DataStage {
    pub(crate) fn want(&mut self, wish: DataWish) -> Result<(), Violation> {
        let DataStage::Unasked = self else { return Err(Violation::WrongOrder) };
        *self = DataStage::Wanted(wish);
        Ok(())
    }

    pub(crate) fn refuse(&mut self) -> Result<(), Violation> {
        let DataStage::Wanted(_) = self else { return Err(Violation::WrongOrder) };
        *self = DataStage::Refused;
        Ok(())
    }

    pub(crate) fn offer(&mut self, offer: &DataOffer) -> Result<(), Violation> {
        let DataStage::Wanted(wish) = self else { return Err(Violation::WrongOrder) };
        if wish.security.is_open() != offer.security.is_open() {
            return Err(Violation::WrongOrder);
        }
        let due = wish.connections.into();
        *self = DataStage::Offered { due, standing: 0, all: due };
        Ok(())
    }

    pub(crate) fn announce(&mut self) -> Result<(), Violation> {
        match self {
            DataStage::Offered { due, standing, .. } if *due > 0 => {
                *due -= 1;
                *standing += 1;
                Ok(())
            }
            _ => Err(Violation::WrongOrder),
        }
    }

    pub(crate) fn lose(&mut self, again: bool) -> Result<(), Violation> {
        match self {
            DataStage::Offered { due, standing, all }
                if *standing > 0 && (!again || *all < MAX_ANNOUNCEMENTS) =>
            {
                *standing -= 1;
                *due += u32::from(again);
                *all += u32::from(again);
                Ok(())
            }
            _ => Err(Violation::WrongOrder),
        }
    }
}
