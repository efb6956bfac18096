//! Modes, owners, times, attributes and access control lists: what GNU cp makes is the measure for
//! what users expect; `--preserve` must keep what it names, to the nanosecond.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags};
use testbed::{Case, Content, Need, Place, Program, by_extent, run_tool};
use uncopy::Errno;

use crate::both::{Form, cases_over};
use crate::cp::leftovers::no_unnamed_files;
use crate::cp::witnessed::Pair;
use crate::cp::{NOBODY, cp, cp_as_nobody};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases_over![
        Form::OVER_OLD;
        [Need::At(Place::Ext4), Need::Tool("setfacl"), Need::Tool("cp")] old_file_keeps_what_it_has_like_cp,
        [Need::At(Place::Ext4)] what_cannot_be_kept_is_said,
        [Need::At(Place::Tmpfs)] setuid_is_no_matter_of_new_contents,
        [Need::Root, Need::Tool("setpriv")] setuid_of_old_stays_only_with_its_owner,
    ];
    cases.extend(cases_over![
        Form::ALL;
        [Need::Tool("cp")] new_file_follows_umask_like_cp,
        [Need::Tool("cp"), Need::At(Place::Ext4), Need::Tool("setfacl")] new_file_follows_default_acl_like_cp,
        [Need::Tool("cp"), Need::At(Place::Ext4), Need::Tool("setfacl")] without_o_tmpfile_too,
        [Need::Tool("cp"), Need::At(Place::Ext4)] new_file_in_a_setgid_directory_like_cp,
        [] preserve_keeps_mode_and_nanoseconds,
        [] preserve_lists,
        [] access_time_is_that_from_before_the_copy,
        [Need::Root] preserve_keeps_setuid_and_owner,
        [Need::Root] setuid_is_not_given_to_another_owner,
        [Need::At(Place::Xfs), Need::Tool("setfacl"), Need::Tool("getfattr")] preserve_all_keeps_everything,
        [Need::At(Place::Xfs), Need::Tool("setfacl")] bare_preserve_takes_no_acl_along,
        [Need::At(Place::Tmpfs)] attributes_that_do_not_fit_are_said,
        [Need::At(Place::Ext4), Need::Tool("setfattr"), Need::Tool("getfattr")] file_capabilities,
        [] extended_attributes,
    ]);
    cases
}

const LENGTH: u64 = 20_000;

pub(crate) fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o7777
}

fn owner(path: &Path) -> (u32, u32) {
    let metadata = std::fs::metadata(path).unwrap();
    (metadata.uid(), metadata.gid())
}

fn times(path: &Path) -> [(i64, i64); 2] {
    let metadata = std::fs::metadata(path).unwrap();
    [(metadata.atime(), metadata.atime_nsec()), (metadata.mtime(), metadata.mtime_nsec())]
}

fn set_times(path: &Path, access: (i64, i64), modification: (i64, i64)) {
    let time = |(tv_sec, tv_nsec)| Timespec { tv_sec, tv_nsec };
    let times = Timestamps { last_access: time(access), last_modification: time(modification) };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::empty()).unwrap();
}

fn set_attribute(path: &Path, name: &str, value: &[u8]) -> bool {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty()).is_ok()
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 1 << 16];
    let length = rustix::fs::getxattr(path, name, &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}

fn acl(path: &Path) -> String {
    run_tool("getfacl", ["--absolute-names", "--omit-header", path.to_str().unwrap()])
}

fn gnu_cp() -> Program {
    Program::new("cp")
}

/// The same copy by GNU cp, beside.
fn by_gnu_cp(pair: &Pair, umask: &str) -> std::path::PathBuf {
    let beside = pair.to.join("by-cp");
    let (program, source, copy) = match pair.form {
        Form::NewTree => (gnu_cp().arg("-rT"), pair.from.join("tree"), beside.join("file")),
        _ => (gnu_cp(), pair.source.clone(), beside.clone()),
    };
    let run = program.with_umask(umask).arg(source).arg(beside).run();
    assert!(run.status.success(), "{}", run.stderr);
    copy
}

