//! `--digest`: the digest of what was copied, from the bytes on their way or from the copy.

use std::os::unix::fs::FileExt;

use testbed::witness::Strace;
use testbed::{Case, Content, Need, Place, Program, Run, by_extent, run_tool};

use crate::both::{Form, cases_over};
use crate::cp::witnessed::Pair;
use crate::cp::{COPY_FILE_RANGE, DIRECT, READ_WRITE, REFLINK, SPLICE, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases_over![
        Form::ALL;
        [Need::At(Place::Xfs), Need::At(Place::Btrfs), Need::At(Place::Ext4), B3SUM, SHA256SUM, XXHSUM]
            it_is_that_of_the_standard_tools,
        [SHA256SUM] holes_are_zeros,
        [] nothing_is_hashed_without_being_asked,
        [] the_environment_asks_for_it_and_a_flag_takes_it_back,
        [B3SUM] a_verification_is_held_against_what_was_read,
        [Need::Tool("strace")] the_source_is_read_once,
        [Need::At(Place::Xfs), SHA256SUM] a_clone_is_read_and_not_its_source,
    ];
    cases.extend(cases_over![
        [Form::File];
        [SHA256SUM] streams_and_devices,
        [SHA256SUM] in_place,
        [] with_compression_it_is_refused,
    ]);
    cases
}

pub(crate) const B3SUM: Need = Need::Tool("b3sum");
pub(crate) const SHA256SUM: Need = Need::Tool("sha256sum");
pub(crate) const XXHSUM: Need = Need::Tool("xxhsum");

/// The algorithms, and the tool and arguments that compute them.
pub(crate) const ALGORITHMS: [(&str, &[&str]); 3] =
    [("blake3", &["b3sum"]), ("sha256", &["sha256sum"]), ("xxh3", &["xxhsum", "-q", "-H128"])];

/// Copied in one pass by one read and one write, in pieces, and by more than a piece.
const LENGTHS: [u64; 5] = [0, 1, 5000, 70_000, (3 << 20) + 4321];

/// Computes the digest of a file by the tool.
fn expected(algorithm: &str, path: &std::path::Path) -> String {
    let (_, tool) = ALGORITHMS.into_iter().find(|(name, _)| *name == algorithm).unwrap();
    let arguments = tool[1..].iter().map(std::ffi::OsStr::new).chain([path.as_os_str()]);
    let output = run_tool(tool[0], arguments);
    output.split_whitespace().next().unwrap().to_owned()
}

fn digested(pair: &Pair, run: &Run) -> serde_json::Value {
    let value = pair.receipt(run).value()["source_digest"].clone();
    assert!(value["us"].is_u64(), "{value}");
    value
}

fn it_is_that_of_the_standard_tools(form: Form) {
    // Where, by which flags, and by which way the digest of a file of 70,000 bytes and more is known.
    let by = |method: crate::cp::Method| vec!["--method", method.flag];
    let rows: [(Place, Vec<&str>, &str); 12] = [
        (Place::Disk, vec![], "streamed"),
        (Place::Ext4, vec![], "streamed"),
        (Place::Xfs, vec![], "read_from_copy"),
        (Place::Btrfs, vec![], "read_from_copy"),
        (Place::Xfs, by(REFLINK), "read_from_copy"),
        (Place::Xfs, by(READ_WRITE), "streamed"),
        (Place::Ext4, by(COPY_FILE_RANGE), "read_from_copy"),
        (Place::Ext4, by(SPLICE), "read_from_copy"),
        (Place::Ext4, vec!["--no-user-copy"], "read_from_copy"),
        (Place::Ext4, vec!["--durable"], "streamed"),
        (Place::Ext4, vec!["--sparse=always", "--cache=skip"], "streamed"),
        (Place::Ext4, vec!["--max-bandwidth=1G"], "streamed"),
    ];
    let step = by_extent([5, 1, 1]);
    let mut number = 0;
    for (place, flags, how) in &rows {
        for (algorithm, _) in ALGORITHMS {
            for length in LENGTHS {
                number += 1;
                let empty_needs_no_method = length > 0 || flags.is_empty();
                if number % step != 0 || !empty_needs_no_method {
                    continue;
                }
                let pair = Pair::of(form, *place, &Content::dense(length));
                let program = cp().arg(format!("--digest={algorithm}")).args(flags);
                let found = digested(&pair, &pair.command(program).run());
                assert_eq!(found["algorithm"], algorithm, "{place:?} {flags:?} {length}");
                assert_eq!(found["value"], expected(algorithm, &pair.source), "{flags:?} {length}");
                if length >= 70_000 {
                    assert_eq!(found["how"], *how, "{place:?} {flags:?} {length}");
                }
                pair.assert_copied();
            }
        }
    }
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTHS[4]));
    let run = pair.command(cp_by(DIRECT).arg("--digest")).run();
    if run.status.code() != Some(5) {
        let found = digested(&pair, &run);
        assert_eq!(found["value"], expected("blake3", &pair.source));
        assert_eq!(found["how"], "read_from_copy");
    }
}

fn holes_are_zeros(form: Form) {
    let runs = [(1 << 20, 5000), (3 << 20, 100_000)];
    for (data, length) in [(&runs[..], 8 << 20), (&[], 1 << 20), (&[], 5000), (&runs[..1], 4 << 20)]
    {
        for flags in [&[][..], &["--sparse=never"], &["--sparse=always"], &["--method=splice"]] {
            let pair = Pair::of(form, Place::Disk, &Content::sparse(length, data));
            let run = pair.command(cp().arg("--digest=sha256").args(flags)).run();
            let found = digested(&pair, &run);
            assert_eq!(found["value"], expected("sha256", &pair.source), "{flags:?} {length}");
        }
    }
}

