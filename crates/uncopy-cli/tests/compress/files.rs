//! Single files: what is decided, what is written, and what is said about it.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::json;
use testbed::{Case, Content, Need, Place, assert_same, run_tool};

use crate::compress::{Pair, by_zstd, compress, copy, cp, decompress, noise, said, text};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = testbed::cases![
        [Need::Tool("zstd")] what_is_written_zstd_reads,
        [Need::Tool("zstd")] a_reader_jumps_into_the_middle,
        [Need::Tool("zstd")] what_zstd_writes_is_read,
        [Need::Tool("zstd")] files_of_every_length_come_back,
        [] the_receipt_has_guess_sample_and_sizes,
        [] what_does_not_pay_is_copied_the_cheapest_way,
        [Need::Tool("zstd")] a_name_in_zst_is_always_a_file_of_zstd,
        [] a_directory_gets_the_suffix_and_gives_it_back,
        [] two_sources_with_one_target_are_refused,
        [] what_is_not_compressed_is_said,
        [] levels_are_heeded,
        [] metadata_goes_along,
        [] the_audit_log_has_both_sizes,
        [] zero_copy_is_refused_and_not_demanded,
        [] a_stream_is_refused,
    ];
    for place in [Place::Disk, Place::Ext4, Place::Xfs, Place::Btrfs, Place::Tmpfs] {
        for (name, test) in [
            ("verified_and_flushed_on", verified_and_flushed as fn(Place)),
            ("holes_come_back_on", holes_come_back),
        ] {
            let name = format!("compress::files::{name}::{place:?}");
            cases.push(Case::new(name, &[Need::At(place)], move || test(place)));
        }
    }
    cases
}

fn what_is_written_zstd_reads() {
    let pair = Pair::new();
    let contents = [text(3_000_000), noise(1, 500_000), vec![0; 2_000_000]].concat();
    let source = pair.file("a", &contents);
    let target = pair.to.join("a.zst");
    let receipt = copy(compress(), &source, &target);
    assert_eq!(said(&receipt, "action"), "compressed");
    assert_eq!(said(&receipt, "frames"), 6, "a mebibyte each");
    assert!(by_zstd(&target) == contents);
    // It checks, and it finds the frames and the table behind them.
    let output = Command::new("zstd").args(["-lv"]).arg(&target).output().unwrap();
    let listed = String::from_utf8_lossy(&output.stdout);
    assert!(listed.contains("Zstandard Frames: 6"), "{listed}");
    assert!(listed.contains("Skippable Frames: 1"), "{listed}");
    assert!(listed.contains("Check: XXH64"), "{listed}");
    assert_seekable(&fs::read(&target).unwrap(), &contents);
}

/// Every frame, found by the table alone, holds what the table says: read as the format's text has it.
fn assert_seekable(file: &[u8], contents: &[u8]) {
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap()) as usize;
    let (before, footer) = file.split_at(file.len() - 9);
    assert_eq!(number(&footer[5..]), 0x8F92_EAB1);
    assert_eq!(footer[4], 0, "no checksums");
    let frames = number(&footer[..4]);
    let (before, entries) = before.split_at(before.len() - frames * 8);
    let (data, head) = before.split_at(before.len() - 8);
    assert_eq!(number(&head[..4]), 0x184D_2A5E);
    assert_eq!(number(&head[4..]), frames * 8 + 9);
    let (mut data, mut contents) = (data, contents);
    for entry in entries.chunks(8) {
        let (frame, rest) = data.split_at(number(&entry[..4]));
        let (expected, others) = contents.split_at(number(&entry[4..]));
        let scratch = Place::Disk.scratch();
        fs::write(scratch.join("frame"), frame).unwrap();
        assert!(by_zstd(&scratch.join("frame")) == expected, "a frame that is not independent");
        (data, contents) = (rest, others);
    }
    assert!(data.is_empty() && contents.is_empty());
}

/// Reads exactly `length` bytes of a file.
fn read_at(file: &fs::File, offset: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(length).unwrap()];
    file.read_exact_at(&mut bytes, offset).unwrap();
    bytes
}