fn new_file_follows_umask_like_cp(form: Form) {
    for umask in ["000", "022", "027", "077", "0777"].into_iter().step_by(by_extent([3, 1, 1])) {
        for source_mode in [0o644, 0o600, 0o755, 0o444, 0o666, 0o777, 0o4755, 0o2755, 0o1644, 0o640]
        {
            // Small, and large enough to go another way.
            for length in [LENGTH, 3 << 20] {
                let pair = Pair::of(form, Place::Disk, &Content::dense(length));
                set_mode(&pair.source, source_mode);
                let beside = by_gnu_cp(&pair, umask);
                let _ = pair.succeed(cp().with_umask(umask));
                assert_eq!(
                    mode(&pair.destination),
                    mode(&beside),
                    "of {source_mode:o} under {umask}"
                );
            }
        }
    }
}

fn new_file_follows_default_acl_like_cp(form: Form) {
    for default in ["u::rwx,g::r-x,o::---", "u::rw,g::r,o::-,u:1000:rwx,m::rw"] {
        for source_mode in [0o644, 0o600, 0o777, 0o640] {
            let pair = Pair::of(form, Place::Ext4, &Content::dense(LENGTH));
            run_tool("setfacl", ["-d", "-m", default, pair.to.path().to_str().unwrap()]);
            set_mode(&pair.source, source_mode);
            let beside = by_gnu_cp(&pair, "077");
            let _ = pair.succeed(cp().with_umask("077"));
            assert_eq!(acl(&pair.destination), acl(&beside), "{default} of {source_mode:o}");
            assert_eq!(mode(&pair.destination), mode(&beside));
        }
    }
}

/// A temporary name has mode 0600 and whatever the kernel makes of the default ACL then.
fn without_o_tmpfile_too(form: Form) {
    for default in ["u::rwx,g::r-x,o::---", "u::rw,g::r,o::-,u:1000:rwx,m::rw"] {
        let pair = Pair::of(form, Place::Ext4, &Content::dense(LENGTH));
        run_tool("setfacl", ["-d", "-m", default, pair.to.path().to_str().unwrap()]);
        set_mode(&pair.source, 0o664);
        let program = cp().with_umask("077");
        let beside = by_gnu_cp(&pair, "077");
        let intercept = pair.command(program).run_with([no_unnamed_files(Errno::EOPNOTSUPP)]);
        assert!(intercept.hits > 0);
        let _ = pair.receipt(&intercept.run);
        assert_eq!(acl(&pair.destination), acl(&beside), "{default}");
        assert_eq!(mode(&pair.destination), mode(&beside));
    }
}

fn new_file_in_a_setgid_directory_like_cp(form: Form) {
    let pair = Pair::of(form, Place::Ext4, &Content::dense(LENGTH));
    std::os::unix::fs::chown(pair.to.path(), None, Some(1234)).unwrap();
    set_mode(pair.to.path(), 0o2775);
    let beside = by_gnu_cp(&pair, "022");
    let _ = pair.succeed(cp());
    assert_eq!(owner(&pair.destination), owner(&beside));
    assert_eq!(owner(&pair.destination).1, 1234);
}

/// cp truncates and writes; a new file under the old name must look as if it had.
fn old_file_keeps_what_it_has_like_cp(form: Form) {
    let pair = Pair::of(form, Place::Ext4, &Content::dense(LENGTH));
    set_mode(&pair.source, 0o755);
    assert!(set_attribute(&pair.source, "user.of-source", b"x"));
    let beside = pair.to.join("by-cp");
    pair.put_old(b"old");
    std::fs::write(&beside, b"old").unwrap();
    for path in [&pair.destination, &beside] {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(1234)).unwrap();
        set_mode(path, 0o640);
        run_tool("setfacl", ["-m", "u:1000:rw", path.to_str().unwrap()]);
        assert!(set_attribute(path, "user.kept", b"value"));
        assert!(set_attribute(path, "trusted.kept", b"secret"));
    }
    by_gnu_cp(&pair, "022");
    let receipt = pair.succeed(cp());
    assert_eq!(receipt.notes(), "", "everything can be kept here");
    assert_eq!(acl(&pair.destination), acl(&beside));
    assert_eq!(owner(&pair.destination), owner(&beside));
    assert_eq!(mode(&pair.destination), mode(&beside));
    for name in ["user.kept", "trusted.kept", "user.of-source"] {
        assert_eq!(attribute(&pair.destination, name), attribute(&beside, name), "{name}");
    }
    let now = std::time::SystemTime::now();
    let written = std::fs::metadata(&pair.destination).unwrap().modified().unwrap();
    assert!(now.duration_since(written).is_ok_and(|age| age.as_secs() < 3600), "a new mtime");
}

