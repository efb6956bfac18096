//! Capabilities for people.

use std::fmt::Write as _;

use indicatif::BinaryBytes;
use uncopy::capabilities::{
    Alignment, Answer, Device, IoUring, Kernel, Limit, Sharing, Storage, ZerocopySocket,
};

use super::verdicts::{PairVerdict, Verdicts};
use crate::report::{Failure, printable};

/// Width of the column of names.
const NAMES: usize = 18;

/// Formats the verdicts, a table for the kernel, and one for each path that could be tested.
pub(super) fn report(
    kernel: &Kernel,
    storages: &[Result<Storage, Failure>],
    verdicts: &Verdicts,
) -> String {
    let mut text: String = verdicts.all().map(verdict).collect();
    if !text.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(text, "Kernel {}", kernel.release);
    rows(&mut text, kernel_rows(kernel));
    for storage in storages.iter().flatten() {
        let path = storage.path.display().to_string();
        let device = device(&storage.device);
        let _ = writeln!(text, "\n{}: {}{device}", printable(&path), storage.filesystem);
        match storage_rows(storage) {
            // The same answer for everything is printed once.
            all if all.iter().all(|(_, value)| *value == all[0].1) => {
                rows(&mut text, [("everything", all[0].1.clone())]);
            }
            all => rows(&mut text, all),
        }
    }
    text
}

/// Formats "within /data: shared (reflink)".
fn verdict(pair: &PairVerdict) -> String {
    let from = pair.from.display().to_string();
    let to = pair.to.display().to_string();
    let place = match pair.from == pair.to {
        true => format!("within {}", printable(&from)),
        false => format!("from {} to {}", printable(&from), printable(&to)),
    };
    match &pair.verdict {
        Ok(verdict) => {
            let when = if verdict.when_durable { ", when durable" } else { "" };
            let cost = verdict.cost.name().replace('_', " ");
            format!("{place}: {cost} ({}){when}\n", verdict.mechanism)
        }
        Err(reason) => format!("{place}: not tried: {}\n", printable(&reason.to_string())),
    }
}

fn rows<const N: usize>(text: &mut String, rows: [(&str, String); N]) {
    for (name, value) in rows {
        let _ = writeln!(text, "  {name:NAMES$}{}", printable(&value));
    }
}

