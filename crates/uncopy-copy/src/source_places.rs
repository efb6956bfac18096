//! Finds out whether what is mounted in the destination is a part of the source.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::jobs::Selection;
use crate::mounts::unescaped;
use uncopy_core::{Errno, Objection};
use uncopy_os::{file, follow};

/// Place of a file in its filesystem, wherever that is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FilesystemPlace {
    /// Device number as in the table.
    device: Vec<u8>,
    path: PathBuf,
}

/// Table of mounts of this process, as it was at one moment.
struct MountTable(Vec<Mount>);

/// Line of the table.
struct Mount {
    id: Vec<u8>,
    /// Mount that it is mounted on.
    parent: Vec<u8>,
    device: Vec<u8>,
    /// Directory of the filesystem that is mounted.
    root: PathBuf,
    /// Directory that it is mounted on.
    point: PathBuf,
}

impl Mount {
    /// Reads a line. `None`: it is not one of the table.
    fn of(line: &[u8]) -> Option<Mount> {
        let mut words = line.split(|byte| *byte == b' ');
        let mut word = || words.next().map(<[u8]>::to_owned);
        let (id, parent, device) = (word()?, word()?, word()?);
        let (root, point) = (unescaped(&word()?).into(), unescaped(&word()?).into());
        Some(Mount { id, parent, device, root, point })
    }

    /// Returns the place of a path below the mount.
    fn place(&self, path: &Path) -> Option<FilesystemPlace> {
        let path = self.root.join(path.strip_prefix(&self.point).ok()?);
        Some(FilesystemPlace { device: self.device.clone(), path })
    }
}

impl MountTable {
    /// Reads the table. Without `/proc` it is empty.
    fn read() -> MountTable {
        MountTable::of(&fs::read("/proc/self/mountinfo").unwrap_or_default())
    }

    fn of(text: &[u8]) -> MountTable {
        MountTable(text.split(|byte| *byte == b'\n').filter_map(Mount::of).collect())
    }

    /// Finds the mount that a file was opened through. `None`: the table lacks it.
    fn mount_of(&self, file: BorrowedFd<'_>) -> Option<&Mount> {
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
        let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim();
        self.0.iter().find(|line| line.id == mount.as_bytes())
    }

    /// Finds the place of an open file. `None`: the kernel shows no name, or the table lacks its mount.
    fn place_of(&self, file: BorrowedFd<'_>) -> Option<FilesystemPlace> {
        self.mount_of(file)?.place(&fs::read_link(file::path_of(file)).ok()?)
    }

    /// Finds what is seen in an open directory: a part of its filesystem, and parts of those that are mounted in it. Where the
    /// table lacks its mount, all that is mounted below its name counts.
    fn parts_of(&self, directory: BorrowedFd<'_>) -> Vec<Part> {
        let Ok(path) = fs::read_link(file::path_of(directory)) else { return Vec::new() };
        let mut parts = Vec::new();
        match self.mount_of(directory) {
            Some(mount) if path.starts_with(&mount.point) => {
                self.add_parts(mount, &path, &path, &mut parts);
            }
            _ => parts.extend(self.below(&path).map(|mount| Part::all_of(mount, PathBuf::new()))),
        }
        parts
    }

    fn below<'a>(&'a self, directory: &'a Path) -> impl Iterator<Item = &'a Mount> {
        self.0
            .iter()
            .filter(move |mount| mount.point != directory && mount.point.starts_with(directory))
    }

    /// Adds what is seen of a mount at and below a directory, and of those in it. `top`: the directory that ways begin at.
    fn add_parts(&self, mount: &Mount, directory: &Path, top: &Path, parts: &mut Vec<Part>) {
        let mounted: Vec<_> =
            self.below(directory).filter(|other| other.parent == mount.id).collect();
        let points: HashSet<_> = mounted.iter().map(|other| other.point.as_path()).collect();
        // One on a directory above hides it.
        let is_seen =
            |other: &&Mount| !other.point.ancestors().skip(1).any(|above| points.contains(above));
        let seen = || mounted.iter().copied().filter(is_seen);
        if let Some(place) = mount.place(directory) {
            let hidden = seen().filter_map(|other| mount.place(&other.point));
            let hidden = hidden.map(|place| place.path).collect();
            let way = directory.strip_prefix(top).unwrap_or(directory).to_owned();
            parts.push(Part { place, hidden, way });
        }
        for other in seen() {
            let upper = self.uppermost(other);
            self.add_parts(upper, &upper.point, top, parts);
        }
    }

    /// Returns the mount that hides one at the same point, or that one.
    fn uppermost<'a>(&'a self, mount: &'a Mount) -> &'a Mount {
        let upper = |under: &&Mount| {
            let is_on = |other: &&Mount| other.parent == under.id && other.point == under.point;
            self.0.iter().find(is_on)
        };
        let stack = std::iter::successors(Some(mount), upper);
        stack.take(self.0.len()).last().unwrap_or(mount)
    }
}

