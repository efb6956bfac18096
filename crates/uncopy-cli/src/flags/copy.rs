//! `uncopy cp`.

use std::ffi::OsString;
use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{ValueEnum, ValueHint};
use uncopy::copy::Level;

use super::tree::{RETRIES, TreeArgs};

/// How the positional arguments go together.
pub(crate) const USAGE: &str = "\
uncopy cp [OPTIONS] SRC DST
       uncopy cp [OPTIONS] SRC... DIRECTORY
       uncopy cp [OPTIONS] -t DIRECTORY SRC...
       uncopy cp [OPTIONS] --source SRC --dest DST
       uncopy cp -r [OPTIONS] SRC... DST";

/// Shown below the flags.
pub(crate) const EXAMPLES: &str = "\
Examples:
  uncopy cp -v disk.img backup.img    copy, and say which way the bytes went and why
  uncopy cp a b c /mnt/usb            several files into a directory
  uncopy cp --durable --verify a b    on the device, and read back, before b is replaced
  uncopy cp --require-zero-copy a b   share or move the bytes, or fail with exit code 5
  uncopy cp -rp src /mnt/usb          a whole tree, which appears when it is complete
  ls | uncopy cp /dev/stdin list      what comes, in place when it is whole
  uncopy cp --json *.iso /srv | jq .  one JSON object a file, documented in docs/json.md";

/// Shown by `--help`.
pub(crate) const ENVIRONMENT: &str = "\
Environment:
  UNCOPY_VERIFY  blake3, sha256 or xxh3: verify every copy as with --verify=...
  UNCOPY_...     the other settings of the configuration file, which they displace; flags displace
                 both (`uncopy config show`, docs/configuration.md)
  UNCOPY_CONFIG  the configuration file
  NO_COLOR       no colours in help and messages

Files:
  $XDG_CONFIG_HOME/uncopy/config.toml, or ~/.config/uncopy/config.toml
  tuned.toml beside it, which `uncopy tune --save` writes";

