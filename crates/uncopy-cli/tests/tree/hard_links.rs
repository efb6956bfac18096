//! The names of one file stay names of one file.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::Duration;

use testbed::{
    Case, Compared, Forbidden, Need, Program, SystemCall, assert_same_tree, by_extent, run_tool,
};
use uncopy::Errno;

use crate::tree::{Trees, cp, events, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] existing_files_keep_their_bytes_with_attributes_only,
        [] names_in_many_directories,
        [] names_in_several_roots,
        [] names_behind_followed_links,
        [] names_outside_of_the_tree,
        [] merged_over_other_files,
        [] names_of_large_files,
        [] names_that_the_filesystem_refuses,
        [] names_of_links_and_fifos,
        [Need::Root] names_of_links_and_fifos_of_a_user,
        [Need::Root] names_of_devices,
        [] refused_names_of_links_and_fifos,
        [] a_name_beside_one_that_is_up_to_date,
        [] more_roots_than_descriptors,
        [] names_of_a_copy_that_a_later_root_replaces,
        [] a_newer_file_is_left_apart,
        [] a_plan_to_link_says_what_the_run_does,
    ]
}

fn names_in_many_directories() {
    for jobs in ["--jobs=1", "--jobs=4"] {
        let trees = Trees::new();
        for directory in 0..40 {
            fs::create_dir(trees.source().join(format!("{directory}"))).unwrap();
        }
        for file in 0..40 {
            let first = trees.file(&format!("0/{file}"), format!("{file}"));
            for directory in 1..40 {
                fs::hard_link(&first, trees.source().join(format!("{directory}/{file}"))).unwrap();
            }
        }
        let run = trees.copy(cp().args([jobs, "-p"]));
        let compared = Compared { modes: true, times: true, ..Compared::default() };
        assert_same_tree(&trees.source(), &trees.destination(), compared);
        let summary = summary(&run);
        let counts = ["files", "hard_links"].map(|key| number(&summary, key));
        assert_eq!(counts, [40, 40 * 39]);
        for linked in events(&run, "linked") {
            let to = linked.value()["linked_to"].as_str().unwrap().to_owned();
            let name = linked.value()["destination"].as_str().unwrap().to_owned();
            let inode = |path: &str| fs::metadata(path).unwrap().ino();
            assert_eq!(inode(&to), inode(&name));
        }
    }
}

fn names_in_several_roots() {
    let trees = Trees::new();
    let first = trees.file("a/file", "x");
    fs::create_dir(trees.source().join("b")).unwrap();
    fs::hard_link(&first, trees.source().join("b/file")).unwrap();
    fs::hard_link(&first, trees.source().join("c")).unwrap();
    let sources = ["a", "b", "c"].map(|name| trees.source().join(name));
    let run = cp().args(sources).arg(trees.to.path()).run();
    assert!(run.status.success(), "{}", run.stderr);
    let inode = |name: &str| fs::metadata(trees.to.join(name)).unwrap().ino();
    assert_eq!(inode("a/file"), inode("b/file"));
    assert_eq!(inode("a/file"), inode("c"));
}

/// A name is met once more by each link that leads to it or to its directory, and none of them takes the others apart.
fn names_behind_followed_links() {
    for jobs in ["--jobs=1", "--jobs=4"] {
        for _ in 0..by_extent([2, 10, 20]) {
            let trees = Trees::new();
            let first = trees.file("a/one", "x");
            fs::hard_link(&first, trees.source().join("two")).unwrap();
            symlink("a/one", trees.source().join("to-one")).unwrap();
            symlink("a", trees.source().join("to-a")).unwrap();
            trees.copy(cp().args([jobs, "--links=follow"]));
            let inode =
                |name: &str| fs::symlink_metadata(trees.destination().join(name)).unwrap().ino();
            let inodes = ["a/one", "two", "to-one", "to-a/one"].map(inode);
            assert!(inodes.iter().all(|found| *found == inodes[0]), "{inodes:?}");
        }
    }
}

