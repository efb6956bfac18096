//! The releases of one notification.

use std::ops::Deref;

use smallvec::SmallVec;

/// The releases of a notifier's sends, in the order in which they came. Dereferences to a slice. A single
/// release needs no allocation.
///
/// ```
/// # fn of(notification: uncopy::send::Notification<uncopy::send::Release<Vec<u8>>>) {
/// for release in notification.releases {
///     let buffer: Option<Vec<u8>> = release.payload.into_one();
/// #   drop(buffer);
/// }
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Releases<T>(SmallVec<[T; 1]>);

impl<T> Releases<T> {
    pub(crate) fn new() -> Releases<T> {
        Releases(SmallVec::new())
    }

    #[inline]
    pub(crate) fn push(&mut self, release: T) {
        self.0.push(release);
    }

    /// Returns all releases, in the same order.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.0.into_vec()
    }
}

impl<T> Deref for Releases<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> IntoIterator for Releases<T> {
    type Item = T;
    type IntoIter = IntoReleases<T>;

    fn into_iter(self) -> IntoReleases<T> {
        IntoReleases(self.0.into_iter())
    }
}

impl<'a, T> IntoIterator for &'a Releases<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// An iterator over owned [`Releases`].
#[derive(Debug)]
pub struct IntoReleases<T>(smallvec::IntoIter<[T; 1]>);

impl<T> Iterator for IntoReleases<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T> ExactSizeIterator for IntoReleases<T> {}
