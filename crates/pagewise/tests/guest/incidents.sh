# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Makes a guest short of memory in the ways that CASES names, one after the other, each beside its own
# `pagewise monitor`, and asks `pagewise why` after each. The programs are scripts, because a script's process has its
# file's name. With SHOW, `why` also prints its text.

# This shell is killed last. Programs are killed like any other.
echo -1000 > /proc/self/oom_score_adj
echo 1 > /proc/sys/vm/overcommit_memory
mkdir -p /rec
awk_program() { printf '#!/bin/awk -f\n%s\n' "$2" > /bin/$1; chmod +x /bin/$1; }
awk_program leak 'BEGIN { for (at = 0; at < ARGV[1]; at++) { kept[at] = sprintf("%1048576d", at); system("sleep 0.1") } while (1) system("sleep 99") }'
awk_program burst 'BEGIN { for (at = 0; at < ARGV[1]; at++) kept[at] = sprintf("%1048576d", at); while (1) system("sleep 99") }'
# What is searched is read again: more than memory holds, so that each round swaps.
awk_program thrash 'BEGIN { for (at = 0; at < ARGV[1]; at++) kept[at] = sprintf("%1048576d", at); while (1) for (at in kept) found += index(kept[at], "none") }'
# Takes 1 MiB and waits at a pipe that nobody writes to.
mkfifo /never
awk_program one_of_many 'BEGIN { kept = sprintf("%1048576d", 1); getline < "/never" }'

# What the unit gives the monitor: memory that is not reclaimed, no swap, a low OOM score. The root file
# system is tmpfs, whose pages may be swapped, so the program is first copied to a ramfs.
mkdir /program /sys/fs/cgroup/monitor
mount -t ramfs none /program
cp "$(command -v pagewise)" /program/pagewise
echo 20M > /sys/fs/cgroup/monitor/memory.min
echo 0 > /sys/fs/cgroup/monitor/memory.swap.max

