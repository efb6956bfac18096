//! Steps that a person can take about a finding.

use std::fmt;

use super::condition::Condition;
use super::found::TapHolder;
use super::settings::Setting;

/// Step that a person can take about a finding.
///
/// Displayed as a sentence that names the options of [`Options`](super::Options). A program may use other texts,
/// with its flags.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NextStep {
    /// NextStep that its condition names: [`Condition::next_step`].
    Usual(&'static Condition),
    /// Look as root, or send a probe.
    RootOrProbe,
    /// Look as root.
    Root,
    /// Send a probe, and look in the network of the other end too.
    ProbeAndOtherEnd,
    /// Start `uncopy bench recv` at the target, or probe it without a greeting.
    StartReceiver,
    /// Detach the XDP program at the other end of a veth pair.
    DetachProgram,
    /// Use another device, since a feature of this one is fixed.
    UseAnotherDevice,
    /// Turn on the features of a device that a requested one needs.
    TurnOnOthers {
        /// Name of the device.
        device: String,
    },
    /// Turn on a feature of a device.
    TurnOn {
        /// Name of the device.
        device: String,
        /// Feature that is off.
        feature: DeviceFeature,
    },
    /// Stop the holder of a packet tap, or make it ignore these packets.
    StopTap {
        /// Holder of the tap.
        holder: TapHolder,
    },
    /// Send through io_uring, or larger messages.
    UseRing,
    /// Send trains of datagrams.
    SendTrains {
        /// Bytes of each train.
        train_bytes: u64,
        /// Bytes of each datagram.
        segment_bytes: u64,
    },
    /// Send larger messages.
    SendMore,
    /// Raise `net.core.optmem_max`.
    RaiseOptionMemory {
        /// Bytes that are needed.
        bytes: u64,
    },
    /// Remove a setting that excludes a cheaper method.
    LeaveOut {
        /// Setting to leave out.
        setting: Setting,
    },
    /// Choose a setting with which the disk reads the pages directly.
    ChooseOne {
        /// Settings, each of which is enough.
        settings: [Setting; 3],
    },
    /// Keep source and destination on one filesystem that has reflinks.
    KeepTogether,
    /// Keep files on a filesystem that has reflinks.
    KeepOnReflinks,
    /// Let a stopped process continue.
    Continue {
        /// Its id.
        pid: u32,
    },
    /// Raise `net.core.wmem_max`, and make the channel anew.
    RaiseSendBuffer {
        /// Bytes that a channel requests.
        bytes: u64,
    },
    /// Make a channel anew, since its send buffer was set when the limit was lower, or by another program.
    MakeChannelAnew,
    /// Several steps, in this order.
    Each(Vec<NextStep>),
}

impl fmt::Display for NextStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NextStep::Usual(condition) => f.write_str(condition.next_step),
            NextStep::RootOrProbe => f.write_str("Run the doctor as root, or set probe."),
            NextStep::Root => f.write_str("Run the doctor as root."),
            NextStep::ProbeAndOtherEnd => f.write_str(
                "Set probe, and run the doctor in the network namespace of the other end too.",
            ),
            NextStep::StartReceiver => {
                f.write_str("Start uncopy bench recv there, or set probe to Anyway.")
            }
            NextStep::DetachProgram => f.write_str("Detach the program there."),
            NextStep::UseAnotherDevice => f.write_str("The feature is fixed: use another device."),
            NextStep::TurnOnOthers { device } => write!(
                f,
                "It is requested but needs another feature: ethtool -K {device} sg on tx on."
            ),
            NextStep::TurnOn { device, feature } => {
                write!(f, "Turn it on: ethtool -K {device} {} on.", feature.name())
            }
            NextStep::StopTap { holder } => {
                let who: &dyn fmt::Display = match holder {
                    TapHolder::Process { process } => process,
                    TapHolder::Somebody { .. } => &"the program that holds it",
                };
                write!(
                    f,
                    "Stop {who} while you send, bind its socket to another device, or make it set \
                     PACKET_IGNORE_OUTGOING."
                )
            }
            NextStep::UseRing => f.write_str("Use io_uring, or send more at once."),
            NextStep::SendTrains { train_bytes, segment_bytes } => write!(
                f,
                "Send several datagrams at once (UDP_SEGMENT): {train_bytes} bytes as datagrams of \
                 {segment_bytes}, or let Mode::Auto choose."
            ),
            NextStep::SendMore => f.write_str("Send more at once, or let Mode::Auto choose."),
            NextStep::RaiseOptionMemory { bytes } => {
                write!(f, "Raise it: sysctl -w net.core.optmem_max={bytes}; or use io_uring.")
            }
            NextStep::LeaveOut { setting } => write!(f, "Remove the setting {setting}."),
            NextStep::ChooseOne { settings: [one, other, third] } => {
                let (one, other, third) = (&one.name, &other.name, &third.name);
                write!(f, "Pass {one}, {other} or {third}: then the disk reads the pages directly.")
            }
            NextStep::KeepTogether => {
                f.write_str("Keep both files on one filesystem with reflinks.")
            }
            NextStep::KeepOnReflinks => {
                f.write_str("Keep such files on XFS or btrfs, which have reflinks.")
            }
            NextStep::Continue { pid } => write!(f, "Let it continue: kill -CONT {pid}."),
            NextStep::RaiseSendBuffer { bytes } => write!(
                f,
                "Raise it: sysctl -w net.core.wmem_max={bytes}; channels made after that have it."
            ),
            NextStep::MakeChannelAnew => f.write_str(
                "Make the channel anew: its socket was made while the limit was lower, or by a program \
                 that requests less.",
            ),
            NextStep::Each(steps) => {
                let words: Vec<String> = steps.iter().map(NextStep::to_string).collect();
                f.write_str(&words.join(" "))
            }
        }
    }
}

