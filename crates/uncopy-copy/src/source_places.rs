//! Finds out whether what is mounted in the destination is a part of the source.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use crate::mounts::unescaped;
use uncopy_core::Objection;
use uncopy_os::file;

/// Place of a file in its filesystem, wherever that is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FilesystemPlace {
    /// Device number as in the table.
    device: Vec<u8>,
    path: PathBuf,
}

/// Table of mounts of this process, as it was at one moment.
struct MountTable(Vec<u8>);

/// Line of the table.
struct MountLine<'a> {
    id: &'a [u8],
    device: &'a [u8],
    /// Directory of the filesystem that is mounted.
    root: PathBuf,
    /// Directory that it is mounted on.
    point: PathBuf,
}

impl MountLine<'_> {
    /// Returns the place of a path below the mount.
    fn place(&self, path: &Path) -> Option<FilesystemPlace> {
        let path = self.root.join(path.strip_prefix(&self.point).ok()?);
        Some(FilesystemPlace { device: self.device.to_owned(), path })
    }
}

impl MountTable {
    /// Reads the table. Without `/proc` it is empty.
    fn read() -> MountTable {
        MountTable(fs::read("/proc/self/mountinfo").unwrap_or_default())
    }

    fn lines(&self) -> impl Iterator<Item = MountLine<'_>> {
        let lines = self.0.split(|byte| *byte == b'\n');
        lines.filter_map(|line| {
            let mut words = line.split(|byte| *byte == b' ');
            let (id, _, device) = (words.next()?, words.next()?, words.next()?);
            let (root, point) = (unescaped(words.next()?).into(), unescaped(words.next()?).into());
            Some(MountLine { id, device, root, point })
        })
    }

    /// Finds the mount that a file was opened through. `None`: the table lacks it.
    fn mount_of(&self, file: BorrowedFd<'_>) -> Option<MountLine<'_>> {
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
        let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim();
        self.lines().find(|line| line.id == mount.as_bytes())
    }

    /// Finds the place of an open file. `None`: the kernel shows no name, or the table lacks its mount.
    fn place_of(&self, file: BorrowedFd<'_>) -> Option<FilesystemPlace> {
        self.mount_of(file)?.place(&fs::read_link(file::path_of(file)).ok()?)
    }

    /// Returns the places of what is mounted below a directory.
    fn places_below(&self, directory: &Path) -> impl Iterator<Item = FilesystemPlace> {
        let below = self
            .lines()
            .filter(move |line| line.point != directory && line.point.starts_with(directory));
        below.map(|line| FilesystemPlace { device: line.device.to_owned(), path: line.root })
    }
}

/// Places of sources, and of what is mounted in them.
#[derive(Debug, Default)]
pub struct SourcePlaces {
    /// Sources by the directories of each device.
    known: HashMap<Vec<u8>, HashMap<PathBuf, PathBuf>>,
    /// Sources by their devices, and whether the place of one is not known.
    devices: HashMap<(u32, u32), (PathBuf, bool)>,
}

impl SourcePlaces {
    /// Finds the places of sources, which are open beside their names. Those that cannot be opened are left out.
    pub(crate) fn of<'a, Opened: AsFd>(
        sources: impl Iterator<Item = (&'a Path, Option<Opened>)>,
    ) -> SourcePlaces {
        let table = MountTable::read();
        let mut places = SourcePlaces::default();
        for (source, opened) in sources {
            let Some(opened) = opened else { continue };
            let place = table.place_of(opened.as_fd());
            if let Ok(stat) = file::stat(&opened) {
                let of_device =
                    places.devices.entry(stat.device).or_insert_with(|| (source.to_owned(), false));
                of_device.1 |= place.is_none();
            }
            let path = fs::read_link(file::path_of(opened.as_fd())).ok();
            let mounted = path.iter().flat_map(|path| table.places_below(path));
            for place in place.into_iter().chain(mounted) {
                places.add(place, source);
            }
        }
        places
    }

