//! Unions: an ordinal and an envelope.

use crate::decode::Inline;
use crate::encode::Output;
use crate::error::{Error, Result, Rule};
use crate::limits::Depth;
use crate::wire::envelope::{ENVELOPE_SIZE, Envelope, Skipped};

/// Size of a union's inline part in bytes.
pub const UNION_SIZE: usize = 16;

/// An unknown member of a flexible union, as received. It can be sent on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// Ordinal: not 0, and not one of a known member.
    pub ordinal: u64,
    /// The payload: four bytes, or a multiple of eight.
    pub bytes: Vec<u8>,
    /// Number of its handles. They are closed; with any handles, it cannot be sent on.
    pub handles: usize,
}

/// View of an unknown member of a flexible union.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownView<'a> {
    /// Its ordinal.
    pub ordinal: u64,
    /// The payload: four bytes, or a multiple of eight.
    pub bytes: &'a [u8],
    /// Number of its handles, which are closed.
    pub handles: usize,
}

impl<'a> UnknownView<'a> {
    /// Makes the view of member `ordinal`.
    #[must_use]
    pub fn new(ordinal: u64, payload: Skipped<'a>) -> UnknownView<'a> {
        UnknownView { ordinal, bytes: payload.bytes, handles: payload.handles }
    }
}

impl From<UnknownView<'_>> for Unknown {
    fn from(view: UnknownView<'_>) -> Unknown {
        Unknown { ordinal: view.ordinal, bytes: view.bytes.to_vec(), handles: view.handles }
    }
}

/// Reads the ordinal and the envelope in `inline`. `None` if the union is absent.
///
/// # Errors
/// [`Rule::UnionWithoutPayload`], [`Rule::AbsentUnionWithPayload`],
/// [`Rule::InvalidEnvelopeFlags`].
#[inline]
pub fn decode_union(inline: Inline<'_>) -> Result<Option<(u64, Envelope<'_>)>> {
    let ordinal = u64::from_le_bytes(inline.array());
    match (ordinal, Envelope::decode(inline.part(8, ENVELOPE_SIZE))?) {
        (0, None) => Ok(None),
        (0, Some(_)) => Err(inline.breaks(Rule::AbsentUnionWithPayload)),
        (_, Some(envelope)) => Ok(Some((ordinal, envelope))),
        (_, None) => Err(inline.breaks(Rule::UnionWithoutPayload { ordinal })),
    }
}

/// Returns the ordinal of an unknown member in a union with the members `known`.
///
/// # Errors
/// [`Rule::UnknownOrdinalZero`], [`Rule::UnknownIsKnown`].
pub fn unknown_ordinal(unknown: &Unknown, known: &[u64]) -> Result<u64> {
    match unknown.ordinal {
        0 => Err(Error::new(Rule::UnknownOrdinalZero)),
        ordinal if known.contains(&ordinal) => Err(Error::new(Rule::UnknownIsKnown { ordinal })),
        ordinal => Ok(ordinal),
    }
}

/// Returns the inline part of a union, and its depth. `None` if it is absent.
///
/// # Errors
/// None; the result has the type of all such functions.
#[inline]
pub fn open_union(inline: Inline<'_>, depth: Depth) -> Result<Option<(Inline<'_>, Depth)>> {
    Ok((inline.array() != [0; UNION_SIZE]).then_some((inline, depth)))
}

/// Writes the envelope at `at`, and the payload as received.
///
/// # Errors
/// [`Rule::UnknownNotEncodable`] if it had handles, [`Rule::EnvelopeBytes`] if no payload can have
/// its length.
pub fn encode_unknown<'v, O: Output<'v>>(
    unknown: &'v Unknown,
    out: &mut O,
    at: usize,
    depth: Depth,
) -> Result<()> {
    depth.deeper()?;
    let Unknown { ordinal, bytes, handles } = unknown;
    if *handles > 0 {
        return Err(Error::new(Rule::UnknownNotEncodable { ordinal: *ordinal }));
    }
    let is_inline = bytes.len() == 4;
    if is_inline {
        out.inline(at, 4).copy_from_slice(bytes);
    } else if bytes.is_empty() || !bytes.len().is_multiple_of(8) {
        let found = bytes.len().next_multiple_of(8).max(8);
        return Err(Error::new(Rule::EnvelopeBytes { announced: bytes.len(), found }));
    } else {
        out.body(bytes)?;
        out.inline(at, 4).copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    }
    out.inline(at + 6, 2).copy_from_slice(&u16::from(is_inline).to_le_bytes());
    Ok(())
}
