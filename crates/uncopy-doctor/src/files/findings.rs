//! Derives findings from the forecast of a copy. Pure.

use crate::condition as is;
use crate::finding::DoctorFinding;
use crate::found::{CopyCause, FilesFound, Side};
use crate::next_step::NextStep;
use crate::settings::Settings;
use uncopy_copy::forecast::DirectPath;
use uncopy_copy::forecast::{Forecast, MechanismForecast};
use uncopy_core::{Choice, Cost, Errno, Mechanism, RefusalReason};
use uncopy_os::capabilities::{Answer, AnswerReason, Device, DeviceKind};

const TRIAL: &str = "a trial";
const STATFS: &str = "statfs";
const STATX: &str = "statx";

/// Returns all findings of a forecast.
pub(super) fn findings(
    forecast: &Forecast,
    is_verified: bool,
    settings: &Settings,
) -> Vec<DoctorFinding> {
    let mut found = Vec::new();
    if forecast.is_empty {
        found.push(DoctorFinding::of(&is::EMPTY, FilesFound::Empty).seen(STATX, "0 bytes"));
        return found;
    }
    if forecast.is_one_hole && !is_verified {
        let holes = FilesFound::Holes { stored: 0, bytes: forecast.source_bytes };
        found.push(DoctorFinding::of(&is::HOLES, holes).seen("SEEK_DATA", "there is no data"));
        return found;
    }
    kind(forecast, &mut found);
    choice(forecast, settings, &mut found);
    reflink(forecast, &mut found);
    direct(forecast, &mut found);
    excluding(forecast, settings, &mut found);
    if is_verified {
        verification(forecast, settings, &mut found);
    }
    source(forecast, &mut found);
    devices(forecast, &mut found);
    found
}

/// Adds findings about kinds of files and filesystems.
fn kind(forecast: &Forecast, found: &mut Vec<DoctorFinding>) {
    let facts = &forecast.facts;
    if facts.source.is_pseudo() {
        let pseudo = FilesFound::Pseudo { filesystem: facts.source };
        let said = format!("it lies on {}", facts.source);
        found.push(DoctorFinding::of(&is::PSEUDO, pseudo).seen(STATFS, said));
    }
    if facts.destination_is_stream {
        found.push(DoctorFinding::of(&is::STREAM, FilesFound::Stream).seen(STATX, "its kind"));
    }
    for (side, filesystem) in [(Side::Source, facts.source), (Side::Destination, facts.destination)]
    {
        let said = format!("the {side} lies on {filesystem}");
        if filesystem.is_network() {
            let elsewhere = FilesFound::OtherMachine { side, filesystem };
            found.push(DoctorFinding::of(&is::NETWORK_FILESYSTEM, elsewhere).seen(STATFS, said));
        } else if filesystem.is_user() {
            let served = FilesFound::ServedByProgram { side };
            found.push(DoctorFinding::of(&is::USER_FILESYSTEM, served).seen(STATFS, said));
        }
    }
    if facts.in_place {
        let said = "the options say so";
        found.push(DoctorFinding::of(&is::IN_PLACE, FilesFound::InPlace).seen("options", said));
    }
}

