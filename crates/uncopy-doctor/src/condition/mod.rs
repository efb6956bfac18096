//! The table of all conditions of the doctor. Reports and the book are generated from it.

mod between;
mod channel;
mod files;
mod network;
mod system;

use std::fmt::Write as _;

pub(crate) use between::*;
pub(crate) use channel::*;
pub(crate) use files::*;
pub(crate) use network::*;
pub(crate) use system::*;

use super::severity::Severity;

/// A condition under which bytes are or may be copied, or that is useful to know.
///
/// The texts name options of the library. A program may replace them by texts with its flags.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Condition {
    /// Its stable name: `tap-eth-p-all`.
    pub id: &'static str,
    /// Title, also the heading of its section in the book.
    pub title: &'static str,
    /// Topic.
    pub topic: Topic,
    /// Usual severity.
    pub severity: Severity,
    /// Cause, and how it is found.
    pub about: &'static str,
    /// Effect on the bytes.
    pub effect: &'static str,
    /// Next step for a person; empty: none is needed.
    pub next_step: &'static str,
    /// Whether the next step needs root.
    pub needs_root: bool,
}

/// Topic of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Sending over TCP and UDP.
    Network,
    /// Copying files.
    Files,
    /// Limits, channels, the kernel.
    System,
}

impl Topic {
    /// Every topic.
    pub const ALL: [Topic; 3] = [Topic::Network, Topic::Files, Topic::System];

    /// Returns the name in reports: `network`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Topic::Network => "network",
            Topic::Files => "files",
            Topic::System => "system",
        }
    }
}

/// Defines constants of conditions, and their list.
macro_rules! table {
    ($topic:expr; $($name:ident = $id:literal, $title:literal, $severity:ident, $root:literal,
        $about:literal, $effect:literal, $next_step:literal;)*) => {
        $(
            pub(crate) static $name: $crate::condition::Condition =
                $crate::condition::Condition {
                    id: $id,
                    title: $title,
                    topic: $topic,
                    severity: $crate::severity::Severity::$severity,
                    about: $about,
                    effect: $effect,
                    next_step: $next_step,
                    needs_root: $root,
                };
        )*
        pub(super) static LIST: &[&$crate::condition::Condition] = &[$(&$name),*];
    };
}
use table;

/// Returns every condition, by topic.
pub fn conditions() -> impl Iterator<Item = &'static Condition> {
    [network::LIST, files::LIST, system::LIST, channel::LIST, between::LIST]
        .into_iter()
        .flatten()
        .copied()
}

/// Returns the condition of this id.
#[must_use]
pub fn condition(id: &str) -> Option<&'static Condition> {
    conditions().find(|condition| condition.id == id)
}

impl Condition {
    /// Returns its section in the book, in Markdown.
    #[must_use]
    pub fn page(&self) -> String {
        let mut page = format!("### `{}`: {}\n\n", self.id, self.title);
        let _ =
            write!(page, "{}\n\n- **Means**: `{}`. {}\n", self.about, self.severity, self.effect);
        let root = if self.needs_root { " Needs root." } else { "" };
        match self.next_step {
            "" => page.push_str("- **Next step**: none is needed.\n"),
            step => {
                let _ = writeln!(page, "- **Next step**: {step}{root}");
            }
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_names_and_differ() {
        let mut seen = HashSet::new();
        for condition in conditions() {
            assert!(seen.insert(condition.id), "{} twice", condition.id);
            assert!(
                condition
                    .id
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
                "{}",
                condition.id
            );
            for sentence in [condition.about, condition.effect] {
                assert!(sentence.ends_with('.'), "{}: {sentence}", condition.id);
            }
            assert!(condition.next_step.is_empty() || condition.next_step.ends_with('.'));
            assert!(!condition.needs_root || !condition.next_step.is_empty(), "{}", condition.id);
        }
    }
}
