//! Conditions of copies on real filesystems, compared with the receipts of copies.

use std::fs::{File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use testbed::{Case, LONG, Mount, Need, Place, run_quietly, run_tool, seeded};
use uncopy::copy::{Allow, CopyOption, CopyOptions, Require, Verify, copy_file};
use uncopy::doctor::Severity::{self, Copies, Note, Unknown};
use uncopy::doctor::{CopyVerdict, Options, Report, Target, examine};
use uncopy::{Cost, Mechanism};

/// A multiple of every block size; large enough for direct writes.
const LENGTH: u64 = 2 << 20;

/// The files of one test.
pub(crate) struct Scene {
    pub(crate) source: PathBuf,
    pub(crate) destination: PathBuf,
    pub(crate) how: CopyOptions,
    mount: Option<Mount>,
    swap: Option<Swap>,
}

/// An active swap file.
struct Swap(PathBuf);

impl Swap {
    fn on(file: &Path) -> Swap {
        std::fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
        run_tool("mkswap", [file]);
        run_tool("swapon", [file]);
        Swap(file.to_owned())
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        run_quietly("swapoff", [&self.0]);
    }
}

impl Scene {
    fn fill(&self, length: u64) {
        std::fs::write(&self.source, seeded(1, 0, length)).unwrap();
        File::open(&self.source).unwrap().sync_all().unwrap();
    }

    fn examine(&self) -> Report {
        let target = Target::Copy {
            source: self.source.clone(),
            destination: self.destination.clone(),
            options: self.how.clone(),
        };
        let mut options = Options::default();
        options.settings.origins.insert(CopyOption::Verify, "the test".to_owned());
        examine(&target, &options).unwrap()
    }

    /// Copies, and compares the receipt with the prediction.
    fn copy(&self, report: &Report) {
        let copied = copy_file(&self.source, &self.destination, &self.how);
        let way = &report.facts.iter().find(|fact| fact.name == "way").unwrap().value;
        let Ok(outcome) = copied else {
            assert_eq!(report.verdict, CopyVerdict::Unknown, "{report:#?} {copied:?}");
            assert!(
                report.finding("no-mechanism").is_some() || report.finding("not-tried").is_some()
            );
            return;
        };
        let receipt = testbed::copied(outcome);
        let copied = receipt.bytes_at(Cost::KernelCopied) + receipt.bytes_at(Cost::UserCopied);
        match report.verdict {
            CopyVerdict::ZeroCopy => assert!(receipt.is_zero_copy(), "{report:#?} {receipt:?}"),
            CopyVerdict::Copied => assert!(copied > 0, "{report:#?} {receipt:?}"),
            _ => assert!(receipt.bytes_at(Cost::Unknown) > 0, "{report:#?} {receipt:?}"),
        }
        let used = Mechanism::ALL.iter().filter(|mechanism| receipt.bytes_by(**mechanism) > 0);
        for mechanism in used {
            assert!(way.contains(mechanism.name()), "{way}: {receipt:?}");
        }
    }
}

pub(crate) struct Row {
    pub(crate) name: &'static str,
    places: (Place, Place),
    expected: (&'static str, Severity, &'static str),
    create: fn(&mut Scene),
    remove: fn(&mut Scene),
    is_copied: bool,
}

impl Row {
    pub(crate) fn new(
        name: &'static str,
        places: (Place, Place),
        expected: (&'static str, Severity, &'static str),
    ) -> Row {
        let create = |scene: &mut Scene| scene.fill(LENGTH);
        Row { name, places, expected, create, remove: |_| (), is_copied: true }
    }

    pub(crate) fn create(mut self, create: fn(&mut Scene)) -> Row {
        self.create = create;
        self
    }

    pub(crate) fn remove(mut self, remove: fn(&mut Scene)) -> Row {
        self.remove = remove;
        self
    }

    pub(crate) fn uncopied(mut self) -> Row {
        self.is_copied = false;
        self
    }

    /// Returns its line in the book.
    fn line(&self) -> String {
        let (id, severity, _) = self.expected;
        let (from, to) = self.places;
        let shown = if self.is_copied { "the receipt of the copy" } else { "–" };
        format!("| {} | {from:?} to {to:?} | `{id}` | `{severity}` | {shown} |\n", self.name)
    }

    fn case(self, more: &[Need]) -> Case {
        let mut needs = vec![Need::At(self.places.0), Need::At(self.places.1)];
        needs.extend(more);
        let name = format!("files::{}", self.name.replace(' ', "_"));
        Case::new(name, &needs, move || self.run())
    }

    fn run(&self) {
        let (from, to) = (self.places.0.scratch(), self.places.1.scratch());
        let mut scene = Scene {
            source: from.path().join("source"),
            destination: to.path().join("destination"),
            how: CopyOptions::default(),
            mount: None,
            swap: None,
        };
        let (id, severity, evidence) = self.expected;
        (self.create)(&mut scene);
        let before = names(to.path());
        let report = scene.examine();
        // A FUSE server removes the hidden name of an open file later, when the file is released.
        let begin = Instant::now();
        while names(to.path()) != before {
            assert!(begin.elapsed() < LONG, "left behind: {:?}", names(to.path()));
        }
        let finding = report.finding(id);
        let finding = finding.unwrap_or_else(|| panic!("{id} is not found: {report:#?}"));
        assert_eq!(finding.severity, severity, "{finding:#?}");
        let found = finding.evidence.iter().any(|one| one.found.contains(evidence));
        assert!(found, "{evidence:?} is not in the evidence: {finding:#?}");
        if self.is_copied {
            scene.copy(&report);
        }
        (self.remove)(&mut scene);
        let report = scene.examine();
        assert!(report.finding(id).is_none(), "{id} is gone, and found: {report:#?}");
    }
}

fn names(directory: &Path) -> Vec<PathBuf> {
    let mut names: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names
}

/// Moves the files to a filesystem with reflinks.
fn to_xfs(scene: &mut Scene) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let directory = Place::Xfs.path().join(format!("moved-{number}"));
    std::fs::create_dir(&directory).unwrap();
    scene.source = directory.join("source");
    scene.destination = directory.join("destination");
    scene.how = CopyOptions::default();
    scene.fill(LENGTH);
}

