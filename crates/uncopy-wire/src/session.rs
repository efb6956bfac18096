//! Sessions: which end may send what, and when.

use crate::data::DataStage;
use crate::frame::{Frame, FrameKind};
use crate::message::{Job, Message};
use crate::{VERSION, Violation};

/// End of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The end where the user is.
    Near,
    /// The end that was started for it.
    Far,
}

/// End that asks, and has the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asking {
    Near,
    Far,
}

/// Stage of a session, the same at both ends but for what is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The near end has not sent the job.
    Greeted,
    /// The far end has not said whether it takes the job.
    Asked(Asking),
    Running(Asking),
    /// The far end has sent its last frame.
    Ended,
    /// A data connection, which has nothing but calls, answers and signs of life.
    Data(Asking),
}

/// Frame that was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A message of the session.
    Message(Message),
    /// A call, for [`Server::take`](crate::Server::take).
    Call(Frame),
    /// An answer, for [`Caller::take`](crate::Caller::take).
    Answer(Frame),
}

/// One end of a session, behind the greetings.
#[derive(Debug)]
pub struct Session {
    end: End,
    stage: Stage,
    is_stopping: bool,
    data: DataStage,
    /// Whether the machine that serves is known.
    is_marked: bool,
    version: u16,
}

impl Session {
    /// Makes one.
    #[must_use]
    pub fn new(end: End) -> Session {
        Session {
            end,
            stage: Stage::Greeted,
            is_stopping: false,
            data: DataStage::Unasked,
            is_marked: false,
            version: VERSION,
        }
    }

    /// Speaks this version of the protocol instead of the highest one.
    #[must_use]
    pub fn speaking(self, version: u16) -> Session {
        Session { version, ..self }
    }

    /// Returns the version of the protocol that is spoken.
    #[must_use]
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Makes one end of a data connection, over which `asking` calls. Nothing is greeted or agreed on there.
    #[must_use]
    pub fn data(end: End, asking: End) -> Session {
        let asking = match asking {
            End::Near => Asking::Near,
            End::Far => Asking::Far,
        };
        Session { stage: Stage::Data(asking), ..Session::new(end) }
    }

    /// Returns the frame of a message that this end sends.
    ///
    /// # Errors
    /// It is not for this end, or not for this time; it is longer than a frame, or malformed.
    pub fn send(&mut self, message: &Message) -> Result<Frame, Violation> {
        let frame = message.encode()?;
        self.pass(self.end, message)?;
        Ok(frame)
    }

    /// Takes a frame that was received.
    ///
    /// # Errors
    /// It is not for the other end, or not for this time, or malformed.
    pub fn take(&mut self, frame: Frame) -> Result<Received, Violation> {
        let from = match self.end {
            End::Near => End::Far,
            End::Far => End::Near,
        };
        if let Some(message) = Message::decode(&frame)? {
            self.pass(from, &message)?;
            return Ok(Received::Message(message));
        }
        if frame.kind.since() > self.version {
            return Err(Violation::WrongOrder);
        }
        let asking = match (self.stage, from) {
            (Stage::Running(asking) | Stage::Data(asking), _) => asking,
            // The near end need not wait until the job is accepted, nor know that it has ended.
            (Stage::Asked(Asking::Near), End::Near) => Asking::Near,
            (Stage::Ended, End::Near) if frame.kind != FrameKind::Call => Asking::Far,
            _ => return Err(Violation::WrongOrder),
        };
        let is_from_asking = (asking == Asking::Near) == (from == End::Near);
        match (frame.kind == FrameKind::Call, is_from_asking) {
            (true, true) => Ok(Received::Call(frame)),
            (false, false) => Ok(Received::Answer(frame)),
            _ => Err(Violation::WrongSide),
        }
    }

