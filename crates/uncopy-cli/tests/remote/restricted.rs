//! `uncopy serve --restrict DIR` and `--read-only`: nothing outside is touched or shown.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use testbed::{Case, Forbidden, Program, Run, SystemCall};
use uncopy::Errno;

use super::{Machines, UNCOPY, names_in, succeeded};

/// Two machines, of which the far one has a directory that a login is restricted to, and a secret beside it.
struct Restricted {
    machines: Machines,
    /// Contents and names of all that lies outside.
    before: Vec<std::ffi::OsString>,
}

impl Restricted {
    fn new() -> Restricted {
        let machines = Machines::new();
        let far = machines.far.path();
        fs::create_dir_all(far.join("only/d")).unwrap();
        fs::write(far.join("only/d/inside"), b"shown").unwrap();
        fs::create_dir(far.join("outside")).unwrap();
        fs::write(far.join("outside/secret"), b"hidden words").unwrap();
        symlink("../outside", far.join("only/leads-out")).unwrap();
        symlink(far.join("outside/secret"), far.join("only/secret")).unwrap();
        symlink("d", far.join("only/leads-in")).unwrap();
        fs::write(machines.near.join("a"), b"from near").unwrap();
        let before = names_in(&far.join("outside"));
        Restricted { machines, before }
    }

    fn cp(&self, flags: &str) -> Program {
        let only = self.machines.far.join("only");
        // Whatever the other end asks for, as `command=` of authorized_keys does.
        let line = format!("exec {UNCOPY} serve --stdio --restrict '{}' {flags}", only.display());
        self.machines.log_in_with(&line);
        self.machines.cp()
    }

    #[track_caller]
    fn check(&self, run: &Run) {
        let said = format!("{}{}", run.stdout, run.stderr);
        assert!(!said.contains("hidden words"), "{said}");
        let outside = self.machines.far.join("outside");
        assert_eq!(names_in(&outside), self.before, "{said}");
        assert_eq!(fs::read(outside.join("secret")).unwrap(), b"hidden words", "{said}");
    }

    #[track_caller]
    fn is_refused(&self, run: &Run) {
        assert!(matches!(run.status.code(), Some(1 | 2)), "{}{}", run.status, run.stderr);
        assert!(!run.stderr.trim().is_empty());
        self.check(run);
    }
}

fn paths_outside_are_not_shown() {
    let restricted = Restricted::new();
    let near = restricted.machines.near.path();
    let absolute = restricted.machines.far.join("outside");
    for path in [
        "../outside",
        "../outside/secret",
        "d/../../outside",
        "d/../d/inside",
        "leads-out/secret",
        "leads-out/",
        "leads-out/.",
        "secret",
        "/etc/passwd",
        "/",
        "..",
        &absolute.display().to_string(),
        &absolute.join("secret").display().to_string(),
    ] {
        for flags in [&["-r"][..], &["-rH"], &["-r", "--links=follow"], &[]] {
            // A link that is copied as one shows nothing but its name.
            if path == "secret" && flags == ["-r"] {
                continue;
            }
            for more in ["", "--read-only"] {
                let run =
                    restricted.cp(more).args(flags).arg(format!("far:{path}")).arg("stolen").run();
                restricted.is_refused(&run);
                assert!(!near.join("stolen").exists(), "{path} {flags:?}: {}", run.stderr);
            }
        }
    }
}

fn paths_inside_are_shown() {
    let restricted = Restricted::new();
    let near = restricted.machines.near.path();
    let absolute = restricted.machines.far.join("only/d/inside").display().to_string();
    for path in ["d/inside", "./d/inside", "leads-in/inside", &absolute] {
        let run = restricted.cp("--read-only").arg(format!("far:{path}")).arg("copy").run();
        succeeded(&run);
        restricted.check(&run);
        assert_eq!(fs::read(near.join("copy")).unwrap(), b"shown");
        fs::remove_file(near.join("copy")).unwrap();
    }
    let run = restricted.cp("").args(["-r", "far:", "whole"]).run();
    succeeded(&run);
    restricted.check(&run);
    assert_eq!(fs::read(near.join("whole/d/inside")).unwrap(), b"shown");
    assert_eq!(fs::read_link(near.join("whole/leads-out")).unwrap().to_str(), Some("../outside"));
}

