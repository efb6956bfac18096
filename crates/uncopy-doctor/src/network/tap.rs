//! Packet taps, for which the kernel copies outgoing packets.

use std::fs;

use super::super::process::{Owner, owner_of};
use uncopy_os::netlink::packet_diag;
use uncopy_os::pidfd;

/// `ETH_P_ALL` (`linux/if_ether.h`).
const ALL_PROTOCOLS: u16 = 0x0003;

/// A socket of `packet(7)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tap {
    pub(crate) inode: u64,
    pub(crate) protocol: u16,
    /// Index of the device that it is bound to; 0: all.
    pub(crate) device: u32,
    pub(crate) is_running: bool,
    /// The user who opened it.
    pub(crate) user: u32,
    /// `None`: the option cannot be read.
    pub(crate) ignores_outgoing: Option<bool>,
    /// `None`: no process with readable descriptors has it.
    pub(crate) owner: Option<Owner>,
    /// Number of its fanout group.
    pub(crate) fanout: Option<u16>,
}

/// Effect of a tap on packets that leave through some devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    Copies,
    /// It causes copies unless it ignores outgoing packets, which cannot be read.
    Unknown,
    OtherDevice,
    OtherProtocol,
    IgnoresOutgoing,
    NotRunning,
}

impl Tap {
    /// Returns the effect, by the rules of `dev_queue_xmit_nit` in `net/core/dev.c`.
    pub(crate) fn reach(&self, devices: &[u32]) -> Reach {
        match self.ignores_outgoing {
            _ if self.protocol != ALL_PROTOCOLS => Reach::OtherProtocol,
            _ if self.device != 0 && !devices.contains(&self.device) => Reach::OtherDevice,
            _ if !self.is_running => Reach::NotRunning,
            Some(true) => Reach::IgnoresOutgoing,
            Some(false) => Reach::Copies,
            None => Reach::Unknown,
        }
    }
}

/// Returns every packet socket of this thread's network namespace.
pub(crate) fn all() -> std::io::Result<Vec<Tap>> {
    let table = fs::read_to_string("/proc/thread-self/net/packet")?;
    let fanouts = packet_diag::fanouts().unwrap_or_default();
    let mut taps: Vec<Tap> = table.lines().filter_map(tap_in).collect();
    for tap in &mut taps {
        tap.fanout = fanouts.iter().find(|(inode, _)| *inode == tap.inode).map(|(_, group)| *group);
        tap.owner = owner_of(tap.inode);
        tap.ignores_outgoing = tap.owner.as_ref().and_then(|owner| {
            let socket = pidfd::descriptor_of(owner.pid, owner.descriptor).ok()?;
            pidfd::ignores_outgoing(socket).ok()
        });
    }
    Ok(taps)
}

/// Parses a line of the table (`packet_seq_show` in `net/packet/af_packet.c`): address, references, type,
/// protocol, device, running, memory, user, inode.
fn tap_in(line: &str) -> Option<Tap> {
    let mut words = line.split_whitespace().skip(3);
    let protocol = u16::from_str_radix(words.next()?, 16).ok()?;
    let device = words.next()?.parse().ok()?;
    let is_running = words.next()? == "1";
    let user = words.nth(1)?.parse().ok()?;
    let inode = words.next()?.parse().ok()?;
    Some(Tap {
        inode,
        protocol,
        device,
        is_running,
        user,
        ignores_outgoing: None,
        owner: None,
        fanout: None,
    })
}

#[cfg(fuzzing)]
pub(crate) fn fuzz(line: &str) {
    if let Some(tap) = tap_in(line) {
        let _ = tap.reach(&[1, 2]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
sk               RefCnt Type Proto  Iface R Rmem   User   Inode
ffff888003a1d000 3      3    0003   0     1 0      0      8123  
ffff888003a1e000 3      2    88cc   2     1 0      101    8124
0000000000000000 3      3    0003   5     0 0      0      9";

    #[test]
    fn the_kernels_table_is_parsed() {
        let taps: Vec<Tap> = TABLE.lines().filter_map(tap_in).collect();
        let found: Vec<_> =
            taps.iter().map(|t| (t.inode, t.protocol, t.device, t.is_running, t.user)).collect();
        assert_eq!(
            found,
            [(8123, 0x0003, 0, true, 0), (8124, 0x88cc, 2, true, 101), (9, 0x0003, 5, false, 0)]
        );
    }

    #[test]
    fn only_running_taps_for_all_protocols_on_the_path_copy() {
        let tap = |protocol, device, is_running, ignores_outgoing| Tap {
            inode: 1,
            protocol,
            device,
            is_running,
            user: 0,
            ignores_outgoing,
            owner: None,
            fanout: None,
        };
        let no = Some(false);
        for (tap, expected) in [
            (tap(3, 0, true, no), Reach::Copies),
            (tap(3, 7, true, no), Reach::Copies),
            (tap(3, 8, true, no), Reach::Copies),
            (tap(3, 9, true, no), Reach::OtherDevice),
            (tap(0x0800, 0, true, no), Reach::OtherProtocol),
            (tap(0x88cc, 7, true, None), Reach::OtherProtocol),
            (tap(3, 0, true, Some(true)), Reach::IgnoresOutgoing),
            (tap(3, 0, true, None), Reach::Unknown),
            (tap(3, 0, false, None), Reach::NotRunning),
            (tap(3, 7, false, no), Reach::NotRunning),
        ] {
            assert_eq!(tap.reach(&[7, 8]), expected, "{tap:?}");
        }
    }
}
