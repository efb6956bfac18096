//! The other end: a process that can be killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

/// Bytes in front of a stream: the seed of what follows.
pub(super) const HEADER_BYTES: usize = 8;
/// A receiver's answer at the end of a stream: bytes behind the header, and how many of them
/// were right.
pub(super) const ANSWER_BYTES: usize = 16;

/// A receiver that runs.
pub(super) struct Receiver {
    child: Child,
    pub(super) stream: SocketAddr,
    pub(super) datagrams: SocketAddr,
}

impl Receiver {
    /// Starts one in the network of this thread.
    ///
    /// # Errors
    /// If it does not come up.
    pub(super) fn start() -> Result<Receiver> {
        let mut command = Command::new(std::env::current_exe()?);
        let command = command.arg("receive-and-check").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start the receiver")?;
        let mut line = String::new();
        if let Some(said) = child.stdout.take() {
            BufReader::new(said).read_line(&mut line)?;
        }
        let mut addresses = line.split_whitespace().map(str::parse);
        let (Some(Ok(stream)), Some(Ok(datagrams))) = (addresses.next(), addresses.next()) else {
            let _ = child.kill();
            let _ = child.wait();
            bail!("the receiver says {line:?}");
        };
        Ok(Receiver { child, stream, datagrams })
    }

    /// Kills it, and waits for its end.
    ///
    /// # Errors
    /// If it cannot be killed.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Receiver {
    /// Kills it.
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Receives until it is killed (`cargo xtask receive-and-check`).
///
/// # Errors
/// If there are no sockets to be had.
pub(crate) fn run() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let datagrams = UdpSocket::bind("127.0.0.1:0")?;
    println!("{} {}", listener.local_addr()?, datagrams.local_addr()?);
    std::io::stdout().flush()?;
    std::thread::spawn(move || {
        let mut room = vec![0; 1 << 16];
        // An error is one of a link that was down.
        loop {
            let _ = datagrams.recv(&mut room);
        }
    });
    for stream in listener.incoming() {
        let stream = stream?;
        // A broken connection has no peer to report to.
        std::thread::spawn(move || check(stream));
    }
    Ok(())
}

/// Reads a stream to its end, and answers what was in it.
fn check(mut stream: TcpStream) -> Result<()> {
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header)?;
    let seed = u64::from_le_bytes(header);
    let (mut length, mut right) = (0u64, 0u64);
    let mut room = vec![0; 1 << 18];
    loop {
        let n = stream.read(&mut room)?;
        if n == 0 {
            break;
        }
        let wanted = testbed::seeded(seed, length, n as u64);
        right += room.iter().zip(&wanted).filter(|(found, wanted)| found == wanted).count() as u64;
        length += n as u64;
    }
    stream.write_all(&[length.to_le_bytes(), right.to_le_bytes()].concat())?;
    Ok(())
}