fn plainly(scene: &mut Scene) {
    scene.how.allow = Allow::ReadWrite;
}

/// Lines of the book's table.
pub(crate) fn lines() -> String {
    let rows =
        [sharing(), unlike_others(), costs(), ways(), settings(), sources(), programs(), direct()];
    rows.iter().flatten().map(Row::line).collect()
}

pub(crate) fn cases() -> Vec<Case> {
    let rows = [sharing(), unlike_others(), costs(), ways(), settings(), sources()];
    let rows = rows.into_iter().flatten();
    let mut cases: Vec<Case> = rows.map(|row| row.case(&[Need::At(Place::Xfs)])).collect();
    cases.extend(programs().into_iter().map(|row| row.case(&[Need::Root, Need::Tool("bindfs")])));
    cases.extend(direct().into_iter().map(|row| row.case(&[Need::BareDevice])));
    cases
}

fn sharing() -> Vec<Row> {
    let btrfs = (Place::Btrfs, Place::Btrfs);
    vec![
        Row::new("no reflinks", (Place::Ext4, Place::Ext4), ("no-reflink", Note, "EOPNOTSUPP"))
            .remove(to_xfs),
        Row::new(
            "two filesystems",
            (Place::Ext4, Place::Tmpfs),
            ("cross-filesystem", Note, "EXDEV"),
        )
        .remove(to_xfs),
        Row::new(
            "two filesystems of one kind",
            (Place::Tmpfs, Place::OtherTmpfs),
            ("cross-filesystem", Note, "EXDEV"),
        )
        .remove(to_xfs),
        Row::new(
            "an overlay and its upper filesystem",
            (Place::Overlay, Place::OverlayUpper),
            ("cross-filesystem", Note, "EXDEV"),
        )
        .remove(to_xfs),
        Row::new(
            "shared on XFS",
            (Place::Xfs, Place::Xfs),
            ("blocks-shared", Note, "FICLONERANGE"),
        )
        .remove(plainly),
        Row::new(
            "shared through a bind mount",
            (Place::Xfs, Place::XfsBind),
            ("blocks-shared", Note, "it was shared"),
        )
        .remove(plainly),
        Row::new(
            "shared between subvolumes",
            (Place::Btrfs, Place::BtrfsSubvolume),
            ("blocks-shared", Note, "it was shared"),
        )
        .remove(plainly),
        Row::new("nodatacow on one side", btrfs, ("reflink-refused", Note, "EINVAL"))
            .create(|scene| {
                scene.fill(LENGTH);
                let directory = scene.destination.parent().unwrap();
                run_tool("chattr", ["+C".as_ref(), directory.as_os_str()]);
            })
            .remove(|scene| {
                let directory = scene.destination.parent().unwrap();
                run_tool("chattr", ["-C".as_ref(), directory.as_os_str()]);
                std::fs::remove_file(&scene.destination).unwrap();
            }),
    ]
}

