//! A copy between machines is the copy that one machine makes: {push, pull} × {file, tree, several sources} × options.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use testbed::{Case, Compared, Program, Run, assert_same_tree};

use super::{Direction, Machines, UNCOPY, names_in, succeeded};

/// Form of the sources and of the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// `a NEW`
    File,
    /// `a DIRECTORY`
    FileInto,
    /// `-r src NEW`
    Tree,
    /// `-r src DIRECTORY`
    TreeInto,
    /// `-rT src DIRECTORY`
    TreeOver,
    /// `-r a src DIRECTORY`
    Several,
}

const SHAPES: [Shape; 6] =
    [Shape::File, Shape::FileInto, Shape::Tree, Shape::TreeInto, Shape::TreeOver, Shape::Several];

impl Shape {
    fn sources(self) -> &'static [&'static str] {
        match self {
            Shape::File | Shape::FileInto => &["a"],
            Shape::Tree | Shape::TreeInto | Shape::TreeOver => &["src"],
            Shape::Several => &["a", "src"],
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Shape::File | Shape::FileInto => &[],
            Shape::TreeOver => &["-rT"],
            Shape::Tree | Shape::TreeInto | Shape::Several => &["-r"],
        }
    }

    fn is_of_trees(self) -> bool {
        !matches!(self, Shape::File | Shape::FileInto)
    }
}

/// Whether flags are of trees alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    All,
    Trees,
}

/// `@` stands for the beginning of a name of a file beside the trees, on the machine of the command line.
const ROWS: [(&[&str], For); 36] = [
    (&[], For::All),
    (&["--durable", "--verify"], For::All),
    (&["--verify=sha256"], For::All),
    (&["-p"], For::All),
    (&["-a"], For::Trees),
    (&["-a", "--no-preserve=mode"], For::Trees),
    (&["--preserve=xattr,timestamps"], For::All),
    (&["--update"], For::All),
    (&["--size-only"], For::All),
    (&["--checksum"], For::All),
    (&["--delete"], For::Trees),
    (&["--delete", "--max-delete=1"], For::Trees),
    (&["--exclude", "*.o", "--exclude=/d/e"], For::Trees),
    (&["--exclude", "*", "--include", "*.o", "--include", "*/"], For::Trees),
    (&["--dry-run"], For::Trees),
    (&["--json"], For::All),
    (&["-v"], For::All),
    (&["--max-bandwidth=50M"], For::All),
    (&["-n"], For::All),
    (&["-f"], For::All),
    (&["--remove-destination"], For::All),
    (&["--backup=numbered"], For::All),
    (&["-b", "--suffix=.old"], For::All),
    (&["--sparse=always"], For::All),
    (&["--sparse=never"], For::All),
    (&["--links=skip"], For::Trees),
    (&["--links=follow", "--jobs=3"], For::Trees),
    (&["--specials", "-j1"], For::Trees),
    (&["--chmod=u=rw,go=,D+x"], For::All),
    (&["--resume"], For::All),
    (&["--attributes-only", "--preserve=timestamps"], For::All),
    (&["-n", "--preserve=links"], For::All),
    (&["--digest"], For::All),
    (&["--digest=xxh3", "--verify=sha256"], For::All),
    (&["--audit=@log", "--json"], For::All),
    (&["--manifest=@sums", "--audit=@log"], For::All),
];

