//! iceoryx2: publish and subscribe in shared memory, with a busy-waiting receiver, and with events
//! that wake a sleeping receiver.

use std::hint::{black_box, spin_loop};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use channels::{ECHO, Echo, Endpoint, Errand, Look, echo};
use iceoryx2::node::NodeCreationFailure;
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;

/// Each direction needs a separate service.
#[derive(Clone, Copy)]
enum Direction {
    There,
    Back,
}

struct Iceoryx {
    publisher: Publisher<ipc::Service, [u8], ()>,
    subscriber: Subscriber<ipc::Service, [u8], ()>,
    event: Option<(Notifier<ipc::Service>, Listener<ipc::Service>)>,
    /// A service lives as long as its node.
    _node: Node<ipc::Service>,
}

impl Iceoryx {
    fn new(
        name: &str,
        [to, from]: [Direction; 2],
        length: usize,
        has_event: bool,
    ) -> Result<Iceoryx> {
        let node = node()?;
        let service = |direction: Direction| -> Result<ServiceName> {
            let direction = match direction {
                Direction::There => "there",
                Direction::Back => "back",
            };
            Ok(ServiceName::new(&format!("{name}/{direction}"))?)
        };
        let samples = |direction| -> Result<_> {
            let builder = node.service_builder(&service(direction)?);
            Ok(builder.publish_subscribe::<[u8]>().open_or_create()?)
        };
        let events = |direction| -> Result<_> {
            Ok(node.service_builder(&service(direction)?).event().open_or_create()?)
        };
        let event = match has_event {
            true => {
                let notifier = events(to)?.notifier_builder().create()?;
                Some((notifier, events(from)?.listener_builder().create()?))
            }
            false => None,
        };
        let publisher = samples(to)?.publisher_builder().initial_max_slice_len(length).create()?;
        let subscriber = samples(from)?.subscriber_builder().create()?;
        Ok(Iceoryx { publisher, subscriber, event, _node: node })
    }

    /// Sends until a receiver gets it: samples that are published before it subscribes are lost. Returns when the line is
    /// quiet: with a second sample on its way both processes would work at once, which those of no other channel do.
    fn greet(&mut self, length: usize) -> Result<()> {
        let bytes = vec![1u8; length];
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            self.send(&bytes)?;
            if self.is_answered(length)? {
                while self.is_answered(length)? {}
                if let Some((_, listener)) = &self.event {
                    listener.try_wait(|_| {})?;
                }
                return Ok(());
            }
        }
        bail!("the echo does not answer")
    }

    /// Waits for an answer, several times as long as one of this length takes; returns whether it came.
    fn is_answered(&mut self, length: usize) -> Result<bool> {
        let longest = Duration::from_millis(50 + (length as u64 >> 19));
        let deadline = Instant::now() + longest;
        while Instant::now() < deadline {
            if self.subscriber.receive()?.is_some() {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(false)
    }
}

fn node() -> Result<Node<ipc::Service>, NodeCreationFailure> {
    set_log_level(LogLevel::Fatal);
    NodeBuilder::new().signal_handling_mode(SignalHandlingMode::Disabled).create()
}

impl Endpoint for Iceoryx {
    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let sample = self.publisher.loan_slice_uninit(bytes.len())?;
        sample.write_from_slice(bytes).send()?;
        if let Some((notifier, _)) = &self.event {
            notifier.notify()?;
        }
        Ok(())
    }

    fn receive(&mut self, look: Look) -> Result<usize> {
        loop {
            // One event may stand for several samples, so read samples first.
            if let Some((_, listener)) = &self.event {
                listener.blocking_wait(|_| {})?;
            }
            match self.subscriber.receive()? {
                Some(sample) => {
                    look.at(sample.payload());
                    return Ok(black_box(sample.payload()).len());
                }
                None => spin_loop(),
            }
        }
    }
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, name, length, event, look] = words.as_slice()
        && first == ECHO
    {
        let length = length.parse()?;
        let ends = [Direction::Back, Direction::There];
        let look = Look::from_word(look)?;
        return echo(Iceoryx::new(name, ends, length, event == "true")?, length, look);
    }
    let errand = Errand::from_arguments()?;
    let has_event = match errand.peer.as_str() {
        "iceoryx2" => false,
        "iceoryx2 + event" => true,
        other => bail!("there is no {other}"),
    };
    let name = format!("uncopy/compare/{}", std::process::id());
    if errand.processes == 1 {
        let ends = [Direction::There, Direction::There];
        return errand.measure(Iceoryx::new(&name, ends, errand.bytes, has_event)?);
    }
    let ends = [Direction::There, Direction::Back];
    let mut here = Iceoryx::new(&name, ends, errand.bytes, has_event)?;
    let length = errand.bytes.to_string();
    let event = has_event.to_string();
    let look = errand.look.word();
    let echo = Echo::start(&[name.into(), length.into(), event.into(), look.into()])?;
    here.greet(errand.bytes).context("cannot meet the second process")?;
    errand.measure(&mut here)?;
    let is_alone = !here.is_answered(errand.bytes)?;
    drop(echo);
    ensure!(is_alone, "two samples were on their way at once");
    Ok(())
}