/// Places beside which files are made that are not like the one that is copied, or written to.
fn unlike_others() -> Vec<Row> {
    let btrfs = (Place::Btrfs, Place::Btrfs);
    vec![
        Row::new(
            "a lower layer on another filesystem",
            (Place::Ext4, Place::Xfs),
            ("cross-filesystem", Note, "EXDEV"),
        )
        .create(|scene| {
            scene.fill(LENGTH);
            let [lower, to] = [&scene.source, &scene.destination].map(|p| p.parent().unwrap());
            let layers = ["upper", "work"].map(|name| to.join(name));
            layers.iter().for_each(|layer| std::fs::create_dir(layer).unwrap());
            let mount = Mount::overlay(lower, &layers[0], &layers[1]);
            scene.source = mount.path().join("source");
            scene.destination = mount.path().join("destination");
            scene.mount = Some(mount);
        })
        .remove(apart),
        Row::new(
            "a source that is mounted",
            (Place::Ext4, Place::Xfs),
            ("cross-filesystem", Note, "EXDEV"),
        )
        .create(|scene| {
            scene.fill(LENGTH);
            let over = scene.destination.with_file_name("mounted");
            File::create(&over).unwrap();
            scene.mount = Some(Mount::bind_file(&scene.source, &over));
            scene.source = over;
        })
        .remove(apart),
        Row::new("a source without copy-on-write", btrfs, ("reflink-refused", Note, "EINVAL"))
            .create(|scene| {
                no_copy_on_write(&scene.source);
                scene.fill(LENGTH);
            })
            .remove(to_xfs),
        Row::new("in place, without copy-on-write", btrfs, ("reflink-refused", Note, "EINVAL"))
            .create(|scene| {
                scene.fill(LENGTH);
                no_copy_on_write(&scene.destination);
                scene.how.in_place = true;
            })
            .remove(|scene| std::fs::remove_file(&scene.destination).unwrap()),
        Row::new(
            "in place, into a file that is mounted",
            (Place::Ext4, Place::Xfs),
            ("not-tried", Unknown, "another filesystem"),
        )
        .create(|scene| {
            scene.fill(LENGTH);
            let lies = scene.source.with_file_name("lies there");
            File::create(&lies).unwrap();
            File::create(&scene.destination).unwrap();
            scene.mount = Some(Mount::bind_file(&lies, &scene.destination));
            scene.how.in_place = true;
        })
        .remove(apart)
        .uncopied(),
        Row::new(
            "an active swap file",
            (Place::Xfs, Place::Xfs),
            ("kernel-copies", Copies, "splice of"),
        )
        .create(|scene| {
            scene.fill(LENGTH);
            scene.swap = Some(Swap::on(&scene.source));
        })
        .remove(|scene| scene.swap = None),
        Row::new("little space", (Place::Xfs, Place::Tmpfs), ("not-tried", Unknown, "ENOSPC"))
            .create(|scene| {
                scene.fill(20_000);
                let directory = scene.destination.parent().unwrap();
                let size = ["-t", "tmpfs", "-o", "size=32k", "tmpfs"].map(AsRef::as_ref);
                run_tool("mount", size.into_iter().chain([directory.as_os_str()]));
            })
            .remove(|scene| {
                run_tool("umount", [scene.destination.parent().unwrap()]);
                to_xfs(scene);
            })
            .uncopied(),
    ]
}

fn no_copy_on_write(path: &Path) {
    File::create(path).unwrap();
    run_tool("chattr", ["+C".as_ref(), path.as_os_str()]);
}

/// Moves the files out of what is mounted, and unmounts it.
fn apart(scene: &mut Scene) {
    to_xfs(scene);
    scene.mount = None;
}

fn costs() -> Vec<Row> {
    let ext4 = (Place::Ext4, Place::Ext4);
    vec![
        Row::new("the kernel copies", ext4, ("kernel-copies", Copies, "65536 bytes"))
            .remove(to_xfs),
        Row::new("the program copies", ext4, ("program-copies", Copies, "read_write of"))
            .create(|scene| scene.fill(100))
            .remove(to_xfs),
        Row::new("a setting refuses", ext4, ("setting-refuses", Note, "allow=read_write"))
            .create(|scene| {
                scene.fill(LENGTH);
                plainly(scene);
            })
            .remove(|scene| scene.how.allow = Allow::Any),
        Row::new("no allowed method works", ext4, ("no-mechanism", Unknown, "require: it copies"))
            .create(|scene| {
                scene.fill(LENGTH);
                scene.how.require = Require::ZeroCopy;
            })
            .remove(|scene| scene.how.require = Require::Nothing),
    ]
}

