//! What follows from the forecast of a copy. Pure.

use std::collections::BTreeMap;

use crate::capabilities::{Answer, Device, DeviceKind};
use crate::copy::forecast::{Forecast, TriedWay};
use crate::copy::plan::DirectPath;
use crate::doctor::condition as is;
use crate::doctor::finding::Finding;
use crate::error::Errno;
use crate::receipt::{Cost, Mechanism};

const TRIAL: &str = "a trial";
const STATFS: &str = "statfs";
const STATX: &str = "statx";

/// Where settings come from that are no flags, by the flag that says the same.
type Origins = BTreeMap<String, String>;

/// Everything that the forecast says.
pub(super) fn findings(forecast: &Forecast, is_verified: bool, origins: &Origins) -> Vec<Finding> {
    let mut found = Vec::new();
    if forecast.is_empty {
        found.push(Finding::of(&is::EMPTY, "the source is empty").seen(STATX, "0 bytes"));
        return found;
    }
    kind(forecast, &mut found);
    choice(forecast, origins, &mut found);
    reflink(forecast, &mut found);
    direct(forecast, &mut found);
    settings(forecast, origins, &mut found);
    if is_verified {
        verification(forecast, origins, &mut found);
    }
    source(forecast, &mut found);
    devices(forecast, &mut found);
    found
}

impl Forecast {
    fn way(&self, mechanism: Mechanism) -> Option<&TriedWay> {
        self.ways.iter().find(|way| way.mechanism == mechanism)
    }

    fn is_shared(&self) -> bool {
        self.choice.is_some_and(|(_, cost)| cost == Cost::Shared)
    }
}

/// Files whose kind decides.
fn kind(forecast: &Forecast, found: &mut Vec<Finding>) {
    let facts = &forecast.facts;
    if facts.source.is_pseudo() {
        let summary = format!("the source is made up as it is read ({})", facts.source);
        found.push(
            Finding::of(&is::PSEUDO, summary).seen(STATFS, format!("it lies on {}", facts.source)),
        );
    }
    if facts.destination_is_stream {
        let summary = "the destination is no regular file";
        found.push(Finding::of(&is::STREAM, summary).seen(STATX, "its kind"));
    }
    for (side, filesystem) in [("source", facts.source), ("destination", facts.destination)] {
        let said = format!("the {side} lies on {filesystem}");
        if filesystem.is_network() {
            let summary = format!("the {side} is on another machine ({filesystem})");
            found.push(Finding::of(&is::NETWORK_FILESYSTEM, summary).seen(STATFS, said));
        } else if filesystem.is_user() {
            let summary = format!("a program serves the {side}");
            found.push(Finding::of(&is::USER_FILESYSTEM, summary).seen(STATFS, said));
        }
    }
    if facts.in_place {
        let said = "the options say so";
        let summary = "the destination is written in place";
        found.push(Finding::of(&is::IN_PLACE, summary).seen("options", said));
    }
}

