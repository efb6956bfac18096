//! Tokens, each for one connection.

use std::fmt;

use uncopy_core::Errno;
use uncopy_os::name::random_bytes;

/// Bytes of a token.
const TOKEN_BYTES: usize = 32;

/// Proof that a connection was announced through the remote shell.
#[derive(Clone)]
pub struct Token([u8; TOKEN_BYTES]);

impl Token {
    /// Makes a token that nobody can guess.
    ///
    /// # Errors
    /// Error of the random number generator.
    pub(super) fn random() -> Result<Token, Errno> {
        random_bytes().map(Token)
    }

    /// Takes a token as it came through the shell.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Token {
        Token(bytes)
    }

    /// Returns the bytes for the way through the shell.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Whether both are the same. Takes the same time for any two.
    pub(super) fn is(&self, other: &Token) -> bool {
        let differing =
            self.0.iter().zip(&other.0).fold(0, |all, (own, other)| all | (own ^ other));
        std::hint::black_box(differing) == 0
    }
}

/// Never shows the bytes.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_hide_themselves() {
        let (one, two) = (Token::random().unwrap(), Token::random().unwrap());
        assert!(one.is(&Token::from_bytes(*one.as_bytes())));
        assert!(!one.is(&two));
        for index in 0..TOKEN_BYTES {
            let mut bytes = *one.as_bytes();
            bytes[index] ^= 0x80;
            assert!(!one.is(&Token::from_bytes(bytes)), "byte {index}");
        }
        assert_eq!(format!("{one:?}"), "Token(..)");
    }
}
