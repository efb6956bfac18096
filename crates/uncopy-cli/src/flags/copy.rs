//! `uncopy cp`.

use std::ffi::OsString;
use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{ValueEnum, ValueHint};
use uncopy::copy::{Digest, Level, ModeChanges, Owner};
use uncopy::{Mechanism, System};

use super::links::{Following, LinksArg};
use super::operand::{Machine, Operand, path_parser};
use super::ports::Ports;
use super::select::Pattern;
use super::tree::{RETRIES, TreeArgs};

/// Forms of the command line.
pub(crate) const USAGE: &str = "\
uncopy cp [OPTIONS] SRC DST
       uncopy cp [OPTIONS] SRC... DIRECTORY
       uncopy cp [OPTIONS] -t DIRECTORY SRC...
       uncopy cp [OPTIONS] --source SRC --dest DST
       uncopy cp -r [OPTIONS] SRC... DST
       uncopy cp [-r] [OPTIONS] SRC... [USER@]HOST:DST
       uncopy cp [-r] [OPTIONS] [USER@]HOST:SRC... DST";

/// Shown below the flags.
pub(crate) const EXAMPLES: &str = "\
Examples:
  uncopy cp -v disk.img backup.img    copy, and print by which mechanism and why
  uncopy cp a b c /mnt/usb            copy several files into a directory
  uncopy cp --durable --verify a b    flush and read back the copy before b is replaced
  uncopy cp --require-zero-copy a b   share or move the bytes, or fail with exit code 5
  uncopy cp -rp src /mnt/usb          copy a tree, which appears when it is complete
  ls | uncopy cp /dev/stdin list      copy a pipe; the file appears when it is complete
  uncopy cp -r --manifest SUMS a b    copy a tree, and write its digests: cd b; b3sum -c ../SUMS
  uncopy cp -r src web:/srv/site      copy to another machine by ssh, where uncopy is installed too
  uncopy cp web:/var/log/big.log .    and from it; ./a:b is a file here whose name has a colon
  uncopy cp --json *.iso /srv | jq .  print one JSON object per file (`uncopy help json`)";

/// Shown by `--help`.
pub(crate) const ENVIRONMENT: &str = "\
Environment:
  UNCOPY_VERIFY  blake3, sha256 or xxh3: verify every copy, as --verify=... does
  UNCOPY_DIGEST  blake3, sha256 or xxh3: compute the digest of every copy, as --digest=... does
  UNCOPY_...     the other settings of the configuration file; a variable overrides the file, and
                 a flag overrides both (`uncopy config show` prints them,
                 `uncopy help configuration` explains them)
  UNCOPY_CONFIG  path of the configuration file
  UNCOPY_RSH     remote shell with its arguments, as --rsh names it
  NO_COLOR       no colours in help and messages

Files:
  $XDG_CONFIG_HOME/uncopy/config.toml, or ~/.config/uncopy/config.toml
  tuned.toml in the same directory, written by `uncopy tune --save`";

