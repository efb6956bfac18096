//! The minimum for a reflink: open, open, FICLONE.

fn main() -> std::io::Result<()> {
    let (source, destination) = peers::open_both(std::env::args_os().skip(1))?;
    rustix::fs::ioctl_ficlone(&destination, &source)?;
    Ok(())
}
