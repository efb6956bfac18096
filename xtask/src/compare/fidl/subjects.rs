//! Those that encode and decode, ready to be run.

use std::fmt::{Debug, Write as _};
use std::hint::black_box;
use std::io::IoSlice;
use std::time::Duration;

use anyhow::Result;
use uncopy::channel::{Channel, Deadline, MAX_BYTES, Object, Signals};
use uncopy_fidl::{
    Decode, Encoder, Fidl, GatherOptions, HEADER_BYTES, Handles, Header, NoHandle, RegionList,
    decode_message, decode_owned, encode_message, encode_message_into,
};

use super::before::{self, Linear};
use super::values::{ByteVector, byte_vector};
use crate::compare::case::{Role, Subject};
use crate::compare::metric::{Sample, TIME_EACH};
use crate::compare::timing::{printed_by, sample};
use crate::peers::Installed;

/// A value to encode and decode.
pub(super) trait Value: Fidl + Debug + 'static {}

impl<T: Fidl + Debug + 'static> Value for T {}

const HEADER: Header = Header::one_way(0x1234_5678_9abc_def0);

/// Which bodies stay in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Border {
    /// Those from the library's default on.
    Default,
    /// All of them.
    None,
}

impl Border {
    fn encoder(self) -> uncopy_fidl::Result<Encoder> {
        match self {
            Border::Default => Ok(Encoder::new()),
            Border::None => Encoder::with_options(GatherOptions::new().min_body_bytes(1)),
        }
    }
}

/// Values and buffers of a round. Everything lies at another place of a page in each round: what
/// a load behind a store costs depends on whether their addresses are alike in the lower twelve bits,
/// and an allocator gives who asks for the same what was freed last. So nothing is freed.
struct Placed<T> {
    value: Box<T>,
    encoder: Encoder,
    _gaps: [Vec<u8>; 2],
}

impl<T> Placed<T> {
    /// After those of earlier rounds.
    fn another<'k>(
        kept: &'k mut Vec<Placed<T>>,
        round: usize,
        make: &impl Fn() -> T,
        border: Border,
    ) -> Result<&'k mut Placed<T>> {
        let gap = |step: usize| black_box(vec![0; 16 * (1 + round * step % PLACES)]);
        let before = gap(89);
        let value = Box::new(make());
        kept.push(Placed { value, encoder: border.encoder()?, _gaps: [before, gap(55)] });
        let last = kept.len() - 1;
        Ok(&mut kept[last])
    }
}

/// Encodes what `make` makes anew for each round.
fn encode<T: Value>(
    name: &str,
    role: Role,
    border: Border,
    make: impl Fn() -> T + 'static,
    mut run: impl FnMut(&T, &mut Encoder) -> Result<Sample> + 'static,
) -> Subject {
    Subject::piece(
        name,
        role,
        || Ok(Vec::new()),
        move |kept: &mut Vec<Placed<T>>, round| {
            let placed = Placed::another(kept, round, &make, border)?;
            run(&placed.value, &mut placed.encoder)
        },
    )
}

/// Every sixteenth byte of a page.
const PLACES: usize = 256;

pub(super) fn gather<T: Value>(
    name: &str,
    border: Border,
    make: impl Fn() -> T + 'static,
    time: Duration,
) -> Subject {
    encode(name, Role::Own, border, make, move |value, encoder| {
        sample(time, || {
            let mut list = RegionList::new();
            let regions = encoder.gather_message(&HEADER, black_box(value), &mut list)?;
            black_box(regions.as_slices());
            Ok(())
        })
    })
}

/// Into a buffer that is kept, as the one region that a write takes.
pub(super) fn reused<T: Value>(
    name: &str,
    make: impl Fn() -> T + 'static,
    time: Duration,
) -> Subject {
    encode(name, Role::Own, Border::Default, make, move |value, encoder| {
        sample(time, || {
            let message = encoder.linear_message(&HEADER, black_box(value))?;
            black_box(&[IoSlice::new(message)]);
            Ok(())
        })
    })
}

