//! Decides whether an entry is still the one that a plan saw (pure).

use crate::format::Identity;
use uncopy_os::file::Stat;

/// Returns what of an entry of the source is not as planned. Nanoseconds count.
pub(super) fn source_difference(planned: &Identity, found: &Stat) -> Option<&'static str> {
    let now = Identity::from(found);
    let rows = [
        (planned.mode >> 12 != now.mode >> 12, "kind"),
        (planned.inode != now.inode, "inode"),
        (planned.size != now.size, "size"),
        (planned.mtime != now.mtime, "mtime"),
        (planned.ctime != now.ctime, "ctime"),
    ];
    rows.into_iter().find(|(differs, _)| *differs).map(|(_, what)| what)
}

/// Whether what has a name at the destination, or nothing, is what was planned. A file with several names there gets a new
/// time of change when another one of them goes.
pub(super) fn is_planned(planned: Option<&Identity>, found: Option<&Stat>) -> bool {
    match (planned, found) {
        (None, None) => true,
        (Some(planned), Some(found)) => {
            let now = Identity::from(found);
            let what = |id: &Identity| (id.inode, id.size, id.mtime, id.mode);
            what(planned) == what(&now) && (planned.links > 1 || planned.ctime == now.ctime)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Time;
    use uncopy_os::directory;

    fn file() -> (tempfile::NamedTempFile, Stat) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stat = directory::stat_path(file.path()).unwrap();
        (file, stat)
    }

    #[test]
    fn every_change_of_the_source_counts() {
        let (_file, stat) = file();
        let planned = Identity::from(&stat);
        let changed = |change: fn(&mut Identity)| {
            let mut planned = planned.clone();
            change(&mut planned);
            source_difference(&planned, &stat)
        };
        for (found, expected) in [
            (changed(|_| ()), None),
            (changed(|id| id.inode += 1), Some("inode")),
            (changed(|id| id.size += 1), Some("size")),
            (changed(|id| id.mtime = Time(id.mtime.0, id.mtime.1 ^ 1)), Some("mtime")),
            (changed(|id| id.ctime = Time(id.ctime.0, id.ctime.1 ^ 1)), Some("ctime")),
            (changed(|id| id.mode ^= 0o060_000), Some("kind")),
            // The time of change shows who changed these.
            (changed(|id| id.links += 1), None),
            (changed(|id| id.mode ^= 0o1), None),
        ] {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_destination_is_planned_or_not() {
        let (_file, stat) = file();
        let planned = Identity::from(&stat);
        let expects = |change: fn(&mut Identity)| {
            let mut planned = planned.clone();
            change(&mut planned);
            is_planned(Some(&planned), Some(&stat))
        };
        assert!(is_planned(None, None));
        assert!(!is_planned(None, Some(&stat)));
        assert!(!is_planned(Some(&planned), None));
        assert!(expects(|_| ()));
        assert!(!expects(|id| id.inode += 1));
        assert!(!expects(|id| id.size += 1));
        assert!(!expects(|id| id.mode ^= 1));
        assert!(!expects(|id| id.mtime.1 ^= 1));
        assert!(!expects(|id| id.ctime.1 ^= 1));
        // The other one of two names that were planned may be gone.
        assert!(expects(|id| {
            id.links = 2;
            id.ctime.1 ^= 1;
        }));
    }
}
