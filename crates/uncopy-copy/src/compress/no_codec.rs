//! Stands in for zstd in builds without the feature `compress`. `CopyOptions::check` refuses compression
//! there, so neither type can be constructed.

use std::convert::Infallible;

use super::{DecodeStep, Level};

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

    pub(super) fn decode(&mut self, _: &[u8], _: &mut [u8]) -> Result<DecodeStep, String> {
        match self.0 {}
    }
}
