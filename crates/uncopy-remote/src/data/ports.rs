//! Ports on which a listener may listen.

use std::ops::RangeInclusive;

/// Ports to try, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// Any free port, of the system's choice.
    pub const ANY: PortRange = PortRange { first: 0, last: 0 };

    /// Returns the range from `first` to `last`; `None`: there is none.
    #[must_use]
    pub fn new(first: u16, last: u16) -> Option<PortRange> {
        (first <= last && (first != 0 || last == 0)).then_some(PortRange { first, last })
    }

    /// Returns the ports; 0 alone stands for any.
    #[must_use]
    pub fn ports(&self) -> RangeInclusive<u16> {
        self.first..=self.last
    }
}