fn ways() -> Vec<Row> {
    let ext4 = (Place::Ext4, Place::Ext4);
    vec![
        Row::new(
            "direct writes above a loop device",
            ext4,
            ("direct-unknown", Unknown, "above a device that may copy"),
        )
        .create(|scene| {
            scene.fill(LENGTH);
            scene.how.allow = Allow::Only(Mechanism::Direct);
        })
        .remove(|scene| scene.how.allow = Allow::Any),
        Row::new(
            "direct writes to an overlay",
            (Place::Xfs, Place::Overlay),
            ("direct-unknown", Unknown, ", below overlayfs"),
        )
        .create(|scene| {
            scene.fill(LENGTH);
            scene.how.allow = Allow::Only(Mechanism::Direct);
        })
        .remove(|scene| scene.how.allow = Allow::Any),
        Row::new(
            "direct writes to tmpfs",
            (Place::Tmpfs, Place::Tmpfs),
            ("direct-copies", Note, "STATX_DIOALIGN gives none"),
        )
        .remove(to_xfs),
        Row::new(
            "direct writes to btrfs",
            (Place::Ext4, Place::Btrfs),
            ("direct-copies", Note, "it was copied"),
        )
        .remove(to_xfs),
        Row::new("no direct writes", (Place::Ext4, Place::Tmpfs), ("no-direct-io", Note, "EINVAL"))
            .create(|scene| {
                scene.fill(LENGTH);
                let directory = scene.destination.parent().unwrap();
                run_tool(
                    "mount",
                    ["-t".as_ref(), "ramfs".as_ref(), "ramfs".as_ref(), directory.as_os_str()],
                );
            })
            .remove(|scene| {
                run_tool("umount", [scene.destination.parent().unwrap()]);
                to_xfs(scene);
            }),
        Row::new(
            "too small for direct writes",
            ext4,
            ("direct-too-small", Note, "STATX_DIOALIGN gives"),
        )
        .create(|scene| scene.fill(128 << 10))
        .remove(|scene| scene.fill(LENGTH)),
    ]
}

/// Conditions of options and permissions.
fn settings() -> Vec<Row> {
    let ext4 = (Place::Ext4, Place::Ext4);
    vec![
        Row::new("verification", ext4, ("verification", Note, "the test"))
            .create(|scene| {
                scene.fill(LENGTH);
                scene.how.verify = Some(Verify::default());
            })
            .remove(|scene| scene.how.verify = None),
        Row::new("in place", ext4, ("in-place", Note, "options"))
            .create(|scene| {
                scene.fill(LENGTH);
                std::fs::write(&scene.destination, "old").unwrap();
                scene.how.in_place = true;
            })
            .remove(|scene| scene.how.in_place = false),
        Row::new("a directory that is not writable", ext4, ("not-tried", Unknown, "EPERM"))
            .create(|scene| {
                scene.fill(LENGTH);
                let directory = scene.destination.parent().unwrap();
                run_tool("chattr", ["+i".as_ref(), directory.as_os_str()]);
            })
            .remove(|scene| {
                let directory = scene.destination.parent().unwrap();
                run_tool("chattr", ["-i".as_ref(), directory.as_os_str()]);
            }),
    ]
}

