//! Numbers of flags that must not be zero.

use std::str::FromStr;

/// Parses a number from 1 on. The error says what to write.
pub(crate) fn at_least_one<Number: FromStr>(text: &str) -> Result<Number, String> {
    text.parse().map_err(|_| "write a whole number from 1 on".to_owned())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::at_least_one;

    #[test]
    fn zero_and_words_are_refused() {
        assert_eq!(at_least_one::<NonZeroU16>("7").unwrap().get(), 7);
        for text in ["0", "-1", "x", "", "65536"] {
            at_least_one::<NonZeroU16>(text).unwrap_err();
        }
    }
}
