//! Names the machine of the destination in the events of a copy to another one.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::flags::operand::Machine;

/// Keys of paths at the destination.
const KEYS: [&str; 3] = ["destination", "linked_to", "path"];

/// Writes the machine before each path at the destination.
pub(super) fn name(event: &mut Map<String, Value>, machine: &Machine) {
    let text =
        |event: &Map<String, Value>, key| event.get(key).and_then(Value::as_str).map(str::to_owned);
    let subject = text(event, "subject");
    let is_there = event.get("side").is_some_and(|side| side == "destination")
        || (subject.is_some() && subject == text(event, "destination"));
    for key in KEYS.into_iter().chain(is_there.then_some("subject")) {
        name_key(event, key, machine);
    }
    let leftovers = event.get_mut("leftovers").and_then(Value::as_array_mut);
    for leftover in leftovers.into_iter().flatten().filter_map(Value::as_object_mut) {
        name_key(leftover, "path", machine);
    }
}

fn name_key(event: &mut Map<String, Value>, key: &str, machine: &Machine) {
    // Empty, it ends where the path begins.
    let machine_name = machine.with_path(Path::new("")).to_string_lossy().into_owned();
    let Some(path) = event.get(key).and_then(Value::as_str) else { return };
    let named = format!("{machine_name}{}", part(machine, path));
    event.insert(key.to_owned(), named.into());
    // The bytes of a name that is not UTF-8.
    let key = format!("{key}_base64");
    let bytes = event.get(&key).and_then(Value::as_str);
    if let Some(bytes) = bytes.and_then(|bytes| STANDARD.decode(bytes).ok()) {
        let without = match machine.port {
            Some(_) => bytes.strip_prefix(b"/").unwrap_or(&bytes),
            None => &bytes,
        };
        let named = [machine_name.as_bytes(), without].concat();
        event.insert(key, STANDARD.encode(named).into());
    }
}

/// Returns what is written of a path behind the name of a machine.
fn part<'a>(machine: &Machine, path: &'a str) -> &'a str {
    match machine.port {
        Some(_) => path.strip_prefix('/').unwrap_or(path),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_path_at_the_destination_has_its_machine() {
        let machine = Machine { user: None, host: "far".to_owned(), port: None };
        let cases = [
            (
                json!({"source": "a", "destination": "b"}),
                json!({"source": "a", "destination": "far:b"}),
            ),
            (
                json!({"destination": "/b", "linked_to": "/c", "leftovers": [{"path": "/d"}]}),
                json!({"destination": "far:/b", "linked_to": "far:/c", "leftovers": [{"path": "far:/d"}]}),
            ),
            (json!({"path": ".uncopy.x"}), json!({"path": "far:.uncopy.x"})),
            (
                json!({"subject": "a", "side": "destination"}),
                json!({"subject": "far:a", "side": "destination"}),
            ),
            (
                json!({"subject": "a", "destination": "a"}),
                json!({"subject": "far:a", "destination": "far:a"}),
            ),
            (
                json!({"subject": "a", "destination": "b"}),
                json!({"subject": "a", "destination": "far:b"}),
            ),
            (
                json!({"destination": "b\u{fffd}", "destination_base64": STANDARD.encode(b"b\xff")}),
                json!({
                    "destination": "far:b\u{fffd}", "destination_base64": STANDARD.encode(b"far:b\xff"),
                }),
            ),
        ];
        let with_port = Machine { port: Some(22), ..machine.clone() };
        let mut event = Map::from_iter([("path".to_owned(), json!("/srv"))]);
        name(&mut event, &with_port);
        assert_eq!(event["path"], "ssh://far:22/srv");
        for (event, expected) in cases {
            let Value::Object(mut event) = event else { panic!() };
            name(&mut event, &machine);
            assert_eq!(Value::Object(event), expected);
        }
    }
}