/// Copy files the cheapest correct way.
///
/// Tries the cheapest mechanism first (sharing blocks, copying inside the kernel, letting the device
/// read the pages of the source) and falls back to the next one automatically. A new file appears
/// under its name when it is complete; an existing one is replaced in one step, so that an error or
/// a kill leaves either the old file or the new one.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct CopyArgs {
    /// Files to copy, followed by the destination: a file or a directory
    #[arg(value_name = "PATH", value_parser = path_parser())]
    pub paths: Vec<PathBuf>,

    /// File to copy, before those named without a flag; can be repeated
    #[arg(long, value_name = "SRC", value_parser = path_parser(), help_heading = TARGETS)]
    pub source: Vec<PathBuf>,

    /// File or directory to copy to; all other paths are sources
    #[arg(long, value_name = "DST", value_parser = path_parser(), help_heading = TARGETS)]
    pub dest: Option<PathBuf>,

    /// Copy all sources into DIRECTORY, which must exist
    #[arg(
        short,
        long,
        value_name = "DIRECTORY",
        value_hint = ValueHint::DirPath,
        value_parser = path_parser(),
        help_heading = TARGETS
    )]
    pub target_directory: Option<PathBuf>,

    /// Remove slashes at the end of each SRC, so that a link is meant and not the directory that it leads to
    #[arg(long, help_heading = TARGETS)]
    pub strip_trailing_slashes: bool,

    /// Keep the path of each SRC below the destination, which is a directory that exists: a/b/c becomes DST/a/b/c
    ///
    /// Directories of the path that are missing get the permissions of the source's, and all get what
    /// --preserve names. Links below the destination are not followed.
    #[arg(long, help_heading = TARGETS)]
    pub parents: bool,

    /// Copy the files and directories that the lines of FILE name below SRC, with their paths, into the
    /// directory DST; - reads standard input
    ///
    /// Empty lines, and those that begin with # or ;, are left out; ./#name means such a name. A directory is
    /// copied with its contents with --recursive alone.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = TARGETS)]
    pub files_from: Option<PathBuf>,

    /// With --files-from: names end in a zero byte, not a line break
    #[arg(short = '0', long, requires = "files_from", help_heading = TARGETS)]
    pub from0: bool,

    /// Remote shell with its arguments, for an operand HOST:PATH: 'ssh -p 2222' [default: ssh]
    ///
    /// It is split at spaces, with quotes as in a shell, and no shell runs it. It gets user, port and host, and
    /// the command of --remote-program with `serve --stdio`; no file name.
    #[arg(short = 'e', long, value_name = "COMMAND", value_hint = ValueHint::CommandString, help_heading = TARGETS)]
    pub rsh: Option<OsString>,

    /// Program that runs on the other machine: /opt/uncopy, 'sudo uncopy' [default: uncopy]
    #[arg(long, value_name = "COMMAND", help_heading = TARGETS)]
    pub remote_program: Option<OsString>,

    /// Way of the bytes between machines
    ///
    /// They go through the remote shell at first. With auto, connections with TLS 1.3 are made beside it once
    /// 8 MiB have crossed (256 KiB if the other machine is far), and without them the copy goes on through the shell. With tls the copy begins when
    /// one stands, and fails with exit code 9 without. With open the connections have no TLS, which costs less: for
    /// networks on which you would also use NFS without Kerberos, since whoever is on the way can read all contents;
    /// digests go through the shell, so that nobody changes them. On the other machine, the setting data = "tls" forbids
    /// open ones, and data = "ssh" all.
    #[arg(long, value_enum, default_value_t, value_name = "WAY", help_heading = TARGETS)]
    pub data: DataArg,

    /// Number of connections beside the remote shell, 1 to 16 [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16), help_heading = TARGETS)]
    pub connections: Option<u8>,

    /// Ports on which the other machine takes them: 0 (any free one), 7000, 7000-7010 [default: 0]
    #[arg(long, value_name = "PORTS", value_parser = super::ports::parse, help_heading = TARGETS)]
    pub data_ports: Option<Ports>,

    /// Treat DST as a file even if a directory of that name exists
    #[arg(short = 'T', long, help_heading = TARGETS)]
    pub no_target_directory: bool,

    /// Never replace an existing file, even one that appears during the copy
    #[arg(short, long, visible_alias = "ignore-existing", help_heading = TARGETS)]
    pub no_clobber: bool,

    /// Ask before each existing file is replaced; it is left alone unless the answer begins with y
    ///
    /// Needs a terminal as standard input, and uses one worker.
    #[arg(short, long, help_heading = TARGETS)]
    pub interactive: bool,

    /// Replace an existing file even if its mode forbids writing
    #[arg(short, long, help_heading = TARGETS)]
    pub force: bool,

    /// Replace the existing name itself: a link is not followed, and mode and owner are not taken over
    #[arg(long, help_heading = TARGETS)]
    pub remove_destination: bool,

    /// Keep each file that is replaced, under a further name: numbered, simple, existing (numbered where
    /// numbered ones exist) or none [default control: $VERSION_CONTROL, or existing]
    #[arg(
        short,
        long,
        value_name = "CONTROL",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "default",
        help_heading = TARGETS
    )]
    pub backup: Option<BackupArg>,

    /// Suffix of backups that are not numbered; implies --backup [default: $SIMPLE_BACKUP_SUFFIX, or ~]
    #[arg(short = 'S', long, value_name = "SUFFIX", help_heading = TARGETS)]
    pub suffix: Option<OsString>,

    /// Make hard links to the sources instead of copies; an existing file is an error without --force
    #[arg(short, long, help_heading = TARGETS)]
    pub link: bool,

    /// Copy no bytes: a new file is empty, and an existing one gets only the metadata of --preserve
    #[arg(long, help_heading = TARGETS)]
    pub attributes_only: bool,

    /// Write into the existing file: keeps its inode and hard links, but is not atomic
    ///
    /// After an error or a kill the file is a mixture of old and new. Needed for bind-mounted
    /// files and in directories without write permission.
    #[arg(long, help_heading = TARGETS)]
    pub in_place: bool,

    /// Read the contents of a device, and write into a FIFO or device, instead of refusing to
    ///
    /// Not needed to read a FIFO that is named as a source, or /dev/stdin, /dev/fd/N and
    /// /proc/self/fd/N. Between machines these are refused as sources.
    #[arg(long, help_heading = TARGETS)]
    pub copy_contents: bool,

    #[command(flatten)]
    pub tree: TreeArgs,

    /// Use only this mechanism, or fail; `auto` tries all of them
    #[arg(long, value_name = "METHOD", value_enum, default_value_t, hide_default_value = true, help_heading = MECHANISMS)]
    pub method: Method,

    /// Try every cheaper mechanism and fall back automatically (the default)
    #[arg(long, help_heading = MECHANISMS)]
    pub zero_copy: bool,

    /// Fail with exit code 5 unless the bytes can go this way; nothing is copied then
    ///
    /// A file that cannot meet it gets no name, and an existing one stays as it is. The message says what
    /// would make it possible. In a tree this holds for each file; `--on-error=abort` ends with the
    /// first. A setting may have the same words, and `none`.
    #[arg(long, value_name = "WAY", value_enum, default_value_t, hide_default_value = true, help_heading = MECHANISMS)]
    pub require: RequireArg,

    /// Same as --require=zero-copy
    #[arg(long, help_heading = MECHANISMS)]
    pub require_zero_copy: bool,

    /// Same as --require=no-user-copy
    #[arg(long, help_heading = MECHANISMS)]
    pub no_user_copy: bool,

    /// Use only read and write, through the memory of this program
    #[arg(long, help_heading = MECHANISMS)]
    pub no_zero_copy: bool,

    /// Sharing of blocks: where possible (auto), or fail (always, the default of the flag), or not at all
    /// (never)
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "always",
        help_heading = MECHANISMS
    )]
    pub reflink: Option<ReflinkArg>,

    /// Meaning of "cheapest": least wall time (the default) or least CPU time
    #[arg(long, value_name = "WHAT", value_enum, default_value_t, hide_default_value = true, help_heading = MECHANISMS)]
    pub prefer: PreferArg,

    /// Holes: keep them (auto), also turn zeros into holes (always), or fill them (never)
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, hide_default_value = true, help_heading = MECHANISMS)]
    pub sparse: SparseArg,

    /// Page cache: leave the copy in it (keep), out of it (skip), or either (auto)
    #[arg(long, value_name = "HOW", value_enum, default_value_t, hide_default_value = true, help_heading = MECHANISMS)]
    pub cache: CacheArg,

    /// Maximum rate in bytes per second, for all files and workers together: 50M, 1.5MiB
    ///
    /// Zero-copy mechanisms stay in use, with smaller pieces. Shared blocks and holes do not count.
    #[arg(long, value_name = "RATE", value_parser = super::rate::parse, help_heading = MECHANISMS)]
    pub max_bandwidth: Option<NonZeroU64>,

    /// Compress with zstd where that saves space: zstd, or zstd:LEVEL with a level from 1 to 22
    /// [default level: 3]
    ///
    /// First bytes, name and a quick sample decide; a file that would not become smaller is copied the
    /// cheapest way. The output is in the seekable format, which `zstd -d` reads too. In a directory the copy gets the
    /// suffix `.zst`; a single file gets the name that is given. Needs a build with the feature
    /// `compress`.
    #[arg(long, value_name = "HOW", value_parser = compression, help_heading = MECHANISMS)]
    pub compress: Option<Level>,

    /// Decompress files that zstd compressed, and copy all others as they are
    ///
    /// In a directory these are the files with the suffix `.zst`, which the copy loses. Needs a
    /// build with the feature `compress`.
    #[arg(long, help_heading = MECHANISMS)]
    pub decompress: bool,

    /// Neither compress nor decompress, whatever the settings say
    #[arg(long, help_heading = MECHANISMS)]
    pub no_compress: bool,

    /// Copy files below SIZE with read and write, and larger ones inside the kernel [default: 64Ki]
    #[arg(long, value_name = "SIZE", value_parser = super::rate::small_size, help_heading = SIZES)]
    pub zero_copy_min: Option<u64>,

    /// Use direct writes from SIZE on where the copy must reach the device [default: 1Mi]
    #[arg(long, value_name = "SIZE", value_parser = super::rate::size, help_heading = SIZES)]
    pub direct_min: Option<u64>,

    /// With --prefer=cpu: use direct writes from SIZE on [default: 4Mi]
    #[arg(long, value_name = "SIZE", value_parser = super::rate::size, help_heading = SIZES)]
    pub direct_cpu_min: Option<u64>,

    /// Buffer for copies through the memory of this program [default: 256Ki]
    #[arg(long, value_name = "SIZE", value_parser = super::rate::buffer_size, help_heading = SIZES)]
    pub buffer_size: Option<u64>,

    /// Preserve metadata of the source [default list: mode,ownership,timestamps]
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

    /// Preserve none of these, whatever -p, -a or the settings say [default list: all]
    #[arg(
        long,
        value_name = "LIST",
        value_enum,
        value_delimiter = ',',
        num_args = 0..=1,
        require_equals = true,
        default_missing_values = ["all"],
        help_heading = SAFETY
    )]
    pub no_preserve: Vec<Attribute>,

    /// Change the mode that each copy would have, as chmod does: 640, u=rwX,go-w; with D before it only
    /// that of directories, with F only that of others
    ///
    /// No copy has a wider mode before. Can be repeated.
    #[arg(long, value_name = "MODE", allow_hyphen_values = true, help_heading = SAFETY)]
    pub chmod: Vec<ModeChanges>,

    /// Give each copy this owner: USER, USER:GROUP or :GROUP, as names or numbers
    ///
    /// A copy that cannot get it fails, and an existing file is kept.
    #[arg(long, value_name = "OWNER", value_parser = Owner::look_up, help_heading = SAFETY)]
    pub chown: Option<Owner>,

    /// Flush the copy to the device before it replaces anything, and its directory afterwards
    #[arg(long, help_heading = SAFETY)]
    pub durable: bool,

    /// Do not flush the copy, whatever the settings say
    #[arg(long, help_heading = SAFETY)]
    pub no_durable: bool,

    /// If a source changes while it is copied: fail (the default), retry or accept
    ///
    /// A change is detected by size, mtime and ctime, and on ext4, XFS and btrfs also by pages of the
    /// page cache that were clean and became dirty, as after stores through a mapping (MAP_SHARED). If
    /// fail or retry is given, by this flag or a setting, a source with dirty pages is flushed first, up
    /// to three times. Stores through a mapping are not detected: into pages that were dirty when the
    /// copy began, if neither is given; on tmpfs; where the report says `unknown`; and if the pages were
    /// written to the disk before the next check. A reflink on XFS or btrfs is a snapshot.
    #[arg(long, value_name = "HOW", value_enum, help_heading = SAFETY)]
    pub if_changed: Option<IfChangedArg>,

    /// If a file cannot be copied: stop on errors of the destination that the next file would meet
    /// too (stop-on-destination, the default), continue (skip), or stop (abort)
    ///
    /// Such errors are: no space (ENOSPC, EDQUOT), a read-only filesystem (EROFS), a file too large
    /// for it (EFBIG), and a failing device (EIO). A new tree then keeps its temporary name, which is
    /// printed: `uncopy cp -r --resume SRC DST` continues it, if its journal could be written, and no
    /// other run touches it unless the message says so.
    #[arg(long, value_name = "HOW", value_enum, default_value_t, hide_default_value = true, help_heading = SAFETY)]
    pub on_error: OnErrorArg,

    /// Flush, read both files back and compare digests before the copy is put in place [default
    /// algorithm: blake3]
    ///
    /// The copy is read from the device if possible; the report says where it was read from. On a
    /// mismatch the new file is removed, the old one is kept, and the exit code is 3.
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

    /// Do not verify, whatever the settings say
    #[arg(long, help_heading = SAFETY)]
    pub no_verify: bool,

    /// With --verify: accept shared blocks as proof, and read nothing if the file was reflinked
    #[arg(long, help_heading = SAFETY)]
    pub trust_shared_extents: bool,

    /// Compute the digest of the bytes that are copied, in the same pass [default algorithm: blake3]
    ///
    /// Unless the blocks of a file can be shared or a flag names a mechanism, its bytes go through the
    /// memory of this program, which computes the digest. Otherwise the copy is read through its own
    /// descriptor before it gets its name. The source is never read a second time. The digest proves
    /// nothing about what a device stores: --verify does.
    #[arg(
        long,
        value_name = "ALGORITHM",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "blake3",
        help_heading = SAFETY
    )]
    pub digest: Option<DigestArg>,

    /// Compute no digest, whatever the settings say
    #[arg(long, help_heading = SAFETY)]
    pub no_digest: bool,

    /// Print for each file which mechanism copied it, and why no cheaper one did
    #[arg(short, long, help_heading = REPORT)]
    pub verbose: bool,

    /// Append a record for each file to FILE, with the hash of the previous record
    ///
    /// `uncopy audit verify FILE` detects records that were changed or removed. The hash of the last
    /// record is printed: someone who rewrites the file can make a new chain, but not one that ends
    /// in this hash.
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    pub audit: Option<PathBuf>,

    /// Write the digests of all files to FILE when they are copied, as --digest computes them, for
    /// `uncopy verify`, `b3sum -c`, `sha256sum -c` or `xxhsum -c`
    ///
    /// The names are those below DST: check it there. FILE appears when it is complete, or not at all,
    /// and is sorted by name.
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    pub manifest: Option<PathBuf>,

    /// Show no progress and print no notes; errors are still printed
    #[arg(short, long, help_heading = REPORT)]
    pub quiet: bool,

    /// Print one JSON object per file, each on one line (`uncopy help json`)
    #[arg(long, help_heading = REPORT)]
    pub json: bool,

    /// Read the settings from FILE, which must exist (`uncopy help configuration`)
    #[arg(long, value_name = "FILE", help_heading = SETTINGS)]
    pub config: Option<PathBuf>,

    /// Whether the command line was `uncopy -s SRC -d DST`: the copy is verified unless a flag forbids it.
    #[arg(skip)]
    pub single: bool,

    /// Whether the copy goes from one machine to another, which has single files copied as entries.
    #[arg(skip)]
    pub is_between: bool,

    /// Name of this machine for whoever reads the reports on another one.
    #[arg(skip)]
    pub shown_as: Option<Machine>,
}

