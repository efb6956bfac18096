//! Connections without TLS: the token alone.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use uncopy_remote::data::{
    self, AnnounceError, ConnectFailure, DataListener, EndKeys, ListenerEvent, OpenStream, Token,
};

use crate::support::{LONG, options, plain_from};

fn connected(listener: &DataListener) -> OpenStream {
    match listener.wait(Some(LONG)) {
        ListenerEvent::ConnectedOpen { stream, .. } => stream,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_token_opens_one_connection_and_its_end_frees_the_place() {
    for ip in ["127.0.0.1", "::1"] {
        let mut options = options(ip);
        options.max_connections = 2;
        let listener = DataListener::bind_open(&options).unwrap();
        let address = listener.address();
        let tokens = [(); 2].map(|()| listener.announce().unwrap().1);
        let connect = |token: &Token| data::connect_open(&[address], token, LONG);
        let first = connect(&tokens[0]).unwrap();
        let there = connected(&listener);
        { there.socket() }.write_all(b"bytes in the clear").unwrap();
        let mut came = [0; 18];
        { first.socket() }.read_exact(&mut came).unwrap();
        assert_eq!(&came, b"bytes in the clear");
        // Used, and never given.
        let made_up = Token::from_bytes([7; 32]);
        for token in [&tokens[0], &made_up] {
            let refused = connect(token).unwrap_err();
            assert_eq!(refused, ConnectFailure::TokenRefused { address });
        }
        let second = connect(&tokens[1]).unwrap();
        let other = connected(&listener);
        assert!(matches!(listener.announce(), Err(AnnounceError::Full { max: 2 })));
        assert_eq!(listener.refusals().token, 2);
        drop(there);
        assert_eq!({ first.socket() }.read(&mut came).unwrap(), 0);
        listener.announce().unwrap();
        other.cutter().cut();
        assert_eq!({ second.socket() }.read(&mut came).unwrap(), 0);
    }
}

#[test]
fn others_and_other_protocols_are_not_taken() {
    let listener = DataListener::bind_open(&options("127.0.0.1")).unwrap();
    let (address, token) = (listener.address(), listener.announce().unwrap().1);
    let mut other = plain_from("127.0.0.9", address);
    let _ = other.write_all(token.as_bytes());
    assert_eq!(other.read(&mut [0]).unwrap_or(0), 0);
    // Its hello is no token.
    let (near, far) = (EndKeys::generate().unwrap(), EndKeys::generate().unwrap());
    let tls = data::connect(&[address], &near.pin(far.public()), &token, LONG).unwrap_err();
    assert!(!matches!(tls, ConnectFailure::TimedOut { .. }), "{tls:?}");
    let refusals = listener.refusals();
    assert_eq!((refusals.other_address, refusals.token), (1, 1), "{refusals:?}");
    drop(data::connect_open(&[address], &token, LONG).unwrap());
}

/// Something else listens where the far end should be.
fn answered(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.read_exact(&mut [0; 32]).unwrap();
        socket.write_all(answer).unwrap();
        // The near end goes first.
        let _ = socket.read(&mut [0]);
    });
    address
}

#[test]
fn what_answers_otherwise_is_no_far_end() {
    let token = Token::from_bytes([3; 32]);
    let address = answered(b"220 mail");
    let found = data::connect_open(&[address], &token, LONG).unwrap_err();
    assert!(matches!(found, ConnectFailure::Handshake { .. }), "{found:?}");
    let address = answered(b"");
    let short = Duration::from_millis(200);
    let found = data::connect_open(&[address], &token, short).unwrap_err();
    assert_eq!(found, ConnectFailure::TimedOut { address });
}
