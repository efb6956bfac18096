//! Those that send over TCP, to a peer that does not exist.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use testbed::network::Network;
use uncopy::send::{Fate, Mode, Sender, SenderOptions};

use super::subjects::BUNCH;
use crate::compare::case::{Role, Subject};
use crate::compare::timing::{divided, sample_prepared};

/// What the kernel's tool sends: nearly what the largest packet holds.
pub(super) const LARGEST: usize = 65_435;
const PORT: u16 = 4000;

/// A [`Sender`] on connections of 64 sends each, while a packet tap runs or not.
pub(super) fn sender(name: &str, mode: Mode, tapped: bool, time: Duration) -> Subject {
    let payload = Arc::new(vec![7u8; LARGEST]);
    let open = || Ok(Network::here());
    Subject::piece(name, Role::Own, open, move |network, _| {
        let _tap = tapped.then(|| network.tap());
        let connect = || {
            let mut options = SenderOptions::default();
            options.mode = mode;
            options.send_timeout = Some(Duration::from_secs(1));
            Ok(Sender::new(network.silent_connection(false, PORT), &options))
        };
        let bunch = sample_prepared(time, connect, |sender| {
            one_connection(sender, &payload, (mode, tapped))
        })?;
        Ok(divided(bunch, BUNCH as f64))
    })
}

fn one_connection(
    mut sender: Sender<Arc<Vec<u8>>>,
    payload: &Arc<Vec<u8>>,
    (mode, tapped): (Mode, bool),
) -> Result<()> {
    for _ in 0..BUNCH {
        sender.send(payload.clone()).result?;
    }
    sender.abort();
    let expected = match (mode, tapped) {
        (Mode::Zerocopy, false) => Fate::NotCopied,
        _ => Fate::Copied,
    };
    while sender.outstanding().sends > 0 {
        let release = sender.wait_release(Some(Duration::from_secs(1)))?;
        let fate = release.map(|release| release.fate);
        ensure!(fate == Some(expected), "a send was {fate:?} instead of {expected}");
    }
    Ok(())
}
