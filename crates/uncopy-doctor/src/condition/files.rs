//! Conditions of copying files.

use super::{Topic, table};

table! { Topic::Files;
NO_REFLINK = "no-reflink", "The filesystem shares no blocks", Note, false,
"`FICLONE` was tried and is not supported: ext4, tmpfs and most others have no reflinks, XFS only if it was made with them.",
"Blocks cannot be shared, so that data has to be moved or copied.",
"Keep files that are copied often on XFS or btrfs.";
REFLINK_REFUSED = "reflink-refused", "These files cannot share blocks", Note, false,
"The filesystem has reflinks and refuses this pair (EINVAL, EPERM, ETXTBSY): a nodatacow, encrypted, swap or immutable file, or a seccomp filter.",
"Blocks cannot be shared, so that data has to be moved or copied.",
"On btrfs let both directories have the same chattr +C; see that neither file is a swap file.";
CROSS_FILESYSTEM = "cross-filesystem", "Source and destination lie on two filesystems", Note, false,
"`FICLONE` was tried and answers EXDEV. Device numbers are not looked at: btrfs subvolumes differ in them and share blocks, layers of an overlay may agree in them and refuse.",
"Blocks cannot be shared, nor copied within the filesystem. Staging the file on the destination's filesystem first does not help: the bytes cross once all the same.",
"Keep both on one filesystem that has reflinks.";
SHARED = "blocks-shared", "Blocks are shared", Note, false,
"`FICLONE`, or a `copy_file_range` after which FIEMAP shows shared extents, worked on files in these directories.",
"No data is read or written; changes to one file are not seen in the other.",
"";
KERNEL_COPIES = "kernel-copies", "The kernel copies", Copies, false,
"Nothing that shares blocks works here, and direct writes do not work, do not pay, or are not the quickest way for this copy; `copy_file_range`, `sendfile` and `splice` copy from page to page.",
"The processor copies every byte once, inside the kernel.",
"";
USER_COPIES = "program-copies", "The program copies", Copies, false,
"Reading into a buffer and writing from it is the quickest way for a small file, and the only one for files that are made up as they are read, for streams, and where options ask for it.",
"The processor copies every byte twice.",
"";
DIRECT_MOVES = "direct-moves", "The disk reads the pages themselves", Note, false,
"The destination's filesystem gives an alignment for `O_DIRECT` (`STATX_DIOALIGN`), a write was accepted, and the device below is a disk.",
"No processor copies the bytes; they are on the device when the copy ends.",
"";
NO_DIRECT = "no-direct-io", "The destination takes no direct writes", Note, false,
"The filesystem gives no alignment for `O_DIRECT` (`STATX_DIOALIGN`), or refused the write: tmpfs, overlayfs on some, FUSE, network filesystems, btrfs with checksums.",
"Every way that does not share blocks copies.",
"Put the destination on ext4, XFS or f2fs.";
DIRECT_COPIES = "direct-copies", "Direct writes are copied all the same", Note, false,
"tmpfs and btrfs accept `O_DIRECT` and copy: tmpfs has nothing but the page cache, btrfs computes checksums over memory that must not change.",
"Direct writes bring nothing here.",
"Put the destination on ext4, XFS or f2fs.";
DIRECT_UNKNOWN = "direct-unknown", "Whether the device below copies is not known", Unknown, false,
"Direct writes are accepted, and the device is a loop device, device mapper, md, bcache, or across a network: it may copy, encrypt or checksum the bytes.",
"Direct writes spare the page cache; whether they spare the copy cannot be told.",
"";
DIRECT_SMALL = "direct-too-small", "Too small for direct writes", Note, false,
"Pinning pages and waiting for the device pays from 1 MiB on; below, one buffered copy is quicker.",
"The file is copied by the processor, which takes less time than setting up anything else.",
"";
DIRECT_NOT_DURABLE = "direct-needs-durable", "Direct writes would move the bytes, and are slower by the clock", Note, false,
"Direct writes work here, and win where the data must reach the disk anyway. A copy that need not be durable ends sooner in the page cache.",
"The processor copies what the disk could read by itself.",
"Set durable, cache = Skip or prefer = CpuTime.";
SMALL_FILE = "small-file", "The file is small", Note, false,
"Below 64 KiB one read and one write are quicker than anything that needs setting up, except a reflink.",
"The processor copies the bytes twice, in microseconds.",
"";
EMPTY = "empty-file", "The file is empty", Note, false,
"There are no bytes.",
"Nothing is copied.",
"";
NOT_CACHED = "source-not-cached", "The source is not in the page cache", Note, false,
"`cachestat(2)` (before Linux 6.5 `mincore(2)`) finds less than half of the source in the page cache.",
"The device has to be read first; the copy takes at least as long as that.",
"";
CACHED = "source-cached", "The source is in the page cache", Note, false,
"`cachestat(2)` (before Linux 6.5 `mincore(2)`) finds at least half of the source in the page cache.",
"The source's device is hardly needed.",
"";
HOLES = "holes", "The source has holes", Note, false,
"Less is stored than the size says (`st_blocks`, `SEEK_HOLE`).",
"Holes stay holes: they are neither read nor written.",
"";
UNALIGNED = "unaligned-tail", "The end of the file fills no block", Note, false,
"The length is no multiple of the alignment that `O_DIRECT` asks for.",
"The last bytes, less than a block, are written through the page cache.",
"";
ROTATIONAL = "rotational", "A disk that spins", Note, false,
"The block device says that it is rotational (`queue/rotational`).",
"The disk decides how long the copy takes; on one disk for both, its head moves between them.",
"";
REMOTE_DEVICE = "remote-device", "The block device is across a network", Note, false,
"The block device is nbd, rbd, drbd, iSCSI or NVMe over fabrics, told by its name and its place in sysfs.",
"Every block goes over the network, and is copied or not by that path's rules.",
"Ask the doctor about the address of the storage.";
NETWORK_FILESYSTEM = "network-filesystem", "A filesystem on another machine", Note, false,
"NFS, SMB, 9p, Ceph or AFS, told by `statfs(2)`. Servers may copy or share by themselves on `copy_file_range`; pages of such files are not mapped for direct writes.",
"Unless the server copies by itself, every byte crosses the network.",
"Copy on the server itself.";
USER_FILESYSTEM = "fuse", "A program serves the filesystem", Note, false,
"FUSE, told by `statfs(2)`.",
"The bytes go through the memory of the program that serves the files.",
"";
PSEUDO = "pseudo-file", "The file is made up as it is read", Copies, false,
"Files of /proc, /sys and the like have no pages, and sizes that say nothing.",
"The bytes are read to their end and written from a buffer.",
"";
STREAM = "destination-is-stream", "The destination is no regular file", Copies, false,
"A device, FIFO or terminal.",
"Only write(2) makes sense: the processor copies the bytes twice.",
"";
SETTING = "setting-refuses", "A setting refuses a cheaper way", Note, false,
"An option rules a mechanism out that would work here. The evidence names the flag, the variable of the environment, or the file and its line that it comes from.",
"The mechanism is not used.",
"Leave the setting out.";
VERIFY = "verification", "Verification reads everything again", Note, false,
"The option `verify` has both files read and hashed after the copy.",
"Two more passes over the data, one over each file; the processor reads every byte of both.",
"With shared blocks trust_shared_extents reads nothing; else leave verify out where the copy can be repeated.";
IN_PLACE = "in-place", "The destination is written in place", Note, false,
"The option `in_place` writes into the existing file.",
"A failed copy leaves a mixture; nothing is copied more or less for it.",
"";
NOT_TRIED = "not-tried", "A way could not be tried", Unknown, false,
"No file can be made in the directory (permissions, a read-only or full filesystem), or the trial ended in an error that says nothing about the ability.",
"Whether the cheaper way works cannot be told; the copy itself may fail for the same reason.",
"See to the reason, or run the doctor as the user who copies.";
MAY_COPY = "filesystem-may-copy", "The filesystem does not say whether it copied", Unknown, false,
"`copy_file_range` works, and there is no FIEMAP to show whether blocks are shared: network filesystems and servers in programs.",
"The server may share, copy by itself, or have every byte cross the network twice.",
"";
NO_MECHANISM = "no-mechanism", "No allowed way works", Unknown, false,
"Every mechanism that the options allow was refused, or is ruled out.",
"The copy fails with exit code 5.",
"Allow more mechanisms.";
MANY_SMALL = "many-small-files", "Most files are small", Note, false,
"The histogram of sizes shows that most files are below 64 KiB.",
"Making names and inodes takes longer than copying the bytes; whether these are copied hardly matters.",
"Copy many at once, or keep them in one archive.";
MANY_LARGE = "bytes-in-large-files", "Most bytes are in large files", Note, false,
"The histogram of sizes shows that most bytes are in files of 1 MiB and more.",
"How these are copied decides how long it takes.",
"Ask the doctor about one of the large files.";
}
