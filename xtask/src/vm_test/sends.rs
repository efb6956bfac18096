//! What became of sends in the machine.

use anyhow::{Result, ensure};
use serde_json::Value;

use super::said::{Said, find};

/// What each line must say, by name.
///
/// # Errors
/// One says something else, or nothing.
pub(super) fn judge(said: &[Said]) -> Result<()> {
    let is_right = |name: &str, expected: &dyn Fn(u64, &Value) -> bool| -> Result<()> {
        let Said { number: hits, json, .. } = find(said, name)?;
        println!("{name}: skb_copy_ubufs {hits} times; {json}");
        ensure!(expected(*hits, json), "{name} is not what was expected");
        Ok(())
    };
    let sends = |json: &Value, what: &str| json[what].as_u64().unwrap_or(0);
    for name in ["device/msg-zerocopy", "device/udp"] {
        is_right(name, &|hits, json| hits == 0 && json["zero_copy"] == true)?;
    }
    // Of joined notifications over TCP io_uring reports nothing that can be relied on.
    for name in ["device/ring", "device/ring-registered"] {
        is_right(name, &|hits, json| {
            hits == 0 && sends(json, "not_copied_sends") > 0 && sends(json, "copied_sends") == 0
        })?;
    }
    is_right("slirp/msg-zerocopy", &|_, json| {
        sends(json, "sends") > 0 && json["zero_copy"] == false
    })?;
    is_right("loopback/msg-zerocopy", &|hits, json| {
        hits > 0 && json["zero_copy"] == false && sends(json, "copied_sends") > 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str, hits: u32, zero_copy: bool, not_copied: u32, copied: u32) -> Said {
        let line = format!(
            "{name} {hits} {{\"zero_copy\":{zero_copy},\"sends\":9,\
             \"not_copied_sends\":{not_copied},\"copied_sends\":{copied}}}"
        );
        Said::of(&line).unwrap()
    }

    #[test]
    fn what_is_copied_behind_our_back_is_found() {
        let good = [
            said("device/msg-zerocopy", 0, true, 9, 0),
            said("device/udp", 0, true, 9, 0),
            said("device/ring", 0, false, 9, 0),
            said("device/ring-registered", 0, true, 9, 0),
            said("slirp/msg-zerocopy", 0, false, 0, 0),
            said("loopback/msg-zerocopy", 9, false, 0, 9),
        ];
        judge(&good).unwrap();
        for (index, bad) in [
            said("device/msg-zerocopy", 1, true, 9, 0),
            said("device/udp", 0, false, 0, 9),
            said("device/ring", 1, false, 9, 0),
            said("device/ring-registered", 0, false, 8, 1),
            said("slirp/msg-zerocopy", 0, true, 9, 0),
            said("loopback/msg-zerocopy", 0, false, 0, 9),
        ]
        .into_iter()
        .enumerate()
        {
            let mut lines = good.clone();
            lines[index] = bad;
            assert!(judge(&lines).is_err(), "{:?}", lines[index]);
        }
        assert!(judge(&good[1..]).is_err());
    }
}
