//! Facts about the machine that do not depend on a path.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

use super::facts::NotSeen;
use super::tap::{self, Tap};
use crate::found::{Doubt, Missing};
use uncopy_core::Errno;
use uncopy_os::bpf;
use uncopy_os::netlink::firewall::{self, Ruleset};
use uncopy_os::netlink::route::{self, Link};
use uncopy_os::netlink::rule;
use uncopy_os::netlink::traffic::{self, Filter, Queue};
use uncopy_os::netlink::xfrm;

pub(super) const NFTABLES: &str = "nfnetlink NFT_MSG_GETRULE";
const LEGACY: &str = "/proc/net/ip_tables_names";
const IPSEC: &str = "netlink XFRM_MSG_GETSPDINFO";
const PROGRAMS: &str = "bpf BPF_PROG_QUERY";

/// Whether a file is missing because the kernel does not have it, and not because `/proc` is not mounted: that has a table
/// of devices in every network namespace.
fn is_unknown_to_kernel(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound && Path::new("/proc/thread-self/net/dev").exists()
}

/// Devices, rules and taps of this thread's network namespace.
#[derive(Debug, Clone, Default)]
pub(super) struct Machine {
    pub(super) links: Vec<Link>,
    pub(super) queues: Vec<Queue>,
    pub(super) taps: Vec<Tap>,
    pub(super) rules: Ruleset,
    /// Facts that could not be read.
    pub(super) unseen: Vec<NotSeen>,
}

impl Machine {
    pub(super) fn look() -> Machine {
        let mut machine = Machine::default();
        match route::links() {
            Ok(links) => machine.links = links,
            Err(errno) => machine.missing(Missing::Devices, "rtnetlink RTM_GETLINK", errno),
        }
        match traffic::queues() {
            Ok(queues) => machine.queues = queues,
            Err(errno) => {
                machine.missing(Missing::QueueDisciplines, "rtnetlink RTM_GETQDISC", errno)
            }
        }
        match tap::all() {
            Ok(taps) => machine.taps = taps,
            // Kernels without packet sockets.
            Err(error) if is_unknown_to_kernel(&error) => {}
            Err(error) => {
                machine.missing(Missing::PacketTaps, "/proc/net/packet", errno_of(&error))
            }
        }
        match firewall::ruleset() {
            Ok(rules) => machine.rules = rules,
            // Without permission for these the iptables tables cannot be read either.
            Err(errno) => {
                machine.missing(Missing::FirewallRules, NFTABLES, errno);
                return machine;
            }
        }
        match xfrm::policies() {
            Ok(0) => {}
            Ok(count) => {
                let why = Doubt::IpsecPolicies { policies: count };
                machine.unseen.push(NotSeen::doubt(Missing::IpsecEffect, IPSEC, why));
            }
            Err(errno) => machine.missing(Missing::IpsecPolicies, IPSEC, errno),
        }
        for name in ["ip_tables_names", "ip6_tables_names"] {
            match fs::read_to_string(format!("/proc/thread-self/net/{name}")) {
                Ok(names) => machine.tables(&names),
                Err(error) if is_unknown_to_kernel(&error) => {}
                Err(error) => {
                    machine.missing(Missing::IptablesTables, LEGACY, errno_of(&error));
                }
            }
        }
        machine
    }

    fn missing(&mut self, what: Missing, source: &'static str, errno: Errno) {
        self.unseen.push(NotSeen::refused(what, source, errno));
    }

    /// Notes iptables tables, whose rules are not examined.
    fn tables(&mut self, names: &str) {
        for name in names.lines().filter(|name| !name.is_empty()) {
            let why = Doubt::LegacyTable { table: name.to_owned() };
            self.unseen.push(NotSeen::doubt(Missing::IptablesEffect, LEGACY, why));
        }
    }

    pub(super) fn link(&self, index: u32) -> Option<&Link> {
        self.links.iter().find(|link| link.index == index)
    }

    pub(super) fn kind(&self, index: u32) -> &str {
        self.link(index).and_then(|link| link.kind.as_deref()).unwrap_or_default()
    }

    pub(super) fn name(&self, index: u32) -> String {
        self.link(index).map_or_else(|| format!("device {index}"), |link| link.name.clone())
    }

    /// Whether packets sent over a device return to the redirecting one, because an ifb is on the way
    /// (`ifb_ri_tasklet` in `drivers/net/ifb.c`).
    pub(super) fn gives_back(&self, device: u32) -> bool {
        let mut below = vec![device];
        let mut at = 0;
        while let Some(index) = below.get(at).copied() {
            if self.kind(index) == "ifb" {
                return true;
            }
            let lower = self.link(index).and_then(|link| link.link);
            let ports = self.links.iter().filter(|port| port.master == Some(index));
            for next in lower.into_iter().chain(ports.map(|port| port.index)) {
                if !below.contains(&next) {
                    below.push(next);
                }
            }
            at += 1;
        }
        false
    }

    /// Whether rules or filters may select by ports.
    pub(super) fn may_see_ports(&self, is_v6: bool) -> bool {
        let has_filters = self.queues.iter().any(|queue| queue.handle != 0);
        let by_rules =
            rule::ports(family(is_v6)).map_or(true, |ports| ports != rule::Ports::default());
        by_rules || has_filters || !self.rules.chains.is_empty()
    }

