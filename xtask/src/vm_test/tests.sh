# Runs the programs of tests that `plan` lists, on the files of the host, and powers off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
release=$(uname -r)
mkdir -p /lib/modules
ln -s "$(cat /shared/modules)" "/lib/modules/$release"
[ -e /sbin/modprobe ] || ln -s "$(command -v busybox)" /sbin/modprobe
# Programs look for their devices before the kernel is asked to load them.
for module in loop fuse tun; do modprobe "$module"; done
mkdir -p /dev/shm /dev/pts
mount -t tmpfs none /dev/shm
mount -t devpts none /dev/pts
mount -t tmpfs none /run
ln -s /proc/self/fd /dev/fd
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
ip link set lo up
mkdir -m 1777 /scratch/tmp
export TMPDIR=/scratch/tmp UNCOPY_TEST_DIR=/scratch UNCOPY_TEST_ROOT=1
# The test harness of the standard library has JSON only with it.
export RUSTC_BOOTSTRAP=1
while IFS='|' read -r name directory limit words; do
    began=$(date +%s)
    echo "$name begins"
    cd "$directory" || continue
    export UNCOPY_TEST_REASONS=/shared/$name.reasons
    # shellcheck disable=SC2086
    timeout -k 5 "$limit" $words > "/shared/$name.json" 2> "/shared/$name.log" < /dev/null
    echo "$? $(($(date +%s) - began))" > "/shared/$name.status"
done < /shared/plan
dmesg > /shared/dmesg
echo "@@ end"
sync
echo o > /proc/sysrq-trigger
sleep 60
