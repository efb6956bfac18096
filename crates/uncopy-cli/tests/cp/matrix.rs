//! The errno matrix: what each mechanism answers between each pair of filesystems.

use testbed::{Case, Content, KernelFeature, Need, Place, copies_between_filesystems, run_tool};

use crate::cp::witnessed::Pair;
use crate::cp::{
    COPY_FILE_RANGE, DIRECT, DIRECT_RING, Method, READ_WRITE, REFLINK, SENDFILE, SPLICE, cp, cp_by,
};

/// Behaviour of a mechanism between two places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// The files share blocks.
    Shares,
    /// The bytes are copied.
    Copies,
    /// This errno.
    Refuses(&'static str),
}
use Answer::{Copies, Refuses, Shares};

struct Row {
    name: &'static str,
    from: Place,
    to: Place,
    reflink: Answer,
    copy_file_range: Answer,
}

const fn row(
    name: &'static str,
    from: Place,
    to: Place,
    reflink: Answer,
    copy_file_range: Answer,
) -> Row {
    Row { name, from, to, reflink, copy_file_range }
}

const NO_REFLINKS: Answer = Refuses("EOPNOTSUPP");
const ACROSS: Answer = Refuses("EXDEV");

/// Linux 6.18. Equal `st_dev` is neither needed (btrfs subvolumes) nor enough (overlay and its
/// upper directory).
const ROWS: [Row; 15] = [
    row("ext4_to_ext4", Place::Ext4, Place::Ext4, NO_REFLINKS, Copies),
    row("tmpfs_to_tmpfs", Place::Tmpfs, Place::Tmpfs, NO_REFLINKS, Copies),
    row("xfs_to_xfs", Place::Xfs, Place::Xfs, Shares, Shares),
    row("btrfs_to_btrfs", Place::Btrfs, Place::Btrfs, Shares, Shares),
    row("btrfs_to_subvolume", Place::Btrfs, Place::BtrfsSubvolume, Shares, Shares),
    row("subvolume_to_btrfs", Place::BtrfsSubvolume, Place::Btrfs, Shares, Shares),
    row("xfs_to_its_bind_mount", Place::Xfs, Place::XfsBind, Shares, Shares),
    row("overlay_to_overlay", Place::Overlay, Place::Overlay, Shares, Shares),
    row("overlay_to_its_upper", Place::Overlay, Place::OverlayUpper, ACROSS, ACROSS),
    row("ext4_to_xfs", Place::Ext4, Place::Xfs, ACROSS, ACROSS),
    row("xfs_to_btrfs", Place::Xfs, Place::Btrfs, ACROSS, ACROSS),
    row("btrfs_to_tmpfs", Place::Btrfs, Place::Tmpfs, ACROSS, ACROSS),
    row("tmpfs_to_ext4", Place::Tmpfs, Place::Ext4, ACROSS, ACROSS),
    row("tmpfs_to_tmpfs_elsewhere", Place::Tmpfs, Place::OtherTmpfs, ACROSS, ACROSS),
    row("loop_ext4_to_disk", Place::Ext4, Place::Disk, ACROSS, ACROSS),
];

impl Row {
    /// Returns the row as this kernel has it, which may be an older one.
    fn on_this_kernel(&self) -> Row {
        let copy_file_range = match self.copy_file_range {
            ACROSS if copies_between_filesystems() => Copies,
            answer => answer,
        };
        let clones = self.to != Place::XfsBind || KernelFeature::ClonesBetweenMounts.is_here();
        let reflink = if clones { self.reflink } else { ACROSS };
        Row { reflink, copy_file_range, ..*self }
    }
}

const METHODS: [Method; 7] =
    [REFLINK, COPY_FILE_RANGE, DIRECT_RING, DIRECT, SENDFILE, SPLICE, READ_WRITE];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for row in &ROWS {
        let needs =
            [Need::At(row.from), Need::At(row.to), Need::Tool("strace"), Need::Tool("filefrag")];
        for method in METHODS {
            let name = format!("cp::matrix::{}::{}", row.name, method.name);
            let locked = (method == DIRECT_RING).then_some(Need::LockedMemory(7));
            let needs: Vec<Need> = needs.into_iter().chain(locked).collect();
            cases.push(Case::new(name, &needs, move || forced(&row.on_this_kernel(), method)));
        }
        let name = format!("cp::matrix::{}::auto", row.name);
        cases.push(Case::new(name, &needs, move || automatic(&row.on_this_kernel())));
    }
    let mut more = testbed::cases![
        [Need::At(Place::Btrfs), Need::Tool("strace")] btrfs_copy_on_write_to_nodatacow,
        [Need::At(Place::Ext4), Need::Tool("mkswap"), Need::Tool("strace")] active_swap_file,
    ];
    cases.append(&mut more);
    cases
}

/// A hole in the middle, and an end that is not aligned to anything.
fn content() -> Content {
    Content::sparse((3 << 20) + 123, &[(0, 1 << 20), (2 << 20, (1 << 20) + 123)])
}

fn has_extent_map(place: Place) -> bool {
    !matches!(place, Place::Tmpfs | Place::OtherTmpfs)
}

/// It gives an alignment for `O_DIRECT` reads (`STATX_DIOALIGN`).
fn reads_direct(place: Place) -> bool {
    let without = [Place::Tmpfs, Place::OtherTmpfs, Place::Btrfs, Place::BtrfsSubvolume];
    KernelFeature::DirectAlignment.is_here() && !without.contains(&place)
}