/// Adds findings about the chosen mechanism and its cost.
fn choice(forecast: &Forecast, settings: &Settings, found: &mut Vec<DoctorFinding>) {
    let Some((mechanism, cost)) = forecast.choice else {
        let why_not = |tried: &MechanismForecast| {
            format!("{}: {}", tried.mechanism, why_not(tried, settings))
        };
        let all = forecast.mechanisms.iter().map(why_not);
        let said = all.collect::<Vec<_>>().join("; ");
        let none = DoctorFinding::of(&is::NO_MECHANISM, FilesFound::NoMechanism);
        found.push(none.seen("the plan", said));
        return;
    };
    if let Some(MechanismForecast { answer: Answer::Unknown { reason }, .. }) =
        forecast.mechanism(mechanism)
    {
        found.push(not_tried(reason));
        return;
    }
    let proof = forecast.mechanism(mechanism).map(|tried| tried.proof.clone()).unwrap_or_default();
    let cause = cause(forecast, settings);
    let (condition, summary) = match cost {
        Cost::Shared => (&is::SHARED, FilesFound::Shares { mechanism }),
        Cost::Moved | Cost::Hole => (&is::DIRECT_MOVES, FilesFound::DirectMoves),
        Cost::KernelCopied => (&is::KERNEL_COPIES, FilesFound::KernelCopies { mechanism, cause }),
        Cost::UserCopied | Cost::Zeros => (&is::USER_COPIES, FilesFound::ProgramCopies { cause }),
        Cost::Unknown if mechanism == Mechanism::Direct => {
            let device = forecast.written_to.clone();
            (&is::DIRECT_UNKNOWN, FilesFound::DirectUnknown { device })
        }
        Cost::Unknown => {
            (&is::MAY_COPY, FilesFound::MayCopy { filesystem: forecast.facts.destination })
        }
    };
    let mut finding = DoctorFinding::of(condition, summary);
    if condition == &is::DIRECT_UNKNOWN {
        let said = format!("they are written to {}", forecast.written_to);
        finding = finding.seen("/proc/self/mountinfo and sysfs", said);
    }
    if !proof.is_empty() {
        finding = finding.seen(TRIAL, proof);
    }
    if let Cost::KernelCopied | Cost::UserCopied = cost
        && let Some(step) = cheaper(forecast, settings)
    {
        finding = finding.step(step, false);
    }
    found.push(finding);
}

/// Returns the reason why no cheaper mechanism is used.
fn cause(forecast: &Forecast, settings: &Settings) -> CopyCause {
    if let Some(choice) = refusing_setting(forecast) {
        return CopyCause::Setting { setting: settings.setting(choice) };
    }
    match forecast.mechanism(Mechanism::Reflink).map(|tried| &tried.answer) {
        Some(Answer::No { reason, errno: Some(_) }) => {
            CopyCause::Refused { reason: reason.clone() }
        }
        _ => CopyCause::Unnamed,
    }
}

/// Returns the first setting that excludes a working mechanism.
fn refusing_setting(forecast: &Forecast) -> Option<Choice> {
    let mut refused =
        forecast.mechanisms.iter().filter(|tried| tried.answer.is_yes() && is_setting(tried));
    refused.next().and_then(choice_against)
}

/// Returns the next step that makes the copy cheaper.
fn cheaper(forecast: &Forecast, settings: &Settings) -> Option<NextStep> {
    let facts = &forecast.facts;
    let may_move =
        facts.direct == DirectPath::Moves && facts.size >= Some(facts.tuning.direct_min.bytes);
    let errno = match forecast.mechanism(Mechanism::Reflink).map(|tried| &tried.answer) {
        Some(Answer::No { errno, .. }) => *errno,
        _ => None,
    };
    let setting = match refusing_setting(forecast) {
        Some(choice) => Some(NextStep::LeaveOut { setting: settings.setting(choice) }),
        None if may_move => {
            let enough = [Choice::Durable, Choice::CacheSkip, Choice::PreferCpuTime];
            Some(NextStep::ChooseOne { settings: enough.map(|choice| settings.setting(choice)) })
        }
        None => None,
    };
    let place = match errno {
        Some(Errno::EXDEV) => Some(NextStep::KeepTogether),
        Some(Errno::EOPNOTSUPP | Errno::ENOTTY) => Some(NextStep::KeepOnReflinks),
        _ => None,
    };
    match (setting, place) {
        (Some(setting), Some(place)) => Some(NextStep::Each(vec![setting, place])),
        (setting, place) => setting.or(place),
    }
}