/// Copy files the cheapest correct way.
///
/// Tries the cheapest way first (sharing blocks, copying inside the kernel, letting the device
/// read the source's own pages) and falls back by itself. A new file appears under its name when
/// it is complete; an existing one is replaced in one step, so that an error or a kill leaves the
/// old file or the new one.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct CopyArgs {
    /// Files to copy, and last the file or directory to copy to
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// A file to copy, before those named without a flag; may be repeated
    #[arg(long, value_name = "SRC", help_heading = TARGETS)]
    pub source: Vec<PathBuf>,

    /// The file or directory to copy to; all other names are sources
    #[arg(long, value_name = "DST", help_heading = TARGETS)]
    pub dest: Option<PathBuf>,

    /// Copy all sources into DIRECTORY, which must exist
    #[arg(
        short,
        long,
        value_name = "DIRECTORY",
        value_hint = ValueHint::DirPath,
        help_heading = TARGETS
    )]
    pub target_directory: Option<PathBuf>,

    /// Take DST as a file even if a directory of that name exists
    #[arg(short = 'T', long, help_heading = TARGETS)]
    pub no_target_directory: bool,

    /// Leave an existing destination alone, without a race
    #[arg(short, long, visible_alias = "ignore-existing", help_heading = TARGETS)]
    pub no_clobber: bool,

    /// Replace a destination even if its mode forbids writing
    #[arg(short, long, help_heading = TARGETS)]
    pub force: bool,

    /// Write into the existing file: keeps its inode and hard links, gives up atomicity
    ///
    /// After an error or a kill the file is a mixture of old and new. Needed for bind-mounted
    /// files and for directories that cannot be written to.
    #[arg(long, help_heading = TARGETS)]
    pub in_place: bool,

    /// Read the bytes of a device, and write into a FIFO or device, instead of refusing it
    ///
    /// A FIFO that is named as a source is read to its end without it, and so is what /dev/stdin,
    /// /dev/fd/N and /proc/self/fd/N stand for.
    #[arg(long, help_heading = TARGETS)]
    pub copy_contents: bool,

    #[command(flatten)]
    pub tree: TreeArgs,

    /// Use exactly this mechanism, or fail; `auto` tries them all
    #[arg(long, value_name = "METHOD", value_enum, default_value_t, hide_default_value = true, help_heading = WAY)]
    pub method: Method,

    /// Try every cheaper way and fall back by itself: the default
    #[arg(long, help_heading = WAY)]
    pub zero_copy: bool,

    /// Fail unless no processor has to copy the bytes (shared or moved)
    #[arg(long, help_heading = WAY)]
    pub require_zero_copy: bool,

    /// Fail rather than copy through this program's memory; the kernel may copy
    #[arg(long, help_heading = WAY)]
    pub no_user_copy: bool,

    /// Only read and write through this program's memory
    #[arg(long, help_heading = WAY)]
    pub no_zero_copy: bool,

    /// What "cheapest" means: wall time (the default) or processor time
    #[arg(long, value_name = "WHAT", value_enum, default_value_t, hide_default_value = true, help_heading = WAY)]
    pub prefer: PreferArg,

    /// Keep holes (auto), also make them of zeros (always), or fill them (never)
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, hide_default_value = true, help_heading = WAY)]
    pub sparse: SparseArg,

    /// Leave the copy in the page cache (keep), out of it (skip), or either (auto)
    #[arg(long, value_name = "HOW", value_enum, default_value_t, hide_default_value = true, help_heading = WAY)]
    pub cache: CacheArg,

    /// Move so many bytes a second at most: 50M, 1.5MiB; all files and workers together
    ///
    /// Zero-copy stays on: pieces get smaller. Shared blocks and holes are not counted.
    #[arg(long, value_name = "RATE", value_parser = super::rate::parse, help_heading = WAY)]
    pub max_bandwidth: Option<NonZeroU64>,

    /// Compress with zstd where that pays: zstd, or zstd:LEVEL from 1 to 22 (3)
    ///
    /// A quick sample decides; what does not pay is copied the cheapest way. The copy is in the
    /// seekable format, which `zstd -d` reads too. Below a directory `.zst` is added to its name; a
    /// single file gets the name that is given. Needs the feature `compress` of the build.
    #[arg(long, value_name = "HOW", value_parser = compression, help_heading = WAY)]
    pub compress: Option<Level>,

    /// Decompress what zstd compressed, and copy all else as it is
    ///
    /// In a directory that is what has a name in `.zst`, which the copy loses. Needs the feature
    /// `compress` of the build.
    #[arg(long, help_heading = WAY)]
    pub decompress: bool,

    /// Neither compress nor decompress, even if a setting says so
    #[arg(long, help_heading = WAY)]
    pub no_compress: bool,

    /// Read and write files below SIZE, and have the kernel copy larger ones: 64Ki if left out
    #[arg(long, value_name = "SIZE", value_parser = super::rate::small_size, help_heading = SIZES)]
    pub zero_copy_min: Option<u64>,

    /// Write directly from SIZE on where the copy must reach the device: 1Mi if left out
    #[arg(long, value_name = "SIZE", value_parser = super::rate::size, help_heading = SIZES)]
    pub direct_min: Option<u64>,

    /// With --prefer=cpu: write directly from SIZE on; 4Mi if left out
    #[arg(long, value_name = "SIZE", value_parser = super::rate::size, help_heading = SIZES)]
    pub direct_cpu_min: Option<u64>,

    /// The buffer of copies through this program's memory; 256Ki if left out
    #[arg(long, value_name = "SIZE", value_parser = super::rate::buffer_size, help_heading = SIZES)]
    pub buffer_size: Option<u64>,

    /// Give the copy the source's metadata; without a list: mode,ownership,timestamps
    #[arg(
        short,
        long,
        value_name = "LIST",
        value_enum,
        value_delimiter = ',',
        num_args = 0..=1,
        require_equals = true,
        default_missing_values = ["mode", "ownership", "timestamps"],
        help_heading = SAFETY
    )]
    pub preserve: Vec<Attribute>,

    /// Preserve no metadata, even if a setting says so
    #[arg(long, help_heading = SAFETY)]
    pub no_preserve: bool,

    /// Flush the copy to the device before it replaces anything, and the directory after it
    #[arg(long, help_heading = SAFETY)]
    pub durable: bool,

    /// Do not flush the copy, even if a setting says so
    #[arg(long, help_heading = SAFETY)]
    pub no_durable: bool,

    /// What to do if a source changes while it is copied: fail (the default), retry or accept
    ///
    /// A change is seen by size, mtime and ctime, and on ext4, XFS and btrfs also by pages in memory that
    /// were clean and are dirty now, as stores through a mapping (MAP_SHARED) leave them. If fail or
    /// retry is given, here or by a setting, a source that has dirty pages is flushed first, at most three
    /// times. Not noticed are stores through a mapping into pages that were dirty when the copy began if
    /// neither is given, on tmpfs, or where the report says that they are unknown, and those that are on
    /// the disk again before the next look. A reflink on XFS or btrfs is a snapshot.
    #[arg(long, value_name = "HOW", value_enum, help_heading = SAFETY)]
    pub if_changed: Option<IfChangedArg>,

    /// When something cannot be copied: stop where the next file would meet the same error of the
    /// destination (stop-on-destination, the default), go on (skip), or stop (abort)
    ///
    /// Such errors are: no room (ENOSPC, EDQUOT), a read-only filesystem (EROFS), files that become
    /// too long (EFBIG), and a device that fails (EIO). A new tree then keeps its temporary name, which
    /// is told: `uncopy cp -r --resume SRC DST` goes on with it, if its journal could be written, and no
    /// other run touches it unless the message says so.
    #[arg(long, value_name = "HOW", value_enum, default_value_t, hide_default_value = true, help_heading = SAFETY)]
    pub on_error: OnErrorArg,

    /// Flush, read both files back and compare digests before the copy is put in place
    ///
    /// Without an algorithm: blake3. The copy is read from the device where the device can be
    /// asked; the report says where it was read from. A mismatch removes the new file, keeps the
    /// old one and ends with exit code 3.
    #[arg(
        long,
        value_name = "ALGORITHM",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "blake3",
        help_heading = SAFETY
    )]
    pub verify: Option<DigestArg>,

    /// Do not verify, even if a setting says so
    #[arg(long, help_heading = SAFETY)]
    pub no_verify: bool,

    /// With --verify: take shared blocks as proof and read nothing where the file was reflinked
    #[arg(long, help_heading = SAFETY)]
    pub trust_shared_extents: bool,

    /// Say for each file which way its bytes went, and why not a cheaper one
    #[arg(short, long, help_heading = REPORT)]
    pub verbose: bool,

    /// Append a record for each file to FILE, each with the hash of the one before it
    ///
    /// `uncopy audit verify FILE` notices records that were changed or removed. The hash of the last
    /// record is printed; who rewrites the file can make a new chain, but not with that hash.
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    pub audit: Option<PathBuf>,

    /// No progress bar and no notes; errors are still printed
    #[arg(short, long, help_heading = REPORT)]
    pub quiet: bool,

    /// Print one JSON object a line for each file (docs/json.md)
    #[arg(long, help_heading = REPORT)]
    pub json: bool,

    /// Read the lasting settings from FILE, which must exist (docs/configuration.md)
    #[arg(long, value_name = "FILE", help_heading = SETTINGS)]
    pub config: Option<PathBuf>,

    /// The line was `uncopy -s SRC -d DST`: verified unless a flag says no.
    #[arg(skip)]
    pub single: bool,
}

