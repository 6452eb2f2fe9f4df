#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Tests the rules and dashboards in packaging/prometheus with Prometheus of Debian 12, which is unpacked in the
# cache (debian-suite.sh) and never installed: prometheus.sh PROGRAM
#
# promtool checks the rules, and runs them on planted incidents (crates/metrics/tests/rules.test.yml). Then a
# Prometheus with its data in a temporary folder scrapes a `pagewise monitor`, both on loopback, and executes every
# query of the dashboards and loads the rules. A query may have no value, as not every machine has zram, but no
# error. No Grafana is run.
set -euo pipefail
umask 022
cd "$(dirname "$0")/../.."

die() {
	printf 'prometheus: %s\n' "$@" >&2
	exit 1
}
[ $# = 1 ] && [ -x "$1" ] || die "usage: prometheus.sh PROGRAM"
program=$(realpath "$1")
rules=packaging/prometheus/pagewise.rules.yml

root=$(xtask/scripts/debian-suite.sh bookworm prometheus --alone prometheus)/root
bin=$root/usr/bin
"$bin/promtool" check rules "$rules"
"$bin/promtool" test rules crates/metrics/tests/rules.test.yml

work=$(mktemp -d)
started=()
clean() {
	[ ${#started[@]} = 0 ] || kill "${started[@]}" 2>/dev/null || :
	wait
	rm -rf "$work"
}
trap clean EXIT

# Waits until a command succeeds, for at most two minutes.
until_true() { # WHAT COMMAND...
	local what=$1 tries=0
	shift
	until "$@" >/dev/null 2>&1; do
		tries=$((tries + 1))
		[ $tries -lt 600 ] || { cat "$work"/*.log >&2; die "no $what within two minutes"; }
		sleep 0.2
	done
}

# The kernel chooses the port of the monitor, which prints it.
"$program" monitor --no-record --listen 127.0.0.1:0 2>"$work/monitor.log" &
started+=($!)
until_true "monitor" grep --quiet http:// "$work/monitor.log"
target=$(sed -n 's|.*http://\([^/]*\)/.*|\1|p' "$work/monitor.log")

cat >"$work/prometheus.yml" <<-END
	global: { scrape_interval: 1s, evaluation_interval: 1s }
	rule_files: ["$PWD/$rules"]
	scrape_configs:
	  - job_name: pagewise
	    static_configs: [{ targets: ["$target"] }]
END
# A port of its own: Prometheus cannot print one that the kernel chose. If it is taken, the next one is tried.
for port in $(shuf --input-range=20000-29999 --head-count=5); do
	"$bin/prometheus" --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/data" \
		--web.listen-address="127.0.0.1:$port" --web.console.templates="$work" --web.console.libraries="$work" \
		>"$work/prometheus.log" 2>&1 &
	server=$!
	while kill -0 $server 2>/dev/null && ! grep --quiet 'Server is ready' "$work/prometheus.log"; do sleep 0.2; done
	kill -0 $server 2>/dev/null && { started+=($server); break; }
	server=
done
[ -n "${server:-}" ] || { cat "$work/prometheus.log" >&2; die "Prometheus did not start"; }

ask() { # QUERY
	"$bin/promtool" query instant "http://127.0.0.1:$port" "$1"
}
has_value() {
	[ -n "$(ask "$1")" ]
}
until_true "scraped value" has_value 'pagewise_verdict_level == pagewise_verdict_level offset 3s'
until_true "recorded value" has_value 'pagewise:pressure_memory_waiting:ratio_rate5m'

queries=0 values=0
while read -r query; do
	queries=$((queries + 1))
	answer=$(ask "$query") || die "a dashboard's query is refused: $query"
	[ -z "$answer" ] || values=$((values + 1))
done <packaging/prometheus/queries.txt
[ $queries -gt 0 ] && [ $values -gt 0 ] || die "$queries queries, $values with a value"
echo "prometheus: $queries queries of the dashboards executed, $values with a value on this machine"
