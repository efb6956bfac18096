//! Generated trees, merged, updated and mirrored by uncopy and by `rsync(1)`: the results are the same,
//! entry by entry.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use testbed::{
    Case, Compared, Need, Place, Program, Scratch, assert_same_tree, by_extent, run_tool,
};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Tool("rsync")] merged_trees_are_those_of_rsync,
        [Need::Tool("rsync")] updated_trees_are_those_of_rsync,
        [Need::Tool("rsync")] mirrored_trees_are_those_of_rsync,
        [Need::Tool("rsync")] mirrors_by_contents_are_those_of_rsync,
        [Need::Tool("rsync")] mirrors_by_size_are_those_of_rsync,
        [Need::Tool("rsync")] listed_trees_are_those_of_rsync,
        [Need::Tool("rsync")] listed_entries_are_those_of_rsync,
    ]
}

/// A number of a sequence that the seed decides (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// Which entries a tree may have.
#[derive(Debug, Clone, Copy)]
struct Kinds {
    /// Whether a name may stand for a directory in one tree and for a file in another.
    mixed: bool,
    links: bool,
    hard_links: bool,
}

/// Makes a tree of some 30 entries from few names, so that two trees have many in common. Files of one
/// tree have even times and files of the other odd ones, which are never equal.
fn generate(root: &Path, numbers: &mut Numbers, kinds: Kinds, parity: u64) {
    let mut directories = vec![root.to_owned()];
    let mut files: Vec<PathBuf> = Vec::new();
    for _ in 0..10 + numbers.below(30) {
        let above = directories[numbers.below(directories.len() as u64) as usize].clone();
        let name = numbers.below(6);
        let kind = if kinds.mixed { numbers.below(4) } else { name % 4 };
        let path = above.join(format!("name {name}"));
        if path.symlink_metadata().is_ok() {
            continue;
        }
        match kind {
            0 => {
                fs::create_dir(&path).unwrap();
                let mode = [0o755, 0o700, 0o2775][numbers.below(3) as usize];
                fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
                directories.push(path);
            }
            1 if kinds.links => {
                let targets = ["name 1", "../name 2", "/nowhere", "."];
                symlink(targets[numbers.below(4) as usize], &path).unwrap();
                let time = Timespec { tv_sec: 1_200_000_000 + parity as i64, tv_nsec: 0 };
                let times = Timestamps { last_access: time, last_modification: time };
                utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
            }
            2 if kinds.hard_links && !files.is_empty() => {
                fs::hard_link(&files[numbers.below(files.len() as u64) as usize], &path).unwrap();
            }
            _ => {
                let length = [0, 5, 5, 5000, 100_000][numbers.below(5) as usize];
                fs::write(&path, vec![numbers.below(256) as u8; length]).unwrap();
                let mode = [0o644, 0o600, 0o4755][numbers.below(3) as usize];
                fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
                set_time(&path, 1_000_000_000 + 2 * numbers.below(20) + parity);
                files.push(path);
            }
        }
    }
    for (number, path) in directories.iter().enumerate().rev() {
        set_time(path, 1_100_000_000 + 2 * number as u64 + parity);
    }
}

fn set_time(path: &Path, seconds: u64) {
    let times = FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_secs(seconds));
    File::open(path).unwrap().set_times(times).unwrap();
}

/// Copies each of many trees over another one by both programs, and compares.
fn beside_rsync(kinds: Kinds, ours: &[&str], theirs: &[&str]) {
    let compared = Compared { modes: true, times: true, ..Compared::default() };
    compared_with_rsync(kinds, ours, theirs, compared);
}

/// Makes a tree to copy, and the same older tree twice.
fn generated(place: &Scratch, numbers: &mut Numbers, kinds: Kinds) -> [PathBuf; 3] {
    let [source, own, other] = ["source", "own", "other"].map(|name| place.join(name));
    fs::create_dir(&source).unwrap();
    fs::create_dir(&own).unwrap();
    generate(&source, numbers, kinds, 0);
    generate(&own, numbers, Kinds { hard_links: false, ..kinds }, 1);
    run_tool("cp", ["-a".as_ref(), own.as_os_str(), other.as_os_str()]);
    [source, own, other]
}

fn compared_with_rsync(kinds: Kinds, ours: &[&str], theirs: &[&str], compared: Compared) {
    for seed in 0..by_extent([8, 100, 500]) {
        let place = Place::Disk.scratch();
        let [source, own, other] = generated(&place, &mut Numbers(seed), kinds);
        let run = Program::new(env!("CARGO_BIN_EXE_uncopy"))
            .arg("cp")
            .args(ours)
            .args([&source, &own])
            .run();
        assert!(run.status.success(), "seed {seed}: {}", run.stderr);
        let mut contents = source.clone().into_os_string();
        contents.push("/");
        let run = Program::new("rsync").args(theirs).arg(contents).arg(&other).run();
        assert!(run.status.success(), "seed {seed}: {}", run.stderr);
        eprintln!("seed {seed}");
        assert_same_tree(&other, &own, compared);
    }
}

