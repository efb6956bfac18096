//! Lines between the two machines: the link itself, and slow ones.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use testbed::network::{End, Network};
use testbed::{LineConditions, Relay};

use super::far::Far;

/// The port of the server, in a network where no other one is.
pub(super) const PORT: u16 = 2222;

/// A line on which packets come late or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlowLine {
    /// In names of cases.
    pub(super) name: &'static str,
    pub(super) conditions: LineConditions,
    /// Congestion control of both machines; the kernel's own choice where there is none.
    pub(super) congestion_control: Option<&'static str>,
}

impl SlowLine {
    /// A round trip of 50 ms, and no loss.
    pub(super) const DELAYED: SlowLine = SlowLine {
        name: "50ms",
        conditions: LineConditions { delay: Duration::from_millis(25), lost_per_million: 0 },
        congestion_control: None,
    };

    /// A round trip of 100 ms, on which one packet of a thousand is lost.
    pub(super) const LOSSY: [SlowLine; 2] =
        [SlowLine::lossy("100ms-bbr", "bbr"), SlowLine::lossy("100ms-cubic", "cubic")];

    const fn lossy(name: &'static str, congestion_control: &'static str) -> SlowLine {
        let conditions =
            LineConditions { delay: Duration::from_millis(50), lost_per_million: 1000 };
        SlowLine { name, conditions, congestion_control: Some(congestion_control) }
    }

    /// Joins the two machines by this line, too. A reason means that it cannot be had here.
    pub(super) fn join(self, far: &Far) -> Result<std::result::Result<Relay, String>> {
        if let Some(name) = self.congestion_control {
            let set = Network::here().set_congestion_control(name);
            if set.and(far.run(move |network| network.set_congestion_control(name))?).is_err() {
                return Ok(Err(format!(
                    "{name} is not for networks of their own here: net.ipv4.tcp_allowed_congestion_control"
                )));
            }
        }
        let far_end = far.run(|network| network.relay_end(End::Far))?;
        Ok(Ok(Relay::start(Network::here().relay_end(End::Near), far_end, self.conditions)))
    }
}

/// Where the server answers logins.
pub(super) fn address(line: Option<SlowLine>) -> SocketAddr {
    match line {
        None => End::Far.address(false, PORT),
        Some(_) => End::Far.relay_address(PORT),
    }
}
