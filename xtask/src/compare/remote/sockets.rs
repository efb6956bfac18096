//! Files over sockets, beside the bare calls.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::net::RecvFlags;
use rustix::pipe::{PipeFlags, SpliceFlags};
use uncopy::send::{FileReceiver, FileTransferOptions, receive_to_file, send_file};

use crate::compare::brief::{BriefRuns, Options};
use crate::compare::case::{Case, Role, Subject};
use crate::compare::metric::{CPU_EACH, TIME_EACH};
use crate::compare::timing::sample;
use crate::compare::verdict::at_most;

const RUN: Duration = Duration::from_millis(400);
const ROUNDS: usize = 21;
const SIZES: [(&str, u64); 2] = [("1MiB", 1 << 20), ("256MiB", 256 << 20)];
/// Size of a pipe and of a buffer.
const PIECE: usize = 1 << 20;

const SEND_FILE: &str = "uncopy, send_file";
const SENDFILE: &str = "sendfile";
const READ_SEND: &str = "read and send";
const FILE_RECEIVER: &str = "uncopy, FileReceiver";
const RECEIVE_TO_FILE: &str = "uncopy, receive_to_file";
const SPLICE: &str = "splice";
const RECV_WRITE: &str = "recv and write";

/// How it is measured.
pub(super) const NOTES: &[&str] = &[
    "over sockets: time: wall time of one file over one TCP connection over loopback, until the other side has all of it; cpu: user \
     and system time of both sides, two threads of one process; value: median over rounds of a run's mean; ratio: median \
     of each round's ratio",
    "files lie in memory (memfd_create), written before; send_file: the other side discards the bytes without copying \
     (MSG_TRUNC); receive_to_file: the other side sends a file by sendfile",
    "FileReceiver, splice: with a pipe that was made before; receive_to_file makes one each time",
    "sendfile, splice, read and send, recv and write: the bare calls in a loop, in pieces of at most 1 MiB; both with a \
     buffer of 1 MiB",
];

pub(super) fn cases(options: &Options) -> Vec<Case> {
    let runs = BriefRuns::new(options.clone(), RUN, ROUNDS);
    let mut cases = Vec::new();
    for (size, bytes) in SIZES {
        let ways = [
            (SEND_FILE, SendWay::Own),
            (SENDFILE, SendWay::Sendfile),
            (READ_SEND, SendWay::Buffer),
        ];
        cases.push(case::<Sending, _>(&runs, format!("send_file/{size}"), bytes, ways));
        let ways = [
            (FILE_RECEIVER, ReceiveWay::Receiver),
            (SPLICE, ReceiveWay::Splice),
            (RECV_WRITE, ReceiveWay::Buffer),
            (RECEIVE_TO_FILE, ReceiveWay::Once),
        ];
        cases.push(case::<Receiving, _>(&runs, format!("receive_to_file/{size}"), bytes, ways));
    }
    cases
}

/// Makes the case of one kind of connection. The first way is uncopy's, and the second one is what it is compared with.
fn case<C: Connection + 'static, const WAYS: usize>(
    runs: &BriefRuns,
    name: String,
    bytes: u64,
    ways: [(&'static str, C::TransferWay); WAYS],
) -> Case {
    let (time, own, bare) = (runs.time, ways[0].0, ways[1].0);
    let subject = |(name, way): (&'static str, C::TransferWay)| {
        let is_own = [own, RECEIVE_TO_FILE].contains(&name);
        let role = if is_own { Role::Own } else { Role::Yardstick };
        let open = move || C::open(bytes);
        Subject::piece(name, role, open, move |connection: &mut C, _| {
            sample(time, || connection.transfer(bytes, way))
        })
    };
    let targets = [TIME_EACH, CPU_EACH].map(|metric| at_most(1.03, metric, own, bare)).into();
    runs.case(name, bare, ways.map(subject).into(), targets)
}

/// A connection, and a file that goes over it in several ways.
trait Connection: Sized {
    type TransferWay: Copy + 'static;

    fn open(bytes: u64) -> Result<Self>;

    /// Transfers the whole file, until the other side has it.
    fn transfer(&mut self, bytes: u64, way: Self::TransferWay) -> Result<()>;
}

fn file_of(bytes: u64) -> Result<File> {
    let file = File::from(rustix::fs::memfd_create("compare", rustix::fs::MemfdFlags::CLOEXEC)?);
    let piece = vec![1; PIECE];
    for at in (0..bytes).step_by(PIECE) {
        file.write_all_at(&piece, at)?;
    }
    Ok(file)
}

fn connection() -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    Ok((near, listener.accept()?.0))
}

#[derive(Clone, Copy)]
enum SendWay {
    Own,
    Sendfile,
    Buffer,
}

/// A connection whose other side discards what comes, and answers when a file is complete.
struct Sending {
    file: File,
    socket: TcpStream,
    buffer: Vec<u8>,
    /// Ends when the socket is closed.
    _other_side: JoinHandle<Result<()>>,
}

impl Connection for Sending {
    type TransferWay = SendWay;

    fn open(bytes: u64) -> Result<Sending> {
        let (socket, far) = connection()?;
        let other_side = std::thread::spawn(move || discard(&far, bytes));
        let (file, buffer) = (file_of(bytes)?, vec![0; PIECE]);
        Ok(Sending { file, socket, buffer, _other_side: other_side })
    }

