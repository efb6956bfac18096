//! `std::fs::copy`.

fn main() -> std::io::Result<()> {
    let (source, destination) = peers::both_paths(std::env::args_os().skip(1))?;
    std::fs::copy(source, destination)?;
    Ok(())
}