/// Makes sources: files of several sizes, holes, links of both kinds, a FIFO, attributes, modes, old times.
fn make_sources(at: &Path) {
    fs::write(at.join("a"), b"first").unwrap();
    let source = at.join("src");
    fs::create_dir_all(source.join("d/e")).unwrap();
    fs::create_dir(source.join("empty")).unwrap();
    for (name, bytes) in [("small", 7), ("d/x.o", 70_000), ("d/e/large", 3 << 20), ("none", 0)] {
        let contents: Vec<u8> = (0..bytes).map(|at| (at * 7 % 251) as u8).collect();
        fs::write(source.join(name), contents).unwrap();
    }
    for number in 0..40 {
        fs::write(source.join(format!("d/file-{number}")), format!("contents {number}")).unwrap();
    }
    let holes = File::create(source.join("holes")).unwrap();
    holes.set_len(4 << 20).unwrap();
    holes.write_all_at(&[7; 5000], 1 << 20).unwrap();
    holes.write_all_at(&[0; 70_000], 2 << 20).unwrap();
    // Small ones cross in another way.
    for (name, at) in
        [("d/hole behind", Some(0)), ("d/hole before", Some(50_000)), ("d/hole", None)]
    {
        let hole = File::create(source.join(name)).unwrap();
        hole.set_len(60_000).unwrap();
        if let Some(at) = at {
            hole.write_all_at(&[7; 5000], at).unwrap();
        }
    }
    fs::write(source.join("d/zeros"), [0; 60_000]).unwrap();
    fs::hard_link(source.join("d/x.o"), source.join("d/e/linked")).unwrap();
    symlink("d/file-3", source.join("link")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        source.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    // Not every filesystem has them.
    let _ = rustix::fs::setxattr(source.join("small"), "user.note", b"kept", flags);
    let _ = rustix::fs::setxattr(source.join("d"), "user.note", b"of a directory", flags);
    set_mode(&source.join("d/x.o"), 0o751);
    set_mode(&source.join("empty"), 0o700);
    for name in ["a", "src/small", "src/d/file-1", "src/d", "src/empty"] {
        set_time(&at.join(name), 1_000_000_000);
    }
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn set_time(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::open(path).unwrap().set_modified(time).unwrap();
}

/// Makes what is in the destination before: older and newer files, some of the same size, and others.
fn make_destination(shape: Shape, at: &Path) {
    let tree = match shape {
        Shape::File | Shape::Tree => return,
        Shape::TreeOver => at.to_owned(),
        Shape::FileInto | Shape::TreeInto | Shape::Several => at.join("src"),
    };
    fs::create_dir_all(tree.join("d")).unwrap();
    fs::create_dir_all(tree.join("extra/of/three")).unwrap();
    fs::write(tree.join("extra/of/it"), b"more").unwrap();
    for (name, contents, time) in [
        (tree.join("small"), &b"older.."[..], 999),
        (tree.join("d/file-1"), b"contents 1", 999),
        (tree.join("d/file-2"), b"CONTENTS 2", 4_000_000_000),
        (at.join("a"), b"other", 999),
    ] {
        fs::write(&name, contents).unwrap();
        set_time(&name, time);
    }
    for name in ["extra/of/it", "extra/of/three", "extra/of", "extra"] {
        set_time(&tree.join(name), 5);
    }
}

fn flagged(program: Program, shape: Shape, flags: &[&str], files: &Path) -> Program {
    let named = flags.iter().map(|flag| flag.replace('@', files.to_str().unwrap()));
    program.args(shape.flags()).args(named)
}

/// Copies on one machine and between two, and compares.
#[track_caller]
fn check(direction: Direction, shape: Shape, flags: &[&str]) {
    let machines = Machines::new();
    let (from, to) = (machines.source(direction), machines.destination(direction));
    make_sources(from);
    let [here, there] = ["here", "there"].map(|name| to.join(name));
    for destination in [&here, &there] {
        make_destination(shape, destination);
    }
    let local =
        flagged(Program::new(UNCOPY).arg("cp"), shape, flags, &machines.aside.join("here-"))
            .args(shape.sources().iter().map(|source| from.join(source)))
            .arg(&here)
            .run();
    let remote = flagged(machines.cp(), shape, flags, &machines.aside.join("there-"))
        .args(shape.sources().iter().map(|source| direction.source(source)))
        .arg(direction.destination("there"))
        .run();
    let what = format!("{direction:?} {shape:?} {flags:?}: {}{}", remote.stderr, remote.stdout);
    assert_eq!(remote.status.code(), local.status.code(), "{what}\nhere: {}", local.stderr);
    assert_eq!(here.exists(), there.exists(), "{what}");
    if here.exists() {
        let kept = flags.iter().any(|flag| flag.contains("times") || ["-a", "-p"].contains(flag));
        let holes = !flags.contains(&"--delete");
        let compared = Compared { modes: true, times: false, attributes: true, holes };
        assert_same_tree(&here, &there, compared);
        // A directory that sources were put into has the time of that.
        let roots: &[&str] = match shape {
            Shape::File | Shape::Tree | Shape::TreeOver => &[""],
            Shape::FileInto | Shape::TreeInto | Shape::Several => shape.sources(),
        };
        for root in roots.iter().filter(|_| kept) {
            let [here, there] = [&here, &there].map(|at| match *root {
                "" => at.clone(),
                root => at.join(root),
            });
            assert_same_tree(&here, &there, Compared { times: true, ..compared });
        }
    }
    // Nothing is left beside them: no temporary name, no journal.
    let expected = if here.exists() { &["here", "there"][..] } else { &[] };
    assert_eq!(names_in(to), expected, "{what}");
    for name in ["log", "sums"] {
        let [here, there] =
            ["here", "there"].map(|run| machines.aside.join(format!("{run}-{name}")).exists());
        assert_eq!(here, there, "{name}: {what}");
    }
    if flags.contains(&"--json") {
        assert_eq!(events(&remote, &there), events(&local, &here), "{what}");
    }
}

/// Events with the names below the destination and the bytes, in any order.
fn events(run: &Run, destination: &Path) -> Vec<String> {
    let name = destination.file_name().unwrap().to_str().unwrap();
    let event = |receipt: testbed::Receipt| {
        let value = receipt.value();
        let path = value["destination"].as_str().unwrap_or_default();
        let below = path.rsplit_once(name).map_or(path, |(_, below)| below).to_owned();
        format!("{} {below} {} {}", value["event"], value["bytes"], value["entry"])
    };
    let mut events: Vec<String> = run.receipts().into_iter().map(event).collect();
    // Which of two hard links comes first is chance.
    events.retain(|event| !event.contains("/x.o ") && !event.contains("/linked "));
    events.sort();
    events
}

fn rows() -> Vec<Case> {
    let mut cases = Vec::new();
    for direction in Direction::BOTH {
        for (flags, of) in ROWS {
            for shape in SHAPES.into_iter().filter(|shape| of == For::All || shape.is_of_trees()) {
                let name = format!(
                    "remote::same::{direction:?}::{shape:?}::{}",
                    flags.join("_").replace(['-', '/', '*', '@'], "")
                );
                cases.push(Case::new(name.to_lowercase(), &[], move || {
                    check(direction, shape, flags);
                }));
            }
        }
    }
    cases
}

/// The second run of `--update` and of `--resume` copies nothing.
fn a_second_update_copies_nothing() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        make_sources(machines.source(direction));
        let run = || {
            machines
                .cp()
                .args(["-a", "--update", "--json", "-T"])
                .arg(direction.source("src"))
                .arg(direction.destination("copy"))
                .run()
        };
        succeeded(&run());
        let second = run();
        succeeded(&second);
        let copied: Vec<_> = second
            .receipts()
            .into_iter()
            .filter(|receipt| receipt.value()["event"] == "copied")
            .collect();
        assert!(copied.is_empty(), "{}", second.stdout);
    }
}

