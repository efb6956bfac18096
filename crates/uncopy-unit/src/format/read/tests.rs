//! Tests of the formats: what is written is read, and nothing else is.

use proptest::prelude::*;

use super::super::{
    Identity, Options, Part, Plan, PlanId, RelativePath, Root, SeenRoots, Time, UnitNumber,
    UnitWriter, Word,
};
use super::*;

fn identity(inode: u64, size: u64, links: u32) -> Identity {
    let (mtime, ctime) = (Time(-1, 999_999_999), Time(1_764_000_000, 1));
    Identity { inode, size, mtime, ctime, mode: 0o100_644, links }
}

fn header(kind: UnitKind) -> Header {
    Header {
        schema: SCHEMA,
        plan: PlanId::from_random([7; 16]),
        unit: UnitNumber::new(7).unwrap(),
        kind,
        source: Root::new("/s").unwrap(),
        destination: Root::new("/d").unwrap(),
        seen: SeenRoots::default(),
        options: Options { words: vec![Word("--durable".into())] },
    }
}

fn entry(path: &str, kind: Kind) -> Entry {
    Entry {
        path: RelativePath::new(path).unwrap(),
        kind,
        source: Some(identity(5, 10, 2)),
        destination: None,
        with: None,
        part: None,
    }
}

fn written(kind: UnitKind, entries: &[Entry]) -> String {
    let mut unit = UnitWriter::new(Vec::new(), &header(kind)).unwrap();
    for entry in entries {
        unit.write(entry).unwrap();
    }
    String::from_utf8(unit.end().unwrap()).unwrap()
}

fn read(text: &str) -> Result<(Header, Vec<Entry>), FormatError> {
    let mut reader = UnitReader::new(text.as_bytes())?;
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        entries.push(entry);
    }
    Ok((reader.header().clone(), entries))
}

/// Returns the line and the beginning of the problem.
fn problem(text: &str) -> (u64, String) {
    let error = read(text).unwrap_err();
    let problem = format!("{:?}", error.problem);
    let end = problem.find(|c: char| !c.is_alphanumeric()).unwrap_or(problem.len());
    (error.line, problem[..end].to_owned())
}

fn part(offset: u64, length: u64, ranges: u32, first: u32) -> Option<Part> {
    let first = UnitNumber::new(first).unwrap();
    Some(Part { range: (offset, length), file: 0, ranges, first })
}

#[test]
fn units_come_back() {
    let mut second = entry("b", Kind::File);
    second.with = Some(0);
    second.destination = Some(identity(9, 0, 1));
    let files = [entry("a/x", Kind::File), second, entry("l", Kind::Link)];
    let mut cut = entry("large", Kind::File);
    cut.part = part(6, 4, 3, 5);
    let mut deleted = entry("old", Kind::Link);
    (deleted.source, deleted.destination) = (None, Some(identity(3, 0, 1)));
    let finish = [entry(".", Kind::Directory), entry("a", Kind::Directory), deleted];
    for (kind, entries, bytes) in [
        (UnitKind::Files, &files[..], 10),
        (UnitKind::Range, std::slice::from_ref(&cut), 4),
        (UnitKind::Finish, &finish, 0),
        (UnitKind::Files, &[], 0),
    ] {
        let text = written(kind, entries);
        assert_eq!(read(&text).unwrap(), (header(kind), entries.to_vec()), "{text}");
        let summary = check(text.as_bytes()).unwrap();
        assert_eq!((summary.entries, summary.bytes), (entries.len() as u64, bytes), "{text}");
        assert_eq!(summary.digest, blake3::hash(text.as_bytes()).to_hex().to_string());
    }
}

#[test]
fn the_format_is_as_documented() {
    let mut cut = entry("a", Kind::File);
    cut.part = part(6, 4, 3, 5);
    let text = written(UnitKind::Range, &[cut]);
    let expected = concat!(
        r#"{"schema":1,"plan":"07070707070707070707070707070707","unit":7,"kind":"range","source":"/s","#,
        r#""destination":"/d","options":{"words":["--durable"]}}"#,
        "\n",
        r#"{"path":"a","kind":"file","source":{"inode":5,"size":10,"mtime":[-1,999999999],"ctime":[1764000000,1],"#,
        r#""mode":33188,"links":2},"destination":null,"part":{"range":[6,4],"file":0,"ranges":3,"first":5}}"#,
        "\n",
        r#"{"end":true,"entries":1}"#,
        "\n",
    );
    assert_eq!(text, expected);
}

