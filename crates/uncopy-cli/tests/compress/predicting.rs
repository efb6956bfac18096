//! How well first bytes, names and earlier files tell what compression pays for, and how much of the
//! sampling that saves: held against what `zstd` makes of the same files.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use testbed::{Case, Content, Need, Program, Run, by_extent, run_tool};

use crate::compress::{Pair, compress, noise, text};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [
            Need::Tool("zstd"), Need::Tool("gzip"), Need::Tool("bzip2"), Need::Tool("xz"),
            Need::Tool("lz4"), Need::Tool("zip"), Need::Tool("tar"), Need::Tool("sqlite3"),
        ] common_types_are_judged_by_few_samples,
        [] each_lie_is_found_by_what_follows_it,
        [] a_lie_that_looks_right_is_found_by_the_64th_file,
    ]
}

/// Bytes of a sample without any knowledge: four pieces of 32 KiB.
const FULL_SAMPLE_BYTES: u64 = 4 * (32 << 10);

/// Files that real ones are made of.
struct Material {
    prose: Vec<u8>,
    code: Vec<u8>,
    programs: Vec<PathBuf>,
}

impl Material {
    fn new() -> Material {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let join = |directory: &str, extension: &str| {
            let (mut found, mut left) = (Vec::new(), vec![root.join(directory)]);
            while let Some(directory) = left.pop() {
                let mut paths: Vec<PathBuf> =
                    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
                paths.sort();
                for path in paths {
                    if path.is_dir() {
                        left.push(path);
                    } else if path.extension().is_some_and(|found| found == extension) {
                        found.extend(fs::read(path).unwrap());
                    }
                }
            }
            found
        };
        let mut programs: Vec<PathBuf> = fs::read_dir("/usr/bin")
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                let size = fs::metadata(path).map_or(0, |metadata| metadata.len());
                let is_some = (30_000..400_000).contains(&size);
                is_some && fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"))
            })
            .collect();
        programs.sort();
        Material { prose: join("docs", "md"), code: join("crates", "rs"), programs }
    }

    fn slice(from: &[u8], seed: u64, length: usize) -> &[u8] {
        let begin = usize::try_from(seed * 7919).unwrap() * 31 % (from.len() - length);
        &from[begin..begin + length]
    }

    fn code(&self, seed: u64) -> &[u8] {
        Material::slice(&self.code, seed, length(seed))
    }
}

/// From 40 to 200 KB.
fn length(seed: u64) -> usize {
    40_000 + usize::try_from(seed * 60_013 % 160_000).unwrap()
}

fn bytes_of(seed: u64) -> Vec<u8> {
    noise(seed, length(seed) as u64)
}

