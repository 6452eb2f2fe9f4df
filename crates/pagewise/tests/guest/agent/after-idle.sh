# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A guest of `pagewise lab guest --userland systemd --count`: redis-server with 8192 hot and 24576 cold values of about
# 1 KiB; 100 requests each second. Prints, again and again: phase, time, requests, CPU time (µs) of the cgroup, page
# faults, major faults, refaults of anonymous memory, memory and swap of the cgroup, RAM of zram. The phases: without the
# agent, with it, 30 minutes without requests, requests again, 30 minutes without, requests for the cold values.
service=/system.slice/redis-server.service
group=/sys/fs/cgroup$service
echo y > /sys/kernel/mm/lru_gen/enabled
sysctl -q vm.stat_interval=600
systemctl stop '*.timer'
redis-cli config set hz 1 > /dev/null; redis-cli config set save '' > /dev/null
mkdir -p /run/web /etc/pagewise
printf '[reclaim."%s"]\n' $service > /etc/pagewise/agent.toml
cat /proc/swaps; cat /sys/block/zram0/comp_algorithm
cat > /client <<'T'
#!/bin/bash
group=$1
mkfifo /run/web/never; exec 4<>/run/web/never 3<>/dev/tcp/127.0.0.1/6379
load() { printf 'EVALSHA %s 0\r\n' $1 >&3; read -r answer <&3; }
hot=$(redis-cli script load 'local n = 0; for i = 1, 100 do n = n + #redis.call("get", "hot:" .. math.random(0, 8191)) end return n')
cold=$(redis-cli script load 'local n = 0; for i = 1, 100 do n = n + #redis.call("get", "cold:" .. math.random(0, 24575)) end return n')
for part in 0 1 2 3; do redis-cli eval "for i = $part * 2048, $part * 2048 + 2047 do redis.call('set', 'hot:' .. i, string.rep('h' .. i .. ':', 150)) end" 0 > /dev/null; done
for part in 0 1 2 3 4 5 6 7 8 9 10 11; do redis-cli eval "for i = $part * 2048, $part * 2048 + 2047 do redis.call('set', 'cold:' .. i, string.rep('c' .. i .. ':', 150)) end" 0 > /dev/null; done
requests=0
declare -A stat
show() {
    while read -r key value; do stat[$key]=$value; done < $group/memory.stat
    while read -r key value; do [ $key != usage_usec ] || cpu=$value; done < $group/cpu.stat
    read -r current < $group/memory.current; read -r swap < $group/memory.swap.current
    read -r x x used x < /sys/block/zram0/mm_stat
    echo "$1 $EPOCHSECONDS $requests $cpu ${stat[pgfault]} ${stat[pgmajfault]} ${stat[workingset_refault_anon]} $current $swap $used"
}
each() { # NAME SECONDS EVERY SCRIPT
    local second
    for ((second = 1; second <= $2; second++)); do
        read -t 1 <&4
        for script in $4; do load $script; requests=$((requests + 100)); done
        [ $((second % $3)) != 0 ] || show $1
    done
}
show start
each before 600 60 $hot
pagewise agent 2> /tmp/said & agent=$!
each reclaimed 2400 60 $hot
for i in 1 2 3; do read -t 600 <&4; show idle; done
each burst 30 1 $hot
each burst 300 30 $hot
for i in 1 2 3; do read -t 600 <&4; show idle; done
each cold 30 1 $cold
each cold 300 30 $cold
pagewise agent status
kill $agent
cat /tmp/said
T
chmod +x /client; /client $group