    /// Whether the far end has sent its last frame.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Passes a message of an end.
    fn pass(&mut self, from: End, message: &Message) -> Result<(), Violation> {
        let sender = match message {
            Message::Job(_) | Message::Stop | Message::DataWanted(_) | Message::DataLost(_) => {
                Some(End::Near)
            }
            Message::Ping | Message::Machine(_) => None,
            _ => Some(End::Far),
        };
        if message.since() > self.version {
            return Err(Violation::WrongOrder);
        }
        if sender.is_some_and(|sender| sender != from) {
            return Err(Violation::WrongSide);
        }
        self.stage = match (self.stage, message) {
            (Stage::Ended, _) if from == End::Far => return Err(Violation::WrongOrder),
            (stage, Message::Ping) => stage,
            (Stage::Data(_), _) => return Err(Violation::WrongOrder),
            // The near end need not know that the job has ended.
            (stage, Message::DataWanted(wish)) => self.data.want(*wish).map(|()| stage)?,
            (stage, Message::DataLost(lost)) => self.data.lose(lost.again).map(|()| stage)?,
            (stage @ Stage::Running(_), Message::DataOffered(offer)) => {
                self.data.offer(offer).map(|()| stage)?
            }
            (stage @ Stage::Running(_), Message::DataRefused(_)) => {
                self.data.refuse().map(|()| stage)?
            }
            (stage @ Stage::Running(_), Message::DataAnnounced(_)) => {
                self.data.announce().map(|()| stage)?
            }
            (stage @ Stage::Greeted, Message::Machine(_)) if from == End::Near => {
                self.mark().map(|()| stage)?
            }
            (stage @ Stage::Asked(Asking::Near), Message::Machine(_)) if from == End::Far => {
                self.mark().map(|()| stage)?
            }
            (Stage::Greeted, Message::Job(Job::Serve { .. })) if !self.is_marked => {
                Stage::Asked(Asking::Near)
            }
            (Stage::Greeted, Message::Job(Job::Run { .. })) => Stage::Asked(Asking::Far),
            (Stage::Asked(asking), Message::Accepted { .. }) => Stage::Running(asking),
            (Stage::Asked(_), Message::Refused(_)) => Stage::Ended,
            (
                stage @ Stage::Running(Asking::Far),
                Message::Output { .. } | Message::Progress(_),
            ) => stage,
            (Stage::Running(Asking::Far), Message::Exit { .. }) => Stage::Ended,
            (
                stage @ (Stage::Asked(Asking::Far) | Stage::Running(Asking::Far) | Stage::Ended),
                Message::Stop,
            ) if !std::mem::replace(&mut self.is_stopping, true) => stage,
            _ => return Err(Violation::WrongOrder),
        };
        Ok(())
    }

