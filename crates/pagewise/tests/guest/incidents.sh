# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Makes a guest short of memory in the ways that CASES names, one after the other, each beside its own
# `pagewise monitor`, and asks `pagewise why` after each. The programs are scripts, because a script's process has its
# file's name. With SHOW, `why` also prints its text; with KEEP, the records are left in /out.

# Sizes in MiB, speeds and numbers that a variation may change:
: ${PAUSE:=0.1}  # seconds between two MiB of a leak
: ${LIMIT:=40} ${SWAP:=64} ${ZRAM:=24}
: ${EACH:=1} ${AT_ONCE:=10}  # of a storm: the size of a process, and how many start together
: ${HUGE:=600} ${BURST:=300}  # huge pages with one used byte each, and the program that then needs memory
: ${OVER:=40}  # by how much the memory that is read again and again exceeds what is available

echo 1 > /proc/sys/vm/overcommit_memory
mkdir -p /rec
awk_program() { printf '#!/bin/awk -f\n%s\n' "$2" > /bin/$1; chmod +x /bin/$1; }
awk_program leak 'BEGIN { for (at = 0; at < ARGV[1]; at++) { kept[at] = sprintf("%1048576d", at); system("sleep " ENVIRON["PAUSE"]) } while (1) system("sleep 99") }'
export PAUSE EACH
cp /bin/leak /bin/second_leak
awk_program burst 'BEGIN { for (at = 0; at < ARGV[1]; at++) kept[at] = sprintf("%1048576d", at); while (1) system("sleep 99") }'
# What is searched is read again: more than memory holds, so that each round swaps.
awk_program thrash 'BEGIN { for (at = 0; at < ARGV[1]; at++) kept[at] = sprintf("%1048576d", at); while (1) for (at in kept) found += index(kept[at], "none") }'
# Takes EACH MiB and waits at a pipe that nobody writes to.
mkfifo /never
awk_program one_of_many 'BEGIN { for (at = 0; at < ENVIRON["EACH"]; at++) kept[at] = sprintf("%1048576d", at); getline < "/never" }'