# Waits until the record has so many more readings, for at most two minutes.
readings() { # NAME NUMBER
    more=$2; size=$(cat /rec/$1/*.ring 2> /dev/null | wc -c); tries=0
    while [ $more -gt 0 ] && [ $tries -lt 120 ]; do
        sleep 1; tries=$((tries + 1)); now=$(cat /rec/$1/*.ring 2> /dev/null | wc -c)
        [ "$now" = "$size" ] || { size=$now; more=$((more - 1)); }
    done
    [ $more = 0 ] || echo "no reading of $1 in two minutes" >&2
}
monitor() {
    echo 0 > /sys/fs/cgroup/monitor/cgroup.procs
    echo -900 > /proc/self/oom_score_adj
    exec /program/pagewise monitor --no-listen --record /rec/$1
}
begin() { ( monitor $1 ) 2> /rec/$1.log & monitor=$!; readings $1 2; }
end() {
    readings $1 2
    awk -v name=$1 '{ print name ": " ($14 + $15) / 100 " s of CPU time for the monitor" }' /proc/$monitor/stat >&2
    kill $monitor; wait $monitor
    echo "== $1"; /program/pagewise why --record /rec/$1 --worst --json; printf '\n-- %s\n' $?
    cat /rec/$1.log >&2
    [ -z "$SHOW" ] || /program/pagewise why --record /rec/$1 --worst >&2
    rm -r /rec/$1
}
# Starts a program that may be killed, in the background; its process is $!.
start() { ( echo 0 > /proc/self/oom_score_adj; exec "$@" ) & }
kills() { awk '/^oom_kill / { print $2 }' /proc/vmstat; }
stop() { kill -9 $1 2> /dev/null; wait $1 2> /dev/null; }
# A disk in memory that takes 0.1 ms for each request, of so many MiB. All of it is allocated now.
disk() { # NAME MEBIBYTES
    grep -q configfs /proc/mounts || mount -t configfs none /sys/kernel/config
    at=/sys/kernel/config/nullb/$1; mkdir $at
    echo $2 > $at/size; echo 1 > $at/memory_backed; echo 2 > $at/irqmode; echo 100000 > $at/completion_nsec
    echo 0 > $at/discard; echo 1 > $at/power
    # older kernels name the device by its number
    disk=/dev/$1; [ -b $disk ] || disk=/dev/nullb$(cat $at/index)
    dd if=/dev/zero of=$disk bs=1M count=$2 2> /dev/null; mkswap $disk > /dev/null
}
remove_disk() { swapoff $disk; echo 0 > /sys/kernel/config/nullb/$1/power; rmdir /sys/kernel/config/nullb/$1; }

# What a quiet machine does: each minute a cron job with a few processes, every ten minutes the files of all packages
# are read, and every quarter of an hour something is built that takes 40 MiB for some seconds.
work() {
    minute=0
    while :; do
        sleep 60; minute=$((minute + 1))
        ls -R /sys/block /proc/sys > /tmp/listed; sort /tmp/listed | gzip | wc -c > /tmp/size
        [ $((minute % 10)) != 0 ] || find / -xdev -type f -exec cat {} + | md5sum > /tmp/sum
        [ $((minute % 15)) != 0 ] || awk 'BEGIN { for (at = 0; at < 40; at++) { kept[at] = sprintf("%1048576d", at); system("sleep 0.2") } }'
    done
}

for case in $CASES; do
    case $case in
    calm)
        begin calm; readings calm 2; end calm; hour=0
        while [ $hour -lt ${HOURS:-0} ]; do
            hour=$((hour + 1)); begin calm-$hour
            # every second hour a little work: what cron does each minute, a package manager's reading, a small build
            [ $((hour % 2)) = 1 ] || work & busy=$!
            sleep ${SECONDS_OF_HOUR:-3600}; stop $busy; end calm-$hour
        done ;;
    leak) begin leak; start leak 900; wait $!; end leak ;;
    burst) begin burst; start burst 900; wait $!; end burst ;;
    limit)
        mkdir /sys/fs/cgroup/app.service; echo 40M > /sys/fs/cgroup/app.service/memory.max
        begin limit
        ( echo 0 > /sys/fs/cgroup/app.service/cgroup.procs; echo 0 > /proc/self/oom_score_adj; exec leak 900 ) & wait $!
        end limit; rmdir /sys/fs/cgroup/app.service ;;
    swap) disk swap 64; begin swap; swapon $disk; start leak 900; wait $!; end swap; remove_disk swap ;;
    zram)
        echo 24M > /sys/block/zram0/disksize; mkswap /dev/zram0 > /dev/null; begin zram; swapon /dev/zram0
        start leak 900; wait $!; end zram; swapoff /dev/zram0; echo 1 > /sys/block/zram0/reset ;;
    slab)
        mkdir -p /inodes; mount -t tmpfs -o nr_inodes=9000000 none /inodes; begin slab
        # names of files in tmpfs count as reclaimable, so that MemAvailable is too high: MemFree says how much is left
        at=0
        while [ "$(awk '/^MemFree/ { print $2 }' /proc/meminfo)" -gt 50000 ] && [ $at -lt 900 ]; do
            at=$((at + 1)); mkdir /inodes/$at
            ( echo 0 > /proc/self/oom_score_adj; cd /inodes/$at && seq 1000 | xargs touch )
        done
        # an ordinary program does not get its memory any more; before asking, which takes memory, too, it is given back
        start burst 80; wait $!; readings slab 2; umount /inodes; end slab ;;
    storm)
        begin storm; at=0; before=$(kills)
        while [ "$(kills)" = "$before" ] && [ $at -lt 900 ]; do
            at=$((at + 10)); for each in 1 2 3 4 5 6 7 8 9 10; do start one_of_many; done
        done
        readings storm 2; killall -9 one_of_many 2> /dev/null; end storm ;;
    thp)
        # one byte in each huge page: with 4 KiB pages this would be 1 MiB
        begin thp; echo always > /sys/kernel/mm/transparent_hugepage/enabled
        start /hold 600 sparse still < /dev/null > /held; at=$!; tries=0
        until grep -q held /held || [ $tries -ge 60 ]; do sleep 0.5; tries=$((tries + 1)); done
        # then there is no memory left for an ordinary program
        start burst 300; wait $!; readings thp 2; stop $at
        echo madvise > /sys/kernel/mm/transparent_hugepage/enabled; end thp ;;
    thrash)
        disk thrash 128; begin thrash; swapon $disk
        start thrash $(($(awk '/^MemAvailable/ { print $2 }' /proc/meminfo) / 1024 + 40)); at=$!
        readings thrash ${ROUNDS:-20}; stop $at; end thrash; remove_disk thrash ;;
    esac
done
