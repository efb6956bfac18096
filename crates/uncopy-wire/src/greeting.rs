//! Greetings: the first bytes of each side, behind whatever a login shell prints.

use crate::Violation;
use crate::codec::{Reader, Writer};

/// Maximum number of bytes before a greeting.
pub const MAX_BANNER_BYTES: usize = 64 << 10;

/// Begins each greeting. No text begins so.
const MAGIC: [u8; 16] = *b"\0\xffuncopy wire\r\n\x1a";
/// Lowest and highest version, length of the program's version.
const HEAD_BYTES: usize = MAGIC.len() + 2 + 2 + 1;

/// Versions of the protocol that a side speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// Lowest version.
    pub min: u16,
    /// Highest version.
    pub max: u16,
}

impl Versions {
    /// Versions of this build.
    pub const OWN: Versions = Versions { min: crate::MIN_VERSION, max: crate::VERSION };

    /// Returns the highest version that both sides speak.
    ///
    /// # Errors
    /// There is none.
    pub fn common(self, peer: Versions) -> Result<u16, Violation> {
        let highest = self.max.min(peer.max);
        match highest >= self.min.max(peer.min) {
            true => Ok(highest),
            false => Err(Violation::NoCommonVersion { min: peer.min, max: peer.max }),
        }
    }
}

/// Greeting of a side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// Versions of the protocol.
    pub versions: Versions,
    /// Version of the program, for people: at most 255 bytes.
    pub program: String,
}

impl Greeting {
    /// Encodes it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut length = self.program.len().min(255);
        while !self.program.is_char_boundary(length) {
            length -= 1;
        }
        let mut writer = Writer::default();
        writer.raw(&MAGIC).u16(self.versions.min).u16(self.versions.max);
        writer.u8(length as u8).raw(&self.program.as_bytes()[..length]);
        writer.0
    }
}

/// Search for a greeting behind a banner.
#[derive(Debug, Default)]
pub struct GreetingSearch {
    bytes: Vec<u8>,
    /// Offset before which no greeting begins.
    searched: usize,
}

impl GreetingSearch {
    /// Adds received bytes. Returns the greeting once it is whole, and the bytes behind it.
    ///
    /// # Errors
    /// There is none within [`MAX_BANNER_BYTES`], or it is malformed.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Option<(Greeting, Vec<u8>)>, Violation> {
        self.bytes.extend_from_slice(bytes);
        let rest = self.bytes.get(self.searched..).unwrap_or_default();
        let found = rest.windows(MAGIC.len()).position(|window| window == MAGIC);
        let begin = match found {
            Some(found) => self.searched + found,
            None => self.searched.max((self.bytes.len() + 1).saturating_sub(MAGIC.len())),
        };
        self.searched = begin;
        if begin > MAX_BANNER_BYTES {
            return Err(Violation::NoGreeting);
        }
        if found.is_none() {
            return Ok(None);
        }
        let greeting = &self.bytes[begin..];
        let Some(length) = greeting.get(HEAD_BYTES - 1) else { return Ok(None) };
        let end = HEAD_BYTES + usize::from(*length);
        let Some(whole) = greeting.get(MAGIC.len()..end) else { return Ok(None) };
        let mut reader = Reader::new(whole, "greeting");
        let versions = Versions { min: reader.u16()?, max: reader.u16()? };
        let length = reader.u8()?;
        let program = String::from_utf8_lossy(reader.raw(length.into())?).into_owned();
        if versions.min > versions.max {
            return Err(reader.malformed());
        }
        Ok(Some((Greeting { versions, program }, greeting[end..].to_vec())))
    }

    /// Returns what came before a greeting, to be shown where none comes.
    #[must_use]
    pub fn banner(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting() -> Greeting {
        Greeting { versions: Versions { min: 1, max: 3 }, program: "0.1.0 (é)".into() }
    }

    #[test]
    fn greetings_are_found_behind_banners_however_they_are_cut() {
        let lookalike = [&MAGIC[..15], b"x"].concat();
        for banner in [vec![], b"Welcome!\n".to_vec(), lookalike, vec![0; MAX_BANNER_BYTES]] {
            let bytes = [&banner[..], &greeting().encode(), b"behind"].concat();
            for step in [1, 7, bytes.len()] {
                let (mut search, mut found) = (GreetingSearch::default(), None);
                let mut behind = Vec::new();
                for piece in bytes.chunks(step) {
                    match &found {
                        Some(_) => behind.extend_from_slice(piece),
                        None => {
                            if let Some((greeting, rest)) = search.feed(piece).unwrap() {
                                found = Some(greeting);
                                behind = rest;
                            }
                        }
                    }
                }
                assert_eq!(found, Some(greeting()), "{step}");
                assert_eq!(behind, b"behind", "{step}");
            }
        }
    }

    #[test]
    fn endless_banners_and_bad_greetings_end_the_search() {
        let mut search = GreetingSearch::default();
        assert_eq!(search.feed(&[b'x'; MAX_BANNER_BYTES]), Ok(None));
        assert_eq!(search.feed(&[b'x'; 15]), Ok(None));
        assert_eq!(search.feed(b"x"), Err(Violation::NoGreeting));
        // One byte too late.
        let late = [&vec![b'x'; MAX_BANNER_BYTES + 1], &greeting().encode()[..]].concat();
        assert_eq!(GreetingSearch::default().feed(&late), Err(Violation::NoGreeting));
        let swapped = Greeting { versions: Versions { min: 2, max: 1 }, program: String::new() };
        let malformed = Violation::Malformed { what: "greeting" };
        assert_eq!(GreetingSearch::default().feed(&swapped.encode()), Err(malformed));
    }

    #[test]
    fn the_highest_common_version_is_spoken() {
        let versions = |min, max| Versions { min, max };
        for (own, peer, expected) in [
            (versions(1, 1), versions(1, 1), Some(1)),
            (versions(1, 3), versions(2, 9), Some(3)),
            (versions(2, 9), versions(1, 3), Some(3)),
            (versions(1, 2), versions(3, 4), None),
            (versions(3, 4), versions(1, 2), None),
        ] {
            assert_eq!(own.common(peer).ok(), expected, "{own:?} {peer:?}");
        }
    }
}
