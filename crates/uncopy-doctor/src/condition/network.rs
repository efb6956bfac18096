//! Conditions of sending over TCP and UDP.

use super::{Topic, table};

table! { Topic::Network;
TAP = "tap-eth-p-all", "A packet tap sees what is sent", Copies, true,
"A socket of `packet(7)` with the protocol `ETH_P_ALL` gets a copy of every packet that leaves through its device, or through any device if it is bound to none: `tcpdump`, `lldpd`, DHCP clients. The kernel cannot let it look at memory that the program may reuse, so it copies the packet first (`dev_queue_xmit_nit`, `skb_copy_ubufs` in `net/core`), even if the tap's filter then drops it. Found in `/proc/net/packet` and by `sock_diag(7)`; owners by the inode in `/proc/PID/fd`.",
"Every packet is copied, and the work of lending it is done as well: `MSG_ZEROCOPY` and `SEND_ZC` are slower than a plain send.",
"Stop the program while you send, bind its socket to another device, or have it set PACKET_IGNORE_OUTGOING.";
TAP_OTHER_DEVICE = "tap-other-device", "A packet tap on another device", Note, false,
"A packet socket with `ETH_P_ALL` that is bound to a device which these packets do not leave through.",
"It sees none of these packets, and nothing is copied for it.",
"";
TAP_OTHER_PROTOCOL = "tap-other-protocol", "A packet tap for one protocol", Note, false,
"A packet socket for a protocol other than `ETH_P_ALL`, such as `ETH_P_LLDP` or `ETH_P_IP`. It sees what is received, never what is sent (`ptype_all` alone is asked in `dev_queue_xmit_nit`).",
"It sees none of these packets, and nothing is copied for it.",
"";
TAP_IGNORES_OUTGOING = "tap-ignores-outgoing", "A packet tap that ignores what is sent", Note, false,
"A packet socket with `ETH_P_ALL` and `PACKET_IGNORE_OUTGOING` (Linux 4.20). No table shows the option; it is read from the socket itself (`pidfd_getfd(2)`, `getsockopt(2)`), which needs the rights of a debugger.",
"It sees only what is received, and nothing is copied for it.",
"";
TAP_NOT_RUNNING = "tap-not-running", "A packet tap that is not running", Note, false,
"A packet socket that has not been bound, or whose device went down: the kernel's table shows it without the running mark.",
"It sees nothing now; it will copy when it runs.",
"";
LOOPBACK = "loopback", "The address is on this machine", Copies, false,
"The route to the address is of the type `local`, so that packets go over the loopback device, whatever device the address belongs to. What a socket of this machine receives must not change when the sender reuses its memory; the kernel copies as it is received (`skb_orphan_frags_rx`).",
"Every packet is copied, and lending it costs more than a plain send.",
"Send plainly on this path; between processes of one machine use channels, which make no network of it.";
VETH = "veth", "The device is one end of a veth pair", Copies, false,
"The other end of the pair is a device of this machine, mostly in a container. When a socket receives the packet there, the kernel copies it as over loopback. If the other end passes it on to a real device (a bridge, a route, a filter), the bytes may stay where they are. Which of the two it is follows from the addresses of the network there (`RTM_GETADDR` with `IFA_TARGET_NETNSID`), which needs CAP_NET_ADMIN; whoever lacks it gets an empty list, which ends with an error and says nothing. Where an XDP program is attached there, in the driver's own mode, every packet is put together anew for it, which is a copy that nobody reports.",
"Packets that reach a socket of this machine are copied, and lending them costs more than a plain send.",
"Send plainly on this path; let a container that needs throughput use macvlan, or the network of the host.";
TUN = "tun-tap", "The device leads to a program", Copies, false,
"A tun or tap device hands packets to a program: a VPN, a virtual machine's network. The kernel copies before it queues them there (`tun_net_xmit`, `skb_orphan_frags_rx`).",
"Every packet is copied, and once more when the program reads it.",
"Send plainly on this path.";
STACKED = "stacked-device", "The device lies on top of others", Note, false,
"A bridge, bond, team, VLAN, macvlan or vxlan device passes packets to devices below. Each of these is looked at too: taps and offloads of every one of them count. Of a bridge it is the port behind which the next on the way is (`RTM_GETNEIGH`), and all ports where that is not known.",
"By itself it copies nothing.",
"";
STACKED_UNKNOWN = "stacked-device-unseen", "The device below cannot be seen", Unknown, true,
"The device passes packets on to one in another network namespace, or to one that its route decides upon only when a packet is sent (tunnels). What that device and its taps do cannot be seen from here.",
"Whether packets are copied below cannot be told.",
"Run the doctor in the other namespace too, or ask it about the address of the tunnel's end.";
LOOPS = "loops-back", "This machine receives what is sent to a group or to everybody", Copies, false,
"What goes to everybody on a link, or to a group that this machine is a member of, comes back to this machine as well (`ip_mc_output`, `ip6_finish_output2`). Found in the flags of the route, and for IPv6 in `/proc/net/igmp6`.",
"The packet that comes back is received here, and so every packet is copied.",
"Send plainly on this path, leave the group, or set IP_MULTICAST_LOOP (IPV6_MULTICAST_LOOP) to 0.";
BESIDE = "macvlan-beside", "Another macvlan device on this machine receives it", Copies, false,
"A macvlan device of the mode `bridge` hands what is for another one above the same device over to it, without sending it. The other one may be in any network; its hardware address is among those that the device below takes in (`RTM_GETNEIGH`).",
"Packets are received on this machine, and so copied.",
"Send plainly on this path.";
TURN = "turned-aside", "A rule or filter sends packets elsewhere", Note, false,
"A rule of nf_tables (redirect, dnat, dup, fwd, a mark) or a filter of a queue discipline (mirred) sends packets, or copies of them, elsewhere than their route. Each place is looked at too.",
"By itself it copies nothing.",
"";
NOT_SEEN = "not-seen", "Something on the way cannot be told", Unknown, false,
"That nothing copies is said only where everything on the way was seen and understood: routes, policy rules, rules of the firewall, filters, devices, taps. Something was refused, or is not understood; an empty answer to somebody who may not ask says nothing.",
"Packets may be copied there.",
"Set probe, or look at what is named.";
WAYS_DIFFER = "ways-differ", "Packets take one of several ways", Unknown, false,
"Which way packets take depends on what is not known here: the port that a socket sends from, the next hop that the kernel chooses, whether a socket of IPv6 still has the route that was found before it had an address, a port of a bridge that has not been learnt. On some of them packets are copied.",
"Whether packets are copied depends on the way.",
"Ask about a running program, set probe, or make the ways alike.";
NO_ROUTE = "no-route", "There is no route to the address", Unknown, true,
"The kernel refuses to name a route (`RTM_GETROUTE`): the network is unreachable or prohibited.",
"Nothing can be sent.",
"Check the route to the address (ip route get).";
DEVICE_DOWN = "device-down", "The device is down", Unknown, true,
"The device lacks `IFF_UP`.",
"Nothing can be sent over it.",
"Set it up (ip link set DEVICE up), and ask again.";
NO_SG = "no-scatter-gather", "The device does not scatter and gather", Copies, true,
"Lent memory is another piece of the packet than its headers; a device without `tx-scatter-gather` (`NETIF_F_SG`) takes only packets in one piece. Found by ethtool's netlink: active, requested and fixed.",
"UDP copies in the call, and reports that. TCP copies while it cuts segments, and reports that it did not.",
"Turn it on, if it is not fixed (ethtool -K DEVICE sg on); else use another device.";
NO_CHECKSUM = "no-tx-checksum", "The device does not compute checksums", Copies, true,
"Without transmit checksum offload (`tx-checksum-ip-generic`, `tx-checksum-ipv4`, `tx-checksum-ipv6`) the kernel must read all bytes, and may not do so in memory that can change meanwhile.",
"Every packet is copied, and the kernel reports that: UDP copies in the call, TCP before it sums up (`skb_checksum_help`).",
"Turn it on, if it is not fixed (ethtool -K DEVICE tx on); else use another device.";
NO_FRAGLIST = "no-fraglist", "The device takes no lists of packets", Note, false,
"`tx-scatter-gather-fraglist` (`NETIF_F_FRAGLIST`) is off, as on nearly every device. Lent memory goes as pages of one packet, which needs `tx-scatter-gather` alone.",
"It does not matter to lent memory.",
"";
NO_TSO = "no-tso", "The device does not cut TCP segments", Note, true,
"Without `tx-tcp-segmentation` (for IPv6 `tx-tcp6-segmentation`) the kernel cuts what TCP sends into segments itself. Over a device with scatter-gather and checksums the segments refer to the lent pages.",
"More processor time for each byte; the payload is not copied for it.",
"Turn it on, if it is not fixed (ethtool -K DEVICE tso on).";
NO_USO = "no-uso", "The device does not cut trains of datagrams", Note, true,
"Without `tx-udp-segmentation` the kernel cuts sends with `UDP_SEGMENT` into datagrams itself; they refer to the lent pages.",
"More processor time for each datagram of a train; the payload is not copied for it.",
"Turn it on, if it is not fixed (ethtool -K DEVICE tx-udp-segmentation on).";
NO_TUNNEL_OFFLOAD = "no-tunnel-offload", "The device knows nothing of tunnels", Copies, false,
"The checksum of a packet inside a vxlan or geneve tunnel is left to a device only if its driver looks into tunnels (`hw_enc_features`), and such a one has `tx-udp_tnl-segmentation` too. For another the kernel computes it (`skb_checksum_help`), and may not do so in memory that can change meanwhile.",
"Every packet is copied on its way to the device.",
"Send outside the tunnel, or through a device that knows tunnels.";
ABOVE_MTU = "datagram-above-mtu", "The datagram does not fit the MTU", Copies, true,
"A datagram longer than the MTU of the route less headers is cut into fragments, and what is cut is copied (`ip_append_data`).",
"The datagram is copied in the call.",
"Send at most what fits, send trains of segments (UDP_SEGMENT), or raise the MTU of the whole path.";
BELOW_CROSSOVER = "below-crossover", "So small that lending does not pay", Limits, false,
"Lending pages, and hearing that they are free again, has a price for each send: `MSG_ZEROCOPY` pays from about 20 KiB on over TCP and 32 KiB over UDP, io_uring from 6 KiB, with registered buffers from 4 KiB.",
"Lending takes more processor time than a plain send would.",
"Send more at once, UDP in trains of segments (UDP_SEGMENT), or let Mode::Auto choose.";
OPTMEM = "optmem-max", "Too little memory for reports", Limits, true,
"The kernel keeps a report for each `MSG_ZEROCOPY` send until it is read, and lets a socket have so many as fit into `net.core.optmem_max` (about 830 bytes each; since Linux 6.7 for each network namespace). io_uring needs none of it.",
"When that many sends are in flight the next one fails with ENOBUFS, and uncopy sends it copied.",
"Raise net.core.optmem_max (sysctl -w), keep fewer sends in flight, or use io_uring.";
MEMLOCK = "memlock", "Too little memory may be locked", Limits, true,
"Lent pages are locked, and count against `RLIMIT_MEMLOCK` of the user (`mm_account_pinned_pages`), unless the process has CAP_IPC_LOCK.",
"When that many bytes are in flight the next send fails with ENOBUFS or ENOMEM, and uncopy sends it copied.",
"Raise the limit on locked memory (ulimit -l, LimitMEMLOCK=), or keep fewer bytes in flight.";
NO_SO_ZEROCOPY = "no-so-zerocopy", "The kernel does not lend on such sockets", Copies, false,
"`SO_ZEROCOPY` cannot be set: Linux before 4.14, for UDP before 5.0, or a filter before the kernel.",
"MSG_ZEROCOPY is ignored and every send is copied.",
"Use a newer kernel, or leave the sandbox.";
SOCKET_NOT_ALLOWED = "so-zerocopy-off", "The socket does not ask for zero-copy", Note, false,
"The socket of the process does not have `SO_ZEROCOPY` set (read by `pidfd_getfd(2)` and `getsockopt(2)`). io_uring's `SEND_ZC` does not need it.",
"MSG_ZEROCOPY is ignored on it, if it is used at all.",
"";
NO_SEND_ZC = "no-send-zc", "No sending without copies through io_uring", Note, false,
"io_uring cannot be used (a kernel before 5.1, `kernel.io_uring_disabled`, a seccomp filter), or lacks `IORING_OP_SEND_ZC` (Linux 6.0).",
"MSG_ZEROCOPY is left, which pays only for larger sends.",
"";
SENDMSG_ZC_FIXED = "sendmsg-zc-fixed-broken", "Messages of registered memory are broken in this kernel", Note, false,
"`SENDMSG_ZC` with registered buffers came in Linux 6.15 and reads wrong memory before 6.17.11 (CVE-2025-68294). Told by the kernel's release.",
"uncopy sends messages of several registered slices as other memory there.",
"";
STACKED_NOTIFICATIONS = "tcp-send-zc-report", "io_uring's reports about TCP cannot be believed", Note, false,
"Since Linux 6.10 notifications of `SEND_ZC` sends that follow one another on a TCP socket are chained, and the linked ones are reported as copied whether they were or not (`io_uring/notif.c`). MSG_ZEROCOPY on the same path tells the truth.",
"Nothing is copied for it; receipts of rings say `unknown`.",
"";
EGRESS_FILTER = "tc-egress", "Filters see what is sent", Note, false,
"A queue discipline holds filters for what leaves (tc): `clsact`, or one with classes such as htb. Filters that name a class or drop packets copy nothing. Those that send packets or copies elsewhere (mirred) are followed, and told of as `turned-aside`; what is not understood, as `not-seen`.",
"By itself it copies nothing.",
"";
QUEUE_HOLDS = "queue-holds-packets", "A queue discipline holds packets back", Note, false,
"A shaping discipline (tbf, htb, netem, cbq, hfsc, cake, fq) lets packets wait in the device's queue. Buffers stay lent, reports outstanding and pages locked for as long.",
"Nothing is copied for it; more is in flight at a time, so that limits are reached earlier.",
"";
XDP = "xdp", "An XDP program sees what is received", Note, false,
"An XDP program is attached to the device. It looks at what comes in, never at what is sent.",
"Nothing that is sent is copied for it.",
"";
PROBE_COPIED = "probe-copied", "The probe was copied", Copies, false,
"The live probe (`probe`) sent large messages by `MSG_ZEROCOPY` and through io_uring, and read in the kernel's reports what became of them.",
"The kernel says that it copied them.",
"See the other findings for the reason; if there is none, sample the kernel (perf record -a -g).";
PROBE_LENT = "probe-not-copied", "The probe was not copied", Note, false,
"The live probe (`probe`) sent large messages by `MSG_ZEROCOPY` and through io_uring, and read in the kernel's reports what became of them.",
"The kernel says that it copied none of them.",
"";
PROBE_UNCLEAR = "probe-unclear", "The probe does not tell", Unknown, false,
"The kernel's reports about the live probe contradict each other, are missing, or cannot be believed: over a device without scatter-gather TCP copies and reports that it did not.",
"Whether the bytes are copied cannot be told from reports.",
"Sample the kernel (perf record -a -g), and look for functions that copy.";
NO_SOCKETS = "no-sockets", "The process has no peer", Unknown, false,
"No socket of the process is a TCP or UDP socket with a peer (`/proc/PID/fd`, `/proc/net/tcp` and its like). Sockets that name the destination with each send are not connected.",
"Nothing was looked at.",
"Ask about the addresses that it sends to (udp://HOST:PORT).";
NO_PEER = "sockets-without-peer", "Some sockets of the process name a peer with each send", Unknown, false,
"A UDP socket that is not connected may send to anybody; whom it sends to is in no table (`/proc/net/udp` shows no peer).",
"What it sends was not looked at.",
"Ask about the addresses that it sends to (udp://HOST:PORT).";
MPTCP = "mptcp", "The socket is of Multipath TCP", Copies, false,
"Multipath TCP has its own buffers: `SO_ZEROCOPY` is answered with EOPNOTSUPP, and MSG_ZEROCOPY is ignored (`net/mptcp/sockopt.c`, `mptcp_sendmsg`). Found by `SO_PROTOCOL` (`pidfd_getfd(2)`, `getsockopt(2)`).",
"Every send is copied.",
"Use a socket of TCP (IPPROTO_TCP) where that matters.";
OTHER_NAMESPACE = "other-namespace", "The process has another network", Unknown, true,
"The process lives in another network namespace (`/proc/PID/ns/net` differs): its devices, routes and taps are not those that can be seen from here.",
"Nothing can be told of its sockets.",
"Run the doctor there.";
SOCKETS_HIDDEN = "sockets-hidden", "The sockets of the process are hidden", Unknown, true,
"`/proc/PID/fd` cannot be read by this user.",
"Nothing can be told of its sockets.",
"Run the doctor as the user of the process, or as root.";
}
