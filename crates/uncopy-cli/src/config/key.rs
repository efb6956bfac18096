//! All settings. Each has the name of a flag of `uncopy cp`.

use std::ffi::OsString;

use clap::ValueEnum;
use uncopy::copy::CopyOption;

use crate::flags::copy::{CopyArgs, Method, compression};
use crate::flags::{links, ports, rate};

/// A setting.
#[derive(Debug)]
pub(crate) struct Key {
    /// Name in the file.
    pub(crate) name: &'static str,
    /// Value if it is not set.
    pub(crate) built_in: &'static str,
    /// Valid values, described for people.
    expected: &'static str,
    /// Ids of the flags that override it.
    flags: &'static [&'static str],
    /// Options of a copy that it sets.
    pub(super) options: &'static [CopyOption],
    /// Sets the flag to the value of this text; `None`: the text is not a valid value.
    set: fn(&mut CopyArgs, &str) -> Option<()>,
}

const BOOLEAN: &str = "true or false";

/// All settings, in the order in which they are shown.
pub(crate) static KEYS: [Key; 26] = [
    Key {
        name: "verify",
        built_in: "none",
        expected: "blake3, sha256, xxh3 or none",
        flags: &["verify", "no_verify"],
        options: &[CopyOption::Verify],
        set: |flags, text| set(&mut flags.verify, unless("none", text, choice)),
    },
    Key {
        name: "digest",
        built_in: "none",
        expected: "blake3, sha256, xxh3 or none",
        flags: &["digest", "no_digest"],
        options: &[CopyOption::Digest],
        set: |flags, text| set(&mut flags.digest, unless("none", text, choice)),
    },
    Key {
        name: "durable",
        built_in: "false",
        expected: BOOLEAN,
        flags: &["durable", "no_durable"],
        options: &[CopyOption::Durable],
        set: |flags, text| set(&mut flags.durable, text.parse().ok()),
    },
    Key {
        name: "preserve",
        built_in: "none",
        expected: "none, or a list of mode, ownership, timestamps, links, xattr, acl, all",
        flags: &["preserve", "no_preserve", "archive"],
        options: &[
            CopyOption::PreserveMode,
            CopyOption::PreserveOwnership,
            CopyOption::PreserveTimestamps,
            CopyOption::PreserveXattr,
            CopyOption::PreserveAcl,
        ],
        set: |flags, text| {
            let list = unless("none", text, |text| text.split(',').map(choice).collect());
            set(&mut flags.preserve, list.map(Option::unwrap_or_default))
        },
    },
    Key {
        name: "if-changed",
        built_in: "fail",
        expected: "fail, retry or accept",
        flags: &["if_changed"],
        options: &[CopyOption::IfChanged, CopyOption::FlushSource],
        set: |flags, text| set(&mut flags.if_changed, choice(text).map(Some)),
    },
    Key {
        name: "method",
        built_in: "auto",
        expected: "auto, reflink, copy-file-range, direct, direct-ring, sendfile, splice, read-write, \
                   require-zero-copy, no-user-copy or no-zero-copy",
        flags: &[
            "method",
            "reflink",
            "zero_copy",
            "require",
            "require_zero_copy",
            "no_user_copy",
            "no_zero_copy",
        ],
        options: &[CopyOption::Allow],
        set: set_mechanism,
    },
    Key {
        name: "require",
        built_in: "none",
        expected: "none, no-user-copy, zero-copy, moved, shared or reflink",
        flags: &["require", "require_zero_copy", "no_user_copy", "zero_copy", "no_zero_copy"],
        options: &[CopyOption::Require],
        set: |flags, text| set(&mut flags.require, choice(text)),
    },
    Key {
        name: "prefer",
        built_in: "time",
        expected: "time or cpu",
        flags: &["prefer"],
        options: &[CopyOption::Prefer],
        set: |flags, text| set(&mut flags.prefer, choice(text)),
    },
    Key {
        name: "sparse",
        built_in: "auto",
        expected: "auto, always or never",
        flags: &["sparse"],
        options: &[CopyOption::Sparse],
        set: |flags, text| set(&mut flags.sparse, choice(text)),
    },
    Key {
        name: "cache",
        built_in: "auto",
        expected: "auto, keep or skip",
        flags: &["cache"],
        options: &[CopyOption::Cache],
        set: |flags, text| set(&mut flags.cache, choice(text)),
    },
    Key {
        name: "compress",
        built_in: "none",
        expected: "none, zstd, or zstd:LEVEL with a level from 1 to 22",
        flags: &["compress", "no_compress", "decompress"],
        options: &[CopyOption::Transform],
        set: |flags, text| {
            set(&mut flags.compress, unless("none", text, |text| compression(text).ok()))
        },
    },
    Key {
        name: "decompress",
        built_in: "false",
        expected: BOOLEAN,
        flags: &["decompress", "no_compress", "compress"],
        options: &[CopyOption::Transform],
        set: |flags, text| set(&mut flags.decompress, text.parse().ok()),
    },
    Key {
        name: "max-bandwidth",
        built_in: "none",
        expected: "none, or bytes per second such as 50M or 1.5MiB",
        flags: &["max_bandwidth"],
        options: &[],
        set: |flags, text| {
            set(&mut flags.max_bandwidth, unless("none", text, |text| rate::parse(text).ok()))
        },
    },
    Key {
        name: "zero-copy-min",
        built_in: "auto",
        expected: "auto, or a size up to 1Mi such as 64Ki",
        flags: &["zero_copy_min"],
        options: &[CopyOption::ZeroCopyMin],
        set: |flags, text| {
            let size = unless("auto", text, |text| rate::small_size(text).ok());
            set(&mut flags.zero_copy_min, size)
        },
    },
    Key {
        name: "direct-min",
        built_in: "auto",
        expected: "auto, or a size such as 1Mi",
        flags: &["direct_min"],
        options: &[CopyOption::DirectMin],
        set: |flags, text| {
            set(&mut flags.direct_min, unless("auto", text, |text| rate::size(text).ok()))
        },
    },
    Key {
        name: "direct-cpu-min",
        built_in: "auto",
        expected: "auto, or a size such as 4Mi",
        flags: &["direct_cpu_min"],
        options: &[CopyOption::DirectCpuMin],
        set: |flags, text| {
            set(&mut flags.direct_cpu_min, unless("auto", text, |text| rate::size(text).ok()))
        },
    },
    Key {
        name: "buffer-size",
        built_in: "auto",
        expected: "auto, or a size from 4Ki to 64Mi such as 256Ki",
        flags: &["buffer_size"],
        options: &[],
        set: |flags, text| {
            let size = unless("auto", text, |text| rate::buffer_size(text).ok());
            set(&mut flags.buffer_size, size)
        },
    },
    Key {
        name: "jobs",
        built_in: "auto",
        expected: "auto, or a number of workers from 1",
        flags: &["jobs", "interactive"],
        options: &[],
        set: |flags, text| {
            set(&mut flags.tree.jobs, unless("auto", text, |text| text.parse().ok()))
        },
    },
    Key {
        name: "retries",
        built_in: "3",
        expected: "a number from 0",
        flags: &["retries"],
        options: &[],
        set: |flags, text| set(&mut flags.tree.retries, text.parse().ok()),
    },
    Key {
        name: "on-error",
        built_in: "stop-on-destination",
        expected: "stop-on-destination, skip or abort",
        flags: &["on_error"],
        options: &[],
        set: |flags, text| set(&mut flags.on_error, choice(text)),
    },
    Key {
        name: "links",
        built_in: "preserve",
        expected: "preserve, follow or skip",
        flags: links::IDS,
        options: &[],
        set: |flags, text| set(&mut flags.tree.links.of_trees, choice(text)),
    },
    Key {
        name: "rsh",
        built_in: "ssh",
        expected: "a command with its arguments, such as ssh -p 2222",
        flags: &["rsh"],
        options: &[],
        set: |flags, text| set(&mut flags.rsh, unless("ssh", text, command)),
    },
    Key {
        name: "remote-program",
        built_in: "uncopy",
        expected: "a command with its arguments, such as sudo uncopy",
        flags: &["remote_program"],
        options: &[],
        set: |flags, text| set(&mut flags.remote_program, unless("uncopy", text, command)),
    },
    Key {
        name: "data",
        built_in: "auto",
        expected: "auto, tls, open or ssh",
        flags: &["data"],
        options: &[],
        set: |flags, text| set(&mut flags.data, choice(text)),
    },
    Key {
        name: "connections",
        built_in: "auto",
        expected: "auto, or a number from 1 to 16",
        flags: &["connections"],
        options: &[],
        set: |flags, text| {
            let number = |text: &str| text.parse().ok().filter(|number| (1..=16).contains(number));
            set(&mut flags.connections, unless("auto", text, number))
        },
    },
    Key {
        name: "data-ports",
        built_in: "0",
        expected: "0 for any free port, one port, or two as in 7000-7010",
        flags: &["data_ports"],
        options: &[],
        set: |flags, text| {
            let range = |text: &str| ports::parse(text).ok();
            set(&mut flags.data_ports, unless("0", text, range))
        },
    },
];