pub(super) fn fresh<T: Value>(
    name: &str,
    make: impl Fn() -> T + 'static,
    time: Duration,
) -> Subject {
    encode(name, Role::Own, Border::Default, make, move |value, _| {
        sample(time, || {
            black_box(encode_message(&HEADER, black_box(value))?);
            Ok(())
        })
    })
}

/// Into a fresh buffer of which somebody knew how long it must be.
pub(super) fn exact<T: Value>(
    name: &str,
    make: impl Fn() -> T + 'static,
    time: Duration,
) -> Subject {
    encode(name, Role::Yardstick, Border::Default, make, move |value, _| {
        let length = encode_message(&HEADER, value)?.len();
        sample(time, || {
            let mut bytes = Vec::with_capacity(length);
            encode_message_into(&HEADER, black_box(value), &mut bytes)?;
            black_box(bytes);
            Ok(())
        })
    })
}

pub(super) fn view<T: Value>(
    name: &str,
    make: impl Fn() -> T + 'static,
    time: Duration,
) -> Subject {
    let open = move || Ok(encode_message(&HEADER, &make())?);
    Subject::piece(name, Role::Own, open, move |message, _| {
        sample(time, || {
            let mut handles = Handles::<NoHandle>::default();
            black_box(decode_message::<T, _>(black_box(&*message), &mut handles)?);
            Ok(())
        })
    })
}

pub(super) fn owned<T: Value>(
    name: &str,
    make: impl Fn() -> T + 'static,
    time: Duration,
) -> Subject {
    let open = move || Ok(encode_message(&HEADER, &make())?);
    Subject::piece(name, Role::Own, open, move |message, _| {
        sample(time, || {
            let mut handles = Handles::<NoHandle>::default();
            let view = decode_message::<T, _>(black_box(&*message), &mut handles)?;
            black_box(T::from_view(view, &mut handles));
            Ok(())
        })
    })
}

/// Checked, and made a value in the same walk.
pub(super) fn at_once<T: Value>(
    name: &str,
    make: impl Fn() -> T + 'static,
    time: Duration,
) -> Subject {
    let open = move || Ok(encode_message(&HEADER, &make())?);
    Subject::piece(name, Role::Own, open, move |message, _| {
        sample(time, || {
            let body = &black_box(&*message)[HEADER_BYTES..];
            black_box(decode_owned::<T, NoHandle>(body, Vec::new())?);
            Ok(())
        })
    })
}

/// A view that was checked before, printed.
pub(super) fn view_printed<T: Value>(
    name: &str,
    make: impl Fn() -> T + 'static,
    time: Duration,
) -> Subject {
    let open = move || Ok(encode_message(&HEADER, &make())?);
    Subject::piece(name, Role::Own, open, move |message, _| {
        let view = decode_message::<T, _>(message, &mut Handles::<NoHandle>::default())?;
        let mut text = String::new();
        sample(time, || print(black_box(&view), &mut text))
    })
}

/// The value itself, printed: what so much text costs.
pub(super) fn value_printed<T: Value>(
    name: &str,
    make: impl Fn() -> T + 'static,
    time: Duration,
) -> Subject {
    let open = move || Ok((make(), String::new()));
    Subject::piece(name, Role::Yardstick, open, move |(value, text), _| {
        sample(time, || print(black_box(&*value), text))
    })
}

/// Prints over what is in `text`.
fn print(printed: &impl Debug, text: &mut String) -> Result<()> {
    text.clear();
    write!(text, "{printed:?}")?;
    black_box(text.as_str());
    Ok(())
}

/// How a message gets into the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Gathered(Border),
    Reused,
    Fresh,
    /// As before RFC-0010.
    Before,
}

/// The ends of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    /// Both in this process, in memory.
    Local,
    /// Over a socket, so that a kernel copies.
    Socket,
}