/// Another user's file, in a directory where this user may make and rename files.
fn what_cannot_be_kept_is_said(form: Form) {
    let pair = Pair::of(form, Place::Ext4, &Content::dense(LENGTH));
    pair.put_old(b"old");
    set_mode(&pair.destination, 0o666);
    set_mode(pair.destination.parent().unwrap(), 0o777);
    let receipt = pair.succeed(cp_as_nobody());
    pair.assert_copied();
    assert_eq!(owner(&pair.destination).0, NOBODY);
    assert!(receipt.notes().contains("owner"), "{}", receipt.value());
}

fn preserve_keeps_mode_and_nanoseconds(form: Form) {
    for length in [0, LENGTH, 3 << 20] {
        let pair = Pair::of(form, Place::Disk, &Content::dense(length));
        for source_mode in [0o644, 0o600, 0o444, 0o751, 0o4711, 0o2755, 0o1666, 0o000] {
            if source_mode & 0o400 == 0 && !rustix::process::geteuid().is_root() {
                continue;
            }
            set_mode(&pair.source, source_mode);
            set_times(&pair.source, (1_234_567_890, 123_456_789), (981_173_106, 987_654_321));
            let (expected, expected_mode) = (times(&pair.source), mode(&pair.source));
            let _ = pair.succeed(cp().arg("-p").with_umask("077"));
            assert_eq!(mode(&pair.destination), expected_mode, "{source_mode:o}");
            assert_eq!(times(&pair.destination), expected, "{source_mode:o}");
            pair.remove_copy();
            set_mode(&pair.source, 0o644);
        }
    }
    // Before 1970, and beyond 2038 where the filesystem can.
    let pair = Pair::of(form, Place::Disk, &Content::dense(10));
    for modification in [(-1_000_000, 5), (5_000_000_000, 999_999_999)] {
        set_times(&pair.source, (3, 4), modification);
        let expected = times(&pair.source);
        let _ = pair.succeed(cp().arg("-p"));
        assert_eq!(times(&pair.destination), expected);
    }
}

/// Each item alone, and over an old file that has something else.
fn preserve_lists(form: Form) {
    for (list, keeps_mode, keeps_times, keeps_attributes) in [
        ("--preserve=mode", true, false, false),
        ("--preserve=timestamps", false, true, false),
        ("--preserve=xattr", false, false, true),
        ("--preserve=mode,timestamps", true, true, false),
        ("--preserve=mode,timestamps,xattr", true, true, true),
        ("--preserve=all", true, true, true),
        ("-p", true, true, false),
        ("--preserve", true, true, false),
    ] {
        for old in [false, true] {
            let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
            set_mode(&pair.source, 0o751);
            set_times(&pair.source, (1_000_000_000, 1), (1_100_000_000, 2));
            let attributes = set_attribute(&pair.source, "user.note", b"hello");
            if old {
                pair.put_old(b"old");
                set_mode(&pair.destination, 0o606);
            }
            let _ = pair.succeed(cp().arg(list).with_umask("022"));
            let context = format!("{list}, old: {old}");
            let otherwise = if old { 0o606 } else { 0o751 & !0o022 };
            let expected = if keeps_mode { 0o751 } else { otherwise };
            assert_eq!(mode(&pair.destination), expected, "{context}");
            let modified = times(&pair.destination)[1];
            assert_eq!(modified == (1_100_000_000, 2), keeps_times, "{context}: {modified:?}");
            if attributes {
                let found = attribute(&pair.destination, "user.note");
                assert_eq!(found.is_some(), keeps_attributes, "{context}");
            }
        }
    }
}

fn access_time_is_that_from_before_the_copy(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    // Older than the modification: relatime writes a new one at the first read.
    set_times(&pair.source, (1_000_000_000, 77), (1_100_000_000, 88));
    let before = times(&pair.source);
    let _ = pair.succeed(cp().arg("-p"));
    assert_eq!(times(&pair.destination), before);
}