impl Key {
    /// Finds the setting of this name.
    ///
    /// # Errors A sentence that suggests a similar name, or lists all.
    pub(super) fn named(name: &str) -> Result<&'static Key, String> {
        if let Some(key) = KEYS.iter().find(|key| key.name == name) {
            return Ok(key);
        }
        // The same measure and threshold as in the parser of flags.
        let likeness = |key: &Key| strsim::jaro(name, key.name);
        let nearest = KEYS.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        Err(match nearest.filter(|key| likeness(key) > 0.7) {
            Some(key) => format!("there is no setting {name:?}; did you mean {:?}?", key.name),
            None => {
                let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
                format!("there is no setting {name:?}; valid settings: {}", names.join(", "))
            }
        })
    }

    /// Returns the environment variable that sets it.
    pub(crate) fn variable(&self) -> String {
        format!("UNCOPY_{}", self.name.to_uppercase().replace('-', "_"))
    }

    /// Checks a value.
    ///
    /// # Errors A clause that names the valid values.
    pub(super) fn check(&self, text: &str) -> Result<(), String> {
        let set = (self.set)(&mut CopyArgs::default(), text);
        set.ok_or_else(|| format!("set it to {}", self.expected))
    }

    /// Sets the flag to this value, which was checked.
    pub(super) fn apply(&self, flags: &mut CopyArgs, text: &str) {
        let set = (self.set)(flags, text);
        debug_assert!(set.is_some(), "{} = {text}", self.name);
    }

    /// Whether a given flag overrides it.
    pub(super) fn is_overridden(&self, is_given: impl Fn(&str) -> bool) -> bool {
        self.flags.iter().any(|flag| is_given(flag))
    }
}

fn set<Value>(flag: &mut Value, value: Option<Value>) -> Option<()> {
    *flag = value?;
    Some(())
}

fn command(text: &str) -> Option<OsString> {
    (!text.trim().is_empty()).then(|| text.into())
}

fn choice<Value: ValueEnum>(text: &str) -> Option<Value> {
    Value::from_str(text, false).ok()
}

/// Parses the text; `word` stands for no value.
fn unless<Value>(
    word: &str,
    text: &str,
    parse: impl Fn(&str) -> Option<Value>,
) -> Option<Option<Value>> {
    if text == word { Some(None) } else { parse(text).map(Some) }
}

/// Sets a mechanism, or a rule by the name of its flag.
fn set_mechanism(flags: &mut CopyArgs, text: &str) -> Option<()> {
    match text {
        "require-zero-copy" => flags.require_zero_copy = true,
        "no-user-copy" => flags.no_user_copy = true,
        "no-zero-copy" => flags.no_zero_copy = true,
        _ => flags.method = choice::<Method>(text)?,
    }
    Some(())
}
