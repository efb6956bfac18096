//! While a file is copied nobody sees more of it than before or after, and nobody is let in who has
//! no right.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use testbed::witness::{Call, Strace};
use testbed::{
    CallPattern, Case, Content, Intercepted, Mount, Need, Place, Program, Scratch, SystemCall,
};
use uncopy::Errno;

use crate::both::metadata::{mode, set_mode};
use crate::both::{Form, cases_over};
use crate::cp::leftovers::{calls_of_the_copy, no_unnamed_files, temporaries};
use crate::cp::witnessed::{Pair, RENAMES};
use crate::cp::{NOBODY, SENDFILE, cp, cp_as_nobody, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = testbed::cases![
        [Need::Root] a_umask_that_takes_from_the_owner,
        [Need::At(Place::Ext4)] attributes_of_what_its_owner_may_not_write,
    ];
    cases.extend(cases_over![
        Form::OVER_OLD;
        [] nothing_is_to_be_seen_while_copying,
        [] a_temporary_name_is_closed_to_others,
        [Need::Root] a_secret_stays_one_at_every_moment,
        [Need::Root] setuid_comes_after_the_owner,
        [Need::Root] read_only_destination_needs_force,
        [Need::Root] unwritable_directory_is_named_with_a_way_out,
        [Need::Root] sticky_directory_is_named_with_a_way_out,
        [Need::At(Place::Ext4), Need::Tool("chattr")] immutable_destination,
        [Need::At(Place::Ext4), Need::Tool("chattr")] append_only_destination,
        [Need::At(Place::Ext4), Need::Tool("chattr")] immutable_directory,
        [Need::At(Place::Ext4), Need::Tool("chattr")] immutable_source_is_copied,
    ]);
    cases.extend(testbed::cases![
        [Need::Tool("strace"), Need::Tool("bindfs"), Need::Root] no_temporary_name_is_setuid,
    ]);
    cases
}

const LENGTH: u64 = 200_000;

/// With O_TMPFILE there is no name before the file is whole.
fn nothing_is_to_be_seen_while_copying(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let old = pair.old_destination();
    let stopped = pair.stopped_in(&cp_by(SENDFILE), &[SystemCall::SENDFILE], 1, pair.to.path());
    assert!(pair.to.strangers(&["destination"]).is_empty());
    assert!(std::fs::read(&pair.destination).unwrap() == old);
    let run = stopped.resume().run;
    let _ = pair.receipt(&run);
    pair.assert_copied();
}

/// Without it there is one, with mode 0600, whatever umask and modes say.
fn a_temporary_name_is_closed_to_others(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    set_mode(&pair.source, 0o666);
    pair.old_destination();
    set_mode(&pair.destination, 0o666);
    let program = cp_by(SENDFILE).arg("-p").with_umask("000");
    let refuse = no_unnamed_files(Errno::EOPNOTSUPP);
    let intercepted = Intercepted::new(&pair.command(program)).inject(refuse);
    let stopped = intercepted.stop_in(CallPattern::of(&[SystemCall::SENDFILE]).nth(1));
    let left = temporaries(pair.to.path());
    assert_eq!(left.len(), 1, "{:?}", pair.to.strangers(&[]));
    assert_eq!(mode(&left[0]), 0o600);
    assert!(is_locked(&left[0]), "the next run would take it for a leftover");
    let run = stopped.resume().run;
    let _ = pair.receipt(&run);
    pair.assert_copied();
    assert_eq!(mode(&pair.destination), 0o666);
}

fn is_locked(path: &Path) -> bool {
    std::fs::File::open(path).unwrap().try_lock().is_err()
}

