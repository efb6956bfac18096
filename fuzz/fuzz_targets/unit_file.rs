//! Input: the file of a unit of work. One that is read is written as a file that is read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uncopy::unit::format::{Entry, FormatError, Header, UnitReader, UnitWriter};

fn read(text: &[u8]) -> Result<(Header, Vec<Entry>), FormatError> {
    let mut reader = UnitReader::new(text)?;
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        // Whatever it is, it stays below its root.
        assert!(entry.path.is_root() || entry.path.names().all(|name| name != "." && name != ".."));
        assert!(entry.path.as_path().is_relative());
        entries.push(entry);
    }
    Ok((reader.header().clone(), entries))
}

fuzz_target!(|data: &[u8]| {
    let Ok(found) = read(data) else { return };
    let mut writer = UnitWriter::new(Vec::new(), &found.0).expect("memory takes all");
    for entry in &found.1 {
        writer.write(entry).expect("memory takes all");
    }
    let text = writer.end().expect("memory takes all");
    assert_eq!(read(&text).expect("it was written by the library"), found);
});
