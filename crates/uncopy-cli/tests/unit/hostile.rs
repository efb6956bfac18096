//! Unit files that were made to do harm: nothing outside of the roots is read or written, and each is refused with a reason.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, FileType, mknodat};
use testbed::{Case, Run};

use super::unit;
use super::work::{Work, kinds, put, run_unit};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] units_that_are_refused,
        [] links_among_the_directories_are_not_followed,
        [] identities_of_other_files,
        [] ledgers_that_are_links,
        [] unit_files_that_are_no_files,
        [] plans_and_records_that_are_no_files,
        [] another_file_for_a_unit_that_is_done,
    ]
}

fn units_that_are_refused() {
    let work = Work::new();
    work.write("d/f", "text");
    work.plan(&[]);
    let unit = work.units().remove(0);
    let text = fs::read_to_string(&unit).unwrap();
    let (head, last) = text.trim_end().rsplit_once('\n').unwrap();
    let path = "\"path\":\"d/f\"";
    let replaced = |path: &str| text.replace("\"path\":\"d/f\"", path);
    assert!(text.contains(path));
    for hostile in [
        replaced("\"path\":\"../f\""),
        replaced("\"path\":\"d/../../f\""),
        replaced("\"path\":\"/etc/passwd\""),
        replaced("\"path\":\"\""),
        replaced("\"path\":\"d//f\""),
        replaced("\"path\":\"d/f\\u0000\""),
        replaced("\"path\":\".uncopy-ledger/x\""),
        replaced(&format!("\"path\":\"{}\"", "a/".repeat(600_000))),
        text.replace("\"size\":4", "\"size\":18446744073709551615"),
        text.replace("\"size\":4", "\"size\":99999999999999999999999"),
        text.replace("\"inode\":", "\"inode\":-"),
        text.replace("\"kind\":\"file\"", "\"kind\":\"directory\""),
        text.replace("\"kind\":\"files\"", "\"kind\":\"range\""),
        text.replace("\"schema\":1", "\"schema\":2"),
        text.replace("\"schema\":1", "\"schema\":3"),
        text.replace("\"plan\":\"", "\"plan\":\"../../"),
        text.replace("\"unit\":0", "\"unit\":4294967295"),
        text.replace("\"entries\":1", "\"entries\":2"),
        // Cut off.
        head.to_owned(),
        format!("{head}\n"),
        text[..text.len() / 2].to_owned(),
        String::new(),
        format!("{text}{last}\n"),
        text.replace("\"words\":[", "\"words\":[\"--in-place\","),
        text.replace("\"words\":[", "\"words\":[\"--audit=/etc/cron.d/x\","),
        text.replace("\"words\":[", "\"words\":[\"--help\","),
        text.replace("\"words\":[", "\"words\":[\"-h\","),
        text.replace("\"words\":[", "\"words\":[\"--version\","),
    ] {
        assert_ne!(hostile, text);
        fs::write(&unit, &hostile).unwrap();
        let run = run_unit(&unit);
        let code = run.status.code();
        let shown = &hostile[..hostile.len().min(2000)];
        assert!(matches!(code, Some(1 | 2)), "{code:?} {}{shown}", run.stderr);
        // Nobody gave these words on a command line, and no help is printed.
        assert!(run.stderr.contains(&*unit.to_string_lossy()), "{}", run.stderr);
        assert!(run.stdout.is_empty(), "{}", run.stdout);
        assert!(!work.destination().exists(), "{shown}");
    }
}

fn links_among_the_directories_are_not_followed() {
    for side in ["source", "destination"] {
        let work = Work::new();
        work.write("d/f", "text");
        work.write("g", "text");
        let outside = work.scratch.join("outside");
        put(&outside.join("other"), "x");
        work.plan(&[]);
        let link = work.scratch.join(side).join("d");
        match side {
            "source" => {
                // It has the very file that the plan saw.
                fs::rename(&link, outside.join("d")).unwrap();
                symlink(outside.join("d"), &link).unwrap();
            }
            _ => {
                fs::create_dir(work.destination()).unwrap();
                symlink(&outside, &link).unwrap();
            }
        }
        let run = run_unit(&work.unit_of("d/f"));
        let expected = if side == "source" { (4, "source_changed") } else { (1, "conflict") };
        assert_eq!(run.status.code(), Some(expected.0), "{}{}", run.stdout, run.stderr);
        assert_eq!(kinds(&run), [expected.1], "{side}");
        assert!(!outside.join("f").exists());
        assert_eq!(fs::read(work.destination().join("g")).unwrap(), b"text");
    }
}