impl Transport {
    fn ends(self) -> Result<(Channel, Channel)> {
        let (near, far) = Channel::pair();
        Ok(match self {
            Transport::Local => (near, far),
            Transport::Socket => {
                (near, Channel::from_fd(far.into_fd()?).map_err(|(_, status)| status)?)
            }
        })
    }
}

/// How it gets out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    Lent,
    Copied,
}

/// The whole way of a vector of `bytes`: encoded, written, waited for, read, decoded.
pub(super) fn event(
    name: &str,
    sent: Sent,
    taken: Taken,
    transport: Transport,
    bytes: usize,
    time: Duration,
) -> Subject {
    let open = move || Ok((transport.ends()?, Vec::new(), vec![0; MAX_BYTES]));
    let role = if sent == Sent::Before { Role::Yardstick } else { Role::Own };
    let border = match sent {
        Sent::Gathered(border) => border,
        Sent::Reused | Sent::Fresh | Sent::Before => Border::Default,
    };
    Subject::piece(name, role, open, move |((near, far), kept, out), round| {
        let make = || byte_vector(bytes);
        let Placed { value, encoder, .. } = Placed::another(kept, round, &make, border)?;
        sample(time, || {
            send(near, black_box(value), encoder, sent)?;
            far.wait_one(Signals::READABLE, Deadline::INFINITE)?;
            match taken {
                Taken::Lent => look(&far.read()?),
                Taken::Copied => {
                    let lengths = far.read_into(out, &mut [])?;
                    look(&out[..lengths.bytes])
                }
            }
        })
    })
}

#[inline]
fn send(channel: &Channel, value: &ByteVector, encoder: &mut Encoder, sent: Sent) -> Result<()> {
    match sent {
        Sent::Gathered(_) => {
            let mut list = RegionList::new();
            let regions = encoder.gather_message(&HEADER, value, &mut list)?;
            channel.write(regions.as_slices(), Vec::new())?;
        }
        Sent::Reused => {
            let message = encoder.linear_message(&HEADER, value)?;
            channel.write(&[IoSlice::new(message)], Vec::new())?;
        }
        Sent::Fresh => {
            let message = encode_message(&HEADER, value)?;
            channel.write(&[IoSlice::new(&message)], Vec::new())?;
        }
        Sent::Before => {
            let Linear { bytes, handles } = before::message(&HEADER, value)?;
            channel.write(&[IoSlice::new(&bytes)], handles)?;
        }
    }
    Ok(())
}

#[inline]
fn look(message: &[u8]) -> Result<()> {
    let mut handles = Handles::<NoHandle>::default();
    let view: <ByteVector as Decode>::View<'_> =
        decode_message::<ByteVector, _>(message, &mut handles)?;
    black_box(view.bytes);
    Ok(())
}

/// Arguments of a peer: `OPERATION VALUE MILLISECONDS`.
fn words(operation: &str, value: &str, time: Duration) -> [String; 3] {
    [operation.to_owned(), value.to_owned(), time.as_millis().to_string()]
}

/// A peer, which measures itself in a process of its own.
pub(super) fn peer(peer: &Installed, operation: &str, value: &str, time: Duration) -> Subject {
    let (program, words) = (peer.clone(), words(operation, value, time));
    let run = move |(): &mut (), _| printed_by(program.command().args(&words));
    Subject::piece(peer.name, Role::Peer, || Ok(()), run)
}

/// The time that is granted to a view where `peer` takes what it takes.
pub(super) fn granted(name: &str, peer: &Installed, value: &str, time: Duration) -> Subject {
    let (program, words) = (peer.clone(), words("decode", value, time));
    let run = move |(): &mut (), _| {
        let nanoseconds = printed_by(program.command().args(&words))?[&TIME_EACH];
        Ok(Sample::from([(TIME_EACH, (nanoseconds * 1.5).max(nanoseconds + 10.0))]))
    };
    Subject::piece(name, Role::Yardstick, || Ok(()), run)
}
