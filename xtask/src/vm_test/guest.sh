#!/bin/busybox sh
# The first and only program of the machine: it has uncopy send and look, says what came of it on the
# console behind the sign, and powers off.
/bin/busybox --install -s /bin
export PATH=/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tracefs tracefs /sys/kernel/tracing
mount -t debugfs debugfs /sys/kernel/debug
printf 'root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n' > /etc/passwd
printf 'root:x:0:\nnogroup:x:65534:\n' > /etc/group
# Busybox would take its own.
ip() { /sbin/ip "$@"; }
while read -r module; do insmod "/modules/$module.ko"; done < /modules/order
ip link set lo up
ip address add 10.12.0.2/24 dev eth0 && ip link set eth0 up
ip address add 10.0.2.15/24 dev eth1 && ip link set eth1 up

# NAME WORDS...: sends, and counts copies by a kprobe of its own.
echo 'p:uncopy skb_copy_ubufs' > /sys/kernel/tracing/kprobe_events
echo 1 > /sys/kernel/tracing/events/kprobes/uncopy/enable
hits() { awk '$1 == "uncopy" { print $2 }' /sys/kernel/tracing/kprobe_profile; }
each() {
    name=$1
    shift
    # On a busy machine the time may be over before the first send, or the next receiver be late.
    for attempt in 1 2 3; do
        before=$(hits)
        said=$(/uncopy bench send -4 -t 1 --json "$@" 2>&1)
        case $said in
        *'"sends":0,'*) ;;
        '{'*) break ;;
        *) echo "$name: $said"; sleep 1 ;;
        esac
    done
    echo "@@ $name $(($(hits) - before)) $said"
}
each device/msg-zerocopy tcp -D 10.12.0.1 -z
each device/ring tcp -D 10.12.0.1 --mode ring
each device/ring-registered tcp -D 10.12.0.1 --mode ring-registered
each device/udp udp -D 10.12.0.1 -s 1400 -z
each device/udp-ring udp -D 10.12.0.1 -s 1400 --mode ring
# Nobody may use io_uring, root included.
echo 2 > /proc/sys/kernel/io_uring_disabled
each forbidden/ring tcp -D 10.12.0.1 --mode ring
each forbidden/ring-registered tcp -D 10.12.0.1 --mode ring-registered
each forbidden/udp-ring udp -D 10.12.0.1 -s 1400 --mode ring
said=$(/uncopy capabilities --json 2>&1)
echo "@@ forbidden/capabilities $? $said"
echo 0 > /proc/sys/kernel/io_uring_disabled
each slirp/msg-zerocopy tcp -D 10.0.2.2 -z
/uncopy bench recv -4 tcp -t 20 > /dev/null &
sleep 1
each loopback/msg-zerocopy tcp -D 127.0.0.1 -z
echo 0 > /sys/kernel/tracing/events/kprobes/uncopy/enable
echo > /sys/kernel/tracing/kprobe_events

# NAME WORDS...: asks the doctor.
ask() {
    name=$1
    shift
    said=$(/uncopy doctor --json "$@" 2>/dev/null)
    echo "@@ doctor/$name $? $said"
}
# NAME: predicts, probes and measures what becomes of datagrams to the other network.
look() {
    ask "$1" --size 8000 udp://10.17.0.2:9
    ask "$1/probe" --probe-anyway --size 8000 udp://10.17.0.2:9
    said=$(/uncopy bench send -4 udp -D 10.17.0.2 -p 9 -s 8000 -t 0.3 --mode msg-zerocopy --json 2>&1)
    echo "@@ doctor/$1/measured $? $said"
}
# DEVICE: the other network is behind it, where nobody answers.
lead() {
    for device in eth0 bond1 eth0.5 br0 vx0; do
        ip address del 10.17.0.1/24 dev $device 2>/dev/null
    done
    ip link set "$1" up
    ip address add 10.17.0.1/24 dev "$1"
    ip neighbour replace 10.17.0.2 lladdr 02:00:00:00:00:02 dev "$1" nud permanent
}
held() {
    tcpdump -Z root -i eth0 -w /dev/null 2>/dev/null &
    tap=$!
    until grep -q ' 0003 ' /proc/net/packet; do sleep 0.1; done
}
let_go() {
    kill $tap
    wait $tap
}
ip link set eth0 mtu 9000
lead eth0
look plain

ip link add link eth0 name eth0.5 type vlan id 5
lead eth0.5
look vlan
held
look vlan-tapped
let_go
ip link del eth0.5

ip link add vx0 type vxlan id 5 remote 10.12.0.1 dstport 4789 dev eth0
lead vx0
look vxlan
ip link del vx0

ip link add bond1 type bond mode active-backup miimon 100
ip link set bond1 mtu 9000
ip link set eth0 down
ip link set eth0 master bond1
lead bond1
until grep -q up /sys/class/net/bond1/operstate; do sleep 0.1; done
look bond
ip link del bond1
ip link set eth0 up

ip link add br0 type bridge
ip link set br0 mtu 9000
ip link set eth0 master br0
lead br0
look bridge
ip link del br0
lead eth0
look plain-again

# Over TCP, to a receiver that greets; and with a tap held.
ask tcp --probe tcp://10.12.0.1:8000
held
ask tcp-tapped --probe tcp://10.12.0.1:8000