/// A 0600 source replaces a 0600 file: stopped in each call, whatever lies in the directory can be
/// read by nobody else.
fn a_secret_stays_one_at_every_moment(form: Form) {
    for program in [cp().with_umask("000"), cp().arg("-p").with_umask("000")] {
        let pair = Pair::of(form, Place::Tmpfs, &Content::dense(LENGTH));
        set_mode(&pair.source, 0o600);
        let old = || {
            pair.old_destination();
            set_mode(&pair.destination, 0o600);
        };
        old();
        for call in calls_of_the_copy(&pair, &program) {
            old();
            let command = pair.command(program.clone());
            let stopped = command.stop_after(call.call, call.nth);
            for entry in std::fs::read_dir(pair.to.path()).unwrap() {
                let path = entry.unwrap().path();
                let context = format!("{} after {} {}", path.display(), call.call.name(), call.nth);
                assert_eq!(mode(&path) & 0o177, 0, "{context}");
                let tried = testbed::Program::new("cat").as_user(NOBODY).arg(&path).run();
                assert!(!tried.status.success(), "{context} can be read by another user");
            }
            let run = stopped.resume().run;
            let _ = pair.receipt(&run);
        }
    }
}

/// A setuid file that belongs to whoever copies, even for a moment, is a hole.
fn setuid_comes_after_the_owner(form: Form) {
    let pair = Pair::of(form, Place::Tmpfs, &Content::dense(LENGTH));
    std::os::unix::fs::chown(&pair.source, Some(1000), Some(1000)).unwrap();
    set_mode(&pair.source, 0o4755);
    let program = cp().arg("-p");
    pair.old_destination();
    for call in calls_of_the_copy(&pair, &program) {
        let _ = std::fs::remove_file(&pair.destination);
        pair.old_destination();
        let command = pair.command(program.clone());
        let stopped = command.stop_after(call.call, call.nth);
        for entry in std::fs::read_dir(pair.to.path()).unwrap() {
            let metadata = entry.unwrap().metadata().unwrap();
            let setuid = metadata.mode() & 0o4000 != 0;
            assert!(!setuid || metadata.uid() == 1000, "after {} {}", call.call.name(), call.nth);
        }
        let run = stopped.resume().run;
        let _ = pair.receipt(&run);
        assert_eq!(mode(&pair.destination), 0o4755);
    }
}

fn for_nobody(pair: &Pair, destination_mode: u32, directory_mode: u32) {
    std::os::unix::fs::chown(&pair.destination, Some(NOBODY), None).unwrap();
    set_mode(&pair.destination, destination_mode);
    set_mode(pair.to.path(), directory_mode);
}

/// The file that has the name of a copy already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Old {
    Nothing,
    /// A file of this mode.
    File(u32),
    Link,
}

impl Old {
    fn make(self, path: &Path) {
        match self {
            Old::Nothing => {}
            Old::Link => std::os::unix::fs::symlink("nowhere", path).unwrap(),
            Old::File(mode) => {
                std::fs::write(path, "old").unwrap();
                set_mode(path, mode);
            }
        }
    }
}

/// A kill would leave a program that runs with the rights of its owner, under a name that nobody looks at.
fn no_temporary_name_is_setuid() {
    let disk = Place::Disk.scratch();
    let fuse = Mount::fuse(disk.path());
    let tmpfs = Place::Tmpfs.scratch();
    let flags: [&[&str]; 6] =
        [&["-p"], &["-p", "--durable"], &["-rp"], &["-rp", "--resume"], &["-n", "-p"], &[]];
    for (directory, below) in
        [(disk.path(), disk.path()), (tmpfs.path(), tmpfs.path()), (fuse.path(), disk.path())]
    {
        for source_mode in [0o4755, 0o2711, 0o6555] {
            for flags in flags {
                for old in [Old::Nothing, Old::File(0o755), Old::File(0o4711), Old::Link] {
                    let is_recursive = flags[..].iter().any(|flag| flag.starts_with("-r"));
                    let is_passed_over = match old {
                        Old::Nothing => false,
                        // A link that is named is followed.
                        Old::Link => !is_recursive,
                        Old::File(_) => flags.contains(&"-n"),
                    };
                    if !is_passed_over {
                        setuid_comes_last(directory, below, source_mode, flags, old);
                    }
                }
            }
        }
    }
}

