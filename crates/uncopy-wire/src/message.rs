//! Messages of a session: what the two ends say to each other beside calls and answers.

use crate::Violation;
use crate::codec::{Reader, Writer};
use crate::data::{DataAnnouncement, DataLost, DataOffer, DataRefusal, DataWish};
use crate::frame::{Frame, FrameKind, MAX_PAYLOAD_BYTES};

/// Maximum length of a path (`PATH_MAX`).
pub const MAX_PATH_BYTES: usize = 4096;
/// Maximum number of bytes of one output.
pub const MAX_OUTPUT_BYTES: usize = 64 << 10;

/// First version of the protocol in which the serving side says which machine it is.
pub const MACHINE_VERSION: u16 = 5;
/// First version of the protocol that has [`Refusal::JournalOutside`].
pub const JOURNAL_OUTSIDE_VERSION: u16 = 6;

/// Job for the far end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Job {
    /// The far end serves these roots; relative paths begin at the login's directory, and an empty one is it.
    Serve {
        /// Paths.
        roots: Vec<Vec<u8>>,
    },
    /// The far end runs the program with these arguments. Its sources are roots of the near end.
    Run {
        /// Arguments, without the program's name.
        arguments: Vec<Vec<u8>>,
        /// Names of the sources, for people.
        sources: Vec<Vec<u8>>,
    },
}

/// Mark of a machine: another one cannot read from it which one it is, and it itself knows its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineMark {
    /// Random bytes of this session.
    pub salt: [u8; 16],
    /// Digest of them and of what a machine knows of itself.
    pub digest: [u8; 32],
}

/// Reason why the far end refuses a job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// A path leads out of the only directory that this login may use.
    Outside {
        /// The path.
        path: Vec<u8>,
    },
    /// This login may not write.
    ReadOnly,
    /// This login is restricted to a directory, and the system there cannot confine the program to it.
    NotConfined,
    /// The program there does not take the arguments.
    Arguments {
        /// Description for people.
        message: String,
    },
    /// The journal of a copy that can be resumed would lie beside the only directory that this login may use.
    JournalOutside {
        /// The destination.
        path: Vec<u8>,
    },
}

/// Stream of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Standard,
    /// Standard error.
    Error,
    /// Records for the program at the near end; only where the job's arguments ask for them.
    Records,
    /// Contents of a file that the near end writes; only where the job's arguments ask for it.
    File,
}

impl OutputStream {
    /// Every stream; its place is its number in a frame.
    const ALL: [OutputStream; 4] =
        [OutputStream::Standard, OutputStream::Error, OutputStream::Records, OutputStream::File];
}

/// State of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobState {
    /// Entries finished, successfully or not.
    pub entries: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// Entries found so far.
    pub total_entries: u64,
    /// Bytes of the files found so far.
    pub total_bytes: u64,
    /// Whether the totals are final.
    pub is_total_final: bool,
}

/// Message of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message {
    /// The job: the first message of the near end.
    Job(Job),
    /// The far end accepts the job.
    Accepted {
        /// Whether the system confines the far end to the paths of the job.
        is_confined: bool,
    },
    /// The far end refuses the job: its last message.
    Refused(Refusal),
    /// Output of the far end.
    Output {
        /// Where it belongs.
        stream: OutputStream,
        /// The bytes: at least one, at most [`MAX_OUTPUT_BYTES`].
        bytes: Vec<u8>,
    },
    /// Progress of the far end's job.
    Progress(JobState),
    /// Exit code of the far end's job: its last message.
    Exit {
        /// The code.
        code: u8,
    },
    /// The user wants the job to stop.
    Stop,
    /// A sign of life.
    Ping,
    /// The near end wants data connections. Before the job: the job begins when the first one stands.
    DataWanted(DataWish),
    /// The far end listens for data connections.
    DataOffered(DataOffer),
    /// The far end does not.
    DataRefused(DataRefusal),
    /// The far end expects a data connection.
    DataAnnounced(DataAnnouncement),
    /// A data connection that was announced is none, or none any more.
    DataLost(DataLost),
    /// The machine of the serving side: before the job, or before it is accepted.
    Machine(MachineMark),
}

impl Message {
    pub(crate) fn kind(&self) -> FrameKind {
        match self {
            Message::Job(_) => FrameKind::Job,
            Message::Accepted { .. } => FrameKind::Accepted,
            Message::Refused(_) => FrameKind::Refused,
            Message::Output { .. } => FrameKind::Output,
            Message::Progress(_) => FrameKind::Progress,
            Message::Exit { .. } => FrameKind::Exit,
            Message::Stop => FrameKind::Stop,
            Message::Ping => FrameKind::Ping,
            Message::DataWanted(wish) => wish.kind(),
            Message::DataOffered(offer) => offer.kind(),
            Message::DataRefused(_) => FrameKind::DataRefused,
            Message::DataAnnounced(_) => FrameKind::DataAnnounced,
            Message::DataLost(_) => FrameKind::DataLost,
            Message::Machine(_) => FrameKind::Machine,
        }
    }

    /// Returns the first version of the protocol that has it.
    pub(crate) fn since(&self) -> u16 {
        match self {
            Message::Refused(Refusal::JournalOutside { .. }) => JOURNAL_OUTSIDE_VERSION,
            _ => self.kind().since(),
        }
    }