/// chown takes the setuid bit away, so chmod comes after it.
fn preserve_keeps_setuid_and_owner(form: Form) {
    for switch in ["-p", "--preserve=mode,ownership", "--preserve=all"] {
        let pair = Pair::of(form, Place::Tmpfs, &Content::dense(LENGTH));
        std::os::unix::fs::chown(&pair.source, Some(1000), Some(1234)).unwrap();
        set_mode(&pair.source, 0o6755);
        for old in [false, true] {
            if old {
                pair.put_old(b"old");
            }
            let _ = pair.succeed(cp().arg(switch));
            assert_eq!(owner(&pair.destination), (1000, 1234), "{switch}");
            assert_eq!(mode(&pair.destination), 0o6755, "{switch}");
        }
    }
}

/// Whoever copies another's setuid file does not get a setuid file of his own.
fn setuid_is_not_given_to_another_owner(form: Form) {
    let pair = Pair::of(form, Place::Tmpfs, &Content::dense(LENGTH));
    set_mode(&pair.source, 0o6755);
    set_mode(pair.to.path(), 0o777);
    let run = pair.command(cp_as_nobody().arg("-p")).run();
    let receipt = pair.receipt(&run);
    assert_eq!(owner(&pair.destination), (NOBODY, NOBODY));
    assert_eq!(mode(&pair.destination), 0o755, "setuid and setgid are gone with their owner");
    assert!(receipt.notes().contains("owner"), "{}", receipt.value());
}

fn preserve_all_keeps_everything(form: Form) {
    let pair = Pair::of(form, Place::Xfs, &Content::dense(LENGTH));
    std::os::unix::fs::chown(&pair.source, Some(1000), Some(1234)).unwrap();
    set_mode(&pair.source, 0o4750);
    run_tool("setfacl", ["-m", "u:2000:rw,g:3000:x", pair.source.to_str().unwrap()]);
    assert!(set_attribute(&pair.source, "user.empty", b""));
    assert!(set_attribute(&pair.source, "user.binary", &[0, 255, 10, 13]));
    assert!(set_attribute(&pair.source, "user.long", &[b'x'; 30_000]));
    assert!(set_attribute(&pair.source, "trusted.root", b"only"));
    set_times(&pair.source, (1_000_000_000, 111), (1_100_000_000, 222));
    let expected_times = times(&pair.source);
    for old in [false, true] {
        if old {
            pair.remove_copy();
            pair.put_old(b"old");
            run_tool("setfacl", ["-m", "u:4000:rwx", pair.destination.to_str().unwrap()]);
            assert!(set_attribute(&pair.destination, "user.of-old", b"?"));
        }
        let receipt = pair.succeed(cp().arg("--preserve=all"));
        assert_eq!(receipt.notes(), "", "everything can be kept here");
        assert_eq!(acl(&pair.destination), acl(&pair.source), "old: {old}");
        assert_eq!(owner(&pair.destination), (1000, 1234));
        assert_eq!(mode(&pair.destination), mode(&pair.source));
        assert_eq!(times(&pair.destination), expected_times);
        for name in ["user.empty", "user.binary", "user.long", "trusted.root"] {
            assert_eq!(attribute(&pair.destination, name), attribute(&pair.source, name), "{name}");
        }
    }
}

/// The mode of a file with an ACL shows the mask; without the ACL nobody may get more than the
/// group was allowed.
fn bare_preserve_takes_no_acl_along(form: Form) {
    let pair = Pair::of(form, Place::Xfs, &Content::dense(LENGTH));
    set_mode(&pair.source, 0o640);
    run_tool("setfacl", ["-m", "u:2000:rwx", pair.source.to_str().unwrap()]);
    let _ = pair.succeed(cp().arg("--preserve=timestamps"));
    assert!(!acl(&pair.destination).contains("user:2000"), "{}", acl(&pair.destination));
}

