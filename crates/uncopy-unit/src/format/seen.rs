//! Roots that a plan saw (pure): a machine on which one of them is not mounted has another directory there.

use serde::{Deserialize, Serialize};

use super::Time;
use uncopy_os::file::Stat;

/// Directory that a plan saw. Its device is left out: a filesystem has another number wherever it is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenDirectory {
    /// Inode number.
    pub inode: u64,
    /// Creation time. `None`: the filesystem does not keep it, or does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub birth: Option<Time>,
}

impl From<&Stat> for SeenDirectory {
    fn from(stat: &Stat) -> SeenDirectory {
        SeenDirectory { inode: stat.inode, birth: stat.birth.map(Time::from) }
    }
}

impl SeenDirectory {
    /// Whether a directory can be this one. The creation time counts where both know it.
    #[must_use]
    pub fn is(&self, found: &Stat) -> bool {
        self.can_be(SeenDirectory::from(found))
    }

    fn can_be(self, found: SeenDirectory) -> bool {
        let are_known = self.birth.is_some() && found.birth.is_some();
        self.inode == found.inode && (!are_known || self.birth == found.birth)
    }
}

/// Roots that a plan saw. `None`: nothing is known, and nothing is checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenRoots {
    /// Root of the sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SeenDirectory>,
    /// Root of the destinations, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<SeenDirectory>,
    /// Directory in which the destination is to be made, if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above_destination: Option<SeenDirectory>,
}

impl SeenRoots {
    /// Whether nothing is known about any of them.
    pub(super) fn is_empty(&self) -> bool {
        *self == SeenRoots::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_known_by_its_inode_and_creation() {
        let (early, late) = (Some(Time(1, 2)), Some(Time(1, 3)));
        let seen = |inode, birth| SeenDirectory { inode, birth };
        for (plan, here, expected) in [
            (seen(2, early), seen(2, early), true),
            (seen(2, early), seen(3, early), false),
            // Roots of two filesystems of one kind have one number.
            (seen(2, early), seen(2, late), false),
            (seen(2, None), seen(2, late), true),
            (seen(2, early), seen(2, None), true),
            (seen(2, None), seen(3, None), false),
        ] {
            assert_eq!(plan.can_be(here), expected, "{plan:?} {here:?}");
        }
    }
}
