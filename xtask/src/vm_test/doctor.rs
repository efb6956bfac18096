//! Checks of the doctor's reports in the machine.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::said::{Said, find};

/// A condition: the line that has it, and one where it is gone.
struct Row {
    with: &'static str,
    without: &'static str,
    id: &'static str,
    severity: &'static str,
    /// In the evidence.
    found: &'static str,
    /// The exit code of the doctor, which is its verdict.
    verdict: u64,
}

const fn row(
    with: &'static str,
    without: &'static str,
    id: &'static str,
    severity: &'static str,
    found: &'static str,
    verdict: u64,
) -> Row {
    Row { with, without, id, severity, found, verdict }
}

const LENT: u64 = 0;
const COPIED: u64 = 6;
const UNKNOWN: u64 = 7;

const ROWS: &[Row] = &[
    row("vlan", "plain", "stacked-device", "note", "eth0.5 is of the kind vlan, above", LENT),
    row("vlan-tapped", "vlan", "tap-eth-p-all", "copies", "PACKET_IGNORE_OUTGOING is off", COPIED),
    row(
        "vxlan",
        "plain-again",
        "stacked-device",
        "note",
        "vx0 is of the kind vxlan, above",
        COPIED,
    ),
    // The kernel does by a copy whatever virtio does not support.
    row(
        "vxlan",
        "plain-again",
        "no-tunnel-offload",
        "copies",
        "tx-udp_tnl-segmentation: active no",
        COPIED,
    ),
    row("bond", "plain-again", "stacked-device", "note", "bond1 is of the kind bond, above", LENT),
    row(
        "bridge",
        "plain-again",
        "stacked-device",
        "note",
        "br0 is of the kind bridge, above",
        LENT,
    ),
    row("tcp", "tcp-tapped", "probe-not-copied", "note", " not copied, 0 copied", LENT),
    row("tcp-tapped", "tcp", "probe-copied", "copies", "0 not copied, ", COPIED),
    row("kprobes-tapped", "kprobes", "trace-copies", "copies", "calls with this caller", COPIED),
    row("not-allowed", "allowed-to-sample", "trace-forbidden", "unknown", "CAP_PERFMON", UNKNOWN),
    row("dm", "disk", "direct-unknown", "unknown", "above a device that may copy", UNKNOWN),
    row("disk", "dm", "direct-moves", "note", "above a disk", LENT),
];

/// Paths whose prediction is held against a probe and what a sender measures.
const PATHS: [&str; 7] = ["plain", "vlan", "vlan-tapped", "vxlan", "bond", "bridge", "plain-again"];

/// Holds everything against what is expected.
///
/// # Errors
/// The doctor did not find what was there, found what was not, or predicted something else than was
/// measured.
pub(super) fn judge(said: &[Said]) -> Result<()> {
    for row in ROWS {
        judge_row(said, row).with_context(|| format!("the doctor about {}", row.with))?;
    }
    for path in PATHS {
        judge_path(said, path).with_context(|| format!("the doctor about {path}"))?;
    }
    judge_kprobes(said)?;
    judge_stacks(said)?;
    for (name, cost) in [("dm/copied", "unknown"), ("disk/copied", "moved")] {
        let copied = doctor(said, name)?;
        let mechanisms =
            copied.json["mechanisms"].as_array().map(Vec::as_slice).unwrap_or_default();
        let has = |mechanism: &Value| mechanism["name"] == "direct" && mechanism["cost"] == cost;
        ensure!(mechanisms.iter().any(has), "{name}: {}", copied.json);
    }
    Ok(())
}

fn doctor<'a>(said: &'a [Said], name: &str) -> Result<&'a Said> {
    find(said, &format!("doctor/{name}"))
}

fn finding<'a>(said: &'a Said, id: &str) -> Option<&'a Value> {
    said.json["findings"].as_array()?.iter().find(|finding| finding["id"] == id)
}

fn judge_row(said: &[Said], row: &Row) -> Result<()> {
    let with = doctor(said, row.with)?;
    println!("doctor/{}: exit code {}: {}", row.with, with.number, with.json["headline"]);
    let found = finding(with, row.id);
    let found = found.with_context(|| format!("no {} in {}", row.id, with.json))?;
    ensure!(found["severity"] == row.severity, "{found}");
    let evidence = found["evidence"].as_array().map(Vec::as_slice).unwrap_or_default();
    let holds = |one: &Value| one["found"].as_str().is_some_and(|text| text.contains(row.found));
    ensure!(evidence.iter().any(holds), "no {:?} in the evidence of {found}", row.found);
    ensure!(with.number == row.verdict, "the exit code is {}: {}", with.number, with.json);
    let without = doctor(said, row.without)?;
    ensure!(without.json["findings"].is_array(), "{} said nothing", row.without);
    ensure!(finding(without, row.id).is_none(), "{} too has it: {}", row.without, without.json);
    Ok(())
}