/// Where in the file the frame lies that holds a byte of the contents, its length, and where its own
/// contents begin: by the footer and the table alone.
fn find_frame(file: &fs::File, wanted: u64) -> (u64, u64, u64) {
    let number = |bytes: &[u8]| u64::from(u32::from_le_bytes(bytes.try_into().unwrap()));
    let size = file.metadata().unwrap().len();
    let footer = read_at(file, size - 9, 9);
    assert_eq!((number(&footer[5..]), footer[4]), (0x8F92_EAB1, 0));
    let table_bytes = number(&footer[..4]) * 8;
    let table = read_at(file, size - 9 - table_bytes, table_bytes);
    let (mut offset, mut begin) = (0, 0);
    for entry in table.chunks(8) {
        let (packed, length) = (number(&entry[..4]), number(&entry[4..]));
        if wanted < begin + length {
            return (offset, packed, begin);
        }
        (offset, begin) = (offset + packed, begin + length);
    }
    panic!("byte {wanted} is in no frame");
}

/// Three short reads: the footer, the table, and one frame.
fn a_reader_jumps_into_the_middle() {
    let pair = Pair::new();
    let contents = [text(5_000_000), noise(9, 3_000_000), text(4_000_000)].concat();
    let source = pair.file("a", &contents);
    let packed = pair.to.join("a.zst");
    copy(compress(), &source, &packed);
    let whole = fs::File::open(&packed).unwrap();
    for wanted in [0, 2_345_678, 6_000_000, (8 << 20) - 1, 8 << 20, contents.len() as u64 - 1] {
        let (offset, length, begin) = find_frame(&whole, wanted);
        let scratch = Place::Disk.scratch();
        fs::write(scratch.join("frame"), read_at(&whole, offset, length)).unwrap();
        let frame = by_zstd(&scratch.join("frame"));
        let begin = usize::try_from(begin).unwrap();
        assert!((begin..begin + frame.len()).contains(&usize::try_from(wanted).unwrap()));
        assert!(frame == contents[begin..begin + frame.len()], "byte {wanted}");
    }
}

fn what_zstd_writes_is_read() {
    let pair = Pair::new();
    let contents = [text(2_000_000), noise(2, 300_000)].concat();
    let source = pair.file("a", &contents);
    for flags in [&["-1"][..], &["-19"], &["--no-check"], &["--long=27"], &["-T2", "-B100000"]] {
        let packed = pair.from.join("packed.zst");
        let mut command = Command::new("zstd");
        command.args(["-q", "-f"]).args(flags).arg(&source).arg("-o").arg(&packed);
        assert!(command.status().unwrap().success(), "{flags:?}");
        let receipt = copy(decompress().arg("--verify"), &packed, &pair.to.join("b"));
        assert_eq!(said(&receipt, "action"), "decompressed");
        assert!(fs::read(pair.to.join("b")).unwrap() == contents, "{flags:?}");
    }
    // Several in one, and one to leap over between them.
    let packed = fs::read(pair.from.join("packed.zst")).unwrap();
    let leap = [&[0x53, 0x2a, 0x4d, 0x18, 5, 0, 0, 0][..], b"hello"].concat();
    let several = pair.file("several.zst", [&packed[..], &leap, &packed].concat());
    copy(decompress(), &several, &pair.to.join("c"));
    assert!(fs::read(pair.to.join("c")).unwrap() == [&contents[..], &contents].concat());
}

fn files_of_every_length_come_back() {
    let pair = Pair::new();
    let frame = 1 << 20;
    for length in [0, 1, 2, 4095, 4096, frame - 1, frame, frame + 1, 2 * frame, 2 * frame + 1] {
        let source = pair.file("a", text(length));
        let packed = pair.to.join("a.zst");
        let receipt = copy(compress().arg("--verify"), &source, &packed);
        assert_eq!(said(&receipt, "source_bytes"), length as u64);
        assert_eq!(receipt.bytes(), fs::metadata(&packed).unwrap().len());
        assert!(by_zstd(&packed) == text(length), "{length}");
        let receipt = copy(decompress().arg("--verify"), &packed, &pair.to.join("b"));
        assert_eq!(receipt.bytes(), length as u64);
        assert_same(&source, &pair.to.join("b"));
    }
}

