//! Facts about a path that are missing, and the reasons.

use uncopy_core::Errno;

use crate::worded::worded;

worded! {
    /// Fact about a path that is not known.
    pub enum Missing {
        /// Network devices.
        Devices = "network devices";
        /// One network device.
        Device = "a network device";
        /// Queue disciplines of devices.
        QueueDisciplines = "queue disciplines";
        /// Packet sockets.
        PacketTaps = "packet taps";
        /// Rules of nf_tables.
        FirewallRules = "rules of the firewall";
        /// Effect of rules of nf_tables.
        FirewallEffect = "effect of the firewall";
        /// Policies of IPsec.
        IpsecPolicies = "IPsec policies";
        /// Effect of policies of IPsec.
        IpsecEffect = "effect of IPsec";
        /// Tables of the older packet filter.
        IptablesTables = "iptables tables";
        /// Effect of the older packet filter.
        IptablesEffect = "effect of iptables";
        /// Filters of a device's queue disciplines.
        DeviceFilters = "filters of a device";
        /// Effect of filters of queue disciplines.
        FilterEffect = "effect of filters";
        /// BPF programs on a device.
        DevicePrograms = "BPF programs on a device";
        /// Effect of BPF programs.
        ProgramEffect = "effect of BPF programs";
        /// Policy rules of routing.
        PolicyRules = "policy rules";
        /// Members of a group of hosts.
        GroupMembers = "members of the multicast group";
        /// Receivers of a group of hosts.
        GroupReceivers = "receivers of the multicast group";
        /// Members of a group of hops.
        HopGroupMembers = "members of a nexthop group";
        /// Route of a socket that is bound to a device.
        RouteOfBound = "route of a socket bound to a device";
        /// Route of packets whose destination or mark was changed.
        RouteOfRedirected = "route of redirected packets";
        /// Route of copies that rules make.
        RouteOfCopies = "route of copied packets";
        /// Path of packets.
        PacketPath = "path of packets";
        /// All paths of packets.
        EveryPacketPath = "all paths of packets";
        /// Fate of packets.
        Packets = "handling of packets";
        /// Fate of copies that rules make.
        Copies = "handling of copied packets";
        /// Fate of packets inside a tunnel.
        TunnelPackets = "handling of packets in a tunnel";
        /// Ports of a bridge.
        BridgePorts = "ports of a bridge";
        /// Macvlan devices above the same one.
        MacvlanSiblings = "other macvlan devices on the same lower device";
        /// One macvlan device above the same one.
        MacvlanSibling = "another macvlan device on the same lower device";
        /// Fate of frames that a device takes in.
        Frames {
            /// Name of the device.
            device: String,
        } = "handling of frames by {device}";
    }
}

