//! Conditions of copying files.

use super::{Topic, table};

table! { Topic::Files;
NO_REFLINK = "no-reflink", "The filesystem has no reflinks", Note, false,
"`FICLONE` was tried and is not supported. ext4, tmpfs and most other filesystems have no reflinks; XFS has them only if it was created with them.",
"Blocks cannot be shared, so the data has to be moved or copied.",
"Keep files that are copied often on XFS or btrfs.";
REFLINK_REFUSED = "reflink-refused", "These files cannot share blocks", Note, false,
"The filesystem has reflinks but refuses this pair of files (EINVAL, EPERM, ETXTBSY): a nodatacow, encrypted, swap or immutable file, or a seccomp filter.",
"Blocks cannot be shared, so the data has to be moved or copied.",
"On btrfs set the same chattr +C on both directories. Check that neither file is a swap file.";
CROSS_FILESYSTEM = "cross-filesystem", "Source and destination are on different filesystems", Note, false,
"`FICLONE` was tried and failed with EXDEV. Device numbers are not compared: btrfs subvolumes have different numbers and share blocks; layers of an overlay may have the same number and refuse.",
"Blocks cannot be shared, or copied within the filesystem. Staging the file on the destination's filesystem first does not help, as the bytes have to cross between the filesystems anyway.",
"Keep both files on one filesystem with reflinks.";
SHARED = "blocks-shared", "Blocks are shared", Note, false,
"`FICLONE`, or a `copy_file_range` after which FIEMAP shows shared extents, succeeded on files in these directories.",
"No data is read or written. Later changes to one file do not affect the other.",
"";
KERNEL_COPIES = "kernel-copies", "The kernel copies", Copies, false,
"Blocks cannot be shared here, and direct writes do not work, do not save time, or are not the fastest method for this copy. `copy_file_range`, `sendfile` and `splice` copy from page to page.",
"The CPU copies every byte once, inside the kernel.",
"";
USER_COPIES = "program-copies", "The program copies", Copies, false,
"Reading into a buffer and writing from it is the fastest method for a small file. It is the only one for files whose contents are generated on reading, for streams, and where options require it.",
"The CPU copies every byte twice.",
"";
DIRECT_MOVES = "direct-moves", "The disk reads the pages directly", Note, false,
"The destination's filesystem reports an alignment for `O_DIRECT` (`STATX_DIOALIGN`), a direct write succeeded, and the underlying device is a disk.",
"The CPU copies no bytes. They are on the device when the copy ends.",
"";
NO_DIRECT = "no-direct-io", "The destination does not support direct writes", Note, false,
"The filesystem reports no alignment for `O_DIRECT` (`STATX_DIOALIGN`), or refused the write: tmpfs, overlayfs on some filesystems, FUSE, network filesystems, btrfs with checksums.",
"Every method that does not share blocks copies.",
"Put the destination on ext4, XFS or f2fs.";
DIRECT_COPIES = "direct-copies", "Direct writes are copied anyway", Note, false,
"tmpfs and btrfs accept `O_DIRECT` and still copy: tmpfs stores data only in the page cache, and btrfs computes checksums, for which the memory must not change.",
"Direct writes have no advantage here.",
"Put the destination on ext4, XFS or f2fs.";
DIRECT_UNKNOWN = "direct-unknown", "It is unknown whether the underlying device copies", Unknown, false,
"Direct writes are accepted, but the device is a loop device, device mapper, md, bcache, or a network device. It may copy, encrypt or checksum the bytes.",
"Direct writes bypass the page cache. It is unknown whether they avoid the copy.",
"";
DIRECT_SMALL = "direct-too-small", "Too small for direct writes", Note, false,
"Pinning pages and waiting for the device saves time from 1 MiB on. Below that, one buffered copy is faster.",
"The CPU copies the file, which takes less time than setting up anything else.",
"";
DIRECT_NOT_DURABLE = "direct-needs-durable", "Direct writes would avoid the copy, but take longer", Note, false,
"Direct writes work here, and are faster where the data must reach the disk anyway. A copy that need not be durable ends sooner in the page cache.",
"The CPU copies bytes that the disk could read directly.",
"Set durable, cache = Skip or prefer = CpuTime.";
SMALL_FILE = "small-file", "The file is small", Note, false,
"Below 64 KiB one read and one write are faster than any method with a setup cost, except a reflink.",
"The CPU copies the bytes twice, which takes microseconds.",
"";
EMPTY = "empty-file", "The file is empty", Note, false,
"There are no bytes.",
"Nothing is copied.",
"";
NOT_CACHED = "source-not-cached", "The source is not in the page cache", Note, false,
"`cachestat(2)`, or `mincore(2)` where that counts nothing (overlayfs, Linux before 6.5), reports less than half of the source in the page cache.",
"The data must be read from the device first; the copy takes at least that long.",
"";
CACHED = "source-cached", "The source is in the page cache", Note, false,
"`cachestat(2)`, or `mincore(2)` where that counts nothing (overlayfs, Linux before 6.5), reports at least half of the source in the page cache.",
"Little has to be read from the source's device.",
"";
HOLES = "holes", "The source has holes", Note, false,
"The stored size is smaller than the file size (`st_blocks`, `SEEK_HOLE`).",
"Holes are kept: they are neither read nor written.",
"";
UNALIGNED = "unaligned-tail", "The end of the file is not a whole block", Note, false,
"The length is not a multiple of the alignment that `O_DIRECT` requires.",
"The last bytes, less than a block, are written through the page cache.",
"";
ROTATIONAL = "rotational", "The disk is rotational", Note, false,
"The block device reports that it is rotational (`queue/rotational`).",
"The disk determines how long the copy takes. If both files are on the same disk, its head moves between them.",
"";
REMOTE_DEVICE = "remote-device", "The block device is on another machine", Note, false,
"The block device is nbd, rbd, drbd, iSCSI or NVMe over fabrics, recognised by its name and its path in sysfs.",
"Every block crosses the network. Whether it is copied there depends on that path.",
"Run the doctor for the address of the storage.";
NETWORK_FILESYSTEM = "network-filesystem", "The filesystem is on another machine", Note, false,
"NFS, SMB, 9p, Ceph or AFS, recognised by `statfs(2)`. For `copy_file_range` the server may copy or share the blocks itself. Pages of such files are not mapped for direct writes.",
"Unless the server copies the file itself, every byte crosses the network.",
"Run the copy on the server.";
USER_FILESYSTEM = "fuse", "A program serves the filesystem", Note, false,
"FUSE, recognised by `statfs(2)`.",
"The bytes go through the memory of the program that serves the files.",
"";
PSEUDO = "pseudo-file", "The contents of the file are generated on reading", Copies, false,
"Files of /proc, /sys and similar filesystems have no pages, and their size is meaningless.",
"The bytes are read up to the end and written from a buffer.",
"";
STREAM = "destination-is-stream", "The destination is not a regular file", Copies, false,
"A device, FIFO or terminal.",
"Only write(2) is possible: the CPU copies the bytes twice.",
"";
SETTING = "setting-refuses", "A setting prevents a cheaper method", Note, false,
"An option excludes a mechanism that would work here. The evidence names the flag, the environment variable, or the file and line where it is set.",
"The mechanism is not used.",
"Remove the setting.";
VERIFY = "verification", "Verification reads everything again", Note, false,
"With the option `verify` both files are read and hashed after the copy.",
"The data is read twice more, once from each file; the CPU reads every byte of both.",
"For shared blocks trust_shared_extents reads nothing. Otherwise do not set verify where the copy can be repeated.";
IN_PLACE = "in-place", "The destination is written in place", Note, false,
"The option `in_place` writes into the existing file.",
"A failed copy leaves a mixture of old and new data. The number of copied bytes does not change.",
"";
NOT_TRIED = "not-tried", "A method could not be tried", Unknown, false,
"No file can be created in the directory (permissions, a read-only or full filesystem), or the trial failed with an error that says nothing about the method.",
"It is unknown whether the cheaper method works. The copy itself may fail for the same reason.",
"Fix the named reason, or run the doctor as the user who copies.";
MAY_COPY = "filesystem-may-copy", "The filesystem does not say whether it copied", Unknown, false,
"`copy_file_range` works, but there is no FIEMAP to show whether blocks are shared: network filesystems and FUSE.",
"The server may share the blocks or copy them itself, or every byte may cross the network twice.",
"";
NO_MECHANISM = "no-mechanism", "No allowed method works", Unknown, false,
"Every mechanism that the options allow was refused, or is excluded by an option.",
"The copy fails with exit code 5.",
"Allow more mechanisms.";
MANY_SMALL = "many-small-files", "Most files are small", Note, false,
"The histogram of sizes shows that most files are below 64 KiB.",
"Creating names and inodes takes longer than copying the bytes, so it hardly matters whether they are copied.",
"Copy many files at once, or keep them in one archive.";
MANY_LARGE = "bytes-in-large-files", "Most bytes are in large files", Note, false,
"The histogram of sizes shows that most bytes are in files of 1 MiB and more.",
"The copy of these files determines the total time.",
"Run the doctor for one of the large files.";
}
