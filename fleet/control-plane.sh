#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Builds kube-apiserver, kube-controller-manager and etcd from the Go modules that control-plane/go.mod
# names, and prints the path of their folder. The folder is in the cache that all clones share
# (../xtask/scripts/cache.sh), named by a hash of the module files and of the compiler: it is built
# once, in about 10 to 25 minutes of CPU time, and needs the Go module proxy only then.
set -euo pipefail
umask 022

here=$(cd "$(dirname "$0")" && pwd)
. "$here/../xtask/scripts/cache.sh"

die() {
	printf 'control-plane: %s\n' "$@" >&2
	exit 1
}

# The compiler that Go itself installs is rarely in PATH of a service.
go=$(command -v go || echo /usr/local/go/bin/go)
[ -x "$go" ] || die "go is missing" "  next: install Go 1.25 or later and put it into PATH"

key() {
	"$go" env GOVERSION
	cat "$here/control-plane/go.mod" "$here/control-plane/go.sum" "$0"
}

folder=$(cache_folder control-plane)
entry=$folder/$(key | sha256sum | cut -c1-12)
part=$entry.part

build() { # NAME PACKAGE
	echo "control-plane: building $1" >&2
	# No symbols and no C: the programs are smaller, and run on each Linux. Nothing may change go.mod.
	local version
	version=$(cd "$here/control-plane" && "$go" list -m -f '{{.Version}}' k8s.io/kubernetes)
	(cd "$here/control-plane" && CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-buildvcs=false \
		nice -n 10 "$go" build -mod=readonly -trimpath -ldflags="-s -w -X k8s.io/component-base/version.gitVersion=$version" -o "$part/$1" "$2") ||
		die "$1 could not be built" "  next: see that the Go module proxy can be reached, and that the disk has 6 GB free"
}

# Waits for another run that builds the same programs.
exec 8>>"$entry.lock"
flock 8
if ! [ -e "$entry/complete" ]; then
	rm -rf "$part"
	mkdir -p "$part"
	build etcd go.etcd.io/etcd/server/v3
	build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
	build kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager
	touch "$part/complete"
	mv --no-target-directory "$part" "$entry"
fi
touch "$entry/complete"
echo "$entry"