fn names_outside_of_the_tree() {
    let trees = Trees::new();
    let file = trees.file("file", "x");
    fs::hard_link(file, trees.from.join("outside")).unwrap();
    trees.copy(cp());
    assert_eq!(fs::metadata(trees.destination().join("file")).unwrap().nlink(), 1);
}

fn merged_over_other_files() {
    let trees = Trees::new();
    let file = trees.file("a", "new");
    for name in ["b", "c"] {
        fs::hard_link(&file, trees.source().join(name)).unwrap();
    }
    fs::create_dir(trees.destination()).unwrap();
    for name in ["a", "b"] {
        fs::write(trees.destination().join(name), "old").unwrap();
    }
    // Twice: the second time all are names of one file already.
    for _ in 0..2 {
        trees.copy(cp().arg("-T"));
        assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    }
}

fn names_of_large_files() {
    let trees = Trees::new();
    for number in 0..4 {
        let file = trees.file(&format!("a/{number}"), vec![number; 3 << 20]);
        fs::create_dir_all(trees.source().join("b")).unwrap();
        fs::hard_link(file, trees.source().join(format!("b/{number}"))).unwrap();
    }
    trees.copy(cp().arg("--jobs=4"));
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
}

/// As one without links does (`EPERM`), one whose files have few, or one that ends in the tree.
fn names_that_the_filesystem_refuses() {
    for errno in [Errno::EPERM, Errno::EMLINK, Errno::EXDEV, Errno::EOPNOTSUPP] {
        let trees = Trees::new();
        let file = trees.file("a", "x");
        for name in ["b", "c"] {
            fs::hard_link(&file, trees.source().join(name)).unwrap();
        }
        let program = cp().forbidding(&[Forbidden::Call(SystemCall::LINKAT)], errno);
        let run = trees.copy(program);
        let copied = events(&run, "copied");
        assert_eq!(copied.len(), 3, "{}", run.stdout);
        let notes_of = |receipt: &testbed::Receipt| receipt.value()["notes"].to_string();
        let noted: Vec<String> =
            copied.iter().map(notes_of).filter(|notes| notes != "[]").collect();
        assert_eq!(noted.len(), 2, "{}", run.stdout);
        for notes in noted {
            assert!(notes.contains("refused a hard link"), "{notes}");
            assert!(notes.contains(errno.name().unwrap()), "{notes}");
        }
        let links = |name: &str| fs::metadata(trees.destination().join(name)).unwrap().nlink();
        assert_eq!(["a", "b", "c"].map(links), [1; 3]);
        for name in ["a", "b", "c"] {
            assert_eq!(fs::read(trees.destination().join(name)).unwrap(), b"x");
        }
    }
}

const DIRECTORIES: [&str; 4] = ["a", "a/b", "c", "d"];

/// Each entry once more in every directory.
fn spread(trees: &Trees, names: &[&str]) {
    for directory in DIRECTORIES {
        fs::create_dir_all(trees.source().join(directory)).unwrap();
        for name in names {
            let to = trees.source().join(directory).join(name);
            fs::hard_link(trees.source().join(name), to).unwrap();
        }
    }
}

fn assert_one_inode(trees: &Trees, names: &[&str], context: &str) {
    let look = |path: &Path| path.symlink_metadata().unwrap();
    for name in names {
        let first = look(&trees.destination().join(name));
        assert_eq!(first.nlink(), 1 + DIRECTORIES.len() as u64, "{context}: {name}");
        let expected = look(&trees.source().join(name)).file_type();
        for directory in DIRECTORIES {
            let other = look(&trees.destination().join(directory).join(name));
            assert_eq!(other.ino(), first.ino(), "{context}: {directory}/{name}");
            assert_eq!(other.file_type(), expected, "{context}: {directory}/{name}");
        }
    }
}

