use rustls::{CipherSuite, ClientConnection, ProtocolVersion, ServerConnection};

use super::*;
use crate::data::{EndKeys, PublicKey};

fn names(suites: &[SupportedCipherSuite]) -> Vec<CipherSuite> {
    suites.iter().map(SupportedCipherSuite::suite).collect()
}

const AES: CipherSuite = CipherSuite::TLS13_AES_128_GCM_SHA256;
const CHACHA: CipherSuite = CipherSuite::TLS13_CHACHA20_POLY1305_SHA256;

#[test]
fn an_end_without_aes_decides_for_both() {
    assert_eq!(names(&cipher_suites(true)), [AES, CHACHA]);
    assert_eq!(names(&cipher_suites(false)), [CHACHA]);
    for (near, far, chosen) in
        [(true, true, AES), (true, false, CHACHA), (false, true, CHACHA), (false, false, CHACHA)]
    {
        let (near_keys, far_keys) = (EndKeys::generate().unwrap(), EndKeys::generate().unwrap());
        let client = client_config_of(&near_keys.pin(far_keys.public()), provider(near)).unwrap();
        let server = server_config_of(&far_keys.pin(near_keys.public()), provider(far)).unwrap();
        let (client, server) = shake(client, server).unwrap();
        for suite in [client.negotiated_cipher_suite(), server.negotiated_cipher_suite()] {
            assert_eq!(suite.unwrap().suite(), chosen, "{near} {far}");
        }
    }
}

#[test]
fn connections_are_of_one_kind() {
    let (near, far) = (EndKeys::generate().unwrap(), EndKeys::generate().unwrap());
    let client = client_config(&near.pin(far.public())).unwrap();
    let server = server_config(&far.pin(near.public())).unwrap();
    let (client, mut server) = shake(client, server).unwrap();
    assert_eq!(client.protocol_version(), Some(ProtocolVersion::TLSv1_3));
    assert_eq!(client.alpn_protocol(), Some(PROTOCOL));
    assert_eq!(server.alpn_protocol(), Some(PROTOCOL));
    assert_eq!(client.tls13_tickets_received(), 0);
    assert_eq!(server.server_name(), None);
    assert!(server.early_data().is_none());
    let shown = |certificates: &[CertificateDer<'_>]| certificates[0].to_vec();
    let key = |key: PublicKey| [PUBLIC_KEY_HEAD.as_slice(), key.as_bytes()].concat();
    assert_eq!(shown(client.peer_certificates().unwrap()), key(far.public()));
    assert_eq!(shown(server.peer_certificates().unwrap()), key(near.public()));
}

#[test]
fn neither_end_accepts_another_key() {
    let [near, far, other] = [(); 3].map(|()| EndKeys::generate().unwrap());
    let refused = Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure);
    for (near_expects, far_expects) in [(&other, &near), (&far, &other), (&near, &near)] {
        let client = client_config(&near.pin(near_expects.public())).unwrap();
        let server = server_config(&far.pin(far_expects.public())).unwrap();
        assert_eq!(shake(client, server).err(), Some(refused.clone()));
    }
}

/// Shakes hands in memory.
fn shake(
    client: ClientConfig,
    server: ServerConfig,
) -> Result<(ClientConnection, ServerConnection), Error> {
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name)?;
    let mut server = ServerConnection::new(Arc::new(server))?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        server.read_tls(&mut bytes.as_slice()).unwrap();
        server.process_new_packets()?;
        bytes.clear();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        client.read_tls(&mut bytes.as_slice()).unwrap();
        client.process_new_packets()?;
    }
    Ok((client, server))
}
