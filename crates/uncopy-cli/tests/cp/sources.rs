//! Sources whose size says nothing, and sizes at which arithmetic goes wrong.

use std::path::Path;

use testbed::{Case, Content, Need, Place, patterned};

use crate::cp::witnessed::Pair;
use crate::cp::{ACROSS, COPY_FILE_RANGE, EVERYWHERE, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] procfs_file_of_size_0,
        [] procfs_file_of_many_pages,
        [] sysfs_file_shorter_than_its_size,
        [] procfs_refuses_copy_file_range,
        [] procfs_with_every_switch,
        [] empty_file,
        [] sizes_around_pages_and_buffers,
        [Need::LockedMemory(7)] sizes_with_every_method,
        [] missing_source,
        [Need::Root] unreadable_source,
        [Need::Root] write_only_permission_is_not_enough,
        [] a_directory,
        [Need::Tool("xfs_io")] data_written_through_a_mapping,
    ]
}

/// Returns the lines of a pseudo file without those of BPF programs, which come and go with the filters of other tests.
fn lasting(text: &[u8]) -> Vec<&[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.ends_with(b"[bpf]")).collect()
}

/// Copies a pseudo file in every way; its bytes must be those that a reader gets.
fn pseudo(path: &str) {
    let expected = std::fs::read(path).unwrap();
    assert!(!expected.is_empty(), "{path} is no witness");
    for program in [cp()].into_iter().chain(ACROSS.map(cp_by)) {
        let pair = Pair::empty(Place::Disk, Place::Disk);
        let run = program.arg(path).arg(&pair.destination).run();
        if run.status.code() == Some(5) {
            // Not every pseudo file can be spliced from; one that was asked for says so.
            assert!(
                run.stderr.contains("splice: EINVAL") || run.stderr.contains("sendfile: EINVAL")
            );
            assert!(!path.ends_with("version"), "{}", run.stderr);
            pair.assert_nothing_left();
            continue;
        }
        let receipt = run.receipt();
        let copied = std::fs::read(&pair.destination).unwrap();
        assert!(lasting(&copied) == lasting(&expected), "{path}: {}", receipt.value());
        assert_eq!(receipt.bytes(), copied.len() as u64, "{}", receipt.value());
        pair.assert_no_strangers();
    }
}

fn procfs_file_of_size_0() {
    assert_eq!(std::fs::metadata("/proc/version").unwrap().len(), 0);
    for path in ["/proc/version", "/proc/filesystems", "/proc/cmdline", "/proc/1/comm"] {
        pseudo(path);
    }
}

/// It is read in many pieces, of which each is short.
fn procfs_file_of_many_pages() {
    if Path::new("/proc/kallsyms").exists() {
        pseudo("/proc/kallsyms");
    } else {
        pseudo("/proc/crypto");
    }
}

fn sysfs_file_shorter_than_its_size() {
    let path = ["/sys/kernel/mm/transparent_hugepage/enabled", "/sys/devices/system/cpu/online"]
        .into_iter()
        .find(|path| Path::new(path).exists())
        .expect("sysfs is mounted");
    let (said, read) = (std::fs::metadata(path).unwrap().len(), std::fs::read(path).unwrap());
    assert!(said > read.len() as u64, "{path} is no witness");
    pseudo(path);
}

fn procfs_refuses_copy_file_range() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    let run = cp_by(COPY_FILE_RANGE).arg("/proc/version").arg(&pair.destination).run();
    run.failed(5);
    pair.assert_nothing_left();
}

fn procfs_with_every_switch() {
    let expected = std::fs::read("/proc/version").unwrap();
    for switch in
        ["--sparse=always", "--sparse=never", "--durable", "--verify", "--cache=skip", "-p"]
    {
        let pair = Pair::empty(Place::Disk, Place::Disk);
        let old = pair.old_destination();
        let run = cp().arg(switch).arg("/proc/version").arg(&pair.destination).run();
        assert!(run.status.success(), "{switch}: {}", run.stderr);
        let found = std::fs::read(&pair.destination).unwrap();
        assert!(found == expected, "{switch}: {} bytes, were {}", found.len(), old.len());
        pair.assert_no_strangers();
    }
}