/// Returns the output of a tool that compresses a file.
fn by_tool(command: &[&str], pair: &Pair, contents: &[u8]) -> Vec<u8> {
    let input = pair.to.join("input");
    fs::write(&input, contents).unwrap();
    let output = Command::new(command[0]).args(&command[1..]).arg(&input).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Zeros that a JPEG file has after each 0xff, and some values more often than others.
fn like_jpeg(seed: u64) -> Vec<u8> {
    let mut file =
        b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x48\0\x48\0\0\xff\xdb\0\x43\0".to_vec();
    file.extend((1..=64).flat_map(|step: u8| [step, step]));
    file.extend(b"\xff\xda\0\x0c\x03\x01\0\x02\x11\x03\x11\0\x3f\0");
    for byte in bytes_of(seed) {
        file.push(byte);
        if byte == 0xff {
            file.push(0);
        }
    }
    file
}

/// Frames of 417 bytes with the same header, behind a tag with a name.
fn like_mp3(seed: u64) -> Vec<u8> {
    let mut file = b"ID3\x04\0\0\0\0\0\x17TIT2\0\0\0\x0d\0\0\x03name of song".to_vec();
    for frame in bytes_of(seed).chunks(413) {
        file.extend([0xff, 0xfb, 0x90, 0x64]);
        file.extend(frame);
    }
    file
}

fn like_mp4(seed: u64) -> Vec<u8> {
    let media = bytes_of(seed);
    let size = u32::try_from(media.len() + 8).unwrap();
    let table: Vec<u8> = (0..500_u32).flat_map(|chunk| (chunk * 4096).to_be_bytes()).collect();
    let header = b"\0\0\0\x18ftypisom\0\0\x02\0isommp41";
    [&header[..], &size.to_be_bytes(), b"mdat", &media, b"\0\0\x07\xd8moov", &table].concat()
}

/// Pixels as deflate leaves them. Checksums are left out: nobody looks at them here.
fn like_png(seed: u64, pair: &Pair) -> Vec<u8> {
    let pixels = bytes_of(seed).into_iter().enumerate();
    let pixels: Vec<u8> = pixels.map(|(place, byte)| (place / 300) as u8 ^ (byte & 0x1f)).collect();
    let packed = by_tool(&["gzip", "-c"], pair, &pixels);
    let data = &packed[10..packed.len() - 8];
    let size = u32::try_from(data.len() + 6).unwrap().to_be_bytes();
    let header = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x01\0\0\0\x01\0\x08\0\0\0\0\0\0\0\0";
    [&header[..], &size, b"IDAT\x78\x9c", data, &[0; 8], b"\0\0\0\0IEND\xae\x42\x60\x82"].concat()
}

/// A few objects, and most of the file a compressed stream.
fn like_pdf(seed: u64, pair: &Pair, material: &Material) -> Vec<u8> {
    let page = [material.code(seed), material.code(seed + 1), material.code(seed + 2)].concat();
    let packed = by_tool(&["gzip", "-c"], pair, &page);
    let data = &packed[10..packed.len() - 8];
    let head = format!(
        "%PDF-1.7\n%\u{e2}\u{e3}\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n\
         3 0 obj\n<</Filter/FlateDecode/Length {}>>\nstream\n",
        data.len()
    );
    let entry = |number| format!("{:010} 00000 n \n", number * 977);
    let table: String = (0..20_u64).map(entry).collect();
    [head.as_bytes(), data, b"\nendstream\nendobj\nxref\n", table.as_bytes()].concat()
}

/// Lines made of numbers without a pattern.
fn lines(seed: u64, line: impl Fn(&[u8]) -> String) -> Vec<u8> {
    let numbers = noise(seed, length(seed) as u64 / 5);
    numbers.chunks_exact(8).flat_map(|chunk| line(chunk).into_bytes()).collect()
}

/// Makes one file of each type, in a directory of its own.
fn make(number: u64, pair: &Pair, material: &Material) {
    let seed = number * 2 + 1;
    let code = material.code(seed);
    let prose = Material::slice(&material.prose, seed, length(seed).min(150_000));
    let large = [code, material.code(seed + 40), material.code(seed + 80)].concat();
    let csv = |n: &[u8]| format!("{},{}.{:02},site {},{}\n", n[0], n[1], n[2] % 100, n[3], n[4]);
    let json = |n: &[u8]| {
        let [a, b, c, ..] = *n else { unreachable!() };
        format!("{{\"id\":{a},\"value\":{b}.{c},\"labels\":[\"north\",\"{}\"]}}\n", n[3] % 10)
    };
    let log = |n: &[u8]| {
        let port = 1024 + u32::from(n[2]) * 200;
        format!(
            "Nov 25 10:{:02}:{:02} host sshd[{}]: closed port {port}\n",
            n[0] % 60,
            n[1] % 60,
            n[3]
        )
    };
    let xml = |n: &[u8]| {
        format!("<row id=\"{}\"><name>n{}</name><size>{}</size></row>\n", n[0], n[1], n[2])
    };
    let wide = |n: &[u8]| format!("\u{5b57}\u{6bb5}{}\u{7684}\u{503c}{}\u{3002}\n", n[0], n[1]);
    for (name, contents) in [
        ("source.tar.gz", by_tool(&["gzip", "-c"], pair, &large)),
        ("backup.bz2", by_tool(&["bzip2", "-c"], pair, &large)),
        ("package.xz", by_tool(&["xz", "-1", "-c"], pair, &large)),
        ("dump.zst", by_tool(&["zstd", "-q", "-c"], pair, &large)),
        ("frame.lz4", by_tool(&["lz4", "-q", "-c"], pair, &bytes_of(seed))),
        ("library.jar", by_tool(&["zip", "-q", "-j", "-"], pair, &large)),
        ("picture.png", like_png(seed, pair)),
        ("photo.jpg", like_jpeg(seed)),
        ("song.mp3", like_mp3(seed)),
        ("film.mp4", like_mp4(seed)),
        ("page.md", prose.to_vec()),
        ("table.csv", lines(seed, csv)),
        ("records.json", lines(seed, json)),
        ("source.rs", code.to_vec()),
        ("messages.1", lines(seed, log)),
        ("feed.xml", lines(seed, xml)),
        ("words", lines(seed, wide)),
        ("paper.pdf", like_pdf(seed, pair, material)),
        (
            "program",
            fs::read(&material.programs[number as usize % material.programs.len()]).unwrap(),
        ),
        ("key.enc", bytes_of(seed)),
        // Names that lie.
        ("notes.txt", bytes_of(seed)),
        ("readme.gz", prose.to_vec()),
    ] {
        pair.file(&format!("tree/{number}/{name}"), contents);
    }
    let directory = pair.from.join(format!("tree/{number}"));
    let rows = format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, size INTEGER);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})
         INSERT INTO t SELECT i, 'name of ' || (i * 7919 % 1009), i * 65537 % 99991 FROM n;",
        1500 + seed % 50 * 40
    );
    run_tool("sqlite3", [directory.join("library.db").as_os_str(), rows.as_ref()]);
    let members = ["source.rs", "table.csv", "photo.jpg"].map(std::ffi::OsStr::new);
    let (archive, from) = (directory.join("members.tar"), directory.as_os_str());
    let flags = ["-cf".as_ref(), archive.as_os_str(), "-C".as_ref(), from];
    run_tool("tar", flags.into_iter().chain(members));
    let image = Content::sparse(4 << 20, &[]).write(&directory.join("image.raw"));
    for place in [0, 1, 3] {
        std::os::unix::fs::FileExt::write_all_at(&image, code, (place << 20) + 4096).unwrap();
    }
}

