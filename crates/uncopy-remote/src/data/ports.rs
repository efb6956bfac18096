//! Ports on which a listener may listen.

use std::ops::RangeInclusive;
use std::str::FromStr;

/// Ports to try, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

/// Text that is no range of ports.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} is no range of ports: write 0 for any free port, one port, or two as in 7000-7010"
)]
pub struct BadPorts {
    /// The text.
    pub given: String,
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

impl FromStr for PortRange {
    type Err = BadPorts;

    fn from_str(text: &str) -> Result<PortRange, BadPorts> {
        let bad = || BadPorts { given: text.to_owned() };
        // The standard parser takes a plus sign too.
        let port = |part: &str| {
            let is_plain = part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse::<u16>().ok().filter(|_| is_plain).ok_or_else(bad)
        };
        let (first, last) = match text.split_once('-') {
            Some((first, last)) => (port(first)?, port(last)?),
            None => (port(text)?, port(text)?),
        };
        PortRange::new(first, last).ok_or_else(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        let cases = [
            ("0", Some(0..=0)),
            ("0-0", Some(0..=0)),
            ("22", Some(22..=22)),
            ("7000-7010", Some(7000..=7010)),
            ("65535-65535", Some(65535..=65535)),
            ("", None),
            ("-", None),
            ("7000-", None),
            ("-7000", None),
            ("7010-7000", None),
            ("0-7000", None),
            ("+7000", None),
            ("7000-+7001", None),
            ("7000 - 7001", None),
            ("65536", None),
            ("1-2-3", None),
            ("http", None),
        ];
        for (text, ports) in cases {
            let read = text.parse::<PortRange>();
            assert_eq!(read.as_ref().ok().map(PortRange::ports), ports, "{text:?}");
            if let Err(error) = read {
                assert_eq!(error.given, text);
            }
        }
        assert_eq!("0".parse(), Ok(PortRange::ANY));
    }
}
