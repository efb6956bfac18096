//! A bare loop: one file over some connections, with digests at each end, encrypted or not, and nothing else. It has no
//! temporary name, no journal, no connection made anew, and trusts its other end.

use std::fs::File;
use std::io::{BufRead, BufReader, IoSlice, Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, ensure};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

use super::command::Direction;

/// Bytes that are read, digested and sent at once.
const BLOCK_BYTES: usize = 256 << 10;
/// Bytes that are encrypted at once: a record of TLS (RFC 8446, section 5.1).
const RECORD_BYTES: usize = 16 << 10;
const TAG_BYTES: usize = 16;
const KEY_BYTES: usize = 16;

/// How the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BareWay {
    /// Encrypted by AES-128-GCM.
    Sealed,
    /// By `sendfile`.
    Open,
}

impl BareWay {
    pub(super) const BOTH: [BareWay; 2] = [BareWay::Sealed, BareWay::Open];

    pub(super) fn name(self) -> &'static str {
        match self {
            BareWay::Sealed => "sealed",
            BareWay::Open => "open",
        }
    }

    /// Name in the rows.
    pub(super) fn subject(self, connections: u8) -> String {
        match connections {
            1 => format!("bare loop, {}", self.name()),
            _ => format!("bare loop, {}, {connections} connections", self.name()),
        }
    }
}

/// Part of an end in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Send,
    Receive,
}

/// Arguments of `cargo xtask bare-copy`.
#[derive(clap::Args)]
pub(crate) struct BareArguments {
    #[arg(long)]
    way: BareWay,
    #[arg(long)]
    part: Part,
    /// Number of connections, of which each has an equal part of the file.
    #[arg(long)]
    connections: u8,
    /// File of this end.
    #[arg(long)]
    here: PathBuf,
    /// File of the other end, which is started by `shell`.
    #[arg(long, requires = "shell")]
    there: Option<PathBuf>,
    /// Address of the other end.
    #[arg(long)]
    host: Option<String>,
    /// Words of the remote shell.
    #[arg(last = true)]
    shell: Vec<String>,
}

/// Returns the arguments of `cargo xtask` for a copy, with the remote shell as it is to be called.
pub(super) fn arguments(
    way: BareWay,
    connections: u8,
    direction: Direction,
    host: &str,
    source: &Path,
    copy: &Path,
    shell: Vec<String>,
) -> Vec<std::ffi::OsString> {
    let (part, here, there) = match direction {
        Direction::Push => ("send", source, copy),
        Direction::Pull => ("receive", copy, source),
    };
    let mut all: Vec<std::ffi::OsString> =
        ["bare-copy", "--way", way.name(), "--part", part, "--host", host].map(Into::into).into();
    all.extend(["--connections".into(), connections.to_string().into()]);
    all.extend(["--here".into(), here.into(), "--there".into(), there.into(), "--".into()]);
    all.extend(shell.into_iter().map(Into::into));
    all
}

/// Copies, as the end that was started first or by the other one.
///
/// # Errors
/// If a file or the connection fails, or the digests of both ends differ.
pub(crate) fn run(arguments: &BareArguments) -> Result<()> {
    match (&arguments.there, &arguments.host) {
        (Some(there), Some(host)) => near(arguments, there, host),
        _ => far(arguments),
    }
}

fn near(arguments: &BareArguments, there: &Path, host: &str) -> Result<()> {
    let mut key = [0; KEY_BYTES];
    SystemRandom::new().fill(&mut key).ok().context("there are no random bytes")?;
    let program = std::env::current_exe()?;
    let part = match arguments.part {
        Part::Send => "receive",
        Part::Receive => "send",
    };
    let paths = [&program, there].map(|path| path.to_str().context("a path is not UTF-8"));
    let [program, there] = paths;
    let (way, connections) = (arguments.way.name(), arguments.connections.to_string());
    let line = [program?, "bare-copy", "--way", way, "--part", part, "--here", there?];
    let line = line.into_iter().chain(["--connections", &connections]);
    let (shell, words) = arguments.shell.split_first().context("no remote shell is named")?;
    let mut far = Command::new(shell)
        .args(words)
        .args([host, &shlex::try_join(line)?])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut to = far.stdin.take().context("a pipe")?;
    let mut from = BufReader::new(far.stdout.take().context("a pipe")?);
    to.write_all(&key)?;
    to.flush()?;
    let port: u16 = line_of(&mut from)?.parse()?;
    let digest = copy(arguments, &connect(arguments, host, port)?, &key)?;
    let expected = line_of(&mut from)?;
    ensure!(digest == expected, "the digests differ: {digest} here, {expected} there");
    ensure!(far.wait()?.success(), "the other end failed");
    Ok(())
}