/// Files that an earlier copy has unchanged are linked to it, on the machine of the destination.
fn unchanged_files_are_linked_to_an_earlier_copy() {
    use std::os::unix::fs::MetadataExt;
    for direction in Direction::BOTH {
        let machines = Machines::new();
        let (from, to) = (machines.source(direction), machines.destination(direction));
        make_sources(from);
        let run = |flags: &[&str], destination: &str| {
            let run = machines
                .cp()
                .args(["-a", "--json", "-T"])
                .args(flags)
                .arg(direction.source("src"))
                .arg(direction.destination(destination))
                .run();
            succeeded(&run);
        };
        run(&[], "earlier");
        fs::write(from.join("src/small"), b"changed since").unwrap();
        run(&["--link-dest=../earlier"], "later");
        let inode = |at: &str, name: &str| fs::metadata(to.join(at).join(name)).unwrap().ino();
        for name in ["d/x.o", "d/e/large", "d/file-7", "none"] {
            assert_eq!(inode("earlier", name), inode("later", name), "{direction:?} {name}");
        }
        assert_ne!(inode("earlier", "small"), inode("later", "small"));
        assert_eq!(fs::read(to.join("later/small")).unwrap(), b"changed since");
    }
}

fn the_summary_says_what_crossed() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        make_sources(machines.source(direction));
        let run = machines
            .cp()
            .args(["-r", "--json"])
            .arg(direction.source("src"))
            .arg(direction.destination("copy"))
            .run();
        succeeded(&run);
        let summary = run.receipts().pop().unwrap();
        let wire = &summary.value()["wire"];
        assert_eq!(wire["transport"], "remote_shell", "{}", run.stdout);
        // The large file, and not much more: holes do not cross.
        let sent = wire["bytes_sent"].as_u64().unwrap();
        assert!((3 << 20..4 << 20).contains(&sent), "{wire}");
        assert!(wire["bytes_received"].as_u64().unwrap() > 0, "{wire}");
        assert!(wire["us"].as_u64().unwrap() > 0, "{wire}");
        // One file has no summary, and several have none either.
        let file = |sources: &[&str], destination: &str| {
            let run = machines
                .cp()
                .arg("--json")
                .args(sources.iter().map(|source| direction.source(source)))
                .arg(direction.destination(destination))
                .run();
            succeeded(&run);
            run.receipts()
        };
        let events = file(&["src/d/e/large"], "file");
        let [event] = &events[..] else { panic!("{direction:?}: {}", events.len()) };
        let wire = &event.value()["wire"];
        assert_eq!(wire["transport"], "remote_shell");
        let sent = wire["bytes_sent"].as_u64().unwrap();
        assert!((3 << 20..4 << 20).contains(&sent), "{wire}");
        fs::create_dir(machines.destination(direction).join("into")).unwrap();
        let events = file(&["a", "src/small"], "into");
        assert_eq!(events.len(), 2);
        assert!(events.iter().all(|event| event.value()["wire"].is_null()), "{direction:?}");
    }
}

