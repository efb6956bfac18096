//! `--link-dest`: what is unchanged in an earlier copy becomes a further name of it.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use testbed::{CallPattern, Case, Intercepted, Need, Place, Program, SystemCall, by_extent};
use uncopy::Errno;

use crate::tree::{Trees, cp, events, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] what_is_unchanged_is_linked,
        [Need::Tool("rsync")] what_is_unchanged_is_linked_by_rsync,
        [] each_destination_has_its_earlier_copy,
        [] no_planted_link_is_followed,
        [] what_was_compared_is_linked,
        [] refused_links_become_copies,
        [] a_killed_run_leaves_the_earlier_copy_whole,
        [] flags_that_need_a_copy_are_refused,
        [] earlier_copies_that_are_none_are_noted,
    ]
}

fn set_time(path: &Path, seconds: u64) {
    let times = FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_secs(seconds));
    File::options().write(true).open(path).unwrap().set_times(times).unwrap();
}

fn inode(path: &Path) -> u64 {
    path.symlink_metadata().unwrap_or_else(|e| panic!("{}: {e}", path.display())).ino()
}

/// Name, contents, time and mode in the earlier copy, and whether that is linked by each of [`WAYS`]. In the
/// source each file has [`CONTENTS`], the time 2000 and the mode 0644.
type Row = (&'static str, &'static str, u64, u32, [bool; 4]);

const ROWS: [Row; 6] = [
    ("same", CONTENTS, 2000, 0o644, [true; 4]),
    ("mode", CONTENTS, 2000, 0o600, [false, true, true, true]),
    ("time", CONTENTS, 1000, 0o644, [false, false, true, true]),
    ("size", "content", 2000, 0o644, [false; 4]),
    ("bytes", "CONTENTS", 1000, 0o644, [false, false, false, true]),
    ("bytes at the same time", "CONTENTS", 2000, 0o644, [true, true, false, true]),
];
const CONTENTS: &str = "contents";
const WAYS: [&[&str]; 4] = [&["-a"], &[], &["--checksum"], &["--size-only"]];

struct Scene {
    trees: Trees,
}

impl Scene {
    /// Makes each file twice, once in a directory of the tree.
    fn new() -> Scene {
        let trees = Trees::new();
        fs::create_dir_all(trees.to.join("earlier/below")).unwrap();
        for (name, contents, seconds, mode, _) in ROWS {
            for name in [name.to_owned(), format!("below/{name}")] {
                set_time(&trees.file(&name, CONTENTS), 2000);
                let earlier = trees.to.join("earlier").join(&name);
                fs::write(&earlier, contents).unwrap();
                fs::set_permissions(&earlier, Permissions::from_mode(mode)).unwrap();
                set_time(&earlier, seconds);
            }
        }
        Scene { trees }
    }

    fn earlier(&self, name: &str) -> std::path::PathBuf {
        self.trees.to.join("earlier").join(name)
    }

    #[track_caller]
    fn check(&self, way: usize, how: &str) {
        for (name, contents, seconds, mode, linked) in ROWS {
            for name in [name.to_owned(), format!("below/{name}")] {
                let (old, new) = (self.earlier(&name), self.trees.destination().join(&name));
                let is_linked = inode(&old) == inode(&new);
                assert_eq!(is_linked, linked[way], "{how} {:?}: {name}", WAYS[way]);
                let expected = if is_linked { contents } else { CONTENTS };
                assert_eq!(fs::read_to_string(new).unwrap(), expected, "{how}: {name}");
                assert_eq!(fs::read_to_string(&old).unwrap(), contents, "{how}: {name}");
                let stat = old.metadata().unwrap();
                let found = (stat.mtime() as u64, stat.mode() & 0o7777);
                assert_eq!(found, (seconds, mode), "{how}: {name}");
            }
        }
    }
}

