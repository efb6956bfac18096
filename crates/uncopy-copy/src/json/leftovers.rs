//! Entries in JSON reports that look like leftovers of killed runs and were not removed.

use std::borrow::Cow;
use std::path::PathBuf;

use serde::Serialize;

use super::{base64_name, is_zero};

/// Entries that look like leftovers and were not removed.
#[derive(Debug, Serialize)]
pub(super) struct Leftovers<'a> {
    #[serde(rename = "leftovers", skip_serializing_if = "Vec::is_empty")]
    first: Vec<Leftover<'a>>,
    #[serde(rename = "leftovers_more", skip_serializing_if = "is_zero")]
    more: u64,
}

#[derive(Debug, Serialize)]
struct Leftover<'a> {
    path: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
}

impl<'a> From<&'a uncopy_core::Leftovers> for Leftovers<'a> {
    fn from(leftovers: &'a uncopy_core::Leftovers) -> Leftovers<'a> {
        let leftover = |path: &'a PathBuf| Leftover {
            path: path.to_string_lossy(),
            path_base64: base64_name(path),
        };
        Leftovers { first: leftovers.paths.iter().map(leftover).collect(), more: leftovers.more }
    }
}
