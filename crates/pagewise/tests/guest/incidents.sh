# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Makes a guest short of memory in the ways that CASES names, beside a `pagewise monitor`, and then asks
# `pagewise why`. The programs are scripts, because a script's process has its file's name.

# The monitor and this shell are what the guest needs: they are killed last. Programs are killed like any other.
echo -1000 > /proc/self/oom_score_adj
mkdir -p /rec
program() { printf '#!/bin/sh\necho 0 > /proc/self/oom_score_adj\n%s\n' "$2" > /bin/$1; chmod +x /bin/$1; }
awk_program() { printf '#!/bin/awk -f\n%s\n' "$2" > /bin/$1; chmod +x /bin/$1; }
awk_program leak 'BEGIN { for (at = 0; at < ARGV[1]; at++) { kept[at] = sprintf("%1048576d", at); system("sleep 0.1") } while (1) system("sleep 9") }'
awk_program burst 'BEGIN { for (at = 0; at < ARGV[1]; at++) kept[at] = sprintf("%1048576d", at); while (1) system("sleep 9") }'
# What is searched is read again: more than memory holds, so that each round swaps.
awk_program thrash 'BEGIN { for (at = 0; at < ARGV[1]; at++) kept[at] = sprintf("%1048576d", at); while (1) for (at in kept) found += index(kept[at], "none") }'
program one_of_many 'while :; do sleep 100; done'

# Waits until the record has so many more readings, for at most two minutes.
readings() { # NAME NUMBER
    more=$2; size=$(cat /rec/$1/* 2> /dev/null | wc -c); tries=0
    while [ $more -gt 0 ] && [ $tries -lt 240 ]; do
        sleep 0.5; tries=$((tries + 1)); now=$(cat /rec/$1/* 2> /dev/null | wc -c)
        [ "$now" = "$size" ] || { size=$now; more=$((more - 1)); }
    done
    [ $more = 0 ] || echo "no reading of $1 in two minutes" >&2
}
begin() {
    pagewise monitor --no-listen --record /rec/$1 2> /rec/$1.log & monitor=$!
    readings $1 2
}
end() {
    readings $1 2; kill $monitor; wait $monitor
    echo "== $1"; pagewise why --record /rec/$1 --worst --json; printf '\n-- %s\n' $?
    cat /rec/$1.log >&2; pagewise why --record /rec/$1 --worst >&2
    rm -r /rec/$1
}
# Starts a program that may be killed, in the background; its process is $!.
start() { ( echo 0 > /proc/self/oom_score_adj; exec "$@" ) & }
stop() { kill -9 $1 2> /dev/null; wait $1 2> /dev/null; }

for case in $CASES; do
    case $case in
    calm) begin calm; readings calm ${CALM:-2}; end calm ;;
    leak) begin leak; start leak 500; wait $!; end leak ;;
    burst) begin burst; start burst 500; wait $!; end burst ;;
    limit)
        mkdir /sys/fs/cgroup/app.service; echo 40M > /sys/fs/cgroup/app.service/memory.max
        begin limit
        ( echo 0 > /sys/fs/cgroup/app.service/cgroup.procs; echo 0 > /proc/self/oom_score_adj; exec leak 500 ) & wait $!
        end limit; rmdir /sys/fs/cgroup/app.service ;;
    swap)
        mkswap /dev/vda > /dev/null; begin swap; swapon /dev/vda
        start leak 500; wait $!; end swap; swapoff /dev/vda ;;
    zram)
        echo 24M > /sys/block/zram0/disksize; mkswap /dev/zram0 > /dev/null; begin zram; swapon /dev/zram0
        start leak 500; wait $!; end zram; swapoff /dev/zram0; echo 1 > /sys/block/zram0/reset ;;
    slab)
        mkdir /inodes; mount -t tmpfs -o nr_inodes=1000000 none /inodes; begin slab
        at=0
        while [ "$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)" -gt 16000 ]; do
            at=$((at + 1)); mkdir /inodes/$at
            ( cd /inodes/$at && seq 1000 | xargs touch )
        done
        # asking takes memory, too: first this is given back
        readings slab 2; umount /inodes; end slab ;;
    storm)
        begin storm; at=0
        while [ $at -lt 1200 ]; do start one_of_many; at=$((at + 1)); done
        readings storm 2; killall -9 one_of_many sleep 2> /dev/null; end storm ;;
    thrash)
        mkswap /dev/vdb > /dev/null; swapon /dev/vdb; begin thrash
        start thrash ${WORKING_SET:-190}; at=$!; readings thrash ${ROUNDS:-12}; end thrash; stop $at; swapoff /dev/vdb ;;
    esac
done
