//! Facts about a channel for programs, documented in `docs/json.md`.

use serde::Serialize;
use uncopy::doctor::{ChannelEnd, ChannelFacts, ChannelHolder, FarEnd};

/// Facts about a channel.
#[derive(Serialize)]
pub(super) struct ChannelJson<'a> {
    far: &'static str,
    holders_complete: bool,
    requested_bytes: u64,
    wmem_max_bytes: Option<u64>,
    ends: Vec<End<'a>>,
}

/// One end, the examined one first.
#[derive(Serialize)]
struct End<'a> {
    inode: u64,
    shut_down: bool,
    send_buffer_bytes: Option<u64>,
    sent_bytes: Option<u64>,
    unread_bytes: Option<u64>,
    unread_descriptors: Option<u64>,
    holds: Vec<Room>,
    options: Option<&'a [&'static str]>,
    filter: Option<bool>,
    holders: Vec<Holder<'a>>,
}

/// Number of messages of a size that the send buffer holds.
#[derive(Serialize)]
struct Room {
    message_bytes: u64,
    messages: u64,
}

/// A process that holds an end.
#[derive(Serialize)]
struct Holder<'a> {
    pid: u32,
    program: &'a str,
    descriptor: i32,
    state: Option<char>,
    frozen: bool,
    open_files: Option<u64>,
    max_open_files: Option<u64>,
    locked_bytes: Option<u64>,
    max_locked_bytes: Option<u64>,
}

impl<'a> From<&'a ChannelFacts> for ChannelJson<'a> {
    fn from(facts: &'a ChannelFacts) -> ChannelJson<'a> {
        ChannelJson {
            far: match facts.far {
                FarEnd::Open(_) => "open",
                FarEnd::Closed => "closed",
                _ => "unknown",
            },
            holders_complete: facts.are_holders_complete,
            requested_bytes: facts.requested_bytes,
            wmem_max_bytes: facts.wmem_max_bytes,
            ends: facts.ends().map(|end| of_end(facts, end)).collect(),
        }
    }
}

fn of_end<'a>(facts: &ChannelFacts, end: &'a ChannelEnd) -> End<'a> {
    let work = end.work.as_ref().ok();
    let room = |buffer: u64| {
        let charges = facts.charges.iter();
        charges.map(move |charge| Room {
            message_bytes: charge.message_bytes,
            messages: charge.messages_in(buffer),
        })
    };
    End {
        inode: end.inode,
        shut_down: end.is_shut_down,
        send_buffer_bytes: end.send_buffer_bytes,
        sent_bytes: end.sent_bytes,
        unread_bytes: end.unread_bytes,
        unread_descriptors: end.unread_descriptors,
        holds: end.send_buffer_bytes.into_iter().flat_map(room).collect(),
        options: work.map(|work| work.options.as_slice()),
        filter: work.map(|work| work.has_filter),
        holders: end.holders.iter().map(Holder::from).collect(),
    }
}

impl<'a> From<&'a ChannelHolder> for Holder<'a> {
    fn from(holder: &'a ChannelHolder) -> Holder<'a> {
        Holder {
            pid: holder.process.pid,
            program: &holder.process.program,
            descriptor: holder.descriptor,
            state: holder.state,
            frozen: holder.is_frozen,
            open_files: holder.open_files,
            max_open_files: holder.max_open_files.soft,
            locked_bytes: holder.locked_bytes,
            max_locked_bytes: holder.max_locked_bytes.soft,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use serde_json::Value;
    use uncopy::channel::Channel;
    use uncopy::doctor::{Options, Target, examine};

    use super::*;

    /// Adds the keys of an object and of those in it, with their place: `channel.ends[].inode`.
    fn keys_of(value: &Value, place: &str, keys: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (key, member) in members {
                    let key = format!("{place}.{key}");
                    keys_of(member, &key, keys);
                    keys.push(key);
                }
            }
            Value::Array(elements) => {
                for element in elements {
                    keys_of(element, &format!("{place}[]"), keys);
                }
            }
            _ => {}
        }
    }

    /// The book documents every key.
    #[test]
    fn every_key_is_documented() {
        let (_near, far) = Channel::pair();
        let far = far.into_fd().unwrap();
        let target = Target::Channel { pid: std::process::id(), descriptor: far.as_raw_fd() };
        let report = examine(&target, &Options::default()).unwrap();
        let facts = report.channel.unwrap();
        let mut keys = Vec::new();
        let value = serde_json::to_value(ChannelJson::from(&*facts)).unwrap();
        keys_of(&value, "channel", &mut keys);
        assert!(keys.iter().any(|key| key == "channel.ends[].holders[].pid"), "{keys:?}");
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
        let book = std::fs::read_to_string(path).unwrap();
        for key in keys {
            let key = format!("`{key}`");
            assert!(book.contains(&key), "docs/json.md lacks {key}");
        }
    }
}