/// Copies to `directory`, which is also seen as `below`: FUSE answers from what the kernel remembers of
/// another name.
fn setuid_comes_last(directory: &Path, below: &Path, source_mode: u32, flags: &[&str], old: Old) {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    set_mode(&pair.source, source_mode);
    let to = Scratch::new_in(directory);
    let destination = to.join("source");
    old.make(&destination);
    let program = match flags.iter().any(|flag| flag.starts_with("-r")) {
        true => cp().args(flags).arg("-T").args([pair.from.path(), to.path()]),
        false => cp().args(flags).args([&pair.source, &destination]),
    };
    let context = format!("{} {source_mode:o} {flags:?} {old:?}", to.display());
    let (run, trace) = Strace::new(&program).run();
    assert!(run.status.success(), "{context}: {}", run.stderr);
    let expected = match old {
        _ if !flags.is_empty() => source_mode,
        Old::File(mode) => mode,
        _ => source_mode & 0o755,
    };
    let path = below.join(to.file_name().unwrap()).join("source");
    assert_eq!(mode(&path), expected, "{context}");
    let calls = &trace.calls;
    let made = calls.iter().position(|call| {
        let makes = ["linkat", "openat"].contains(&call.name.as_str());
        makes && call.value().is_some() && call.arguments.contains(".tmp\"")
    });
    let Some(made) = made else {
        return assert!(old == Old::Nothing && directory == below, "{context}");
    };
    let is_rename = |call: &Call| RENAMES.contains(&call.name.as_str());
    let renamed = calls.iter().rposition(|call| is_rename(call) && call.mentions(to.path()));
    let renamed = renamed.expect("it gets its name");
    // It may have been setuid as long as it had no name.
    let last = calls[..made].iter().rev().find(|call| call.name == "fchmod");
    let mut while_named = calls[made..renamed].iter().chain(last);
    assert!(!while_named.any(gives_setuid), "{context}");
    let given = calls.iter().rposition(gives_setuid);
    let flushed = calls.iter().rposition(|call| {
        let is_it = |given: usize| descriptor(call) == descriptor(&calls[given]);
        call.name == "fsync" && given.is_some_and(is_it)
    });
    assert!(!flags.contains(&"--durable") || flushed > given, "{context}");
}

/// The number of the first descriptor.
fn descriptor(call: &Call) -> &str {
    call.arguments.split('<').next().unwrap_or_default()
}

/// A call that gives setuid or setgid to a file that is open.
fn gives_setuid(call: &Call) -> bool {
    let mode = call.arguments.rsplit(", ").next().unwrap_or_default();
    let mode = u32::from_str_radix(mode, 8).unwrap_or(0);
    call.name == "fchmod" && mode & 0o6000 != 0
}

fn read_only_destination_needs_force(form: Form) {
    let pair = Pair::of(form, Place::Tmpfs, &Content::dense(LENGTH));
    let old = pair.old_destination();
    for_nobody(&pair, 0o444, 0o777);
    let in_place = (!form.is_tree()).then(|| cp_as_nobody().arg("--in-place"));
    for program in [cp_as_nobody()].into_iter().chain(in_place) {
        let run = pair.command(program).run();
        let message = run.failed(1);
        assert!(message.contains("EACCES") || message.contains("-f"), "{message}");
        pair.assert_kept(&old);
    }
    let _ = pair.succeed(cp_as_nobody().arg("-f"));
    pair.assert_copied();
}

fn unwritable_directory_is_named_with_a_way_out(form: Form) {
    let pair = Pair::of(form, Place::Tmpfs, &Content::dense(LENGTH));
    let old = pair.old_destination();
    for_nobody(&pair, 0o666, 0o555);
    let run = pair.command(cp_as_nobody()).run();
    pair.assert_names_in_place(&run);
    pair.assert_kept(&old);
    pair.copy_in_place(cp_as_nobody());
    // A new name cannot be made there in any way.
    let run = cp_as_nobody().arg(&pair.source).arg(pair.to.join("new")).run();
    let message = run.failed(1);
    assert!(message.contains("EACCES") && !message.contains("--in-place"), "{message}");
}

