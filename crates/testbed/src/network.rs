//! Networks for one test: a new namespace, with devices that exist only there.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use uncopy::send::InetSocket;

use crate::LONG;
use crate::process::run_tool;
use crate::relay::RelayEnd;
pub use crate::sys::reports::Reports;
use crate::sys::{namespace, reports, silent, tap, tun, xdp};

/// Requirements of a test in a network namespace.
pub const NEEDS: &[crate::Need] =
    &[crate::Need::Root, crate::Need::Tool("ip"), crate::Need::Tool("tc")];

/// The network of one test.
///
/// Contains every socket that its thread opens and every process that it starts.
#[derive(Debug, Clone, Copy)]
pub struct Network(());

/// An end of a link. Each has an IPv4 and an IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// This end.
    Near,
    /// The other end, which may be absent.
    Far,
}

impl End {
    /// Returns its address, with this port.
    #[must_use]
    pub fn address(self, is_v6: bool, port: u16) -> SocketAddr {
        let text = match (self, is_v6) {
            (End::Near, false) => "10.11.0.1",
            (End::Far, false) => "10.11.0.2",
            (End::Near, true) => "fd11::1",
            (End::Far, true) => "fd11::2",
        };
        SocketAddr::new(text.parse().expect("an address"), port)
    }

    /// Returns its address at a relay, with this port.
    #[must_use]
    pub fn relay_address(self, port: u16) -> SocketAddr {
        let last = match self {
            End::Near => 1,
            End::Far => 2,
        };
        SocketAddr::from(([10, 12, 0, last], port))
    }
}

/// Moves the calling thread into a new network namespace, where `lo` is up.
///
/// # Panics
/// If the namespace cannot be created.
pub fn enter() -> Network {
    namespace::leave_network().expect("root may leave its network");
    let network = Network::here();
    network.ip("link set lo up");
    network
}