    /// Encodes it. What the other end would take for malformed is an error here.
    pub(crate) fn encode(&self) -> Result<Frame, Violation> {
        let mut to = Writer::default();
        match self {
            Message::Job(Job::Serve { roots }) => {
                list(to.u8(1), roots);
            }
            Message::Job(Job::Run { arguments, sources }) => {
                list(list(to.u8(2), arguments), sources);
            }
            Message::Accepted { is_confined } => {
                to.bool(*is_confined);
            }
            Message::Refused(refusal) => {
                match refusal {
                    Refusal::Outside { path } => to.u8(1).bytes(path),
                    Refusal::ReadOnly => to.u8(2),
                    Refusal::NotConfined => to.u8(3),
                    Refusal::Arguments { message } => to.u8(4).bytes(message.as_bytes()),
                    Refusal::JournalOutside { path } => to.u8(5).bytes(path),
                };
            }
            Message::Output { stream, bytes } => {
                let number = OutputStream::ALL.iter().position(|one| one == stream).unwrap_or(0);
                to.u8(number as u8).raw(bytes);
            }
            Message::Progress(state) => {
                to.u64(state.entries).u64(state.bytes);
                to.u64(state.total_entries).u64(state.total_bytes).bool(state.is_total_final);
            }
            Message::Exit { code } => {
                to.u8(*code);
            }
            Message::Stop | Message::Ping => {}
            Message::DataWanted(wish) => wish.write(&mut to),
            Message::DataOffered(offer) => offer.write(&mut to),
            Message::DataRefused(refusal) => refusal.write(&mut to),
            Message::DataAnnounced(announcement) => announcement.write(&mut to),
            Message::DataLost(lost) => lost.write(&mut to),
            Message::Machine(mark) => {
                to.raw(&mark.salt).raw(&mark.digest);
            }
        }
        if to.0.len() > MAX_PAYLOAD_BYTES {
            return Err(Violation::TooLong);
        }
        let frame = Frame { kind: self.kind(), call: 0, payload: to.0 };
        Message::decode(&frame)?.map(|_| ()).ok_or(Violation::WrongSide)?;
        Ok(frame)
    }

    /// Decodes it. `None`: the frame belongs to a call.
    pub(crate) fn decode(frame: &Frame) -> Result<Option<Message>, Violation> {
        let mut from = Reader::new(&frame.payload, "message");
        let message = match frame.kind {
            FrameKind::Call | FrameKind::Answer | FrameKind::Failed | FrameKind::ForeignLink => {
                return Ok(None);
            }
            _ if frame.call != 0 => return Err(from.malformed()),
            FrameKind::Job => Message::Job(read_job(&mut from)?),
            FrameKind::Accepted => Message::Accepted { is_confined: from.bool()? },
            FrameKind::Refused => Message::Refused(match from.u8()? {
                1 => Refusal::Outside { path: from.text(MAX_PATH_BYTES)? },
                2 => Refusal::ReadOnly,
                3 => Refusal::NotConfined,
                4 => {
                    let message = from.text(MAX_OUTPUT_BYTES)?;
                    Refusal::Arguments { message: String::from_utf8_lossy(&message).into_owned() }
                }
                5 => Refusal::JournalOutside { path: from.text(MAX_PATH_BYTES)? },
                _ => return Err(from.malformed()),
            }),
            FrameKind::Output => {
                let number = usize::from(from.u8()?);
                let stream = *OutputStream::ALL.get(number).ok_or(from.malformed())?;
                let bytes = from.rest().to_vec();
                if bytes.is_empty() || bytes.len() > MAX_OUTPUT_BYTES {
                    return Err(from.malformed());
                }
                Message::Output { stream, bytes }
            }
            FrameKind::Progress => Message::Progress(JobState {
                entries: from.u64()?,
                bytes: from.u64()?,
                total_entries: from.u64()?,
                total_bytes: from.u64()?,
                is_total_final: from.bool()?,
            }),
            FrameKind::Exit => Message::Exit { code: from.u8()? },
            FrameKind::Stop => Message::Stop,
            FrameKind::Ping => Message::Ping,
            FrameKind::DataWanted | FrameKind::OpenWanted => {
                Message::DataWanted(DataWish::read(&mut from, frame.kind)?)
            }
            FrameKind::DataOffered | FrameKind::OpenOffered => {
                Message::DataOffered(DataOffer::read(&mut from, frame.kind)?)
            }
            FrameKind::DataRefused => Message::DataRefused(DataRefusal::read(&mut from)?),
            FrameKind::DataAnnounced => Message::DataAnnounced(DataAnnouncement::read(&mut from)?),
            FrameKind::DataLost => Message::DataLost(DataLost::read(&mut from)?),
            FrameKind::Machine => {
                Message::Machine(MachineMark { salt: from.array()?, digest: from.array()? })
            }
        };
        from.end().map(|()| Some(message))
    }
}

fn list<'a>(to: &'a mut Writer, items: &[Vec<u8>]) -> &'a mut Writer {
    // A list of more items than this number holds is longer than a frame, and is not sent.
    to.u32(u32::try_from(items.len()).unwrap_or(u32::MAX));
    for item in items {
        to.bytes(item);
    }
    to
}

fn read_list(from: &mut Reader<'_>, limit: usize) -> Result<Vec<Vec<u8>>, Violation> {
    // Each item takes bytes of the frame, which is bounded.
    (0..from.u32()?).map(|_| from.text(limit)).collect()
}

fn read_job(from: &mut Reader<'_>) -> Result<Job, Violation> {
    let job = match from.u8()? {
        1 => Job::Serve { roots: read_list(from, MAX_PATH_BYTES)? },
        2 => Job::Run {
            arguments: read_list(from, MAX_PAYLOAD_BYTES)?,
            sources: read_list(from, MAX_PAYLOAD_BYTES)?,
        },
        _ => return Err(from.malformed()),
    };
    let (Job::Serve { roots: sources } | Job::Run { sources, .. }) = &job;
    if sources.is_empty() { Err(from.malformed()) } else { Ok(job) }
}