/// As when somebody without privilege writes to the old file: it is not run as its owner any more.
fn setuid_is_no_matter_of_new_contents(form: Form) {
    let pair = Pair::of(form, Place::Tmpfs, &Content::dense(LENGTH));
    pair.old_destination();
    for path in [pair.destination.parent().unwrap(), &pair.destination] {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    set_mode(&pair.destination, 0o6755);
    let _ = pair.succeed(cp_as_nobody());
    pair.assert_copied();
    assert_eq!(mode(&pair.destination), 0o755);
}

/// New contents never run with the rights of somebody else: not with root's, if the owner could not be kept,
/// and not with the old ones, if a write takes them away.
fn setuid_of_old_stays_only_with_its_owner(form: Form) {
    let without = |capability: &str| {
        let dropped = format!("-{capability}");
        ["setpriv".to_owned(), format!("--bounding-set={dropped}"), format!("--inh-caps={dropped}")]
    };
    for (wrapper, owner_before, flags, owner_after, keeps) in [
        (None, (1000, 1000), &[][..], (1000, 1000), true),
        (Some(without("chown")), (1000, 1000), &[], (0, 0), false),
        (Some(without("chown")), (0, 0), &[], (0, 0), true),
        (Some(without("chown")), (0, 1000), &[], (0, 0), false),
        (Some(without("fsetid")), (1000, 1000), &[], (1000, 1000), false),
        (None, (1000, 1000), &["--preserve=ownership"], (0, 0), false),
        (None, (1000, 1000), &["--chown=2000"], (2000, 1000), false),
    ] {
        for old_mode in [0o6755, 0o4755, 0o2755] {
            let pair = Pair::of(form, Place::Tmpfs, &Content::dense(LENGTH));
            pair.old_destination();
            let (user, group) = owner_before;
            std::os::unix::fs::chown(&pair.destination, Some(user), Some(group)).unwrap();
            set_mode(&pair.destination, old_mode);
            let program = cp().args(flags);
            let program = match &wrapper {
                Some(wrapper) => program.through(wrapper),
                None => program,
            };
            let _ = pair.succeed(program);
            pair.assert_copied();
            let context = format!("{wrapper:?} {owner_before:?} {flags:?} {old_mode:o}");
            assert_eq!(owner(&pair.destination), owner_after, "{context}");
            let expected = if keeps { old_mode } else { 0o755 };
            assert_eq!(mode(&pair.destination), expected, "{context}");
        }
    }
}

/// tmpfs takes no attribute of this length; the copy succeeds and says what it lacks.
fn attributes_that_do_not_fit_are_said(form: Form) {
    let pair = Pair::between(form, Place::Xfs, Place::Tmpfs, &Content::dense(LENGTH));
    assert!(set_attribute(&pair.source, "user.fits", b"yes"));
    let receipt = pair.succeed(cp().arg("--preserve=all"));
    let kept = attribute(&pair.destination, "user.fits").is_some();
    assert!(kept || receipt.notes().contains("user.fits"), "{}", receipt.value());
}

/// `security.capability` is an attribute that chown removes.
fn file_capabilities(form: Form) {
    let pair = Pair::of(form, Place::Ext4, &Content::dense(LENGTH));
    std::os::unix::fs::chown(&pair.source, Some(1000), Some(1000)).unwrap();
    // cap_net_raw, permitted and effective (vfs_cap_data, revision 2).
    let value = "0x0100000200200000000000000000000000000000";
    let source = pair.source.to_str().unwrap();
    run_tool("setfattr", ["-n", "security.capability", "-v", value, source]);
    let expected = attribute(&pair.source, "security.capability");
    assert!(expected.is_some());
    let _ = pair.succeed(cp().arg("--preserve=all"));
    assert_eq!(attribute(&pair.destination, "security.capability"), expected);
    pair.remove_copy();
    let _ = pair.succeed(cp().arg("-p"));
    assert_eq!(attribute(&pair.destination, "security.capability"), None, "cp -p keeps none");
    // Those of the old contents are none of the new ones': write(2) would have removed them.
    let old = pair.destination.to_str().unwrap();
    run_tool("setfattr", ["-n", "security.capability", "-v", value, old]);
    let _ = pair.succeed(cp());
    assert_eq!(attribute(&pair.destination, "security.capability"), None);
}

fn extended_attributes(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    if !set_attribute(&pair.source, "user.a", b"1") {
        // The test directory's filesystem has none; the places of a root run have.
        return;
    }
    let names: Vec<String> = (0..40).map(|n| format!("user.attribute-{n}")).collect();
    for name in &names {
        assert!(set_attribute(&pair.source, name, name.as_bytes()));
    }
    let receipt = pair.succeed(cp().arg("--preserve=xattr"));
    for name in &names {
        let found = attribute(&pair.destination, name);
        assert_eq!(found.as_deref(), Some(name.as_bytes()), "{name}: {}", receipt.notes());
    }
}
