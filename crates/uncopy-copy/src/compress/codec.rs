//! Wraps the zstd library thinly.

use zstd::stream::raw::{CParameter, DParameter, InBuffer, Operation, OutBuffer};

use super::{DecodeStep, Level};

/// Largest accepted window, as for `zstd -d` without `--long` (`ZSTD_WINDOWLOG_LIMIT_DEFAULT`): a hostile
/// file could demand 2 GiB of memory.
const MAX_WINDOW_LOG: u32 = 27;

/// Compresses whole frames, one call for each.
pub(super) struct Encoder(zstd::bulk::Compressor<'static>);

impl Encoder {
    /// # Errors
    /// Out of memory.
    pub(super) fn new(level: Level) -> Result<Encoder, String> {
        let mut compressor =
            zstd::bulk::Compressor::new(level.get().into()).map_err(|error| error.to_string())?;
        compressor
            .set_parameter(CParameter::ChecksumFlag(true))
            .map_err(|error| error.to_string())?;
        Ok(Encoder(compressor))
    }

    /// Compresses the bytes into `frame`, with their number and a checksum. Replaces what `frame` held.
    pub(super) fn encode(&mut self, bytes: &[u8], frame: &mut Vec<u8>) -> Result<(), String> {
        frame.clear();
        frame.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
        self.0.compress_to_buffer(bytes, frame).map(|_| ()).map_err(|error| error.to_string())
    }
}

/// Returns the content size that a frame's header states (RFC 8878, 3.1.1.1.4). `None`: it states none,
/// or the decoder refuses the header.
pub(super) fn content_bytes(head: &[u8]) -> Option<u64> {
    zstd::zstd_safe::get_frame_content_size(head).ok().flatten()
}

/// Decompresses frames piece by piece in bounded memory.
pub(super) struct Decoder(zstd::stream::raw::Decoder<'static>);

impl Decoder {
    /// # Errors
    /// Out of memory.
    pub(super) fn new() -> Result<Decoder, String> {
        let mut decoder = zstd::stream::raw::Decoder::new().map_err(|error| error.to_string())?;
        decoder
            .set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG))
            .map_err(|error| error.to_string())?;
        Ok(Decoder(decoder))
    }

    /// Decodes as much as input and output allow, up to the end of the frame.
    ///
    /// # Errors
    /// The bytes are not a frame, or are damaged; the text is zstd's.
    pub(super) fn decode(&mut self, input: &[u8], output: &mut [u8]) -> Result<DecodeStep, String> {
        let mut input = InBuffer::around(input);
        let mut output = OutBuffer::around(output);
        let left = self.0.run(&mut input, &mut output).map_err(|error| error.to_string())?;
        Ok(DecodeStep { read: input.pos(), written: output.pos(), ended: left == 0 })
    }
}
