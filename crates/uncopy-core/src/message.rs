//! Limits of a channel's message, as Zircon has them.

/// Most bytes of one message (`ZX_CHANNEL_MAX_MSG_BYTES`).
pub const MAX_BYTES: usize = 65_536;
/// Most handles of one message (`ZX_CHANNEL_MAX_MSG_HANDLES`).
pub const MAX_HANDLES: usize = 64;
