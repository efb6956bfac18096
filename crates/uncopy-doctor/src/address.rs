//! Formatting of addresses.

use std::net::{IpAddr, SocketAddr};

/// Formats an address: `10.0.0.2:80`, `[fd00::1]:80`; without the port if it is 0.
pub(crate) fn shown(address: SocketAddr) -> String {
    match (address.port(), address.ip()) {
        (0, IpAddr::V4(ip)) => ip.to_string(),
        (0, IpAddr::V6(ip)) => format!("[{ip}]"),
        _ => address.to_string(),
    }
}