/// In /tmp another user's file can be written to and not renamed over.
fn sticky_directory_is_named_with_a_way_out(form: Form) {
    let pair = Pair::of(form, Place::Tmpfs, &Content::dense(LENGTH));
    let old = pair.old_destination();
    set_mode(&pair.destination, 0o666);
    set_mode(pair.to.path(), 0o1777);
    let run = pair.command(cp_as_nobody()).run();
    pair.assert_names_in_place(&run);
    pair.assert_kept(&old);
    pair.copy_in_place(cp_as_nobody());
}

/// Sets an attribute of a file until dropped.
struct Attribute<'a>(&'a Path, &'static str);

impl Attribute<'_> {
    fn set<'a>(path: &'a Path, letter: &'static str) -> Attribute<'a> {
        testbed::run_tool("chattr", [&format!("+{letter}"), path.to_str().unwrap()]);
        Attribute(path, letter)
    }
}

impl Drop for Attribute<'_> {
    fn drop(&mut self) {
        testbed::run_quietly("chattr", [&format!("-{}", self.1), self.0.to_str().unwrap()]);
    }
}

fn refused_as_it_is(pair: &Pair, old: &[u8]) {
    let flags = ["-f", "-p", "--durable", "--attributes-only"];
    let mut programs: Vec<_> = flags.into_iter().map(|flag| cp().arg(flag)).collect();
    programs.push(cp());
    // A dry run said that it would be replaced.
    let tree = if pair.form.is_tree() { &[][..] } else { &["-r"] };
    let forecasts = programs.iter().map(|program| program.clone().arg("--dry-run").args(tree));
    programs.extend(forecasts.collect::<Vec<_>>());
    if !pair.form.is_tree() {
        programs.push(cp().arg("--in-place"));
    }
    for program in programs {
        let run = pair.command(program.clone()).run();
        let message = run.failed(1);
        assert!(message.contains("EPERM") || message.contains("EACCES"), "{program:?}: {message}");
        pair.assert_kept(old);
    }
    for flags in [&[][..], &["--", "--in-place"]] {
        let doctor = Program::new(env!("CARGO_BIN_EXE_uncopy")).arg("doctor");
        let run = doctor.arg(&pair.source).arg(&pair.destination).args(flags).run();
        assert!(run.failed(1).contains("EPERM"), "{flags:?}: {}", run.stderr);
    }
}

fn immutable_destination(form: Form) {
    let pair = Pair::of(form, Place::Ext4, &Content::dense(LENGTH));
    let old = pair.old_destination();
    let _immutable = Attribute::set(&pair.destination, "i");
    refused_as_it_is(&pair, &old);
}

fn append_only_destination(form: Form) {
    let pair = Pair::of(form, Place::Ext4, &Content::dense(LENGTH));
    let old = pair.old_destination();
    let _append_only = Attribute::set(&pair.destination, "a");
    refused_as_it_is(&pair, &old);
    // Its mode allows writing, and yet nothing can be written into it.
    let run = pair.command(cp()).run();
    assert!(!run.failed(1).contains("--in-place"), "{}", run.stderr);
}