/// What the copy begins with, and what that costs.
fn choice(forecast: &Forecast, origins: &Origins, found: &mut Vec<Finding>) {
    let Some((mechanism, cost)) = forecast.choice else {
        let all = forecast.ways.iter().map(|way| format!("{}: {}", way.mechanism, why_not(way)));
        let said = all.collect::<Vec<_>>().join("; ");
        let summary = "no allowed way works between these files";
        found.push(Finding::of(&is::NO_MECHANISM, summary).seen("the plan", said));
        return;
    };
    // Said elsewhere, with the reason.
    if forecast.way(mechanism).is_some_and(|way| matches!(way.answer, Answer::Unknown { .. })) {
        return;
    }
    let proof = forecast.way(mechanism).map(|way| way.proof.clone()).unwrap_or_default();
    let because = reason(forecast, origins);
    let (condition, summary) = match cost {
        Cost::Shared => (&is::SHARED, format!("{mechanism} shares the blocks")),
        Cost::Moved | Cost::Hole => {
            (&is::DIRECT_MOVES, "the disk reads the source's pages themselves".to_owned())
        }
        Cost::KernelCopied => {
            (&is::KERNEL_COPIES, format!("{mechanism} copies inside the kernel{because}"))
        }
        Cost::UserCopied => {
            (&is::USER_COPIES, format!("the bytes go through the program's memory{because}"))
        }
        Cost::Unknown if mechanism == Mechanism::Direct => {
            let device = &forecast.written_to;
            (&is::DIRECT_UNKNOWN, format!("direct writes go to {device}, which may copy"))
        }
        Cost::Unknown => {
            (&is::MAY_COPY, format!("{} does not show what it did", forecast.facts.destination))
        }
    };
    let mut finding = Finding::of(condition, summary);
    if condition == &is::DIRECT_UNKNOWN {
        let said = format!("they are written to {}", forecast.written_to);
        finding = finding.seen("/proc/self/mountinfo and sysfs", said);
    }
    if !proof.is_empty() {
        finding = finding.seen(TRIAL, proof);
    }
    if let Cost::KernelCopied | Cost::UserCopied = cost
        && let Some(step) = cheaper(forecast, origins)
    {
        finding = finding.step(step, false);
    }
    found.push(finding);
}

/// Why nothing cheaper is used, as the end of a sentence.
fn reason(forecast: &Forecast, origins: &Origins) -> String {
    if let Some(setting) = refusing_setting(forecast) {
        return format!(", as {} has it", named(setting, origins));
    }
    match forecast.way(Mechanism::Reflink).map(|way| &way.answer) {
        Some(Answer::No { reason, errno: Some(_) }) => format!(": {reason}"),
        _ => String::new(),
    }
}

/// The first setting that rules out a way that works.
fn refusing_setting(forecast: &Forecast) -> Option<&str> {
    let mut refused = forecast.ways.iter().filter(|way| way.answer.is_yes() && is_setting(way));
    refused.next().and_then(|way| way.passed_over.as_deref())
}

/// What would make the copy cheaper.
fn cheaper(forecast: &Forecast, origins: &Origins) -> Option<String> {
    let facts = &forecast.facts;
    let may_move =
        facts.direct == DirectPath::Moves && facts.size >= Some(facts.tuning.direct_min.bytes);
    let errno = match forecast.way(Mechanism::Reflink).map(|way| &way.answer) {
        Some(Answer::No { errno, .. }) => *errno,
        _ => None,
    };
    let mut steps = Vec::new();
    match refusing_setting(forecast) {
        Some(setting) => steps.push(format!("Leave out {}.", named(setting, origins))),
        None if may_move => steps.push(
            "Pass --durable, --cache=skip or --prefer=cpu: the disk then reads the pages.".into(),
        ),
        None => {}
    }
    match errno {
        Some(Errno::EXDEV) => steps.push("Keep both on one filesystem that has reflinks.".into()),
        Some(Errno::EOPNOTSUPP | Errno::ENOTTY) => {
            steps.push("Keep such files on XFS or btrfs.".into());
        }
        _ => {}
    }
    (!steps.is_empty()).then(|| steps.join(" "))
}

/// Why blocks are not shared.
fn reflink(forecast: &Forecast, found: &mut Vec<Finding>) {
    let Some(way) = forecast.way(Mechanism::Reflink) else { return };
    let facts = &forecast.facts;
    let (condition, summary) = match &way.answer {
        Answer::Yes(_) => return,
        Answer::Unknown { reason } => (&is::NOT_TRIED, format!("nothing could be tried: {reason}")),
        Answer::No { errno: None, .. } => return,
        Answer::No { errno: Some(Errno::EXDEV), .. } => (
            &is::CROSS_FILESYSTEM,
            format!(
                "source and destination lie on two filesystems ({}, {})",
                facts.source, facts.destination
            ),
        ),
        Answer::No { errno: Some(Errno::EOPNOTSUPP | Errno::ENOTTY), .. } => {
            (&is::NO_REFLINK, format!("{} shares no blocks", facts.destination))
        }
        Answer::No { reason, .. } => (&is::REFLINK_REFUSED, reason.clone()),
    };
    let said = match &way.answer {
        Answer::Unknown { reason } => reason.clone(),
        _ => way.proof.clone(),
    };
    found.push(Finding::of(condition, summary).seen(TRIAL, said));
}