fn sources() -> Vec<Row> {
    let ext4 = (Place::Ext4, Place::Ext4);
    vec![
        Row::new("empty", ext4, ("empty-file", Note, "0 bytes"))
            .create(|scene| scene.fill(0))
            .remove(|scene| scene.fill(LENGTH)),
        Row::new("small", ext4, ("small-file", Note, "100 bytes"))
            .create(|scene| scene.fill(100))
            .remove(|scene| scene.fill(LENGTH)),
        Row::new("not in the page cache", ext4, ("source-not-cached", Note, "0 of 2097152 bytes"))
            .create(|scene| {
                scene.fill(LENGTH);
                let file = File::open(&scene.source).unwrap();
                rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            })
            .remove(|scene| drop(std::fs::read(&scene.source).unwrap())),
        Row::new(
            "in the page cache, below an overlay",
            (Place::Overlay, Place::Ext4),
            ("source-cached", Note, "2097152 of 2097152 bytes"),
        )
        .remove(|scene| {
            let file = File::open(&scene.source).unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }),
        Row::new("in the page cache", ext4, ("source-cached", Note, "2097152 of 2097152 bytes"))
            .remove(|scene| {
                let file = File::open(&scene.source).unwrap();
                rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            }),
        Row::new("holes", ext4, ("holes", Note, "it has a hole"))
            .create(|scene| {
                let file = File::create(&scene.source).unwrap();
                file.set_len(LENGTH).unwrap();
                file.write_all_at(&[7; 4096], 0).unwrap();
            })
            .remove(|scene| scene.fill(LENGTH)),
        Row::new("one hole", ext4, ("holes", Note, "there is no data"))
            .create(|scene| File::create(&scene.source).unwrap().set_len(LENGTH).unwrap())
            .remove(|scene| scene.fill(LENGTH)),
        Row::new(
            "one hole, to another filesystem",
            (Place::Ext4, Place::Tmpfs),
            ("holes", Note, "there is no data"),
        )
        .create(|scene| File::create(&scene.source).unwrap().set_len(LENGTH).unwrap())
        .remove(|scene| scene.fill(LENGTH)),
        Row::new("a tail shorter than a block", ext4, ("unaligned-tail", Note, "2097153 bytes"))
            .create(|scene| scene.fill(LENGTH + 1))
            .remove(|scene| scene.fill(LENGTH)),
        Row::new("contents generated on reading", ext4, ("pseudo-file", Copies, "it lies on proc"))
            .create(|scene| scene.source = "/proc/version".into())
            .remove(to_xfs),
        Row::new(
            "destination is not a regular file",
            ext4,
            ("destination-is-stream", Copies, "its kind"),
        )
        .create(|scene| {
            scene.fill(LENGTH);
            scene.how.copy_contents = true;
            scene.destination = "/dev/null".into();
        })
        .remove(to_xfs),
        Row::new("a rotational disk", ext4, ("rotational", Note, "queue/rotational is 1"))
            .create(|scene| {
                scene.fill(LENGTH);
                set_rotational(&scene.source, true);
            })
            .remove(|scene| set_rotational(&scene.source, false)),
        Row::new("many small files", ext4, ("many-small-files", Note, "9 below 4 KiB (900 bytes)"))
            .create(|scene| {
                std::fs::create_dir_all(scene.source.join("below")).unwrap();
                for n in 0..9 {
                    std::fs::write(scene.source.join(format!("below/{n}")), [7; 100]).unwrap();
                }
            })
            .remove(|scene| {
                for n in 0..20 {
                    std::fs::write(scene.source.join(format!("{n}")), [7; 100_000]).unwrap();
                }
            })
            .uncopied(),
        Row::new("bytes in large files", ext4, ("bytes-in-large-files", Note, "1 below 64 MiB"))
            .create(|scene| {
                std::fs::create_dir(&scene.source).unwrap();
                std::fs::write(scene.source.join("large"), seeded(1, 0, LENGTH)).unwrap();
            })
            .remove(|scene| std::fs::write(scene.source.join("large"), "small").unwrap())
            .uncopied(),
    ]
}

/// Filesystems that programs serve.
fn programs() -> Vec<Row> {
    vec![
        Row::new(
            "FUSE",
            (Place::Ext4, Place::Ext4),
            ("fuse", Note, "the destination lies on fuse"),
        )
        .create(|scene| {
            scene.fill(LENGTH);
            let mount = Mount::fuse(scene.destination.parent().unwrap());
            scene.destination = mount.path().join("destination");
            scene.mount = Some(mount);
        })
        .remove(|scene| {
            scene.destination = scene.source.with_file_name("elsewhere");
            scene.mount = None;
        }),
    ]
}

/// Only directly on a disk it is known that no lower layer copies.
fn direct() -> Vec<Row> {
    let disk = (Place::Disk, Place::Disk);
    vec![
        Row::new("the disk reads the pages", disk, ("direct-moves", Note, "above a disk"))
            .create(|scene| {
                scene.fill(LENGTH);
                scene.how.durable = true;
            })
            .remove(|scene| scene.how.durable = false),
        Row::new(
            "the disk could read the pages",
            disk,
            ("direct-needs-durable", Note, "STATX_DIOALIGN gives"),
        )
        .remove(|scene| scene.how.durable = true),
    ]
}

/// Sets whether the file's block device reports that it is rotational.
fn set_rotational(path: &Path, spins: bool) {
    use std::os::unix::fs::MetadataExt;
    let device = std::fs::metadata(path).unwrap().dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let setting = format!("/sys/dev/block/{major}:{minor}/queue/rotational");
    std::fs::write(setting, if spins { "1" } else { "0" }).unwrap();
}
