#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Measures redis-server with and without huge pages in its allocator (jemalloc), switched by
# `pagewise thp run`, and prints the table of docs/thp.md. No root. Changes no setting; needs 2 GiB
# of memory, redis-server and redis-tools.
#
#   service.sh PAGEWISE [PAIRS] [KEYS]
#
# For each pair two servers are started, one with --off and one with --on, and filled with KEYS
# values of 100 to 999 bytes. Each answers GET for random keys, in an order chosen at random for
# each pair: first with one request in flight on each of 50 connections, then with 16 pipelined. CPU
# time is that of the server. Ratios compare servers of the same pair; the interval is that of their
# median by order statistics.
set -euo pipefail

program=${1:?usage: service.sh PAGEWISE [PAIRS] [KEYS]}
pairs=${2:-9}
keys=${3:-1000000}
single=100000
piped=800000
first_port=17379
folder=$(mktemp -d)
servers=()

finish() {
	local pid
	for pid in ${servers[@]+"${servers[@]}"}; do kill "$pid" 2>/dev/null || true; done
	wait
	rm -r "$folder"
}
trap finish EXIT

cli() { # PORT COMMAND...
	redis-cli -h 127.0.0.1 -p "$1" "${@:2}"
}

pid_of() { # PORT
	cli "$1" info server 2>/dev/null | tr -d '\r' | sed -n 's/^process_id://p'
}

start() { # PORT SWITCH
	"$program" thp run "$2" --check 0 -- redis-server --port "$1" --bind 127.0.0.1 --save '' --appendonly no \
		--dir "$folder" >"$folder/log.$1" 2>&1 &
	servers+=($!)
	# Another server may already use the port: the process that answers must be ours.
	for _ in {1..100}; do
		[ "$(pid_of "$1")" != "${servers[-1]}" ] || return 0
		sleep 0.1
	done
	echo "service: our redis-server does not answer at port $1:" >&2
	cat "$folder/log.$1" >&2
	exit 1
}

fill() { # PORT
	cli "$1" eval "for i = 0, tonumber(ARGV[1]) - 1 do
		redis.call('SET', string.format('key:%012d', i), string.rep('x', 100 + i * 7919 % 900))
	end" 0 "$keys" >/dev/null
	[ "$(cli "$1" dbsize)" = "$keys" ]
}

# User and system CPU time of a server in microseconds.
cpu_of() { # PORT
	cli "$1" info cpu | tr -d '\r' |
		awk -F : '/^used_cpu_(sys|user):/ { sum += $2 } END { printf "%.0f\n", sum * 1e6 }'
}

# CPU time for each request in microseconds, and p99 in milliseconds.
measure() { # PORT REQUESTS OPTION...
	local before after p99
	before=$(cpu_of "$1")
	p99=$(redis-benchmark -h 127.0.0.1 -p "$1" -n "$2" -r "$keys" --csv "${@:3}" GET key:__rand_int__ |
		awk -F '","' 'NR == 2 { print $7 }')
	after=$(cpu_of "$1")
	awk "BEGIN { printf \"%.4f %s\", ($after - $before) / $2, $p99 }"
}

# The share of a server's anonymous memory in huge pages, in percent.
coverage() { # PORT
	awk '/^Anonymous:/ { all = $2 } /^AnonHugePages:/ { huge = $2 } END { printf "%.1f", 100 * huge / all }' \
		"/proc/$(pid_of "$1")/smaps_rollup"
}

stop() {
	local port
	for port in "$@"; do cli "$port" shutdown nosave >/dev/null 2>&1 || true; done
	wait
	servers=()
}

run_pair() {
	local off=$first_port on=$((first_port + 1)) port
	start "$off" --off
	start "$on" --on
	fill "$off"
	fill "$on"
	for port in $(shuf -e "$off" "$on"); do
		# The first requests warm up memory that was not used since filling.
		measure "$port" 20000 >/dev/null
		printf '%s %s %s %s\n' "$((port - first_port))" "$(measure "$port" "$single")" \
			"$(measure "$port" "$piped" -P 16)" "$(coverage "$port")"
	done
	stop "$off" "$on"
}

printf 'redis-server %s, %s keys, %s pairs, load %s' "$(redis-server --version | sed 's/.* v=\([^ ]*\).*/\1/')" \
	"$keys" "$pairs" "$(cut -d ' ' -f 1-3 /proc/loadavg)"
for ((pair = 1; pair <= pairs; pair++)); do
	run_pair >"$folder/pair.$pair"
done
printf ' before and %s after\n' "$(cut -d ' ' -f 1-3 /proc/loadavg)"

# Columns: 1 with (1) or without (0) huge pages, 2 CPU and 3 p99 of single requests, 4 and 5 of
# pipelined ones, 6 coverage.
sort_numbers() { sort --general-numeric-sort; }

median() { # COLUMN WITH
	cat "$folder"/pair.* | awk -v column="$1" -v with="$2" '$1 == with { print $column }' | sort_numbers |
		awk '{ value[NR] = $1 } END { print (value[int((NR + 1) / 2)] + value[int(NR / 2) + 1]) / 2 }'
}

ratio() { # COLUMN
	local file
	for file in "$folder"/pair.*; do
		awk -v column="$1" '{ value[$1] = $column } END { print value[1] / value[0] }' "$file"
	done | sort_numbers | awk '
		{ value[NR] = $1 }
		END {
			# The number of smallest and of largest ratios that a 95 % interval leaves
			# out.
			share = tail = 0.5 ^ NR
			for (out = 0; tail + share * (NR - out) / (out + 1) <= 0.025; out++) {
				share *= (NR - out) / (out + 1)
				tail += share
			}
			middle = (value[int((NR + 1) / 2)] + value[int(NR / 2) + 1]) / 2
			printf "%.3f (%.3f to %.3f)", middle, value[out + 1], value[NR - out]
		}'
}

row() { # NAME COLUMN FORMAT
	printf "| %s | $3 | $3 | %s |\n" "$1" "$(median "$2" 0)" "$(median "$2" 1)" "$(ratio "$2")"
}

echo '| GET of a random key | 4 KiB pages | huge pages | ratio |'
echo '|---|---|---|---|'
row 'CPU of a request, one at a time' 2 '%.2f µs'
row 'CPU of a request, 16 in a pipeline' 4 '%.3f µs'
row 'p99, one at a time' 3 '%.2f ms'
row 'p99, 16 in a pipeline' 5 '%.2f ms'
printf '| coverage | %.1f %% | %.1f %% | |\n' "$(median 6 0)" "$(median 6 1)"
