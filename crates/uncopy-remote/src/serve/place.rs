//! Places of directories below a root.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

/// Names from a root down to a directory, the last one first. Shares those of its parent.
#[derive(Debug, Clone, Default)]
pub(super) struct Place(Option<Arc<PlaceName>>);

#[derive(Debug)]
struct PlaceName {
    parent: Place,
    name: OsString,
}

impl Place {
    /// Returns the place of an entry.
    pub(super) fn child(&self, name: &OsStr) -> Place {
        Place(Some(Arc::new(PlaceName { parent: self.clone(), name: name.to_owned() })))
    }

    /// Returns the names from the root on.
    pub(super) fn names(&self) -> Vec<&OsStr> {
        let mut names = Vec::new();
        let mut place = self;
        while let Some(last) = &place.0 {
            names.push(last.name.as_os_str());
            place = &last.parent;
        }
        names.reverse();
        names
    }

    /// Returns the path of an entry, from the root on.
    pub(super) fn path_of(&self, name: &OsStr) -> OsString {
        let mut path = Vec::new();
        for part in self.names() {
            path.extend_from_slice(part.as_bytes());
            path.push(b'/');
        }
        path.extend_from_slice(name.as_bytes());
        OsString::from_vec(path)
    }
}

impl Drop for Place {
    /// Drops parents one after the other, as they may be as many as handles.
    fn drop(&mut self) {
        let mut rest = self.0.take();
        while let Some(mut last) = rest.and_then(Arc::into_inner) {
            rest = last.parent.0.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_root_on_and_deep_places_are_dropped() {
        let root = Place::default();
        assert_eq!((root.names(), root.path_of(OsStr::new("f"))), (vec![], "f".into()));
        let (a, b) = (root.child(OsStr::new("a")), root.child(OsStr::new("b")));
        let deep = a.child(OsStr::new("c"));
        assert_eq!(deep.names(), ["a", "c"]);
        assert_eq!(deep.path_of(OsStr::new("f")), "a/c/f");
        assert_eq!(b.path_of(OsStr::new("f")), "b/f");
        let mut place = root;
        for _ in 0..1_000_000 {
            place = place.child(OsStr::new("d"));
        }
    }
}
