//! TLS as data connections speak it: version 1.3, raw public keys (RFC 7250) pinned at both ends, no tickets, no
//! resumption, no early data.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme, SupportedCipherSuite, client, server,
};
use uncopy_os::name::random_bytes;

use super::keys::{KeyError, Pinned};

/// Name of the protocol in the handshake (ALPN, RFC 7301).
pub(super) const PROTOCOL: &[u8] = b"uncopy/1";

/// Beginning of an Ed25519 key pair in PKCS #8 (RFC 8410, section 7); the private key follows.
const PRIVATE_KEY_HEAD: [u8; 16] =
    [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// Beginning of an Ed25519 public key with its algorithm (RFC 8410, section 4); the key follows.
const PUBLIC_KEY_HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

/// Makes a key pair; returns it with the bytes of its public key.
pub(super) fn generate_keys() -> Result<(CertifiedKey, [u8; 32]), KeyError> {
    let secret = random_bytes::<32>().map_err(|errno| KeyError::new(errno.message()))?;
    let encoded = [PRIVATE_KEY_HEAD.as_slice(), &secret].concat();
    let key = default_provider()
        .key_provider
        .load_private_key(PrivatePkcs8KeyDer::from(encoded).into())
        .map_err(KeyError::new)?;
    let public =
        key.public_key().ok_or_else(|| KeyError::new("a key has no public half"))?.to_vec();
    let bytes = public.strip_prefix(&PUBLIC_KEY_HEAD).and_then(|bytes| bytes.try_into().ok());
    let bytes = bytes.ok_or_else(|| KeyError::new("a public key is of another kind"))?;
    Ok((CertifiedKey::new(vec![public.into()], key), bytes))
}

/// Configures the near end, which connects.
pub(super) fn client_config(keys: &Pinned) -> Result<ClientConfig, KeyError> {
    client_config_of(keys, provider(has_aes()))
}

fn client_config_of(keys: &Pinned, provider: CryptoProvider) -> Result<ClientConfig, KeyError> {
    let provider = Arc::new(provider);
    let pin = Arc::new(Pin::new(keys, &provider));
    let own = Arc::new(client::AlwaysResolvesClientRawPublicKeys::new(keys.own().certified()));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(KeyError::new)?
        .dangerous()
        .with_custom_certificate_verifier(pin)
        .with_client_cert_resolver(own);
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    config.enable_early_data = false;
    Ok(config)
}

/// Configures the far end, which listens.
pub(super) fn server_config(keys: &Pinned) -> Result<ServerConfig, KeyError> {
    server_config_of(keys, provider(has_aes()))
}

fn server_config_of(keys: &Pinned, provider: CryptoProvider) -> Result<ServerConfig, KeyError> {
    let provider = Arc::new(provider);
    let pin = Arc::new(Pin::new(keys, &provider));
    let own = Arc::new(server::AlwaysResolvesServerRawPublicKeys::new(keys.own().certified()));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(KeyError::new)?
        .with_client_cert_verifier(pin)
        .with_cert_resolver(own);
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Ok(config)
}

fn provider(has_aes: bool) -> CryptoProvider {
    CryptoProvider {
        cipher_suites: cipher_suites(has_aes),
        kx_groups: vec![kx_group::X25519],
        ..default_provider()
    }
}

/// Cipher suites that an end offers. AES without instructions for it is several times slower than ChaCha20, so that one
/// end without them decides for both.
fn cipher_suites(has_aes: bool) -> Vec<SupportedCipherSuite> {
    let chacha = cipher_suite::TLS13_CHACHA20_POLY1305_SHA256;
    if has_aes { vec![cipher_suite::TLS13_AES_128_GCM_SHA256, chacha] } else { vec![chacha] }
}

/// Whether the processor has instructions for AES and for the multiplication of GCM.
fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    let has_aes = is_x86_feature_detected!("aes") && is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    let has_aes = std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let has_aes = false;
    has_aes
}

/// Accepts one public key of the other end.
#[derive(Debug)]
struct Pin {
    /// Key with its algorithm, as the other end sends it.
    accepted: Vec<u8>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pin {
    fn new(keys: &Pinned, provider: &CryptoProvider) -> Pin {
        Pin {
            accepted: [PUBLIC_KEY_HEAD.as_slice(), keys.other().as_bytes()].concat(),
            algorithms: provider.signature_verification_algorithms,
        }
    }

    fn check_key(
        &self,
        shown: &CertificateDer<'_>,
        more: &[CertificateDer<'_>],
    ) -> Result<(), Error> {
        let is_accepted = shown.as_ref() == self.accepted && more.is_empty();
        let refused = Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure);
        if is_accepted { Ok(()) } else { Err(refused) }
    }

    fn check_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }
}

/// Answer to a handshake of TLS 1.2, which neither end offers.
fn refuse_old_version() -> Result<HandshakeSignatureValid, Error> {
    Err(Error::General("TLS 1.2 is not spoken".to_owned()))
}

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check_key(end_entity, intermediates).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        refuse_old_version()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Pin {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check_key(end_entity, intermediates).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        refuse_old_version()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