fn kernel_rows(kernel: &Kernel) -> [(&'static str, String); 6] {
    let limits = &kernel.limits;
    let bytes = |bytes| BinaryBytes(bytes).to_string();
    let known = |limit: Option<u64>| limit.map_or_else(|| "not known".to_owned(), bytes);
    [
        ("io_uring", io_uring(&kernel.io_uring)),
        ("MSG_ZEROCOPY", zerocopy(&kernel.msg_zerocopy)),
        ("pipe", format!("{} at most (fs.pipe-max-size)", known(limits.pipe_max_bytes))),
        (
            "socket options",
            format!("{} at most (net.core.optmem_max)", known(limits.optmem_max_bytes)),
        ),
        ("locked memory", format!("{} (RLIMIT_MEMLOCK)", limit(limits.memlock, bytes))),
        (
            "open files",
            format!("{} (RLIMIT_NOFILE)", limit(limits.open_files, |files| files.to_string())),
        ),
    ]
}

fn storage_rows(storage: &Storage) -> [(&'static str, String); 9] {
    [
        ("reflink", answer(&storage.reflink, |()| String::new())),
        ("copy_file_range", answer(&storage.copy_file_range, |sharing| sharing_of(*sharing))),
        ("O_DIRECT", answer(&storage.direct_write, |()| alignment(storage.direct_alignment))),
        ("holes", answer(&storage.holes, |()| "take no space".to_owned())),
        ("SEEK_HOLE", answer(&storage.seek_hole, |()| String::new())),
        ("punch hole", answer(&storage.punch_hole, |()| String::new())),
        ("fallocate", answer(&storage.fallocate, |()| String::new())),
        ("O_TMPFILE", answer(&storage.unnamed_files, |()| String::new())),
        ("RENAME_NOREPLACE", answer(&storage.rename_noreplace, |()| String::new())),
    ]
}

/// Formats `yes`, `yes: how`, `no: why` or `not tried: why`.
fn answer<T>(answer: &Answer<T>, how: impl FnOnce(&T) -> String) -> String {
    match answer {
        Answer::Yes(value) => match how(value) {
            how if how.is_empty() => "yes".to_owned(),
            how => format!("yes: {how}"),
        },
        Answer::No { errno: Some(errno), reason } => format!("no: {reason} ({errno})"),
        Answer::No { errno: None, reason } => format!("no: {reason}"),
        Answer::Unknown { reason } => format!("not tried: {reason}"),
    }
}

fn io_uring(io_uring: &IoUring) -> String {
    let lacking = |io_uring: &IoUring| {
        let operations = io_uring.operations.iter().filter(|one| !one.supported);
        let names: Vec<&str> = operations.map(|one| one.name).collect();
        match names.as_slice() {
            [] => format!("all {} operations known here", io_uring.operations.len()),
            names => format!("without {}", names.join(", ")),
        }
    };
    let text = answer(&io_uring.available, |()| lacking(io_uring));
    match io_uring.disabled {
        None | Some(0) => text,
        Some(value) => format!("{text}; kernel.io_uring_disabled is {value}"),
    }
}

fn zerocopy(sockets: &[ZerocopySocket]) -> String {
    let names = |yes: bool| -> Vec<String> {
        let sockets = sockets.iter().filter(|socket| socket.answer.is_yes() == yes);
        sockets
            .map(|socket| match &socket.answer {
                Answer::Yes(()) => socket.protocol.name().to_owned(),
                Answer::No { errno: Some(errno), .. } => {
                    format!("{} ({errno})", socket.protocol.name())
                }
                Answer::No { reason, .. } | Answer::Unknown { reason } => {
                    format!("{} ({reason})", socket.protocol.name())
                }
            })
            .collect()
    };
    match (names(true), names(false)) {
        (yes, no) if no.is_empty() => format!("yes: {}", yes.join(", ")),
        (yes, no) if yes.is_empty() => format!("no: {}", no.join(", ")),
        (yes, no) => format!("yes: {}; not {}", yes.join(", "), no.join(", ")),
    }
}

fn limit(limit: Limit, show: impl Fn(u64) -> String) -> String {
    match (limit.soft, limit.hard) {
        (None, _) => "unlimited".to_owned(),
        (Some(soft), None) => format!("{}, can be raised without limit", show(soft)),
        (Some(soft), Some(hard)) if soft == hard => show(soft),
        (Some(soft), Some(hard)) => format!("{}, can be raised to {}", show(soft), show(hard)),
    }
}

fn sharing_of(sharing: Sharing) -> String {
    match sharing {
        Sharing::Shared => "shares the blocks",
        Sharing::Copied => "copies the blocks",
        Sharing::Unknown => "whether it shares the blocks is not shown here",
    }
    .to_owned()
}

fn alignment(alignment: Option<Alignment>) -> String {
    match alignment {
        Some(Alignment { memory_bytes, offset_bytes, .. }) => {
            format!("memory aligned to {memory_bytes} bytes, offset and length to {offset_bytes}")
        }
        None => "accepted, but without an alignment: the bytes are copied anyway".to_owned(),
    }
}

fn device(device: &Device) -> String {
    let spinning = match device.rotational {
        Some(true) => ", rotational",
        Some(false) => ", not rotational",
        None => "",
    };
    if device.name.is_empty() {
        return String::new();
    }
    format!(" on {} ({}{spinning})", device.name, device.kind.name())
}

#[cfg(test)]
mod tests {
    use uncopy::Errno;
    use uncopy::capabilities::{AnswerReason, SocketProtocol};

    use super::*;

    #[test]
    fn answers_read_well() {
        let no =
            Answer::No { errno: Some(Errno::EINVAL), reason: AnswerReason::Refused(Errno::EINVAL) };
        for (answered, expected) in [
            (Answer::Yes(()), "yes"),
            (no, "no: Invalid argument (EINVAL)"),
            (
                Answer::No { errno: None, reason: AnswerReason::SpaceTaken },
                "no: ranges that were never written take space",
            ),
            (Answer::unknown(AnswerReason::NotAsked), "not tried: no trial was requested"),
        ] {
            assert_eq!(answer(&answered, |()| String::new()), expected);
        }
        assert_eq!(answer(&Answer::Yes(3), |n| format!("{n} ways")), "yes: 3 ways");
    }

    #[test]
    fn sockets_are_sorted_by_answer() {
        let no = || Answer::No {
            errno: Some(Errno::ENOTSUPP),
            reason: AnswerReason::Refused(Errno::ENOTSUPP),
        };
        let socket = |protocol, answer| ZerocopySocket { protocol, answer };
        let some =
            [socket(SocketProtocol::Tcp4, Answer::Yes(())), socket(SocketProtocol::Unix, no())];
        assert_eq!(zerocopy(&some), "yes: tcp4; not unix (ENOTSUPP)");
        assert_eq!(zerocopy(&some[..1]), "yes: tcp4");
        assert_eq!(zerocopy(&some[1..]), "no: unix (ENOTSUPP)");
    }

    #[test]
    fn limits_say_how_far_they_can_be_raised() {
        let show = |value: u64| value.to_string();
        for (soft, hard, expected) in [
            (None, None, "unlimited"),
            (Some(8), None, "8, can be raised without limit"),
            (Some(8), Some(8), "8"),
            (Some(8), Some(16), "8, can be raised to 16"),
        ] {
            assert_eq!(limit(Limit { soft, hard }, show), expected);
        }
    }
}