/// Sums over files of one type.
#[derive(Debug, Default)]
struct TypeTally {
    bytes: u64,
    misjudged_bytes: u64,
    sampled_bytes: u64,
    full_sample_bytes: u64,
}

/// The truth is what `zstd` saves of the whole file; the saving is counted in bytes that were compressed on
/// trial, which is exact.
fn common_types_are_judged_by_few_samples() {
    let pair = Pair::new();
    let material = Material::new();
    for number in 0..by_extent([24, 72, 400]) {
        make(number, &pair, &material);
    }
    let root = pair.from.join("tree");
    let mut command = Command::new("zstd");
    command.args(["-q", "-3", "-r", "--output-dir-mirror"]).arg(pair.to.join("zstd")).arg(&root);
    assert!(command.status().unwrap().success());
    // It mirrors the whole path.
    let packed = |path: &Path| {
        let mut below = pair.to.join("zstd").into_os_string();
        below.push("/");
        below.push(path);
        below.push(".zst");
        fs::metadata(below).unwrap().len()
    };
    let log = pair.to.join("log");
    let program = compress().args(["-rT", "--audit"]).arg(&log);
    let run = program.arg(&root).arg(pair.to.join("copy")).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_statistics_agree(&run, &log);

    let mut types = BTreeMap::<String, TypeTally>::new();
    for event in super::events(&run, "copied") {
        let event = event.value();
        let path = Path::new(event["source"].as_str().unwrap());
        let name = path.file_name().unwrap().to_str().unwrap();
        let metadata = fs::metadata(path).unwrap();
        let pays = packed(path) * 8 <= metadata.len() * 7;
        let is_compressed = event["compression"]["action"] == "compressed";
        let tally = types.entry(name.to_owned()).or_default();
        tally.bytes += metadata.len();
        tally.misjudged_bytes += if pays == is_compressed { 0 } else { metadata.len() };
        let sampled = &event["compression"]["sample"]["bytes"];
        tally.sampled_bytes += sampled.as_u64().unwrap_or(0);
        let data = metadata.len().min(metadata.blocks() * 512);
        tally.full_sample_bytes += data.min(FULL_SAMPLE_BYTES);
    }
    assert!(types.len() >= 20, "{}", types.len());
    let sum = |of: fn(&TypeTally) -> u64| types.values().map(of).sum::<u64>();
    let (bytes, misjudged) = (sum(|tally| tally.bytes), sum(|tally| tally.misjudged_bytes));
    assert!(misjudged * 100 <= bytes, "{misjudged} of {bytes} bytes are misjudged: {types:#?}");
    let (sampled, full) = (sum(|tally| tally.sampled_bytes), sum(|tally| tally.full_sample_bytes));
    assert!(sampled > 0 && sampled * 5 <= full, "{sampled} of {full} bytes sampled: {types:#?}");
}

