//! Data connections beside the remote shell: TCP, usually with TLS 1.3, between two ends that know each other's key.
//!
//! One stream of a remote shell is one core of each machine. The far end therefore listens ([`DataListener`]) on the
//! address that the shell came to ([`SshConnection`]), and the near end opens more connections to it ([`connect`]).
//! Nothing of them is trusted that the shell has not vouched for:
//!
//! - Each end makes a key pair for this transfer ([`EndKeys`]). The public keys and the port travel through the shell,
//!   and each end takes no other key.
//! - Each connection is announced through the shell ([`DataListener::announce`]): it begins with a [`Token`] that is
//!   good once, from one address, for a short time.
//!
//! Without TLS ([`DataListener::bind_open`], [`connect_open`]) there is the token alone, which can be read on the way: whoever
//! uses such a connection compares each byte with what came through the shell.
//!
//! A failure is a [`ConnectFailure`] and never the end of a transfer: the shell's own streams remain.
//!
//! ```
//! use std::time::Duration;
//! use uncopy_remote::data::{self, DataListener, EndKeys, ListenOptions, ListenerEvent, Pinned};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (near, far) = (EndKeys::generate()?, EndKeys::generate()?);
//! // Through the shell: the near end's public key there; public key, port and token back.
//! let near_key = near.public();
//! let options = ListenOptions::new("127.0.0.1".parse()?, "127.0.0.1".parse()?);
//! let listener = DataListener::bind(&options, &far.pin(near_key))?;
//! let (_, token) = listener.announce()?;
//!
//! let near = near.pin(far.public());
//! let stream = data::connect(&[listener.address()], &near, &token, Duration::from_secs(10))?;
//! let (mut reader, mut writer) = stream.into_split();
//! # let ListenerEvent::Connected { stream, .. } = listener.wait(None) else { panic!() };
//! # let (mut far_reader, mut far_writer) = stream.into_split();
//! std::io::Write::write_all(&mut writer, b"a question")?;
//! writer.close()?;
//! # assert_eq!(std::io::read_to_string(&mut far_reader)?, "a question");
//! # std::io::Write::write_all(&mut far_writer, b"an answer")?;
//! # far_writer.close()?;
//! assert_eq!(std::io::read_to_string(&mut reader)?, "an answer");
//! # Ok(())
//! # }
//! ```

mod admission;
mod connector;
mod handshake;
mod keys;
mod listener;
mod open;
mod ports;
mod ssh_connection;
mod stream;
mod tls;
mod token;

pub use admission::{AnnounceError, AnnouncementId, Refusals};
pub use connector::{ConnectFailure, connect, connect_open};
pub use keys::{EndKeys, KeyError, Pinned, PublicKey};
pub use listener::{DataListener, ListenError, ListenOptions, ListenerEvent};
pub use open::OpenStream;
pub use ports::PortRange;
pub use ssh_connection::{BadSshConnection, HostAddress, SshConnection};
pub use stream::{DataReader, DataStream, DataWriter, MAX_BUFFER_BYTES, StreamCutter};
pub use token::Token;