/// Files that flags name are files of the machine of the command line.
fn files_of_flags_are_here() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        make_sources(machines.source(direction));
        fs::write(machines.near.join("patterns"), "# objects\n*.o\n/d/e\n!none\n").unwrap();
        let run = machines
            .cp()
            .args(["-r", "--exclude-from", "patterns"])
            .arg(direction.source("src"))
            .arg(direction.destination("copy"))
            .run();
        succeeded(&run);
        let copy = machines.destination(direction).join("copy");
        assert!(copy.join("d/file-1").exists() && copy.join("none").exists());
        assert!(!copy.join("d/x.o").exists() && !copy.join("d/e").exists());
    }
    let machines = Machines::new();
    make_sources(&machines.far);
    let run =
        machines.cp().args(["-r", "--manifest", "sums", "--audit", "log", "far:src", "copy"]).run();
    succeeded(&run);
    for (arguments, code) in
        [(&["audit", "verify", "log"][..], 0), (&["verify", "--manifest", "sums", "copy"], 0)]
    {
        let run = Program::new(UNCOPY).args(arguments).current_dir(&machines.near).run();
        assert_eq!(run.status.code(), Some(code), "{arguments:?}: {}{}", run.stderr, run.stdout);
    }
}

/// A bind mount shows it in itself once, and not without end.
fn a_directory_that_is_mounted_in_itself_is_copied() {
    const MOUNT: &str = "mount --bind src src/sub && exec \"$@\"";
    let machines = Machines::new();
    fs::create_dir_all(machines.near.join("src/sub")).unwrap();
    fs::write(machines.near.join("src/f"), b"1").unwrap();
    let wrapper = ["unshare", "--mount", "sh", "-ec", MOUNT, "sh"];
    let local = Program::new(UNCOPY).arg("cp").args(["-r", "src", "here"]);
    succeeded(&local.current_dir(&machines.near).through(wrapper).run());
    succeeded(&machines.cp().args(["-r", "src", "far:there"]).through(wrapper).run());
    let (here, there) = (machines.near.join("here"), machines.far.join("there"));
    assert!(there.join("sub/f").exists());
    assert_same_tree(&here, &there, Compared::default());
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = testbed::cases![
        [] a_second_update_copies_nothing,
        [] unchanged_files_are_linked_to_an_earlier_copy,
        [] the_summary_says_what_crossed,
        [] files_of_flags_are_here,
        [testbed::Need::Root] a_directory_that_is_mounted_in_itself_is_copied,
    ];
    cases.extend(rows());
    cases
}
