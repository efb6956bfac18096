//! Facts about a path that are missing, and the reasons.

use uncopy_core::Errno;

use crate::worded::worded;

worded! {
    /// Fact about a path that could not be had.
    pub enum Missing {
        /// Network devices.
        Devices = "the devices";
        /// One network device.
        Device = "a device";
        /// Queue disciplines of devices.
        QueueDisciplines = "queue disciplines";
        /// Packet sockets.
        PacketTaps = "packet taps";
        /// Rules of nf_tables.
        FirewallRules = "the rules of the firewall";
        /// Effect of rules of nf_tables.
        FirewallEffect = "what the firewall does";
        /// Policies of IPsec.
        IpsecPolicies = "policies of IPsec";
        /// Effect of policies of IPsec.
        IpsecEffect = "what IPsec does";
        /// Tables of the older packet filter.
        IptablesTables = "the tables of iptables";
        /// Effect of the older packet filter.
        IptablesEffect = "what iptables does";
        /// Filters of a device's queue disciplines.
        DeviceFilters = "the filters of a device";
        /// Effect of filters of queue disciplines.
        FilterEffect = "what filters do";
        /// BPF programs on a device.
        DevicePrograms = "programs on a device";
        /// Effect of BPF programs.
        ProgramEffect = "what programs do";
        /// Policy rules of routing.
        PolicyRules = "policy rules";
        /// Members of a group of hosts.
        GroupMembers = "members of the group";
        /// Receivers of a group of hosts.
        GroupReceivers = "who receives the group";
        /// Members of a group of hops.
        HopGroupMembers = "members of a group of hops";
        /// Route of a socket that is bound to a device.
        RouteOfBound = "the route of what is bound to a device";
        /// Route of packets whose destination or mark was changed.
        RouteOfRedirected = "the route of what is redirected";
        /// Route of copies that rules make.
        RouteOfCopies = "the route of copies";
        /// Path of packets.
        PacketPath = "the way of packets";
        /// All paths of packets.
        EveryPacketPath = "every way of packets";
        /// Fate of packets.
        Packets = "what becomes of packets";
        /// Fate of copies that rules make.
        Copies = "what becomes of copies";
        /// Fate of packets inside a tunnel.
        TunnelPackets = "what becomes of packets in a tunnel";
        /// Ports of a bridge.
        BridgePorts = "ports of a bridge";
        /// Macvlan devices above the same one.
        MacvlanSiblings = "devices beside a macvlan";
        /// One macvlan device above the same one.
        MacvlanSibling = "a device beside a macvlan";
        /// Fate of frames that a device takes in.
        Frames {
            /// Name of the device.
            device: String,
        } = "what {device} does with frames";
    }
}

worded! {
    /// Reason why a fact about a path could not be had.
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
        } = "there are {policies} policies about what is sent";
        /// The older packet filter has a table.
        LegacyTable {
            /// Name of the table.
            table: String,
        } = "there is a table {table}, whose rules are not looked into";
        /// BPF programs see what leaves through a device.
        Programs {
            /// Number of programs.
            programs: u32,
            /// Name of the device.
            device: String,
        } = "{programs} programs (tcx) see what leaves through {device}";
        /// Policy rules choose by the source address.
        RulesBySource = "rules look at the source address, which cannot be asked with";
        /// Routes are chosen by the source address.
        RoutesBySource = "routes look at the source address, which cannot be asked with";
        /// A route names a group of hops.
        HopGroup = "the route leads to a group of hops by its number";
        /// Packets may take more paths than are looked at.
        ManyWays {
            /// Number of paths that are looked at.
            limit: usize,
        } = "there are more than {limit}";
        /// Redirected packets have a choice of hops.
        SeveralHops = "the rules of the firewall lead to several hops";
        /// A route encapsulates packets, or asks a program.
        Encapsulated = "the route puts packets into others, or asks a program";
        /// Packets may have to be cut.
        AboveMtu {
            /// Name of the device.
            device: String,
            /// Its MTU, or that of the route.
            mtu: u32,
        } = "they may be longer than the MTU of {device}, {mtu}";
        /// The firewall drops packets.
        Dropped = "the firewall lets none out";
        /// A program routes groups between devices.
        GroupsRouted = "a program routes what is sent to groups";
        /// A device is unknown, or one too many.
        DeviceLeftOut {
            /// Index of the device.
            index: u32,
        } = "device {index} is not among those that are looked at";
        /// A hardware address of this network belongs to a device without the destination's address.
        StrayAddress = "frames go to one in this network, which does not have the address";
        /// A hardware address is not resolved yet.
        AddressNotResolved = "nobody has asked yet which of several the address belongs to";
        /// A bridge takes in all frames.
        BridgeListens = "the bridge takes all frames in";
        /// Filters see frames that come in.
        IncomingFilters = "filters see what comes in";
        /// Rules of the firewall see frames that come in.
        IncomingRules = "rules see what comes in";
        /// A bridge has no other port.
        BridgeEnds = "the bridge leads nowhere else";
        /// A chain of rules is missing, or too deep.
        ChainNotSeen {
            /// Name of the chain.
            chain: String,
        } = "the chain {chain} cannot be seen";
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
        } = "a filter ({kind}) may do this to packets: {actions}", actions = list(actions);
        /// An action of a filter is not understood.
        UnknownAction {
            /// Kind of the action.
            kind: String,
        } = "what the action {kind} of a filter does is not understood";
    }
}

worded! {
    /// Doubtful effect of a rule of the firewall.
    ///
    /// Displayed as a predicate.
    pub enum RuleDoubt {
        /// Hands packets to a program.
        ToProgram = "hands packets to a program";
        /// Takes packets away.
        TakesAway = "takes packets away";
        /// Sets an unknown mark.
        Marks = "marks packets";
        /// Sets a mark on packets that match.
        MayMark = "may mark packets";
        /// Copies packets that match.
        MayCopy = "may copy packets";
        /// Sends packets that match over another device.
        MayRedirect = "may send packets elsewhere";
        /// Changes the destination of packets that match.
        MayChangeAddress = "may send packets to another address";
        /// Changes the destination to unknown addresses.
        ChangesAddress = "sends packets to other addresses";
        /// Copies packets over an unknown device.
        CopiesOver = "copies packets to some device";
        /// Copies packets to an unknown address.
        CopiesTo = "copies packets to some address";
        /// Sends packets over an unknown device.
        RedirectsOver = "sends packets over some device";
        /// Changes the contents of packets.
        ChangesContents = "changes what packets hold";
        /// Looks into a set that is not known.
        SetNotSeen = "looks into a set that cannot be seen";
        /// Decides by a map with an unknown key.
        Map = "decides by a map";
        /// Holds an unknown value.
        UnknownValue = "holds a value that is not understood";
        /// Has an unknown target of iptables.
        UnknownTarget {
            /// Name of the target.
            target: String,
        } = "has a target that is not understood: {target}";
        /// Has an unknown step.
        UnknownStep {
            /// Name of the step.
            step: String,
        } = "has a step that is not understood: {step}";
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