/// Prediction, probe and measurement are one.
fn judge_path(said: &[Said], path: &str) -> Result<()> {
    let predicted = doctor(said, path)?;
    let probed = doctor(said, &format!("{path}/probe"))?;
    let measured = doctor(said, &format!("{path}/measured"))?;
    let is_lent = predicted.number == LENT;
    ensure!(is_lent || predicted.number == COPIED, "{}", predicted.json);
    let probe = if is_lent { "probe-not-copied" } else { "probe-copied" };
    ensure!(finding(probed, probe).is_some(), "no {probe}: {}", probed.json);
    ensure!(probed.number == predicted.number, "{}", probed.json);
    let (json, other) = (&measured.json, if is_lent { "copied_sends" } else { "not_copied_sends" });
    ensure!(json["zero_copy"] == is_lent && json[other] == 0, "predicted {is_lent}, but {json}");
    ensure!(json["sends"].as_u64() > Some(0), "nothing was sent: {json}");
    Ok(())
}

/// Whole stacks name the tap where there is one, and nowhere else.
fn judge_stacks(said: &[Said]) -> Result<()> {
    let tapped = &doctor(said, "kprobes-tapped")?.json;
    let stacks = tapped["stacks"].as_array().context("no stacks")?;
    ensure!((1..=5).contains(&stacks.len()), "{} stacks: {tapped}", stacks.len());
    let count = |stack: &Value| Some(stack["samples"].as_u64()? + stack["calls"].as_u64()?);
    ensure!(stacks.is_sorted_by(|one, next| count(one) >= count(next)), "{tapped}");
    let of_tap = stacks.iter().find(|stack| is_of_tap(stack)).context("no stack of the tap")?;
    ensure!(of_tap["calls"].as_u64() > Some(0), "{of_tap}");
    let depth = of_tap["functions"].as_array().map_or(0, Vec::len);
    ensure!(depth > 5, "not a whole stack: {of_tap}");
    let clean = &doctor(said, "kprobes")?.json;
    let stacks = clean["stacks"].as_array().context("no stacks without the tap")?;
    ensure!(!stacks.iter().any(is_of_tap), "{clean}");
    Ok(())
}

/// `skb_copy_ubufs ← dev_queue_xmit_nit`.
fn is_of_tap(stack: &Value) -> bool {
    let functions = stack["functions"].as_array().map(Vec::as_slice).unwrap_or_default();
    functions.windows(2).any(|pair| pair == ["skb_copy_ubufs", "dev_queue_xmit_nit"])
}

