use std::net::TcpListener;
use std::thread;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection};

use super::*;
use crate::data::{EndKeys, tls};

/// Two ends of a connection over loopback, after the handshake.
fn pair() -> (DataStream, DataStream) {
    let (near, far) = (EndKeys::generate().unwrap(), EndKeys::generate().unwrap());
    let client = Arc::new(tls::client_config(&near.pin(far.public())).unwrap());
    let server = Arc::new(tls::server_config(&far.pin(near.public())).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut client = ClientConnection::new(client, name).unwrap();
    let mut server = ServerConnection::new(server).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| client.complete_io(&mut near).unwrap());
        server.complete_io(&mut far).unwrap();
    });
    let stream = |tls, socket| DataStream::new(tls, Arc::new(socket), None);
    (stream(Connection::from(client), near), stream(Connection::from(server), far))
}

/// Bytes that both halves of a connection hold by themselves.
#[test]
fn buffers_keep_their_size() {
    let (near, far) = pair();
    let ((mut near_reader, mut near_writer), (mut reader, writer)) =
        (near.into_split(), far.into_split());
    let room = near_writer.unsent.capacity();
    let data = vec![7; 1 << 20];
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut got = vec![0; data.len()];
            reader.read_exact(&mut got).unwrap();
            assert!(got == data);
        });
        near_writer.write_all(&data).unwrap();
        near_writer.write_all(&data[..0]).unwrap();
    });
    assert_eq!(near_writer.unsent.capacity(), room, "a batch and its records fit");
    writer.close().unwrap();
    assert_eq!(near_reader.read(&mut [0]).unwrap(), 0);
    assert_eq!(near_reader.received.len(), BATCH_BYTES);
    const { assert!(MAX_BUFFER_BYTES <= 256 << 10) };
}

/// Keys change after 2^24 records, or when the other end asks; the answer goes out with the next write.
#[test]
fn keys_change_in_the_middle() {
    let (near, far) = pair();
    let ((mut near_reader, mut near_writer), (mut far_reader, mut far_writer)) =
        (near.into_split(), far.into_split());
    let mut bytes = [0; 5];
    for round in 0..20_u8 {
        near_writer.link.tls().connection.refresh_traffic_keys().unwrap();
        near_writer.write_all(&[round; 5]).unwrap();
        far_reader.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, [round; 5]);
        far_writer.write_all(&[round ^ 0xff; 5]).unwrap();
        near_reader.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, [round ^ 0xff; 5]);
    }
}

#[test]
fn nothing_is_sent_after_the_protocol_is_broken() {
    let (near, far) = pair();
    let (mut reader, mut writer) = near.into_split();
    // A record that no key of this connection made.
    let mut socket = &*far.link.socket;
    socket.write_all(&[[23, 3, 3, 0, 40].as_slice(), &[9; 40]].concat()).unwrap();
    let error = reader.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert_eq!(writer.write(b"x").unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert!(writer.close().is_err());
    let mut rest = Vec::new();
    // No end in order: the socket was cut.
    let _ = socket.read_to_end(&mut rest);
    assert!(rest.is_empty(), "{rest:?}");
}