    fn add(&mut self, place: FilesystemPlace, source: &Path) {
        let of_device = self.known.entry(place.device).or_default();
        of_device.entry(place.path).or_insert_with(|| source.to_owned());
    }

    /// Returns the source that an open directory is or lies in.
    pub fn source_around(&self, directory: impl AsFd) -> Option<&Path> {
        self.around(&MountTable::read().place_of(directory.as_fd())?)
    }

    /// Compares what is mounted in the destination, and was opened there, with the sources. Where the table does not say
    /// what it is, it is refused on the filesystem of a source.
    ///
    /// # Errors
    /// It is a source or a part of one, holds one, or may.
    pub fn check_mounted(&self, mounted: impl AsFd) -> Result<(), Objection> {
        let table = MountTable::read();
        let mount = table.mount_of(mounted.as_fd());
        let place = mount.and_then(|mount| mount.place(&mount.point));
        if let Some(place) = &place {
            self.check(place)?;
        }
        let of_device = file::stat(mounted).ok().and_then(|stat| self.devices.get(&stat.device));
        match of_device {
            Some((tree, is_unknown)) if place.is_none() || *is_unknown => {
                Err(Objection::MayLieInSource { tree: tree.clone() })
            }
            _ => Ok(()),
        }
    }

    fn check(&self, mounted: &FilesystemPlace) -> Result<(), Objection> {
        if let Some(tree) = self.around(mounted) {
            return Err(Objection::InsideSource { tree: tree.to_owned() });
        }
        let sources = self.known.get(&mounted.device);
        let holds_one = |sources: &HashMap<PathBuf, PathBuf>| {
            sources.keys().any(|path| path.starts_with(&mounted.path))
        };
        match sources.is_some_and(holds_one) {
            true => Err(Objection::HoldsSource),
            false => Ok(()),
        }
    }

    fn around(&self, place: &FilesystemPlace) -> Option<&Path> {
        let sources = self.known.get(&place.device)?;
        place.path.ancestors().find_map(|above| sources.get(above)).map(PathBuf::as_path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"21 1 254:1 / / rw - ext4 /dev/vda1 rw\n\
        30 21 254:1 /s/d\\040e /t/m rw shared:5 - ext4 /dev/vda1 rw\n\
        31 21 254:1 /s/d\\040ef /t/n rw - ext4 /dev/vda1 rw\n\
        32 21 0:32 / /tmp\xff rw - tmpfs tmpfs rw\n\
        33 21 254:1 /x /s/in rw - ext4 /dev/vda1 rw\n";

    #[test]
    fn a_place_is_the_same_wherever_it_is_mounted() {
        let table = MountTable(TABLE.to_owned());
        let place = |mount: &str, path| {
            let line = table.lines().find(|line| line.id == mount.as_bytes());
            line.and_then(|line| line.place(Path::new(path)))
        };
        let mut sources = SourcePlaces::default();
        let source = place("21", "/s").unwrap();
        let places = [source].into_iter().chain(table.places_below(Path::new("/s")));
        for place in places {
            sources.add(place, Path::new("s"));
        }
        let inside = Err(Objection::InsideSource { tree: "s".into() });
        let holds = Err(Objection::HoldsSource);
        for (mount, path, expected) in [
            ("30", "/t/m", &inside),
            ("30", "/t/m/x", &inside),
            ("31", "/t/n", &inside),
            ("21", "/sx", &Ok(())),
            // Mounted in the source.
            ("21", "/x/y", &inside),
            ("33", "/s/in", &inside),
            ("21", "/xy", &Ok(())),
            ("21", "/", &holds),
            ("21", "/t", &Ok(())),
        ] {
            let found = place(mount, path).unwrap();
            assert_eq!(sources.check(&found), *expected, "{path}");
        }
        assert_eq!(place("99", "/s"), None);
        // The name that the kernel shows lies elsewhere: it was moved meanwhile.
        assert_eq!(place("30", "/s/x"), None);
        assert!(table.lines().any(|line| line.point.as_os_str().as_encoded_bytes() == b"/tmp\xff"));
    }
}
