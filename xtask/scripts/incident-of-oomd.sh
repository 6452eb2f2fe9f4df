#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A kill by a real systemd-oomd in a guest with systemd, beside `pagewise monitor`: prints what `pagewise why` says of it.
#
#   incident-of-oomd.sh [KERNEL...]     without arguments: bookworm trixie sid
#
# By hand, because a guest with systemd takes minutes without KVM. The program is that of PAGEWISE_STATIC, or else the
# one that build-static.sh --quick builds. systemd-oomd comes from Debian's package, of the release of the userland.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
package=$("$here/debian-suite.sh" trixie oomd --alone systemd-oomd)/root
program=${PAGEWISE_STATIC:-$("$here/build-static.sh" --quick --where)}

inside=$(cat <<'SCRIPT'
set -e
mkdir -p /etc/systemd
printf '[OOM]\nDefaultMemoryPressureLimit=5%%\nDefaultMemoryPressureDurationSec=2s\n' > /etc/systemd/oomd.conf
printf '#!/usr/bin/perl\nwhile (1) { push @kept, "x" x 1048576; select undef, undef, undef, 0.1 }\n' > /root/leak
chmod +x /root/leak /root/systemd-oomd
systemd-run --quiet --unit=systemd-oomd.service /root/systemd-oomd
systemd-run --quiet --unit=monitor.service -p MemoryMin=20M -p MemorySwapMax=0 -p OOMScoreAdjust=-900 \
	"$(command -v pagewise)" monitor --no-listen --record /root/record
readings() { cat /root/record/*.index 2> /dev/null | wc -c; }
# frames of an index have 32 bytes: at least two readings before the incident
for second in $(seq 120); do [ "$(readings)" -ge 72 ] && break; sleep 1; done
systemd-run --quiet --unit=app.service -p MemoryHigh=60M -p ManagedOOMMemoryPressure=kill /root/leak
for second in $(seq 180); do systemctl is-active --quiet app.service || break; sleep 1; done
journalctl --no-pager --quiet -u systemd-oomd.service | tail -n 5
# the monitor reads journald's files once a minute
for second in $(seq 20); do
	pagewise why --record /root/record --worst | grep -q 'killed by systemd-oomd' && break
	sleep 10
done
pagewise why --record /root/record --worst
SCRIPT
)

for kernel in "${@:-bookworm trixie sid}"; do
	for each in $kernel; do
		echo "== $each"
		"$program" lab guest --now --userland systemd --kernel "$each" --memory 384M --deadline 20m \
			--file "$package/usr/lib/systemd/systemd-oomd" -- sh -c "$inside" || true
	done
done