impl CopyArgs {
    /// The subcommand whose usage is shown with errors; without one that of the program is.
    pub(crate) fn subcommand(&self) -> &'static str {
        if self.single { "" } else { "cp" }
    }

    /// The flags of `uncopy cp A B`: where nothing but names stands on the command line, the parser
    /// would find these, and take a quarter of the time of a small copy. `None`: it is to look.
    pub(crate) fn of_names_alone(line: &[OsString]) -> Option<CopyArgs> {
        let [_, subcommand, names @ ..] = line else { return None };
        let is_name =
            |word: &OsString| !word.is_empty() && !word.as_encoded_bytes().starts_with(b"-");
        if subcommand != "cp" || names.len() < 2 || !names.iter().all(is_name) {
            return None;
        }
        let paths = names.iter().map(PathBuf::from).collect();
        let tree = TreeArgs { retries: RETRIES, ..TreeArgs::default() };
        Some(CopyArgs { paths, tree, ..CopyArgs::default() })
    }

    /// The destination, as far as the flags name one.
    pub(crate) fn destination(&self) -> Option<PathBuf> {
        let named = self.target_directory.as_ref().or(self.dest.as_ref());
        named.or(self.paths.last()).cloned()
    }
}

/// Reads `zstd` and `zstd:LEVEL`.
pub(crate) fn compression(text: &str) -> Result<Level, String> {
    let level = match text.split_once(':') {
        None if text == "zstd" => Some(Level::default()),
        Some(("zstd", level)) => level.parse().ok().and_then(Level::new),
        _ => None,
    };
    level.ok_or_else(|| "write zstd, or zstd:LEVEL with a level from 1 to 22".to_owned())
}

