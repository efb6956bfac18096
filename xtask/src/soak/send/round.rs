//! One sender, and what is done to it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testbed::network::{End, Network, Tap};
use uncopy::send::{InetSocket, Transport};

use super::Tally;
use super::courier::{Courier, SLICE_BYTES, SLICES, SendPath, WAYS};
use super::receiver::{ANSWER_BYTES, HEADER_BYTES, Receiver};
use crate::soak::scene::Dice;

/// Sends of a round at most.
const MAX_SENDS: usize = 60;
/// Sockets of one sender at most: those of a ring share its queue.
const MAX_SOCKETS: usize = 3;
/// A link is down for so long at most.
const DOWN: Duration = Duration::from_millis(20);

/// Where it is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Path {
    /// A receiver that checks every byte.
    Stream,
    /// One that takes what comes.
    Datagrams,
    /// A device that drops datagrams without copying them.
    Sink,
    /// The same, as a connection that nobody answers.
    Silent,
}

const PATHS: [Path; 6] =
    [Path::Stream, Path::Stream, Path::Stream, Path::Datagrams, Path::Sink, Path::Silent];

/// Sends of one socket.
struct Lane {
    /// Determines its contents.
    seed: u64,
    /// Bytes behind the seed.
    sent: u64,
}

/// The network, and who is in it.
pub(super) struct Scene {
    network: Network,
    receiver: Receiver,
    is_receiver_killed: bool,
    tap: Option<Tap>,
    next_port: u16,
    pub(super) tally: Tally,
}

impl Scene {
    pub(super) fn new() -> Result<Scene> {
        let network = Network::here();
        network.sink();
        network.wide_windows();
        let (receiver, tap, tally) = (Receiver::start()?, None, Tally::default());
        Ok(Scene { network, receiver, is_receiver_killed: false, tap, next_port: 2000, tally })
    }

    /// Has the process open what it opens once and keeps.
    ///
    /// # Errors
    /// As [`round`](Self::round).
    pub(super) fn warm_up(&mut self, dice: &mut Dice) -> Result<()> {
        self.run(Path::Silent, dice, |sockets| Courier::new(SendPath::MsgZerocopy, sockets))?;
        self.tap = None;
        Ok(())
    }

    /// Taps that run.
    pub(super) fn taps(&self) -> usize {
        usize::from(self.tap.is_some())
    }

    /// One sender from its beginning to its end.
    ///
    /// # Errors
    /// Runs a random round.
    pub(super) fn round(&mut self, dice: &mut Dice) -> Result<()> {
        let (path, way) = (dice.pick(&PATHS), dice.pick(&WAYS));
        self.run(path, dice, |sockets| Courier::new(way, sockets))
            .with_context(|| format!("{path:?} by {way:?}"))
    }