    /// Returns the egress filters of a device.
    pub(super) fn filters(&self, device: u32) -> Result<Vec<Filter>, NotSeen> {
        let has_some = self.queues.iter().any(|queue| queue.device == device && queue.handle != 0);
        let filters = match has_some {
            true => traffic::egress_filters(device, &self.queues),
            false => Ok(Vec::new()),
        };
        filters.map_err(|errno| {
            NotSeen::refused(Missing::DeviceFilters, "rtnetlink RTM_GETTFILTER", errno)
        })
    }
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

/// Notes BPF programs for outgoing packets of a device, which are not examined.
pub(super) fn programs(device: u32, name: &str) -> Option<NotSeen> {
    match bpf::egress_programs(device) {
        Ok(0) => None,
        Ok(count) => {
            let why = Doubt::Programs { programs: count, device: name.to_owned() };
            Some(NotSeen::doubt(Missing::ProgramEffect, PROGRAMS, why))
        }
        // Without permission the firewall rules cannot be read either, which is already reported.
        Err(Errno::EPERM) => None,
        Err(errno) => Some(NotSeen::refused(Missing::DevicePrograms, PROGRAMS, errno)),
    }
}

/// Returns one source port for each group of ports that policy rules treat alike. 0: rules do not select by
/// source port.
pub(super) fn source_ports(is_v6: bool) -> Result<Vec<u16>, NotSeen> {
    let ports = rule::ports(family(is_v6))
        .map_err(|errno| NotSeen::refused(Missing::PolicyRules, "rtnetlink RTM_GETRULE", errno))?;
    Ok(groups(&ports.source))
}

const fn family(is_v6: bool) -> libc::c_int {
    if is_v6 { libc::AF_INET6 } else { libc::AF_INET }
}

fn groups(ranges: &[(u16, u16)]) -> Vec<u16> {
    if ranges.is_empty() {
        return vec![0];
    }
    let mut firsts = vec![1];
    for (first, last) in ranges {
        firsts.push((*first).max(1));
        firsts.extend(last.checked_add(1));
    }
    firsts.sort_unstable();
    firsts.dedup();
    firsts
}

/// Whether the kernel may have chosen this port for an unbound socket.
pub(super) fn may_choose_port(port: u16) -> bool {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    range_in(&range).is_none_or(|(first, last)| (first..=last).contains(&port))
}

fn range_in(text: &str) -> Option<(u16, u16)> {
    let mut numbers = text.split_whitespace();
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Whether an IPv6 address belongs to other devices and not to this one.
pub(super) fn is_elsewhere(address: Ipv6Addr, device: u32) -> bool {
    let table = fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default();
    let owners = table.lines().filter_map(owner_in).filter(|(_, owned)| *owned == address);
    let owners: Vec<u32> = owners.map(|(owner, _)| owner).collect();
    !owners.is_empty() && !owners.contains(&device)
}

/// Parses a line of the table (`if6_seq_show` in `net/ipv6/addrconf.c`): address, index and others, in
/// hexadecimal.
fn owner_in(line: &str) -> Option<(u32, Ipv6Addr)> {
    let mut words = line.split_whitespace();
    let address = u128::from_str_radix(words.next()?, 16).ok()?;
    Some((u32::from_str_radix(words.next()?, 16).ok()?, Ipv6Addr::from(address)))
}

/// Whether a device is a member of an IPv6 multicast group.
pub(super) fn listens(device: u32, group: Ipv6Addr) -> Result<bool, NotSeen> {
    const TABLE: &str = "/proc/net/igmp6";
    match fs::read_to_string("/proc/thread-self/net/igmp6") {
        Ok(table) => Ok(table.lines().any(|line| member_in(line) == Some((device, group)))),
        Err(error) => Err(NotSeen::refused(Missing::GroupMembers, TABLE, errno_of(&error))),
    }
}

/// Parses a line of the table (`igmp6_mc_seq_show` in `net/ipv6/mcast.c`): index, device, group and others.
fn member_in(line: &str) -> Option<(u32, Ipv6Addr)> {
    let mut words = line.split_whitespace();
    let device = words.next()?.parse().ok()?;
    let group = u128::from_str_radix(words.nth(1)?, 16).ok()?;
    Some((device, Ipv6Addr::from(group)))
}

/// Whether a program routes multicast packets between devices.
pub(super) fn routes_groups(to: IpAddr) -> bool {
    let name = if to.is_ipv4() { "ip_mr_vif" } else { "ip6_mr_vif" };
    let table = fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
    table.lines().count() > 1
}

#[cfg(fuzzing)]
pub(crate) fn fuzz(line: &str) {
    let _ = (member_in(line), owner_in(line), range_in(line));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_grouped_by_the_ranges_of_rules() {
        for (ranges, expected) in [
            (&[][..], &[0][..]),
            (&[(5555, 5555)], &[1, 5555, 5556]),
            (&[(1, 1023)], &[1, 1024]),
            (&[(0, 65_535)], &[1]),
            (&[(100, 200), (150, 65_535)], &[1, 100, 150, 201]),
        ] {
            assert_eq!(groups(ranges), expected, "{ranges:?}");
        }
    }

    #[test]
    fn the_kernels_range_of_ports_is_parsed() {
        assert_eq!(range_in("32768\t60999\n"), Some((32_768, 60_999)));
        assert_eq!(range_in("32768"), None);
        assert_eq!(range_in("1 65536"), None);
    }

    #[test]
    fn the_kernels_table_of_addresses_is_parsed() {
        let line = "fd110000000000000000000000000001 1f 40 00 80     sink";
        assert_eq!(owner_in(line), Some((31, "fd11::1".parse().unwrap())));
        assert_eq!(owner_in("fd11"), None);
        assert_eq!(owner_in(""), None);
    }

    #[test]
    fn the_kernels_table_of_groups_is_parsed() {
        let line = "3    sink            ff050000000000000000000000010002     1 00000004 0";
        assert_eq!(member_in(line), Some((3, "ff05::1:2".parse().unwrap())));
        assert_eq!(member_in("3 sink"), None);
        assert_eq!(member_in(""), None);
    }
}
