//! The trees that are copied.

use std::fs;
use std::path::Path;

use anyhow::Result;

/// A tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::compare) enum Contents {
    /// 10,000 files of 4 KiB in 100 directories.
    Small,
    /// 200 files of 8 MiB.
    Medium,
    /// 100 files of 32 MiB in one directory.
    Large,
    /// 12,000 files in 800 directories, most of some KiB and a few of a MiB, like the source of a
    /// kernel.
    Mixed,
}

const KIB: usize = 1 << 10;

impl Contents {
    pub(super) const ALL: [Contents; 4] =
        [Contents::Small, Contents::Medium, Contents::Large, Contents::Mixed];

    pub(super) fn name(self) -> &'static str {
        match self {
            Contents::Small => "10000x4KiB",
            Contents::Medium => "200x8MiB",
            Contents::Large => "100x32MiB",
            Contents::Mixed => "mixed",
        }
    }

    /// Directories, files in each, and the length of a file by its number.
    fn shape(self) -> (usize, usize, fn(usize) -> usize) {
        match self {
            Contents::Small => (100, 100, |_| 4 * KIB),
            Contents::Medium => (1, 200, |_| 8 * KIB * KIB),
            Contents::Large => (1, 100, |_| 32 * KIB * KIB),
            Contents::Mixed => (800, 15, mixed_length),
        }
    }

    /// Directories, and files in each; a sixteenth of them if `quick`.
    fn counts(self, quick: bool) -> (usize, usize) {
        let (directories, files, _) = self.shape();
        match quick {
            true if directories > 1 => (directories.div_ceil(16), files),
            true => (1, files.div_ceil(16)),
            false => (directories, files),
        }
    }

    /// Inodes that the tree takes, or a few more.
    pub(super) fn inodes(self, quick: bool) -> u64 {
        /// The root, and those right below it.
        const ABOVE: usize = 11;
        let (directories, files) = self.counts(quick);
        (ABOVE + directories * (1 + files)) as u64
    }

    /// Makes the tree; a sixteenth of it if `quick`. Returns the number of its files and their
    /// bytes.
    pub(in crate::compare) fn plant(self, root: &Path, quick: bool) -> Result<(u64, u64)> {
        let (directories, files) = self.counts(quick);
        let (_, _, length) = self.shape();
        let (mut count, mut bytes) = (0, 0);
        for directory in 0..directories {
            // Some levels deep, as trees are.
            let path = root.join(format!("{}/{directory}", directory % 10));
            fs::create_dir_all(&path)?;
            for file in 0..files {
                let number = directory * files + file;
                let length = length(number);
                let contents = testbed::seeded(number as u64, 0, length as u64);
                fs::write(path.join(format!("file-{file}")), contents)?;
                count += 1;
                bytes += length as u64;
            }
        }
        Ok((count, bytes))
    }
}

/// Half of the files below 4 KiB, most below 64 KiB, one in a thousand a MiB.
fn mixed_length(number: usize) -> usize {
    let spread = number.wrapping_mul(0x9E37_79B9) >> 7;
    match number % 1000 {
        0 => KIB * KIB,
        n if n % 100 == 1 => 64 * KIB + spread % (192 * KIB),
        n if n % 2 == 0 => spread % (4 * KIB),
        _ => 4 * KIB + spread % (28 * KIB),
    }
}
