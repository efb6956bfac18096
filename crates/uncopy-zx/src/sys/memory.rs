//! Memory of the calling program, whose addresses may be bad.

use std::io::IoSlice;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use uncopy_channel::{Filling, Lent, Region, Status};

use super::fault::{Fault, check_sanitizer, copy_in, copy_out};
use crate::abi;

/// A type for which every bit pattern is a value, and that has no padding.
///
/// # Safety
/// The type has both properties.
pub(crate) unsafe trait Plain: Copy + Default {}

macro_rules! plain {
    ($($type:ty),*) => {$(
        // SAFETY: only integers, whose sizes add up to that of the type (asserted below or in
        // `abi`).
        unsafe impl Plain for $type {}
    )*};
}

plain!(u8, u32, i32, u64, i64, usize);
plain!(abi::zx_channel_iovec_t, abi::zx_channel_call_args_t, abi::zx_handle_info_t);
plain!(abi::zx_handle_disposition_t, abi::zx_wait_item_t, abi::zx_port_packet_t);
plain!(abi::zx_info_handle_basic_t, abi::zx_info_handle_count_t, abi::zx_info_socket_t);
plain!(abi::uncopy_zx_counters_t, abi::uncopy_zx_region_t);

/// An address to read from, as C passes it: `const T *`.
#[derive(Debug)]
#[repr(transparent)]
pub struct In<T>(*const T);

/// An address to write to, as C passes it: `T *`.
///
/// Safe code cannot make one: C programs pass them, or pass numbers that `Out::at` converts, and
/// thereby promise that any writable memory there may be overwritten.
#[derive(Debug)]
#[repr(transparent)]
pub struct Out<T>(*mut T, PhantomData<T>);