fn far(arguments: &BareArguments) -> Result<()> {
    let mut key = [0; KEY_BYTES];
    std::io::stdin().read_exact(&mut key)?;
    let listener = TcpListener::bind(("0.0.0.0", 0))?;
    println!("{}", listener.local_addr()?.port());
    std::io::stdout().flush()?;
    let digest = copy(arguments, &accept(arguments, &listener)?, &key)?;
    println!("{digest}");
    Ok(())
}

/// Makes the connections. Each says its number first: they may arrive in another order.
fn connect(arguments: &BareArguments, host: &str, port: u16) -> Result<Vec<TcpStream>> {
    let connect = |number: u8| -> Result<TcpStream> {
        let mut stream = TcpStream::connect((host, port))?;
        stream.write_all(&[number])?;
        Ok(stream)
    };
    (0..arguments.connections).map(connect).collect()
}

/// Accepts the connections, and puts them in the order of their numbers.
fn accept(arguments: &BareArguments, listener: &TcpListener) -> Result<Vec<TcpStream>> {
    let accept = |_| -> Result<(u8, TcpStream)> {
        let (mut stream, mut number) = (listener.accept()?.0, [0]);
        stream.read_exact(&mut number)?;
        Ok((number[0], stream))
    };
    let mut streams = (0..arguments.connections).map(accept).collect::<Result<Vec<_>>>()?;
    streams.sort_by_key(|(number, _)| *number);
    Ok(streams.into_iter().map(|(_, stream)| stream).collect())
}

fn line_of(from: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// Returns the digests of all parts.
fn copy(arguments: &BareArguments, streams: &[TcpStream], key: &[u8; KEY_BYTES]) -> Result<String> {
    let length = match arguments.part {
        Part::Send => std::fs::metadata(&arguments.here)?.len(),
        Part::Receive => {
            File::create_new(&arguments.here)?;
            0
        }
    };
    let digests = thread::scope(|scope| {
        let copy_part = |(number, stream)| {
            scope.spawn(move || copy_part(arguments, stream, number, length, key))
        };
        let parts: Vec<_> = (0..).zip(streams).map(copy_part).collect();
        let digest = |part: thread::ScopedJoinHandle<'_, Result<blake3::Hash>>| {
            part.join().ok().context("a thread panicked")?
        };
        parts.into_iter().map(digest).collect::<Result<Vec<_>>>()
    })?;
    Ok(digests.iter().map(|digest| digest.to_hex().to_string()).collect())
}

/// Copies the part of one connection. Returns its digest.
fn copy_part(
    arguments: &BareArguments,
    mut stream: &TcpStream,
    number: u32,
    length: u64,
    key: &[u8; KEY_BYTES],
) -> Result<blake3::Hash> {
    stream.set_nodelay(true)?;
    let cipher = match arguments.way {
        BareWay::Sealed => {
            let key = UnboundKey::new(&AES_128_GCM, key).ok().context("a key")?;
            Some(Cipher { key: LessSafeKey::new(key), number, records: 0 })
        }
        BareWay::Open => None,
    };
    match arguments.part {
        Part::Send => {
            let range = part_of(length, number, arguments.connections);
            for end in [range.start, range.end] {
                stream.write_all(&end.to_be_bytes())?;
            }
            send(&File::open(&arguments.here)?, range, stream, cipher)
        }
        Part::Receive => {
            let [start, end] = [number_from(stream)?, number_from(stream)?];
            let mut file = File::options().write(true).open(&arguments.here)?;
            file.seek(SeekFrom::Start(start))?;
            receive(stream, end.saturating_sub(start), &file, cipher)
        }
    }
}

/// Returns the part of a file that goes over a connection.
fn part_of(length: u64, number: u32, connections: u8) -> Range<u64> {
    let at = |number: u32| length * u64::from(number) / u64::from(connections);
    at(number)..at(number + 1)
}

fn number_from(mut stream: &TcpStream) -> Result<u64> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

/// A cipher and the number of records that it was used for.
struct Cipher {
    key: LessSafeKey,
    /// Number of the connection: all have one key.
    number: u32,
    records: u64,
}

