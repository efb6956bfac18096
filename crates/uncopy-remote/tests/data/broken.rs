//! Connections that are cut or damaged between the ends, at many places.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use testbed::by_extent;
use uncopy_remote::data::{self, DataStream};

use crate::support::{Ends, LONG, pattern};

/// Bytes that the far end sends.
const BYTES: usize = 300_000;

/// Fault in what goes from the far end to the near one.
#[derive(Debug, Clone, Copy)]
enum Fault {
    None,
    /// Ends after so many bytes.
    CutAfter(usize),
    /// Changes a bit of a byte.
    Flip(usize),
}

/// Relays one connection; returns its address, and the bytes that went to the near end.
fn relay(to: SocketAddr, fault: Fault) -> (SocketAddr, thread::JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let relaying = thread::spawn(move || {
        let (near, _) = listener.accept().unwrap();
        let far = TcpStream::connect(to).unwrap();
        let (mut from_near, mut to_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        let upwards = thread::spawn(move || {
            let _ = io::copy(&mut from_near, &mut to_far);
            let _ = to_far.shutdown(Shutdown::Write);
        });
        let relayed = relay_down(&far, &near, fault);
        let _ = near.shutdown(Shutdown::Write);
        if matches!(fault, Fault::CutAfter(_)) {
            let _ = far.shutdown(Shutdown::Both);
        }
        upwards.join().unwrap();
        relayed
    });
    (address, relaying)
}

fn relay_down(mut far: &TcpStream, mut near: &TcpStream, fault: Fault) -> usize {
    let (mut relayed, mut bytes) = (0, vec![0; 32 << 10]);
    loop {
        let room = match fault {
            Fault::CutAfter(offset) => (offset - relayed).min(bytes.len()),
            _ => bytes.len(),
        };
        if room == 0 {
            return relayed;
        }
        let Ok(read @ 1..) = far.read(&mut bytes[..room]) else { return relayed };
        if let Fault::Flip(offset) = fault
            && (relayed..relayed + read).contains(&offset)
        {
            bytes[offset - relayed] ^= 0x10;
        }
        if near.write_all(&bytes[..read]).is_err() {
            return relayed;
        }
        relayed += read;
    }
}

/// Sends data through a relay with a fault. Returns what the near end got, how its reading ended, and the bytes relayed.
fn transfer(ends: &Ends, fault: Fault) -> (Vec<u8>, io::Result<()>, usize) {
    let (_, token) = ends.listener.announce().unwrap();
    let (address, relaying) = relay(ends.listener.address(), fault);
    let connected = data::connect(&[address], &ends.near, &token, LONG);
    let result = thread::scope(|scope| {
        let Ok(near) = connected else {
            return (Vec::new(), Err(io::ErrorKind::NotConnected.into()));
        };
        scope.spawn(|| send(ends.connected().1));
        let (mut reader, writer) = near.into_split();
        writer.close().unwrap();
        let mut got = Vec::new();
        let ended = reader.read_to_end(&mut got).map(|_| ());
        drop(reader);
        (got, ended)
    });
    let relayed = relaying.join().unwrap();
    (result.0, result.1, relayed)
}

fn send(far: DataStream) {
    let (mut reader, mut writer) = far.into_split();
    // Fails when it is cut.
    let sent = pattern(5, BYTES).chunks(50_000).try_for_each(|part| writer.write_all(part));
    let _ = sent.and_then(|()| writer.close());
    let _ = reader.read(&mut [0]);
}

#[test]
fn a_cut_at_any_place_is_no_end_of_data() {
    let data = pattern(5, BYTES);
    let (got, ended, total) = transfer(&Ends::local(), Fault::None);
    ended.unwrap();
    assert!(got == data);

    // Every place of the handshake and of the closing, and many between.
    let step = by_extent([37, 7, 1]);
    let sparse = by_extent([20_011, 5003, 101]);
    let places =
        (0..700).step_by(step).chain((700..total).step_by(sparse)).chain(total - 60..total);
    let mut met = [0; 2];
    for place in places {
        let (got, ended, relayed) = transfer(&Ends::local(), Fault::CutAfter(place));
        assert_eq!(relayed, place);
        assert!(ended.is_err(), "cut after {place} of {total} bytes, and {} arrived", got.len());
        assert!(data.starts_with(&got), "cut after {place} bytes");
        met[usize::from(!got.is_empty())] += 1;
    }
    assert!(met.iter().all(|number| *number > 10), "with and without data: {met:?}");
    let (got, ended, _) = transfer(&Ends::local(), Fault::CutAfter(total));
    assert!(ended.is_ok() && got == data, "a cut after the end is none");
}

#[test]
fn a_changed_bit_is_found() {
    let data = pattern(5, BYTES);
    let (_, _, total) = transfer(&Ends::local(), Fault::None);
    let step = by_extent([30_011, 5003, 211]);
    for place in (0..total).step_by(step).chain([total - 1]) {
        let (got, ended, _) = transfer(&Ends::local(), Fault::Flip(place));
        assert!(ended.is_err(), "a bit of byte {place} of {total}");
        assert!(data.starts_with(&got), "a bit of byte {place}");
    }
}