# What kprobes see of the tap while somebody sends, and of who sends alone.
/uncopy bench send -4 udp -D 10.17.0.2 -p 9 -s 8000 -t 60 -z > /dev/null 2>&1 &
sender=$!
ask kprobes-tapped --trace 1 --stacks udp://10.17.0.2:9
let_go
ask kprobes --trace 1 --stacks udp://10.17.0.2:9
kill $sender
wait $sender
probes() { grep -c skb_copy_ubufs /sys/kernel/debug/kprobes/list; }
before=$(probes)
(sleep 3; probes > /during) &
timeout -s INT 6 /uncopy doctor --trace 60 udp://10.17.0.2:9
echo "@@ doctor/interrupted $? {\"before\":$before,\"during\":$(cat /during),\"after\":$(probes)}"
user() {
    said=$(su -s /bin/sh nobody -c "/uncopy doctor --json --trace 0.5 udp://10.17.0.2:9" 2>&1)
    echo "@@ doctor/$1 $? $said"
}
echo 2 > /proc/sys/kernel/perf_event_paranoid
user not-allowed
echo 0 > /proc/sys/kernel/perf_event_paranoid
echo 0 > /proc/sys/kernel/kptr_restrict
user allowed-to-sample

# DEVICE NAME: copies within the filesystem on it. A short file goes by direct writes only from the page cache.
disk() {
    mount -t ext4 "$1" /mnt
    cat /mnt/source > /dev/null
    ask "$2" /mnt/source /mnt/copy -- --durable
    said=$(/uncopy cp --durable --json /mnt/source /mnt/copy 2>&1)
    echo "@@ doctor/$2/copied $? $said"
    rm /mnt/copy
    umount /mnt
}
mount -t ext4 /dev/vda /mnt
dd if=/dev/urandom of=/mnt/source bs=1M count=4 2>/dev/null
umount /mnt
dmsetup create --noudevsync --noudevrules linear \
    --table "0 $(cat /sys/block/vda/size) linear /dev/vda 0"
# Without udev nobody gives it a name.
disk /dev/dm-0 dm
dmsetup remove --noudevsync --noudevrules linear
disk /dev/vda disk

# NAME DIRECTORY: merges into it what has names that it folds.
count() { find "$1" -mindepth 1 | wc -l; }
merge() {
    /uncopy cp -rT --delete "$s/$1" "$d/$1" 2> /said
    code=$?
    refused=$(grep -c 'another entry of this copy has this name' /said)
}
fold() {
    s=/source d=$2
    rm -rf $s
    # Written otherwise by letters of ASCII behind another one, and by a dot at the end.
    mkdir -p $s/mirrored $d/mirrored
    echo new > $s/mirrored/Ölbild.jpg
    echo old > $d/mirrored/Ölbild.JPG
    echo new > $s/mirrored/2024.
    merge mirrored
    read=$(cat $d/mirrored/Ölbild.jpg $d/mirrored/2024. | tr -d '\n')
    echo "@@ folding/$1/mirrored $code {\"entries\":$(count $d/mirrored),\"refused\":$refused,\"read\":\"$read\"}"
    # The same by a plan and its units.
    mkdir -p $s/planned/Dir $d/planned/dir
    echo new | tee $s/planned/Foo > $s/planned/Dir/A
    echo old | tee $d/planned/foo $d/planned/stranger $d/planned/dir/other > $d/planned/dir/a
    rm -rf /plan
    /uncopy unit plan -q --delete $s/planned $d/planned --out /plan 2> /said
    code=$?
    for unit in /plan/units/*; do /uncopy unit run -q $unit 2>> /said || code=$?; done
    rm -r $d/planned/.uncopy-ledger
    read=$(cat $d/planned/Foo $d/planned/Dir/A | tr -d '\n')
    echo "@@ folding/$1/planned $code {\"entries\":$(count $d/planned),\"refused\":0,\"read\":\"$read\"}"
    # Two names for one entry, in a directory that is there, again, and with one of them left out.
    mkdir -p $s/doubled/D $s/doubled/d $d/doubled
    for name in Foo foo D/x d/y; do echo $name > $s/doubled/$name; done
    for again in 1 2 3; do
        merge doubled
        read=$(cat $(find $d/doubled -type f) | sort | tr '\n' ' ')
        echo "@@ folding/$1/doubled/$again $code {\"entries\":$(count $d/doubled),\"refused\":$refused,\"read\":\"$read\"}"
    done
    rm -r $s/doubled/D $s/doubled/Foo
    merge doubled
    read=$(cat $(find $d/doubled -type f) | sort | tr '\n' ' ')
    echo "@@ folding/$1/single $code {\"entries\":$(count $d/doubled),\"refused\":$refused,\"read\":\"$read\"}"
    # An accent that stands alone, and the sign of kelvins.
    mkdir -p $s/accents $d/accents
    for name in é $(printf 'e\314\201') k $(printf '\342\204\252'); do echo new > $s/accents/$name; done
    merge accents
    echo "@@ folding/$1/accents $code {\"entries\":$(count $d/accents),\"refused\":$refused,\"read\":\"\"}"
}
mkdir /fat /fold
truncate -s 40M /fat.img /fold.img
mkdosfs /fat.img > /dev/null && mount -t vfat -o loop,utf8=1 /fat.img /fat && fold vfat /fat
/sbin/mkfs.ext4 -q -O casefold -E encoding=utf8 /fold.img && mount -o loop /fold.img /fold
mkdir /fold/marked && /sbin/chattr +F /fold/marked && fold ext4 /fold/marked
echo "@@ end"
poweroff -f