/// Into a new tree, over what is there, and over what was copied already.
fn copied_and_copied_again(trees: &Trees, names: &[&str], program: impl Fn() -> Program) {
    for flags in [&[][..], &["-p"], &["--jobs=1"], &["--jobs=4"], &["--resume"], &["--durable"]] {
        for round in 0..3 {
            let context = format!("{flags:?} {round}");
            let run = trees.copy(program().args(["-T", "--specials"]).args(flags));
            assert_one_inode(trees, names, &context);
            let made = (names.len() * DIRECTORIES.len()) as u64;
            assert_eq!(number(&summary(&run), "hard_links"), made, "{context}");
            assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
            if round == 1 {
                // Some are files of their own again.
                for name in names {
                    let path = trees.destination().join("c").join(name);
                    fs::remove_file(&path).unwrap();
                    fs::write(&path, "old").unwrap();
                    fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap();
                }
            }
        }
        fs::remove_dir_all(trees.destination()).unwrap();
    }
}

fn links_and_fifos() -> Trees {
    let trees = Trees::new();
    symlink("nowhere", trees.source().join("link")).unwrap();
    run_tool("mkfifo", [trees.source().join("fifo")]);
    spread(&trees, &["link", "fifo"]);
    trees
}

fn names_of_links_and_fifos() {
    copied_and_copied_again(&links_and_fifos(), &["link", "fifo"], cp);
}

fn names_of_links_and_fifos_of_a_user() {
    const USER: u32 = 65534;
    let trees = links_and_fifos();
    chown(trees.to.path(), Some(USER), None).unwrap();
    copied_and_copied_again(&trees, &["link", "fifo"], || cp().as_user(USER));
}

fn names_of_devices() {
    let trees = Trees::new();
    let null = trees.source().join("null");
    run_tool("mknod", [null.as_os_str(), "c".as_ref(), "1".as_ref(), "3".as_ref()]);
    spread(&trees, &["null"]);
    copied_and_copied_again(&trees, &["null"], cp);
    assert_eq!(fs::metadata(null).unwrap().rdev(), rustix::fs::makedev(1, 3));
}

fn refused_names_of_links_and_fifos() {
    for errno in [Errno::EPERM, Errno::EMLINK] {
        let trees = links_and_fifos();
        let program =
            cp().arg("--specials").forbidding(&[Forbidden::Call(SystemCall::LINKAT)], errno);
        let run = trees.copy(program);
        for directory in DIRECTORIES {
            for name in ["link", "fifo"] {
                let kind = |root: &Path| {
                    root.join(directory).join(name).symlink_metadata().unwrap().file_type()
                };
                assert_eq!(kind(&trees.source()), kind(&trees.destination()), "{directory}/{name}");
            }
            let link = fs::read_link(trees.destination().join(directory).join("link"));
            assert_eq!(link.unwrap(), Path::new("nowhere"));
        }
        let made = events(&run, "made").into_iter();
        let noted = made.filter(|made| made.value()["notes"].to_string().contains("hard link"));
        assert_eq!(noted.count(), 2 * DIRECTORIES.len(), "{}", run.stdout);
        assert_eq!(number(&summary(&run), "hard_links"), 0);
    }
}

/// A skipped file has its copy, of which a further name is made; one that was kept or declined has none.
fn a_name_beside_one_that_is_up_to_date() {
    for (flag, keeps) in
        [("--update", true), ("--checksum", true), ("--size-only", true), ("--no-clobber", false)]
    {
        for (form, others) in [(&["-rT"][..], false), (&["-d"], true), (&["-a", "-t"], true)] {
            for first in ["a", "b"] {
                let trees = Trees::new();
                let file = trees.file("a", "text");
                fs::hard_link(&file, trees.source().join("b")).unwrap();
                fs::create_dir(trees.destination()).unwrap();
                let to = trees.destination().join(first);
                fs::write(&to, "text").unwrap();
                let time = fs::metadata(&file).unwrap().modified().unwrap();
                fs::File::options().write(true).open(&to).unwrap().set_modified(time).unwrap();
                let copy = plain_cp().arg(flag).args(form);
                let copy = match (form.last(), others) {
                    (Some(&"-t"), _) => copy
                        .arg(trees.destination())
                        .args(["a", "b"].map(|name| trees.source().join(name))),
                    (_, true) => copy
                        .args(["a", "b"].map(|name| trees.source().join(name)))
                        .arg(trees.destination()),
                    (_, false) => copy.arg(trees.source()).arg(trees.destination()),
                };
                let run = copy.run();
                assert!(run.status.success(), "{flag} {form:?}: {}", run.stderr);
                let copies = ["a", "b"].map(|name| trees.destination().join(name));
                let inodes = copies.each_ref().map(|copy| fs::metadata(copy).unwrap().ino());
                assert_eq!(inodes[0] == inodes[1], keeps, "{flag} {form:?} {first}");
                assert!(copies.iter().all(|copy| fs::read(copy).unwrap() == b"text"));
            }
        }
    }
}