fn merged_trees_are_those_of_rsync() {
    let kinds = Kinds { mixed: false, links: true, hard_links: true };
    beside_rsync(kinds, &["-aT"], &["-aH", "--ignore-times"]);
}

/// Symbolic links are left out: rsync updates them in any case, and cp and uncopy only newer ones.
fn updated_trees_are_those_of_rsync() {
    let kinds = Kinds { mixed: false, links: false, hard_links: false };
    beside_rsync(kinds, &["-auT"], &["-a", "--update"]);
}

fn mirrored_trees_are_those_of_rsync() {
    let kinds = Kinds { mixed: true, links: true, hard_links: true };
    let ours = ["-aT", "--delete", "--delete-empty-source"];
    beside_rsync(kinds, &ours, &["-aH", "--ignore-times", "--delete"]);
}

/// Without metadata, which rsync gives files that it does not copy too.
fn mirrors_by_contents_are_those_of_rsync() {
    mirrors_that_compare("--checksum");
}

fn mirrors_by_size_are_those_of_rsync() {
    mirrors_that_compare("--size-only");
}

fn mirrors_that_compare(flag: &str) {
    let kinds = Kinds { mixed: true, links: true, hard_links: false };
    let ours = ["-rT", "--delete", "--delete-empty-source", flag];
    let theirs = ["-rl", "--delete", "--force", flag];
    compared_with_rsync(kinds, &ours, &theirs, Compared::default());
}

fn listed_trees_are_those_of_rsync() {
    listed_beside_rsync(&["-a"], &["-aHr", "--ignore-times"]);
}

/// Without `-r` a directory that is listed is made without its contents, by rsync too.
fn listed_entries_are_those_of_rsync() {
    listed_beside_rsync(
        &["-dp", "--preserve=links,mode,ownership,timestamps"],
        &["-aH", "--ignore-times"],
    );
}

const ROOT_TIME: u64 = 1_050_000_000;

/// Copies names of generated trees, of which some are missing, by both programs, and compares. The destination itself
/// gets the metadata of the source by a list that names `.`; by rsync also where a name begins with `./`.
fn listed_beside_rsync(ours: &[&str], theirs: &[&str]) {
    let kinds = Kinds { mixed: false, links: true, hard_links: true };
    for seed in 0..by_extent([8, 100, 500]) {
        let (place, mut numbers) = (Place::Disk.scratch(), Numbers(seed));
        let [source, own, other] = generated(&place, &mut numbers, kinds);
        let found = Program::new("find").args(["-mindepth", "1"]).current_dir(&source).run().stdout;
        // Without `-r` rsync copies what lies directly in a directory that is named so.
        let names_root = theirs[0].ends_with('r') && numbers.below(4) == 0;
        let mut misses = false;
        let mut list = String::from(if names_root { "# names\n\n.\n" } else { "# names\n\n" });
        fs::set_permissions(&source, Permissions::from_mode(0o750)).unwrap();
        set_time(&source, ROOT_TIME);
        for name in found.lines() {
            if numbers.below(3) != 0 {
                continue;
            }
            list += name.strip_prefix("./").filter(|_| numbers.below(2) == 0).unwrap_or(name);
            list += if numbers.below(4) == 0 { "\n\n" } else { "\n" };
            if numbers.below(8) == 0 {
                misses = true;
                list += &format!("{name}/missing\n");
            }
        }
        let file = place.join("list");
        fs::write(&file, &list).unwrap();
        let run = Program::new(env!("CARGO_BIN_EXE_uncopy"))
            .args(["cp", "--files-from"])
            .arg(&file)
            .args(ours)
            .args([&source, &own])
            .run();
        assert_eq!(run.status.code(), Some(i32::from(misses)), "seed {seed}: {}", run.stderr);
        let run = Program::new("rsync").args(theirs).arg("--files-from").arg(&file);
        let run = run.args([&source, &other]).run();
        assert_eq!(
            run.status.code(),
            Some(if misses { 23 } else { 0 }),
            "seed {seed}: {}",
            run.stderr
        );
        eprintln!("seed {seed}: {list}");
        let [(mode, time), theirs] = [&own, &other].map(|root| {
            let metadata = fs::metadata(root).unwrap();
            (metadata.mode() & 0o7777, metadata.mtime())
        });
        let expected = if names_root { (0o750, true) } else { (0o755, false) };
        assert_eq!((mode, time == ROOT_TIME as i64), expected, "seed {seed}");
        if names_root || !list.contains("\n./") {
            assert_eq!((theirs.0, theirs.1 == ROOT_TIME as i64), expected, "seed {seed}");
        }
        for root in [&own, &other] {
            fs::set_permissions(root, Permissions::from_mode(0o755)).unwrap();
            set_time(root, ROOT_TIME);
        }
        let compared = Compared { modes: true, times: true, ..Compared::default() };
        assert_same_tree(&other, &own, compared);
    }
}
