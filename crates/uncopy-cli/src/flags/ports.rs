//! Ranges of ports.

/// Ports from the first to the last one; 0 alone stands for any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) first: u16,
    pub(crate) last: u16,
}

/// Parses a port, or two as in 7000-7010.
///
/// # Errors A clause that says what is valid.
pub(crate) fn parse(text: &str) -> Result<Ports, &'static str> {
    let bad = "write 0 for any free port, one port, or two as in 7000-7010";
    // The standard parser takes a plus sign too.
    let port = |part: &str| {
        let is_plain = part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u16>().ok().filter(|_| is_plain).ok_or(bad)
    };
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (port(first)?, port(last)?),
        None => (port(text)?, port(text)?),
    };
    let is_range = first <= last && (first != 0 || last == 0);
    if is_range { Ok(Ports { first, last }) } else { Err(bad) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        let cases = [
            ("0", Some([0, 0])),
            ("0-0", Some([0, 0])),
            ("22", Some([22, 22])),
            ("7000-7010", Some([7000, 7010])),
            ("65535-65535", Some([65535, 65535])),
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
            let found = parse(text).ok().map(|ports| [ports.first, ports.last]);
            assert_eq!(found, ports, "{text:?}");
        }
    }
}
