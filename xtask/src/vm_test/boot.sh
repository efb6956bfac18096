#!/bin/busybox sh
# The first program of a machine that runs tests: it makes a root of the host's files, read only, below a
# disk of the machine's own, and goes on there.
/bin/busybox --install -s /bin
export PATH=/sbin:/bin
ln -s /bin/busybox /sbin/modprobe
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for module in $(cat /modules); do modprobe "$module" 2>/dev/null; done
mkdir /host /disk /new /shared
options=trans=virtio,version=9p2000.L,msize=524288
mount -t 9p -o "$options,cache=loose,ro" host /host
mount -t 9p -o "$options" shared /shared
mount -t ext4 /dev/vda /disk
mkdir /disk/upper /disk/work /disk/scratch
mount -t overlay -o lowerdir=/host,upperdir=/disk/upper,workdir=/disk/work root /new
for directory in proc sys dev; do mount --move /$directory /new/$directory; done
mkdir -p /new/scratch /new/shared
mount --bind /disk/scratch /new/scratch
mount --move /shared /new/shared
exec switch_root /new /bin/sh /shared/tests.sh