fn writes_direct(place: Place) -> bool {
    let is_memory = matches!(place, Place::Tmpfs | Place::OtherTmpfs);
    KernelFeature::DirectOnTmpfs.is_here() || !is_memory
}

fn forced(row: &Row, method: Method) {
    let pair = Pair::new(row.from, row.to, &content());
    let answer = match method {
        REFLINK => row.reflink,
        COPY_FILE_RANGE => row.copy_file_range,
        DIRECT if !writes_direct(row.to) => Refuses("EINVAL"),
        _ => Copies,
    };
    let (run, _) = pair.traced(cp_by(method));
    if let Refuses(errno) = answer {
        assert!(run.failed(5).contains(errno), "{errno} is not named: {}", run.stderr);
        pair.assert_nothing_left();
        return;
    }
    if method == DIRECT_RING && !reads_direct(row.from) {
        assert!(run.failed(5).contains("past the page cache"), "{}", run.stderr);
        pair.assert_nothing_left();
        return;
    }
    let receipt = run.receipt();
    // The end of a direct copy may be an ordinary write.
    let tail = if [DIRECT, DIRECT_RING].contains(&method) { receipt.by("read_write") } else { 0 };
    assert!(tail < 4096, "{}", receipt.value());
    let hole = receipt.at("hole");
    assert_eq!(receipt.by(method.name) + tail + hole, receipt.bytes(), "{}", receipt.value());
    // Every place of the matrix is a loop device or memory.
    if row.to != Place::Disk {
        assert_eq!(receipt.at("moved"), 0, "{}", receipt.value());
    }
    let moved = receipt.bytes() - hole;
    match answer {
        // Through overlayfs nobody looks at extents: the receipt may leave it open.
        Shares if row.to == Place::Overlay && method == COPY_FILE_RANGE => {
            assert_eq!(receipt.at("shared") + receipt.at("unknown"), moved, "{}", receipt.value());
        }
        Shares => assert_eq!(receipt.at("shared"), moved, "{}", receipt.value()),
        _ => assert_eq!(receipt.at("shared"), 0, "{}", receipt.value()),
    }
    if has_extent_map(row.from) && has_extent_map(row.to) && row.from != Place::Disk {
        pair.hold_against_extents(&receipt);
    }
    if answer != Shares {
        pair.hold_against_blocks(content().data_bytes());
    }
}

fn automatic(row: &Row) {
    let pair = Pair::new(row.from, row.to, &content());
    let (run, trace) = pair.traced(cp());
    let receipt = run.receipt();
    match row.reflink {
        Shares => {
            assert_eq!(receipt.mechanisms(), ["reflink"], "{}", receipt.value());
            pair.hold_against_extents(&receipt);
        }
        Refuses(errno) => {
            let refusal = receipt.refusal("reflink").expect("reflink was not used, and why?");
            if let Some(found) = refusal.errno {
                assert_eq!(found, errno, "{}", receipt.value());
                assert!(!trace.named(&["ioctl"]).is_empty(), "an errno without a call");
            }
            pair.hold_against_blocks(content().data_bytes());
        }
        Copies => panic!("FICLONE never copies"),
    }
    assert!(receipt.mechanisms().len() <= 2, "{}", receipt.value());
    assert!(receipt.at("user_copied") < 4096, "the kernel could have copied: {}", receipt.value());
}

/// A file without copy-on-write has no checksums: `FICLONE` says EINVAL, and copy_file_range
/// copies instead of sharing. Who takes "btrfs, so it shared" for granted lies here.
fn btrfs_copy_on_write_to_nodatacow() {
    let pair = Pair::at(Place::Btrfs, &Content::dense(1 << 20));
    run_tool("chattr", ["+C".as_ref(), pair.to.path().as_os_str()]);
    let (run, _) = pair.traced(cp_by(REFLINK));
    assert!(run.failed(5).contains("EINVAL"), "{}", run.stderr);
    pair.assert_nothing_left();

    let (run, _) = pair.traced(cp_by(COPY_FILE_RANGE));
    let receipt = run.receipt();
    assert_eq!(receipt.by("copy_file_range"), 1 << 20);
    assert_eq!(receipt.at("shared"), 0, "{}", receipt.value());
    pair.hold_against_extents(&receipt);

    std::fs::remove_file(&pair.destination).unwrap();
    let (run, _) = pair.traced(cp());
    let receipt = run.receipt();
    assert_eq!(receipt.at("shared"), 0, "{}", receipt.value());
    assert!(receipt.refusal("reflink").is_some(), "{}", receipt.value());
}

/// `copy_file_range` from an active swap file says ETXTBSY, and other ways work.
fn active_swap_file() {
    struct SwapOff(std::path::PathBuf);
    impl Drop for SwapOff {
        fn drop(&mut self) {
            testbed::run_quietly("swapoff", [&self.0]);
        }
    }
    let pair = Pair::at(Place::Ext4, &Content::dense(1 << 20));
    std::fs::set_permissions(&pair.source, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .unwrap();
    run_tool("mkswap", [&pair.source]);
    let _off = SwapOff(pair.source.clone());
    run_tool("swapon", [&pair.source]);
    let (run, _) = pair.traced(cp_by(COPY_FILE_RANGE));
    assert!(run.failed(5).contains("ETXTBSY"), "{}", run.stderr);
    pair.assert_nothing_left();
    let (run, _) = pair.traced(cp());
    let receipt = run.receipt();
    assert_eq!(receipt.by("copy_file_range"), 0, "{}", receipt.value());
}