/// A file of a root that is done is found again by the root's path.
fn more_roots_than_descriptors() {
    const ROOTS: usize = 90;
    for (flags, is_tree) in [(&["-a"][..], false), (&["-d"], false), (&["-r"], true)] {
        for is_merged in [false, true] {
            let trees = Trees::new();
            let name = |group: &str, number: usize| match is_tree {
                true => format!("{group}{number}/file"),
                false => format!("{group}{number}"),
            };
            let mut sources = Vec::new();
            for number in 0..ROOTS {
                let file = trees.file(&name("a", number), format!("{number}"));
                let other = trees.source().join(name("b", number));
                fs::create_dir_all(other.parent().unwrap()).unwrap();
                fs::hard_link(file, other).unwrap();
            }
            // All of the first names, and then all of the second.
            for group in ["a", "b"] {
                let roots =
                    (0..ROOTS).map(|number| trees.source().join(format!("{group}{number}")));
                sources.extend(roots);
            }
            fs::create_dir(trees.destination()).unwrap();
            if is_merged && is_tree {
                for source in &sources {
                    let name = source.file_name().unwrap();
                    fs::create_dir(trees.destination().join(name)).unwrap();
                }
            }
            let limited = ["sh", "-c", "ulimit -n 64; exec \"$0\" \"$@\""];
            let program = plain_cp().through(limited).args(flags).args(sources);
            let run = program.arg(trees.destination()).run();
            assert!(run.status.success(), "{flags:?}: {}", run.stderr);
            assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
            for number in 0..ROOTS {
                let inode = |group| {
                    let path = trees.destination().join(name(group, number));
                    fs::metadata(path).unwrap().ino()
                };
                assert_eq!(inode("a"), inode("b"), "{flags:?} {number}");
            }
        }
    }
}

/// The first name has another file by then, which is no copy of the one with further names.
fn names_of_a_copy_that_a_later_root_replaces() {
    type Make = fn(&Path);
    let replacing: [Make; 3] = [
        |path| fs::write(path, "two").unwrap(),
        |path| symlink("nowhere", path).unwrap(),
        |path| {
            fs::write(path, "two").unwrap();
            fs::hard_link(path, path.with_file_name("two")).unwrap();
        },
    ];
    for flags in
        [&["--jobs=1"][..], &["--jobs=4"], &["-a"], &["-a", "--backup=numbered"], &["--verify"]]
    {
        for (kind, make) in replacing.iter().enumerate() {
            for is_inside in [false, true] {
                let trees = Trees::new();
                let root = |number| trees.source().join(format!("{number}/root"));
                // Entries are copied in the order of their inodes, so those that replace come first.
                for number in 0..4 {
                    fs::create_dir_all(root(number)).unwrap();
                }
                make(&root(1).join("first"));
                fs::write(root(2).join("first"), "three").unwrap();
                fs::write(root(0).join("first"), "one").unwrap();
                for (number, name) in [(1, "early"), (2, "a"), (2, "b"), (3, "c")] {
                    fs::hard_link(root(0).join("first"), root(number).join(name)).unwrap();
                }
                fs::create_dir(trees.destination()).unwrap();
                let sources = [0, 1, 2, 3].map(|number| match is_inside {
                    true => root(number),
                    false => root(number).join("."),
                });
                let run = cp().args(flags).args(sources).arg(trees.destination()).run();
                let what = format!("{flags:?}, kind {kind}, inside: {is_inside}");
                assert!(run.status.success(), "{what}: {}", run.stderr);
                let made = trees.destination();
                let made = if is_inside { made.join("root") } else { made };
                let read = |name: &str| fs::read_to_string(made.join(name)).unwrap();
                assert_eq!(
                    ["first", "a", "b", "c"].map(read),
                    ["three", "one", "one", "one"],
                    "{what}"
                );
                let inode = |name: &str| fs::metadata(made.join(name)).unwrap().ino();
                assert_eq!([inode("a"); 2], ["b", "c"].map(inode), "{what}");
            }
        }
    }
}

