//! A buffered copy that also hashes the bytes: `hash_copy blake3|sha256 [--fsync] SRC DST`.

use std::fmt::Write as _;
use std::io::{self, Read, Write};

use sha2::Digest;

fn main() -> io::Result<()> {
    let (flags, paths): (Vec<_>, Vec<_>) = std::env::args_os()
        .skip(1)
        .partition(|word| ["blake3", "sha256", "--fsync"].iter().any(|flag| word == *flag));
    let (mut source, mut destination) = peers::open_both(paths.into_iter())?;
    let digest = if flags.iter().any(|flag| flag == "sha256") {
        let mut hash = sha2::Sha256::new();
        copy(&mut source, &mut destination, |piece| hash.update(piece))?;
        let mut text = String::new();
        for byte in hash.finalize() {
            let _ = write!(text, "{byte:02x}");
        }
        text
    } else {
        let mut hash = blake3::Hasher::new();
        copy(&mut source, &mut destination, |piece| {
            hash.update(piece);
        })?;
        hash.finalize().to_hex().to_string()
    };
    if flags.iter().any(|flag| flag == "--fsync") {
        destination.sync_all()?;
    }
    println!("{digest}");
    Ok(())
}

fn copy(
    source: &mut impl Read,
    destination: &mut impl Write,
    mut update: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut buffer = vec![0; peers::BUFFER_BYTES];
    loop {
        let read = source.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        update(&buffer[..read]);
        destination.write_all(&buffer[..read])?;
    }
}