// Addresses can be copied for every type.
impl<T> Clone for In<T> {
    #[inline]
    fn clone(&self) -> In<T> {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> Clone for Out<T> {
    #[inline]
    fn clone(&self) -> Out<T> {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> In<T> {
    /// Converts an address that a C program wrote into a structure as a number.
    pub(crate) fn at(address: usize) -> In<T> {
        In(std::ptr::without_provenance(address))
    }

    /// Returns the address as a number, as it is in a structure.
    pub(crate) fn address(self) -> usize {
        self.0.addr()
    }

    /// Returns the same address for values of another type.
    pub(crate) fn cast<U>(self) -> In<U> {
        In(self.0.cast())
    }
}

#[allow(private_bounds, reason = "what it adds is private as well")]
impl<T: Plain> In<T> {
    /// Reads the value.
    pub(crate) fn read(self) -> Result<T, Fault> {
        let mut value = T::default();
        self.read_all(std::slice::from_mut(&mut value))?;
        Ok(value)
    }

    /// Reads as many values as `values` has room for.
    #[inline]
    pub(crate) fn read_all(self, values: &mut [T]) -> Result<(), Fault> {
        let to = values.as_mut_ptr().cast::<u8>();
        // SAFETY: all of `values`, whose type allows every bit pattern; if only a part is written,
        // the rest keeps its values.
        unsafe { copy_in(to, self.0.cast(), size_of_val(values)) }
    }

    /// Reads as many values as `room` has places for, and initialises it.
    #[inline]
    pub(crate) fn read_into(self, room: &mut [MaybeUninit<T>]) -> Result<&mut [T], Fault> {
        // SAFETY: all of `room`, which is not read before all of it was written.
        unsafe { copy_in(room.as_mut_ptr().cast(), self.0.cast(), size_of_val(room)) }?;
        // SAFETY: all of it was written above, and the type allows every bit pattern.
        Ok(unsafe { room.assume_init_mut() })
    }

    /// Reads `count` values after the first `skip`.
    pub(crate) fn read_some(self, skip: usize, count: usize) -> Result<Vec<T>, Fault> {
        let mut values = vec![T::default(); count];
        In(self.0.wrapping_add(skip)).read_all(&mut values)?;
        Ok(values)
    }
}

/// Copies the regions one behind the other into `to`, with the fault-tolerant copies of every call;
/// returns false if they do not fit. `cargo xtask compare zx` compares this with plain copies.
#[inline]
#[must_use]
pub fn gather_checked(regions: &[IoSlice<'_>], to: &mut [u8]) -> bool {
    let mut rest = to;
    for region in regions {
        let Some((now, later)) = rest.split_at_mut_checked(region.len()) else { return false };
        // SAFETY: `now` is borrowed mutably and as long as the region.
        if unsafe { copy_in(now.as_mut_ptr(), region.as_ptr(), region.len()) }.is_err() {
            return false;
        }
        rest = later;
    }
    true
}

/// A region of the program: small ones are copied by the fault-tolerant copies of every call, the
/// kernel checks the addresses of the others.
impl Region for abi::zx_channel_iovec_t {
    #[inline]
    fn length(&self) -> usize {
        self.capacity as usize
    }

    #[inline]
    fn append_to(&self, from: usize, filling: &mut Filling<'_>) -> Result<(), Status> {
        In::at(self.buffer.wrapping_add(from)).append_to(filling, self.length() - from)
    }

    fn lend(&self, from: usize) -> Lent<'_> {
        let start = std::ptr::without_provenance(self.buffer.wrapping_add(from));
        let length = self.length() - from;
        check_sanitizer(start, length, false);
        // SAFETY: the program gave the address to be read from.
        unsafe { Lent::at(start, length) }
    }

    fn check(&self) -> Result<(), Status> {
        self.touch(self.length())
    }

    fn check_first(&self, bytes: usize) -> Result<(), Status> {
        let is_shown = bytes < self.length() && bytes < self.in_first_page();
        if is_shown { Ok(()) } else { self.touch(bytes.min(self.length())) }
    }
}

impl abi::zx_channel_iovec_t {
    /// Returns the number of bytes from the beginning to the end of that page.
    fn in_first_page(&self) -> usize {
        PAGE_BYTES - self.buffer % PAGE_BYTES
    }

    /// Reads a byte of each page that the first `bytes` lie in.
    fn touch(&self, bytes: usize) -> Result<(), Status> {
        let Some(last) = bytes.checked_sub(1) else { return Ok(()) };
        let in_pages = (self.in_first_page()..last).step_by(PAGE_BYTES);
        for offset in [0, last].into_iter().chain(in_pages) {
            In::<u8>::at(self.buffer.wrapping_add(offset)).read()?;
        }
        Ok(())
    }
}

/// Size of the smallest pages of any processor: no larger one is only partly there.
const PAGE_BYTES: usize = 4096;

impl In<u8> {
    /// Appends the bytes to a message.
    #[inline]
    pub(crate) fn append_to(self, filling: &mut Filling<'_>, length: usize) -> Result<(), Status> {
        let space = filling.unfilled();
        if length > space.len() {
            return Err(Status::InvalidArgs);
        }
        // SAFETY: `space` has `length` bytes, and is borrowed mutably.
        unsafe { copy_in(space.as_mut_ptr().cast(), self.0, length) }?;
        // SAFETY: all of them were written above.
        unsafe { filling.assume_appended(length) };
        Ok(())
    }

    /// Writes `length` bytes to the file at `offset`: the kernel checks the address.
    pub(crate) fn write_to_file(
        self,
        file: BorrowedFd<'_>,
        offset: u64,
        length: usize,
    ) -> Result<(), Status> {
        check_sanitizer(self.0, length, false);
        transfer(length, |done| {
            let (address, at) = (self.0.wrapping_add(done), offset as i64 + done as i64);
            // SAFETY: the kernel only reads, and checks the address.
            unsafe { libc::pwrite64(file.as_raw_fd(), address.cast(), length - done, at) }
        })
    }
}

impl<T> Out<T> {
    /// Converts an address that a C program wrote into a structure, for this call to write to.
    ///
    /// # Safety
    /// The program wrote it, with the promise that [`Out`] describes.
    unsafe fn at(address: usize) -> Out<T> {
        Out(std::ptr::without_provenance_mut(address), PhantomData)
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Returns the same address to read from.
    pub(crate) fn as_in(self) -> In<T> {
        In(self.0)
    }

    /// Returns the same address for values of another type.
    pub(crate) fn cast<U>(self) -> Out<U> {
        Out(self.0.cast(), PhantomData)
    }

    /// Returns the address of the value at `index`.
    pub(crate) fn skip(self, index: usize) -> Out<T> {
        Out(self.0.wrapping_add(index), PhantomData)
    }
}

#[allow(private_bounds, reason = "what it adds is private as well")]
impl<T: Plain> Out<T> {
    /// Writes one value.
    #[inline]
    pub(crate) fn write(self, value: T) -> Result<(), Fault> {
        self.write_all(&[value])
    }

    /// Writes one value unless the address is null.
    #[inline]
    pub(crate) fn write_if_wanted(self, value: T) -> Result<(), Fault> {
        if self.is_null() { Ok(()) } else { self.write(value) }
    }

    /// Writes all values.
    #[inline]
    pub(crate) fn write_all(self, values: &[T]) -> Result<(), Fault> {
        let start = values.as_ptr().cast::<u8>();
        // SAFETY: the type has no padding, so that all of its bytes are initialised.
        let bytes = unsafe { std::slice::from_raw_parts(start, size_of_val(values)) };
        // SAFETY: the promise of `Out`.
        unsafe { copy_out(self.0.cast(), bytes) }
    }
}

impl Out<u8> {
    /// Reads `length` bytes from the file at `offset`: the kernel checks the address.
    pub(crate) fn read_from_file(
        self,
        file: BorrowedFd<'_>,
        offset: u64,
        length: usize,
    ) -> Result<(), Status> {
        check_sanitizer(self.0, length, true);
        transfer(length, |done| {
            let (address, at) = (self.0.wrapping_add(done), offset as i64 + done as i64);
            // SAFETY: the promise of `Out`; the kernel checks the address.
            unsafe { libc::pread64(file.as_raw_fd(), address.cast(), length - done, at) }
        })
    }
}

/// Calls `step` until it has moved `length` bytes.
fn transfer(length: usize, step: impl Fn(usize) -> isize) -> Result<(), Status> {
    let mut done = 0;
    while done < length {
        let Ok(count) = usize::try_from(step(done)) else {
            match std::io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => continue,
                Some(libc::EFAULT) => return Err(Status::InvalidArgs),
                // Its contents are sealed.
                Some(libc::EPERM) => return Err(Status::AccessDenied),
                _ => return Err(Status::NoMemory),
            }
        };
        if count == 0 {
            return Err(Status::OutOfRange);
        }
        done += count;
    }
    Ok(())
}

impl abi::uncopy_zx_region_t {
    /// Returns the destination of the bytes.
    pub(crate) fn room(&self) -> Out<u8> {
        // SAFETY: the field is the C program's `void *buffer`, to be written to by this call.
        unsafe { Out::at(self.buffer) }
    }
}

impl abi::zx_channel_call_args_t {
    /// Returns the destination of the answer's bytes.
    pub(crate) fn reply_bytes(&self) -> Out<u8> {
        // SAFETY: the field is the C program's `void *rd_bytes`, to be written to by this call.
        unsafe { Out::at(self.rd_bytes) }
    }

    /// Returns the destination of the answer's handles.
    pub(crate) fn reply_handles<T>(&self) -> Out<T> {
        // SAFETY: the field is the C program's `rd_handles`, to be written to by this call.
        unsafe { Out::at(self.rd_handles) }
    }

    /// Returns the dispositions, whose results this call writes.
    pub(crate) fn dispositions(&self) -> Out<abi::zx_handle_disposition_t> {
        // SAFETY: the field is the C program's `zx_handle_disposition_t *wr_handles`.
        unsafe { Out::at(self.wr_handles) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use super::gather_checked;

    #[test]
    fn regions_are_copied_in_order_if_they_fit() {
        let regions = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")];
        let mut out = [b'x'; 6];
        assert!(gather_checked(&regions, &mut out));
        assert_eq!(out, *b"abcdex");
        assert!(gather_checked(&regions, &mut out[..5]));
        assert!(!gather_checked(&regions, &mut out[..4]));
    }
}
