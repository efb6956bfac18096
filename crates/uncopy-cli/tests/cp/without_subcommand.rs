//! `uncopy -s SRC -d DST`: one file, verified.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;

use testbed::{Case, Content, Place, Program, assert_same};

use crate::cp::witnessed::Pair;

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_file_is_copied_and_verified,
        [] nothing_but_its_flag_leaves_verification_out,
        [] settings_choose_the_digest_and_the_way,
        [] a_directory_takes_the_file_and_is_no_source,
        [] what_is_missing_or_too_much_is_misuse,
        [] names_need_not_be_text,
        [] errors_have_the_exit_codes_of_cp,
    ]
}

fn uncopy() -> Program {
    Program::new(env!("CARGO_BIN_EXE_uncopy"))
}

fn pair() -> Pair {
    Pair::at(Place::Disk, &Content::dense(300_000))
}

impl Pair {
    /// `uncopy -s SOURCE -d DESTINATION`, and these words.
    fn by_flags(&self, words: &[&str]) -> Program {
        uncopy().arg("-s").arg(&self.source).arg("-d").arg(&self.destination).args(words)
    }
}

fn a_file_is_copied_and_verified() {
    let pair = pair();
    let run = pair.by_flags(&[]).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert!(run.stdout.is_empty(), "{}", run.stdout);
    pair.assert_copied();
    for words in [
        [OsStr::new("-s"), pair.source.as_ref(), OsStr::new("-d"), pair.destination.as_ref()],
        [OsStr::new("-d"), pair.destination.as_ref(), OsStr::new("-s"), pair.source.as_ref()],
        [
            OsStr::new("--source"),
            pair.source.as_ref(),
            OsStr::new("--dest"),
            pair.destination.as_ref(),
        ],
    ] {
        std::fs::remove_file(&pair.destination).unwrap();
        let run = uncopy().arg("-v").args(words).run();
        assert!(run.status.success(), "{}", run.stderr);
        assert!(run.stdout.contains("blake3"), "not verified: {}", run.stdout);
        pair.assert_copied();
    }
    let glued = uncopy().arg(format!("-vs{}", pair.source.display()));
    let run = glued.arg(format!("--dest={}", pair.destination.display())).run();
    assert!(run.status.success() && run.stdout.contains("blake3"), "{} {}", run.stdout, run.stderr);
    // An existing file is replaced.
    std::fs::write(&pair.destination, "old").unwrap();
    assert!(pair.by_flags(&["--verbose"]).run().stdout.contains("blake3"));
    pair.assert_copied();
}

fn nothing_but_its_flag_leaves_verification_out() {
    let pair = pair();
    for (words, variable, verified) in [
        (&["-v"][..], "", true),
        (&["-v", "--zero-copy"], "", true),
        (&["-v", "--no-zero-copy"], "", true),
        (&["-v"], "none", true),
        (&["-v"], "sha256", true),
        (&["-v", "--no-verify"], "", false),
        (&["-v", "--no-verify"], "sha256", false),
        (&["--no-verify", "--zero-copy", "-v"], "none", false),
        (&["--no-verify", "--no-zero-copy", "-v"], "xxh3", false),
    ] {
        let run = pair.by_flags(words).env("UNCOPY_VERIFY", variable).run();
        assert!(run.status.success(), "{words:?}: {}", run.stderr);
        assert_eq!(run.stdout.contains("verified"), verified, "{words:?}: {}", run.stdout);
        let read = words.contains(&"--no-zero-copy");
        assert_eq!(run.stdout.contains("memory by read_write"), read, "{words:?}: {}", run.stdout);
        pair.assert_copied();
    }
}

fn settings_choose_the_digest_and_the_way() {
    let pair = pair();
    for (name, value, words, says) in [
        ("UNCOPY_VERIFY", "sha256", &["-v"][..], "sha256"),
        ("UNCOPY_VERIFY", "xxh3", &["-v", "--no-zero-copy"], "xxh3"),
        ("UNCOPY_VERIFY", "none", &["-v"], "blake3"),
        ("UNCOPY_METHOD", "sendfile", &["-v"], "sendfile"),
        ("UNCOPY_METHOD", "sendfile", &["-v", "--no-zero-copy"], "memory by read_write"),
        ("UNCOPY_DURABLE", "true", &["-v"], "flushed to the device"),
    ] {
        let run = pair.by_flags(words).env(name, value).run();
        assert!(run.status.success(), "{name}={value}: {}", run.stderr);
        assert!(run.stdout.contains(says), "{name}={value}: {}", run.stdout);
    }
    let run = pair.by_flags(&[]).env("UNCOPY_VERIFY", "crc32").run();
    assert!(run.failed(2).contains("UNCOPY_VERIFY"), "{}", run.stderr);
    // The flag that is displaced no longer contradicts anything.
    let run = pair.by_flags(&["--zero-copy", "-v"]).env("UNCOPY_METHOD", "read-write").run();
    assert!(run.status.success(), "{}", run.stderr);
}

