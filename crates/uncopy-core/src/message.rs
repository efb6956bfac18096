//! Sizes of channel messages. The limits are those of Zircon.

/// Maximum number of bytes in one message (`ZX_CHANNEL_MAX_MSG_BYTES`).
pub const MAX_BYTES: usize = 65_536;
/// Maximum number of handles in one message (`ZX_CHANNEL_MAX_MSG_HANDLES`).
pub const MAX_HANDLES: usize = 64;
/// Size of the header before each message in the socket of a channel between processes.
pub const SOCKET_HEADER_BYTES: usize = 8;
