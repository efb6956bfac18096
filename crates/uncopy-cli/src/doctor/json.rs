//! Reports of the doctor for programs, documented in `docs/json.md`.

use std::borrow::Cow;

use serde::Serialize;
use uncopy::doctor::Report;

use super::channel_json::ChannelJson;
use super::explain;
use crate::capabilities::json::Answer;
use crate::report::Failure;
use crate::report::json::{Problem, SCHEMA, line};
use crate::report::refusal::words;

#[derive(Serialize)]
struct Examined<'a> {
    schema: u32,
    target: &'a str,
    verdict: &'static str,
    headline: &'a str,
    findings: Vec<FindingJson<'a>>,
    facts: Vec<FactJson<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "ways")]
    mechanisms: Vec<MechanismJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<ChannelJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stacks: Option<Vec<Stack<'a>>>,
}

/// A stack that copies.
#[derive(Serialize)]
struct Stack<'a> {
    functions: &'a [String],
    samples: u64,
    calls: u64,
}

/// A mechanism and the result of trying it.
#[derive(Serialize)]
struct MechanismJson<'a> {
    mechanism: &'static str,
    #[serde(flatten)]
    answer: Answer,
    cost: Option<&'static str>,
    proof: &'a str,
    passed_over: Option<String>,
    passed_over_code: Option<&'static str>,
}

#[derive(Serialize)]
struct FindingJson<'a> {
    id: &'static str,
    topic: &'static str,
    severity: &'static str,
    summary: String,
    evidence: Vec<Evidence<'a>>,
    effect: String,
    next_step: Option<Cow<'a, str>>,
    needs_root: bool,
}

#[derive(Serialize)]
struct Evidence<'a> {
    source: &'static str,
    found: &'a str,
}

#[derive(Serialize)]
struct FactJson<'a> {
    name: &'static str,
    value: &'a str,
}

#[derive(Serialize)]
struct Failed<'a> {
    schema: u32,
    target: String,
    error: Problem<'a>,
}

/// Formats a report as one object on one line.
pub(super) fn report(target: &str, examined: &Result<Report, Failure>) -> String {
    match examined {
        Ok(report) => line(&of(report)),
        Err(failure) => line(&Failed {
            schema: SCHEMA,
            target: target.to_owned(),
            error: Problem::from(failure),
        }),
    }
}

fn of(report: &Report) -> Examined<'_> {
    Examined {
        schema: SCHEMA,
        target: &report.target,
        verdict: report.verdict.name(),
        headline: &report.headline,
        findings: report.findings.iter().map(FindingJson::from).collect(),
        facts: report.facts.iter().map(|f| FactJson { name: f.name, value: &f.value }).collect(),
        mechanisms: report.mechanisms.iter().map(MechanismJson::from).collect(),
        channel: report.channel.as_deref().map(ChannelJson::from),
        stacks: report.stacks.as_ref().map(|stacks| stacks.iter().map(Stack::from).collect()),
    }
}

impl<'a> From<&'a uncopy::doctor::Stack> for Stack<'a> {
    fn from(stack: &'a uncopy::doctor::Stack) -> Stack<'a> {
        Stack { functions: &stack.functions, samples: stack.samples, calls: stack.calls }
    }
}

impl<'a> From<&'a uncopy::doctor::DoctorFinding> for FindingJson<'a> {
    fn from(found: &'a uncopy::doctor::DoctorFinding) -> FindingJson<'a> {
        let evidence = found.evidence.iter();
        FindingJson {
            id: found.condition.id,
            topic: found.condition.topic.name(),
            severity: found.severity.name(),
            summary: found.summary.to_string(),
            evidence: evidence
                .map(|one| Evidence { source: one.source, found: &one.found })
                .collect(),
            effect: found.effect.to_string(),
            next_step: explain::next_step(found),
            needs_root: found.needs_root,
        }
    }
}

impl<'a> From<&'a uncopy::doctor::TriedMechanism> for MechanismJson<'a> {
    fn from(tried: &'a uncopy::doctor::TriedMechanism) -> MechanismJson<'a> {
        MechanismJson {
            mechanism: tried.mechanism.name(),
            answer: Answer::from(&tried.answer),
            cost: match &tried.answer {
                uncopy::capabilities::Answer::Yes(cost) => Some(cost.name()),
                _ => None,
            },
            proof: &tried.proof,
            passed_over: tried.passed_over.map(words),
            passed_over_code: tried.passed_over.map(|reason| reason.code()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use uncopy::doctor::{Options, Target, examine};

    use super::*;

    fn report_line(target: &Target, found: &Report) -> String {
        report(&target.to_string(), &Ok(found.clone()))
    }

    #[test]
    fn a_report_is_one_line_that_starts_with_the_schema() {
        let target = Target::Udp("127.0.0.1:9".parse().unwrap());
        let text = report(&target.to_string(), &Ok(examine(&target, &Options::default()).unwrap()));
        assert!(text.starts_with("{\"schema\":1,\"target\":\"udp://127.0.0.1:9\""), "{text}");
        assert_eq!(text.find('\n'), Some(text.len() - 1));
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["verdict"], "copied");
        assert_eq!(report["findings"][0]["id"], "loopback");
        assert_eq!(report["findings"][0]["evidence"][0]["source"], "rtnetlink RTM_GETROUTE");
    }

    #[test]
    fn stacks_are_there_if_they_were_looked_for() {
        let target = Target::Udp("127.0.0.1:9".parse().unwrap());
        let mut examined = examine(&target, &Options::default()).unwrap();
        let json = |report: &Report| {
            let text = report_line(&target, report);
            serde_json::from_str::<Value>(&text).unwrap()
        };
        assert_eq!(json(&examined).get("stacks"), None);
        examined.stacks = Some(Vec::new());
        assert_eq!(json(&examined)["stacks"], serde_json::json!([]));
        let functions = ["skb_copy_ubufs", "dev_queue_xmit_nit"].map(str::to_owned).to_vec();
        examined.stacks = Some(vec![uncopy::doctor::Stack { functions, samples: 3, calls: 40 }]);
        let expected = serde_json::json!([{
            "functions": ["skb_copy_ubufs", "dev_queue_xmit_nit"], "samples": 3, "calls": 40
        }]);
        assert_eq!(json(&examined)["stacks"], expected);
    }

    /// The book documents every key of a stack.
    #[test]
    fn stacks_are_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
        let book = std::fs::read_to_string(path).unwrap();
        let stack = Stack { functions: &[], samples: 0, calls: 0 };
        let Value::Object(keys) = serde_json::to_value(stack).unwrap() else { panic!() };
        for key in keys.keys() {
            assert!(book.contains(&format!("`stacks[].{key}`")), "docs/json.md lacks {key}");
        }
    }

    #[test]
    fn a_target_that_is_not_there_is_an_error() {
        let target = Target::Device("nonesuch0".into());
        let error = examine(&target, &Options::default()).unwrap_err();
        let text = report(&target.to_string(), &Err(Failure::from(&error)));
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["target"], "nonesuch0");
        assert_eq!(report["error"]["errno_name"], "ENODEV");
    }
}
