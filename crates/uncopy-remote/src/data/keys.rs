//! Keys of the two ends of one transfer.

use std::fmt;
use std::sync::Arc;

use rustls::sign::CertifiedKey;

use super::tls;

/// Bytes of a public key of Ed25519.
const PUBLIC_KEY_BYTES: usize = 32;

/// Public key of an end, which the other end takes connections with (Ed25519).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey([u8; PUBLIC_KEY_BYTES]);

impl PublicKey {
    /// Takes a key as it came through the shell.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> PublicKey {
        PublicKey(bytes)
    }

    /// Returns the bytes for the way through the shell.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PublicKey(")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

/// Reason why data connections cannot be secured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("data connections cannot be secured ({why}): copy through the remote shell alone")]
pub struct KeyError {
    /// Reason.
    pub why: String,
}

impl KeyError {
    pub(super) fn new(why: impl fmt::Display) -> KeyError {
        KeyError { why: why.to_string() }
    }
}

/// Key pair of this end, for one transfer. The private key stays in memory.
#[derive(Clone)]
pub struct EndKeys {
    certified: Arc<CertifiedKey>,
    public: PublicKey,
}

impl EndKeys {
    /// Makes a pair.
    ///
    /// # Errors
    /// If there are no random numbers.
    pub fn generate() -> Result<EndKeys, KeyError> {
        let (certified, public) = tls::generate_keys()?;
        Ok(EndKeys { certified: Arc::new(certified), public: PublicKey(public) })
    }

    /// Returns the public key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Accepts the key of the other end, and no other one.
    #[must_use]
    pub fn pin(&self, other: PublicKey) -> Pinned {
        Pinned { own: self.clone(), other }
    }

    pub(super) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }
}

/// Shows the public key alone.
impl fmt::Debug for EndKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndKeys").field("public", &self.public).finish_non_exhaustive()
    }
}

/// Keys of this end, and the only key of the other end that it accepts.
#[derive(Debug, Clone)]
pub struct Pinned {
    own: EndKeys,
    other: PublicKey,
}

impl Pinned {
    pub(super) fn own(&self) -> &EndKeys {
        &self.own
    }

    pub(super) fn other(&self) -> PublicKey {
        self.other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_and_hide_their_private_half() {
        let (one, two) = (EndKeys::generate().unwrap(), EndKeys::generate().unwrap());
        assert_ne!(one.public(), two.public());
        assert_eq!(PublicKey::from_bytes(*one.public().as_bytes()), one.public());
        let hex: String =
            one.public().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(format!("{one:?}"), format!("EndKeys {{ public: PublicKey({hex}), .. }}"));
    }
}