fn nothing_outside_is_written() {
    let restricted = Restricted::new();
    let absolute = restricted.machines.far.join("outside").display().to_string();
    for path in [
        "../outside/new",
        "../new",
        "..",
        "d/../../outside/",
        "leads-out/new",
        "leads-out/",
        "leads-out",
        "secret",
        "/etc/uncopy-was-here",
        "/nonexistent/new",
        &absolute,
        &format!("{absolute}/secret"),
    ] {
        for flags in [&[][..], &["-f"], &["--remove-destination", "-r"]] {
            // The name itself is replaced, which lies inside.
            if path == "secret" && flags.contains(&"--remove-destination") {
                continue;
            }
            let run = restricted.cp("").args(flags).arg("a").arg(format!("far:{path}")).run();
            restricted.is_refused(&run);
        }
    }
    assert_eq!(names_in(&restricted.machines.far), ["only", "outside"]);
    let run = restricted.cp("").args(["a", "far:d"]).run();
    succeeded(&run);
    let only = restricted.machines.far.join("only");
    assert_eq!(fs::read(only.join("d/a")).unwrap(), b"from near");
    let run = restricted.cp("").arg("a").arg(format!("far:{}/b", only.display())).run();
    succeeded(&run);
    let run = restricted.cp("").args(["-r", "--delete", ".", "far:new"]).run();
    succeeded(&run);
    assert_eq!(fs::read(only.join("new/a")).unwrap(), b"from near");
    restricted.check(&run);
}

fn a_login_that_only_reads_writes_nothing() {
    let restricted = Restricted::new();
    let only = restricted.machines.far.join("only");
    let before = names_in(&only);
    for flags in [&[][..], &["-r"], &["-r", "--dry-run"]] {
        let run = restricted.cp("--read-only").args(flags).args(["a", "far:new"]).run();
        restricted.is_refused(&run);
        assert!(run.stderr.contains("may read and not write"), "{}", run.stderr);
    }
    assert_eq!(names_in(&only), before);
}

/// `--link-dest` prints and does the same for a file that is like one outside, and where nothing is.
fn earlier_copies_outside_are_no_earlier_copies() {
    let restricted = Restricted::new();
    let (near, far) = (restricted.machines.near.path(), restricted.machines.far.path());
    fs::create_dir(near.join("tree")).unwrap();
    fs::write(near.join("tree/secret"), "as long, now").unwrap();
    symlink("../outside", far.join("only/d/planted")).unwrap();
    let outside = far.join("outside").display().to_string();
    let link_dest = |flags: &[&str], earlier: &str, destination: &str| {
        let run = restricted
            .cp("")
            .args(flags)
            .args(["--link-dest", earlier, "tree/secret", "tree"])
            .arg(format!("far:{destination}"))
            .run();
        succeeded(&run);
        run
    };
    for flags in [&["-r", "--size-only"][..], &["-a", "--size-only"], &["-r", "--checksum"]] {
        // Directories beside the one that is copied to, beside the login, and absolute.
        for earlier in ["../../outside", "../d/planted", "../leads-out", &outside] {
            let _ = fs::remove_dir_all(far.join("only/new"));
            fs::create_dir(far.join("only/new")).unwrap();
            let run = link_dest(flags, earlier, "new");
            assert!(run.stderr.contains("does not exist"), "{flags:?} {earlier}: {}", run.stderr);
            assert!(!run.stderr.contains("EXDEV"), "{}", run.stderr);
            restricted.check(&run);
        }
    }
    fs::create_dir_all(far.join("only/mon/tree")).unwrap();
    fs::write(far.join("only/mon/tree/secret"), "as long, now").unwrap();
    fs::create_dir(far.join("only/tue")).unwrap();
    link_dest(&["-r", "--size-only"], "../mon", "tue");
    assert_eq!(fs::metadata(far.join("only/tue/tree/secret")).unwrap().nlink(), 2);
}