fn the_receipt_has_guess_sample_and_sizes() {
    let pair = Pair::new();
    let source = pair.file("a", text(1_000_000));
    let receipt = copy(compress(), &source, &pair.to.join("b"));
    assert_eq!(said(&receipt, "action"), "compressed");
    assert_eq!(said(&receipt, "algorithm"), "zstd");
    assert_eq!(said(&receipt, "level"), 3);
    assert!(said(&receipt, "guess").is_null());
    assert_eq!(said(&receipt, "source_bytes"), 1_000_000);
    assert_eq!(*said(&receipt, "expected"), json!({"shrinks": true, "by": "text", "held": true}));
    let sample = said(&receipt, "sample");
    assert_eq!(sample["bytes"], 4 * 2048);
    assert!(sample["compressed_bytes"].as_u64().unwrap() < 4 * 2048);
    let size = fs::metadata(pair.to.join("b")).unwrap().len();
    assert_eq!(receipt.bytes(), size);
    assert_eq!(receipt.at("user_copied"), size);
    for mechanism in ["reflink", "copy_file_range", "direct", "sendfile", "splice"] {
        let refusal = receipt.refusal(mechanism).unwrap();
        assert_eq!(refusal.reason, "the bytes are transformed on their way");
    }

    // Nothing is expected of these, and all pieces are sampled.
    let source = pair.file("a.dat", [vec![0; 1_000_000], text(1_000_000)].concat());
    let receipt = copy(compress(), &source, &pair.to.join("d"));
    assert_eq!(said(&receipt, "action"), "compressed");
    assert!(said(&receipt, "guess").is_null() && said(&receipt, "expected").is_null());
    assert_eq!(said(&receipt, "sample")["bytes"], 4 * 32768);

    // It looks compressed and is not: the guess is reported, and the sample decides.
    let source = pair.file("a.gz", text(1_000_000));
    let receipt = copy(compress(), &source, &pair.to.join("c"));
    assert_eq!(said(&receipt, "action"), "compressed");
    assert_eq!(said(&receipt, "guess")["format"], "gzip");
    assert_eq!(said(&receipt, "guess")["by"], "extension");
}

fn what_does_not_pay_is_copied_the_cheapest_way() {
    let pair = Pair::new();
    let contents = [b"\x1f\x8b\x08\x00".to_vec(), noise(3, 300_000)].concat();
    let source = pair.file("a", &contents);
    let plain = copy(cp(), &source, &pair.to.join("plain"));
    let receipt = copy(compress().arg("--verify"), &source, &pair.to.join("b"));
    assert_eq!(said(&receipt, "action"), "left");
    assert_eq!(said(&receipt, "guess")["format"], "gzip");
    assert_eq!(said(&receipt, "guess")["by"], "magic");
    let expected = json!({"shrinks": false, "by": "magic", "held": null});
    assert_eq!(*said(&receipt, "expected"), expected);
    assert!(said(&receipt, "sample").is_null(), "nothing is compressed on trial");
    assert_eq!(said(&receipt, "code"), "seems_compressed");
    assert_eq!(receipt.mechanisms(), plain.mechanisms());
    assert!(receipt.notes().contains("copied as it is"), "{}", receipt.notes());
    assert_same(&source, &pair.to.join("b"));

    // Without such a sign a sample says so.
    let source = pair.file("b", noise(3, 300_000));
    let receipt = copy(compress(), &source, &pair.to.join("c"));
    assert_eq!(said(&receipt, "code"), "does_not_pay");
    assert!(said(&receipt, "sample")["compressed_bytes"].as_u64() >= Some(4 * 32768));
    assert!(said(&receipt, "reason").as_str().unwrap().contains("does not pay"));
    assert_same(&source, &pair.to.join("c"));
}

fn a_name_in_zst_is_always_a_file_of_zstd() {
    let pair = Pair::new();
    let source = pair.file("a", noise(4, 100_000));
    let target = pair.to.join("a.zst");
    let receipt = copy(compress(), &source, &target);
    assert_eq!(said(&receipt, "action"), "compressed");
    assert_eq!(said(&receipt, "reason"), "the copy's name ends in .zst");
    assert!(said(&receipt, "sample").is_null(), "a sample would decide nothing");
    assert!(by_zstd(&target) == noise(4, 100_000));
    // A source that is a zstd file already stays as it is.
    let receipt = copy(compress(), &target, &pair.to.join("again.zst"));
    assert_eq!(said(&receipt, "action"), "left");
    assert_same(&target, &pair.to.join("again.zst"));
}

