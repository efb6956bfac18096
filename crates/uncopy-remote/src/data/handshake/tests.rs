use std::net::TcpListener;
use std::thread;

use super::*;
use crate::data::{EndKeys, tls};

/// Handshake of two ends whose configurations are changed before.
struct Shaken {
    near: Result<(), HandshakeError>,
    far: Result<(), HandshakeError>,
}

fn shake(
    limit: Duration,
    change: impl FnOnce(&mut ClientConfig, &mut ServerConfig),
    answer: impl FnOnce(&mut ServerConnection, &TcpStream, Instant) + Send,
) -> Shaken {
    let (near, far) = (EndKeys::generate().unwrap(), EndKeys::generate().unwrap());
    let mut client = tls::client_config(&near.pin(far.public())).unwrap();
    let mut server = tls::server_config(&far.pin(near.public())).unwrap();
    change(&mut client, &mut server);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    let until = Instant::now() + limit;
    thread::scope(|scope| {
        let far = scope.spawn(move || {
            let (mut tls, token) = accept(Arc::new(server), &far, until)?;
            assert_eq!(token.as_bytes(), &[5; 32]);
            answer(&mut tls, &far, until);
            Ok(())
        });
        let token = Token::from_bytes([5; 32]);
        let shaken = connect(Arc::new(client), &near, &token, until).map(|_| ());
        drop(near);
        Shaken { near: shaken, far: far.join().unwrap() }
    })
}

const LONG: Duration = Duration::from_secs(60);

fn answer_with(byte: u8) -> impl FnOnce(&mut ServerConnection, &TcpStream, Instant) + Send {
    move |tls, socket, until| {
        let mut timed = Timed { socket, until };
        Stream::new(tls, &mut timed).write_all(&[byte]).unwrap();
    }
}

#[test]
fn both_ends_name_the_protocol() {
    let without = |far: bool| {
        move |client: &mut ClientConfig, server: &mut ServerConfig| {
            let protocols =
                if far { &mut server.alpn_protocols } else { &mut client.alpn_protocols };
            protocols.clear();
        }
    };
    let nothing = || answer_with(ACCEPTED);
    let unnamed = HandshakeError::Protocol("it names no protocol".to_owned());
    assert_eq!(shake(LONG, without(false), nothing()).far, Err(unnamed.clone()));
    assert_eq!(shake(LONG, without(true), nothing()).near, Err(unnamed));
    let other = |client: &mut ClientConfig, _: &mut ServerConfig| {
        client.alpn_protocols = vec![b"uncopy/2".to_vec()];
    };
    let shaken = shake(LONG, other, nothing());
    assert!(matches!(shaken.near, Err(HandshakeError::Protocol(_))), "{:?}", shaken.near);
    assert!(matches!(shaken.far, Err(HandshakeError::Protocol(_))), "{:?}", shaken.far);
}

#[test]
fn a_token_is_answered() {
    let unchanged = |_: &mut ClientConfig, _: &mut ServerConfig| {};
    assert_eq!(shake(LONG, unchanged, answer_with(ACCEPTED)).near, Ok(()));
    let other = shake(LONG, unchanged, answer_with(9)).near;
    assert_eq!(other, Err(HandshakeError::Protocol("it answers a token with 9".to_owned())));
    assert_eq!(shake(LONG, unchanged, refuse).near, Err(HandshakeError::TokenRefused));
    let cut = |_: &mut ServerConnection, socket: &TcpStream, _: Instant| {
        socket.shutdown(Shutdown::Both).unwrap();
    };
    assert_eq!(shake(LONG, unchanged, cut).near, Err(HandshakeError::Ended));
    let silent = |_: &mut ServerConnection, socket: &TcpStream, _: Instant| {
        // The handshake has left its limit there, at which this end would end as well.
        socket.set_read_timeout(None).unwrap();
        while (&*socket).read(&mut [0]).is_ok_and(|bytes| bytes > 0) {}
    };
    let shaken = shake(Duration::from_secs(2), unchanged, silent);
    assert_eq!(shaken.near, Err(HandshakeError::TimedOut));
}
