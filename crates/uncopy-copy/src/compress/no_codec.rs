//! In the place of zstd where the feature `compress` is not built in. `CopyOptions::check` refuses
//! before anybody gets here, so that neither of the two can exist.

use std::convert::Infallible;

use super::{Level, Step};

const ABSENT: &str = "this build has no zstd; build it with the feature `compress`";

pub(super) struct Encoder(Infallible);

impl Encoder {
    pub(super) fn new(_: Level) -> Result<Encoder, String> {
        Err(ABSENT.to_owned())
    }

    pub(super) fn encode(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<(), String> {
        match self.0 {}
    }
}

pub(super) fn content_bytes(_: &[u8]) -> Option<u64> {
    None
}

pub(super) struct Decoder(Infallible);

impl Decoder {
    pub(super) fn new() -> Result<Decoder, String> {
        Err(ABSENT.to_owned())
    }

    pub(super) fn decode(&mut self, _: &[u8], _: &mut [u8]) -> Result<Step, String> {
        match self.0 {}
    }
}
