//! The trait of memory that may be lent to the kernel.

use std::fmt;
use std::sync::Arc;

use super::registered::PoolSlice;

/// An owner of bytes that keep their address and content as long as the owner exists and is not borrowed
/// mutably.
///
/// A send takes such an owner, keeps it while the kernel may read the bytes, and returns it with the
/// release. A borrow is not accepted unless it is `'static`: it would end when its holder is forgotten,
/// while the kernel may still read.
///
/// ```compile_fail,E0597
/// # fn send(_: impl uncopy::send::StableBytes) {}
/// let local = vec![1, 2, 3];
/// send(&local[..]); // `local` does not live for ever
/// ```
/// ```compile_fail,E0277
/// # fn send(_: impl uncopy::send::StableBytes) {}
/// send([1u8, 2, 3]); // an array moves with its owner
/// ```
///
/// The trait is open: other crates may implement it, with an `unsafe impl` that promises to keep the
/// contract below:
/// ```compile_fail,E0200
/// struct Mine(Vec<u8>);
/// impl uncopy::send::StableBytes for Mine {
///     fn bytes(&self) -> &[u8] {
///         &self.0
///     }
/// }
/// ```
///
/// # Safety
/// While the value exists and is not borrowed by `&mut`:
/// - [`bytes`](Self::bytes) returns the same address and length each time, also after the value has been
///   moved, and from every thread;
/// - nothing changes or frees those bytes: no other access can write to them.
///
/// And [`pool_slice`](Self::pool_slice) is `None`, or the slice that `bytes` returns.
pub unsafe trait StableBytes: Send + 'static {
    /// Returns the bytes.
    fn bytes(&self) -> &[u8];

    /// Returns the pool slice that the bytes are, if they are one. A ring that has the pool registered need
    /// not look up its pages for each send.
    fn pool_slice(&self) -> Option<&PoolSlice> {
        None
    }
}

// SAFETY: the bytes are in an allocation that only `&mut self` or the drop can change or free.
unsafe impl StableBytes for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: as for `Vec<u8>`.
unsafe impl StableBytes for Box<[u8]> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: as for `Vec<u8>`.
unsafe impl StableBytes for String {
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

// SAFETY: the target of a `'static` shared borrow is never changed or freed.
unsafe impl StableBytes for &'static [u8] {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: as for `&'static [u8]`.
unsafe impl StableBytes for &'static str {
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

// SAFETY: the allocation lives as long as any of its owners, and can be changed (`get_mut`) only through
// the `&mut` of its only owner.
unsafe impl StableBytes for Arc<[u8]> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: as for `Arc<[u8]>`; the vector inside cannot grow or shrink while it is shared.
unsafe impl StableBytes for Arc<Vec<u8>> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: the slice's memory belongs to that slice only and is never moved.
unsafe impl StableBytes for PoolSlice {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn pool_slice(&self) -> Option<&PoolSlice> {
        Some(self)
    }
}

// SAFETY: as for `Arc<[u8]>`; the slice returns to its pool with the last of its owners.
unsafe impl StableBytes for Arc<PoolSlice> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn pool_slice(&self) -> Option<&PoolSlice> {
        Some(self)
    }
}

// SAFETY: as for `&'static [u8]`: a slice that is borrowed for ever is never changed, and never returns
// to its pool.
unsafe impl StableBytes for &'static PoolSlice {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn pool_slice(&self) -> Option<&PoolSlice> {
        Some(self)
    }
}

// SAFETY: the value in the box keeps the contract, and moving the box does not move it.
unsafe impl StableBytes for Box<dyn StableBytes> {
    fn bytes(&self) -> &[u8] {
        (**self).bytes()
    }

    fn pool_slice(&self) -> Option<&PoolSlice> {
        (**self).pool_slice()
    }
}

impl fmt::Debug for dyn StableBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StableBytes({} bytes)", self.bytes().len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::registered::{PageSize, Pool, PoolSlice};
    use super::StableBytes;

    #[test]
    fn bytes_keep_their_address_when_their_owner_moves() {
        let owners: Vec<Box<dyn StableBytes>> = vec![
            Box::new(b"vector".to_vec()),
            Box::new(b"boxed".to_vec().into_boxed_slice()),
            Box::new("string".to_owned()),
            Box::new(&b"constant"[..]),
            Box::new("text"),
            Box::new(Arc::<[u8]>::from(&b"shared"[..])),
            Box::new(Arc::new(b"shared vector".to_vec())),
        ];
        for owner in owners {
            let before = (owner.bytes().as_ptr(), owner.bytes().to_vec());
            let moved = [owner];
            let [owner] = std::thread::spawn(move || moved).join().unwrap();
            assert_eq!((owner.bytes().as_ptr(), owner.bytes().to_vec()), before);
            assert!(owner.pool_slice().is_none());
        }
    }

    #[test]
    fn every_owner_of_a_pool_slice_reports_it() {
        let pool = Pool::new(3, 16, PageSize::Base).unwrap();
        let lent: &'static PoolSlice = Box::leak(Box::new(pool.take().unwrap()));
        let owners: Vec<Box<dyn StableBytes>> = vec![
            Box::new(pool.take().unwrap()),
            Box::new(Arc::new(pool.take().unwrap())),
            Box::new(lent),
        ];
        for owner in &owners {
            assert_eq!(owner.bytes().as_ptr(), owner.pool_slice().unwrap().as_ptr());
        }
        drop(owners);
        assert_eq!(pool.free_slices(), 2, "a slice that is borrowed for ever never returns");
    }
}
