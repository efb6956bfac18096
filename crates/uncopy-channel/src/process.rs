//! Starting a program with an endpoint, and taking the endpoint in that program.

use std::io;
use std::os::fd::AsFd;
use std::process::{Child, Command};

use super::{Channel, Status};
use uncopy_core::Errno;
use uncopy_os::{inherit, seqpacket};

/// Environment variable with the decimal number of the descriptor that [`Channel::inherited`]
/// takes.
pub const FD_VARIABLE: &str = "UNCOPY_CHANNEL_FD";

/// Starts `command` with one end of a new channel, and returns the other. The program takes its end
/// with [`Channel::inherited`]; one that is not written with this library finds a connected socket
/// (`AF_UNIX`, `SOCK_SEQPACKET`) under the number in the environment variable [`FD_VARIABLE`].
///
/// No other process gets the descriptor: it is close-on-exec in this process, and only the child
/// that is started here keeps it. `command` can be used again; programs that it starts without this
/// function have neither the descriptor nor the variable. The caller waits for the child, as for
/// every [`Child`].
///
/// ```no_run
/// use std::process::Command;
/// use uncopy::channel::{self, Deadline, Object, Signals};
///
/// let (channel, mut child) = channel::spawn(&mut Command::new("worker"))?;
/// channel.wait_one(Signals::READABLE | Signals::PEER_CLOSED, Deadline::INFINITE)?;
/// println!("the worker says {:?}", &*channel.read()?);
/// child.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of [`Command::spawn`]; `EMFILE` or `ENFILE` if descriptors run out.
pub fn spawn(command: &mut Command) -> io::Result<(Channel, Child)> {
    let (here, there) = seqpacket::pair().map_err(io_error)?;
    let bequest = inherit::InheritableFd::new(there.as_fd(), command).map_err(io_error)?;
    drop(there);
    command.env(FD_VARIABLE, bequest.number().to_string());
    let child = command.spawn();
    command.env_remove(FD_VARIABLE);
    let child = child?;
    let channel = Channel::from_fd(here).map_err(|(_, status)| status)?;
    Ok((channel, child))
}

fn io_error(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.raw())
}

impl Channel {
    /// Takes the endpoint that this program was started with: by [`spawn`], or by another program that
    /// left it a connected socket (`AF_UNIX`, `SOCK_SEQPACKET`) and its number in the environment
    /// variable [`FD_VARIABLE`]. Only the first call succeeds. Programs started from here do not
    /// inherit it: the descriptor becomes close-on-exec.
    ///
    /// Sockets that are passed in another way, as by `systemd.socket(5)`, become endpoints by
    /// [`from_fd`](Self::from_fd).
    ///
    /// ```
    /// use uncopy::channel::{Channel, Status};
    ///
    /// // This program was not started with one.
    /// assert_eq!(Channel::inherited().unwrap_err(), Status::NotFound);
    /// ```
    ///
    /// # Errors
    /// [`Status::NotFound`] if the variable is not set or is not a number;
    /// [`Status::BadHandle`] if no descriptor of that number is open, or it was taken before;
    /// [`Status::WrongType`] if the descriptor is not such a socket; it stays open.
    pub fn inherited() -> Result<Channel, Status> {
        let fd = inherit::take(FD_VARIABLE, |fd| seqpacket::is_seqpacket(fd)).map_err(|errno| {
            match errno {
                Errno::ENOENT => Status::NotFound,
                Errno::EBADF => Status::BadHandle,
                Errno::EINVAL => Status::WrongType,
                other => other.into(),
            }
        })?;
        Channel::from_fd(fd).map_err(|(_, status)| status)
    }
}
