//! Defines the context of a copy: what it shares with other copies, in addition to its options.

use std::fmt;
use std::sync::OnceLock;
use std::thread::available_parallelism;

use super::backup_claims::BackupClaims;
use super::guard::Guarded;
use super::pause::Gate;
use super::permit::Permit;
use super::throttle::Throttle;

/// Surroundings that copies share: the gate where they wait, their rate, and the threads they may use.
///
/// The default has no gate and no rate, and lets a copy use every processor.
///
/// ```
/// use std::num::NonZeroU64;
/// use uncopy::copy::{CopyContext, CopyOptions, Throttle, copy_file_in};
/// # let directory = tempfile::tempdir()?;
/// # let (source, destination) = (directory.path().join("a"), directory.path().join("b"));
/// # std::fs::write(&source, "text")?;
/// let throttle = Throttle::new(NonZeroU64::new(50_000_000).unwrap());
/// let context = CopyContext::new().throttle(&throttle);
/// copy_file_in(&source, &destination, &CopyOptions::new(), &context, &mut ())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Default)]
pub struct CopyContext<'a> {
    pub(crate) gate: Option<&'a Gate>,
    pub(crate) throttle: Option<&'a Throttle>,
    /// Permission bits that a new file is created with.
    pub(crate) new_mode: Option<u32>,
    /// Whether the space of a copy that was stopped is freed by a thread of its own.
    pub(crate) frees_aside: bool,
    /// Whether a directory is listed for leftovers at most once a second.
    pub(crate) sweeps_seldom: bool,
    pub(crate) spare_threads: Option<&'a (dyn Fn() -> usize + Sync)>,
    /// Permit to give names, where it can be withdrawn.
    pub(crate) permit: Option<&'a Permit>,
    /// Names that the job gave to backups and to copies that are called like them.
    pub(crate) backup_claims: Option<&'a BackupClaims>,
    /// The entry that is copied, where a guard is asked about it.
    pub(crate) guarded: Option<&'a Guarded<'a>>,
}

impl<'a> CopyContext<'a> {
    /// Makes a context without anything shared: the default.
    #[must_use]
    pub fn new() -> CopyContext<'a> {
        CopyContext::default()
    }

    /// Sets the gate where copies wait while a [`Pause`](super::Pause) lasts.
    #[must_use]
    pub fn gate(mut self, gate: &'a Gate) -> CopyContext<'a> {
        self.gate = Some(gate);
        self
    }

    /// Sets the rate that copies keep to together.
    #[must_use]
    pub fn throttle(mut self, throttle: &'a Throttle) -> CopyContext<'a> {
        self.throttle = Some(throttle);
        self
    }

    /// Sets the permission bits that new files are created with where the options give them none, instead of those of
    /// their sources: 0666 is what `open(2)` is commonly given. Umask and default ACL apply to them.
    ///
    /// ```
    /// # #[cfg(unix)] {
    /// use std::fs::{self, Permissions};
    /// use std::os::unix::fs::PermissionsExt;
    /// use uncopy::copy::{CopyContext, CopyOptions, copy_file_in};
    /// # let directory = tempfile::tempdir()?;
    /// # let (source, destination) = (directory.path().join("a"), directory.path().join("b"));
    /// fs::write(&source, "text")?;
    /// fs::set_permissions(&source, Permissions::from_mode(0o700))?;
    /// let context = CopyContext::new().new_mode(0o666);
    /// copy_file_in(&source, &destination, &CopyOptions::new(), &context, &mut ())?;
    /// assert_eq!(fs::metadata(&destination)?.permissions().mode() & 0o700, 0o600);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new_mode(mut self, bits: u32) -> CopyContext<'a> {
        self.new_mode = Some(bits & 0o777);
        self
    }

    /// Sets the function that returns how many threads a copy may use besides its own, for as long
    /// as one piece takes: a large file is moved by two where that is quicker. Without it: one for each
    /// further processor.
    #[must_use]
    pub fn spare_threads(mut self, count: &'a (dyn Fn() -> usize + Sync)) -> CopyContext<'a> {
        self.spare_threads = Some(count);
        self
    }

    /// Sets whether the space of a large copy that was stopped is freed by a thread of its own, so that nobody waits for
    /// it: a gibibyte takes up to 200 ms. The copy has no name any more when the call returns, but a descriptor of this
    /// process refers to it until the thread is done.
    ///
    /// ```
    /// use uncopy::copy::{Control, CopyContext, CopyOptions, Progress, copy_file_in};
    /// # let directory = tempfile::tempdir()?;
    /// # let (source, destination) = (directory.path().join("a"), directory.path().join("b"));
    /// std::fs::write(&source, vec![1; 100 << 20])?;
    /// let context = CopyContext::new().frees_aside(true);
    /// let mut stop = |progress: Progress| match progress.done_bytes {
    ///     0 => Control::Continue,
    ///     _ => Control::Stop,
    /// };
    /// let error = copy_file_in(&source, &destination, &CopyOptions::new(), &context, &mut stop).unwrap_err();
    /// assert!(error.is_cancelled());
    /// assert_eq!(std::fs::read_dir(&directory)?.count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn frees_aside(mut self, yes: bool) -> CopyContext<'a> {
        self.frees_aside = yes;
        self
    }

    /// Sets whether a directory is listed for leftovers of killed runs at most once a second, for many copies in a row that
    /// replace small files: listing a directory of 200 files takes as long as replacing one. What a run leaves within that
    /// second is found by a later copy.
    ///
    /// ```
    /// use uncopy::copy::{CopyContext, CopyOptions, copy_file_in};
    /// # let directory = tempfile::tempdir()?;
    /// # let source = directory.path().join("a");
    /// # std::fs::write(&source, "text")?;
    /// let context = CopyContext::new().sweeps_seldom(true);
    /// for name in ["b", "c", "b", "c"] {
    ///     let destination = directory.path().join(name);
    ///     copy_file_in(&source, &destination, &CopyOptions::new(), &context, &mut ())?;
    ///     assert_eq!(std::fs::read(destination)?, b"text");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn sweeps_seldom(mut self, yes: bool) -> CopyContext<'a> {
        self.sweeps_seldom = yes;
        self
    }

    /// Gives names by `act`, unless the permit to do so was withdrawn.
    pub(crate) fn give_names<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        match self.permit {
            Some(permit) => permit.use_for(act),
            None => Some(act()),
        }
    }

    /// Whether a copy may use another thread now.
    pub(crate) fn has_spare_thread(&self) -> bool {
        static FURTHER: OnceLock<usize> = OnceLock::new();
        let further =
            || *FURTHER.get_or_init(|| available_parallelism().map_or(0, |count| count.get() - 1));
        self.spare_threads.map_or_else(further, |count| count()) > 0
    }
}

impl fmt::Debug for CopyContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyContext")
            .field("gate", &self.gate)
            .field("throttle", &self.throttle)
            .field("backup_claims", &self.backup_claims)
            .finish_non_exhaustive()
    }
}
