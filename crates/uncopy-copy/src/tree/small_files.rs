//! Small files of one worker: how they are copied, and how many were copied alike.

use crate::CopyOptions;
use crate::jobs::Summary;
use crate::small::{NextSmallFile, SmallFilePath};
use uncopy_core::Mechanism;
use uncopy_os::capabilities::Filesystem;

/// Between which devices files go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Devices {
    pub(super) source: (u32, u32),
    pub(super) destination: (u32, u32),
}

/// Counts of small files copied alike, added to the summary when one is copied differently.
#[derive(Default)]
pub(super) struct SmallFiles {
    way: Option<(Devices, SmallFilePath)>,
    /// The mechanism of the last one, and whether it was empty.
    counted: Option<(Mechanism, bool)>,
    files: u64,
    next: NextSmallFile,
}

impl SmallFiles {
    /// Whether the last ones went between other devices.
    pub(super) fn went_elsewhere(&self, devices: Devices) -> bool {
        self.way.as_ref().is_some_and(|(last, _)| *last != devices)
    }

    /// The way of small files between these devices; another than the last one starts anew.
    pub(super) fn way(
        &mut self,
        devices: Devices,
        filesystems: (Filesystem, Filesystem),
    ) -> &mut SmallFilePath {
        if self.went_elsewhere(devices) {
            self.way = None;
        }
        let (_, way) = self.way.get_or_insert_with(|| (devices, SmallFilePath::new(filesystems)));
        way
    }

    /// The way of the last ones.
    pub(super) fn last_way(&self) -> Option<&SmallFilePath> {
        self.way.as_ref().map(|(_, way)| way)
    }

    /// Takes out what is likely of the next one.
    pub(super) fn take_next(&mut self) -> NextSmallFile {
        std::mem::take(&mut self.next)
    }

    /// Notes what is likely of the next one.
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
        let (Some((mechanism, empty)), Some((_, way))) = (self.counted, &self.way) else {
            return;
        };
        if files > 0 {
            let size = u64::from(!empty);
            for refusal in way.refusals(size, mechanism, options) {
                summary.add_refusal(&refusal, files);
            }
        }
    }
}