/// Adds findings about sharing blocks.
fn reflink(forecast: &Forecast, found: &mut Vec<DoctorFinding>) {
    let Some(tried) = forecast.mechanism(Mechanism::Reflink) else { return };
    let facts = &forecast.facts;
    let (condition, summary) = match &tried.answer {
        Answer::Yes(_) => return,
        Answer::Unknown { reason } => {
            if !found.iter().any(|finding| finding.condition == &is::NOT_TRIED) {
                found.push(not_tried(reason));
            }
            return;
        }
        Answer::No { errno: None, .. } => return,
        Answer::No { errno: Some(Errno::EXDEV), .. } => {
            let (source, destination) = (facts.source, facts.destination);
            (&is::CROSS_FILESYSTEM, FilesFound::TwoFilesystems { source, destination })
        }
        Answer::No { errno: Some(Errno::EOPNOTSUPP | Errno::ENOTTY), .. } => {
            (&is::NO_REFLINK, FilesFound::NoReflinks { filesystem: facts.destination })
        }
        Answer::No { reason, .. } => {
            (&is::REFLINK_REFUSED, FilesFound::ReflinkRefused { reason: reason.clone() })
        }
    };
    found.push(DoctorFinding::of(condition, summary).seen(TRIAL, tried.proof.clone()));
}

fn not_tried(reason: &AnswerReason) -> DoctorFinding {
    let nothing = FilesFound::NothingTried { reason: reason.clone() };
    DoctorFinding::of(&is::NOT_TRIED, nothing).seen(TRIAL, reason.to_string())
}

/// Adds findings about direct writes.
fn direct(forecast: &Forecast, found: &mut Vec<DoctorFinding>) {
    let facts = &forecast.facts;
    let chosen = forecast.choice.is_some_and(|(mechanism, _)| mechanism == Mechanism::Direct);
    let Some(bytes) = facts.size.filter(|_| !chosen && !forecast.is_shared()) else { return };
    let Some(tried) = forecast.mechanism(Mechanism::Direct) else { return };
    let filesystem = facts.destination;
    let align = match forecast.destination_align {
        Some(align) => format!("STATX_DIOALIGN gives {} bytes", align.offset),
        None => "STATX_DIOALIGN gives none".to_owned(),
    };
    let (condition, summary) = match tried.answer {
        Answer::Unknown { .. } => return,
        Answer::No { .. } => (&is::NO_DIRECT, FilesFound::NoDirectWrites { filesystem }),
        // Accepted without an alignment, or by a filesystem that is known to copy.
        Answer::Yes(Cost::KernelCopied) => {
            (&is::DIRECT_COPIES, FilesFound::DirectCopies { filesystem })
        }
        Answer::Yes(_) if bytes < facts.tuning.direct_min.bytes => {
            (&is::DIRECT_SMALL, FilesFound::TooSmallForDirect { bytes })
        }
        Answer::Yes(Cost::Moved) if !is_setting(tried) => {
            (&is::DIRECT_NOT_DURABLE, FilesFound::DirectWouldMove)
        }
        Answer::Yes(_) => return,
    };
    found.push(
        DoctorFinding::of(condition, summary).seen(STATX, align).seen(TRIAL, tried.proof.clone()),
    );
}

/// Whether a choice of the caller excludes it, not a threshold.
fn is_setting(tried: &MechanismForecast) -> bool {
    let is_exclusion = matches!(tried.passed_over, Some(RefusalReason::ExcludedBy(_)));
    is_exclusion && choice_against(tried).is_some()
}

/// Returns the choice of the caller that excluded a mechanism, including given or measured thresholds.
fn choice_against(tried: &MechanismForecast) -> Option<Choice> {
    tried.passed_over.and_then(RefusalReason::excluded_by)
}

/// Adds findings about settings that exclude a mechanism.
fn excluding(forecast: &Forecast, settings: &Settings, found: &mut Vec<DoctorFinding>) {
    let works = forecast.mechanisms.iter().filter(|tried| tried.answer.is_yes());
    let refused =
        works.filter_map(|tried| Some((tried, tried.passed_over?, choice_against(tried)?)));
    let refused: Vec<(&MechanismForecast, RefusalReason, Choice)> = refused.collect();
    let mut reasons: Vec<_> =
        refused.iter().map(|(_, reason, choice)| (*reason, *choice)).collect();
    reasons.dedup();
    for (reason, choice) in reasons {
        let alike = refused.iter().filter(|(_, other, _)| *other == reason);
        let mechanisms: Vec<Mechanism> = alike.map(|(tried, ..)| tried.mechanism).collect();
        let setting = settings.setting(choice);
        let origin = settings.origin(choice).unwrap_or(settings.place);
        let ruled_out = FilesFound::RuledOut { setting: setting.clone(), mechanisms };
        let finding = DoctorFinding::of(&is::SETTING, ruled_out);
        let said = format!("{origin}: {}", reason.named_by(|choice| settings.name(choice)));
        let finding = finding.seen("options", said);
        found.push(finding.step(NextStep::LeaveOut { setting }, false));
    }
}