fn what_is_unchanged_is_linked() {
    for (way, flags) in WAYS.iter().enumerate() {
        for has_old in [false, true] {
            let scene = Scene::new();
            let trees = &scene.trees;
            if has_old {
                fs::create_dir_all(trees.destination().join("below")).unwrap();
                for (name, ..) in ROWS {
                    fs::write(trees.destination().join(name), "old").unwrap();
                    fs::write(trees.destination().join("below").join(name), "old").unwrap();
                }
            }
            let program = || cp().args(["-T", "--link-dest", "../earlier"]).args(*flags);
            let planned = trees.run(program().arg("--dry-run"));
            let expected = 2 * ROWS.iter().filter(|row| row.4[way]).count();
            let count = planned.stdout.matches("\"action\":\"link\"").count();
            assert_eq!(count, expected, "{flags:?} {}", planned.stdout);
            let run = trees.run(program());
            assert!(run.status.success(), "{}", run.stderr);
            assert_eq!(number(&summary(&run), "hard_links"), expected as u64, "{flags:?}");
            scene.check(way, if has_old { "replaced" } else { "new" });
            let left = trees.to.strangers(&["destination", "earlier"]);
            assert!(left.is_empty(), "{left:?}");
            // Once more: each name is a name of that file already; by contents or size it is the same.
            let run = trees.run(program());
            let expected = if way < 2 { expected } else { 0 };
            assert_eq!(number(&summary(&run), "hard_links"), expected as u64, "again {flags:?}");
            scene.check(way, "again");
        }
    }
}

fn what_is_unchanged_is_linked_by_rsync() {
    for (way, flags) in WAYS.iter().enumerate() {
        let scene = Scene::new();
        let mut source = scene.trees.source().into_os_string();
        source.push("/");
        let program = Program::new("rsync").arg("-r").args(*flags).arg("--link-dest=../earlier");
        let run = program.arg(source).arg(scene.trees.destination()).run();
        assert!(run.status.success(), "{}", run.stderr);
        scene.check(way, "rsync");
    }
}

/// By a path that begins at the destination directory, or a whole one; of several the first that has it.
fn each_destination_has_its_earlier_copy() {
    let absolute = |scene: &Scene| scene.earlier("").into_os_string();
    for row in ["into", "entry into", "entry as", "absolute", "second", "missing"] {
        let scene = Scene::new();
        let trees = &scene.trees;
        let (source, to) = (trees.source(), trees.to.path());
        let plain = Program::new(env!("CARGO_BIN_EXE_uncopy")).arg("cp");
        let (program, copy, is_linked) = match row {
            "into" => {
                let above = to.join("above");
                fs::create_dir(&above).unwrap();
                fs::rename(scene.earlier(""), to.join("renamed")).unwrap();
                fs::create_dir(scene.earlier("")).unwrap();
                fs::rename(to.join("renamed"), scene.earlier("source")).unwrap();
                let program = plain.args(["-a", "--link-dest=../earlier"]).arg(&source).arg(&above);
                (program, above.join("source/same"), true)
            }
            "entry into" => {
                let above = to.join("above");
                fs::create_dir(&above).unwrap();
                let program = plain.arg("-p").arg("--link-dest=../earlier");
                (program.arg(source.join("same")).arg(&above), above.join("same"), true)
            }
            "entry as" => {
                let program = plain.arg("-p").arg("--link-dest=earlier").arg(source.join("same"));
                (program.arg(to.join("same")), to.join("same"), true)
            }
            "absolute" => {
                let program = plain.args(["-aT", "--link-dest"]).arg(absolute(&scene));
                (program.arg(&source).arg(to.join("new")), to.join("new/same"), true)
            }
            "second" => {
                let empty = trees.from.join("empty");
                fs::create_dir(&empty).unwrap();
                let program = plain.args(["-aT", "--link-dest"]).arg(empty);
                let program = program.arg("--link-dest=../earlier");
                (program.arg(&source).arg(to.join("new")), to.join("new/same"), true)
            }
            _ => {
                let program = plain.args(["-aT", "--link-dest=../nowhere"]);
                (program.arg(&source).arg(to.join("new")), to.join("new/same"), false)
            }
        };
        let run = program.run();
        assert!(run.status.success(), "{row}: {}", run.stderr);
        let beside =
            if row == "into" { scene.earlier("source/same") } else { scene.earlier("same") };
        assert_eq!(inode(&copy) == inode(&beside), is_linked, "{row}");
        assert_eq!(
            run.stderr.contains("does not exist"),
            row == "missing",
            "{row}: {}",
            run.stderr
        );
    }
}