/// Feature of a network device that can be turned on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceFeature {
    /// Scatter-gather.
    ScatterGather,
    /// Checksums.
    Checksum,
    /// Segmentation of TCP.
    TcpSegmentation,
    /// Segmentation of UDP.
    UdpSegmentation,
}

impl DeviceFeature {
    /// Returns the name that `ethtool -K` takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DeviceFeature::ScatterGather => "sg",
            DeviceFeature::Checksum => "tx",
            DeviceFeature::TcpSegmentation => "tso",
            DeviceFeature::UdpSegmentation => "tx-udp-segmentation",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition;
    use crate::found::ProcessName;
    use crate::settings::Settings;
    use uncopy_core::Choice;

    #[test]
    fn steps_are_sentences() {
        let settings = Settings::default();
        let device = || "eth1".to_owned();
        let process = ProcessName { program: "lldpd".into(), pid: 812 };
        let leave_out = NextStep::LeaveOut { setting: settings.setting(Choice::CacheKeep) };
        let choices = [Choice::Durable, Choice::CacheSkip, Choice::PreferCpuTime];
        for (step, words) in [
            (
                NextStep::Usual(&condition::DIRECT_COPIES),
                "Put the destination on ext4, XFS or f2fs.",
            ),
            (
                NextStep::StopTap { holder: TapHolder::Process { process } },
                "Stop lldpd (pid 812) while you send, bind its socket to another device, or make it \
                 set PACKET_IGNORE_OUTGOING.",
            ),
            (
                NextStep::StopTap { holder: TapHolder::Somebody { user: 0 } },
                "Stop the program that holds it while you send, bind its socket to another device, or \
                 make it set PACKET_IGNORE_OUTGOING.",
            ),
            (
                NextStep::TurnOn { device: device(), feature: DeviceFeature::UdpSegmentation },
                "Turn it on: ethtool -K eth1 tx-udp-segmentation on.",
            ),
            (
                NextStep::TurnOnOthers { device: device() },
                "It is requested but needs another feature: ethtool -K eth1 sg on tx on.",
            ),
            (
                NextStep::SendTrains { train_bytes: 64_768, segment_bytes: 1472 },
                "Send several datagrams at once (UDP_SEGMENT): 64768 bytes as datagrams of 1472, or \
                 let Mode::Auto choose.",
            ),
            (
                NextStep::RaiseOptionMemory { bytes: 166_400 },
                "Raise it: sysctl -w net.core.optmem_max=166400; or use io_uring.",
            ),
            (NextStep::Continue { pid: 812 }, "Let it continue: kill -CONT 812."),
            (
                NextStep::RaiseSendBuffer { bytes: 16_777_216 },
                "Raise it: sysctl -w net.core.wmem_max=16777216; channels made after that have it.",
            ),
            (
                NextStep::ChooseOne { settings: choices.map(|choice| settings.setting(choice)) },
                "Pass durable, cache=skip or prefer=cpu_time: then the disk reads the pages directly.",
            ),
            (
                NextStep::Each(vec![leave_out, NextStep::KeepTogether]),
                "Remove the setting cache=keep. Keep both files on one filesystem with reflinks.",
            ),
        ] {
            assert_eq!(step.to_string(), words, "{step:?}");
        }
    }
}