/// Returns the path of an open directory in its filesystem. `None`: it is not known.
pub(crate) fn path_in_filesystem(directory: BorrowedFd<'_>) -> Option<PathBuf> {
    MountTable::read().place_of(directory).map(|place| place.path)
}

/// Whether anything may be mounted below an open directory: the table says so, or does not say.
pub(crate) fn may_hold_mounts(directory: BorrowedFd<'_>) -> bool {
    let table = MountTable::read();
    let path = fs::read_link(file::path_of(directory));
    match (table.mount_of(directory), path) {
        (Some(mount), Ok(path)) if path.starts_with(&mount.point) => {
            table.below(&path).next().is_some()
        }
        _ => true,
    }
}

/// Whether an open directory is, holds or lies in another one of its device, whatever mounts show them. Where the table does
/// not say, it may.
pub(crate) fn may_overlap(directory: BorrowedFd<'_>, other: &Path) -> bool {
    let other = match follow::open(other, OFlags::PATH) {
        Ok(other) => other,
        Err(stopped) => return stopped.errno() != Errno::ENOENT,
    };
    let table = MountTable::read();
    match (table.place_of(directory), table.place_of(other.as_fd())) {
        (Some(one), Some(other)) => {
            one.path.starts_with(&other.path) || other.path.starts_with(&one.path)
        }
        _ => true,
    }
}

/// Part of a filesystem that is seen in a source.
#[derive(Debug)]
struct Part {
    place: FilesystemPlace,
    /// Directories of it on which something is mounted in the source, so that what lies at and below them is not seen there.
    hidden: Vec<PathBuf>,
    /// Path from the source.
    way: PathBuf,
}

impl Part {
    fn all_of(mount: &Mount, way: PathBuf) -> Part {
        let place = FilesystemPlace { device: mount.device.clone(), path: mount.root.clone() };
        Part { place, hidden: Vec::new(), way }
    }
}

/// Part of a source.
#[derive(Debug)]
struct Known {
    source: PathBuf,
    hidden: Vec<PathBuf>,
    way: PathBuf,
}

/// Parts of sources by the directories of a device.
type ByDirectory = HashMap<PathBuf, Vec<Known>>;

