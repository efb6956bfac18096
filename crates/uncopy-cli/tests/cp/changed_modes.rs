//! `--chmod` and `--chown`, beside `cp` followed by `chmod` or `chown`, and beside `rsync`.

use std::os::unix::fs::MetadataExt;

use testbed::{
    Case, Compared, Content, Intercepted, Need, Place, Program, Scratch, SystemCall,
    assert_same_tree, by_extent,
};
use uncopy::Errno;

use crate::both::{Form, cases_of};
use crate::cp::leftovers::no_unnamed_files;
use crate::cp::witnessed::Pair;
use crate::cp::{cp, cp_as_nobody};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = testbed::cases![
        [] modes_are_those_of_cp_and_chmod,
        [Need::Tool("rsync")] modes_of_trees_are_those_of_rsync,
        [Need::Root, Need::Tool("rsync")] owners_are_those_of_rsync,
        [Need::Root] owners_are_those_of_cp_and_chown,
        [] nonsense_is_misuse,
    ];
    let name = concat!(module_path!(), "::no_copy_is_wider_before");
    cases.extend(cases_of(&Form::OVER_OLD, name, &[], no_copy_is_wider_before));
    let name = concat!(module_path!(), "::an_owner_that_may_not_be_given_fails");
    cases.extend(cases_of(&Form::ALL, name, &[Need::Root], an_owner_that_may_not_be_given_fails));
    cases
}

const TREE: &str = "mkdir -p s/sub s/set d; echo a > s/f; echo b > s/sub/x; echo c > s/ro; echo old > d/f; \
                    mkfifo s/p; ln -s f s/l; chmod 640 s/f; chmod 755 s/sub/x; chmod 444 s/ro; chmod 600 d/f; \
                    chmod 750 s/sub; chmod 2755 s/set; chmod 700 d; chmod 4711 s/sub/x";

/// Changes, all of which leave a directory open to its owner.
const CHANGES: [&str; 12] = [
    "755",
    "u=rwX,go=",
    "g+w",
    "a+X",
    "+x",
    "go=u",
    "u+s",
    "=rwx",
    "o-rx",
    "g=o,u+w",
    "0700",
    "ug+rwx,o=r",
];

fn prepared(given: &str) -> Scratch {
    let place = Place::Disk.scratch();
    sh(given, &place);
    place
}

fn sh(script: &str, place: &Scratch) {
    let run = Program::new("sh").args(["-euc", script]).current_dir(place.path()).run();
    assert!(run.status.success(), "{script}: {}", run.stderr);
}

fn uncopy(words: &str) -> String {
    format!("{} cp {words}", env!("CARGO_BIN_EXE_uncopy"))
}

fn modes_are_those_of_cp_and_chmod() {
    let modes = Compared { modes: true, ..Compared::default() };
    let changes = CHANGES.iter().step_by(by_extent([4, 1, 1]) as usize);
    for (change, umask) in changes.flat_map(|change| [(change, "022"), (change, "077")]) {
        for (form, copied) in [
            ("s/f c", "c"),
            ("s/f d/f", "d/f"),
            ("-p s/sub/x c", "c"),
            ("-f s/ro d/f", "d/f"),
            ("-a s c", "-R c"),
            ("-r s/sub c", "-R c"),
        ] {
            let (own, other) = (prepared(TREE), prepared(TREE));
            sh(&format!("umask {umask}; {}", uncopy(&format!("--chmod={change} {form}"))), &own);
            sh(&format!("umask {umask}; cp {form}; chmod {change} {copied}"), &other);
            eprintln!("{change} {umask} {form}");
            assert_same_tree(other.path(), own.path(), modes);
        }
    }
}

/// Without setuid and setgid: a number takes them from directories by rsync and not by chmod, and `u=`
/// takes setuid from files by chmod and not by rsync.
fn modes_of_trees_are_those_of_rsync() {
    let modes = Compared { modes: true, ..Compared::default() };
    for change in ["D755,F644", "Dg+s,ug+w,Fo-w,+X", "F600", "D0700", "u=rwX,Fgo-rwx", "Da+rx,Fa-x"]
    {
        for umask in ["022", "077"] {
            let given = format!("{TREE}; rm s/p; chmod g-s s/set; chmod 711 s/sub/x");
            let (own, other) = (prepared(&given), prepared(&given));
            let flags = format!("-aT --chmod={change} s d");
            sh(&format!("umask {umask}; {}", uncopy(&flags)), &own);
            sh(&format!("umask {umask}; rsync -aI --chmod={change} s/ d"), &other);
            eprintln!("{change} {umask}");
            assert_same_tree(other.path(), own.path(), modes);
        }
    }
}