/// Adds the finding about verification.
fn verification(forecast: &Forecast, settings: &Settings, found: &mut Vec<DoctorFinding>) {
    let bytes = forecast.source_bytes.saturating_mul(2);
    let said = match settings.origin(Choice::Verify) {
        Some(origin) => origin.to_owned(),
        None => format!("{} {}", settings.place, settings.name(Choice::Verify)),
    };
    found
        .push(DoctorFinding::of(&is::VERIFY, FilesFound::Verifies { bytes }).seen("options", said));
}

/// Adds findings about the source and the devices.
fn source(forecast: &Forecast, found: &mut Vec<DoctorFinding>) {
    let facts = &forecast.facts;
    let Some(size) = facts.size else { return };
    let copied = !forecast.is_shared();
    if size < facts.tuning.small_bytes() && copied {
        let small = FilesFound::Small { bytes: size };
        found.push(DoctorFinding::of(&is::SMALL_FILE, small).seen(STATX, format!("{size} bytes")));
    }
    if let Some(cached) = forecast.cached_bytes.filter(|_| copied) {
        let cached = cached.min(size);
        let said = format!("{cached} of {size} bytes");
        let is_cached = cached.saturating_mul(2) >= facts.data_bytes.min(size);
        let (condition, summary) = match is_cached {
            true => (&is::CACHED, FilesFound::Cached),
            false => (&is::NOT_CACHED, FilesFound::NotCached),
        };
        found.push(DoctorFinding::of(condition, summary).seen("cachestat", said));
    }
    if facts.has_holes {
        let holes = FilesFound::Holes { stored: facts.data_bytes, bytes: size };
        found.push(DoctorFinding::of(&is::HOLES, holes).seen("SEEK_HOLE", "it has a hole"));
    }
    let align = forecast.destination_align.map_or(0, |align| u64::from(align.offset));
    if copied && align > 0 && size >= facts.tuning.direct_min.bytes && size % align != 0 {
        let tail = FilesFound::UnalignedTail { bytes: size % align };
        let said = format!("{size} bytes, alignment {align}");
        found.push(DoctorFinding::of(&is::UNALIGNED, tail).seen(STATX, said));
    }
}

fn devices(forecast: &Forecast, found: &mut Vec<DoctorFinding>) {
    let (source, destination) = (&forecast.source_device, &forecast.destination_device);
    let mut add = |device: &Device| {
        let name = &device.name;
        if device.rotational == Some(true) {
            let said = format!("/sys/dev/block: {name} queue/rotational is 1");
            let spins = FilesFound::Rotational { device: name.clone() };
            found.push(DoctorFinding::of(&is::ROTATIONAL, spins).seen("sysfs", said));
        }
        if device.kind == DeviceKind::Network {
            let by = device.transport.unwrap_or("its name");
            let remote = FilesFound::RemoteDevice { device: name.clone() };
            let said = format!("recognised by {by}");
            found.push(DoctorFinding::of(&is::REMOTE_DEVICE, remote).seen("sysfs", said));
        }
    };
    add(source);
    if source.name != destination.name {
        add(destination);
    }
}

fn why_not(tried: &MechanismForecast, settings: &Settings) -> String {
    match (&tried.answer, tried.passed_over) {
        (_, Some(reason)) => reason.named_by(|choice| settings.name(choice)).to_string(),
        (Answer::No { reason, .. } | Answer::Unknown { reason }, None) => reason.to_string(),
        (Answer::Yes(_), None) => "it works".to_owned(),
    }
}

#[cfg(test)]
mod tests;
