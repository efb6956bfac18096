//! Writes units (pure).

use std::io::{self, Write};

use super::{Entry, Header};

/// Writer of a unit. Without [`end`](UnitWriter::end) the unit is not whole, and every reader notices.
#[derive(Debug)]
pub struct UnitWriter<W> {
    output: W,
    /// The next line: many small writes would each be a call.
    line: Vec<u8>,
    entries: u64,
}

impl<W: Write> UnitWriter<W> {
    /// Writes the first line.
    ///
    /// # Errors
    /// As `output` reports them; so it is with all methods.
    pub fn new(output: W, header: &Header) -> io::Result<UnitWriter<W>> {
        let mut writer = UnitWriter { output, line: Vec::new(), entries: 0 };
        writer.write_line(header)?;
        Ok(writer)
    }

    /// Goes on with a unit that has its first line, and so many entries.
    pub(crate) fn go_on(output: W, entries: u64) -> UnitWriter<W> {
        UnitWriter { output, line: Vec::new(), entries }
    }

    /// Returns where the unit goes to.
    pub(crate) fn output(&mut self) -> &mut W {
        &mut self.output
    }

    /// Writes an entry, and returns its index.
    ///
    /// # Errors
    /// As `output` reports them.
    pub fn write(&mut self, entry: &Entry) -> io::Result<u64> {
        self.write_line(entry)?;
        self.entries += 1;
        Ok(self.entries - 1)
    }

    /// Returns the number of entries.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Writes the last line, and flushes the output to where it goes.
    ///
    /// # Errors
    /// As `output` reports them.
    pub fn end(mut self) -> io::Result<W> {
        writeln!(self.output, r#"{{"end":true,"entries":{}}}"#, self.entries)?;
        self.output.flush()?;
        Ok(self.output)
    }

    fn write_line(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, value)?;
        self.line.push(b'\n');
        self.output.write_all(&self.line)
    }
}
