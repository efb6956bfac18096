//! Channels between real processes, which are started, run out of descriptors, and are killed.

mod deaths;
mod limits;
mod messages;
mod objects;
pub(crate) mod roles;
mod starting;
mod travels;

use std::io::IoSlice;
use std::process::{Child, Command};
use std::time::Duration;

use testbed::LONG;
use uncopy::channel::{self, Channel, Deadline, Handle, MessageBuf, Status};

fn soon() -> Deadline {
    Deadline::after(LONG)
}

/// Deadline for an event that must not happen.
fn tick() -> Deadline {
    Deadline::after(Duration::from_millis(10))
}

/// A child process with a role. Killed when this is dropped.
struct Actor {
    channel: Channel,
    child: Child,
}

impl Actor {
    fn start(role: &str) -> Actor {
        let mut command = Command::new(std::env::current_exe().unwrap());
        Actor::start_by(command.env(roles::VARIABLE, role))
    }

    fn start_by(command: &mut Command) -> Actor {
        let (channel, child) = channel::spawn(command).unwrap();
        Actor { channel, child }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it exits after its channel is closed, and checks that it succeeded.
    #[track_caller]
    fn finish(self) {
        let Actor { channel, mut child } = self;
        drop(channel);
        assert!(child.wait().unwrap().success());
    }
}

fn send(channel: &Channel, bytes: &[u8]) -> Result<(), Status> {
    channel.write(&[IoSlice::new(bytes)], vec![])
}

fn send_with(channel: &Channel, bytes: &[u8], handles: Vec<Handle>) -> Result<(), Status> {
    channel.write(&[IoSlice::new(bytes)], handles)
}

/// Waits for the next message.
fn next(channel: &Channel) -> Result<MessageBuf, Status> {
    channel.receive(soon())
}

/// Waits for the next message and returns its only handle.
#[track_caller]
fn next_handle<T: TryFrom<Handle, Error = Handle>>(channel: &Channel) -> T {
    let mut handles = next(channel).unwrap().take_handles();
    assert_eq!(handles.len(), 1);
    T::try_from(handles.remove(0)).unwrap()
}

/// Returns the number of open descriptors of this process.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

pub(crate) fn cases() -> Vec<testbed::Case> {
    [
        deaths::cases(),
        limits::cases(),
        messages::cases(),
        objects::cases(),
        starting::cases(),
        travels::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
