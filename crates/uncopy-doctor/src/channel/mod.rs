//! Examines a channel between processes: what its messages cost, and what would make it cheaper.

mod findings;
mod gather;

use crate::channel_facts::{ChannelEnd, ChannelFacts, ChannelHolder, FarEnd};
use crate::condition as is;
use crate::finding::DoctorFinding;
use crate::found::ProcessFound;
use crate::process;
use crate::report::{Report, ReportFact};
use gather::Looked;
use uncopy_core::Result;

/// Examines the channel behind a descriptor of a process.
///
/// # Errors
/// There is no such process or descriptor, or it is not the socket of a channel.
pub(crate) fn examine(pid: u32, descriptor: i32, target: String) -> Result<Report> {
    let process = process::find(pid)?;
    let subject = format!("What {process} sends over descriptor {descriptor}");
    match gather::look(&process, descriptor)? {
        Looked::Hidden { source, said } => {
            let hidden = ProcessFound::SocketsHidden { process };
            let hidden = DoctorFinding::of(&is::SOCKETS_HIDDEN, hidden).seen(source, said);
            Ok(Report::conclude(target, &subject, vec![hidden], Vec::new()))
        }
        Looked::Facts(facts) => {
            let (findings, shown) = (findings::findings(&facts), report_facts(&facts));
            let mut report = Report::conclude(target, &subject, findings, shown);
            report.channel = Some(facts);
            Ok(report)
        }
    }
}

/// Returns the examined facts for people.
fn report_facts(facts: &ChannelFacts) -> Vec<ReportFact> {
    let mut shown = Vec::new();
    let mut add = |name, value| shown.push(ReportFact { name, value });
    add("near", described(&facts.near));
    add(
        "far",
        match &facts.far {
            FarEnd::Open(end) => described(end),
            FarEnd::Closed => "closed".to_owned(),
            FarEnd::Unknown { errno } => format!("unknown ({errno})"),
        },
    );
    let mut holders: Vec<&ChannelHolder> = Vec::new();
    for holder in facts.ends().flat_map(|end| &end.holders) {
        if !holders.iter().any(|known| known.process.pid == holder.process.pid) {
            holders.push(holder);
        }
    }
    holders.iter().for_each(|holder| add("process", state_of(holder)));
    if let Some(buffer) = facts.ends().filter_map(|end| end.send_buffer_bytes).min() {
        let counts = facts.charges.iter().map(|charge| {
            format!("{} messages of {} bytes", charge.messages_in(buffer), charge.message_bytes)
        });
        let counts: Vec<String> = counts.collect();
        add("holds", counts.join(", or "));
    }
    let most = number(facts.wmem_max_bytes);
    add("limit", format!("wmem_max is {most}; a channel requests {}", facts.requested_bytes));
    shown
}

fn described(end: &ChannelEnd) -> String {
    let holders: Vec<String> = end
        .holders
        .iter()
        .map(|holder| format!("descriptor {} of {}", holder.descriptor, holder.process))
        .collect();
    let holders = if holders.is_empty() { end.reader().to_string() } else { holders.join(", ") };
    let work = match &end.work {
        Ok(work) if work.options.is_empty() => String::new(),
        Ok(work) => format!(", {}", work.options.join(", ")),
        Err(errno) => format!(", options unknown ({errno})"),
    };
    format!(
        "{holders}: {} of {} bytes of its send buffer are in use, {} bytes and {} descriptors are unread{work}",
        number(end.sent_bytes),
        number(end.send_buffer_bytes),
        number(end.unread_bytes),
        number(end.unread_descriptors),
    )
}

fn state_of(holder: &ChannelHolder) -> String {
    let state = holder.state.map_or("ended".to_owned(), |state| format!("state {state}"));
    let limit = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |most| most.to_string());
    format!(
        "{}: {state}{}, {} of {} descriptors are open, {} of {} bytes are locked (channels lock none)",
        holder.process,
        if holder.is_frozen { ", frozen" } else { "" },
        number(holder.open_files),
        limit(holder.max_open_files.soft),
        number(holder.locked_bytes),
        limit(holder.max_locked_bytes.soft),
    )
}

fn number(value: Option<u64>) -> String {
    value.map_or("unknown".to_owned(), |value| value.to_string())
}

#[cfg(fuzzing)]
pub(crate) fn fuzz(text: &str) {
    gather::fuzz(text);
}
