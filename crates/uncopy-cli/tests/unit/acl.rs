//! Modes and ACLs of new trees below directories with a default ACL or setgid: units and `cp` make what `mkdir` and
//! `chmod` would.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use testbed::{Case, Need, Place, Scratch, run_tool};

use crate::remote::Machines;

use super::work::{of_unit, uncopy};

pub(super) fn cases() -> Vec<Case> {
    const NEEDS: &[Need] = &[
        Need::Tool("setfacl"),
        Need::Tool("getfacl"),
        Need::Tool("setfattr"),
        Need::Tool("find"),
        Need::Tool("perl"),
    ];
    PARENTS
        .iter()
        .map(|parent| {
            let name = format!("unit::acl::new_entries_below::{}", parent.name);
            Case::new(name, NEEDS, move || new_entries_below(*parent))
        })
        .collect()
}

/// Directory that something is made in.
#[derive(Debug, Clone, Copy)]
struct Parent {
    name: &'static str,
    default: Option<&'static str>,
    mode: u32,
}

const PARENTS: [Parent; 5] = {
    const fn parent(name: &'static str, default: Option<&'static str>, mode: u32) -> Parent {
        Parent { name, default, mode }
    }
    [
        parent("plain", None, 0o755),
        parent("setgid", None, 0o2775),
        parent("default_acl", Some("u::rwx,u:7:rwx,g::r-x,m::rwx,o::---"), 0o755),
        parent("default_acl_and_setgid", Some("u::rwx,g:7:r-x,g::rwx,m::r-x,o::r-x"), 0o2775),
        parent("default_acl_without_names", Some("u::rwx,g::r-x,o::r--"), 0o755),
    ]
};

type Flags = &'static [&'static str];

/// Paths, and what chmod(1) changes there.
type Changes = &'static [(&'static str, &'static str)];

/// Flags, and the changes of directories and of files that they ask for.
const CHANGES: &[(Flags, Changes)] = &[
    (&[], &[]),
    (&["--chmod=Du+w"], &[("d", "u+w")]),
    (&["--chmod=D750"], &[("d", "750")]),
    (&["--chmod=Dg-w,o+x"], &[("d", "g-w,o+x"), ("f", "o+x")]),
    (&["--chmod=D2711,F600"], &[("d", "2711"), ("f", "600")]),
    (&["--chmod=g=u"], &[("d", "g=u"), ("f", "g=u")]),
];

/// Ways to make a new tree, with the name that it gets in the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The root is new.
    Copy,
    /// The root is there, as the source's, and what is in it is new.
    CopyInto,
    Units,
    UnitsInto,
    /// The source is on another machine.
    Pull,
    /// The destination is.
    Push,
}

impl Form {
    fn is_into(self) -> bool {
        matches!(self, Form::CopyInto | Form::UnitsInto)
    }
}

const FORMS: [Form; 6] =
    [Form::Copy, Form::CopyInto, Form::Units, Form::UnitsInto, Form::Pull, Form::Push];

fn fill(source: &Path) {
    for (name, mode) in [("", 0o775), ("a", 0o777), ("a/b", 0o1770), ("c", 0o755), ("named", 0o750)]
    {
        let path = source.join(name);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("f"), "bytes").unwrap();
        fs::set_permissions(path.join("f"), Permissions::from_mode(mode & 0o666 | 0o100)).unwrap();
    }
    for (acl, name) in [("u:9:rwx,g:8:r", "named"), ("u:9:rw", "named/f"), ("d:u:9:rwx", "named")] {
        run_tool("setfacl", ["-m", acl, source.join(name).to_str().unwrap()]);
    }
    for (name, mode) in [("", 0o775), ("a", 0o777), ("a/b", 0o1770), ("c", 0o755)] {
        fs::set_permissions(source.join(name), Permissions::from_mode(mode)).unwrap();
    }
}

/// Modes and ACLs of all entries but the ledger.
fn acls(root: &Path) -> String {
    let below =
        |path: &Path| run_tool("sh", ["-c", "cd \"$0\" && getfacl -Rn .", path.to_str().unwrap()]);
    let all = below(root);
    let entries = all.split("\n\n").filter(|entry| !entry.contains(".uncopy-ledger"));
    let mut entries: Vec<&str> = entries.map(str::trim).collect();
    entries.sort_unstable();
    entries.join("\n\n")
}

fn shell(script: &str, words: &[&Path]) {
    let words = words.iter().map(|word| word.to_str().unwrap());
    run_tool("sh", ["-ec", script, "sh"].into_iter().chain(words));
}

const UMASK: &str = "027";

