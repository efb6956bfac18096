//! Numbers of users and groups by their names, from wherever this system looks them up
//! (`nsswitch.conf(5)`).

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ptr;

use super::Sys;
use uncopy_core::Errno;

/// Buffer size for the strings of an entry; a group has all its members among them.
const MIN_BUFFER: usize = 1 << 10;
const MAX_BUFFER: usize = 16 << 20;

/// Returns the number of the user of this name; `None`: there is none.
pub fn user_id(name: &CStr) -> Sys<Option<u32>> {
    look_up(|buffer| {
        let (mut entry, mut found) = (MaybeUninit::<libc::passwd>::uninit(), ptr::null_mut());
        // SAFETY: the name ends in a zero byte, entry and result are writable, and the buffer is given with
        // its length.
        let errno = unsafe {
            libc::getpwnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut found,
            )
        };
        // SAFETY: where the result is not null, it points to the entry, which was filled.
        (errno, (!found.is_null()).then(|| unsafe { (*found).pw_uid }))
    })
}

/// Returns the number of the group of this name; `None`: there is none.
pub fn group_id(name: &CStr) -> Sys<Option<u32>> {
    look_up(|buffer| {
        let (mut entry, mut found) = (MaybeUninit::<libc::group>::uninit(), ptr::null_mut());
        // SAFETY: as for users.
        let errno = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut found,
            )
        };
        // SAFETY: where the result is not null, it points to the entry, which was filled.
        (errno, (!found.is_null()).then(|| unsafe { (*found).gr_gid }))
    })
}

/// Repeats a call with larger buffers until the entry fits.
fn look_up(mut call: impl FnMut(&mut [u8]) -> (i32, Option<u32>)) -> Sys<Option<u32>> {
    let mut buffer = vec![0; MIN_BUFFER];
    loop {
        match call(&mut buffer) {
            (_, Some(id)) => return Ok(Some(id)),
            (libc::ERANGE, None) if buffer.len() < MAX_BUFFER => buffer = vec![0; buffer.len() * 2],
            (libc::EINTR, None) => {}
            // getpwnam(3): some of these also mean that there is no such name.
            (0 | libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM, None) => return Ok(None),
            (errno, None) => return Err(Errno::from_raw(errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_numbers() {
        assert_eq!(user_id(c"root"), Ok(Some(0)));
        assert_eq!(group_id(c"root"), Ok(Some(0)));
        assert_eq!(user_id(c"no such user"), Ok(None));
        assert_eq!(group_id(c""), Ok(None));
    }
}
