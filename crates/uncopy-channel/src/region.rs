//! Regions of a message, which are copied or lent to the kernel.

use std::io::IoSlice;

use crate::memory::{Filling, Lent};
use crate::status::Status;

/// A region of a message, in any memory: [`Channel::write_regions`](crate::Channel::write_regions)
/// sends lists of them.
///
/// Within a process regions are copied into the message ([`append_to`](Self::append_to)). Over a
/// socket small ones are copied together, and the kernel reads the others where they lie
/// ([`lend`](Self::lend)).
pub trait Region {
    /// Returns the number of bytes.
    fn length(&self) -> usize;

    /// Appends the bytes behind the first `from` to a message.
    ///
    /// # Errors
    /// [`Status::InvalidArgs`] if they do not fit, or if the memory is not there.
    fn append_to(&self, from: usize, filling: &mut Filling<'_>) -> Result<(), Status>;

    /// Returns the bytes behind the first `from`, for the kernel to read.
    fn lend(&self, from: usize) -> Lent<'_>;

    /// Checks that the memory is there.
    ///
    /// # Errors
    /// [`Status::InvalidArgs`] if it is not.
    fn check(&self) -> Result<(), Status> {
        Ok(())
    }

    /// Checks that the memory of the first `bytes` is there, which are not sent: of all if there are no more, and
    /// otherwise unless reading the byte behind them shows it.
    ///
    /// # Errors
    /// [`Status::InvalidArgs`] if it is not.
    fn check_first(&self, _bytes: usize) -> Result<(), Status> {
        self.check()
    }

    /// Appends all regions to a message, in order.
    ///
    /// # Errors
    /// The error of the first region that fails.
    #[inline]
    fn append_all(regions: &[Self], filling: &mut Filling<'_>) -> Result<(), Status>
    where
        Self: Sized,
    {
        regions.iter().try_for_each(|region| region.append_to(0, filling))
    }

    /// Appends the regions in front of the first that has more than `most` bytes; returns their number.
    ///
    /// # Errors
    /// The error of the first of them that fails.
    #[inline]
    fn append_short(
        regions: &[Self],
        most: usize,
        filling: &mut Filling<'_>,
    ) -> Result<usize, Status>
    where
        Self: Sized,
    {
        for (index, region) in regions.iter().enumerate() {
            if region.length() > most {
                return Ok(index);
            }
            region.append_to(0, filling)?;
        }
        Ok(regions.len())
    }
}

impl Region for IoSlice<'_> {
    #[inline]
    fn length(&self) -> usize {
        self.len()
    }

    #[inline]
    fn append_to(&self, from: usize, filling: &mut Filling<'_>) -> Result<(), Status> {
        Ok(filling.append(&self[from..])?)
    }

    #[inline]
    fn lend(&self, from: usize) -> Lent<'_> {
        Lent::of(&self[from..])
    }

    #[inline]
    fn append_all(regions: &[Self], filling: &mut Filling<'_>) -> Result<(), Status> {
        Ok(filling.append_all(regions)?)
    }

    #[inline]
    fn append_short(
        regions: &[Self],
        most: usize,
        filling: &mut Filling<'_>,
    ) -> Result<usize, Status> {
        Ok(filling.append_short(regions, most)?)
    }
}
