//! Keeps how one worker copies small files, and counts those copied alike.

use crate::CopyOptions;
use crate::jobs::Summary;
use crate::small::{NextSmallFile, SmallFilePath};
use uncopy_core::Mechanism;
use uncopy_os::capabilities::Filesystem;

/// Devices of source and destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Devices {
    pub(super) source: (u32, u32),
    pub(super) destination: (u32, u32),
    /// The source is on another machine.
    pub(super) is_elsewhere: bool,
}

/// Counts of small files copied alike, added to the summary when one is copied differently.
#[derive(Default)]
pub(super) struct SmallFiles {
    path: Option<(Devices, SmallFilePath)>,
    /// The mechanism of the last one, and whether it was empty.
    counted: Option<(Mechanism, bool)>,
    files: u64,
    next: NextSmallFile,
}

impl SmallFiles {
    /// Whether the last files were on other devices.
    pub(super) fn went_elsewhere(&self, devices: Devices) -> bool {
        self.path.as_ref().is_some_and(|(last, _)| *last != devices)
    }

    /// Returns how small files are copied between these devices; a change of devices starts again.
    pub(super) fn path(
        &mut self,
        devices: Devices,
        filesystems: (Filesystem, Filesystem),
    ) -> &mut SmallFilePath {
        if self.went_elsewhere(devices) {
            self.path = None;
        }
        let (_, path) = self.path.get_or_insert_with(|| {
            (devices, SmallFilePath::new(filesystems, devices.is_elsewhere))
        });
        path
    }

    /// Returns how the last small files were copied.
    pub(super) fn last_path(&self) -> Option<&SmallFilePath> {
        self.path.as_ref().map(|(_, path)| path)
    }

    /// Takes out the guess about the next file.
    pub(super) fn take_next(&mut self) -> NextSmallFile {
        std::mem::take(&mut self.next)
    }

    /// Stores the guess about the next file.
    pub(super) fn set_next(&mut self, next: NextSmallFile) {
        self.next = next;
    }

    /// Counts a file by its mechanism. Adds those before it to the summary if they were copied differently.
    pub(super) fn count(
        &mut self,
        mechanism: Mechanism,
        is_empty: bool,
        options: &CopyOptions,
        summary: &mut Summary,
    ) {
        let alike = (mechanism, is_empty);
        if self.counted != Some(alike) {
            self.settle(options, summary);
            self.counted = Some(alike);
        }
        self.files += 1;
    }

    /// Adds the refusals of the counted files to the summary.
    pub(super) fn settle(&mut self, options: &CopyOptions, summary: &mut Summary) {
        let files = std::mem::take(&mut self.files);
        let (Some((mechanism, empty)), Some((_, path))) = (self.counted, &self.path) else {
            return;
        };
        if files > 0 {
            let size = u64::from(!empty);
            for refusal in path.refusals(size, mechanism, options) {
                summary.add_refusal(&refusal, files);
            }
        }
    }
}