/// Kprobes name who copied, count what did not happen, and leave nothing behind.
fn judge_kprobes(said: &[Said]) -> Result<()> {
    let tapped = doctor(said, "kprobes-tapped")?;
    let copies = finding(tapped, "trace-copies").context("no trace-copies")?;
    let summary = copies["summary"].as_str().unwrap_or_default();
    ensure!(summary.starts_with("skb_copy_ubufs ← dev_queue_xmit_nit "), "{copies}");
    let tap = finding(tapped, "tap-eth-p-all").context("no tap-eth-p-all")?;
    ensure!(tap["summary"].as_str().is_some_and(|text| text.starts_with("tcpdump (pid ")), "{tap}");
    let described = |said: &Said| {
        let facts = said.json["facts"].as_array().map(Vec::as_slice).unwrap_or_default();
        let fact = facts.iter().find(|fact| fact["name"] == "kprobes");
        fact.and_then(|fact| fact["value"].as_str()).unwrap_or_default().to_owned()
    };
    let clean = described(doctor(said, "kprobes")?);
    ensure!(clean.starts_with("calls by any caller: skb_copy_ubufs 0,"), "{clean}");
    let refused = described(doctor(said, "allowed-to-sample")?);
    ensure!(refused.contains("CAP_PERFMON is missing"), "{refused}");
    let places = &doctor(said, "interrupted")?.json;
    let number = |key: &str| places[key].as_u64();
    ensure!(number("during") > number("before"), "{places}");
    ensure!(number("after") == number("before"), "kprobes stay behind: {places}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    /// The rows as the book has them.
    #[test]
    fn the_rows_are_in_the_book() {
        let book =
            std::fs::read_to_string(crate::workspace::root().join("docs/doctor.md")).unwrap();
        let table: String = ROWS
            .iter()
            .map(|row| {
                let Row { with, without, id, severity, .. } = row;
                format!("| {with} | `{id}` | `{severity}` | {without} |\n")
            })
            .collect();
        assert!(book.contains(&table), "docs/doctor.md lacks this table:\n{table}");
    }

    fn add(said: &mut Vec<Said>, name: &str, number: u64, json: Value) {
        said.push(Said { name: format!("doctor/{name}"), number, json });
    }

    /// The machine's lines when everything works.
    fn good() -> Vec<Said> {
        let mut findings: BTreeMap<&str, (u64, Vec<Value>)> = BTreeMap::new();
        for row in ROWS {
            let evidence = json!([{"found": row.found}]);
            let (id, severity) = (row.id, row.severity);
            let summary = match id {
                "trace-copies" => "skb_copy_ubufs ← dev_queue_xmit_nit took 3 %",
                _ => "",
            };
            let found = json!({
                "id": id, "severity": severity, "evidence": evidence, "summary": summary
            });
            let entry = findings.entry(row.with).or_default();
            entry.0 = entry.0.max(row.verdict);
            entry.1.push(found);
            findings.entry(row.without).or_default();
        }
        let tap = json!({"id": "tap-eth-p-all", "summary": "tcpdump (pid 9) holds"});
        findings.entry("kprobes-tapped").or_default().1.push(tap);
        let mut said = Vec::new();
        for (name, (number, found)) in findings {
            let described = match name {
                "allowed-to-sample" => "refused: CAP_PERFMON is missing (EACCES)",
                _ => "calls by any caller: skb_copy_ubufs 0, skb_copy_bits 9",
            };
            let facts = json!([{"name": "kprobes", "value": described}]);
            let tap = ["skb_copy_ubufs", "dev_queue_xmit_nit", "a", "b", "c", "d"];
            let stacks = match name {
                "kprobes-tapped" => json!([{"functions": tap, "samples": 2, "calls": 9}]),
                _ => json!([]),
            };
            let json = json!({"findings": found, "facts": facts, "stacks": stacks});
            add(&mut said, name, number, json);
        }
        for path in PATHS {
            let number = doctor(&said, path).unwrap().number;
            let is_lent = number == LENT;
            let id = if is_lent { "probe-not-copied" } else { "probe-copied" };
            add(&mut said, &format!("{path}/probe"), number, json!({"findings": [{"id": id}]}));
            let (lent, copied) = if is_lent { (9, 0) } else { (0, 9) };
            let measured = json!({
                "zero_copy": is_lent, "sends": 9, "not_copied_sends": lent, "copied_sends": copied
            });
            add(&mut said, &format!("{path}/measured"), 0, measured);
        }
        add(&mut said, "interrupted", 130, json!({"before": 0, "during": 4, "after": 0}));
        for (name, cost) in [("dm/copied", "unknown"), ("disk/copied", "moved")] {
            let mechanisms = json!([{"name": "direct", "cost": cost}]);
            add(&mut said, name, 0, json!({"mechanisms": mechanisms}));
        }
        said
    }

    #[test]
    fn what_is_not_as_predicted_is_found() {
        judge(&good()).unwrap();
        type Change = fn(&mut Said);
        let bad: &[(&str, Change)] = &[
            ("vlan", |said| said.json["findings"] = json!([])),
            ("vlan", |said| said.number = COPIED),
            ("plain-again", |said| said.json["findings"] = json!([{"id": "stacked-device"}])),
            ("bond/measured", |said| said.json["zero_copy"] = json!(false)),
            ("bond/measured", |said| said.json["sends"] = json!(0)),
            ("vlan-tapped/probe", |said| said.json["findings"] = json!([])),
            ("kprobes", |said| said.json["facts"] = json!([])),
            ("kprobes-tapped", |said| said.json["stacks"] = json!([])),
            ("kprobes-tapped", |said| said.json["stacks"][0]["calls"] = json!(0)),
            ("kprobes-tapped", |said| said.json["stacks"][0]["functions"][1] = json!("other")),
            ("kprobes-tapped", |said| said.json["stacks"][0]["functions"][0] = json!("other")),
            ("kprobes", |said| said.json["stacks"] = Value::Null),
            ("interrupted", |said| said.json["after"] = json!(1)),
            ("interrupted", |said| said.json["during"] = json!(0)),
            ("disk/copied", |said| said.json["mechanisms"][0]["cost"] = json!("unknown")),
            ("dm", |said| said.json = Value::Null),
        ];
        for (name, change) in bad {
            let mut said = good();
            let name = format!("doctor/{name}");
            change(said.iter_mut().find(|said| said.name == name).unwrap());
            assert!(judge(&said).is_err(), "{name}");
        }
        assert!(judge(&good()[1..]).is_err(), "a line is missing");
    }
}