fn a_directory_gets_the_suffix_and_gives_it_back() {
    let pair = Pair::new();
    let (packs, not) = (pair.file("packs", text(100_000)), pair.file("not", noise(5, 100_000)));
    let run = compress().arg(&packs).arg(&not).arg(pair.to.path()).run();
    assert!(run.status.success(), "{}", run.stderr);
    let receipts = run.receipts();
    let destination = |place: usize| receipts[place].value()["destination"].clone();
    assert_eq!(destination(0), pair.to.join("packs.zst").to_str().unwrap());
    assert_eq!(destination(1), pair.to.join("not").to_str().unwrap());
    assert!(pair.to.strangers(&["packs.zst", "not"]).is_empty());

    let back = Place::Disk.scratch();
    let run = decompress().arg(pair.to.join("packs.zst")).arg(pair.to.join("not"));
    let run = run.arg(back.path()).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_same(&packs, &back.join("packs"));
    assert_same(&not, &back.join("not"));
    assert!(back.strangers(&["packs", "not"]).is_empty());
    // An existing one is left alone under the name that it would get.
    let run = compress().arg("-n").arg(&packs).arg(pair.to.path()).run();
    let receipts = run.receipts();
    let event = receipts[0].value();
    assert_eq!(event["event"], "skipped", "{}", run.stdout);
    assert_eq!(event["destination"], pair.to.join("packs.zst").to_str().unwrap());
}

fn two_sources_with_one_target_are_refused() {
    let pair = Pair::new();
    let (a, b) = (pair.file("a", text(1000)), pair.file("b/a.zst", text(1000)));
    for program in [compress(), decompress()] {
        for (first, second) in [(&a, &b), (&b, &a)] {
            let run = program.clone().arg(first).arg(second).arg(pair.to.path()).run();
            assert!(run.failed(2).contains("would both become"), "{}", run.stderr);
            assert!(pair.to.strangers(&[]).is_empty());
        }
    }
}

fn what_is_not_compressed_is_said() {
    let pair = Pair::new();
    let source = pair.file("a", text(1000));
    let receipt = copy(decompress(), &source, &pair.to.join("b"));
    assert_eq!(said(&receipt, "action"), "left");
    assert_same(&source, &pair.to.join("b"));
    // By its name it should be.
    for contents in [text(1000), Vec::new(), vec![0x28, 0xb5]] {
        let source = pair.file("a.zst", contents);
        let run = decompress().arg(&source).arg(pair.to.join("c")).run();
        let message = run.failed(1);
        assert!(message.contains("not a zstd file"), "{message}");
        assert!(message.contains("without --decompress"), "{message}");
        assert_eq!(run.receipts()[0].value()["kind"], "damaged");
        assert!(!pair.to.join("c").exists());
    }
}

fn levels_are_heeded() {
    let pair = Pair::new();
    let source = pair.file("a", [text(400_000), noise(6, 100_000), text(400_000)].concat());
    let sizes = [1, 19].map(|level| {
        let target = pair.to.join("b");
        let receipt = copy(cp().arg(format!("--compress=zstd:{level}")), &source, &target);
        assert_eq!(said(&receipt, "level"), level);
        receipt.bytes()
    });
    assert!(sizes[1] < sizes[0], "{sizes:?}");
    for wrong in ["gzip", "zstd:", "zstd:0", "zstd:23", "zstd:x", "zstd:-1", "zstd:3:3"] {
        let run = cp().arg(format!("--compress={wrong}")).arg(&source).arg("b").run();
        assert!(run.failed(2).contains("a level from 1 to 22"), "{}", run.stderr);
    }
}

fn metadata_goes_along() {
    let pair = Pair::new();
    let source = pair.file("a", text(100_000));
    run_tool("chmod", ["640".as_ref(), source.as_os_str()]);
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_007, 123_456_789);
    fs::File::open(&source).unwrap().set_modified(time).unwrap();
    let (packed, back) = (pair.to.join("b"), pair.to.join("c"));
    copy(compress().arg("-p"), &source, &packed);
    copy(decompress().arg("-p"), &packed, &back);
    for path in [&packed, &back] {
        let metadata = fs::metadata(path).unwrap();
        assert_eq!(metadata.mode() & 0o7777, 0o640);
        assert_eq!(metadata.modified().unwrap(), time);
    }
    assert_same(&source, &back);
}