fn no_planted_link_is_followed() {
    let scene = Scene::new();
    let trees = &scene.trees;
    let secret = trees.from.join("secret");
    fs::create_dir(&secret).unwrap();
    for name in ["same", "below"] {
        let (planted, away) = (scene.earlier(name), secret.join(name));
        fs::rename(&planted, &away).unwrap();
        symlink(&away, &planted).unwrap();
    }
    let run = trees.run(cp().args(["-aT", "--link-dest=../earlier"]));
    assert!(run.status.success(), "{}", run.stderr);
    for name in ["same", "below/same"] {
        let copy = trees.destination().join(name);
        assert_eq!(copy.metadata().unwrap().nlink(), 1, "{name}");
        assert_eq!(fs::read_to_string(&copy).unwrap(), CONTENTS, "{name}");
        assert_eq!(secret.join(name).metadata().unwrap().nlink(), 1, "{name}");
    }
}

/// Another file takes the name when it was examined, and before it is linked, or none.
fn what_was_compared_is_linked() {
    for is_replaced in [true, false] {
        let trees = Trees::new();
        set_time(&trees.file("file", CONTENTS), 2000);
        let earlier = trees.to.join("earlier");
        fs::create_dir(&earlier).unwrap();
        let (file, moved) = (earlier.join("file"), trees.to.join("moved"));
        fs::write(&file, CONTENTS).unwrap();
        set_time(&file, 2000);
        let compared = inode(&file);
        let program = cp().args(["-T", "--link-dest=../earlier"]);
        let program = program.arg(trees.source()).arg(trees.destination());
        let stopped = Intercepted::new(&program)
            .stop_in(CallPattern::of(&[SystemCall::STATX]).on(&file).nth(1));
        if is_replaced {
            fs::rename(&file, &moved).unwrap();
            fs::write(&file, "planted!").unwrap();
            set_time(&file, 2000);
        } else {
            fs::remove_file(&file).unwrap();
        }
        let run = stopped.resume().run;
        assert!(run.status.success(), "{}", run.stderr);
        let copy = trees.destination().join("file");
        assert_eq!(fs::read_to_string(&copy).unwrap(), CONTENTS);
        assert_eq!(inode(&copy) == compared, is_replaced);
        let has_note = run.stdout.contains("\"not_linked\"");
        assert_eq!(has_note, !is_replaced, "{}", run.stdout);
    }
}

fn refused_links_become_copies() {
    for errno in [Errno::EMLINK, Errno::EXDEV, Errno::EPERM, Errno::EOPNOTSUPP] {
        for has_old in [false, true] {
            let trees = Trees::new();
            set_time(&trees.file("file", CONTENTS), 2000);
            let earlier = trees.to.join("earlier");
            fs::create_dir(&earlier).unwrap();
            fs::write(earlier.join("file"), CONTENTS).unwrap();
            set_time(&earlier.join("file"), 2000);
            if has_old {
                fs::create_dir(trees.destination()).unwrap();
                fs::write(trees.destination().join("file"), "old").unwrap();
            }
            let program = cp().args(["-T", "--link-dest=../earlier"]);
            let program = program.arg(trees.source()).arg(trees.destination());
            let refused = CallPattern::of(&[SystemCall::LINKAT]).on(&earlier).nth(1).fails(errno);
            let run = Intercepted::new(&program).inject(refused).run().run;
            assert!(run.status.success(), "{errno}: {}", run.stderr);
            let copied = events(&run, "copied");
            assert_eq!(copied.len(), 1, "{errno}: {}", run.stdout);
            assert_eq!(copied[0].value()["note_codes"][0], "not_linked", "{}", run.stdout);
            let copy = trees.destination().join("file");
            assert_eq!(fs::read_to_string(&copy).unwrap(), CONTENTS);
            assert_eq!(copy.metadata().unwrap().nlink(), 1);
            let left = trees.to.strangers(&["destination", "earlier"]);
            assert!(left.is_empty(), "{errno}: {left:?}");
        }
    }
}