impl CopyArgs {
    /// Returns the subcommand whose usage is shown with errors; empty: the program itself.
    pub(crate) fn subcommand(&self) -> &'static str {
        if self.single { "" } else { "cp" }
    }

    /// Returns the flags of `uncopy cp SRC... DST` without flags, as the parser would; `None`: use
    /// the parser.
    ///
    /// Building the parser takes 24 % of the time of a whole 4 KiB copy. To repeat the measurement,
    /// build the release program with and without the call of this function, and compare the times
    /// of processes that copy one file, in 400 alternating rounds, by the median of the ratios.
    pub(crate) fn from_paths_only(line: &[OsString]) -> Option<CopyArgs> {
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

    /// Returns the strictest requirement of the flags.
    pub(crate) fn requirement(&self) -> RequireArg {
        let rules = [
            (self.require_zero_copy, RequireArg::ZeroCopy),
            (self.no_user_copy, RequireArg::NoUserCopy),
        ];
        let rules = rules.into_iter().filter_map(|(is_given, rule)| is_given.then_some(rule));
        rules.fold(self.require, RequireArg::max)
    }

    /// Whether directories are copied.
    pub(crate) fn is_recursive(&self) -> bool {
        self.tree.recursive || self.tree.archive
    }

    /// Whether copies keep directories of their sources' paths.
    pub(crate) fn keeps_paths(&self) -> bool {
        self.parents || self.files_from.is_some()
    }

    /// Whether single files are copied as entries of a tree are, because an option of entries is given.
    pub(crate) fn copies_entries(&self) -> bool {
        let follows = matches!(
            self.tree.links.symbolic,
            None | Some(Following::Always | Following::Named | Following::As(LinksArg::Follow))
        );
        !self.is_recursive()
            && (!follows
                || self.is_between
                || self.keeps_paths()
                || self.link
                || self.keeps_hard_links()
                || self.tree.update
                || self.tree.checksum
                || self.tree.size_only
                || !self.tree.link_dest.is_empty()
                || self.tree.remove_source_files
                || self.tree.resume)
    }

    /// Whether hard links between single files are kept, as by `cp`; trees keep them in any case.
    fn keeps_hard_links(&self) -> bool {
        let destinations = usize::from(self.target_directory.is_none() && self.dest.is_none());
        let are_several =
            self.files_from.is_some() || self.source.len() + self.paths.len() > 1 + destinations;
        let keeps = |item: &Attribute| match item {
            Attribute::Links => true,
            Attribute::All => are_several,
            _ => false,
        };
        self.tree.links.keeps_hard_links || self.preserve.iter().any(keeps)
    }

    /// Whether each name of a file becomes a file of its own.
    pub(crate) fn separates_hard_links(&self) -> bool {
        self.no_preserve.contains(&Attribute::Links)
            || !(self.is_recursive() || self.keeps_hard_links())
    }

    /// Number of lists that are read from standard input.
    pub(crate) fn lists_on_standard_input(&self) -> usize {
        let patterns = self.tree.patterns.in_order.iter();
        let patterns = patterns.filter(|pattern| match pattern {
            Pattern::ExcludeFrom(list) => list.as_os_str() == "-",
            _ => false,
        });
        let names = self.files_from.iter().filter(|list| list.as_os_str() == "-");
        names.count() + patterns.count()
    }

    /// Whether a source or the destination is on another machine.
    pub(crate) fn names_machine(&self) -> bool {
        let named = self.dest.iter().chain(&self.target_directory);
        self.paths.iter().chain(&self.source).chain(named).any(|path| Operand::is_there(path))
    }

    /// Returns the destination, if the flags name one.
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

const TARGETS: &str = "Source and destination";
const MECHANISMS: &str = "Mechanisms";
const SIZES: &str = "Sizes (measured by `uncopy tune`)";
const SAFETY: &str = "Safety";
const REPORT: &str = "Reports";
const SETTINGS: &str = "Settings";

/// `--method`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Method {
    /// The cheapest one that works.
    #[default]
    Auto,
    /// This one.
    Only(Mechanism),
}