/// Compares what `uncopy audit stats` counts with the expectations of the events and their results.
fn assert_statistics_agree(run: &Run, log: &Path) {
    let count = |held: &Value| {
        let events = super::events(run, "copied").into_iter();
        let found = events.map(|event| event.value()["compression"]["expected"].clone());
        found.filter(|expected| expected.is_object() && expected["held"] == *held).count()
    };
    let [right, wrong, unchecked] =
        [json!(true), json!(false), Value::Null].map(|held| count(&held));
    assert!(right > 0 && unchecked > 0, "{right} {unchecked}");
    let program = Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["audit", "stats", "--json"]);
    let stats = program.arg(log).run();
    assert!(stats.status.success(), "{}", stats.stderr);
    let total: Value = serde_json::from_str(stats.stdout.lines().last().unwrap()).unwrap();
    let expected = json!({"right": right, "wrong": wrong, "unchecked": unchecked});
    assert_eq!(total["guesses"], expected);
    let summary = run.receipts().pop().unwrap();
    for key in ["files", "source_bytes", "bytes"] {
        assert_eq!(total["compression"][key], summary.value()["transformed"][key], "{key}");
    }
}

/// Each magic number before text, and text under each name: it is compressed all the same.
fn each_lie_is_found_by_what_follows_it() {
    let pair = Pair::new();
    for (number, magic) in [
        &b"\x1f\x8b\x08\0"[..],
        b"BZh9",
        b"\xfd7zXZ\0",
        b"\x04\x22\x4d\x18",
        b"PK\x03\x04\x14\0\0\0\x08\0",
        b"7z\xbc\xaf\x27\x1c",
        b"\xff\xd8\xff\xe0",
        b"\x89PNG\r\n\x1a\n",
        b"ID3\x04",
        b"\0\0\0\x18ftypisom",
        b"OggS",
        b"fLaC",
    ]
    .into_iter()
    .enumerate()
    {
        pair.file(&format!("tree/{number}.text"), [magic, &text(200_000)].concat());
        pair.file(&format!("tree/{number}.zeros"), [magic, &vec![0; 200_000]].concat());
    }
    for name in ["gz", "zip", "jpg", "png", "mp3", "7z", "br", "lzma", "JPEG"] {
        pair.file(&format!("tree/named.{name}"), text(200_000));
    }
    // And these are left, whatever they say.
    for (number, (magic, name)) in [
        (&b"\x7fELF\x02\x01\x01"[..], "program"),
        (b"SQLite format 3\0", "a.db"),
        (b"", "a.txt"),
        (b"", "a.csv"),
        (b"plain text for a start\n", "a.log"),
        (b"%PDF-1.7\n", "a.pdf"),
    ]
    .into_iter()
    .enumerate()
    {
        pair.file(&format!("tree/noise/{name}"), [magic, &noise(number as u64, 200_000)].concat());
    }
    let run = compress().arg("-rT").arg(pair.from.join("tree")).arg(pair.to.join("copy")).run();
    assert!(run.status.success(), "{}", run.stderr);
    let copied = super::events(&run, "copied");
    assert_eq!(copied.len(), 2 * 12 + 9 + 6);
    for event in copied {
        let event = event.value();
        let is_noise = event["source"].as_str().unwrap().contains("/noise/");
        let expected = if is_noise { "left" } else { "compressed" };
        assert_eq!(event["compression"]["action"], expected, "{event}");
    }
}

/// Noise follows the magic number, and text that noise. At most 63 are believed; what the 64th shows applies
/// to those after it.
fn a_lie_that_looks_right_is_found_by_the_64th_file() {
    let pair = Pair::new();
    let lie = [b"\x1f\x8b\x08\0".to_vec(), noise(1, 8192), text(60_000)].concat();
    for number in 0..100 {
        pair.file(&format!("tree/{number}.gz"), &lie);
    }
    let program = compress().args(["-rT", "--jobs=1"]);
    let run = program.arg(pair.from.join("tree")).arg(pair.to.join("copy")).run();
    assert!(run.status.success(), "{}", run.stderr);
    let copied = super::events(&run, "copied");
    for (number, event) in copied.iter().enumerate() {
        let compression = &event.value()["compression"];
        let held = &compression["expected"]["held"];
        match number {
            0..63 => assert!(compression["sample"].is_null() && held.is_null(), "{compression}"),
            63 => assert_eq!(*held, false, "{compression}"),
            // Seven more make it known that these shrink.
            64..71 => assert!(compression["expected"].is_null(), "{compression}"),
            _ => assert_eq!(compression["expected"]["by"], "earlier_files", "{compression}"),
        }
        let expected = if number < 63 { "left" } else { "compressed" };
        assert_eq!(compression["action"], expected, "{number}: {compression}");
    }
}