fn a_directory_takes_the_file_and_is_no_source() {
    let pair = pair();
    std::fs::create_dir(&pair.destination).unwrap();
    let run = pair.by_flags(&[]).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_same(&pair.source, &pair.destination.join("source"));
    let run = uncopy().arg("-s").arg(pair.from.path()).arg("-d").arg(pair.to.join("new")).run();
    let message = run.failed(1);
    assert!(message.contains("it is a directory; name a file"), "{message}");
    assert!(message.contains("uncopy cp -r") && !message.contains("--recursive"), "{message}");
    assert!(!pair.to.join("new").exists());
}

fn what_is_missing_or_too_much_is_misuse() {
    for (words, says) in [
        (&["-s", "a"][..], "-d"),
        (&["-d", "b"], "-s"),
        (&["-v"], "-s"),
        (&["--no-verify"], "-s"),
        (&["-s", "a", "-d"], "-d"),
        (&["-s"], "-s"),
        (&["-s", "a", "-d", "b", "c"], "'c'"),
        (&["a", "-s", "a", "-d", "b"], "'a'"),
        (&["-s", "a", "-s", "c", "-d", "b"], "-s"),
        (&["-s", "a", "-d", "b", "-d", "c"], "-d"),
        (&["-s", "a", "-d", "b", "--zero-copy", "--no-zero-copy"], "--no-zero-copy"),
        (&["-s", "a", "-d", "b", "--verify"], "--verify"),
        (&["-s", "a", "-d", "b", "-r"], "-r"),
        (&["-s", "a", "-d", "b", "cp", "a", "b"], "cp"),
        (&["-v", "cp", "a", "b"], "cp"),
        (&["-s", "", "-d", "b"], "an empty name"),
        (&["-s", "a", "-d", ""], "an empty name"),
        (&["a", "b"], "'a'"),
    ] {
        let pair = Pair::empty(Place::Disk, Place::Disk);
        for name in ["a", "c", "source"] {
            std::fs::write(pair.from.join(name), name).unwrap();
        }
        let run = uncopy().args(words).current_dir(pair.from.path()).run();
        let message = run.failed(2);
        assert!(message.contains(says), "{words:?}: {message}");
        assert!(pair.from.strangers(&["a", "c", "source"]).is_empty(), "{words:?}");
    }
}

fn names_need_not_be_text() {
    let mut pair = pair();
    let odd = |directory: &std::path::Path| directory.join(OsStr::from_bytes(b"\xff\n\x80"));
    let source = odd(pair.from.path());
    std::fs::rename(&pair.source, &source).unwrap();
    pair.source = source;
    pair.destination = odd(pair.to.path());
    let run = pair.by_flags(&["-v"]).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_same(&pair.source, &pair.destination);
    // Behind the letter, too.
    std::fs::remove_file(&pair.destination).unwrap();
    let glued = |letter: &str, path: &std::path::Path| {
        let mut word = std::ffi::OsString::from(letter);
        word.push(path);
        word
    };
    let words = [glued("-s", &pair.source), glued("--dest=", &pair.destination)];
    let run = uncopy().args(words).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_same(&pair.source, &pair.destination);
}

fn errors_have_the_exit_codes_of_cp() {
    let pair = pair();
    let missing = pair.from.join("missing");
    let run = uncopy().arg("-s").arg(&missing).arg("-d").arg(&pair.destination).run();
    assert!(run.failed(1).contains("missing"), "{}", run.stderr);
    let run = uncopy().arg("-s").arg(&pair.source).arg("-d").arg(&pair.source).run();
    assert!(run.failed(1).contains("the same file"), "{}", run.stderr);
    let run = pair.by_flags(&[]).env("UNCOPY_METHOD", "require-zero-copy").run();
    assert!(matches!(run.status.code(), Some(0 | 5)), "{}", run.stderr);
    let run = uncopy().arg("-s").arg(&pair.source).arg("-d").arg("/dev/null").run();
    assert!(run.failed(1).contains("device"), "{}", run.stderr);
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}
