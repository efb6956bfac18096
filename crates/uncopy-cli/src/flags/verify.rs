//! `uncopy verify`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use super::copy::DigestArg;
use super::number;
use super::operand::here_parser;

/// Forms of the command line.
pub(crate) const USAGE: &str = "\
uncopy verify [OPTIONS] SRC DST
       uncopy verify [OPTIONS] --manifest FILE [DIR]";

/// Next step for a path on another machine.
const THERE: &str = "pass --verify to the copy between the machines, or copy with --manifest and run `uncopy verify \
                     --manifest FILE DIR` there by ssh";

/// Shown below the flags.
pub(crate) const EXAMPLES: &str = "\
Examples:
  uncopy verify src /mnt/usb/src             compare a tree with its copy, byte by byte
  uncopy verify --strict src dst             report also what only the copy has
  uncopy cp -r --manifest SUMS src dst       write digests while copying, and later:
  uncopy verify --manifest SUMS dst          compare the copy with them, without the source";

/// Shown by `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  everything is the same
  1  something could not be read, or a line of the manifest could not be understood
  2  the command line makes no sense
  3  something differs, or is missing (or extra, with --strict), whatever else was found";

/// Compare a file or tree with its copy, or with a manifest of digests.
///
/// Compares contents, types, targets of symbolic links and numbers of device files, and no other
/// metadata. Symbolic links are not followed, except SRC and DST themselves, and special files are not
/// opened. Nothing is written. The page cache may answer the reads.
///
/// A manifest has lines as b3sum, sha256sum and xxhsum -H128 write them (and not md5sum), and names below DIR. Names that
/// lead out of DIR, or through a symbolic link, are not opened. A manifest says nothing about directories,
/// links and metadata.
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// SRC and DST; with --manifest DIR alone [default: the current directory]
    #[arg(value_name = "PATH", value_parser = here_parser(THERE))]
    pub paths: Vec<PathBuf>,

    /// Compare the files below DIR with the digests in FILE
    #[arg(long, value_name = "FILE", value_parser = here_parser(THERE))]
    pub manifest: Option<PathBuf>,

    /// Algorithm of the manifest [default: by the number of digits; BLAKE3 or SHA-256, whichever the
    /// first file agrees with]
    #[arg(long, value_name = "ALGORITHM", value_enum, requires = "manifest")]
    pub digest: Option<DigestArg>,

    /// Also report what DST has and SRC has not; with --manifest files that it does not name
    #[arg(long)]
    pub strict: bool,

    /// Number of threads [default: one per CPU]
    #[arg(short, long, value_name = "N", value_parser = number::at_least_one::<NonZeroUsize>)]
    pub jobs: Option<NonZeroUsize>,

    /// Print no progress, and nothing if everything is the same
    #[arg(short, long)]
    pub quiet: bool,

    /// Print one JSON object for each finding, and one at the end (`uncopy help json`)
    #[arg(long)]
    pub json: bool,
}
