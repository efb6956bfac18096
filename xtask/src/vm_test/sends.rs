//! Checks of sends in the machine.

use anyhow::{Result, ensure};
use serde_json::Value;

use super::said::{Said, find};

/// Expected results of each line, by name.
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
    // Datagrams have a notification each, which is believed.
    for name in ["device/msg-zerocopy", "device/udp", "device/udp-ring"] {
        is_right(name, &|hits, json| hits == 0 && json["zero_copy"] == true)?;
    }
    // io_uring reports nothing reliable about coalesced notifications over TCP.
    for name in ["device/ring", "device/ring-registered"] {
        is_right(name, &|hits, json| {
            hits == 0 && sends(json, "not_copied_sends") > 0 && sends(json, "copied_sends") == 0
        })?;
    }
    forbidden(said)?;
    is_right("slirp/msg-zerocopy", &|_, json| {
        sends(json, "releases") > 0 && json["zero_copy"] == false
    })?;
    is_right("loopback/msg-zerocopy", &|hits, json| {
        hits > 0 && json["zero_copy"] == false && sends(json, "copied_sends") > 0
    })
}

/// Where nobody may use io_uring (`kernel.io_uring_disabled` is 2), the same is sent without it, and
/// lent all the same.
fn forbidden(said: &[Said]) -> Result<()> {
    let Said { json, .. } = find(said, "forbidden/capabilities")?;
    let io_uring = &json["kernel"]["io_uring"];
    println!("forbidden/capabilities: {io_uring}");
    ensure!(
        io_uring["answer"] == "no" && io_uring["disabled"] == 2,
        "io_uring is not what nobody may use: {io_uring}"
    );
    for name in ["forbidden/ring", "forbidden/ring-registered", "forbidden/udp-ring"] {
        let Said { number: hits, json, .. } = find(said, name)?;
        println!("{name}: skb_copy_ubufs {hits} times; {json}");
        let is_without = json["without_io_uring"].is_string();
        ensure!(
            is_without && *hits == 0 && json["zero_copy"] == true && json["failed_sends"] == 0,
            "{name} is not what was expected"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str, hits: u32, zero_copy: bool, not_copied: u32, copied: u32) -> Said {
        released(name, hits, 9, zero_copy, not_copied, copied)
    }

    fn released(
        name: &str,
        hits: u32,
        releases: u32,
        zero_copy: bool,
        not_copied: u32,
        copied: u32,
    ) -> Said {
        let line = format!(
            "{name} {hits} {{\"zero_copy\":{zero_copy},\"sends\":9,\"releases\":{releases},\
             \"not_copied_sends\":{not_copied},\"copied_sends\":{copied}}}"
        );
        Said::of(&line).unwrap()
    }

    fn capabilities(answer: &str, disabled: u32) -> Said {
        let line = format!(
            "forbidden/capabilities 0 {{\"kernel\":{{\"io_uring\":{{\"answer\":\"{answer}\",\
             \"disabled\":{disabled}}}}}}}"
        );
        Said::of(&line).unwrap()
    }

    fn without(name: &str, hits: u32, zero_copy: bool, failed: u32) -> Said {
        let line = format!(
            "{name} {hits} {{\"zero_copy\":{zero_copy},\"failed_sends\":{failed},\
             \"without_io_uring\":\"Operation not permitted\"}}"
        );
        Said::of(&line).unwrap()
    }

    /// The input of [`forbidden`], as it should be.
    fn obeyed() -> [Said; 4] {
        [
            capabilities("no", 2),
            without("forbidden/ring", 0, true, 0),
            without("forbidden/ring-registered", 0, true, 0),
            without("forbidden/udp-ring", 0, true, 0),
        ]
    }

    #[test]
    fn what_uses_io_uring_in_spite_of_all_is_found() {
        let good = obeyed();
        forbidden(&good).unwrap();
        for (index, bad) in [
            (0, capabilities("yes", 2)),
            (0, capabilities("no", 0)),
            (1, said("forbidden/ring", 0, true, 9, 0)),
            (1, without("forbidden/ring", 1, true, 0)),
            (2, without("forbidden/ring-registered", 0, false, 0)),
            (3, without("forbidden/udp-ring", 0, true, 1)),
        ] {
            let mut lines = good.clone();
            lines[index] = bad;
            assert!(forbidden(&lines).is_err(), "{:?}", lines[index]);
        }
        assert!(forbidden(&good[1..]).is_err());
    }

    #[test]
    fn what_is_copied_behind_our_back_is_found() {
        let sends = [
            said("device/msg-zerocopy", 0, true, 9, 0),
            said("device/udp", 0, true, 9, 0),
            said("device/udp-ring", 0, true, 9, 0),
            said("device/ring", 0, false, 9, 0),
            said("device/ring-registered", 0, true, 9, 0),
            said("slirp/msg-zerocopy", 0, false, 0, 0),
            said("loopback/msg-zerocopy", 9, false, 0, 9),
        ];
        let good = [&sends[..], &obeyed()].concat();
        judge(&good).unwrap();
        for (index, bad) in [
            said("device/msg-zerocopy", 1, true, 9, 0),
            said("device/udp", 0, false, 0, 9),
            said("device/udp-ring", 0, false, 9, 0),
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
        // Whoever is never answered has copied nothing either.
        let mut lines = good.clone();
        lines[5] = released("slirp/msg-zerocopy", 0, 0, false, 0, 0);
        assert!(judge(&lines).is_err());
        assert!(judge(&good[1..]).is_err());
    }
}