/// Places of sources, and of what is mounted in them.
#[derive(Debug, Default)]
pub struct SourcePlaces {
    /// Parts by their devices.
    known: HashMap<Vec<u8>, ByDirectory>,
    /// Sources by their devices, and whether the place of one is not known.
    devices: HashMap<(u32, u32), (PathBuf, bool)>,
    /// Selection outside of which nothing is copied from a source.
    selection: Selection,
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
            if let Ok(stat) = file::stat(&opened) {
                let of_device =
                    places.devices.entry(stat.device).or_insert_with(|| (source.to_owned(), false));
                of_device.1 |= table.place_of(opened.as_fd()).is_none();
            }
            for part in table.parts_of(opened.as_fd()) {
                places.add(part, source);
            }
        }
        places
    }

    /// Says that nothing is copied from directories of the sources that a selection leaves out.
    pub(crate) fn selecting(self, selection: Selection) -> SourcePlaces {
        SourcePlaces { selection, ..self }
    }

    fn add(&mut self, part: Part, source: &Path) {
        let Part { place, hidden, way } = part;
        let of_device = self.known.entry(place.device).or_default();
        let known = Known { source: source.to_owned(), hidden, way };
        of_device.entry(place.path).or_default().push(known);
    }

    /// Returns the source that an open directory is or lies in, also if it is left out there.
    pub fn source_around(&self, directory: impl AsFd) -> Option<&Path> {
        let place = MountTable::read().place_of(directory.as_fd())?;
        self.parts_around(&place).next().map(|(known, _)| known.source.as_path())
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
        let around = self
            .parts_around(mounted)
            .find(|(known, below)| !self.is_left_out(&known.way.join(below)));
        if let Some((known, _)) = around {
            return Err(Objection::MountedSource { tree: known.source.clone() });
        }
        let parts = self.known.get(&mounted.device).into_iter().flatten();
        let mut held = parts.filter(|(path, _)| path.starts_with(&mounted.path));
        match held.any(|(_, known)| known.iter().any(|known| !self.is_left_out(&known.way))) {
            true => Err(Objection::HoldsSource),
            false => Ok(()),
        }
    }

    /// Returns the parts of sources that a place lies in, with its path from each.
    fn parts_around<'a, 'p>(
        &'a self,
        place: &'p FilesystemPlace,
    ) -> impl Iterator<Item = (&'a Known, &'p Path)> {
        let of_device = self.known.get(&place.device);
        let at = move |above: &'p Path| {
            let known = of_device.and_then(|of_device| of_device.get(above)).into_iter().flatten();
            known.filter_map(move |known| Some((known, place.path.strip_prefix(above).ok()?)))
        };
        let is_seen = |known: &Known| !known.hidden.iter().any(|top| place.path.starts_with(top));
        place.path.ancestors().flat_map(at).filter(move |(known, _)| is_seen(known))
    }

    /// Whether a directory, by its path from a source, or one above it is left out there.
    fn is_left_out(&self, way: &Path) -> bool {
        // One that an empty path was joined to ends in a slash.
        let way: PathBuf = way.components().collect();
        let mut above = way.ancestors().filter(|way| !way.as_os_str().is_empty());
        !self.selection.is_everything() && above.any(|way| !self.selection.selects(way, true))
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
        let table = MountTable::of(TABLE);
        let place = |mount: &str, path| {
            let line = table.0.iter().find(|line| line.id == mount.as_bytes());
            line.and_then(|line| line.place(Path::new(path)))
        };
        let sources = places(&table, "21", "/s");
        let inside = Err(Objection::MountedSource { tree: "s".into() });
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
        let mut points = table.0.iter().map(|line| line.point.as_os_str().as_encoded_bytes());
        assert!(points.any(|point| point == b"/tmp\xff"));
    }

    /// Returns what is seen in a source at this path of a mount.
    fn places(table: &MountTable, mount: &str, path: &str) -> SourcePlaces {
        let (mut sources, mut parts) = (SourcePlaces::default(), Vec::new());
        let mount = table.0.iter().find(|line| line.id == mount.as_bytes()).unwrap();
        table.add_parts(mount, Path::new(path), Path::new(path), &mut parts);
        for part in parts {
            sources.add(part, Path::new("s"));
        }
        sources
    }

    /// A directory under a mount counted as a part of the source.
    #[test]
    fn what_a_mount_hides_in_the_source_is_no_part_of_it() {
        const TABLE: &[u8] = b"21 1 254:1 / / rw - ext4 /dev/vda1 rw\n\
            30 21 0:40 / /s/o rw - tmpfs t rw\n\
            31 30 254:1 /x /s/o/x rw - ext4 /dev/vda1 rw\n\
            32 31 254:1 /y /s/o/x rw - ext4 /dev/vda1 rw\n\
            33 21 254:1 /z/part /s/p/q rw - ext4 /dev/vda1 rw\n\
            34 21 0:41 / /s/p rw - tmpfs t rw\n\
            35 21 254:1 /s/p/again /s/r rw - ext4 /dev/vda1 rw\n";
        let sources = places(&MountTable::of(TABLE), "21", "/s");
        let inside = Err(Objection::MountedSource { tree: "s".into() });
        for (device, path, expected) in [
            ("254:1", "/s", &inside),
            ("254:1", "/s/a", &inside),
            ("254:1", "/s/ox", &inside),
            // Hidden by a mount on it, or on a directory above.
            ("254:1", "/s/o", &Ok(())),
            ("254:1", "/s/o/x", &Ok(())),
            ("254:1", "/s/p/other", &Ok(())),
            // Mounted there, and hidden by another mount.
            ("254:1", "/x/f", &Ok(())),
            ("254:1", "/z/part", &Ok(())),
            ("254:1", "/y/f", &inside),
            ("0:40", "/a", &inside),
            ("0:40", "/x/a", &Ok(())),
            ("0:41", "/", &inside),
            // Hidden in one place, and seen in another.
            ("254:1", "/s/p/again/f", &inside),
            ("254:1", "/s/p", &Err(Objection::HoldsSource)),
        ] {
            let place = FilesystemPlace { device: device.into(), path: path.into() };
            assert_eq!(sources.check(&place), *expected, "{device} {path}");
        }
    }

    /// A directory that the selection leaves out was refused all the same.
    #[test]
    fn what_is_left_out_of_the_source_may_be_mounted_in_the_destination() {
        const TABLE: &[u8] = b"21 1 254:1 / / rw - ext4 /dev/vda1 rw\n\
            30 21 254:1 /x /s/o/m rw - ext4 /dev/vda1 rw\n\
            31 21 254:1 /y /s/p rw - ext4 /dev/vda1 rw\n";
        let mut selection = Selection::default();
        selection.exclude("/o").unwrap();
        let sources = places(&MountTable::of(TABLE), "21", "/s").selecting(selection);
        let inside = Err(Objection::MountedSource { tree: "s".into() });
        for (path, expected) in [
            ("/s", &inside),
            ("/s/o", &Ok(())),
            ("/s/o/a/b", &Ok(())),
            ("/s/a/o", &inside),
            ("/x", &Ok(())),
            ("/x/o", &Ok(())),
            ("/y/o", &inside),
            ("/", &Err(Objection::HoldsSource)),
        ] {
            let place = FilesystemPlace { device: "254:1".into(), path: path.into() };
            assert_eq!(sources.check(&place), *expected, "{path}");
        }
    }
}
