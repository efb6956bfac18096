//! A durable copy in one small process: copy_file_range, then fsync.

fn main() -> std::io::Result<()> {
    let (source, destination) = peers::open_both(std::env::args_os().skip(1))?;
    let mut left = source.metadata()?.len();
    while left > 0 {
        let piece = usize::try_from(left).unwrap_or(usize::MAX);
        match rustix::fs::copy_file_range(&source, None, &destination, None, piece)? {
            0 => return Err(std::io::Error::other("the source became shorter")),
            copied => left -= copied as u64,
        }
    }
    destination.sync_all()
}