/// Why the disk does not read the pages by itself.
fn direct(forecast: &Forecast, found: &mut Vec<Finding>) {
    let facts = &forecast.facts;
    let chosen = forecast.choice.is_some_and(|(mechanism, _)| mechanism == Mechanism::Direct);
    let Some(size) = facts.size.filter(|_| !chosen && !forecast.is_shared()) else { return };
    let Some(way) = forecast.way(Mechanism::Direct) else { return };
    let destination = facts.destination;
    let align = match forecast.destination_align {
        Some(align) => format!("STATX_DIOALIGN gives {} bytes", align.offset),
        None => "STATX_DIOALIGN gives none".to_owned(),
    };
    let (condition, summary) = match way.answer {
        Answer::Unknown { .. } => return,
        Answer::No { .. } => (&is::NO_DIRECT, format!("{destination} takes no direct writes")),
        // Taken without an alignment, or by a filesystem that is known for it.
        Answer::Yes(Cost::KernelCopied) => {
            (&is::DIRECT_COPIES, format!("{destination} copies in spite of O_DIRECT"))
        }
        Answer::Yes(_) if size < facts.tuning.direct_min.bytes => {
            (&is::DIRECT_SMALL, format!("{size} bytes are too few to pay for direct writes"))
        }
        Answer::Yes(Cost::Moved) if !is_setting(way) => {
            (&is::DIRECT_NOT_DURABLE, "direct writes would move the bytes".to_owned())
        }
        Answer::Yes(_) => return,
    };
    found.push(Finding::of(condition, summary).seen(STATX, align).seen(TRIAL, way.proof.clone()));
}

fn is_setting(way: &TriedWay) -> bool {
    way.passed_over.as_ref().is_some_and(|reason| reason.starts_with("--"))
}

/// `--sparse=always looks at every byte` begins with the flag.
fn flag_of(reason: &str) -> &str {
    reason.split([' ', ':']).next().unwrap_or(reason)
}

/// The flag of the setting that passed a way over: `too small (below direct-min, 4 MiB)` names a
/// size that somebody gave or measured.
fn setting_of(reason: &str) -> Option<String> {
    if reason.starts_with("--") {
        return Some(flag_of(reason).to_owned());
    }
    let (_, below) = reason.split_once("(below ")?;
    below.split_once(',').map(|(name, _)| format!("--{name}"))
}

/// Where a setting comes from; `None`: it is the flag itself.
fn origin_of<'a>(flag: &str, origins: &'a Origins) -> Option<&'a str> {
    let name = flag.split_once('=').map_or(flag, |(name, _)| name);
    origins.get(name).map(String::as_str)
}

/// The setting that such a reason names, and where it comes from if it is no flag.
fn named(reason: &str, origins: &Origins) -> String {
    let flag = setting_of(reason).unwrap_or_default();
    match origin_of(&flag, origins) {
        Some(origin) => format!("{flag} ({origin})"),
        None => flag,
    }
}

