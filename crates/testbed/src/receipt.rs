//! Receipts, as printed by the program.

use serde_json::Value;

const MECHANISMS: [&str; 7] =
    ["reflink", "copy_file_range", "direct_ring", "direct", "sendfile", "splice", "read_write"];
const COSTS: [&str; 7] =
    ["shared", "moved", "kernel_copied", "zeros", "user_copied", "hole", "unknown"];

/// Costs of bytes that were not written.
const HOLES: [&str; 2] = ["hole", "zeros"];

/// JSON line of a copied file, checked against the schema's rules.
#[derive(Debug, Clone)]
pub struct Receipt {
    value: Value,
}

/// A mechanism that was not used, and the reason.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// Name of the mechanism.
    pub mechanism: String,
    /// Reason, for users.
    pub reason: String,
    /// Code of the reason, for programs.
    pub code: String,
    /// Name of the error number from the kernel, if it was tried.
    pub errno: Option<String>,
}

impl Receipt {
    /// Parses a line.
    ///
    /// # Panics
    /// If it breaks the schema: unknown mechanisms or costs, portions that do not add up.
    #[must_use]
    pub fn new(line: &str) -> Receipt {
        let value: Value = serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("not a line of JSON ({error}): {line}"));
        let receipt = Receipt { value };
        for (name, _, cost) in receipt.portions() {
            assert!(MECHANISMS.contains(&name.as_str()), "no mechanism is called {name}: {line}");
            assert!(COSTS.contains(&cost.as_str()), "no cost is called {cost}: {line}");
        }
        for refusal in receipt.refusals() {
            assert!(MECHANISMS.contains(&refusal.mechanism.as_str()), "{line}");
            assert!(!refusal.reason.is_empty(), "a refusal without a reason: {line}");
            assert!(!refusal.code.is_empty(), "a refusal without a code: {line}");
        }
        let count = |key: &str| receipt.value[key].as_array().map(Vec::len);
        assert_eq!(count("notes"), count("note_codes"), "a note without a code: {line}");
        if receipt.value["event"] == "copied" {
            let sum: u64 = receipt.portions().iter().map(|portion| portion.1).sum();
            let sum = sum + receipt.value["resumed_bytes"].as_u64().unwrap_or(0);
            assert_eq!(sum, receipt.bytes(), "the mechanisms do not add up: {line}");
            assert!(receipt.value["duration_us"].is_u64(), "no duration_us: {line}");
        }
        receipt
    }

    /// Returns the whole line.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the length of the destination.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.value["bytes"].as_u64().unwrap_or_else(|| panic!("no bytes in {}", self.value))
    }

    fn portions(&self) -> Vec<(String, u64, String)> {
        let Some(list) = self.value["mechanisms"].as_array() else { return Vec::new() };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        list.iter()
            .map(|row| {
                let bytes = row["bytes"].as_u64();
                let bytes = bytes.unwrap_or_else(|| panic!("no bytes in {}", self.value));
                (text(&row["name"]), bytes, text(&row["cost"]))
            })
            .collect()
    }

    /// Returns the bytes moved by this mechanism, over all costs except holes.
    #[must_use]
    pub fn by(&self, mechanism: &str) -> u64 {
        let portions = self.portions();
        let is_written = |p: &&(String, u64, String)| p.0 == mechanism && !HOLES.contains(&&*p.2);
        portions.iter().filter(is_written).map(|p| p.1).sum()
    }

    /// Returns the bytes at this cost, over all mechanisms.
    #[must_use]
    pub fn at(&self, cost: &str) -> u64 {
        assert!(COSTS.contains(&cost));
        self.portions().iter().filter(|portion| portion.2 == cost).map(|portion| portion.1).sum()
    }

    /// Returns the mechanisms that moved bytes, without holes.
    #[must_use]
    pub fn mechanisms(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.portions().into_iter().filter(|p| !HOLES.contains(&&*p.2)).map(|p| p.0).collect();
        names.dedup();
        names
    }

    /// Returns the mechanisms that were not used.
    #[must_use]
    pub fn refusals(&self) -> Vec<Refusal> {
        let Some(list) = self.value["refusals"].as_array() else { return Vec::new() };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        list.iter()
            .map(|row| Refusal {
                mechanism: text(&row["mechanism"]).unwrap_or_default(),
                reason: text(&row["reason"]).unwrap_or_default(),
                code: text(&row["code"]).unwrap_or_default(),
                errno: text(&row["errno_name"]),
            })
            .collect()
    }

    /// Returns the refusal of this mechanism.
    #[must_use]
    pub fn refusal(&self, mechanism: &str) -> Option<Refusal> {
        self.refusals().into_iter().find(|refusal| refusal.mechanism == mechanism)
    }

    /// Returns the notes for the user, one on each line.
    #[must_use]
    pub fn notes(&self) -> String {
        let Some(list) = self.value["notes"].as_array() else { return String::new() };
        let texts: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
        texts.join("\n")
    }
}
