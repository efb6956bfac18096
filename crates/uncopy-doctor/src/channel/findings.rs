//! Concludes findings from facts about a channel. Makes no system call.

use super::gather::SOCK_DIAG;
use crate::channel_facts::{ChannelEnd, ChannelFacts, ChannelHolder, FarEnd};
use crate::condition as is;
use crate::effect::Effect;
use crate::finding::DoctorFinding;
use crate::found::{ChannelFound, ChannelReader};
use crate::next_step::NextStep;
use crate::severity::Severity;
use uncopy_core::Errno;

/// Maximum number of descriptors of one message, which the receiver needs to have left (`SCM_MAX_FD`).
const MAX_MESSAGE_DESCRIPTORS: u64 = uncopy_os::seqpacket::MAX_FDS as u64;

/// Part of the send buffer above which `poll(2)` does not report a socket as writable.
const WRITABLE_PART: u64 = 4;

/// Returns the findings about a channel, the more important ones of each severity first.
pub(super) fn findings(facts: &ChannelFacts) -> Vec<DoctorFinding> {
    if let Some(ended) = ended(facts) {
        return vec![ended];
    }
    let mut found = Vec::new();
    found.extend(one_process(facts));
    found.push(socket(facts));
    found.extend(unseen(facts));
    if let Some(far) = facts.open_far() {
        for (writer, reader) in [(&facts.near, far), (far, &facts.near)] {
            found.extend(queue(writer, reader));
            found.extend(in_flight(writer, reader));
        }
    }
    found.extend(facts.ends().filter_map(stopped));
    found.extend(small_buffer(facts));
    found.extend(few_descriptors(facts));
    found.extend(facts.ends().flat_map(work));
    found
}

fn ended(facts: &ChannelFacts) -> Option<DoctorFinding> {
    let said = match (&facts.far, facts.near.is_shut_down) {
        (FarEnd::Closed, _) => "the socket has no peer",
        (_, true) => "the socket is shut down in both directions",
        _ => return None,
    };
    Some(DoctorFinding::of(&is::CHANNEL_ENDED, ChannelFound::Ended).seen(SOCK_DIAG, said))
}

/// Finds that no other process takes part.
fn one_process(facts: &ChannelFacts) -> Option<DoctorFinding> {
    let (far, examined) = (facts.open_far()?, &facts.near.holders.first()?.process);
    let is_alone = |end: &ChannelEnd| {
        !end.holders.is_empty() && end.holders.iter().all(|holder| holder.process == *examined)
    };
    if !is_alone(&facts.near) || !is_alone(far) {
        return None;
    }
    let numbers: Vec<String> = facts
        .ends()
        .filter_map(|end| end.holders.first())
        .map(|holder| holder.descriptor.to_string())
        .collect();
    let said = format!("descriptors {} of one process, and of no other", numbers.join(" and "));
    let alone = ChannelFound::OneProcess { process: examined.clone() };
    Some(DoctorFinding::of(&is::CHANNEL_ONE_PROCESS, alone).seen("/proc/PID/fd", said))
}

fn socket(facts: &ChannelFacts) -> DoctorFinding {
    let reader = match facts.open_far() {
        Some(far) => far.reader(),
        None => ChannelReader::Unseen,
    };
    let said = format!("a connected SOCK_SEQPACKET socket (inode {})", facts.near.inode);
    let socket = ChannelFound::Socket { reader };
    DoctorFinding::of(&is::CHANNEL_SOCKET, socket).seen("/proc/PID/fd", said)
}

/// Finds facts that could not be read.
fn unseen(facts: &ChannelFacts) -> Vec<DoctorFinding> {
    let mut found = Vec::new();
    let unseen = DoctorFinding::of(&is::CHANNEL_PEER_UNSEEN, ChannelFound::PeerUnseen);
    match &facts.far {
        FarEnd::Unknown { errno } => found.push(unseen.seen(SOCK_DIAG, refused(*errno))),
        FarEnd::Open(far) if far.holders.is_empty() => {
            let who = match facts.are_holders_complete {
                true => "no process of this PID namespace",
                false => "no process that this user can examine",
            };
            let said = format!("{who} has a descriptor of the socket {}", far.inode);
            let mut unseen = unseen.seen("/proc/PID/fd", said);
            if facts.are_holders_complete {
                // More rights show no more.
                (unseen.next_step, unseen.needs_root) = (None, false);
            }
            found.push(unseen);
        }
        FarEnd::Open(_) | FarEnd::Closed => {}
    }
    let hidden = facts.ends().filter(|end| !end.holders.is_empty());
    if let Some(errno) = hidden.filter_map(|end| end.work.as_ref().err()).next() {
        let unseen = DoctorFinding::of(&is::CHANNEL_OPTIONS_UNSEEN, ChannelFound::OptionsUnseen);
        found.push(unseen.seen("pidfd_getfd", refused(*errno)));
    }
    found
}

fn refused(errno: Errno) -> String {
    format!("{} ({errno})", errno.message())
}