    /// Notes that the machine that serves is known, which is said once.
    fn mark(&mut self) -> Result<(), Violation> {
        match std::mem::replace(&mut self.is_marked, true) {
            true => Err(Violation::WrongOrder),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{
        DataAnnouncement, DataLoss, DataLost, DataOffer, DataRefusal, DataSecurity, DataWish,
        MAX_ANNOUNCEMENTS,
    };
    use crate::message::{JobState, MachineMark, OutputStream, Refusal};

    fn messages() -> Vec<Message> {
        let path = || vec![b"a\xff".to_vec(), Vec::new()];
        vec![
            Message::Job(Job::Serve { roots: path() }),
            Message::Job(Job::Run { arguments: path(), sources: path() }),
            Message::Accepted { is_confined: true },
            Message::Refused(Refusal::ReadOnly),
            Message::Output { stream: OutputStream::Error, bytes: vec![7] },
            Message::Progress(JobState { entries: 1, bytes: u64::MAX, ..JobState::default() }),
            Message::Exit { code: 255 },
            Message::Stop,
            Message::Ping,
        ]
    }

    const SERVE: usize = 0;
    const RUN: usize = 1;
    const ACCEPTED: usize = 2;
    const REFUSED: usize = 3;
    const EXIT: usize = 6;
    const STOP: usize = 7;

    #[test]
    fn each_stage_takes_its_messages_and_no_others() {
        use Violation::{WrongOrder, WrongSide};
        // Messages that have passed, and those that may come next by their numbers.
        let table: [(&[usize], &[usize], &[usize]); 8] = [
            (&[], &[0, 1, 8], &[8]),
            (&[SERVE], &[8], &[2, 3, 8]),
            (&[RUN], &[7, 8], &[2, 3, 8]),
            (&[RUN, STOP], &[8], &[2, 3, 8]),
            (&[SERVE, ACCEPTED], &[8], &[8]),
            (&[RUN, ACCEPTED], &[7, 8], &[4, 5, 6, 8]),
            (&[SERVE, REFUSED], &[7, 8], &[]),
            (&[RUN, ACCEPTED, EXIT], &[7, 8], &[]),
        ];
        let is_near = |number: usize| matches!(number, SERVE | RUN | STOP | 8);
        let is_far = |number: usize| !matches!(number, SERVE | RUN | STOP);
        for (passed, near, far) in table {
            for end in [End::Near, End::Far] {
                for (number, message) in messages().iter().enumerate() {
                    let begun = || {
                        let mut session = Session::new(end);
                        for number in passed {
                            let message = &messages()[*number];
                            let is_own = is_near(*number) == (end == End::Near);
                            match is_own {
                                true => drop(session.send(message).unwrap()),
                                false => {
                                    let frame = message.encode().unwrap();
                                    session.take(frame).unwrap();
                                }
                            }
                        }
                        session
                    };
                    for from in [End::Near, End::Far] {
                        let (allowed, may_ever) = match from {
                            End::Near => (near, is_near(number)),
                            End::Far => (far, is_far(number)),
                        };
                        let expected = match (allowed.contains(&number), may_ever) {
                            (true, _) => Ok(()),
                            (false, true) => Err(WrongOrder),
                            (false, false) => Err(WrongSide),
                        };
                        let mut session = begun();
                        let found = match from == end {
                            true => session.send(message).map(|_| ()),
                            false => session.take(message.encode().unwrap()).map(|received| {
                                assert_eq!(received, Received::Message(message.clone()));
                            }),
                        };
                        assert_eq!(found, expected, "{passed:?} {end:?} {from:?} {message:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn calls_come_from_the_asking_end_alone() {
        let call = Frame { kind: FrameKind::Call, call: 3, payload: vec![1] };
        let answer = Frame { kind: FrameKind::Answer, ..call.clone() };
        let failed = Frame { kind: FrameKind::Failed, ..call.clone() };
        let serve = &messages()[SERVE];
        let run = &messages()[RUN];
        let accepted = &messages()[ACCEPTED];
        let exit = &messages()[EXIT];
        let take = |session: &mut Session, frame: &Frame| session.take(frame.clone());

        let mut near = Session::new(End::Near);
        near.send(serve).unwrap();
        assert_eq!(take(&mut near, &answer), Err(Violation::WrongOrder));
        near.take(accepted.encode().unwrap()).unwrap();
        assert_eq!(take(&mut near, &call), Err(Violation::WrongSide));
        assert_eq!(take(&mut near, &answer), Ok(Received::Answer(answer.clone())));
        assert_eq!(take(&mut near, &failed), Ok(Received::Answer(failed.clone())));

        let mut far = Session::new(End::Far);
        assert_eq!(take(&mut far, &call), Err(Violation::WrongOrder));
        far.take(serve.encode().unwrap()).unwrap();
        assert_eq!(take(&mut far, &call), Ok(Received::Call(call.clone())));
        assert_eq!(take(&mut far, &answer), Err(Violation::WrongSide));

        let mut far = Session::new(End::Far);
        far.take(run.encode().unwrap()).unwrap();
        assert_eq!(take(&mut far, &answer), Err(Violation::WrongOrder));
        far.send(accepted).unwrap();
        assert_eq!(take(&mut far, &call), Err(Violation::WrongSide));
        assert_eq!(take(&mut far, &answer), Ok(Received::Answer(answer.clone())));
        far.send(exit).unwrap();
        assert!(far.is_ended());
        assert_eq!(take(&mut far, &answer), Ok(Received::Answer(answer.clone())));
        assert_eq!(take(&mut far, &call), Err(Violation::WrongOrder));

        let mut near = Session::new(End::Near);
        near.send(run).unwrap();
        assert_eq!(take(&mut near, &call), Err(Violation::WrongOrder));
        near.take(accepted.encode().unwrap()).unwrap();
        assert_eq!(take(&mut near, &call), Ok(Received::Call(call.clone())));
        near.take(exit.encode().unwrap()).unwrap();
        assert_eq!(take(&mut near, &call), Err(Violation::WrongOrder));
    }

    fn wish(connections: u8) -> Message {
        let security = DataSecurity::Tls { key: [1; 32] };
        Message::DataWanted(DataWish { security, connections, first_port: 0, last_port: 0 })
    }

    fn announced(number: u32) -> Message {
        Message::DataAnnounced(DataAnnouncement { number, token: [2; 32] })
    }

    fn lost(again: bool) -> Message {
        Message::DataLost(DataLost { number: 0, why: DataLoss::Broken, again })
    }

    /// Sends messages at both ends, each from the end that may; returns the first violation at the sender, which the
    /// receiver finds too.
    fn pass_all(messages: &[Message]) -> Result<(), Violation> {
        let mut ends = [Session::new(End::Near), Session::new(End::Far)];
        for message in messages {
            let is_near = matches!(
                message,
                Message::Job(_) | Message::Stop | Message::DataWanted(_) | Message::DataLost(_)
            );
            let [near, far] = &mut ends;
            let (sender, receiver) = if is_near { (near, far) } else { (far, near) };
            let sent = sender.send(message).map(drop);
            let received = receiver.take(message.encode()?).map(drop);
            assert_eq!(sent, received, "{message:?}");
            sent?;
        }
        Ok(())
    }

    #[test]
    fn data_connections_are_wanted_once_and_announced_as_often_as_they_are_due() {
        let (serve, run) = (messages()[SERVE].clone(), messages()[RUN].clone());
        let (accepted, exit) = (messages()[ACCEPTED].clone(), messages()[EXIT].clone());
        let offer = Message::DataOffered(DataOffer {
            security: DataSecurity::Tls { key: [3; 32] },
            port: 1,
        });
        let refusal = Message::DataRefused(DataRefusal::Policy);
        let begun = [serve.clone(), accepted.clone(), wish(2), offer.clone()];
        let with = |more: &[Message]| [&begun[..], more].concat();
        for good in [
            vec![wish(1), serve.clone(), accepted.clone(), offer.clone(), announced(0)],
            vec![wish(1), run.clone(), accepted.clone(), refusal.clone()],
            with(&[announced(0), announced(1), lost(true), announced(2), lost(false), lost(false)]),
            vec![
                run.clone(),
                accepted.clone(),
                wish(1),
                offer.clone(),
                announced(0),
                exit.clone(),
                lost(true),
            ],
            vec![run.clone(), accepted.clone(), exit.clone(), wish(1)],
        ] {
            assert_eq!(pass_all(&good), Ok(()), "{good:?}");
        }
        for bad in [
            vec![wish(1), wish(1)],
            vec![serve.clone(), accepted.clone(), offer.clone()],
            vec![serve.clone(), accepted.clone(), refusal.clone()],
            vec![serve.clone(), wish(1), offer.clone()],
            vec![serve.clone(), accepted.clone(), announced(0)],
            vec![serve.clone(), accepted.clone(), lost(false)],
            vec![run.clone(), accepted.clone(), wish(1), exit.clone(), offer.clone()],
            with(std::slice::from_ref(&offer)),
            with(std::slice::from_ref(&refusal)),
            with(&[lost(false)]),
            with(&[announced(0), announced(1), announced(2)]),
            with(&[announced(0), lost(false), lost(true)]),
            with(&[announced(0), announced(1), lost(false), announced(2)]),
        ] {
            assert_eq!(pass_all(&bad), Err(Violation::WrongOrder), "{bad:?}");
        }
        for wrong in [offer, refusal, announced(0)] {
            assert_eq!(Session::new(End::Near).send(&wrong), Err(Violation::WrongSide));
        }
        for wrong in [wish(1), lost(true)] {
            assert_eq!(Session::new(End::Far).send(&wrong), Err(Violation::WrongSide));
        }
        // Without a limit, a near end could have the far end announce for ever.
        let again = [lost(true), announced(1)];
        let many = |count: u32| {
            let again = std::iter::repeat_n(&again, count as usize).flatten().cloned();
            with(&[announced(0), announced(1)]).into_iter().chain(again).collect::<Vec<_>>()
        };
        assert_eq!(pass_all(&many(MAX_ANNOUNCEMENTS - 2)), Ok(()));
        assert_eq!(pass_all(&many(MAX_ANNOUNCEMENTS - 1)), Err(Violation::WrongOrder));
    }

    #[test]
    fn open_connections_are_offered_where_they_are_wanted_and_known() {
        let (serve, accepted) = (messages()[SERVE].clone(), messages()[ACCEPTED].clone());
        let wish = |security| {
            let (first_port, last_port) = (7000, 7010);
            Message::DataWanted(DataWish { security, connections: 2, first_port, last_port })
        };
        let offer = |security| Message::DataOffered(DataOffer { security, port: 7001 });
        let (open, tls) = (DataSecurity::Open, DataSecurity::Tls { key: [1; 32] });
        for (wanted, offered, expected) in [
            (open, open, Ok(())),
            (tls, tls, Ok(())),
            (open, tls, Err(Violation::WrongOrder)),
            (tls, open, Err(Violation::WrongOrder)),
        ] {
            let all = [serve.clone(), accepted.clone(), wish(wanted), offer(offered)];
            assert_eq!(pass_all(&all), expected, "{wanted:?} {offered:?}");
        }
        for (version, expected) in [(1, Err(Violation::WrongOrder)), (2, Ok(()))] {
            let mut near = Session::new(End::Near).speaking(version);
            assert_eq!(near.send(&wish(open)).map(drop), expected, "{version}");
            let mut far = Session::new(End::Far).speaking(version);
            let frame = wish(open).encode().unwrap();
            assert_eq!(far.take(frame).map(drop), expected, "{version}");
            assert!(Session::new(End::Near).speaking(version).send(&wish(tls)).is_ok());
        }
    }

    #[test]
    fn the_machine_that_serves_is_said_once_before_the_job_begins() {
        let mark = Message::Machine(MachineMark { salt: [1; 16], digest: [2; 32] });
        let (serve, run) = (&messages()[SERVE], &messages()[RUN]);
        let accepted = &messages()[ACCEPTED];
        // Messages of the near end and of the far end, in their order.
        let pass = |version: u16, all: &[(End, &Message)]| {
            let mut ends = [End::Near, End::Far].map(|end| Session::new(end).speaking(version));
            for (from, message) in all {
                let [near, far] = &mut ends;
                let (sender, receiver) = if *from == End::Near { (near, far) } else { (far, near) };
                let sent = sender.send(message).map(drop);
                assert_eq!(sent, receiver.take(message.encode()?).map(drop), "{message:?}");
                sent?;
            }
            Ok(())
        };
        let (near, far) = (End::Near, End::Far);
        let wrong = Err(Violation::WrongOrder);
        for (all, expected) in [
            (&[(near, &mark), (near, run), (far, accepted)][..], Ok(())),
            (&[(near, serve), (far, &mark), (far, accepted)], Ok(())),
            (&[(near, &mark), (near, &mark)], wrong),
            (&[(near, &mark), (near, serve)], wrong),
            (&[(near, run), (near, &mark)], wrong),
            (&[(near, run), (far, &mark)], wrong),
            (&[(near, serve), (far, &mark), (far, &mark)], wrong),
            (&[(near, serve), (near, &mark)], wrong),
            (&[(near, serve), (far, accepted), (far, &mark)], wrong),
            (&[(far, &mark)], wrong),
        ] {
            assert_eq!(pass(VERSION, all), expected, "{all:?}");
        }
        for version in [1, 4] {
            assert_eq!(pass(version, &[(near, &mark)]), wrong, "{version}");
        }
        let frame = mark.encode().unwrap();
        assert_eq!(Message::decode(&frame), Ok(Some(mark)));
        for length in [0, 15, 47, 49] {
            let payload = vec![0; length];
            let cut = Message::decode(&Frame { payload, ..frame.clone() });
            assert_eq!(cut.map(drop), Err(Violation::Malformed { what: "message" }), "{length}");
        }
    }

    #[test]
    fn malformed_messages_about_data_connections_are_not_taken() {
        let malformed = Err(Violation::Malformed { what: "message" });
        let ports = |first_port, last_port| {
            let security = DataSecurity::Open;
            Message::DataWanted(DataWish { security, connections: 1, first_port, last_port })
        };
        for message in [
            wish(0),
            wish(17),
            ports(0, 1),
            ports(2, 1),
            Message::DataOffered(DataOffer { security: DataSecurity::Open, port: 0 }),
        ] {
            assert_eq!(message.encode().map(drop), malformed);
        }
        for message in [wish(16), ports(1, 1), announced(u32::MAX), lost(true)] {
            let frame = message.encode().unwrap();
            assert_eq!(Message::decode(&frame), Ok(Some(message)));
            for length in 0..frame.payload.len() {
                let payload = frame.payload[..length].to_vec();
                let cut = Message::decode(&Frame { payload, ..frame.clone() });
                assert_eq!(cut.map(drop), malformed, "{length}");
            }
        }
        for (kind, payload) in [
            (FrameKind::DataLost, vec![0, 0, 0, 0, 0, 0]),
            (FrameKind::DataLost, vec![0, 0, 0, 0, 13, 0]),
            (FrameKind::DataLost, vec![0, 0, 0, 0, 1, 2]),
            (FrameKind::DataRefused, vec![0]),
            (FrameKind::DataRefused, vec![6]),
        ] {
            let found = Message::decode(&Frame { kind, call: 0, payload });
            assert_eq!(found.map(drop), malformed);
        }
    }

    #[test]
    fn an_end_of_an_earlier_version_gets_nothing_that_it_does_not_know() {
        let refused = Message::Refused(Refusal::JournalOutside { path: b"d".to_vec() });
        let link = Frame { kind: FrameKind::ForeignLink, call: 0, payload: vec![] };
        let (run, serve) = (&messages()[RUN], &messages()[SERVE]);
        for (version, expected) in [(5, Err(Violation::WrongOrder)), (6, Ok(()))] {
            let begin = |end| Session::new(end).speaking(version);
            let (mut near, mut far) = (begin(End::Near), begin(End::Far));
            far.take(near.send(run).unwrap()).unwrap();
            assert_eq!(far.send(&refused).map(drop), expected, "{version}");
            assert_eq!(near.take(refused.encode().unwrap()).map(drop), expected, "{version}");
            let mut near = begin(End::Near);
            near.send(serve).unwrap();
            near.take(messages()[ACCEPTED].encode().unwrap()).unwrap();
            assert_eq!(near.take(link.clone()).map(drop), expected, "{version}");
        }
    }

    #[test]
    fn a_data_connection_has_calls_answers_and_signs_of_life_alone() {
        let call = Frame { kind: FrameKind::Call, call: 3, payload: vec![1] };
        let answer = Frame { kind: FrameKind::Answer, ..call.clone() };
        for (end, asking) in [
            (End::Near, End::Near),
            (End::Near, End::Far),
            (End::Far, End::Near),
            (End::Far, End::Far),
        ] {
            let mut session = Session::data(end, asking);
            let (calls, answers) = match end == asking {
                true => (Err(Violation::WrongSide), Ok(Received::Answer(answer.clone()))),
                false => (Ok(Received::Call(call.clone())), Err(Violation::WrongSide)),
            };
            assert_eq!(session.take(call.clone()), calls);
            assert_eq!(session.take(answer.clone()), answers);
            for message in messages().into_iter().chain([wish(1), announced(0), lost(true)]) {
                let found = session.take(message.encode().unwrap());
                match message == Message::Ping {
                    true => assert_eq!(found, Ok(Received::Message(Message::Ping))),
                    false => assert!(found.is_err(), "{message:?}"),
                }
            }
        }
    }

    #[test]
    fn messages_that_are_too_long_or_malformed_are_neither_sent_nor_taken() {
        let malformed = Violation::Malformed { what: "message" };
        let roots = |root: Vec<u8>| Message::Job(Job::Serve { roots: vec![root] });
        let output = |bytes| Message::Output { stream: OutputStream::Standard, bytes };
        let refused = |path| Message::Refused(Refusal::Outside { path });
        let bad_text = |length| Refusal::Arguments { message: "x".repeat(length) };
        for (message, expected) in [
            (roots(vec![b'x'; 4097]), malformed),
            (roots(b"a\0b".to_vec()), malformed),
            (Message::Job(Job::Serve { roots: vec![] }), malformed),
            (Message::Job(Job::Run { arguments: vec![vec![b'x']], sources: vec![] }), malformed),
            (Message::Job(Job::Serve { roots: vec![vec![b'x'; 4096]; 272] }), Violation::TooLong),
            (output(vec![]), malformed),
            (output(vec![0; (64 << 10) + 1]), malformed),
            (refused(vec![b'x'; 4097]), malformed),
            (Message::Refused(bad_text((64 << 10) + 1)), malformed),
        ] {
            assert_eq!(message.encode(), Err(expected));
        }
        for message in [roots(vec![b'x'; 4096]), output(vec![0; 64 << 10]), refused(vec![])] {
            let frame = message.encode().unwrap();
            assert_eq!(Message::decode(&frame), Ok(Some(message)));
            for length in 0..frame.payload.len().min(20) {
                let payload = frame.payload[..length].to_vec();
                let cut = Message::decode(&Frame { payload, ..frame.clone() });
                assert!(frame.kind == FrameKind::Output || cut == Err(malformed), "{length}");
            }
            assert_eq!(Message::decode(&Frame { call: 1, ..frame }), Err(malformed));
        }
    }
}
