//! Texts of the doctor's conditions and next steps that name flags of this program.

use std::borrow::Cow;

use uncopy::doctor::{Condition, DoctorFinding, NextStep};

/// Texts of a condition that differ from the library's, which name its options.
struct Words {
    id: &'static str,
    about: Option<&'static str>,
    next_step: Option<&'static str>,
}

const fn about(id: &'static str, about: &'static str) -> Words {
    Words { id, about: Some(about), next_step: None }
}

const fn step(id: &'static str, next_step: &'static str) -> Words {
    Words { id, about: None, next_step: Some(next_step) }
}

const PROBE: &str = "The live probe (`--probe`) sent large messages with `MSG_ZEROCOPY` and through io_uring, \
                     and read the kernel's reports about them.";

const WORDS: &[Words] = &[
    step(
        "stacked-device-unseen",
        "Run the doctor in the other namespace too (nsenter --net), or run it for the address of the \
         tunnel's remote end.",
    ),
    step("not-seen", "Pass --probe, or check the named part yourself."),
    step(
        "ways-differ",
        "Examine a running program (--pid), pass --probe, or remove the difference between the paths.",
    ),
    step(
        "datagram-above-mtu",
        "Send smaller datagrams, send several at once with UDP_SEGMENT (--segment), or raise the MTU of \
         the whole path.",
    ),
    about("probe-copied", PROBE),
    about("probe-not-copied", PROBE),
    step(
        "other-namespace",
        "Run the doctor in that namespace (nsenter --net --target PID uncopy doctor --pid PID).",
    ),
    step(
        "channel-peer-unseen",
        "Run the doctor as root, and in the network namespace of the process (nsenter --net --target PID \
         uncopy doctor --channel PID:FD).",
    ),
    step("direct-needs-durable", "Pass --durable, --cache=skip or --prefer=cpu."),
    Words {
        id: "verification",
        about: Some(
            "With `--verify`, or the setting `verify`, both files are read and hashed after the copy.",
        ),
        next_step: Some(
            "For shared blocks --trust-shared-extents reads nothing. Otherwise do not pass --verify where \
             the copy can be repeated.",
        ),
    },
    about("in-place", "`--in-place` writes into the existing file."),
    step("no-mechanism", "Do not pass --method, --require or --no-user-copy."),
];

/// Returns the condition's section in the book.
pub(super) fn page(condition: &Condition) -> String {
    let mut condition = condition.clone();
    if let Some(words) = words(condition.id) {
        condition.about = words.about.unwrap_or(condition.about);
        condition.next_step = words.next_step.unwrap_or(condition.next_step);
    }
    condition.page()
}

/// Returns the next step for a finding.
pub(super) fn next_step(finding: &DoctorFinding) -> Option<Cow<'_, str>> {
    Some(Cow::Borrowed(match finding.next_step.as_ref()? {
        NextStep::Usual(condition) => {
            words(condition.id).and_then(|words| words.next_step).unwrap_or(condition.next_step)
        }
        NextStep::RootOrProbe => {
            "Run the doctor as root, or let it send to an address: uncopy doctor --probe tcp://HOST:PORT."
        }
        NextStep::ProbeAndOtherEnd => {
            "Pass --probe, and run the doctor in the network namespace of the other end too (nsenter --net)."
        }
        NextStep::StartReceiver => "Start uncopy bench recv there, or pass --probe-anyway.",
        step => return Some(Cow::Owned(step.to_string())),
    }))
}

fn words(id: &str) -> Option<&'static Words> {
    WORDS.iter().find(|words| words.id == id)
}

#[cfg(test)]
mod tests {
    use uncopy::doctor::{condition, conditions};

    use super::*;

    /// The sections of the book are those that `uncopy doctor --explain all` prints.
    #[test]
    fn every_condition_has_its_section_in_the_book_and_no_other_has() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor.md");
        let book = std::fs::read_to_string(path).unwrap();
        for condition in conditions() {
            assert!(
                book.contains(&page(condition)),
                "docs/doctor.md lacks or changes this section; put in what `uncopy doctor \
                 --explain {}` prints",
                condition.id
            );
        }
        let sections = book.lines().filter(|line| line.starts_with("### `")).count();
        assert_eq!(sections, conditions().count(), "sections of conditions that are gone");
    }

    #[test]
    fn words_are_of_conditions_that_there_are_and_end_as_sentences() {
        for words in WORDS {
            assert!(condition(words.id).is_some(), "{}", words.id);
            for sentence in words.about.iter().chain(&words.next_step) {
                assert!(sentence.ends_with('.') && sentence.contains("--"), "{sentence}");
            }
        }
    }
}