/// Finds that the socket takes no message, or none with handles.
fn queue(writer: &ChannelEnd, reader: &ChannelEnd) -> Option<DoctorFinding> {
    let (sent, buffer) = (writer.sent_bytes?, writer.send_buffer_bytes?);
    let (condition, fact) = if sent >= buffer {
        (&is::CHANNEL_QUEUE_FULL, ChannelFound::QueueFull { reader: reader.reader() })
    } else if sent.saturating_mul(WRITABLE_PART) > buffer {
        (&is::CHANNEL_QUEUE_CROWDED, ChannelFound::QueueCrowded { reader: reader.reader() })
    } else {
        return None;
    };
    let unread = reader.unread_bytes.map(|bytes| format!(" for {bytes} unread bytes"));
    let unread = unread.unwrap_or_default();
    let said = format!("{sent} bytes of the send buffer of {buffer} are in use{unread}");
    Some(DoctorFinding::of(condition, fact).seen("SIOCOUTQ", said))
}

/// Finds that much of the writer's limit is taken by descriptors in messages.
fn in_flight(writer: &ChannelEnd, reader: &ChannelEnd) -> Option<DoctorFinding> {
    let descriptors = reader.unread_descriptors?;
    let limited = writer.holders.iter().filter_map(|holder| {
        let limit = holder.max_open_files.soft?;
        let is_near = descriptors > 0 && descriptors >= limit / 2;
        (is_near && !holder.is_exempt).then_some((holder, limit))
    });
    let (sender, limit) = limited.min_by_key(|(_, limit)| *limit)?;
    let fact = ChannelFound::DescriptorsInFlight { descriptors, reader: reader.reader() };
    let limit = format!("RLIMIT_NOFILE of {} is {limit}", sender.process);
    Some(
        DoctorFinding::of(&is::CHANNEL_IN_FLIGHT, fact)
            .seen("/proc/PID/fdinfo", format!("scm_fds is {descriptors}"))
            .seen("/proc/PID/limits", limit),
    )
}

/// Finds that nobody can read what comes to an end.
fn stopped(end: &ChannelEnd) -> Option<DoctorFinding> {
    let first = end.holders.first()?;
    if !end.holders.iter().all(ChannelHolder::is_stopped) {
        return None;
    }
    let fact = ChannelFound::ReaderStopped { process: first.process.clone() };
    let finding = DoctorFinding::of(&is::CHANNEL_READER_STOPPED, fact);
    Some(match first.is_frozen {
        true => finding.seen("cgroup", "its control group is frozen"),
        false => {
            let state = first.state.unwrap_or('?');
            let pid = first.process.pid;
            let finding = finding.seen("/proc/PID/status", format!("its state is {state}"));
            match state {
                'T' => finding.step(NextStep::Continue { pid }, false),
                _ => finding,
            }
        }
    })
}

/// Finds that the smaller send buffer is not what a channel requests.
fn small_buffer(facts: &ChannelFacts) -> Option<DoctorFinding> {
    let buffer = facts.ends().filter_map(|end| end.send_buffer_bytes).min()?;
    let requested = facts.requested_bytes;
    // The kernel doubles the requested number (`socket(7)`).
    if buffer >= requested.saturating_mul(2) {
        return None;
    }
    let largest = facts.charges.iter().max_by_key(|charge| charge.message_bytes)?;
    let messages = largest.messages_in(buffer);
    let fact = ChannelFound::FewMessages { messages, message_bytes: largest.message_bytes };
    let finding =
        DoctorFinding::of(&is::WMEM, fact).meaning(Severity::Limits, Effect::FewerMessages).seen(
            "SO_SNDBUF",
            format!("{buffer} bytes; a channel requests {requested}, which the kernel doubles"),
        );
    let source = "/proc/sys/net/core/wmem_max";
    Some(match facts.wmem_max_bytes {
        Some(max) if max < requested => finding
            .seen(source, max.to_string())
            .step(NextStep::RaiseSendBuffer { bytes: requested }, true),
        Some(max) => finding.seen(source, max.to_string()).step(NextStep::MakeChannelAnew, false),
        None => finding,
    })
}

/// Finds processes that may lose a message with handles.
fn few_descriptors(facts: &ChannelFacts) -> Vec<DoctorFinding> {
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for holder in facts.ends().flat_map(|end| &end.holders) {
        let (Some(open), Some(limit)) = (holder.open_files, holder.max_open_files.soft) else {
            continue;
        };
        let left = limit.saturating_sub(open);
        if left >= MAX_MESSAGE_DESCRIPTORS || seen.contains(&holder.process.pid) {
            continue;
        }
        seen.push(holder.process.pid);
        let fact = ChannelFound::FewDescriptors { process: holder.process.clone(), left };
        let finding = DoctorFinding::of(&is::CHANNEL_DESCRIPTORS, fact)
            .seen("/proc/PID/limits", format!("RLIMIT_NOFILE is {limit}"));
        found.push(finding.seen("/proc/PID/fd", format!("{open} descriptors are open")));
    }
    found
}

/// Finds settings that add work to what comes to an end.
fn work(end: &ChannelEnd) -> Vec<DoctorFinding> {
    let Ok(work) = &end.work else { return Vec::new() };
    let mut found = Vec::new();
    if work.has_filter {
        let fact = ChannelFound::Filter { reader: end.reader() };
        let said = format!("SO_GET_FILTER finds a program at the socket {}", end.inode);
        found.push(DoctorFinding::of(&is::CHANNEL_FILTER, fact).seen("getsockopt", said));
    }
    if !work.options.is_empty() {
        let fact = ChannelFound::Options { reader: end.reader() };
        let said = format!("{} at the socket {}", work.options.join(", "), end.inode);
        found.push(DoctorFinding::of(&is::CHANNEL_OPTIONS, fact).seen("getsockopt", said));
    }
    found
}

#[cfg(test)]
mod tests;