    fn run(
        &mut self,
        path: Path,
        dice: &mut Dice,
        courier: impl FnOnce(Vec<InetSocket>) -> Result<Courier>,
    ) -> Result<()> {
        if std::mem::take(&mut self.is_receiver_killed) {
            self.receiver = Receiver::start()?;
        }
        let sockets = 1 + (dice.fraction() * MAX_SOCKETS as f64) as usize;
        let connected = (0..sockets).map(|_| self.connect(path)).collect::<Result<_>>()?;
        let mut courier = courier(connected)?;
        let mut lanes: Vec<_> =
            (0..sockets).map(|_| Lane { seed: (dice.fraction() * 1e6) as u64, sent: 0 }).collect();
        let mut was_link_down = false;
        if path == Path::Stream {
            for (number, lane) in lanes.iter().enumerate() {
                courier.send(number, lane.seed.to_le_bytes().to_vec())?;
            }
        }
        // Unacknowledged sends give no slice back.
        let most = if path == Path::Silent { SLICES } else { sockets * MAX_SENDS };
        let count = 1 + (dice.fraction() * most as f64) as usize;
        for _ in 0..count {
            if dice.fraction() < 0.08 {
                was_link_down |= self.disturb(path, dice)?;
            }
            let length = length(dice);
            let number = (dice.fraction() * sockets as f64) as usize;
            let lane = &mut lanes[number];
            let is_sent = courier.send(number, testbed::seeded(lane.seed, lane.sent, length))?;
            lane.sent += length;
            if !is_sent && path == Path::Stream {
                break;
            }
        }
        let is_dropped = dice.fraction() < 0.2;
        let is_harmed = self.is_receiver_killed || was_link_down;
        if !is_dropped && path != Path::Silent {
            let is_settled = courier.settle(super::PATIENCE)?;
            ensure!(is_settled || self.is_receiver_killed, "something is never released");
        }
        self.count(&courier);
        // A stream outlasts its link, and datagrams nobody's death.
        let may_fail = if path == Path::Stream { self.is_receiver_killed } else { is_harmed };
        ensure!(courier.failed == 0 || may_fail, "{} sends failed without cause", courier.failed);
        if path == Path::Stream && !is_dropped && !self.is_receiver_killed {
            for (number, lane) in lanes.iter().enumerate() {
                self.compare(courier.socket(number)?, lane.sent)?;
            }
        }
        self.tally.dropped += u32::from(is_dropped || path == Path::Silent);
        courier.leave().wait()?;
        let begin = Instant::now();
        while uncopy::send::parked() > 0 {
            ensure!(begin.elapsed() < super::PATIENCE, "a socket is parked for ever");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn connect(&mut self, path: Path) -> Result<InetSocket> {
        Ok(match path {
            Path::Stream => InetSocket::connect_tcp(self.receiver.stream)?,
            Path::Datagrams => InetSocket::connect_udp(self.receiver.datagrams)?,
            Path::Sink => InetSocket::connect_udp(End::Far.address(false, 9))?,
            Path::Silent => {
                // Those before may still be parked.
                self.next_port = if self.next_port == 30_000 { 2000 } else { self.next_port + 1 };
                self.network.silent_connection(false, self.next_port)
            }
        })
    }

    /// Does something to the network, or to the receiver; says whether the link was down.
    fn disturb(&mut self, path: Path, dice: &mut Dice) -> Result<bool> {
        let choice = dice.fraction();
        if choice < 0.4 {
            self.tap = match self.tap.take() {
                Some(_) => None,
                None => Some(self.network.tap()),
            };
            self.tally.taps += 1;
        } else if choice < 0.7 {
            let device = if matches!(path, Path::Sink | Path::Silent) { "sink" } else { "lo" };
            self.network.ip(&format!("link set {device} down"));
            std::thread::sleep(DOWN.mul_f64(dice.fraction()));
            self.network.ip(&format!("link set {device} up"));
            if device == "sink" {
                // The kernel forgets this neighbour with the link.
                let far = End::Far.address(false, 0).ip();
                self.network.ip(&format!(
                    "neighbour replace {far} lladdr 02:00:00:00:00:02 dev sink nud permanent"
                ));
                self.network.wide_windows();
            }
            self.tally.links += 1;
            return Ok(true);
        } else if matches!(path, Path::Stream | Path::Datagrams) && !self.is_receiver_killed {
            self.receiver.kill()?;
            self.tally.killed_receivers += 1;
            self.is_receiver_killed = true;
        }
        Ok(false)
    }

    fn count(&mut self, courier: &Courier) {
        let tally = &mut self.tally;
        tally.sends += courier.sends;
        tally.failed_sends += courier.failed;
        for counters in courier.counters() {
            tally.sockets += 1;
            tally.bytes += counters.bytes;
            tally.not_copied_sends += counters.not_copied_sends;
            tally.copied_sends += counters.copied_sends;
            tally.unknown_sends += counters.unknown_sends;
        }
    }

    /// Ends the stream, and asks the receiver what came.
    fn compare(&mut self, socket: &InetSocket, sent: u64) -> Result<()> {
        ensure!(socket.transport() == Transport::Tcp, "only streams are checked");
        socket.finish()?;
        let mut answer = Vec::new();
        let mut room = [0; ANSWER_BYTES];
        while answer.len() < ANSWER_BYTES {
            let n = socket.receive(&mut room).context("the receiver does not answer")?;
            ensure!(n > 0, "the receiver ends without an answer");
            answer.extend_from_slice(&room[..n]);
        }
        let number =
            |at: usize| answer[at..at + 8].iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
        let (came, right) = (number(0), number(8));
        self.tally.checked_bytes += right;
        self.tally.lost_bytes += sent.abs_diff(right).max(came - right);
        ensure!(
            (came, right) == (sent, sent),
            "{sent} bytes were sent, {came} came, {right} right"
        );
        Ok(())
    }
}

/// Bytes of a send: small ones and large ones are as frequent.
fn length(dice: &mut Dice) -> u64 {
    const { assert!(HEADER_BYTES <= SLICE_BYTES) };
    (SLICE_BYTES as f64).powf(dice.fraction()) as u64
}
