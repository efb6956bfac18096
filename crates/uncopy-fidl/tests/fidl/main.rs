//! Tests of FIDL's encoder and decoder.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod auto_traits;
mod diagnostics;
mod nested;
mod properties;
mod views;