impl Method {
    /// Returns what a system offers, the cheapest first.
    const fn on(system: System) -> &'static [Method] {
        use Method::{Auto, Only};
        match system {
            System::Linux => &[
                Auto,
                Only(Mechanism::Reflink),
                Only(Mechanism::CopyFileRange),
                Only(Mechanism::Direct),
                Only(Mechanism::DirectRing),
                Only(Mechanism::Sendfile),
                Only(Mechanism::Splice),
                Only(Mechanism::ReadWrite),
            ],
            System::MacOs => &[
                Auto,
                Only(Mechanism::Clonefile),
                Only(Mechanism::Fcopyfile),
                Only(Mechanism::ReadWrite),
            ],
            System::Windows => &[
                Auto,
                Only(Mechanism::BlockClone),
                Only(Mechanism::CopyFile2),
                Only(Mechanism::ReadWrite),
            ],
            _ => &[Auto, Only(Mechanism::ReadWrite)],
        }
    }
}

impl ValueEnum for Method {
    fn value_variants<'a>() -> &'a [Method] {
        Method::on(System::HERE)
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Method::Auto => ("auto", "The cheapest one that works"),
            Method::Only(mechanism) => match mechanism {
                Mechanism::Reflink => ("reflink", "Share the blocks (FICLONE)"),
                Mechanism::CopyFileRange => {
                    ("copy-file-range", "copy_file_range(2): inside the kernel or the filesystem")
                }
                Mechanism::Direct => {
                    ("direct", "O_DIRECT writes: the device reads the pages of the source")
                }
                Mechanism::DirectRing => (
                    "direct-ring",
                    "O_DIRECT reads and writes through io_uring: past the page cache",
                ),
                Mechanism::Sendfile => ("sendfile", "sendfile(2): inside the kernel"),
                Mechanism::Splice => ("splice", "splice(2) through a pipe: inside the kernel"),
                Mechanism::ReadWrite => {
                    ("read-write", "read(2) and write(2) through the memory of this program")
                }
                Mechanism::Clonefile => ("clonefile", "Share the blocks (fclonefileat)"),
                Mechanism::Fcopyfile => {
                    ("fcopyfile", "fcopyfile(3): the system's library reads and writes")
                }
                Mechanism::BlockClone => {
                    ("block-clone", "Share the clusters (FSCTL_DUPLICATE_EXTENTS_TO_FILE)")
                }
                Mechanism::CopyFile2 => {
                    ("copy-file2", "CopyFile2, which newer systems make a clone of")
                }
            },
        };
        Some(PossibleValue::new(name).help(help))
    }
}

