//! A slow line between two networks: each packet arrives later, or never.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Room for the largest packet of IP.
const PACKET_BYTES: usize = 65_536;

/// Packets that are taken before those that are due are passed on.
const BATCH: usize = 64;

/// Delay and loss in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineConditions {
    /// From when a packet is sent to when it arrives.
    pub delay: Duration,
    /// Packets of a million that do not arrive.
    pub lost_per_million: u32,
}

/// Packets on their way in one direction; times are from an arbitrary beginning.
#[derive(Debug)]
struct Line {
    conditions: LineConditions,
    /// State of splitmix64: the same packets are lost in each run.
    state: u64,
    waiting: VecDeque<(Duration, Vec<u8>)>,
}

impl Line {
    fn new(conditions: LineConditions, seed: u64) -> Line {
        Line { conditions, state: seed, waiting: VecDeque::new() }
    }

    /// Takes a packet that is sent now.
    fn send(&mut self, now: Duration, packet: &[u8]) {
        if self.draw() % 1_000_000 >= u64::from(self.conditions.lost_per_million) {
            self.waiting.push_back((now + self.conditions.delay, packet.to_vec()));
        }
    }

    /// When the next packet arrives.
    fn next_arrival(&self) -> Option<Duration> {
        self.waiting.front().map(|(due, _)| *due)
    }

    /// Returns a packet that has arrived. They stay in order, since all take as long.
    fn arrived(&mut self, now: Duration) -> Option<Vec<u8>> {
        self.waiting.pop_front_if(|(due, _)| *due <= now).map(|(_, packet)| packet)
    }

    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }
}

/// A tun device whose packets a [`Relay`] takes and gives.
#[derive(Debug)]
pub struct RelayEnd(File);

impl RelayEnd {
    pub(crate) fn new(device: OwnedFd) -> RelayEnd {
        rustix::io::ioctl_fionbio(&device, true).expect("a device can be read without waiting");
        RelayEnd(device.into())
    }

    fn same(&self) -> File {
        self.0.try_clone().expect("a descriptor can be duplicated")
    }
}

/// A running line between two ends, in both directions; stops when dropped, and its devices are gone.
#[derive(Debug)]
pub struct Relay {
    /// Its other side is polled by both threads, and closed by this one's end.
    stop: Option<UnixStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    /// Joins two ends, under the same conditions in both directions.
    ///
    /// # Panics
    /// If there are no descriptors left.
    #[must_use]
    pub fn start(near: RelayEnd, far: RelayEnd, conditions: LineConditions) -> Relay {
        let (stop, stopped) = UnixStream::pair().expect("a pair of sockets");
        let mut threads = Vec::new();
        for (seed, from, to) in [(1, near.same(), far.same()), (2, far.0, near.0)] {
            let stopped = stopped.try_clone().expect("a descriptor can be duplicated");
            let line = Line::new(conditions, seed);
            threads.push(std::thread::spawn(move || carry(line, &from, &to, &stopped)));
        }
        Relay { stop: Some(stop), threads }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        drop(self.stop.take());
        for thread in self.threads.drain(..) {
            // A panic there has been printed; this may be another one's unwinding.
            let _ = thread.join();
        }
    }
}

/// Takes packets of one device and gives them to another one when they are due, until `stopped` is closed.
fn carry(mut line: Line, mut from: &File, mut to: &File, stopped: &UnixStream) {
    let begin = Instant::now();
    let mut packet = vec![0; PACKET_BYTES];
    loop {
        let left = line.next_arrival().map(|due| due.saturating_sub(begin.elapsed()));
        let left = left.map(|left| Timespec::try_from(left).expect("seconds"));
        let mut sources = [
            PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN),
            PollFd::new(stopped, PollFlags::IN),
        ];
        match poll(&mut sources, left.as_ref()) {
            Err(Errno::INTR) => continue,
            polled => polled.expect("devices can be polled"),
        };
        if !sources[1].revents().is_empty() {
            return;
        }
        for _ in 0..BATCH {
            match from.read(&mut packet) {
                Ok(length) => line.send(begin.elapsed(), &packet[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("a packet cannot be read: {error}"),
            }
        }
        while let Some(packet) = line.arrived(begin.elapsed()) {
            // A device that takes none at the moment loses it, as any does.
            let _ = to.write(&packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(lost_per_million: u32) -> Line {
        Line::new(LineConditions { delay: Duration::from_millis(50), lost_per_million }, 1)
    }

    #[test]
    fn packets_arrive_in_order_and_not_before_their_time() {
        let mut line = line(0);
        let at = Duration::from_millis;
        line.send(at(10), b"a");
        line.send(at(20), b"b");
        assert_eq!(line.next_arrival(), Some(at(60)));
        assert_eq!(line.arrived(at(59)), None);
        assert_eq!(line.arrived(at(60)).as_deref(), Some(&b"a"[..]));
        assert_eq!(line.arrived(at(60)), None);
        assert_eq!(line.arrived(at(90)).as_deref(), Some(&b"b"[..]));
        assert_eq!((line.next_arrival(), line.arrived(at(900))), (None, None));
    }

    #[test]
    fn as_many_are_lost_as_are_to_be() {
        let lost = |lost_per_million| {
            let mut line = line(lost_per_million);
            for _ in 0..100_000 {
                line.send(Duration::ZERO, b"x");
            }
            100_000 - line.waiting.len()
        };
        assert_eq!((lost(0), lost(1_000_000)), (0, 100_000));
        let some = lost(1000);
        assert!((60..140).contains(&some), "{some} of 100 on average");
    }
}