fn the_audit_log_has_both_sizes() {
    let pair = Pair::new();
    let source = pair.file("a", text(100_000));
    let log = pair.to.join("log");
    let receipt = copy(compress().arg("--audit").arg(&log), &source, &pair.to.join("b"));
    let log = fs::read_to_string(log).unwrap();
    let entry: serde_json::Value = serde_json::from_str(log.lines().nth(1).unwrap()).unwrap();
    assert_eq!(entry["result"], "copied");
    assert_eq!(entry["bytes"], receipt.bytes());
    assert_eq!(entry["compression"]["source_bytes"], 100_000);
    assert_eq!(entry["compression"]["action"], "compressed");
    assert_eq!(entry["refusals"][0]["reason"], "the bytes are transformed on their way");
}

fn zero_copy_is_refused_and_not_demanded() {
    let pair = Pair::new();
    let source = pair.file("a", text(100_000));
    for (flag, says) in [
        ("--require-zero-copy", "transform the bytes"),
        ("--no-user-copy", "transform the bytes"),
        ("--method=reflink", "transform the bytes"),
        ("--in-place", "contradicts"),
        ("--copy-contents", "contradicts"),
        ("--decompress", "contradicts"),
    ] {
        let run = compress().arg(flag).arg(&source).arg(pair.to.join("b")).run();
        assert!(run.failed(2).contains(says), "{flag}: {}", run.stderr);
        assert!(!pair.to.join("b").exists());
    }
    for flag in ["--no-zero-copy", "--method=read-write"] {
        copy(compress().arg(flag), &source, &pair.to.join("b"));
    }
}

fn verified_and_flushed(place: Place) {
    let pair = Pair::at(place);
    let source = pair.file("a", [text(3_000_000), noise(7, 3_000_000)].concat());
    let digest = copy(cp().arg("--verify=sha256"), &source, &pair.to.join("plain"));
    let digest = digest.value()["digest"].clone();
    let program = |program: testbed::Program| program.args(["--verify=sha256", "--durable"]);
    let (packed, back) = (pair.to.join("a.zst"), pair.to.join("b"));
    for (program, from, to) in
        [(program(compress()), &source, &packed), (program(decompress()), &packed, &back)]
    {
        let receipt = copy(program, from, to);
        assert_eq!(receipt.value()["verified"], true);
        assert_eq!(receipt.value()["durable"], true);
        assert_eq!(receipt.value()["digest"], digest, "of the original bytes");
    }
    assert_same(&source, &back);
    assert!(pair.to.strangers(&["plain", "a.zst", "b"]).is_empty());
}

fn holes_come_back(place: Place) {
    let pair = Pair::at(place);
    let mebibyte = 1 << 20;
    let data = [(0, 100_000), (300 * mebibyte, mebibyte), (500 * mebibyte + 77, 5000)];
    let source = pair.from.join("a");
    Content::sparse(600 * mebibyte, &data).write(&source);
    let (packed, back, filled) = (pair.to.join("a.zst"), pair.to.join("b"), pair.to.join("c"));
    let receipt = copy(compress(), &source, &packed);
    assert_eq!(said(&receipt, "frames"), 600);
    assert!(receipt.bytes() < 2 * mebibyte, "{}", receipt.bytes());
    let receipt = copy(decompress(), &packed, &back);
    assert!(receipt.at("zeros") > 597 * mebibyte, "{}", receipt.value());
    assert_same(&source, &back);
    let blocks = fs::metadata(&back).unwrap().blocks() * 512;
    assert!(blocks < 4 * mebibyte, "{blocks} bytes on disk");
    // One hole has nothing to compress, and stays one.
    fs::File::create(&source).unwrap().set_len(100 * mebibyte).unwrap();
    let receipt = copy(compress(), &source, &filled);
    assert_eq!(said(&receipt, "action"), "left");
    assert_eq!(receipt.at("hole"), 100 * mebibyte);
}

/// Compression is decided by looking ahead, which must not block on a stream. A tree skips one.
fn a_stream_is_refused() {
    let pair = Pair::new();
    let fifo = pair.from.join("fifo");
    run_tool("mkfifo", [&fifo]);
    for program in [compress(), decompress()] {
        let run = program.arg(&fifo).arg(pair.to.join("b")).run();
        assert!(run.failed(2).contains("looking ahead"), "{}", run.stderr);
        assert!(pair.to.strangers(&[]).is_empty(), "{:?}", pair.to.strangers(&[]));
    }
}