/// Makes the names by the calls that the kernel decides about: the umask counts where there is no default ACL.
const CREATE: &str = r#"
use Fcntl;
umask 027;
my ($source, $copy) = @ARGV;
chdir $source or die;
for my $name (split /\n/, `find .`) {
    my $mode = (stat $name)[2];
    if (-d _) {
        mkdir $name eq "." ? $copy : "$copy/$name", $mode & 01777;
    } else {
        sysopen(my $file, "$copy/$name", O_CREAT | O_EXCL | O_WRONLY, $mode & 0777) or die;
    }
}"#;

/// Makes the tree by what everybody has.
fn expected(form: Form, scratch: &Scratch) {
    let into = scratch.join("parent/expected");
    if form.is_into() {
        fs::create_dir(&into).unwrap();
    }
    let source = scratch.join("source");
    run_tool("perl", ["-e", CREATE, source.to_str().unwrap(), into.to_str().unwrap()]);
}

fn make(form: Form, scratch: &Scratch, flags: &[&str]) {
    let (source, into) = (scratch.join("source"), scratch.join("parent/made"));
    if form.is_into() {
        fs::create_dir(&into).unwrap();
    }
    if !matches!(form, Form::Units | Form::UnitsInto) {
        let machines = Machines::new();
        let far = |path: &Path, is_far| match is_far {
            true => format!("far:{}", path.display()),
            false => path.display().to_string(),
        };
        let copy = machines
            .cp()
            .arg("-rT")
            .args(flags)
            .arg(far(&source, form == Form::Pull))
            .arg(far(&into, form == Form::Push));
        let run = copy.with_umask(UMASK).run();
        assert!(run.status.success(), "{}", run.stderr);
        return;
    }
    let plan = scratch.join("plan");
    let run = uncopy()
        .args(["unit", "plan", "--files=3", "--out"])
        .args([&plan])
        .args(flags)
        .args([&source, &into])
        .run();
    assert!(run.status.success(), "{}", run.stderr);
    let mut units: Vec<_> =
        fs::read_dir(plan.join("units")).unwrap().map(|unit| unit.unwrap().path()).collect();
    units.sort();
    for unit in units {
        let run = of_unit(&unit).with_umask(UMASK).run();
        assert!(run.status.success(), "{}", run.stderr);
    }
    fs::remove_dir_all(plan).unwrap();
}

fn new_entries_below(parent: Parent) {
    let scratch = Place::Disk.scratch();
    let (source, above) = (scratch.join("source"), scratch.join("parent"));
    fill(&source);
    fs::create_dir(&above).unwrap();
    fs::set_permissions(&above, Permissions::from_mode(parent.mode)).unwrap();
    if let Some(default) = parent.default {
        run_tool("setfacl", ["-d", "-m", default, above.to_str().unwrap()]);
    }
    for form in FORMS {
        for (flags, changes) in CHANGES {
            expected(form, &scratch);
            for (kind, change) in *changes {
                // The root that was there is a directory of the copy, too.
                let find = format!("find \"$1\" -depth -type {kind} -exec chmod {change} {{}} +");
                shell(&format!("umask {UMASK}; {find}"), &[&above.join("expected")]);
            }
            compare(form, &scratch, flags);
        }
        expected(form, &scratch);
        give_acls(form, &scratch, parent);
        compare(form, &scratch, &["--preserve=acl"]);
    }
}

/// Gives each entry of the expected tree the ACL of its source below the mode of the source, without what the umask takes.
/// A directory that was there keeps its mode, unless its source has a list.
fn give_acls(form: Form, scratch: &Scratch, parent: Parent) {
    let script = format!(
        "cd \"$1\"
        find . -depth | while read -r name; do
            for kind in access default; do
                setfattr -x system.posix_acl_$kind \"$2/$name\" 2>/dev/null || :
            done
            if [ \"$name\" = . ] && {}; then continue; fi
            getfacl -n \"$name\" 2>/dev/null | setfacl --set-file=- \"$2/$name\"
            mode=$((0$(stat -c %a \"$name\") & 01777 & ~0{}))
            if [ -d \"$name\" ]; then mode=$((mode | 0{:o} & 02000)); fi
            chmod 00000 \"$2/$name\"
            chmod $(printf %05o $mode) \"$2/$name\"
        done",
        form.is_into(),
        UMASK,
        parent.mode,
    );
    shell(&script, &[&scratch.join("source"), &scratch.join("parent/expected")]);
}

/// Makes the tree, and compares it with the expected one. Both are removed.
fn compare(form: Form, scratch: &Scratch, flags: &[&str]) {
    let parent = scratch.join("parent");
    make(form, scratch, flags);
    let (expected, made) = (acls(&parent.join("expected")), acls(&parent.join("made")));
    for (expected, made) in expected.split("\n\n").zip(made.split("\n\n")) {
        assert_eq!(made, expected, "{form:?} {flags:?}");
    }
    assert_eq!(made, expected, "{form:?} {flags:?}");
    for name in ["expected", "made"] {
        fs::remove_dir_all(parent.join(name)).unwrap();
    }
}