fn a_killed_run_leaves_the_earlier_copy_whole() {
    let calls =
        [SystemCall::LINKAT, SystemCall::RENAMEAT2, SystemCall::UNLINKAT, SystemCall::OPENAT];
    for has_old in [false, true] {
        let mut nth = 1;
        loop {
            let scene = Scene::new();
            let trees = &scene.trees;
            if has_old {
                fs::create_dir(trees.destination()).unwrap();
                fs::write(trees.destination().join("same"), "old").unwrap();
            }
            let program = || cp().args(["-aT", "--link-dest=../earlier"]);
            let killed = program().arg(trees.source()).arg(trees.destination());
            let kill = CallPattern::of(&calls).nth(nth).kills();
            let is_over = Intercepted::new(&killed).inject(kill).run().run.status.success();
            for (name, contents, ..) in ROWS {
                assert_eq!(fs::read_to_string(scene.earlier(name)).unwrap(), contents, "{nth}");
            }
            let run = trees.run(program());
            assert!(run.status.success(), "{nth}: {}", run.stderr);
            scene.check(0, "after a kill");
            let left = trees.to.strangers(&["destination", "earlier"]);
            assert!(left.is_empty(), "{nth}: {left:?}");
            if is_over {
                break;
            }
            nth += by_extent([9, 1, 1]);
        }
        assert!(nth > 9, "{nth}");
    }
}

fn flags_that_need_a_copy_are_refused() {
    let place = Place::Disk.scratch();
    fs::write(place.join("a"), "a").unwrap();
    for other in ["-l", "--verify", "--digest", "--attributes-only"] {
        for form in [&[][..], &["-r"]] {
            let program = Program::new(env!("CARGO_BIN_EXE_uncopy")).arg("cp").args(form);
            let program = program.args([other, "--link-dest=x"]);
            let run = program.args([place.join("a"), place.join("b")]).run();
            assert_eq!(run.status.code(), Some(2), "{other}: {}", run.stderr);
            assert!(run.stderr.contains("--link-dest"), "{other}: {}", run.stderr);
            assert!(!place.join("b").exists());
        }
    }
}

fn earlier_copies_that_are_none_are_noted() {
    let missing = Some("does not exist");
    let rows = [
        ("earlier", None),
        ("link to it", None),
        ("nowhere", missing),
        ("link to nowhere", missing),
        ("loop", missing),
        ("file", Some("is not a directory")),
        ("link to file", Some("is not a directory")),
        ("file/below", missing),
    ];
    for (name, lack) in rows {
        for form in [&["-a"][..], &["-aT"]] {
            let scene = Scene::new();
            let directory = &scene.trees.to;
            fs::write(directory.join("file"), "file").unwrap();
            for (link, target) in [
                ("link to it", "earlier"),
                ("link to nowhere", "nowhere"),
                ("loop", "loop"),
                ("link to file", "file"),
            ] {
                symlink(target, directory.join(link)).unwrap();
            }
            let given = directory.join(name);
            let run = scene.trees.run(cp().args(form).arg("--link-dest").arg(&given));
            assert_eq!(run.status.code(), Some(0), "{name}: {}", run.stderr);
            let expected = lack.map(|lack| {
                let given = given.display();
                format!("uncopy: note: --link-dest {given} {lack}, so nothing is linked to it\n")
            });
            assert_eq!(run.stderr, expected.unwrap_or_default(), "{name}");
            let (old, new) = (scene.earlier("same"), scene.trees.destination().join("same"));
            assert_eq!(inode(&old) == inode(&new), lack.is_none(), "{name}");
        }
    }
}
