//! Packet sockets and their holders.

use super::ProcessName;
use crate::worded::worded;

worded! {
    /// Holder of a packet socket.
    pub enum TapHolder {
        /// Process that shows its descriptors.
        Process {
            /// Name and id.
            process: ProcessName,
        } = "{process}";
        /// Unknown process, of which only the user is seen.
        Somebody {
            /// Id of the user who opened the socket.
            user: u32,
        } = "an unknown process (user id {user})";
    }
}

worded! {
    /// Devices that a packet socket is bound to.
    pub enum TapPlace {
        /// No device in particular.
        AllDevices = "all devices";
        /// Device on the path of packets.
        Device {
            /// Name of the device.
            name: String,
        } = "{name}";
        /// Device that packets do not leave through.
        OtherDevice {
            /// Index of the device.
            index: u32,
        } = "device {index}";
    }
}

worded! {
    /// Packet socket, by the packets that it sees.
    ///
    /// Displayed as a clause.
    pub enum TapFound {
        /// Socket for every protocol.
        Tap {
            /// Holder of the socket.
            holder: TapHolder,
            /// Place that it is bound to.
            place: TapPlace,
        } = "{holder} holds a packet tap on {place}";
        /// Socket for one protocol.
        OneProtocol {
            /// Holder of the socket.
            holder: TapHolder,
            /// Place that it is bound to.
            place: TapPlace,
        } = "{holder} holds a packet socket on {place}";
        /// Socket that ignores outgoing packets.
        Receiving {
            /// Holder of the socket.
            holder: TapHolder,
            /// Place that it is bound to.
            place: TapPlace,
        } = "{holder} holds a receiving tap on {place}";
        /// Socket that is not running.
        Idle {
            /// Holder of the socket.
            holder: TapHolder,
            /// Place that it is bound to.
            place: TapPlace,
        } = "{holder} holds an idle packet tap on {place}";
    }
}
