# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A guest of `pagewise lab guest --userland systemd --count` with memcached and its libraries in /opt: for $DAYS simulated
# days, a client uses 1024 values each minute and writes 2048 others every two hours, while the agent proves its loop
# reclaim. On day 4 the agent is killed in the middle of a block; on days 6 and 7 the clock is set by three hours. A
# sample each ten minutes: time, what the agent says, memory and swap of the cgroup, RAM of zram, pages that were
# reclaimed and scanned (memory.stat), requests.
say() { name=$1; shift; echo "== $name"; "$@" 2>&1; printf '\n-- %s\n' $?; }
service=/system.slice/memcached.service
group=/sys/fs/cgroup$service
swapoff -a 2> /dev/null; echo 1 > /sys/block/zram0/reset 2>/dev/null
echo lz4 > /sys/block/zram0/comp_algorithm; echo 64M > /sys/block/zram0/disksize; mkswap /dev/zram0 > /dev/null; swapon /dev/zram0
echo y > /sys/kernel/mm/lru_gen/enabled
sysctl -q vm.stat_interval=600 || echo 600 > /proc/sys/vm/stat_interval
systemctl stop redis-server '*.timer'
date -s @$((20784 * 86400 - 5 * 3600)) > /dev/null
mkdir -p /run/web /etc/pagewise /out
chmod +x /opt/memcached
systemd-run --quiet --unit=memcached -p MemoryAccounting=yes -p CPUAccounting=yes --setenv=LD_LIBRARY_PATH=/opt /opt/memcached -u root -m 64 -t 1 -U 0 -l 127.0.0.1 -o no_lru_maintainer,no_lru_crawler
cat > /etc/pagewise/agent.toml <<T
[aging."/system.slice/systemd-journald.service"]
interval = "10m"
[reclaim."$service"]
idle_after = "20m"
interval = "2m"
[switchback.reclaim]
cgroup = "$service"
metric_file = "/run/web/served"
T
pagewise agent --check
cat > /client <<'T'
#!/bin/bash
mkfifo /run/web/never; exec 4<>/run/web/never
until exec 3<>/dev/tcp/127.0.0.1/11211; do read -t 1 <&4; done
value=$(printf '%0900d' 7)
fill() { for ((i = 0; i < 2048; i++)); do printf 'set %s:%s 0 0 900 noreply\r\n%s\r\n' $1 $i "${2}${value:${#2}}"; done; }
fill hot h > /run/web/hot; cat /run/web/hot >&3
requests=; for ((i = 0; i < 1024; i++)); do requests+="touch hot:$((i * 2)) 0 noreply"$'\r\n'; done
requests+=$'version\r\n'
served=0; echo $served > /run/web/served
while :; do
    read -t $((60 - EPOCHSECONDS % 60)) <&4
    minute=$((EPOCHSECONDS / 60))
    if [ $((minute % 120)) = 15 ]; then fill batch $minute > /run/web/batch; cat /run/web/batch >&3; fi
    printf '%s' "$requests" >&3; read -r answer <&3
    served=$((served + 1024)); echo $served > /run/web/served
    if [ $((minute % 10)) = 0 ]; then
        read -r current < $1/memory.current; read -r swap < $1/memory.swap.current
        while read -r key value2; do case $key in pgsteal) steal=$value2 ;; pgscan) scan=$value2 ;; esac; done < $1/memory.stat
        read -r x x used x < /sys/block/zram0/mm_stat
        text=; [ ! -e /run/pagewise/agent.json ] || read -r -d '' text < /run/pagewise/agent.json
        on=off; case $text in *'"is_on":true'*|*'"is_on": true'*) on=on ;; esac
        echo $EPOCHSECONDS $on $current $swap $used $steal $scan $served >> /run/web/samples
    fi
done
T
chmod +x /client
/client $group & client=$!
sleep 10
pagewise agent 2>> /tmp/said & agent=$!
day=0
blocks() { grep -o '"day"' /var/lib/pagewise/agent.switchback 2> /dev/null | wc -l; }
while [ $day -lt $DAYS ]; do
    case $day in
    3) sleep 30000; kill -9 $agent; wait $agent; echo "killed: $(blocks) blocks"; sleep 100; pagewise agent 2>> /tmp/said & agent=$!; sleep 10; echo "restarted: $(blocks) blocks"; sleep 56290 ;;
    5) sleep 30000; date -s @$(($(date +%s) + 10800)) > /dev/null; sleep 56400 ;;
    6) sleep 30000; date -s @$(($(date +%s) - 10800)) > /dev/null; sleep 56400 ;;
    *) sleep 86400 ;;
    esac
    day=$((day + 1)); read up idle < /proc/uptime
    echo "day $day: $(date -u '+%F %T'), up $up, idle $idle, agent $(cut -d' ' -f14,15 /proc/$agent/stat), client $(cut -d' ' -f14,15 /proc/$client/stat), $(grep usage $group/cpu.stat), $(blocks) blocks, said $(wc -l < /tmp/said)"
    cat /run/web/samples; : > /run/web/samples
    case $day in 5|11|15|20|21|25|30) say proof$day pagewise agent proof;; esac
    case $day in 2|7|11|21|30) say json$day pagewise agent proof --json; say said$day tail -200 /tmp/said; say log$day tail -5 /var/lib/pagewise/agent.log;; esac
done
say status pagewise agent status
say file cat /var/lib/pagewise/agent.switchback
