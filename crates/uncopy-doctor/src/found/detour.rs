//! Rules and filters that redirect or copy packets.

use std::net::IpAddr;

use crate::worded::worded;

worded! {
    /// Rule or filter that redirects packets or sends copies of them.
    ///
    /// Displayed as a clause.
    pub enum Detour {
        /// A rule of the firewall changes the destination.
        Redirected {
            /// New destination.
            to: IpAddr,
        } = "a firewall rule sends packets to {to}";
        /// A rule of the firewall changes the destination to this machine.
        Here = "a firewall rule sends packets to this machine";
        /// A rule of the firewall sets a mark, with which the route is looked up again.
        Marked {
            /// New mark.
            mark: u32,
        } = "a firewall rule sets the mark {mark:#x} on packets";
        /// A rule of the firewall sends a copy to an address.
        CopiedTo {
            /// Address of the copy.
            to: IpAddr,
        } = "a firewall rule sends a copy to {to}";
        /// A rule of a device sends copies over another one.
        RuleCopies {
            /// Device with the rule.
            device: String,
            /// Device of the copies.
            over: String,
        } = "a rule on {device} sends copies over {over}";
        /// A rule of a device sends packets over another one instead.
        RuleRedirects {
            /// Device with the rule.
            device: String,
            /// Device that packets leave through.
            over: String,
        } = "a rule on {device} sends packets over {over}";
        /// A filter of a queue discipline sends copies over another device.
        FilterCopies {
            /// Device with the filter.
            device: String,
            /// Device of the copies.
            over: String,
        } = "a filter on {device} sends copies over {over}";
        /// A filter of a queue discipline sends packets over another device instead.
        FilterRedirects {
            /// Device with the filter.
            device: String,
            /// Device that packets leave through.
            over: String,
        } = "a filter on {device} sends packets over {over}";
    }
}