/// `--require`; the stricter words come later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum RequireArg {
    /// Any way that --method allows
    #[default]
    None,
    /// Not through the memory of this program; the kernel may copy
    NoUserCopy,
    /// Shared or moved: no CPU copies a byte
    ZeroCopy,
    /// The device moves them; the copy has blocks of its own
    Moved,
    /// Blocks are shared, by whichever call
    Shared,
    /// Blocks are shared by FICLONE
    Reflink,
}

/// `--backup`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackupArg {
    /// By the environment
    #[value(hide = true)]
    Default,
    /// Number all of them: name.~1~
    #[value(alias = "t")]
    Numbered,
    /// Number those of files that have numbered ones
    #[value(alias = "nil")]
    Existing,
    /// Append the suffix, and replace the previous backup
    #[value(alias = "never")]
    Simple,
    /// Make none
    #[value(alias = "off")]
    None,
}

/// `--reflink`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReflinkArg {
    /// Share the blocks, or fail
    Always,
    /// Share them where that works
    Auto,
    /// Give the copy blocks of its own
    Never,
}

/// `--data`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DataArg {
    /// Connections with TLS where they can be made and are worth it
    #[default]
    Auto,
    /// Connections with TLS, or fail
    Tls,
    /// Connections without encryption, or fail
    Open,
    /// Through the remote shell alone
    Ssh,
}

