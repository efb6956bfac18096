//! Envelopes: eight bytes before a payload that may be unknown to the receiver. A payload of at
//! most four bytes is inside the envelope.

use std::fmt;

use crate::decode::{Decode, Decoder, Inline, Used};
use crate::encode::{Encode, Output, encode_object};
use crate::error::{Result, Rule};
use crate::limits::Depth;
use crate::wire::vector::{self, decode_header};

/// Size of an envelope in bytes.
pub const ENVELOPE_SIZE: usize = 8;
/// Maximum size of a payload inside the envelope.
const INLINE_BYTES: usize = 4;
/// Flag: the payload is inside the envelope.
const IS_INLINE: u16 = 1;

/// Writes the envelope at `at`, which is all zeros, and appends the payload.
///
/// # Errors
/// Any rule that the payload breaks.
#[inline]
pub fn encode_envelope<'v, T: Encode, O: Output<'v>>(
    payload: &'v T,
    out: &mut O,
    at: usize,
    constraint: T::Constraint,
    depth: Depth,
) -> Result<()> {
    let depth = depth.deeper()?;
    let (begin, handles) = (out.length(), out.handles());
    let is_inline = T::SIZE <= INLINE_BYTES;
    if is_inline {
        payload.encode_inline(out.inline(at, T::SIZE), constraint)?;
        if !T::IS_FLAT {
            payload.encode_rest(out, at, constraint, depth)?;
        }
    } else {
        encode_object(payload, out, constraint, depth)?;
    }
    // Both fit: a message has at most 64 KiB and 64 handles.
    let (bytes, handles) = ((out.length() - begin) as u32, (out.handles() - handles) as u16);
    let envelope = out.inline(at, ENVELOPE_SIZE);
    if !is_inline {
        envelope[..4].copy_from_slice(&bytes.to_le_bytes());
    }
    envelope[4..6].copy_from_slice(&handles.to_le_bytes());
    envelope[6..].copy_from_slice(&u16::from(is_inline).to_le_bytes());
    Ok(())
}

/// An envelope that is present.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'a> {
    inline: Inline<'a>,
    /// The envelope as a number; from low to high: size of the payload or the payload, handles,
    /// flags.
    word: u64,
}

impl<'a> Envelope<'a> {
    /// Reads the envelope in `inline`. `None` if it is absent.
    ///
    /// # Errors
    /// [`Rule::InvalidEnvelopeFlags`].
    #[inline(always)]
    pub fn decode(inline: Inline<'a>) -> Result<Option<Envelope<'a>>> {
        let word = u64::from_le_bytes(inline.array());
        if word == 0 {
            return Ok(None);
        }
        let flags = (word >> 48) as u16;
        if flags > IS_INLINE {
            return Err(inline.breaks(Rule::InvalidEnvelopeFlags { found: flags }));
        }
        Ok(Some(Envelope { inline, word }))
    }

    #[inline]
    fn is_inline(self) -> bool {
        self.word >> 48 != 0
    }

    #[inline]
    fn handles(self) -> usize {
        usize::from((self.word >> 32) as u16)
    }

    /// Size of an out-of-line payload in bytes.
    #[inline]
    fn bytes(self) -> usize {
        self.word as u32 as usize
    }

    /// Checks the payload as a `T`.
    ///
    /// # Errors
    /// Any rule that the payload breaks.
    #[inline(always)]
    pub fn payload<T: Decode>(
        self,
        decoder: &mut Decoder<'a, '_>,
        constraint: T::Constraint,
        depth: Depth,
    ) -> Result<T::View<'a>> {
        let (object, depth, before) = self.open(T::SIZE, decoder, depth)?;
        let view = T::decode(object, decoder, constraint, depth)?;
        self.close(T::SIZE, before, decoder)?;
        Ok(view)
    }

    /// Prints the payload, which is already checked, as a `T`.
    ///
    /// # Errors
    /// The formatter's.
    pub fn print<T: Decode>(
        self,
        decoder: &mut Decoder<'a, '_>,
        constraint: T::Constraint,
        depth: Depth,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let opened = self.open(T::SIZE, decoder, depth);
        let (object, depth, _) = opened.map_err(|_| fmt::Error)?;
        T::print(object, decoder, constraint, depth, f)
    }

    /// Returns the payload, whose inline part has `size` bytes, its depth, and the counts before
    /// it, for [`close`](Self::close).
    ///
    /// # Errors
    /// [`Rule::TooDeep`], [`Rule::EnvelopeInlining`], [`Rule::NonZeroPadding`],
    /// [`Rule::TooFewBytes`].
    #[inline(always)]
    pub fn open(
        self,
        size: usize,
        decoder: &mut Decoder<'a, '_>,
        depth: Depth,
    ) -> Result<(Inline<'a>, Depth, Used)> {
        let depth = depth.deeper()?;
        let is_inline = size <= INLINE_BYTES;
        if self.is_inline() != is_inline {
            return Err(self.inline.breaks(Rule::EnvelopeInlining { size }));
        }
        let before = decoder.used();
        let object = if is_inline {
            self.inline.check_padding(size.min(INLINE_BYTES), INLINE_BYTES)?;
            self.inline.part(0, size)
        } else {
            decoder.object(self.inline, size)?
        };
        Ok((object, depth, before))
    }

