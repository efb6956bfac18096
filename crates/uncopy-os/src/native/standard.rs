//! Calls of systems of which nothing but the standard library is used.

use super::native::CopyCalls;
use uncopy_core::System;

/// The standard library's calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemCalls;

impl CopyCalls for SystemCalls {
    fn system(&self) -> System {
        System::Other
    }
}