fn empty_file() {
    for program in [cp()].into_iter().chain(EVERYWHERE.map(cp_by)) {
        let pair = Pair::at(Place::Disk, &Content::dense(0));
        pair.old_destination();
        let receipt = pair.copy(program);
        assert_eq!(receipt.bytes(), 0);
        assert!(receipt.mechanisms().is_empty(), "{}", receipt.value());
    }
}

const SIZES: [u64; 15] = [
    1,
    511,
    512,
    4095,
    4096,
    4097,
    65_535,
    65_537,
    131_071,
    131_072,
    131_073,
    262_144,
    262_145,
    (1 << 20) - 1,
    (1 << 20) + 1,
];

fn sizes_around_pages_and_buffers() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    for size in SIZES {
        std::fs::write(&pair.source, patterned(0, size)).unwrap();
        assert_eq!(pair.copy(cp()).bytes(), size);
        std::fs::remove_file(&pair.destination).unwrap();
    }
}

fn sizes_with_every_method() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    let direct = [crate::cp::DIRECT, crate::cp::DIRECT_RING];
    for method in EVERYWHERE.into_iter().chain(direct) {
        for size in SIZES {
            std::fs::write(&pair.source, patterned(0, size)).unwrap();
            let run = pair.command(cp_by(method)).run();
            if direct.contains(&method) && run.status.code() == Some(5) {
                // Not every filesystem that tests run on takes O_DIRECT.
                continue;
            }
            assert_eq!(run.receipt().bytes(), size, "{method:?}");
            pair.assert_copied();
        }
    }
}

fn missing_source() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    let run = pair.command(cp()).run();
    let message = run.failed(1);
    assert!(message.contains("ENOENT") && message.contains("source"), "{message}");
    pair.assert_nothing_left();
}

fn unreadable_source() {
    let pair = Pair::at(Place::Tmpfs, &Content::dense(100));
    let to = pair.to.subdirectory("open", 0o777);
    set_mode(&pair.source, 0o000);
    let run = crate::cp::cp_as_nobody().arg(&pair.source).arg(to.join("copy")).run();
    let message = run.failed(1);
    assert!(message.contains("EACCES") && message.contains("source"), "{message}");
    assert_eq!(std::fs::read_dir(&to).unwrap().count(), 0);
}

fn write_only_permission_is_not_enough() {
    let pair = Pair::at(Place::Tmpfs, &Content::dense(100));
    set_mode(&pair.source, 0o222);
    let to = pair.to.subdirectory("open", 0o777);
    let run = crate::cp::cp_as_nobody().arg(&pair.source).arg(to.join("copy")).run();
    assert!(run.failed(1).contains("EACCES"), "{}", run.stderr);
}

fn a_directory() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    std::fs::create_dir(&pair.source).unwrap();
    let run = pair.command(cp()).run();
    assert!(run.failed(1).contains("directory"), "{}", run.stderr);
    pair.assert_nothing_left();
}

/// Pages made dirty through a mapping lie in what the disk still has as a hole.
fn data_written_through_a_mapping() {
    for program in [cp()].into_iter().chain(EVERYWHERE.map(cp_by)) {
        let pair = Pair::at(Place::Disk, &Content::sparse(4 << 20, &[(0, 4096)]));
        testbed::run_tool(
            "xfs_io",
            ["-c", "mmap -w 0 4m", "-c", "mwrite -S 0x5a 2097152 8192"]
                .map(AsRef::as_ref)
                .into_iter()
                .chain([pair.source.as_os_str()]),
        );
        pair.copy(program);
        let copy = std::fs::read(&pair.destination).unwrap();
        assert!(copy[2 << 20..(2 << 20) + 8192].iter().all(|&byte| byte == 0x5a));
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
}