worded! {
    /// Reason why a fact about a path is not known.
    pub enum Doubt {
        /// The kernel refused the question.
        Refused {
            /// Answer of the kernel.
            errno: Errno,
        } = "{message} ({errno})", message = errno.message();
        /// IPsec may change what is sent.
        IpsecPolicies {
            /// Number of policies.
            policies: u32,
        } = "there are {policies} policies for outgoing packets";
        /// The older packet filter has a table.
        LegacyTable {
            /// Name of the table.
            table: String,
        } = "the rules of the table {table} are not examined";
        /// BPF programs see what leaves through a device.
        Programs {
            /// Number of programs.
            programs: u32,
            /// Name of the device.
            device: String,
        } = "{programs} programs (tcx) process the outgoing packets of {device}";
        /// Policy rules choose by the source address.
        RulesBySource = "rules select by the source address, which a route request cannot include";
        /// Routes are chosen by the source address.
        RoutesBySource = "routes select by the source address, which a route request cannot include";
        /// A route names a group of hops.
        HopGroup = "the route names a nexthop group only by its id";
        /// Packets may take more paths than are looked at.
        ManyWays {
            /// Number of paths that are looked at.
            limit: usize,
        } = "there are more than {limit}";
        /// Redirected packets have a choice of hops.
        SeveralHops = "firewall rules lead to several next hops";
        /// A route encapsulates packets, or asks a program.
        Encapsulated = "the route encapsulates packets or runs a program";
        /// Packets may have to be cut.
        AboveMtu {
            /// Name of the device.
            device: String,
            /// Its MTU, or that of the route.
            mtu: u32,
        } = "they may be larger than the MTU of {device}, {mtu}";
        /// The firewall drops packets.
        Dropped = "the firewall drops them";
        /// A program routes groups between devices.
        GroupsRouted = "a program routes multicast packets";
        /// A device is unknown, or one too many.
        DeviceLeftOut {
            /// Index of the device.
            index: u32,
        } = "device {index} is not examined";
        /// A hardware address of this network belongs to a device without the destination's address.
        StrayAddress = "frames go to a device in this network that does not have the address";
        /// A hardware address is not resolved yet.
        AddressNotResolved = "the address is not resolved to one of several devices yet";
        /// A bridge takes in all frames.
        BridgeListens = "the bridge is promiscuous and accepts all frames";
        /// Filters see frames that come in.
        IncomingFilters = "filters process incoming frames";
        /// Rules of the firewall see frames that come in.
        IncomingRules = "firewall rules process incoming frames";
        /// A bridge has no other port.
        BridgeEnds = "the bridge has no other port";
        /// A chain of rules is missing, or too deep.
        ChainNotSeen {
            /// Name of the chain.
            chain: String,
        } = "the chain {chain} cannot be read";
        /// A rule of the firewall does something that cannot be followed.
        Rule {
            /// Name of its table.
            table: String,
            /// Name of its chain.
            chain: String,
            /// Effect that cannot be followed.
            doubt: RuleDoubt,
        } = "a rule in the chain {chain} of the table {table} {doubt}";
        /// A filter of a queue discipline may act on packets.
        Filter {
            /// Kind of the filter.
            kind: String,
            /// Actions on packets that match.
            actions: Vec<FilterAction>,
        } = "a filter ({kind}) may apply these actions: {actions}", actions = list(actions);
        /// An action of a filter is not understood.
        UnknownAction {
            /// Kind of the action.
            kind: String,
        } = "the action {kind} of a filter is not understood";
    }
}

worded! {
    /// Doubtful effect of a rule of the firewall.
    ///
    /// Displayed as a predicate.
    pub enum RuleDoubt {
        /// Hands packets to a program.
        ToProgram = "passes packets to a program";
        /// Takes packets away.
        TakesAway = "removes packets";
        /// Sets an unknown mark.
        Marks = "marks packets";
        /// Sets a mark on packets that match.
        MayMark = "may mark packets";
        /// Copies packets that match.
        MayCopy = "may copy packets";
        /// Sends packets that match over another device.
        MayRedirect = "may redirect packets";
        /// Changes the destination of packets that match.
        MayChangeAddress = "may send packets to another address";
        /// Changes the destination to unknown addresses.
        ChangesAddress = "sends packets to other addresses";
        /// Copies packets over an unknown device.
        CopiesOver = "copies packets to an unknown device";
        /// Copies packets to an unknown address.
        CopiesTo = "copies packets to an unknown address";
        /// Sends packets over an unknown device.
        RedirectsOver = "sends packets over an unknown device";
        /// Changes the contents of packets.
        ChangesContents = "changes the contents of packets";
        /// Looks into a set that is not known.
        SetNotSeen = "uses a set that cannot be read";
        /// Decides by a map with an unknown key.
        Map = "decides by a map with an unknown key";
        /// Holds an unknown value.
        UnknownValue = "contains a value that is not understood";
        /// Has an unknown target of iptables.
        UnknownTarget {
            /// Name of the target.
            target: String,
        } = "has a target that is not understood: {target}";
        /// Has an unknown step.
        UnknownStep {
            /// Name of the step.
            step: String,
        } = "has an expression that is not understood: {step}";
    }
}

worded! {
    /// Action of a filter on packets that match.
    pub enum FilterAction {
        /// Sends packets over another device instead.
        Redirect {
            /// Index of the device.
            device: u32,
        } = "redirect to device {device}";
        /// Sends copies over another device.
        Mirror {
            /// Index of the device.
            device: u32,
        } = "mirror to device {device}";
        /// Other action.
        Other {
            /// Kind of the action.
            kind: String,
        } = "{kind}";
    }
}

fn list(actions: &[FilterAction]) -> String {
    actions.iter().map(FilterAction::to_string).collect::<Vec<_>>().join(", ")
}
