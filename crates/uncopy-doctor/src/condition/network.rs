//! Conditions of sending over TCP and UDP.

use super::{Topic, table};

table! { Topic::Network;
TAP = "tap-eth-p-all", "A packet tap sees outgoing packets", Copies, true,
"A `packet(7)` socket with the protocol `ETH_P_ALL` receives a copy of every packet that leaves through its device, or through any device if it is not bound to one: `tcpdump`, `lldpd`, DHCP clients. The tap must not see memory that the program may reuse, so the kernel copies the packet first (`dev_queue_xmit_nit`, `skb_copy_ubufs` in `net/core`), even if the tap's filter then drops it. Found in `/proc/net/packet` and by `sock_diag(7)`; the owner is found by the inode in `/proc/PID/fd`.",
"Every packet is copied, and the work of lending it is done as well: `MSG_ZEROCOPY` and `SEND_ZC` are slower than a plain send.",
"Stop the program while you send, bind its socket to another device, or make it set PACKET_IGNORE_OUTGOING.";
TAP_OTHER_DEVICE = "tap-other-device", "A packet tap on another device", Note, false,
"A packet socket with `ETH_P_ALL` that is bound to a device through which these packets do not leave.",
"It sees none of these packets, and nothing is copied for it.",
"";
TAP_OTHER_PROTOCOL = "tap-other-protocol", "A packet tap for one protocol", Note, false,
"A packet socket for a protocol other than `ETH_P_ALL`, such as `ETH_P_LLDP` or `ETH_P_IP`. It receives incoming packets, never outgoing ones (`dev_queue_xmit_nit` uses only `ptype_all`).",
"It sees none of these packets, and nothing is copied for it.",
"";
TAP_IGNORES_OUTGOING = "tap-ignores-outgoing", "A packet tap that ignores outgoing packets", Note, false,
"A packet socket with `ETH_P_ALL` and `PACKET_IGNORE_OUTGOING` (Linux 4.20). No table shows the option; it is read from the socket itself (`pidfd_getfd(2)`, `getsockopt(2)`), which needs the rights of a debugger.",
"It sees only incoming packets, and nothing is copied for it.",
"";
TAP_NOT_RUNNING = "tap-not-running", "A packet tap that is not running", Note, false,
"A packet socket that is not bound yet, or whose device went down: the kernel's table shows it as not running.",
"It sees nothing now. It will cause copies when it runs.",
"";
LOOPBACK = "loopback", "The address is on this machine", Copies, false,
"The route to the address has the type `local`: packets go over the loopback device, whichever device has the address. A socket of this machine must not see later changes of the sender's memory, so the kernel copies the packet on receipt (`skb_orphan_frags_rx`).",
"Every packet is copied, and lending it costs more than a plain send.",
"Use plain sends on this path. Between processes of one machine use channels, which need no network.";
VETH = "veth", "The device is one end of a veth pair", Copies, false,
"The other end of the pair is a device of this machine, usually in a container. When a socket receives the packet there, the kernel copies it as over loopback. If the other end forwards it to a real device (by a bridge, a route or a filter), it need not be copied. Which of the two happens follows from the addresses of the network namespace there (`RTM_GETADDR` with `IFA_TARGET_NETNSID`). Reading them needs CAP_NET_ADMIN; without it the kernel returns an empty list and an error, which proves nothing. If an XDP program is attached there in native mode, the driver rebuilds every packet for it, which is a copy that is never reported.",
"Packets that reach a socket of this machine are copied, and lending them costs more than a plain send.",
"Use plain sends on this path. For a container that needs throughput use macvlan, or the network of the host.";
TUN = "tun-tap", "The device leads to a program", Copies, false,
"A tun or tap device passes packets to a program: a VPN, or the network of a virtual machine. The kernel copies them before it queues them there (`tun_net_xmit`, `skb_orphan_frags_rx`).",
"Every packet is copied, and a second time when the program reads it.",
"Use plain sends on this path.";
STACKED = "stacked-device", "The device is on top of other devices", Note, false,
"A bridge, bond, team, VLAN, macvlan or vxlan device passes packets to lower devices. Each of them is examined too, as the taps and offloads of every device count. For a bridge it is the port that leads to the next hop (`RTM_GETNEIGH`), or every port if that is not known.",
"The device itself copies nothing.",
"";
STACKED_UNKNOWN = "stacked-device-unseen", "The lower device cannot be examined", Unknown, true,
"The device passes packets to one in another network namespace, or to one that is chosen by a route for each packet (tunnels). That device and its taps cannot be examined from here.",
"It is unknown whether packets are copied on the lower device.",
"Run the doctor in the other namespace too, or run it for the address of the tunnel's remote end.";
LOOPS = "loops-back", "This machine receives its own multicast or broadcast packets", Copies, false,
"Broadcast packets, and multicast packets for a group that this machine is a member of, are also delivered to this machine (`ip_mc_output`, `ip6_finish_output2`). Found in the flags of the route, and for IPv6 in `/proc/net/igmp6`.",
"This machine receives every packet as well, and every packet is copied for that.",
"Use plain sends on this path, leave the group, or set IP_MULTICAST_LOOP (IPV6_MULTICAST_LOOP) to 0.";
BESIDE = "macvlan-beside", "Another macvlan device on this machine receives the packets", Copies, false,
"A macvlan device in `bridge` mode delivers packets for another macvlan device on the same lower device directly, without sending them. The other device may be in any network namespace; its hardware address is in the filter table of the lower device (`RTM_GETNEIGH`).",
"This machine receives the packets, so they are copied.",
"Use plain sends on this path.";
TURN = "turned-aside", "A rule or filter redirects packets", Note, false,
"An nf_tables rule (redirect, dnat, dup, fwd, a mark) or a filter of a queue discipline (mirred) sends packets, or copies of them, to a place other than their route. Each such place is examined too.",
"The rule itself copies nothing.",
"";
NOT_SEEN = "not-seen", "Something on the path is unknown", Unknown, false,
"The doctor reports that nothing copies only if it has read and understood everything on the path: routes, policy rules, firewall rules, filters, devices, taps. Something here could not be read, or is not understood. An empty answer for a user without permission proves nothing.",
"Packets may be copied there.",
"Set probe, or check the named part yourself.";
WAYS_DIFFER = "ways-differ", "Packets can take different paths", Unknown, false,
"The path depends on facts that are not known here: the source port of the socket, the next hop that the kernel chooses, whether an IPv6 socket still uses the route found before it had an address, or a bridge port that is not learnt yet. Packets are copied on some of the paths.",
"Whether packets are copied depends on the path.",
"Examine a running program, set probe, or remove the difference between the paths.";
NO_ROUTE = "no-route", "There is no route to the address", Unknown, true,
"The kernel returns no route (`RTM_GETROUTE`): the network is unreachable or prohibited.",
"Nothing can be sent.",
"Check the route to the address (ip route get).";
DEVICE_DOWN = "device-down", "The device is down", Unknown, true,
"The device does not have `IFF_UP`.",
"Nothing can be sent over it.",
"Set it up (ip link set DEVICE up), and run the doctor again.";
NO_SG = "no-scatter-gather", "The device has no scatter-gather", Copies, true,
"Headers and lent memory are separate parts of a packet. A device without `tx-scatter-gather` (`NETIF_F_SG`) accepts only packets in one piece. Found by ethtool's netlink interface: active, requested and fixed.",
"UDP copies in the call and reports the copy. TCP copies while it creates segments and reports no copy.",
"Turn it on (ethtool -K DEVICE sg on). If it is fixed, use another device.";
NO_CHECKSUM = "no-tx-checksum", "The device does not compute checksums", Copies, true,
"Without transmit checksum offload (`tx-checksum-ip-generic`, `tx-checksum-ipv4`, `tx-checksum-ipv6`) the kernel must read all bytes, and must not do so in memory that can change meanwhile.",
"Every packet is copied, and the kernel reports the copy: UDP copies in the call, TCP before it computes the checksum (`skb_checksum_help`).",
"Turn it on (ethtool -K DEVICE tx on). If it is fixed, use another device.";
NO_FRAGLIST = "no-fraglist", "The device does not support lists of packets", Note, false,
"`tx-scatter-gather-fraglist` (`NETIF_F_FRAGLIST`) is off, as on nearly every device. Lent memory is sent as pages of one packet, which needs only `tx-scatter-gather`.",
"This has no effect on lent memory.",
"";
NO_TSO = "no-tso", "The device has no TCP segmentation offload", Note, true,
"Without `tx-tcp-segmentation` (for IPv6 `tx-tcp6-segmentation`) the kernel splits TCP data into segments itself. On a device with scatter-gather and checksums the segments refer to the lent pages.",
"More CPU time for each byte. The payload is not copied.",
"Turn it on, if it is not fixed (ethtool -K DEVICE tso on).";
NO_USO = "no-uso", "The device has no UDP segmentation offload", Note, true,
"Without `tx-udp-segmentation` the kernel splits sends with `UDP_SEGMENT` into datagrams itself. The datagrams refer to the lent pages.",
"More CPU time for each datagram. The payload is not copied.",
"Turn it on, if it is not fixed (ethtool -K DEVICE tx-udp-segmentation on).";
NO_TUNNEL_OFFLOAD = "no-tunnel-offload", "The device has no offload for tunnels", Copies, false,
"The kernel leaves the checksum of a packet inside a vxlan or geneve tunnel to a device only if its driver supports tunnels (`hw_enc_features`); such a device also has `tx-udp_tnl-segmentation`. Otherwise the kernel computes the checksum (`skb_checksum_help`), and must not do so in memory that can change meanwhile.",
"Every packet is copied on its way to the device.",
"Send outside the tunnel, or through a device with tunnel offload.";
ABOVE_MTU = "datagram-above-mtu", "The datagram is larger than the MTU", Copies, true,
"A datagram larger than the MTU of the route minus headers is split into fragments, and fragments are copied (`ip_append_data`).",
"The datagram is copied in the call.",
"Send smaller datagrams, send several at once with UDP_SEGMENT, or raise the MTU of the whole path.";
TOO_LONG = "datagram-too-long", "The datagram cannot be sent", Unknown, false,
"A datagram has at most 65,507 bytes over IPv4 and 65,527 over IPv6, because its length is written in 16 bits. A segment of `UDP_SEGMENT` must also fit into one packet of the route, as the kernel does not split it further.",
"Nothing can be sent: the kernel refuses the send (EMSGSIZE, or EINVAL for a segment).",
"Send smaller datagrams, or several at once with UDP_SEGMENT.";
BELOW_CROSSOVER = "below-crossover", "Sends are too small for lending", Limits, false,
"Lending pages, and reading the report that they are free again, has a fixed cost for each send. `MSG_ZEROCOPY` saves time from about 20 KiB over TCP and 32 KiB over UDP, io_uring from 6 KiB, with registered buffers from 4 KiB.",
"Lending takes more CPU time than a plain send.",
"Send more at once, over UDP with UDP_SEGMENT, or let Mode::Auto choose.";
OPTMEM = "optmem-max", "The limit on option memory is low", Limits, true,
"The kernel keeps a report for each `MSG_ZEROCOPY` send until it is read. The reports of a socket must fit into `net.core.optmem_max` (about 830 bytes each; since Linux 6.7 a limit for each network namespace). io_uring does not use this memory.",
"When this number of sends is in flight, the next send fails with ENOBUFS, and uncopy sends it with a copy.",
"Raise net.core.optmem_max (sysctl -w), keep fewer sends in flight, or use io_uring.";
MEMLOCK = "memlock", "The limit on locked memory is low", Limits, true,
"Lent pages are locked and count towards the user's `RLIMIT_MEMLOCK` (`mm_account_pinned_pages`), unless the process has CAP_IPC_LOCK.",
"When this number of bytes is in flight, the next send fails with ENOBUFS or ENOMEM, and uncopy sends it with a copy.",
"Raise the limit on locked memory (ulimit -l, LimitMEMLOCK=), or keep fewer bytes in flight.";
NO_SO_ZEROCOPY = "no-so-zerocopy", "The kernel refuses SO_ZEROCOPY", Copies, false,
"`SO_ZEROCOPY` cannot be set: Linux before 4.14, for UDP before 5.0, or a seccomp filter refuses it.",
"MSG_ZEROCOPY is ignored, and every send is copied.",
"Use a newer kernel, or run outside the sandbox.";
SOCKET_NOT_ALLOWED = "so-zerocopy-off", "The socket does not have SO_ZEROCOPY", Note, false,
"The process has not set `SO_ZEROCOPY` on the socket (read by `pidfd_getfd(2)` and `getsockopt(2)`). `SEND_ZC` of io_uring does not need it.",
"MSG_ZEROCOPY is ignored on this socket.",
"";
NO_SEND_ZC = "no-send-zc", "io_uring cannot send without copying", Note, false,
"io_uring cannot be used (a kernel before 5.1, `kernel.io_uring_disabled`, a seccomp filter), or lacks `IORING_OP_SEND_ZC` (Linux 6.0).",
"Only MSG_ZEROCOPY can be used, which saves time only for larger sends.",
"";
SENDMSG_ZC_FIXED = "sendmsg-zc-fixed-broken", "SENDMSG_ZC with registered buffers is broken in this kernel", Note, false,
"`SENDMSG_ZC` with registered buffers was added in Linux 6.15 and reads wrong memory before 6.17.11 (CVE-2025-68294). Recognised by the kernel's release.",
"On such kernels uncopy sends messages of several registered slices as memory that is not registered.",
"";
STACKED_NOTIFICATIONS = "tcp-send-zc-report", "io_uring's reports about TCP are unreliable", Note, false,
"Since Linux 6.10 notifications of consecutive `SEND_ZC` sends on a TCP socket are chained, and the linked ones are always reported as copied (`io_uring/notif.c`). The reports of MSG_ZEROCOPY on the same path are correct.",
"Nothing is copied because of this. Receipts of io_uring sends say `unknown`.",
"";
EGRESS_FILTER = "tc-egress", "Filters process outgoing packets", Note, false,
"A queue discipline has filters for outgoing packets (tc): `clsact`, or a discipline with classes such as htb. Filters that choose a class or drop packets copy nothing. Filters that send packets or copies to another device (mirred) are followed and reported as `turned-aside`; filters that are not understood are reported as `not-seen`.",
"The filters themselves copy nothing.",
"";
QUEUE_HOLDS = "queue-holds-packets", "A queue discipline delays packets", Note, false,
"A shaping discipline (tbf, htb, netem, cbq, hfsc, cake, fq) keeps packets in the device's queue. Their buffers stay lent, their reports pending, and their pages locked for that time.",
"Nothing is copied because of this. More bytes are in flight at a time, so limits are reached earlier.",
"";
XDP = "xdp", "An XDP program processes incoming packets", Note, false,
"An XDP program is attached to the device. It processes incoming packets, never outgoing ones.",
"No outgoing packet is copied because of this.",
"";
PROBE_COPIED = "probe-copied", "The probe was copied", Copies, false,
"The live probe (`probe`) sent large messages with `MSG_ZEROCOPY` and through io_uring, and read the kernel's reports about them.",
"The kernel reports that it copied them.",
"See the other findings for the reason. If there is none, sample the kernel (perf record -a -g).";
PROBE_LENT = "probe-not-copied", "The probe was not copied", Note, false,
"The live probe (`probe`) sent large messages with `MSG_ZEROCOPY` and through io_uring, and read the kernel's reports about them.",
"The kernel reports that it copied none of them.",
"";
PROBE_UNCLEAR = "probe-unclear", "The probe gives no clear answer", Unknown, false,
"The kernel's reports about the live probe contradict each other, are missing, or are unreliable: on a device without scatter-gather TCP copies and reports no copy.",
"The reports do not show whether the bytes are copied.",
"Sample the kernel (perf record -a -g), and look for functions that copy.";
NO_SOCKETS = "no-sockets", "The process has no connected socket", Unknown, false,
"No socket of the process is a TCP or UDP socket with a peer (`/proc/PID/fd`, `/proc/net/tcp` and similar tables). Sockets that give the destination with each send are not connected.",
"No path was examined.",
"Run the doctor for the addresses that the process sends to (udp://HOST:PORT).";
NO_PEER = "sockets-without-peer", "Some sockets of the process are not connected", Unknown, false,
"A UDP socket that is not connected can send to any address, and no table shows to which (`/proc/net/udp` shows no peer).",
"The paths of these sockets were not examined.",
"Run the doctor for the addresses that the process sends to (udp://HOST:PORT).";
MPTCP = "mptcp", "The socket uses Multipath TCP", Copies, false,
"Multipath TCP has its own buffers: setting `SO_ZEROCOPY` fails with EOPNOTSUPP, and MSG_ZEROCOPY is ignored (`net/mptcp/sockopt.c`, `mptcp_sendmsg`). Found by `SO_PROTOCOL` (`pidfd_getfd(2)`, `getsockopt(2)`).",
"Every send is copied.",
"Use a plain TCP socket (IPPROTO_TCP) where this matters.";
OTHER_NAMESPACE = "other-namespace", "The process is in another network namespace", Unknown, true,
"The process is in another network namespace (`/proc/PID/ns/net` differs). Its devices, routes and taps cannot be examined from here.",
"Nothing is known about its sockets.",
"Run the doctor in that namespace.";
SOCKETS_HIDDEN = "sockets-hidden", "The sockets of the process cannot be read", Unknown, true,
"This user cannot read `/proc/PID/fd`.",
"Nothing is known about its sockets.",
"Run the doctor as the user of the process, or as root.";
}
