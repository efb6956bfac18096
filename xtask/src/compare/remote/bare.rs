//! A bare loop: one file over one connection, with a digest at each end, encrypted or not, and nothing else. It has no
//! temporary name, no journal, no second connection, and trusts its other end.

use std::fs::File;
use std::io::{BufRead, BufReader, IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
    pub(super) fn subject(self) -> String {
        format!("bare loop, {}", self.name())
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
    let way = arguments.way.name();
    let line = [program?, "bare-copy", "--way", way, "--part", part, "--here", there?];
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
    let stream = TcpStream::connect((host, port))?;
    let digest = copy(arguments, &stream, &key)?;
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
    let digest = copy(arguments, &listener.accept()?.0, &key)?;
    println!("{digest}");
    Ok(())
}

fn line_of(from: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// Returns the digest.
fn copy(arguments: &BareArguments, stream: &TcpStream, key: &[u8; KEY_BYTES]) -> Result<String> {
    stream.set_nodelay(true)?;
    let cipher = match arguments.way {
        BareWay::Sealed => {
            let key = UnboundKey::new(&AES_128_GCM, key).ok().context("a key")?;
            Some(Cipher { key: LessSafeKey::new(key), records: 0 })
        }
        BareWay::Open => None,
    };
    let digest = match arguments.part {
        Part::Send => send(&File::open(&arguments.here)?, stream, cipher)?,
        Part::Receive => receive(stream, &File::create_new(&arguments.here)?, cipher)?,
    };
    Ok(digest.to_hex().to_string())
}

/// A cipher and the number of records that it was used for.
struct Cipher {
    key: LessSafeKey,
    records: u64,
}

impl Cipher {
    fn nonce(&mut self) -> Nonce {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.records.to_be_bytes());
        self.records += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

fn send(file: &File, mut stream: &TcpStream, mut cipher: Option<Cipher>) -> Result<blake3::Hash> {
    let mut left = file.metadata()?.len();
    stream.write_all(&left.to_be_bytes())?;
    let (mut digest, mut block) = (blake3::Hasher::new(), vec![0; BLOCK_BYTES]);
    let (mut input, mut sent) = (file, 0);
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
    mut file: &File,
    mut cipher: Option<Cipher>,
) -> Result<blake3::Hash> {
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    let mut left = u64::from_be_bytes(length);
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
        for way in BareWay::BOTH {
            for length in [0, 1, RECORD_BYTES, BLOCK_BYTES + RECORD_BYTES + 1] {
                let name = format!("{}-{length}", way.name());
                let source = directory.path().join("source");
                let copied = directory.path().join(name);
                std::fs::write(&source, vec![length as u8; length]).unwrap();
                let arguments = |part, here: &Path| BareArguments {
                    way,
                    part,
                    here: here.to_owned(),
                    there: None,
                    host: None,
                    shell: Vec::new(),
                };
                let (sender, receiver) =
                    (arguments(Part::Send, &source), arguments(Part::Receive, &copied));
                let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
                let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let sent = std::thread::spawn(move || {
                    copy(&sender, &listener.accept().unwrap().0, &[7; KEY_BYTES]).unwrap()
                });
                let received = copy(&receiver, &stream, &[7; KEY_BYTES]).unwrap();
                assert_eq!(received, sent.join().unwrap());
                assert_eq!(std::fs::read(&copied).unwrap(), vec![length as u8; length]);
            }
        }
    }
}