fn owners_are_those_of_rsync() {
    let modes = Compared { modes: true, ..Compared::default() };
    for owner in ["12:34", "12", ":34", "daemon:bin"] {
        let given = format!("{TREE}; chmod 755 s/sub/x s/set; chmod g-s s/set; chown -R 7:8 s");
        let (own, other) = (prepared(&given), prepared(&given));
        sh(&uncopy(&format!("-aT --chown={owner} s d")), &own);
        sh(&format!("rsync -aI --specials --chown={owner} s/ d"), &other);
        assert_same_tree(other.path(), own.path(), modes);
    }
}

fn owners_are_those_of_cp_and_chown() {
    let modes = Compared { modes: true, ..Compared::default() };
    for owner in ["12:34", ":34", "+12", "daemon"] {
        for (form, copied) in [
            ("s/f c", "c"),
            ("s/f d/f", "d/f"),
            ("-P s/l c", "-h c"),
            ("-p s/f d/f", "d/f"),
            ("-r s/set c", "-R c"),
            ("-a s c", "-hR c"),
        ] {
            let given = format!("{TREE}; chmod 755 s/sub/x; chmod g-s s/set; chown -R 7:8 s/f d");
            let (own, other) = (prepared(&given), prepared(&given));
            sh(&uncopy(&format!("--chown={owner} {form}")), &own);
            sh(&format!("cp {form}; chown {owner} {copied}"), &other);
            eprintln!("{owner} {form}");
            assert_same_tree(other.path(), own.path(), modes);
        }
    }
}

/// Also where the file has a temporary name while it is written, and whatever the source and the replaced
/// file may be read by.
fn no_copy_is_wider_before(form: Form) {
    // Without search permission on the directories, root alone gets at the files below.
    let [writable, read_only] = match form.is_tree() && !rustix::process::geteuid().is_root() {
        true => ["--chmod=D700,F600", "--chmod=D0700,F0400"],
        false => ["--chmod=600", "--chmod=0400"],
    };
    for flags in [&[writable][..], &["-p", "--chmod=go="], &["-p", read_only]] {
        for is_new in [true, false] {
            let pair = Pair::of(form, Place::Disk, &Content::dense(300_000));
            if !is_new {
                pair.old_destination();
            }
            let program = pair.command(cp().args(flags).arg("--no-zero-copy"));
            let calls = [SystemCall::OPENAT, SystemCall::FCHMOD, SystemCall::FCHMODAT];
            let intercepted = Intercepted::new(&program);
            let recorded =
                intercepted.inject(no_unnamed_files(Errno::EOPNOTSUPP)).watch(&calls).record();
            assert!(recorded.run.status.success(), "{}", recorded.run.stderr);
            let set: Vec<_> =
                recorded.log.iter().filter(|call| call.call == SystemCall::FCHMOD).collect();
            assert!(!set.is_empty() || flags[0] == writable, "{flags:?}: no mode was set");
            for call in set {
                assert_eq!(call.arguments[1] & 0o077, 0, "{flags:?}: {call:?}");
            }
            let mode = std::fs::metadata(&pair.destination).unwrap().mode();
            assert_eq!(mode & 0o077, 0, "{flags:?}: {mode:o}");
        }
    }
}

fn an_owner_that_may_not_be_given_fails(form: Form) {
    let pair = Pair::of(form, Place::Tmpfs, &Content::dense(70_000));
    for path in [&pair.source, &pair.to.path().to_owned()] {
        sh_as_owner(path);
    }
    let run = pair.command(cp_as_nobody().arg("--chown=0:0")).run();
    assert_eq!(run.status.code(), Some(1), "{}", run.stderr);
    assert!(
        run.stderr.contains("may not give it that owner (EPERM); leave out --chown"),
        "{}",
        run.stderr
    );
    assert!(!pair.destination.exists());
}

fn sh_as_owner(path: &std::path::Path) {
    testbed::run_tool("chown", ["-R".as_ref(), "65534:65534".as_ref(), path.as_os_str()]);
}

fn nonsense_is_misuse() {
    let place = prepared(TREE);
    for flag in [
        "--chmod=rwx",
        "--chmod=",
        "--chmod=9",
        "--chmod=u=q",
        "--chown=",
        "--chown=:",
        "--chown=no-such-user",
        "--chown=0:no-such-group",
        "--link --chmod=600",
        "--link --chown=0",
    ] {
        let run = Program::new(env!("CARGO_BIN_EXE_uncopy")).arg("cp").args(flag.split(' '));
        let run = run.args(["s/f", "c"]).current_dir(place.path()).run();
        assert_eq!(run.status.code(), Some(2), "{flag}: {}", run.stderr);
        assert!(
            run.stderr.contains("write") || run.stderr.contains("--ch"),
            "{flag}: {}",
            run.stderr
        );
        assert!(!place.join("c").exists());
    }
}
