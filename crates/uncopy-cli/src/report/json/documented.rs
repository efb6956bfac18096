//! Tests that `docs/json.md` lists exactly the codes that exist.

use uncopy::capabilities::AnswerReason;
use uncopy::{CompressionReason, Note, RefusalReason};

/// Returns the first cells of the table below this heading.
pub(crate) fn listed(heading: &str) -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
    let page = std::fs::read_to_string(path).unwrap();
    let below = page.lines().skip_while(|line| *line != heading).skip(1);
    let section = below.take_while(|line| !line.starts_with('#'));
    let rows = section.filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(code, _)| code.to_owned()).collect()
}

#[test]
fn codes_of_refusals_are_documented() {
    assert_eq!(listed("### Codes of refusals"), RefusalReason::CODES);
}

#[test]
fn codes_of_notes_are_documented() {
    assert_eq!(listed("### Codes of notes"), Note::CODES);
}

#[test]
fn codes_of_compression_are_documented() {
    assert_eq!(listed("### Codes of compression"), CompressionReason::CODES);
}

#[test]
fn codes_of_answers_are_documented() {
    assert_eq!(listed("### Codes of answers"), AnswerReason::CODES);
}
