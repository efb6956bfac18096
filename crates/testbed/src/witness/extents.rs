//! Extents of a file on its device (FIEMAP).

use std::path::Path;

use crate::process::run_tool;

const BLOCK: u64 = 1024;

/// An extent, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file.
    pub logical: u64,
    /// Offset on the device.
    pub physical: u64,
    /// Length.
    pub length: u64,
    /// `FIEMAP_EXTENT_SHARED`: another file has these blocks too.
    pub shared: bool,
    /// `FIEMAP_EXTENT_UNWRITTEN`: allocated, and read as zeros.
    pub unwritten: bool,
}

/// Returns the extents of a file, after flushing it.
///
/// # Panics
/// If the filesystem has no FIEMAP, like tmpfs.
#[must_use]
pub fn extents(path: &Path) -> Vec<Extent> {
    let block = format!("-b{BLOCK}");
    let arguments = ["-v", "-s", &block].map(AsRef::as_ref);
    let printed = run_tool("filefrag", arguments.into_iter().chain([path.as_os_str()]));
    printed.lines().filter_map(parse).collect()
}

/// Whether pages of the file are dirty that have no block on the device yet (`FIEMAP_EXTENT_DELALLOC`).
#[must_use]
pub fn awaits_allocation(path: &Path) -> bool {
    run_tool("filefrag", ["-v".as_ref(), path.as_os_str()]).contains("delalloc")
}

/// `   0:        0..    4095:      98304..    102399:   4096:             last,shared,eof`
fn parse(line: &str) -> Option<Extent> {
    let fields: Vec<&str> = line.split(':').map(str::trim).collect();
    let [number, logical, physical, length, rest @ ..] = fields.as_slice() else { return None };
    number.parse::<u64>().ok()?;
    let start = |range: &str| range.split("..").next()?.trim().parse::<u64>().ok();
    let flags = rest.last().copied().unwrap_or_default();
    Some(Extent {
        logical: start(logical)? * BLOCK,
        physical: start(physical)? * BLOCK,
        length: length.parse::<u64>().ok()? * BLOCK,
        shared: flags.contains("shared"),
        unwritten: flags.contains("unwritten"),
    })
}

/// Returns the bytes that both files have in common on the device, in whole blocks.
#[must_use]
pub fn shared_bytes(a: &Path, b: &Path) -> u64 {
    let (a, b) = (extents(a), extents(b));
    let mut bytes = 0;
    for left in &a {
        for right in &b {
            let start = left.physical.max(right.physical);
            let end = (left.physical + left.length).min(right.physical + right.length);
            let same_offset = left.logical.wrapping_sub(left.physical)
                == right.logical.wrapping_sub(right.physical);
            if start < end && same_offset && left.shared && right.shared {
                bytes += end - start;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_filefrag_are_read() {
        let shared = "   1:       64..     127:        192..       255:     64:        152:  last,shared,eof";
        let expected = Extent {
            logical: 64 << 10,
            physical: 192 << 10,
            length: 64 << 10,
            shared: true,
            unwritten: false,
        };
        assert_eq!(parse(shared), Some(expected));
        let plain = "   0:        0..      31:         96..       127:     32:            ";
        assert!(parse(plain).is_some_and(|extent| !extent.shared && extent.physical == 96 << 10));
        assert_eq!(
            parse(" ext:     logical_offset:        physical_offset: length:   expected: flags:"),
            None
        );
        assert_eq!(parse("File size of a is 1048576 (1024 blocks of 1024 bytes)"), None);
    }
}