/// `--prefer`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PreferArg {
    /// Least wall time
    #[default]
    Time,
    /// Least CPU time
    Cpu,
}

/// `--sparse`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SparseArg {
    /// Keep holes
    #[default]
    Auto,
    /// Turn runs of zeros into holes too
    Always,
    /// Fill holes with zeros
    Never,
}

/// `--cache`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum CacheArg {
    /// Either, as the cheapest mechanism leaves it
    #[default]
    Auto,
    /// Leave the copy in the page cache
    Keep,
    /// Leave the copy out of the page cache
    Skip,
}

/// `--if-changed`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum IfChangedArg {
    /// Report an error and keep the old destination, except with --in-place
    #[default]
    Fail,
    /// Copy again, up to three times, then fail
    Retry,
    /// Keep the copy, and report the change
    Accept,
}

/// `--on-error`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnErrorArg {
    /// Stop if the destination would refuse the next file too, and keep an unfinished tree under its
    /// temporary name; continue after other errors, and report them by the exit code
    #[default]
    StopOnDestination,
    /// Continue with the other files, and report errors by the exit code
    Skip,
    /// Stop, and remove an unfinished new tree
    Abort,
}

/// One item of `--preserve`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Attribute {
    /// Permission bits, including setuid, setgid and sticky, and the access control list
    Mode,
    /// User and group
    Ownership,
    /// Access and modification time, in nanoseconds
    Timestamps,
    /// Extended attributes
    Xattr,
    /// POSIX access control list alone
    Acl,
    /// Names of one file stay names of one file; always so in trees
    Links,
    /// Security context, which is not supported; xattr is the nearest one
    #[value(hide = true)]
    Context,
    /// All of these
    All,
}