impl Cipher {
    fn nonce(&mut self) -> Nonce {
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.number.to_be_bytes());
        nonce[4..].copy_from_slice(&self.records.to_be_bytes());
        self.records += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

fn send(
    file: &File,
    range: Range<u64>,
    stream: &TcpStream,
    mut cipher: Option<Cipher>,
) -> Result<blake3::Hash> {
    let mut left = range.end - range.start;
    let (mut digest, mut block) = (blake3::Hasher::new(), vec![0; BLOCK_BYTES]);
    let (mut input, mut sent) = (file, range.start);
    input.seek(SeekFrom::Start(range.start))?;
    while left > 0 {
        let length = left.min(BLOCK_BYTES as u64) as usize;
        let block = &mut block[..length];
        input.read_exact(block)?;
        digest.update(block);
        left -= length as u64;
        let Some(cipher) = &mut cipher else {
            let end = sent + length as u64;
            while sent < end {
                let rest = (end - sent) as usize;
                rustix::fs::sendfile(stream, file, Some(&mut sent), rest)?;
            }
            continue;
        };
        let mut tags = Vec::with_capacity(BLOCK_BYTES / RECORD_BYTES);
        for record in block.chunks_mut(RECORD_BYTES) {
            let nonce = cipher.nonce();
            let tag = cipher.key.seal_in_place_separate_tag(nonce, Aad::empty(), record);
            tags.push(tag.ok().context("a record")?);
        }
        let records = block.chunks(RECORD_BYTES).zip(&tags);
        let mut parts: Vec<IoSlice<'_>> = records
            .flat_map(|(record, tag)| [IoSlice::new(record), IoSlice::new(tag.as_ref())])
            .collect();
        write_all(stream, &mut parts)?;
    }
    Ok(digest.finalize())
}

fn receive(
    mut stream: &TcpStream,
    mut left: u64,
    mut file: &File,
    mut cipher: Option<Cipher>,
) -> Result<blake3::Hash> {
    let tag_bytes = if cipher.is_some() { TAG_BYTES } else { 0 };
    let mut digest = blake3::Hasher::new();
    let mut block = vec![0; BLOCK_BYTES / RECORD_BYTES * (RECORD_BYTES + tag_bytes)];
    while left > 0 {
        let length = left.min(BLOCK_BYTES as u64) as usize;
        let block = &mut block[..length + length.div_ceil(RECORD_BYTES) * tag_bytes];
        stream.read_exact(block)?;
        left -= length as u64;
        let Some(cipher) = &mut cipher else {
            digest.update(block);
            file.write_all(block)?;
            continue;
        };
        let mut parts = Vec::with_capacity(BLOCK_BYTES / RECORD_BYTES);
        for record in block.chunks_mut(RECORD_BYTES + TAG_BYTES) {
            let nonce = cipher.nonce();
            let opened = cipher.key.open_in_place(nonce, Aad::empty(), record);
            let opened = opened.ok().context("a record that is not authentic")?;
            digest.update(opened);
            parts.push(IoSlice::new(opened));
        }
        write_all(file, &mut parts)?;
    }
    Ok(digest.finalize())
}

fn write_all(mut to: impl Write, mut parts: &mut [IoSlice<'_>]) -> Result<()> {
    while !parts.is_empty() {
        let written = to.write_vectored(parts)?;
        ensure!(written > 0, "nothing can be written any more");
        IoSlice::advance_slices(&mut parts, written);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_every_length_arrive_whole() {
        let directory = tempfile::tempdir().unwrap();
        let lengths = [0, 1, RECORD_BYTES, BLOCK_BYTES + RECORD_BYTES + 1];
        for (way, connections) in BareWay::BOTH.iter().flat_map(|way| [(*way, 1), (*way, 3)]) {
            for length in lengths {
                let name = format!("{}-{connections}-{length}", way.name());
                let source = directory.path().join("source");
                let copied = directory.path().join(name);
                std::fs::write(&source, vec![length as u8; length]).unwrap();
                let arguments = |part, here: &Path| BareArguments {
                    way,
                    part,
                    connections,
                    here: here.to_owned(),
                    there: None,
                    host: None,
                    shell: Vec::new(),
                };
                let (sender, receiver) =
                    (arguments(Part::Send, &source), arguments(Part::Receive, &copied));
                let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
                let port = listener.local_addr().unwrap().port();
                let streams = connect(&receiver, "127.0.0.1", port).unwrap();
                let sent = thread::spawn(move || {
                    copy(&sender, &accept(&sender, &listener).unwrap(), &[7; KEY_BYTES]).unwrap()
                });
                let received = copy(&receiver, &streams, &[7; KEY_BYTES]).unwrap();
                assert_eq!(received, sent.join().unwrap());
                assert_eq!(std::fs::read(&copied).unwrap(), vec![length as u8; length]);
            }
        }
    }
}
