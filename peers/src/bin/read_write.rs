//! The minimum for a copy through memory: read and write with 128 KiB.

use std::io::{Read, Write};

fn main() -> std::io::Result<()> {
    let (mut source, mut destination) = peers::open_both(std::env::args_os().skip(1))?;
    let mut buffer = vec![0; peers::BUFFER_BYTES];
    loop {
        match source.read(&mut buffer)? {
            0 => return Ok(()),
            read => destination.write_all(&buffer[..read])?,
        }
    }
}
