//! Links that somebody planted where everybody may make one: followed, as the last component of a
//! path or of another link's target, only if they belong to the follower or to the directory's owner
//! (`fs.protected_symlinks` in proc_sys_fs(5)), whatever the system is set to.

use std::fs;
use std::os::unix::fs::{chown, lchown, symlink};
use std::path::{Path, PathBuf};

use testbed::{Case, Need, Place, Program, Run, Scratch};

use crate::both::metadata::set_mode;
use crate::cp::{NOBODY, cp, cp_as_nobody};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Root] a_planted_link_is_followed_by_its_owner_and_for_the_directorys_alone,
        [Need::Root] each_link_of_a_chain_counts,
        [Need::Root] links_before_the_last_component_are_resolved,
        [Need::Root] what_a_refusal_says,
        [Need::Root] one_in_a_usual_place_of_settings_is_a_warning,
        [Need::Root] a_link_that_leads_round_in_circles_ends,
        [Need::Root, Need::Tool("unshare")] owners_that_a_user_namespace_does_not_know_are_strangers,
    ]
}

const DIRECTORY_OWNER: u32 = 1001;
const THIRD: u32 = 1002;

/// A directory with links in it, and what they lead to beside it.
struct Scene {
    root: Scratch,
}

impl Scene {
    /// The directory has this mode, the links this owner.
    fn new(mode: u32, owner: u32) -> Scene {
        let root = Place::Tmpfs.scratch();
        set_mode(root.path(), 0o777);
        let scene = Scene { root };
        for directory in ["shared", "open", "tree", "tree/sub", "tree/shared", "other", "hidden"] {
            fs::create_dir(scene.at(directory)).unwrap();
            set_mode(&scene.at(directory), 0o777);
        }
        for (name, contents) in [
            ("source", "new"),
            ("second", "newer"),
            ("target", "old"),
            ("hidden/secret", "secret"),
            ("tree/sub/file", "leaf"),
            ("settings", "verify = 'sha256'\n"),
            ("names", "sub\n"),
        ] {
            scene.write(name, contents);
        }
        scene.write("log", "");
        for (name, leads) in [
            ("shared/file", "../target"),
            ("shared/directory", "../open"),
            ("shared/source", "../source"),
            ("shared/tree", "../tree"),
            ("shared/log", "../log"),
            ("shared/settings", "../settings"),
            ("shared/hidden", "../hidden"),
            ("tree/shared/leaf", "../sub/file"),
        ] {
            scene.link(name, leads, owner);
        }
        for shared in ["shared", "tree/shared"].map(|name| scene.at(name)) {
            chown(&shared, Some(DIRECTORY_OWNER), None).unwrap();
            set_mode(&shared, mode);
        }
        scene
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn write(&self, name: &str, contents: &str) {
        fs::write(self.at(name), contents).unwrap();
        set_mode(&self.at(name), 0o666);
    }

    fn link(&self, name: &str, leads: &str, owner: u32) {
        symlink(leads, self.at(name)).unwrap();
        lchown(self.at(name), Some(owner), Some(owner)).unwrap();
    }

    fn run(&self, program: Program, words: &str) -> Run {
        program.args(words.split(' ')).current_dir(self.root.path()).run()
    }

    fn has(&self, name: &str, contents: &str) -> bool {
        fs::read_to_string(self.at(name)).is_ok_and(|found| found == contents)
    }
}

/// A check that a form did what was requested.
type Sign = fn(&Scene) -> bool;

/// Every form that follows a link at the end of a path that the user names, with the exit code of its
/// refusal.
const FORMS: &[(&str, Sign, i32)] = &[
    ("source shared/file", |s| s.has("target", "new"), 1),
    ("-T source shared/file", |s| s.has("target", "new"), 1),
    ("-f source shared/file", |s| s.has("target", "new"), 1),
    ("-p source shared/file", |s| s.has("target", "new"), 1),
    ("--durable source shared/file", |s| s.has("target", "new"), 1),
    ("--in-place source shared/file", |s| s.has("target", "new"), 1),
    ("--verify source shared/file", |s| s.has("target", "new"), 1),
    ("-r source shared/file", |s| s.has("target", "new"), 1),
    ("-rT source shared/file", |s| s.has("target", "new"), 1),
    ("-rT --resume source shared/file", |s| s.has("target", "new"), 1),
    ("source shared/directory", |s| s.has("open/source", "new"), 1),
    ("source shared/directory/", |s| s.has("open/source", "new"), 1),
    ("source shared/directory/name", |s| s.has("open/name", "new"), 1),
    ("-t shared/directory source", |s| s.has("open/source", "new"), 1),
    ("-t shared/directory/ source", |s| s.has("open/source", "new"), 1),
    ("-f -t shared/directory source", |s| s.has("open/source", "new"), 1),
    ("--durable -t shared/directory source", |s| s.has("open/source", "new"), 1),
    ("source second shared/directory", |s| s.has("open/second", "newer"), 1),
    ("-r tree shared/directory", |s| s.has("open/tree/sub/file", "leaf"), 1),
    ("-rT tree shared/directory/", |s| s.has("open/sub/file", "leaf"), 1),
    ("-rT tree shared/directory/new", |s| s.has("open/new/sub/file", "leaf"), 1),
    ("-rT --resume tree shared/directory/", |s| s.has("open/sub/file", "leaf"), 1),
    ("-rT --resume tree shared/directory/new", |s| s.has("open/new/sub/file", "leaf"), 1),
    ("-r --dry-run tree shared/directory", |s| !s.at("open/tree").exists(), 1),
    ("-rt shared/directory tree", |s| s.has("open/tree/sub/file", "leaf"), 1),
    ("shared/source out", |s| s.has("out", "new"), 1),
    ("--verify shared/source out", |s| s.has("out", "new"), 1),
    ("shared/source second other", |s| s.has("other/source", "new"), 1),
    ("-r --links=follow shared/source out", |s| s.has("out", "new"), 1),
    ("-rT --links=follow shared/tree out", |s| s.has("out/sub/file", "leaf"), 1),
    ("-rT shared/tree/ out", |s| s.has("out/sub/file", "leaf"), 1),
    ("-rT --links=follow tree out", |s| s.has("out/shared/leaf", "leaf"), 1),
    ("-rT --links=follow --follow-outside shared out", |s| s.has("out/hidden/secret", "secret"), 1),
    // To the kernel such a link is no last component.
    ("-t shared/directory/./ source", |s| s.has("open/source", "new"), 1),
    ("--parents source shared/directory/.", |s| s.has("open/source", "new"), 2),
    ("-r tree shared/directory/.", |s| s.has("open/tree/sub/file", "leaf"), 1),
    ("-rT tree shared/directory/.", |s| s.has("open/sub/file", "leaf"), 1),
    ("-rT --delete tree shared/directory/./", |s| s.has("open/sub/file", "leaf"), 1),
    ("-r --files-from names tree shared/directory/.", |s| s.has("open/sub/file", "leaf"), 2),
    ("-r shared/tree/. out", |s| s.has("out/sub/file", "leaf"), 1),
    ("-r shared/tree/.//. out", |s| s.has("out/sub/file", "leaf"), 1),
    ("-r shared/tree/. second other", |s| s.has("other/sub/file", "leaf"), 1),
    ("--audit shared/log source out", |s| s.has("out", "new"), 1),
    ("--config shared/settings source out", |s| s.has("out", "new"), 2),
];

/// Programs that follow the link, and their user ids.
fn followers() -> [(fn() -> Program, u32); 2] {
    [(cp, 0), (cp_as_nobody, NOBODY)]
}

fn a_planted_link_is_followed_by_its_owner_and_for_the_directorys_alone() {
    for (words, sign, code) in FORMS {
        for (program, follower) in followers() {
            for (mode, owner) in [
                (0o1777, follower),
                (0o1777, DIRECTORY_OWNER),
                (0o1777, THIRD),
                (0o777, THIRD),
                (0o1775, THIRD),
            ] {
                let scene = Scene::new(mode, owner);
                let run = scene.run(program(), words);
                let refused = mode == 0o1777 && owner == THIRD;
                let context =
                    format!("{words}: {follower} over a link of {owner} in {mode:o}: {run:?}");
                if refused {
                    assert_eq!(run.status.code(), Some(*code), "{context}");
                    assert!(run.stderr.contains("user 1002"), "{context}");
                    assert!(run.stderr.contains("EACCES"), "{context}");
                    assert!(scene.has("target", "old"), "{context}");
                    assert!(is_empty(&scene.at("open")), "{context}");
                    assert!(scene.has("log", ""), "{context}");
                    assert!(!scene.at("out/hidden/secret").exists(), "{context}");
                    assert!(!scene.at("out/shared/leaf").exists(), "{context}");
                    assert!(!scene.has("out", "new"), "{context}");
                    assert!(!scene.has("other/source", "new"), "{context}");
                } else {
                    assert!(run.status.success(), "{context}");
                    assert!(sign(&scene), "{context}");
                }
            }
        }
    }
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

/// A link of one's own does not vouch for the one that it leads to.
fn each_link_of_a_chain_counts() {
    for (words, sign) in [
        ("source chain", (|s| s.has("target", "new")) as Sign),
        ("-r source chain", |s| s.has("target", "new")),
        ("--in-place source chain", |s| s.has("target", "new")),
        ("-t chain_to_directory source", |s| s.has("open/source", "new")),
        ("chain_to_source out", |s| s.has("out", "new")),
        ("--audit chain_to_log source out", |s| s.has("out", "new")),
    ] {
        for owner in [0, THIRD] {
            let scene = Scene::new(0o1777, owner);
            for (name, leads) in [
                ("chain", "hop"),
                ("hop", "other/../shared/file"),
                ("chain_to_directory", "shared/directory"),
                ("chain_to_source", "shared/source"),
                ("chain_to_log", "shared/log"),
            ] {
                scene.link(name, leads, 0);
            }
            let run = scene.run(cp(), words);
            if owner == 0 {
                assert!(run.status.success() && sign(&scene), "{words}: {run:?}");
            } else {
                assert!(run.failed(1).contains("user 1002"), "{words}: {run:?}");
                assert!(!sign(&scene), "{words}: {run:?}");
            }
        }
    }
}

/// `may_follow_link` is asked for links at the end alone (`pick_link` in `fs/namei.c`).
fn links_before_the_last_component_are_resolved() {
    for (words, sign) in [
        ("shared/hidden/secret out", (|s| s.has("out", "secret")) as Sign),
        ("-r shared/hidden/secret out", |s| s.has("out", "secret")),
        ("-rT shared/tree/sub out", |s| s.has("out/file", "leaf")),
        ("source shared/tree/sub/new", |s| s.has("tree/sub/new", "new")),
        ("-t shared/tree/sub source", |s| s.has("tree/sub/source", "new")),
    ] {
        let scene = Scene::new(0o1777, THIRD);
        let run = scene.run(cp(), words);
        assert!(run.status.success() && sign(&scene), "{words}: {run:?}");
    }
}

fn what_a_refusal_says() {
    let scene = Scene::new(0o1777, THIRD);
    for (words, said) in [
        ("source shared/file", "cannot write to shared/file: shared/file is a symbolic link"),
        ("shared/source out", "cannot open shared/source: shared/source is a symbolic link"),
        ("-r source shared/file", "shared/file is a symbolic link"),
        ("-r shared/tree/. out", "cannot open shared/tree/.: shared/tree is a symbolic link"),
        ("-t shared/directory source", "cannot copy into shared/directory: shared/directory is"),
        ("--audit shared/log source out", "cannot begin the audit log shared/log: shared/log is"),
    ] {
        let run = scene.run(cp(), words);
        let message = run.failed(1);
        for part in [
            said,
            "a symbolic link of user 1002 in a sticky directory that everybody may write to",
            "and is not followed (EACCES); name ",
        ] {
            assert!(message.contains(part), "{words}, {part}: {message}");
        }
    }
    let run = scene.run(cp(), "source shared/file");
    assert!(run.stderr.ends_with("name what it leads to, or have the link removed\n"), "{run:?}");
    let event = run.receipts()[0].value().clone();
    assert_eq!((&event["kind"], &event["errno_name"]), (&"refused".into(), &"EACCES".into()));
}

/// As any file there that may not be read; one that a variable names is the end.
fn one_in_a_usual_place_of_settings_is_a_warning() {
    for name in ["config.toml", "tuned.toml"] {
        let scene = Scene::new(0o1777, THIRD);
        fs::create_dir(scene.at("usual")).unwrap();
        scene.link("usual/uncopy", "../shared", 0);
        scene.link(&format!("shared/{name}"), "../settings", THIRD);
        let usual = cp().env("XDG_CONFIG_HOME", scene.at("usual"));
        let run = scene.run(usual.clone(), "--quiet source out");
        assert!(run.status.success() && scene.has("out", "new"), "{name}: {run:?}");
        let warnings: Vec<_> = run.stderr.lines().filter(|l| l.contains("warning: ")).collect();
        assert!(warnings.len() == 1 && warnings[0].contains("user 1002"), "{name}: {run:?}");
        assert_eq!(run.receipts()[0].value()["verified"], false, "{name}: the settings hold");
        let named = usual.env("UNCOPY_CONFIG", scene.at("shared/settings"));
        assert!(scene.run(named, "source again").failed(2).contains("user 1002"));
        assert!(!scene.at("again").exists());
    }
}

fn a_link_that_leads_round_in_circles_ends() {
    let scene = Scene::new(0o1777, 0);
    scene.link("one", "two", 0);
    scene.link("two", "one", 0);
    for words in
        ["source one", "one out", "-r source one", "-t one source", "--audit one source out"]
    {
        let run = scene.run(cp(), words);
        assert!(run.failed(1).contains("ELOOP"), "{words}: {}", run.stderr);
    }
    // As many as the kernel follows are followed.
    scene.link("link0", "target", 0);
    for number in 1..40 {
        scene.link(&format!("link{number}"), &format!("link{}", number - 1), 0);
    }
    let run = scene.run(cp(), "source link39");
    assert!(run.status.success() && scene.has("target", "new"), "{run:?}");
    scene.link("link40", "link39", 0);
    assert!(scene.run(cp(), "source link40").failed(1).contains("ELOOP"));
}

/// Both the directory's owner and the link's are shown as one that nobody has.
fn owners_that_a_user_namespace_does_not_know_are_strangers() {
    let scene = Scene::new(0o1777, THIRD);
    let program = cp().through(["unshare", "--user", "--map-root-user"]);
    for words in ["source shared/file", "shared/source out"] {
        let run = scene.run(program.clone(), words);
        assert!(run.failed(1).contains("is a symbolic link"), "{words}: {}", run.stderr);
    }
    assert!(scene.has("target", "old"));
}
