//! Shows a text through the pager of the person at the terminal, as git does.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::process::{Child, Command, Stdio};

/// The pager where `PAGER` names none, and what makes it end by itself after a text of one page.
const DEFAULT: &str = "less";
const LESS: (&str, &str) = ("LESS", "FRX");

/// Exit code of a shell that found no such program.
const NOT_FOUND: i32 = 127;

/// Writes a text to the standard output; through a pager if that is a terminal.
///
/// # Errors
/// If it cannot be written.
pub(super) fn show(text: &str) -> io::Result<()> {
    let pager = if io::stdout().is_terminal() { chosen(std::env::var_os("PAGER")) } else { None };
    if let Some(mut child) = pager.as_deref().and_then(start) {
        if let Some(mut input) = child.stdin.take() {
            // Whoever leaves the pager early has seen enough.
            match input.write_all(text.as_bytes()) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
                _ => {}
            }
        }
        if child.wait()?.code() != Some(NOT_FOUND) {
            return Ok(());
        }
    }
    io::stdout().write_all(text.as_bytes())
}

/// The pager that the value of `PAGER` chooses (pure). `cat` and nothing mean none.
fn chosen(variable: Option<OsString>) -> Option<OsString> {
    let pager = variable.unwrap_or_else(|| DEFAULT.into());
    (!pager.is_empty() && pager != "cat").then_some(pager)
}

/// Starts it by the shell, which reads its flags. Without a shell there is no pager.
fn start(pager: &OsStr) -> Option<Child> {
    let mut command = if pager == DEFAULT { Command::new(DEFAULT) } else { Command::new("sh") };
    if pager != DEFAULT {
        command.arg("-c").arg(pager);
    }
    if std::env::var_os(LESS.0).is_none() {
        command.env(LESS.0, LESS.1);
    }
    command.stdin(Stdio::piped()).spawn().ok()
}

#[cfg(test)]
mod tests {
    use super::chosen;

    #[test]
    fn nothing_and_cat_are_no_pager() {
        for (variable, pager) in [
            (None, Some("less")),
            (Some(""), None),
            (Some("cat"), None),
            (Some("more -d"), Some("more -d")),
        ] {
            assert_eq!(chosen(variable.map(Into::into)), pager.map(Into::into), "{variable:?}");
        }
    }
}