    fn transfer(&mut self, bytes: u64, way: SendWay) -> Result<()> {
        let Sending { file, socket, buffer, .. } = self;
        match way {
            SendWay::Own => {
                send_file(&*file, 0..bytes, &*socket, &FileTransferOptions::new())?;
            }
            SendWay::Sendfile => send_bare(file, bytes, &*socket)?,
            SendWay::Buffer => {
                for at in (0..bytes).step_by(PIECE) {
                    file.read_exact_at(buffer, at)?;
                    socket.write_all(buffer)?;
                }
            }
        }
        socket.read_exact(&mut [0]).context("the other side is gone")
    }
}

/// Discards files of this length, and answers each.
fn discard(mut socket: &TcpStream, bytes: u64) -> Result<()> {
    let mut space = vec![0; PIECE];
    loop {
        let mut left = bytes;
        while left > 0 {
            let most = space.len().min(usize::try_from(left)?);
            let (_, discarded) = rustix::net::recv(socket, &mut space[..most], RecvFlags::TRUNC)?;
            if discarded == 0 {
                return Ok(());
            }
            left -= discarded as u64;
        }
        socket.write_all(&[1])?;
    }
}

fn send_bare(file: &File, bytes: u64, socket: impl AsFd) -> Result<()> {
    let mut at = 0;
    while at < bytes {
        let piece = PIECE.min(usize::try_from(bytes - at)?);
        let sent = rustix::fs::sendfile(&socket, file, Some(&mut at), piece)?;
        ensure!(sent > 0, "the file is too short");
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum ReceiveWay {
    Receiver,
    Once,
    Splice,
    Buffer,
}

/// A connection whose other side sends a file whenever it is asked to.
struct Receiving {
    file: File,
    socket: TcpStream,
    buffer: Vec<u8>,
    pipe: (OwnedFd, OwnedFd),
    receiver: FileReceiver,
    /// Ends when the socket is closed.
    _other_side: JoinHandle<Result<()>>,
}

impl Connection for Receiving {
    type TransferWay = ReceiveWay;

    fn open(bytes: u64) -> Result<Receiving> {
        let (socket, mut far) = connection()?;
        let sent = file_of(bytes)?;
        let other_side = std::thread::spawn(move || {
            while far.read_exact(&mut [0]).is_ok() {
                send_bare(&sent, bytes, &far)?;
            }
            Ok(())
        });
        let pipe = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::pipe::fcntl_setpipe_size(&pipe.1, PIECE)?;
        let (file, buffer) = (file_of(bytes)?, vec![0; PIECE]);
        let receiver = FileReceiver::new();
        Ok(Receiving { file, socket, buffer, pipe, receiver, _other_side: other_side })
    }

    fn transfer(&mut self, bytes: u64, way: ReceiveWay) -> Result<()> {
        let Receiving { file, socket, buffer, pipe, receiver, .. } = self;
        socket.write_all(&[1])?;
        let mut at = 0;
        match way {
            ReceiveWay::Receiver => {
                receiver.receive(&*socket, &*file, 0..bytes, &FileTransferOptions::new())?;
            }
            ReceiveWay::Once => {
                receive_to_file(&*socket, &*file, 0..bytes, &FileTransferOptions::new())?;
            }
            ReceiveWay::Splice => {
                let flags = SpliceFlags::MOVE;
                while at < bytes {
                    let most = PIECE.min(usize::try_from(bytes - at)?);
                    let mut taken =
                        rustix::pipe::splice(&*socket, None, &pipe.1, None, most, flags)?;
                    ensure!(taken > 0, "the other side is gone");
                    while taken > 0 {
                        let to = Some(&mut at);
                        taken -= rustix::pipe::splice(&pipe.0, None, &*file, to, taken, flags)?;
                    }
                }
            }
            ReceiveWay::Buffer => {
                while at < bytes {
                    let most = PIECE.min(usize::try_from(bytes - at)?);
                    let received = socket.read(&mut buffer[..most])?;
                    ensure!(received > 0, "the other side is gone");
                    file.write_all_at(&buffer[..received], at)?;
                    at += received as u64;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::case::assert;

    #[test]
    fn cases_are_sound() {
        let cases = cases(&Options::nowhere());
        assert_eq!(cases.len(), 4);
        assert::sound(&cases);
    }

    #[test]
    fn every_way_moves_whole_files() {
        let bytes = 3 * PIECE as u64;
        let mut sending = Sending::open(bytes).unwrap();
        for way in [SendWay::Own, SendWay::Sendfile, SendWay::Buffer, SendWay::Own] {
            sending.transfer(bytes, way).unwrap();
        }
        let mut receiving = Receiving::open(bytes).unwrap();
        let ways = [ReceiveWay::Receiver, ReceiveWay::Once, ReceiveWay::Splice, ReceiveWay::Buffer];
        for way in ways.into_iter().chain([ReceiveWay::Receiver]) {
            receiving.file.set_len(0).unwrap();
            receiving.transfer(bytes, way).unwrap();
            let mut received = vec![0; 3 * PIECE];
            receiving.file.read_exact_at(&mut received, 0).unwrap();
            assert!(received.iter().all(|byte| *byte == 1));
        }
    }
}
