//! crossbeam-channel and ipc-channel.

use anyhow::{Result, bail};
use channels::{ECHO, Echo, Endpoint, Errand, Look, echo};
use crossbeam_channel::{Receiver, Sender, unbounded};
use ipc_channel::ipc::{
    IpcBytesReceiver, IpcBytesSender, IpcOneShotServer, IpcSender, bytes_channel,
};

struct Crossbeam(Sender<Vec<u8>>, Receiver<Vec<u8>>);

impl Endpoint for Crossbeam {
    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.0.send(bytes.to_vec())?)
    }

    fn receive(&mut self, look: Look) -> Result<usize> {
        let bytes = self.1.recv()?;
        look.at(&bytes);
        Ok(bytes.len())
    }
}

/// Sends bytes without serialisation: the fastest way in this crate.
struct Ipc(IpcBytesSender, IpcBytesReceiver);

impl Endpoint for Ipc {
    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.0.send(bytes)?)
    }

    fn receive(&mut self, look: Look) -> Result<usize> {
        match self.1.recv() {
            Ok(bytes) => {
                look.at(&bytes);
                Ok(bytes.len())
            }
            Err(error) => bail!("{error:?}"),
        }
    }
}

/// Ends that the echo passes to its parent: one to send to, one to receive from.
type Greeting = (IpcBytesSender, IpcBytesReceiver);

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, server, length, look] = words.as_slice()
        && first == ECHO
    {
        return echo_ipc(server, length.parse()?, Look::from_word(look)?);
    }
    let errand = Errand::from_arguments()?;
    match (errand.peer.as_str(), errand.processes) {
        ("crossbeam-channel", 1) => {
            let (sender, receiver) = unbounded();
            errand.measure(Crossbeam(sender, receiver))
        }
        ("ipc-channel", 1) => {
            let (sender, receiver) = bytes_channel()?;
            errand.measure(Ipc(sender, receiver))
        }
        ("ipc-channel", 2) => {
            let (server, name) = IpcOneShotServer::<Greeting>::new()?;
            let _echo = Echo::start(&[
                name.into(),
                errand.bytes.to_string().into(),
                errand.look.word().into(),
            ])?;
            let (_, (sender, receiver)) = match server.accept() {
                Ok(accepted) => accepted,
                Err(error) => bail!("{error:?}"),
            };
            errand.measure(Ipc(sender, receiver))
        }
        (peer, processes) => bail!("there is no {peer} for {processes} processes"),
    }
}

fn echo_ipc(server: &str, length: usize, look: Look) -> Result<()> {
    let (there, here) = (bytes_channel()?, bytes_channel()?);
    let greeting: IpcSender<Greeting> = IpcSender::connect(server.to_owned())?;
    if let Err(error) = greeting.send((there.0, here.1)) {
        bail!("{error:?}");
    }
    echo(Ipc(here.0, there.1), length, look)
}