/// A refusal told whether a path outside exists, and what it is, through a link that the login itself had made.
fn a_refusal_does_not_depend_on_what_is_outside() {
    let restricted = Restricted::new();
    let (near, far) = (restricted.machines.near.path(), restricted.machines.far.path());
    let only = far.join("only");
    fs::create_dir(near.join("tree")).unwrap();
    fs::write(near.join("tree/z"), b"from near").unwrap();
    let absolute = |name: &str| far.join(name).display().to_string();
    let targets = [
        absolute("outside/secret"),
        absolute("outside/nothing"),
        absolute("outside"),
        absolute("nothing"),
        "../outside/secret".to_owned(),
        "../outside/nothing".to_owned(),
        "../outside".to_owned(),
        "../nothing".to_owned(),
        "/etc/shadow".to_owned(),
        "/etc/no such file".to_owned(),
        "d/chain".to_owned(),
        "d/no-chain".to_owned(),
    ];
    symlink("../../outside/secret", only.join("d/chain")).unwrap();
    symlink("../../nothing", only.join("d/no-chain")).unwrap();
    for (link, words) in [
        ("link", "a far:link"),
        ("link", "-n a far:link"),
        ("link", "-u a far:link"),
        ("link", "-f a far:link"),
        ("link", "-T a far:link"),
        ("link", "-b a far:link"),
        ("link", "--remove-destination a far:link"),
        ("link", "-r --dry-run a far:link"),
        ("link", "--resume a far:link"),
        ("link", "--json a far:link"),
        ("link", "a far:link/"),
        ("link", "a far:link/z"),
        ("link", "-n a far:link/z"),
        ("link", "-r tree far:link"),
        ("link", "-rT tree far:link/z"),
        ("link", "-r tree/. far:link/"),
        ("link", "-rT --remove-destination tree far:link/."),
        ("link", "-rT --dry-run -v --remove-destination tree far:link/."),
        ("link", "-rTu -v --remove-destination tree far:./link/./."),
        ("link", "-rT --backup=numbered tree far:link/."),
        ("d/a", "a far:d"),
        ("d/a", "-n a far:d"),
        ("d/tree", "-r a tree far:d"),
        ("link", "far:link got"),
        ("link", "-n far:link a"),
        ("link", "-rH far:link got"),
        ("link", "-r far:link/ got"),
        ("link", "-r far:link/. got"),
        ("link", "far:link/z got"),
        ("link", "-r --dry-run far:link/z got"),
        ("link", "doctor a far:link"),
        ("link", "doctor a far:link/z"),
        ("link", "doctor a far:link/z/z"),
        ("link", "doctor far:link got"),
    ] {
        let mut first: Option<String> = None;
        for target in &targets {
            let above = if link.contains('/') && !target.starts_with('/') { "../" } else { "" };
            symlink(format!("{above}{target}"), only.join(link)).unwrap();
            let run = match words.strip_prefix("doctor ") {
                None => restricted.cp("").args(words.split(' ')).run(),
                Some(operands) => {
                    restricted.cp("");
                    let doctor = Program::new(UNCOPY).arg("doctor").args(operands.split(' '));
                    let doctor = doctor.args(["--", "-e"]).arg(restricted.machines.shell());
                    doctor.args(["--remote-program", UNCOPY]).current_dir(near).run()
                }
            };
            let said = format!("{} {}{}", run.status, run.stdout, run.stderr);
            fs::remove_file(only.join(link)).unwrap();
            restricted.is_refused(&run);
            let is_named = said.contains("leads out of the directory that this login may use");
            assert!(is_named, "{words} {target}: {said}");
            let expected = first.get_or_insert_with(|| said.clone());
            assert_eq!(*expected, said, "{words} {target}");
            assert!(!near.join("got").exists(), "{words} {target}");
        }
    }
    assert_eq!(fs::read(near.join("a")).unwrap(), b"from near");
}

/// With `-T` it was refused as a path that leads out.
fn a_tree_is_merged_into_the_directory_itself() {
    let restricted = Restricted::new();
    let (near, far) = (restricted.machines.near.path(), restricted.machines.far.path());
    let only = far.join("only");
    fs::create_dir_all(near.join("tree/d")).unwrap();
    symlink(".", only.join("itself")).unwrap();
    let absolute = only.display().to_string();
    for destination in
        ["", ".", "./", "d/.", "itself/", "itself/.", &absolute, &format!("{absolute}/")]
    {
        let at = only.join(if destination.starts_with('d') { "d" } else { "" });
        for flags in [
            &["-aT", "tree"][..],
            &["-rT", "tree"],
            &["-rT", "--backup=numbered", "tree"],
            &["-rT", "--remove-destination", "tree"],
            &["-rT", "--dry-run", "tree"],
            &["-r", "tree/."],
        ] {
            fs::write(near.join("tree/new"), b"from near").unwrap();
            let run = restricted.cp("").args(flags).arg(format!("far:{destination}")).run();
            succeeded(&run);
            restricted.check(&run);
            let is_there = !flags.contains(&"--dry-run");
            assert_eq!(at.join("new").exists(), is_there, "{flags:?} {destination}");
            let _ = fs::remove_file(at.join("new"));
            let _ = fs::remove_file(at.join("new.~1~"));
        }
        let run = restricted.cp("").args(["-T", "a"]).arg(format!("far:{destination}")).run();
        restricted.is_refused(&run);
        assert!(run.stderr.contains("it is a directory"), "{destination}: {}", run.stderr);
    }
    let run = restricted.cp("").args(["-aT", "tree", "far:itself"]).run();
    restricted.is_refused(&run);
    assert!(run.stderr.contains("symbolic link, which is not followed"), "{}", run.stderr);
    let run = restricted.cp("").args(["-aT", "--delete", "tree", "far:"]).run();
    succeeded(&run);
    restricted.check(&run);
    assert_eq!(names_in(&only), ["d", "new"]);
}