/// By the umask the owner may not write to new directories; they are filled, and have these modes in the end.
fn a_umask_that_takes_from_the_owner() {
    const GIVEN: &str = "mkdir -p s/t/u d p; echo 1 > s/f; echo 2 > s/t/f; echo 3 > s/t/u/g; \
                         chmod 750 s/t; chmod 1777 s/t/u; chmod -R a+rX s; chown 65534 . d p";
    const FOUND: &str = "find \"$@\" -printf '%P %m %y\\n' | sort";
    for umask in ["022", "0277", "0377"] {
        for line in
            ["-r s n", "-rT s d", "-r s d", "--parents s/t/u/g p", "-r --parents s/t p", "-rp s n"]
        {
            let found = [cp_as_nobody(), Program::new("cp").as_user(NOBODY)].map(|program| {
                let place = Place::Tmpfs.scratch();
                set_mode(place.path(), 0o777);
                let sh = |script: &str| {
                    let sh = Program::new("sh").args(["-euc", script, "sh"]);
                    let run = sh.args(["."]).current_dir(place.path()).run();
                    assert!(run.status.success(), "{}", run.stderr);
                    run.stdout
                };
                let _ = sh(GIVEN);
                let program = program.args(line.split(' ')).with_umask(umask);
                let run = program.current_dir(place.path()).run();
                assert!(run.status.success(), "{umask} {line}: {}", run.stderr);
                sh(FOUND)
            });
            assert_eq!(found[0], found[1], "{umask} {line}");
        }
    }
}

/// Setting `user.*` needs the permission to write, which neither the source nor its copy gives its owner.
fn attributes_of_what_its_owner_may_not_write() {
    let place = Place::Ext4.scratch();
    set_mode(place.path(), 0o777);
    let source = place.join("source");
    std::fs::create_dir_all(source.join("directory")).unwrap();
    for (name, mode) in [("a", 0o444), ("b", 0o400), ("c", 0o555), ("directory/d", 0o000)] {
        std::fs::write(source.join(name), name).unwrap();
        set_mode(&source.join(name), mode);
    }
    set_mode(&source.join("directory"), 0o555);
    for name in ["a", "b", "c", "directory"] {
        let path = source.join(name);
        rustix::fs::setxattr(&path, "user.k", b"value", rustix::fs::XattrFlags::empty()).unwrap();
    }
    set_mode(&source.join("directory/d"), 0o440);
    for name in ["", "a", "b", "c", "directory", "directory/d"] {
        std::os::unix::fs::chown(source.join(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let copy = |words: &[&str]| {
        let run = cp_as_nobody().args(words).current_dir(place.path()).run();
        assert!(run.status.success() && run.stderr.is_empty(), "{words:?}: {}", run.stderr);
    };
    copy(&["-aT", "source", "tree"]);
    testbed::assert_same_tree(&source, &place.join("tree"), testbed::Compared::wholly());
    std::fs::create_dir(place.join("single")).unwrap();
    set_mode(&place.join("single"), 0o777);
    copy(&["-a", "source/a", "source/b", "source/c", "source/directory", "single"]);
    copy(&["--preserve=all", "source/a", "single/e"]);
    std::fs::remove_file(place.join("single/e")).unwrap();
    std::os::unix::fs::chown(place.join("single"), Some(NOBODY), Some(NOBODY)).unwrap();
    let compared = testbed::Compared { times: false, modes: false, ..testbed::Compared::wholly() };
    testbed::assert_same_tree(&source, &place.join("single"), compared);
    for name in ["a", "b", "c", "directory"] {
        assert_eq!(mode(&place.join("single").join(name)), mode(&source.join(name)), "{name}");
    }
}

/// Files in it can be written to, and nothing can be made or renamed.
fn immutable_directory(form: Form) {
    let pair = Pair::of(form, Place::Ext4, &Content::dense(LENGTH));
    let old = pair.old_destination();
    let immutable = Attribute::set(pair.to.path(), "i");
    let run = pair.command(cp()).run();
    pair.assert_names_in_place(&run);
    pair.assert_kept(&old);
    pair.copy_in_place(cp());
    drop(immutable);
}

fn immutable_source_is_copied(form: Form) {
    let pair = Pair::of(form, Place::Ext4, &Content::dense(LENGTH));
    let _immutable = Attribute::set(&pair.source, "i");
    for program in [cp(), cp().arg("--preserve=all")] {
        pair.copy(program);
        pair.remove_copy();
    }
}