/// Every way in which a file is cut off is noticed.
#[test]
fn a_unit_that_was_cut_off_is_refused() {
    let text = written(UnitKind::Files, &[entry("a", Kind::File), entry("b", Kind::Link)]);
    for length in 0..text.len() {
        assert!(read(&text[..length]).is_err(), "{length}");
    }
    read(&text).unwrap();
    for length in [0, 10, text.len() - 1] {
        assert_eq!(problem(&text[..length]).1, "CutOff", "{length}");
    }
    for more in ["\n", "x", "{\"end\":true,\"entries\":2}\n"] {
        assert_eq!(problem(&(text.clone() + more)), (5, "AfterEnd".to_owned()), "{more}");
    }
}

#[test]
fn lines_that_lie_are_refused_by_number() {
    let good = written(UnitKind::Files, &[entry("a", Kind::File), entry("b", Kind::File)]);
    for (from, to, line, expected) in [
        (r#""path":"a""#, r#""path":"../a""#, 2, "Json"),
        (r#""path":"a""#, r#""path":"/a""#, 2, "Json"),
        (r#""path":"a""#, r#""path":".uncopy-ledger/a""#, 2, "Json"),
        (r#""path":"a""#, r#""path":".""#, 2, "Misplaced"),
        (r#""path":"b""#, r#""path":"b","path":"c""#, 3, "Json"),
        (r#""path":"b""#, r#""path":"b","extra":1"#, 3, "Json"),
        (r#""size":10"#, r#""size":9223372036854775808"#, 2, "OutOfBounds"),
        (r#""size":10"#, r#""size":18446744073709551616"#, 2, "Json"),
        (r#""size":10"#, r#""size":-1"#, 2, "Json"),
        (r#""size":10"#, r#""size":1e3"#, 2, "Json"),
        (r#""mtime":[-1,999999999]"#, r#""mtime":[-1,1000000000]"#, 2, "OutOfBounds"),
        (r#""mtime":[-1,999999999]"#, r#""mtime":[-1]"#, 2, "Json"),
        (r#""mode":33188"#, r#""mode":4294967295"#, 2, "OutOfBounds"),
        (r#""kind":"file","source":{"#, r#""kind":"directory","source":{"#, 2, "Misplaced"),
        (r#""kind":"file","source":{"#, r#""kind":"door","source":{"#, 2, "Json"),
        (r#""destination":null}"#, r#""destination":null,"with":0}"#, 2, "With"),
        (r#""destination":null}"#, r#""destination":null,"with":99999999999}"#, 2, "With"),
        (r#""unit":7"#, r#""unit":4294967295"#, 1, "Json"),
        (r#""schema":1"#, r#""schema":3"#, 1, "Schema"),
        // Roots on other machines alone have it.
        (r#""schema":1"#, r#""schema":2"#, 1, "SchemaOfRoots"),
        (r#""source":"/s""#, r#""source":{"place":"h:/s"}"#, 1, "SchemaOfRoots"),
        (
            r#""source":"/s","destination":"/d""#,
            r#""source":{"place":"h:/s"},"destination":{"place":"h:/d"}"#,
            1,
            "TwoPlaces",
        ),
        (r#""plan":"07"#, r#""plan":"G7"#, 1, "Json"),
        (r#""source":"/s""#, r#""source":"s""#, 1, "Json"),
        (r#""kind":"files""#, r#""kind":"range""#, 2, "Misplaced"),
        (r#""kind":"files""#, r#""kind":"finish""#, 2, "Misplaced"),
        (r#""entries":2"#, r#""entries":3"#, 4, "Count"),
        (r#""end":true"#, r#""end":false"#, 4, "CutOff"),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good, "{from}");
        assert_eq!(problem(&bad), (line, expected.to_owned()), "{to}");
    }
    let null_source = good.replacen(r#""source":{"inode":5,"size":10,"mtime":[-1,999999999],"ctime":[1764000000,1],"mode":33188,"links":2}"#, r#""source":null"#, 1);
    assert_eq!(problem(&null_source), (2, "Misplaced".to_owned()));
    let long = format!("{}\n", "x".repeat(9 << 20));
    assert_eq!(problem(&long), (1, "TooLong".to_owned()));
}

#[test]
fn further_names_refer_to_the_first_one_of_the_same_file() {
    let with = |index: u64, inode: u64| {
        let mut entry = entry("b", Kind::File);
        (entry.with, entry.source) = (Some(index), Some(identity(inode, 10, 2)));
        entry
    };
    let first = entry("a", Kind::File);
    let mut alone = entry("a", Kind::File);
    alone.source = Some(identity(5, 10, 1));
    for (entries, expected) in [
        (vec![first.clone(), with(0, 5), with(0, 5)], true),
        (vec![first.clone(), with(0, 6)], false),
        (vec![first.clone(), with(1, 5)], false),
        (vec![first.clone(), with(0, 5), with(1, 5)], false),
        (vec![alone, with(0, 5)], false),
    ] {
        assert_eq!(read(&written(UnitKind::Files, &entries)).is_ok(), expected, "{entries:?}");
    }
}

#[test]
fn parts_lie_within_their_file() {
    // Unit 7 of a file of 10 bytes.
    for (part, expected) in [
        (part(0, 4, 3, 7), true),
        (part(4, 4, 3, 6), true),
        (part(8, 2, 3, 5), true),
        (part(0, 10, 3, 7), false),
        (part(0, 4, 3, 6), false),
        (part(4, 4, 3, 7), false),
        (part(8, 1, 3, 5), false),
        (part(8, 3, 3, 5), false),
        (part(4, 0, 3, 6), false),
        (part(4, 4, 3, 8), false),
        (part(4, 4, 3, 4), false),
        (part(0, 10, 1, 7), false),
        (part(0, 4, u32::MAX, 7), false),
        (part(4, u64::MAX, 3, 6), false),
        (None, false),
    ] {
        let mut cut = entry("a", Kind::File);
        cut.part = part;
        assert_eq!(read(&written(UnitKind::Range, &[cut.clone()])).is_ok(), expected, "{part:?}");
        assert!(read(&written(UnitKind::Range, &[cut.clone(), cut])).is_err());
    }
    let unit =
        written(UnitKind::Files, &[Entry { part: part(0, 4, 3, 7), ..entry("a", Kind::File) }]);
    assert_eq!(problem(&unit), (2, "Misplaced".to_owned()));
}

#[test]
fn the_last_unit_copies_directories_and_deletes() {
    let deletion = |path: &str, destination: Option<Identity>| Entry {
        source: None,
        destination,
        ..entry(path, Kind::File)
    };
    for (entry, expected) in [
        (deletion("a", Some(identity(1, 1, 1))), true),
        (deletion("a", None), false),
        (Entry { kind: Kind::Directory, ..deletion(".", Some(identity(1, 1, 1))) }, false),
        (entry("a", Kind::File), false),
    ] {
        assert_eq!(
            read(&written(UnitKind::Finish, std::slice::from_ref(&entry))).is_ok(),
            expected,
            "{entry:?}"
        );
    }
}

#[test]
fn numbers_of_units_are_read_from_names_of_files() {
    for (name, expected) in [
        ("000007.jsonl", Some(7)),
        ("000007.failed.json", Some(7)),
        ("1000000.json", Some(1_000_000)),
        ("0000007.json", None),
        ("7.json", None),
        ("+00007.json", None),
        ("99999999999.json", None),
        ("999999999.json", None),
        ("lock", None),
        (".json", None),
    ] {
        assert_eq!(UnitNumber::of_file_name(name).map(UnitNumber::get), expected, "{name}");
    }
}

#[test]
fn plans_come_back_and_unfinished_ones_are_refused() {
    let Header { plan: id, source, destination, options, .. } = header(UnitKind::Files);
    let (version, finished) = ("0.1.0".to_owned(), true);
    let (units, entries, bytes, deletions) = (3, 20, u64::MAX, 1);
    let plan = Plan {
        schema: SCHEMA,
        id,
        source,
        destination,
        seen: SeenRoots::default(),
        options,
        units,
        entries,
        bytes,
        deletions,
        version,
        finished,
    };
    assert_eq!(Plan::parse(&plan.to_json()).unwrap(), plan);
    let text = String::from_utf8(plan.to_json()).unwrap();
    for (from, to) in [
        ("\"finished\": true", "\"finished\": false"),
        ("\"units\": 3", "\"units\": 0"),
        ("\"units\": 3", "\"units\": 4294967295"),
        ("\"schema\": 1", "\"schema\": 3"),
        ("\"id\"", "\"identity\""),
        ("}\n", ""),
    ] {
        let bad = text.replacen(from, to, 1);
        assert_ne!(bad, text);
        assert!(Plan::parse(bad.as_bytes()).is_err(), "{to}");
    }
}

proptest! {
    /// Nothing panics, whatever is read.
    #[test]
    fn any_change_is_refused_or_read(at in 0..700_usize, byte: u8) {
        let mut text = written(UnitKind::Files, &[entry("a", Kind::File), entry("b", Kind::File)]).into_bytes();
        let at = at % text.len();
        text[at] = byte;
        let _ = check(&text[..]);
    }
}