/// By `cp -u` it would be replaced, or get a further name, by the order in which names are met.
fn a_newer_file_is_left_apart() {
    for flags in [&["-u"][..], &["-u", "--checksum"], &["-a", "-u"]] {
        for newer in ["a", "b"] {
            let trees = Trees::new();
            let file = trees.file("a", "old");
            fs::hard_link(&file, trees.source().join("b")).unwrap();
            fs::create_dir(trees.destination()).unwrap();
            fs::write(trees.destination().join(newer), "newer").unwrap();
            let time = fs::metadata(&file).unwrap().modified().unwrap() - Duration::from_secs(9);
            fs::File::open(&file).unwrap().set_modified(time).unwrap();
            let program = plain_cp().arg("-rT").args(flags);
            let run = program.arg(trees.source()).arg(trees.destination()).run();
            assert!(run.status.success(), "{flags:?}: {}", run.stderr);
            for name in ["a", "b"] {
                let expected = if name == newer { "newer" } else { "old" };
                let copy = fs::read_to_string(trees.destination().join(name)).unwrap();
                assert_eq!(copy, expected, "{flags:?} {name}");
            }
        }
    }
}

/// A taken name is an error unless it may be replaced, and no error if it is a name of the file already.
fn a_plan_to_link_says_what_the_run_does() {
    let prepared = || {
        let trees = Trees::new();
        let file = trees.file("file", "new");
        fs::create_dir(trees.destination()).unwrap();
        (file, trees)
    };
    for flag in [&[][..], &["-f"], &["--remove-destination"], &["-b"], &["-n"], &["-u"]] {
        for found in ["nothing", "other", "same"] {
            let ends = [&["--dry-run"][..], &[]].map(|dry| {
                let (file, trees) = prepared();
                let to = trees.destination().join("file");
                match found {
                    "other" => fs::write(&to, "old").unwrap(),
                    "same" => fs::hard_link(&file, &to).unwrap(),
                    _ => {}
                }
                let program = plain_cp().args(["-rlT"]).args(flag).args(dry);
                let run = program.arg(trees.source()).arg(trees.destination()).run();
                (run.status.code(), run.stderr.contains("EEXIST"))
            });
            assert_eq!(ends[0], ends[1], "{flag:?}, found {found}");
            let is_error = found == "other" && flag.is_empty();
            assert_eq!(ends[0].1, is_error, "{flag:?}, found {found}: {:?}", ends[0]);
        }
    }
}

/// `uncopy cp` without flags.
fn plain_cp() -> Program {
    Program::new(env!("CARGO_BIN_EXE_uncopy")).arg("cp")
}

/// A link to another file would take them away.
fn existing_files_keep_their_bytes_with_attributes_only() {
    for flags in [&["-aT"][..], &["-aT", "--jobs=1"], &["-rT", "--preserve=links,mode"]] {
        let trees = Trees::new();
        trees.file("a", "source");
        fs::hard_link(trees.source().join("a"), trees.source().join("b")).unwrap();
        fs::hard_link(trees.source().join("a"), trees.source().join("new")).unwrap();
        for name in ["a", "b"] {
            crate::tree::file_in(&trees.destination(), name, name);
        }
        let run = trees.run(cp().args(flags).arg("--attributes-only"));
        assert!(run.status.success(), "{flags:?}: {}", run.stderr);
        for name in ["a", "b"] {
            let found = fs::read_to_string(trees.destination().join(name)).unwrap();
            assert_eq!(found, name, "{flags:?}");
        }
        assert!(trees.destination().join("new").exists(), "{flags:?}");
    }
}