/// An entry whose identity is that of another file.
fn identities_of_other_files() {
    let work = Work::new();
    work.write("f", "text");
    work.write("secret", "text");
    work.plan(&["--exclude=/secret"]);
    let unit = work.units().remove(0);
    let text = fs::read_to_string(&unit).unwrap();
    fs::write(&unit, text.replace("\"path\":\"f\"", "\"path\":\"secret\"")).unwrap();
    let run = run_unit(&unit);
    assert_eq!(run.status.code(), Some(4), "{}", run.stderr);
    assert!(!work.destination().join("secret").exists());
}

fn ledgers_that_are_links() {
    let work = Work::new();
    work.write("f", "text");
    work.plan(&[]);
    fs::create_dir(work.destination()).unwrap();
    let outside = work.scratch.join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, work.destination().join(".uncopy-ledger")).unwrap();
    let run = run_unit(&work.units()[0]);
    assert_eq!(run.status.code(), Some(1), "{}", run.stderr);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert!(!work.destination().join("f").exists());
}

fn unit_files_that_are_no_files() {
    let work = Work::new();
    let fifo = work.scratch.join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    for path in [fifo, work.source(), work.scratch.join("missing"), "/dev/zero".into()] {
        let run = run_unit(&path);
        assert_eq!(run.status.code(), Some(1), "{}{}", path.display(), run.stderr);
        assert!(run.stderr.contains(&*path.to_string_lossy()), "{}", run.stderr);
    }
}

/// Each is named, and nobody waits for the other end of a FIFO.
fn plans_and_records_that_are_no_files() {
    let work = Work::new();
    work.write("f", "text");
    work.plan(&[]);
    work.run_all();
    let plan = work.directory();
    let status = || unit(["status"]).arg(&plan).run();
    let retry = || unit(["retry"]).arg(&plan).run();
    let again = || run_unit(&work.units()[0]);
    // The name of a record is enough to know that the unit is not to be done.
    type Commands<'a> = [&'a dyn Fn() -> Run; 2];
    let rows: [(&str, Commands<'_>); 3] = [
        ("000000.json", [&status, &again]),
        ("000000.failed.json", [&status, &retry]),
        ("000000.epoch", [&status, &retry]),
    ];
    for (name, commands) in rows {
        let taken_away = work.ledger().join("000000.json");
        let record = fs::read(&taken_away).unwrap();
        fs::remove_file(&taken_away).unwrap();
        each_kind_of_no_file(&work.ledger().join(name), commands);
        fs::write(taken_away, record).unwrap();
    }
    each_kind_of_no_file(&plan.join("plan.json"), [&status, &retry]);
}

fn each_kind_of_no_file(path: &Path, commands: [&dyn Fn() -> Run; 2]) {
    let make: [fn(&Path); 4] = [
        |path| mknodat(CWD, path, FileType::Fifo, 0o600.into(), 0).unwrap(),
        |path| mknodat(CWD, path, FileType::Socket, 0o600.into(), 0).unwrap(),
        |path| fs::create_dir(path).unwrap(),
        |path| symlink("/dev/zero", path).unwrap(),
    ];
    for (number, make) in make.into_iter().enumerate() {
        let _ = fs::remove_file(path);
        make(path);
        for command in commands {
            let run = command();
            assert!(run.failed(1).contains(&*path.to_string_lossy()), "{number}: {}", run.stderr);
        }
        if fs::remove_file(path).is_err() {
            fs::remove_dir(path).unwrap();
        }
    }
}

fn another_file_for_a_unit_that_is_done() {
    let work = Work::new();
    work.write("f", "text");
    work.write("g", "text");
    work.plan(&[]);
    let unit = work.units().remove(0);
    assert!(run_unit(&unit).status.success());
    let text = fs::read_to_string(&unit).unwrap();
    fs::write(&unit, text.replace("\"path\":\"g\"", "\"path\":\"h\"")).unwrap();
    let run = run_unit(&unit);
    assert!(run.failed(1).contains("done from another file"), "{}", run.stderr);
}