    /// Checks that the payload used the bytes and handles that the envelope states.
    ///
    /// # Errors
    /// [`Rule::EnvelopeBytes`], [`Rule::EnvelopeHandles`].
    #[inline(always)]
    pub fn close(self, size: usize, before: Used, decoder: &Decoder<'a, '_>) -> Result<()> {
        let ((begin, first_handle), (end, last_handle)) = (before, decoder.used());
        let (bytes, handles) = (end - begin, last_handle - first_handle);
        if size > INLINE_BYTES && bytes != self.bytes() {
            let rule = Rule::EnvelopeBytes { announced: self.bytes(), found: bytes };
            return Err(self.inline.breaks(rule));
        }
        if handles != self.handles() {
            let rule = Rule::EnvelopeHandles { announced: self.handles(), found: handles };
            return Err(self.inline.breaks(rule));
        }
        Ok(())
    }

    /// Skips an unknown payload and closes its handles. Returns its bytes: four if they are in the
    /// envelope.
    ///
    /// # Errors
    /// [`Rule::TooFewBytes`], [`Rule::TooFewHandles`], [`Rule::EnvelopeBytes`].
    #[inline(always)]
    pub fn skip(self, decoder: &mut Decoder<'a, '_>, depth: Depth) -> Result<Skipped<'a>> {
        decoder.on_copy(|decoder| self.pass_over(decoder, depth))
    }

    #[cold]
    fn pass_over(self, decoder: &mut Decoder<'a, '_>, depth: Depth) -> Result<Skipped<'a>> {
        depth.deeper()?;
        let bytes = if self.is_inline() {
            self.inline.part(0, INLINE_BYTES)
        } else {
            let announced = self.bytes();
            let found = announced.next_multiple_of(8);
            if announced != found || found == 0 {
                let rule = Rule::EnvelopeBytes { announced, found: found.max(8) };
                return Err(self.inline.breaks(rule));
            }
            decoder.object(self.inline, announced)?
        };
        decoder.close_handles(self.inline, self.handles())?;
        Ok(Skipped { bytes: bytes.bytes(), handles: self.handles() })
    }
}

/// A payload that is unknown here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skipped<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Number of its handles, which are closed.
    pub handles: usize,
}

/// The envelopes of a table.
#[derive(Debug, Clone, Copy)]
pub struct Envelopes<'a> {
    inline: Inline<'a>,
    depth: Depth,
}

impl<'a> Envelopes<'a> {
    /// Reads the table in `inline`.
    ///
    /// # Errors
    /// As for a vector, and [`Rule::LastEnvelopeAbsent`].
    #[inline(always)]
    pub fn open(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        depth: Depth,
    ) -> Result<Envelopes<'a>> {
        let header = decode_header(inline, |count| Rule::AbsentVectorWithCount { count })?;
        let count = header.ok_or_else(|| inline.breaks(Rule::RequiredIsAbsent))?;
        let depth = if count == 0 { depth } else { depth.deeper()? };
        let envelopes = decoder.object(inline, count.saturating_mul(ENVELOPE_SIZE))?;
        if count > 0 {
            let last = envelopes.part((count - 1) * ENVELOPE_SIZE, ENVELOPE_SIZE);
            if last.array() == [0; ENVELOPE_SIZE] {
                return Err(last.breaks(Rule::LastEnvelopeAbsent { count }));
            }
        }
        Ok(Envelopes { inline: envelopes, depth })
    }

    /// Returns the envelope of ordinal `index + 1`, if it is present.
    ///
    /// # Errors
    /// [`Rule::InvalidEnvelopeFlags`].
    #[inline(always)]
    pub fn get(self, index: usize) -> Result<Option<Envelope<'a>>> {
        let at = index * ENVELOPE_SIZE;
        if at >= self.inline.bytes().len() {
            return Ok(None);
        }
        Envelope::decode(self.inline.part(at, ENVELOPE_SIZE))
    }

    /// Skips the envelopes of the ordinals from `first + 1` to `end`, which are unknown here.
    ///
    /// # Errors
    /// Errors of [`Envelope::skip`].
    #[inline(always)]
    pub fn pass_over(self, first: usize, end: usize, decoder: &mut Decoder<'a, '_>) -> Result<()> {
        for index in first..end.min(self.inline.bytes().len() / ENVELOPE_SIZE) {
            if let Some(envelope) = self.get(index)? {
                envelope.skip(decoder, self.depth)?;
            }
        }
        Ok(())
    }

    /// Depth inside the table's vector.
    #[inline]
    #[must_use]
    pub fn depth(self) -> Depth {
        self.depth
    }
}

/// Size of a table's inline part in bytes.
pub const TABLE_SIZE: usize = vector::SIZE;
