#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Records Debian's kernels in various memory states below fixtures/hosts, for the tests:
#
#   capture-guests.sh [SLUG…]     all, or these of the list below; PROGRAM and HOLD are the static pagewise
#                                 and its example `hold` to use, else those of `make build`
#
# Each state is recorded in its own guest, which runs guest-state.sh; nothing on this machine is
# changed, and root is not needed. Kernels come from `pagewise lab cache`, so the suites' current
# kernels are recorded.
set -euo pipefail

cd "$(dirname "$0")/../.."
hosts=fixtures/hosts

# Suite; slug without the state; state; size of a disk, or one of two words: systemd (a guest that
# runs systemd), nodes (512 MiB in two NUMA nodes, with numactl of this machine).
recordings() {
	cat <<-LIST
		bookworm debian-bookworm-6.1-x86_64-512m zram-pressure
		bookworm debian-bookworm-6.1-x86_64-512m zram-behind-disk 48M
		bookworm debian-bookworm-6.1-x86_64-1g thp
		trixie debian-trixie-6.12-x86_64-512m zram-pressure-no-mglru
		trixie debian-trixie-6.12-x86_64-512m swap-off 64M
		trixie debian-trixie-6.12-x86_64-512m mglru-cgroup 64M
		trixie debian-trixie-6.12-x86_64-1g thp
		trixie debian-trixie-6.12-x86_64-512m kernel-slab
		trixie debian-trixie-6.12-x86_64-512m page-tables
		trixie debian-trixie-6.12-x86_64-1g commit-limit
		trixie debian-trixie-6.12-x86_64-512m tmpfs-full
		trixie debian-trixie-6.12-x86_64-512m deleted-file
		trixie debian-trixie-6.12-x86_64-512m ksm-loss systemd
		trixie debian-trixie-6.12-x86_64-512m settings systemd
		sid debian-sid-7.2-x86_64-512m zram-pressure
		sid debian-sid-7.2-x86_64-512m zram-full
		sid debian-sid-7.2-x86_64-512m zswap-zram
		bookworm debian-bookworm-6.1-x86_64-256m oom-host
		bookworm debian-bookworm-6.1-x86_64-256m oom-limit
		bookworm debian-bookworm-6.1-x86_64-256m oom-group
		bookworm debian-bookworm-6.1-x86_64-256m oom-unkillable
		trixie debian-trixie-6.12-x86_64-256m oom-host
		trixie debian-trixie-6.12-x86_64-256m oom-limit
		trixie debian-trixie-6.12-x86_64-256m oom-zram-full
		trixie debian-trixie-6.12-x86_64-256m oom-unkillable
		trixie debian-trixie-6.12-x86_64-512m oom-cpuset nodes
		trixie debian-trixie-6.12-x86_64-512m oom-policy nodes
		sid debian-sid-7.2-x86_64-256m oom-host
		sid debian-sid-7.2-x86_64-256m oom-limit
		sid debian-sid-7.2-x86_64-256m oom-group
	LIST
}

program=${PROGRAM:-$(xtask/scripts/build-static.sh --where)}
hold=${HOLD:-$(dirname "$program")/examples/hold}
[ -n "${HOLD-}" ] || xtask/scripts/build-static.sh --package pagewise --example hold

ours=(--file "$hold:/hold" --file xtask/scripts/guest-state.sh:/state)
# swapon of util-linux with its libraries, because that of busybox cannot set a priority.
files=("${ours[@]}")

# A program of this machine with its libraries, as arguments of --file.
with_libraries() {
	local file
	for file in "$1" $(ldd "$1" | grep --only-matching '/[^ ]*'); do
		printf '%s\n' --file "$(readlink --canonicalize "$file"):$file"
	done
}
mapfile -t -O "${#files[@]}" files < <(with_libraries /sbin/swapon)

# A QEMU whose guests have two NUMA nodes. Debian's kernels cannot emulate nodes (CONFIG_NUMA_EMU is
# off), and `lab guest` has no option for them.
nodes=$(mktemp --directory)
trap 'rm -rf "$nodes"' EXIT
qemu=$(command -v qemu-system-x86_64)
cat >"$nodes/qemu-system-x86_64" <<-SH
	#!/bin/sh
	exec $qemu "\$@" -object memory-backend-ram,id=one,size=256M -object memory-backend-ram,id=two,size=256M \
		-numa node,nodeid=0,cpus=0-1,memdev=one -numa node,nodeid=1,memdev=two
SH
chmod 755 "$nodes" "$nodes/qemu-system-x86_64"

capture() {
	local suite=$1 machine=$2 state=$3 with=("${files[@]}") search=$PATH
	case ${4-} in
	'') ;;
	systemd) with=(--userland systemd "${ours[@]}") ;;
	nodes)
		mapfile -t with < <(with_libraries /usr/bin/numactl)
		with+=("${ours[@]}" --cpus 2)
		search=$nodes:$PATH
		;;
	*) with+=("--disk=$4") ;;
	esac
	local folder=$hosts/$machine-$state memory=${machine##*-}
	rm -rf "$folder" "$folder.tar"
	PATH=$search "$program" lab guest --quiet --kernel "$suite" --memory "${memory^^}" \
		"${with[@]}" --out "$folder" -- sh /state "$state" >/dev/null
	echo "$folder: $(find "$folder" -type f | wc -l) files," \
		"$("$program" doctor --root "$folder" | grep --count '^[A-Z]') findings"
}

recordings | while read -r suite machine state disk; do
	if [ $# = 0 ] || [[ " $* " == *" $machine-$state "* ]]; then
		capture "$suite" "$machine" "$state" "$disk" </dev/null
	fi
done
cargo xtask fixture pack