# What the unit gives the monitor: memory that is not reclaimed, no swap, a low OOM score. The root file
# system is tmpfs, whose pages may be swapped, so the program is first copied to a ramfs.
mkdir -p /program /sys/fs/cgroup/monitor
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
# After ten minutes, neither the kills nor the waiting of the incident before matter. The clock skips idle time.
begin() {
    [ -z "$begun" ] || sleep ${CALM_BEFORE:-660}
    begun=yes; ( monitor $1 ) 2> /rec/$1.log & monitor=$!; readings $1 2
}
# Ends the monitor and asks for the worst time, and for these times: `why` judges 20 minutes before a time and 10 minutes
# after it.
end() { # NAME [TIME]...
    readings $1 2
    awk -v name=$1 '{ print name ": " ($14 + $15) / 100 " s of CPU time for the monitor" }' /proc/$monitor/stat >&2
    kill $monitor; wait $monitor
    echo "== $1"; /program/pagewise why --record /rec/$1 --worst --json; printf '\n-- %s\n' $?
    cat /rec/$1.log >&2; name=$1; shift
    for time; do echo "== $name-at-$time"; /program/pagewise why --record /rec/$name "$time" --json; printf '\n-- %s\n' $?; done
    set -- $name
    [ -z "$SHOW" ] || /program/pagewise why --record /rec/$1 --worst >&2
    if [ -n "$KEEP" ]; then mkdir -p /out; mv /rec/$1 /out/$1; else rm -r /rec/$1; fi
}
# Starts a program that may be killed, in the background; its process is $!.
groups=/sys/fs/cgroup
remove_group() {
    echo 1 > $groups/$1/cgroup.kill; tries=0
    until find $groups/$1 -depth -type d -exec rmdir {} + 2> /dev/null || [ $tries -gt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
}
start_in() { ( echo 0 > $groups/$1/cgroup.procs; shift; echo 0 > /proc/self/oom_score_adj; exec "$@" ) & }
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
    # This shell is killed last, programs like any other. The guest's process 1 sets 0 after it has started this shell.
    echo -1000 > /proc/$$/oom_score_adj
    case $case in
    calm)
        begin calm; readings calm 2; end calm; hour=0
        while [ $hour -lt ${HOURS:-0} ]; do
            hour=$((hour + 1)); begin calm-$hour
            # every second hour a little work: what cron does each minute, a package manager's reading, a small build
            [ $((hour % 2)) = 1 ] || work & busy=$!
            sleep 1199; first=$(date -u '+%F %T'); sleep 1800; second=$(date -u '+%F %T'); sleep 601
            stop $busy; end calm-$hour "$first" "$second"
        done ;;
    leak) begin leak; start leak 900; wait $!; end leak ;;
    burst) begin burst; start burst 900; wait $!; end burst ;;
    # two programs leak at the same time
    leaks) begin leaks; start leak 900; first=$!; start second_leak 900; second=$!; wait $first; stop $second; end leaks ;;
    limit)
        mkdir $groups/app.service; echo ${LIMIT}M > $groups/app.service/memory.max
        [ -z "$HIGH" ] || echo ${HIGH}M > $groups/app.service/memory.high
        begin limit; start_in app.service leak 900; wait $!; end limit; remove_group app.service ;;
    # the limit is that of the slice, in which another service is well
    nested)
        mkdir $groups/app.slice; echo +memory > $groups/app.slice/cgroup.subtree_control
        mkdir $groups/app.slice/app.service $groups/app.slice/other.service
        echo ${LIMIT}M > $groups/app.slice/memory.max
        start_in app.slice/other.service burst 5
        begin nested; start_in app.slice/app.service leak 900; wait $!; end nested
        remove_group app.slice ;;
    # memory.high without memory.max slows the program down; nothing is killed
    high)
        mkdir $groups/app.service; echo ${LIMIT}M > $groups/app.service/memory.high
        begin high; start_in app.service leak 900; at=$!; readings high ${ROUNDS:-20}; stop $at; end high
        remove_group app.service ;;
    swap) disk swap $SWAP; begin swap; swapon $disk; start leak 900; wait $!; end swap; remove_disk swap ;;
    zram)
        echo ${ZRAM}M > /sys/block/zram0/disksize; mkswap /dev/zram0 > /dev/null; begin zram; swapon /dev/zram0
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
            at=$((at + AT_ONCE)); each=0; while [ $each -lt $AT_ONCE ]; do each=$((each + 1)); start one_of_many; done
        done
        readings storm 2; killall -9 one_of_many 2> /dev/null; end storm ;;
    thp)
        # one byte in each huge page: with 4 KiB pages this would be 1 MiB
        begin thp; echo always > /sys/kernel/mm/transparent_hugepage/enabled
        start /hold $HUGE sparse still < /dev/null > /held; at=$!; tries=0
        until grep -q held /held || [ $tries -ge 60 ]; do sleep 0.5; tries=$((tries + 1)); done
        # then there is no memory left for an ordinary program
        start burst $BURST; wait $!; readings thp 2; stop $at
        echo madvise > /sys/kernel/mm/transparent_hugepage/enabled; end thp ;;
    # earlyoom, a program that kills before the kernel does; the monitor reads such messages once a minute. This shell
    # writes them with a time and a tag, as rsyslog does.
    killer)
        [ -x /earlyoom ] || continue
        mkdir -p /var/log; mkfifo /messages; /earlyoom > /messages 2>&1 & killer=$!
        while read -r line; do echo "$(date -u +%Y-%m-%dT%H:%M:%S+00:00) guest earlyoom[$killer]: $line"; done \
            < /messages >> /var/log/syslog & log=$!
        begin killer; start leak 900; wait $!; readings killer 2; sleep 70; end killer
        [ -z "$SHOW" ] || cat /var/log/syslog >&2
        stop $killer; stop $log; rm /messages ;;
    # from 02:00 on a busy database and what cron does; at 03:10 a backup starts that leaks
    night)
        date -s "${DAY:-2026-11-28} 02:00:00" > /dev/null; CALM_BEFORE=0
        cp /bin/leak /bin/backup; cp /bin/burst /bin/database; mkdir -p /out $groups/database.service $groups/backup.service
        echo ${ZRAM}M > /sys/block/zram0/disksize; mkswap /dev/zram0 > /dev/null; swapon /dev/zram0
        start_in database.service database ${DATABASE:-90}; database=$!
        begin night; work & busy=$!
        sleep 4200; start_in backup.service backup 900; wait $!
        sleep ${AFTERWARDS:-2700}; stop $busy; stop $database; cp -r /rec/night /out/record
        pagewise why --record /rec/night 03:12 > /out/why.txt; pagewise why --record /rec/night 03:12 --html /out/why.html
        end night; swapoff /dev/zram0; echo 1 > /sys/block/zram0/reset; remove_group backup.service; remove_group database.service ;;
    thrash)
        disk thrash 128; begin thrash; swapon $disk
        start thrash $(($(awk '/^MemAvailable/ { print $2 }' /proc/meminfo) / 1024 + OVER)); at=$!
        readings thrash ${ROUNDS:-20}; stop $at; end thrash; remove_disk thrash ;;
    esac
done