/// Runs `body` in a new network namespace, which ends with its last socket.
///
/// # Panics
/// If `body` panics, or the namespace cannot be created.
pub fn isolated<T: Send>(body: impl FnOnce(&Network) -> T + Send) -> T {
    let inside = || body(&enter());
    let ended = std::thread::scope(|scope| scope.spawn(inside).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Runs `near` and `far` in a network each, with a veth link between them.
///
/// # Panics
/// If one of them panics, or the link cannot be created.
pub fn linked<T: Send>(
    near: impl FnOnce(&Network) -> T + Send,
    far: impl FnOnce(&Network) + Send,
) -> T {
    let (far_is, near_waits): (Sender<i32>, Receiver<i32>) = channel();
    let (near_has, far_waits): (Sender<()>, Receiver<()>) = channel();
    std::thread::scope(|scope| {
        let far = scope.spawn(move || {
            isolated(move |network| {
                let thread = rustix::thread::gettid().as_raw_nonzero().get();
                far_is.send(thread).expect("the other side waits");
                far_waits.recv().expect("the other side makes the link");
                network.address("veth1", End::Far);
                far(network);
            });
        });
        let result = isolated(move |network| {
            let thread = near_waits.recv().expect("the far side begins");
            network.ip("link add veth0 type veth peer name veth1");
            network.ip(&format!("link set veth1 netns {thread}"));
            network.address("veth0", End::Near);
            near_has.send(()).expect("the far side waits");
            near(network)
        });
        far.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result
    })
}

impl Network {
    /// Returns the network of the calling thread.
    #[must_use]
    pub fn here() -> Network {
        Network(())
    }

    /// Runs `ip` with these arguments.
    ///
    /// # Panics
    /// If it fails.
    pub fn ip(&self, words: &str) {
        run_tool("ip", words.split_whitespace());
    }

    /// Runs `tc` with these arguments.
    ///
    /// # Panics
    /// If it fails.
    pub fn tc(&self, words: &str) {
        run_tool("tc", words.split_whitespace());
    }

    /// Runs `ethtool` with these arguments.
    ///
    /// # Panics
    /// If it fails.
    pub fn ethtool(&self, words: &str) {
        run_tool("ethtool", words.split_whitespace());
    }

    /// Runs `nft` with these arguments.
    ///
    /// # Panics
    /// If it fails.
    pub fn nft(&self, words: &str) {
        run_tool("nft", words.split_whitespace());
    }

    /// Returns the number of packets passed to the device for sending. A packet that the device
    /// segments counts once.
    ///
    /// # Panics
    /// If there is no such device.
    #[must_use]
    pub fn packets(&self, device: &str) -> u64 {
        let text = run_tool("ip", ["-j", "-s", "link", "show", "dev", device]);
        let statistics: serde_json::Value = serde_json::from_str(&text).expect("ip speaks JSON");
        // An ifb counts these packets as received (`ifb_xmit` in `drivers/net/ifb.c`).
        statistics[0]["stats64"]["rx"]["packets"].as_u64().expect("the device counts")
    }

    /// Sets a number below `/proc/sys` that belongs to the namespace.
    ///
    /// # Panics
    /// If it cannot be set.
    pub fn set(&self, name: &str, value: u64) {
        self.set_text(name, &value.to_string());
    }

    fn set_text(&self, name: &str, value: &str) {
        // Shows the network of the thread that opens it.
        let path = format!("/proc/sys/{name}");
        std::fs::write(&path, value).unwrap_or_else(|e| panic!("{path}: {e}"));
    }

    /// Sets the congestion control of new TCP connections. In a network of its own only those of
    /// `tcp_allowed_congestion_control` can be had.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_congestion_control(&self, name: &str) -> std::io::Result<()> {
        std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", name)
    }

    /// Allows unanswered TCP connections over the sink to accept 64 MiB and send all of it at once.
    ///
    /// # Panics
    /// If that cannot be set.
    pub fn wide_windows(&self) {
        self.set_text("net/ipv4/tcp_wmem", "4096 67108864 67108864");
        for is_v6 in [false, true] {
            let far = End::Far.address(is_v6, 0).ip();
            self.ip(&format!("route replace {far} dev sink initcwnd 20000"));
        }
    }

    /// Adds the addresses of an end to a device, and sets it up.
    fn address(&self, device: &str, end: End) {
        let (four, six) = (end.address(false, 0).ip(), end.address(true, 0).ip());
        self.ip(&format!("address add {four}/24 dev {device}"));
        self.ip(&format!("address add {six}/64 dev {device} nodad"));
        self.ip(&format!("link set {device} up"));
    }

    /// Creates a device `sink` that drops packets for [`End::Far`] without copying them: it has
    /// scatter-gather and checksum offload, and no listener. A packet holds datagrams of up to
    /// 65,507 bytes.
    pub fn sink(&self) {
        self.ip("link add sink type ifb");
        self.ip("link set sink mtu 65535");
        self.address("sink", End::Near);
        for is_v6 in [false, true] {
            let far = End::Far.address(is_v6, 0).ip();
            self.ip(&format!(
                "neighbour add {far} lladdr 02:00:00:00:00:02 dev sink nud permanent"
            ));
        }
    }

    /// Makes a TCP connection over the sink to a peer that never answers.
    ///
    /// # Panics
    /// If the kernel refuses.
    #[must_use]
    pub fn silent_connection(&self, is_v6: bool, port: u16) -> InetSocket {
        let (near, far) = (End::Near.address(is_v6, port), End::Far.address(is_v6, port));
        silent::connect_socket(near, far).unwrap_or_else(|error| panic!("TCP_REPAIR: {error}"))
    }

    /// Makes such a connection over IPv4, as a plain descriptor.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn bare_silent_connection(&self, port: u16) -> std::io::Result<OwnedFd> {
        silent::connect(End::Near.address(false, port), End::Far.address(false, port))
    }

    /// Starts a packet tap on every device, which stops when dropped.
    ///
    /// # Panics
    /// If the kernel refuses.
    #[must_use]
    pub fn tap(&self) -> Tap {
        self.tap_of(ALL_PROTOCOLS, None, false)
    }

    /// Starts a packet socket for a protocol (`linux/if_ether.h`) on one device or all, which stops
    /// when dropped.
    ///
    /// # Panics
    /// If the kernel refuses.
    #[must_use]
    pub fn tap_of(&self, protocol: u16, device: Option<&str>, ignores_outgoing: bool) -> Tap {
        let device = device.map_or(0, |name| self.index_of(name));
        let socket = tap::open(protocol, device, ignores_outgoing);
        Tap { socket: Some(socket.expect("root may open packet sockets")) }
    }

    /// Creates a tun device with this address, whose packets are not read until the result is
    /// dropped; that removes the device.
    ///
    /// # Panics
    /// If the kernel refuses.
    #[must_use]
    pub fn tun(&self, device: &str, address: &str) -> Attached {
        let held = tun::open(device).expect("root may make devices");
        self.ip(&format!("address add {address} dev {device}"));
        self.ip(&format!("link set {device} up"));
        Attached { _link: held }
    }

    /// Creates an end of a [`Relay`](crate::Relay), with its IPv4 address of [`End::relay_address`]. Packets wait there
    /// until it is started.
    ///
    /// # Panics
    /// If the kernel refuses.
    #[must_use]
    pub fn relay_end(&self, end: End) -> RelayEnd {
        let device = match end {
            End::Near => "relay0",
            End::Far => "relay1",
        };
        let made = RelayEnd::new(tun::open(device).expect("root may make devices"));
        self.ip(&format!("address add {}/24 dev {device}", end.relay_address(0).ip()));
        // As many as a window of a long line holds, so that the relay alone decides what is lost.
        self.ip(&format!("link set {device} txqueuelen 100000 up"));
        made
    }

    /// Attaches a program to a device's receive path (XDP), until the result is dropped.
    ///
    /// # Panics
    /// If the kernel refuses.
    #[must_use]
    pub fn xdp(&self, device: &str) -> Attached {
        self.attach(device, xdp::Place::Received)
    }

    /// Attaches a program to a device's receive path, run by the device's driver.
    ///
    /// # Panics
    /// If the kernel refuses.
    #[must_use]
    pub fn xdp_by_driver(&self, device: &str) -> Attached {
        self.attach(device, xdp::Place::ByDriver)
    }

    /// Attaches a program to a device's send path (tcx).
    ///
    /// # Panics
    /// If the kernel refuses.
    #[must_use]
    pub fn egress_program(&self, device: &str) -> Attached {
        self.attach(device, xdp::Place::Sent)
    }

    fn attach(&self, device: &str, place: xdp::Place) -> Attached {
        let link = xdp::attach(self.index_of(device), place);
        Attached { _link: link.expect("root may attach programs") }
    }

    /// Returns the index of a device.
    ///
    /// # Panics
    /// If there is no such device.
    #[must_use]
    pub fn index_of(&self, device: &str) -> u32 {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback is up");
        rustix::net::netdevice::name_to_index(&socket, device).expect("the device is there")
    }
}

