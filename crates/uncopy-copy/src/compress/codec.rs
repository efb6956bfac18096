//! zstd itself: one call each.

use zstd::stream::raw::{CParameter, DParameter, InBuffer, Operation, OutBuffer};

use super::{Level, Step};

/// Larger windows are refused, as `zstd -d` does without `--long`: a hostile file could ask for 2 GiB
/// of memory (`ZSTD_WINDOWLOG_LIMIT_DEFAULT`).
const MOST_WINDOW_LOG: u32 = 27;

/// Makes frames, each from all of its bytes at once.
pub(super) struct Encoder(zstd::bulk::Compressor<'static>);

impl Encoder {
    /// # Errors
    /// There is no memory for it.
    pub(super) fn new(level: Level) -> Result<Encoder, String> {
        let mut compressor =
            zstd::bulk::Compressor::new(level.get().into()).map_err(|error| error.to_string())?;
        compressor
            .set_parameter(CParameter::ChecksumFlag(true))
            .map_err(|error| error.to_string())?;
        Ok(Encoder(compressor))
    }

    /// Makes `frame` the frame that holds these bytes, with their number and a checksum.
    pub(super) fn encode(&mut self, bytes: &[u8], frame: &mut Vec<u8>) -> Result<(), String> {
        frame.clear();
        frame.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
        self.0.compress_to_buffer(bytes, frame).map(|_| ()).map_err(|error| error.to_string())
    }
}

/// How many bytes a frame says that it holds, by its head (RFC 8878, 3.1.1.1.4); `None`: it does not
/// say so, or the decoder refuses it.
pub(super) fn content_bytes(head: &[u8]) -> Option<u64> {
    zstd::zstd_safe::get_frame_content_size(head).ok().flatten()
}

/// Reads frames, piece by piece, in memory of a bounded size.
pub(super) struct Decoder(zstd::stream::raw::Decoder<'static>);

impl Decoder {
    /// # Errors
    /// There is no memory for it.
    pub(super) fn new() -> Result<Decoder, String> {
        let mut decoder = zstd::stream::raw::Decoder::new().map_err(|error| error.to_string())?;
        decoder
            .set_parameter(DParameter::WindowLogMax(MOST_WINDOW_LOG))
            .map_err(|error| error.to_string())?;
        Ok(Decoder(decoder))
    }

    /// Decodes what there is, up to the end of the frame.
    ///
    /// # Errors
    /// The bytes are no frame, or damaged; in zstd's own words.
    pub(super) fn decode(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, String> {
        let mut input = InBuffer::around(input);
        let mut output = OutBuffer::around(output);
        let left = self.0.run(&mut input, &mut output).map_err(|error| error.to_string())?;
        Ok(Step { read: input.pos(), written: output.pos(), ended: left == 0 })
    }
}
