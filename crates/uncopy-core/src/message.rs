//! Limits of a channel message, the same as Zircon's.

/// Maximum number of bytes in one message (`ZX_CHANNEL_MAX_MSG_BYTES`).
pub const MAX_BYTES: usize = 65_536;
/// Maximum number of handles in one message (`ZX_CHANNEL_MAX_MSG_HANDLES`).
pub const MAX_HANDLES: usize = 64;
