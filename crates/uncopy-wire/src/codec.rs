//! Encodes and decodes numbers and bytes, little-endian.

use crate::Violation;

/// Payload under construction.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) -> &mut Writer {
        self.0.push(value);
        self
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Writer {
        self.raw(&value.to_le_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Writer {
        self.raw(&value.to_le_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Writer {
        self.raw(&value.to_le_bytes())
    }

    pub(crate) fn i64(&mut self, value: i64) -> &mut Writer {
        self.raw(&value.to_le_bytes())
    }

    pub(crate) fn bool(&mut self, value: bool) -> &mut Writer {
        self.u8(value.into())
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) -> &mut Writer {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends a length and as many bytes. Longer ones than a frame do not occur.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Writer {
        self.u32(bytes.len() as u32).raw(bytes)
    }
}

/// Payload that is read from its beginning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// Description of the payload, for errors.
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Reader<'a> {
        Reader { rest: bytes, what }
    }

    pub(crate) fn malformed(&self) -> Violation {
        Violation::Malformed { what: self.what }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Violation> {
        let (first, rest) = self.rest.split_first_chunk().ok_or(self.malformed())?;
        self.rest = rest;
        Ok(*first)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Violation> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Violation> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Violation> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Violation> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Violation> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    pub(crate) fn bool(&mut self) -> Result<bool, Violation> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.malformed()),
        }
    }

    pub(crate) fn raw(&mut self, length: usize) -> Result<&'a [u8], Violation> {
        let (first, rest) = self.rest.split_at_checked(length).ok_or(self.malformed())?;
        self.rest = rest;
        Ok(first)
    }

    /// Reads a length and as many bytes.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Violation> {
        let length = self.u32()?;
        self.raw(usize::try_from(length).map_err(|_| self.malformed())?)
    }

    /// Reads a length and as many bytes, without a zero byte and at most `limit`.
    pub(crate) fn text(&mut self, limit: usize) -> Result<Vec<u8>, Violation> {
        let bytes = self.bytes()?;
        match bytes.len() <= limit && !bytes.contains(&0) {
            true => Ok(bytes.to_vec()),
            false => Err(self.malformed()),
        }
    }

    /// Reads everything that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Checks that nothing is left.
    pub(crate) fn end(self) -> Result<(), Violation> {
        if self.is_empty() { Ok(()) } else { Err(self.malformed()) }
    }
}