/// `ETH_P_ALL` (`linux/if_ether.h`).
pub const ALL_PROTOCOLS: u16 = 0x0003;

/// Returns the error of taking over a local socket (`unix(7)`) for sends without copying.
///
/// # Panics
/// If there is no error.
#[must_use]
pub fn refusal_of_a_local_socket() -> uncopy::Error {
    silent::adopt_local().unwrap_or_else(|error| panic!("a local socket: {error}"))
}

/// Makes a UDP socket that sends to `peer`, and whose error queue also reports other events than
/// its sends without copying.
///
/// # Panics
/// If the kernel refuses.
#[must_use]
pub fn reporting(peer: SocketAddr, reports: Reports) -> InetSocket {
    reports::connect(peer, reports).unwrap_or_else(|error| panic!("{reports:?}: {error}"))
}

/// A program attached to a device.
#[derive(Debug)]
pub struct Attached {
    _link: OwnedFd,
}

/// A running packet tap, like that of `tcpdump`.
#[derive(Debug)]
pub struct Tap {
    socket: Option<OwnedFd>,
}

/// Stops when the last descriptor is closed. A program that another thread is just starting holds
/// one until `execve(2)` closes it.
impl Drop for Tap {
    fn drop(&mut self) {
        let inode = self.socket.take().and_then(|socket| rustix::fs::fstat(socket).ok());
        let Some(inode) = inode.map(|stat| stat.st_ino.to_string()) else { return };
        let is_open = || {
            let table = std::fs::read_to_string("/proc/thread-self/net/packet").unwrap_or_default();
            table.lines().any(|line| line.split_whitespace().last() == Some(&inode))
        };
        let begin = Instant::now();
        while is_open() && begin.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