/// Settings that rule a way out.
fn settings(forecast: &Forecast, origins: &Origins, found: &mut Vec<Finding>) {
    let by_setting = |way: &&TriedWay| way.passed_over.as_deref().and_then(setting_of).is_some();
    let refused = forecast.ways.iter().filter(|way| way.answer.is_yes()).filter(by_setting);
    let refused: Vec<&TriedWay> = refused.collect();
    let mut reasons: Vec<&String> =
        refused.iter().filter_map(|way| way.passed_over.as_ref()).collect();
    reasons.dedup();
    for reason in reasons {
        let alike = refused.iter().filter(|way| way.passed_over.as_ref() == Some(reason));
        let names: Vec<&str> = alike.map(|way| way.mechanism.name()).collect();
        let setting = named(reason, origins);
        let flag = setting_of(reason).unwrap_or_default();
        let origin = origin_of(&flag, origins).unwrap_or("the flag");
        let finding =
            Finding::of(&is::SETTING, format!("{setting} rules out {}", names.join(", ")));
        let finding = finding.seen("options", format!("{origin}: {reason}"));
        found.push(finding.step(format!("Leave out {setting}."), false));
    }
}

/// What verification costs.
fn verification(forecast: &Forecast, origins: &Origins, found: &mut Vec<Finding>) {
    let bytes = forecast.source_bytes.saturating_mul(2);
    let summary = format!("verification reads {bytes} bytes more");
    let origin = origin_of("--verify", origins).unwrap_or("the flag --verify");
    found.push(Finding::of(&is::VERIFY, summary).seen("options", origin));
}

/// What the source is like.
fn source(forecast: &Forecast, found: &mut Vec<Finding>) {
    let facts = &forecast.facts;
    let Some(size) = facts.size else { return };
    let copied = !forecast.is_shared();
    if size < facts.tuning.small_bytes() && copied {
        let summary = format!("{size} bytes are few");
        found.push(Finding::of(&is::SMALL_FILE, summary).seen(STATX, format!("{size} bytes")));
    }
    if let Some(cached) = forecast.cached_bytes.filter(|_| copied) {
        let cached = cached.min(size);
        let said = format!("{cached} of {size} bytes");
        found.push(match cached.saturating_mul(2) >= facts.data_bytes.min(size) {
            true => {
                Finding::of(&is::CACHED, "the source is in the page cache").seen("cachestat", said)
            }
            false => {
                let summary = "the source is not in the page cache";
                Finding::of(&is::NOT_CACHED, summary).seen("cachestat", said)
            }
        });
    }
    if facts.has_holes {
        let stored = facts.data_bytes;
        let summary = format!("{stored} of {size} bytes are stored");
        found.push(Finding::of(&is::HOLES, summary).seen("SEEK_HOLE", "it has a hole"));
    }
    let align = forecast.destination_align.map_or(0, |align| u64::from(align.offset));
    if copied && align > 0 && size >= facts.tuning.direct_min.bytes && size % align != 0 {
        let summary = format!("the last {} bytes fill no block", size % align);
        let said = format!("{size} bytes, alignment {align}");
        found.push(Finding::of(&is::UNALIGNED, summary).seen(STATX, said));
    }
}

fn devices(forecast: &Forecast, found: &mut Vec<Finding>) {
    let (source, destination) = (&forecast.source_device, &forecast.destination_device);
    let mut tell = |device: &Device| {
        let name = &device.name;
        if device.rotational == Some(true) {
            let said = format!("/sys/dev/block: {name} queue/rotational is 1");
            let summary = format!("{name} spins");
            found.push(Finding::of(&is::ROTATIONAL, summary).seen("sysfs", said));
        }
        if device.kind == DeviceKind::Network {
            let by = device.transport.unwrap_or("its name");
            let summary = format!("{name} is across a network");
            found.push(
                Finding::of(&is::REMOTE_DEVICE, summary).seen("sysfs", format!("told by {by}")),
            );
        }
    };
    tell(source);
    if source.name != destination.name {
        tell(destination);
    }
}

fn why_not(way: &TriedWay) -> String {
    match (&way.answer, &way.passed_over) {
        (_, Some(reason)) => reason.clone(),
        (Answer::No { reason, .. } | Answer::Unknown { reason }, None) => reason.clone(),
        (Answer::Yes(_), None) => "it would do".to_owned(),
    }
}

#[cfg(test)]
mod tests;