fn nothing_is_hashed_without_being_asked(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(5000));
    let receipt = pair.copy(cp());
    assert!(receipt.value().get("source_digest").is_none(), "{}", receipt.value());
}

fn the_environment_asks_for_it_and_a_flag_takes_it_back(form: Form) {
    for (flag, algorithm) in
        [(None, Some("sha256")), (Some("--digest=xxh3"), Some("xxh3")), (Some("--no-digest"), None)]
    {
        let pair = Pair::of(form, Place::Disk, &Content::dense(5000));
        let program = cp().env("UNCOPY_DIGEST", "sha256").args(flag);
        let receipt = pair.copy(program);
        let found = receipt.value()["source_digest"]["algorithm"].as_str();
        assert_eq!(found, algorithm, "{flag:?}");
    }
}

/// With the same algorithm the copy is compared with what passed through the program.
fn a_verification_is_held_against_what_was_read(form: Form) {
    for (digest, verify) in [("blake3", "blake3"), ("blake3", "xxh3")] {
        for method in [READ_WRITE, SPLICE] {
            let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTHS[4]));
            let flags = [format!("--digest={digest}"), format!("--verify={verify}")];
            let run = pair.command(cp_by(method).args(flags)).run();
            let receipt = pair.receipt(&run).value().clone();
            let found = &receipt["source_digest"];
            assert_eq!(found["value"], expected(digest, &pair.source), "{receipt}");
            assert_eq!(receipt["algorithm"], verify, "{receipt}");
            assert_eq!(digest == verify, receipt["digest"] == found["value"], "{receipt}");
        }
    }
}

/// A second look at the source would read all of it again.
fn the_source_is_read_once(form: Form) {
    for flags in [&["--digest"][..], &["--digest", "--verify"]] {
        let pair = Pair::of(form, Place::Disk, &Content::dense(1 << 20));
        let (run, trace) = Strace::new(&pair.command(cp().args(flags))).run();
        assert_eq!(digested(&pair, &run)["how"], "streamed");
        let reads = trace.named(&["pread64", "read", "preadv", "mmap", "splice"]).into_iter();
        let of_source = reads.filter(|call| call.mentions(&pair.source));
        let bytes: i64 = of_source.filter_map(|call| call.value()).sum();
        assert_eq!(bytes, 1 << 20, "{flags:?}");
    }
}

fn a_clone_is_read_and_not_its_source(form: Form) {
    let pair = Pair::of(form, Place::Xfs, &Content::dense(1 << 20));
    let value = expected("sha256", &pair.source);
    let run = pair.command(cp().arg("--digest=sha256")).run();
    let found = digested(&pair, &run);
    assert_eq!(
        (found["value"].as_str(), found["how"].as_str()),
        (Some(&*value), Some("read_from_copy"))
    );
    // Later stores into the source are not in the copy.
    let source = std::fs::File::options().write(true).open(&pair.source).unwrap();
    source.write_all_at(b"changed", 0).unwrap();
    assert_eq!(expected("sha256", &pair.destination), value);
}

fn streams_and_devices(_: Form) {
    let pair = Pair::at(Place::Disk, &Content::dense(300_000));
    let value = expected("sha256", &pair.source);
    for flags in [&[][..], &["--verify=sha256"], &["--verify"], &["--no-user-copy"]] {
        let line = format!(
            "cat {} | {} cp --json --digest=sha256 {} /dev/stdin {}",
            pair.source.display(),
            env!("CARGO_BIN_EXE_uncopy"),
            flags.join(" "),
            pair.destination.display(),
        );
        let run = Program::new("sh").args(["-c", &line]).run();
        let found = run.receipt().value()["source_digest"].clone();
        assert_eq!(found["value"], *value, "{flags:?}: {found}");
    }
    let run =
        cp().args(["--digest=sha256", "--copy-contents"]).arg(&pair.source).arg("/dev/null").run();
    assert_eq!(run.receipt().value()["source_digest"]["how"], "streamed");
    assert_eq!(run.receipt().value()["source_digest"]["value"], *value);
    let proc = cp().arg("--digest=sha256").arg("/proc/version").arg(&pair.destination).run();
    let found = proc.receipt().value()["source_digest"].clone();
    assert_eq!(found["value"], expected("sha256", &pair.destination), "{found}");
}

fn in_place(_: Form) {
    for method in [READ_WRITE, SPLICE] {
        let pair = Pair::at(Place::Disk, &Content::dense(300_000));
        pair.put_old(&vec![1; 500_000]);
        let run = pair.command(cp_by(method).args(["--in-place", "--digest=sha256"])).run();
        assert_eq!(digested(&pair, &run)["value"], expected("sha256", &pair.source), "{method:?}");
        pair.assert_copied();
    }
}

fn with_compression_it_is_refused(_: Form) {
    let pair = Pair::at(Place::Disk, &Content::dense(5000));
    for flag in ["--compress=zstd", "--decompress"] {
        let run = pair.command(cp().args(["--digest", flag])).run();
        let message = run.failed(2);
        assert!(
            message.contains("feature `compress`") || message.contains("--digest"),
            "{message}"
        );
        assert!(!pair.destination.exists());
    }
}