const TARGETS: &str = "From and to";
const WAY: &str = "The way the bytes go";
const SIZES: &str = "Sizes (measured by `uncopy tune`)";
const SAFETY: &str = "Safety";
const REPORT: &str = "Reports";
const SETTINGS: &str = "Settings";

/// `--method`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// The cheapest that works
    #[default]
    Auto,
    /// Share the blocks (FICLONE)
    Reflink,
    /// copy_file_range(2): inside the kernel or the filesystem
    CopyFileRange,
    /// O_DIRECT writes: the device reads the pages themselves
    Direct,
    /// sendfile(2): inside the kernel
    Sendfile,
    /// splice(2) through a pipe: inside the kernel
    Splice,
    /// read(2) and write(2) through this program's memory
    ReadWrite,
}

/// `--prefer`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PreferArg {
    /// The shortest wall time
    #[default]
    Time,
    /// The least processor time
    Cpu,
}

/// `--sparse`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SparseArg {
    /// Holes stay holes
    #[default]
    Auto,
    /// Runs of zeros become holes too
    Always,
    /// Holes are filled with zeros
    Never,
}

/// `--cache`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum CacheArg {
    /// Whatever the cheapest way does
    #[default]
    Auto,
    /// The copy is in the page cache afterwards
    Keep,
    /// The copy is not in the page cache afterwards
    Skip,
}

/// `--if-changed`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum IfChangedArg {
    /// Report an error; the destination stays as it was
    #[default]
    Fail,
    /// Copy again, three times at most, then fail
    Retry,
    /// Keep what was read, and say so
    Accept,
}

/// `--on-error`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnErrorArg {
    /// Stop if the destination would refuse the next file too, and keep an unfinished tree aside; go on
    /// after other errors. The exit code tells
    #[default]
    StopOnDestination,
    /// Go on with the others; the exit code tells
    Skip,
    /// Stop, and remove a tree that was being made
    Abort,
}

/// One item of `--preserve`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Attribute {
    /// Permission bits, setuid, setgid and sticky included
    Mode,
    /// User and group
    Ownership,
    /// Access and modification time, in nanoseconds
    Timestamps,
    /// Extended attributes
    Xattr,
    /// POSIX access control list
    Acl,
    /// All of these
    All,
}

/// `--verify`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DigestArg {
    /// BLAKE3, 256 bits: cryptographic and fast
    #[default]
    Blake3,
    /// SHA-256
    Sha256,
    /// XXH3, 128 bits: fastest; finds accidents, not forgeries
    Xxh3,
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::*;

    #[test]
    fn names_alone_are_what_the_parser_finds() {
        for (names, read) in [
            (&["a", "b"][..], true),
            (&["a", "b", "c", "/d/"], true),
            (&["a=b", ".", "cp"], true),
            (&["a\nb", "\u{e9}"], true),
            (&["a", "-"], false),
            (&["a", "--", "b"], false),
            (&["-r", "a", "b"], false),
            (&["a", "b", "-v"], false),
            (&["a", ""], false),
            (&["a"], false),
            (&[], false),
        ] {
            let line = |first: &[&str]| first.iter().chain(names).map(OsString::from).collect();
            let line: [Vec<OsString>; 2] = [line(&["uncopy", "cp"]), line(&["uncopy", "audit"])];
            let found = CopyArgs::of_names_alone(&line[0]);
            assert_eq!(found.is_some(), read, "{names:?}");
            assert!(CopyArgs::of_names_alone(&line[1]).is_none(), "{names:?}");
            if let Some(found) = found {
                let command = CopyArgs::augment_args(Command::new("cp"));
                let parsed = command.get_matches_from(&line[0][1..]);
                let parsed = CopyArgs::from_arg_matches(&parsed).unwrap();
                assert_eq!(format!("{found:?}"), format!("{parsed:?}"));
            }
        }
    }
}