/// `--verify` and `--digest`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DigestArg {
    /// BLAKE3, 256 bits: cryptographic and fast
    #[default]
    Blake3,
    /// SHA-256
    Sha256,
    /// XXH3, 128 bits: fastest; detects accidents, not forgeries
    Xxh3,
}

impl DigestArg {
    /// Returns the digest of this name.
    pub(crate) fn digest(self) -> Digest {
        match self {
            DigestArg::Blake3 => Digest::Blake3,
            DigestArg::Sha256 => Digest::Sha256,
            DigestArg::Xxh3 => Digest::Xxh3,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use uncopy::copy::{Allow, CopyOptions, systems};

    use super::*;

    #[test]
    fn the_fast_path_finds_the_flags_of_the_parser() {
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
            let found = CopyArgs::from_paths_only(&line[0]);
            assert_eq!(found.is_some(), read, "{names:?}");
            assert!(CopyArgs::from_paths_only(&line[1]).is_none(), "{names:?}");
            if let Some(found) = found {
                let command = CopyArgs::augment_args(Command::new("cp"));
                let parsed = command.get_matches_from(&line[0][1..]);
                let parsed = CopyArgs::from_arg_matches(&parsed).unwrap();
                assert_eq!(format!("{found:?}"), format!("{parsed:?}"));
            }
        }
    }

    #[test]
    fn each_system_offers_its_own_mechanisms() {
        for system in System::ALL {
            let offered = Method::on(system);
            assert_eq!(offered.first(), Some(&Method::default()), "{system}");
            let mut names: Vec<_> = offered
                .iter()
                .map(|method| method.to_possible_value().unwrap().get_name().to_owned())
                .collect();
            assert!(names.contains(&"read-write".to_owned()), "{system}");
            names.sort();
            names.dedup();
            assert_eq!(names.len(), offered.len(), "{system}");
            for method in offered {
                let Method::Only(mechanism) = *method else { continue };
                let options = CopyOptions::new().allow(Allow::Only(mechanism));
                assert_eq!(systems::refused(&options, system), [], "{system} {mechanism}");
            }
        }
        let is_offered = |mechanism| {
            System::ALL.iter().any(|system| Method::on(*system).contains(&Method::Only(mechanism)))
        };
        assert!(Mechanism::ALL.into_iter().all(is_offered));
    }
}
