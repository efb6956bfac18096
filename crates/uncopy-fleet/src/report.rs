//! Lines for people: messages on standard error, results on standard output.

use std::io::{self, StdoutLock, Write};

/// Prints a message.
pub(crate) fn say(message: &str) {
    // Nobody is left to be informed when this fails.
    let _ = writeln!(io::stderr(), "uncopy fleet: {message}");
}

/// Prints a result. `false`: nobody could read it.
pub(crate) fn print(text: &str) -> bool {
    print_by(|output| output.write_all(text.as_bytes()))
}

/// Prints what `write` writes. `false`: nobody could read it.
pub(crate) fn print_by(write: impl FnOnce(&mut StdoutLock<'_>) -> io::Result<()>) -> bool {
    let mut output = io::stdout().lock();
    let written = write(&mut output).and_then(|()| output.flush());
    if let Err(error) = &written {
        say(&format!("cannot write to standard output: {error}; give it a reader that stays"));
    }
    written.is_ok()
}

/// Describes a number of units.
pub(crate) fn units(count: u64) -> String {
    match count {
        1 => "1 unit".to_owned(),
        count => format!("{count} units"),
    }
}
