//! Parser of the configuration file: TOML, one key per setting.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::key::Key;
use super::{Origin, Setting};

/// Parses the text of the file `path`.
///
/// # Errors A sentence that names file, line and next step.
pub(super) fn parse(path: &Path, text: &[u8]) -> Result<Vec<Setting>, String> {
    let at = |offset: usize, message: &str| {
        format!("{}, line {}: {message}", path.display(), line_at(text, offset))
    };
    let text = std::str::from_utf8(text)
        .map_err(|error| at(error.valid_up_to(), "this is not UTF-8; save the file as UTF-8"))?;
    let table = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        let message = error.message().trim().replace('\n', ", ");
        at(offset, &format!("{message}; write settings like: verify = \"blake3\""))
    })?;
    let mut settings = Vec::new();
    for (name, value) in table.get_ref() {
        let offset = name.span().start;
        let key = Key::named(name.get_ref()).map_err(|message| at(offset, &message))?;
        let written = &text[value.span()];
        let value = plain(value.get_ref()).unwrap_or_default();
        key.check(&value)
            .map_err(|next_step| at(offset, &format!("{} is {written}; {next_step}", key.name)))?;
        let origin = Origin::File { path: path.to_owned(), line: line_at(text.as_bytes(), offset) };
        settings.push(Setting { key, value, origin });
    }
    Ok(settings)
}

/// Returns the value in the form of a flag; `None`: no flag has such a value.
fn plain(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .ok()
            .map(|number| number.to_string()),
        DeValue::Boolean(is) => Some(is.to_string()),
        DeValue::Array(items) if items.is_empty() => Some(String::from("none")),
        DeValue::Array(items) => {
            let items: Option<Vec<String>> =
                items.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect();
            items.map(|items| items.join(","))
        }
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

/// Returns the line of an offset, counted from 1.
fn line_at(text: &[u8], offset: usize) -> usize {
    let before = &text[..offset.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &[u8]) -> Result<Vec<String>, String> {
        let settings = parse(Path::new("/c"), text)?;
        Ok(settings.iter().map(Setting::to_string).collect())
    }

    #[test]
    fn settings_have_values_and_lines() {
        for (text, name, value, line) in [
            ("verify = \"sha256\"", "verify", "sha256", 1),
            ("# why\n\ndurable = true\n", "durable", "true", 3),
            ("preserve = [\"mode\", \"acl\"]", "preserve", "mode,acl", 1),
            ("preserve = []", "preserve", "none", 1),
            ("jobs = 4", "jobs", "4", 1),
            ("retries = 0x10", "retries", "16", 1),
            ("max-bandwidth = \"50M\"", "max-bandwidth", "50M", 1),
            ("max-bandwidth = 1000", "max-bandwidth", "1000", 1),
            ("\"on-error\" = 'abort'", "on-error", "abort", 1),
            ("method = 'no-user-copy'", "method", "no-user-copy", 1),
        ] {
            let expected = format!("{name} = {value} (/c, line {line})");
            assert_eq!(parsed(text.as_bytes()), Ok(vec![expected]), "{text}");
        }
        assert_eq!(parsed(b""), Ok(vec![]));
    }

    #[test]
    fn errors_have_line_and_next_step() {
        for (text, line, says) in [
            (
                &b"verfy = 'blake3'"[..],
                1,
                "there is no setting \"verfy\"; did you mean \"verify\"?",
            ),
            (b"\nmax_bandwidth = 1", 2, "did you mean \"max-bandwidth\"?"),
            (b"zzz = 1", 1, "valid settings: verify, digest, durable"),
            (b"[cp]\njobs = 1", 1, "there is no setting \"cp\""),
            (b"jobs = 1\njobs = 2", 2, "duplicate key"),
            (b"jobs =\n", 1, "write settings like"),
            (
                b"\n\nverify = 'crc32'",
                3,
                "verify is 'crc32'; set it to blake3, sha256, xxh3 or none",
            ),
            (b"verify = true", 1, "verify is true; set it to"),
            (b"verify = ''", 1, "verify is ''; set it to"),
            (b"durable = 1", 1, "durable is 1; set it to true or false"),
            (b"jobs = 0", 1, "jobs is 0; set it to auto, or a number of workers from 1"),
            (b"jobs = 1.5", 1, "jobs is 1.5; set it to"),
            (b"retries = -1", 1, "retries is -1; set it to"),
            (b"preserve = ['mode', 'size']", 1, "preserve is ['mode', 'size']; set it to"),
            (b"preserve = [1]", 1, "preserve is [1]; set it to"),
            (b"links = {}", 1, "links is {}; set it to"),
            (b"jobs = 1\n# \xff", 2, "not UTF-8"),
        ] {
            let error = parsed(text).unwrap_err();
            let start = format!("/c, line {line}: ");
            let shown = String::from_utf8_lossy(text);
            assert!(error.starts_with(&start) && error.contains(says), "{shown}: {error}");
        }
    }
}