/// It was an `EACCES` of a path that is none.
fn a_journal_beside_the_directory_is_refused() {
    let restricted = Restricted::new();
    let (near, only) = (restricted.machines.near.path(), restricted.machines.far.join("only"));
    fs::create_dir_all(near.join("tree")).unwrap();
    fs::write(near.join("tree/new"), b"from near").unwrap();
    let absolute = only.display().to_string();
    for (flags, destination) in [
        (&["-a", "tree/."][..], ""),
        (&["-a", "tree/."], &absolute),
        (&["-aT", "tree"], "."),
        (&["-aT", "tree"], "./"),
    ] {
        for form in ["--verbose", "--json", "--audit=log"] {
            let cp = restricted.cp("").args([form, "--resume"]).args(flags);
            let run = cp.arg(format!("far:{destination}")).run();
            restricted.is_refused(&run);
            let message = run.failed(1);
            for part in ["journal of --resume would lie beside", "leave out --resume, or name"] {
                assert!(message.contains(part), "{flags:?} {form}: {message}");
            }
            assert!(!message.contains("EACCES"), "{message}");
            if form == "--json" {
                assert_eq!(run.receipts().pop().unwrap().value()["kind"], "refused");
            }
        }
        assert!(fs::read_to_string(near.join("log")).unwrap().contains("\"refused\""));
        fs::remove_file(near.join("log")).unwrap();
        assert!(!only.join("new").exists());
    }
    for destination in ["", "d", "fresh"] {
        let run = restricted.cp("").args(["-a", "--resume", "tree"]);
        succeeded(&run.arg(format!("far:{destination}")).run());
    }
    assert_eq!(fs::read(only.join("fresh/new")).unwrap(), b"from near");
    // A link to it that is replaced has no journal.
    fs::write(near.join("itself"), b"from near").unwrap();
    symlink(".", only.join("itself")).unwrap();
    let run = restricted.cp("").args(["--resume", "-r", "--remove-destination", "itself"]);
    succeeded(&run.arg("far:.").run());
    assert_eq!(fs::read(only.join("itself")).unwrap(), b"from near");
    assert_eq!(names_in(&restricted.machines.far), ["only", "outside"]);
}

fn a_kernel_that_cannot_confine_is_no_place_for_a_restriction() {
    let restricted = Restricted::new();
    let without = [Forbidden::Call(SystemCall::LANDLOCK_CREATE_RULESET)];
    let cp = || restricted.cp("").forbidding(&without, Errno::ENOSYS);
    for (from, to) in [("far:d/inside", "got"), ("a", "far:d/new")] {
        let run = cp().args([from, to]).run();
        assert!(run.failed(1).contains("no Landlock to confine"), "{from}: {}", run.stderr);
    }
    assert!(!restricted.machines.near.join("got").exists());
    assert_eq!(names_in(&restricted.machines.far.join("only/d")), ["inside"]);
}

/// Also by a name in a directory that lies inside, and as the end of a link that the options replace.
fn links_that_lead_out_are_not_written_through() {
    let restricted = Restricted::new();
    let far = restricted.machines.far.path();
    symlink(far.join("outside/secret"), far.join("only/d/a")).unwrap();
    symlink("inside", far.join("only/d/b")).unwrap();
    restricted.is_refused(&restricted.cp("").args(["a", "far:d"]).run());
    restricted.is_refused(&restricted.cp("").args(["-r", "a", "far:d"]).run());
    fs::write(restricted.machines.near.join("b"), b"through").unwrap();
    let run = restricted.cp("").args(["b", "far:d"]).run();
    succeeded(&run);
    assert_eq!(fs::read(far.join("only/d/inside")).unwrap(), b"through");
    for (destination, flags) in [("d", &[][..]), ("secret", &["-T"])] {
        let run = restricted.cp("").args(["--remove-destination", "a"]).args(flags);
        let run = run.arg(format!("far:{destination}")).run();
        succeeded(&run);
        restricted.check(&run);
    }
    assert_eq!(fs::read(far.join("only/d/a")).unwrap(), b"from near");
    assert_eq!(fs::read(far.join("only/secret")).unwrap(), b"from near");
}

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] paths_outside_are_not_shown,
        [] paths_inside_are_shown,
        [] nothing_outside_is_written,
        [] a_login_that_only_reads_writes_nothing,
        [] earlier_copies_outside_are_no_earlier_copies,
        [] links_that_lead_out_are_not_written_through,
        [] a_refusal_does_not_depend_on_what_is_outside,
        [] a_tree_is_merged_into_the_directory_itself,
        [] a_journal_beside_the_directory_is_refused,
        [] a_kernel_that_cannot_confine_is_no_place_for_a_restriction,
    ]
}
