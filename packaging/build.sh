#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Builds packages into target/packages, or into $PACKAGES: build.sh [KIND...] (default: deb rpm tar recipes)
#
#   deb  pagewise, pagewise-zmerge-dkms, libhugepool0, libhugepool-coverage0, libhugepool-dev
#   rpm  pagewise
#   tar  pagewise, with install.sh and uninstall.sh
#   recipes  for AUR and Alpine, with the version filled in
#   deb-program  only the first of deb, for tests
#
# The program is the one that `make build` makes, or $PAGEWISE_PROGRAM. The same program and commit give
# the same bytes: files have the time of the commit ($SOURCE_DATE_EPOCH) and belong to root.
# PACKAGE_REVISION is the number of the packaging of this version (default 1); MAINTAINER is who
# answers for the packages, as `Name <address>`; DEB_COMPRESSION has options of dpkg-deb, as -Zgzip -z1.
set -euo pipefail
. "$(dirname "$0")/common.sh"
[ $# -gt 0 ] || set -- deb rpm tar recipes

export SOURCE_DATE_EPOCH
maintainer=${MAINTAINER:-Pagewise maintainers <maintainers@pagewise.invalid>}
packages=$(realpath --canonicalize-missing "${PACKAGES:-$target/packages}")
# What an administrator can enable: timers, and services without one.
units=$(grep -l '^\[Install\]' packaging/systemd/* | xargs -n 1 basename | xargs)
day=$(date --utc --date="@$SOURCE_DATE_EPOCH" '+%a %b %d %Y')
zmerge=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' kernel/zmerge/dkms.conf)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sed '1,/^$/d' packaging/removal.sh >"$work/removal"

# Prints a script of a package with the functions of removal.sh and the names of the units.
filled() { # FILE
	sed -e '/^@REMOVAL@$/{
		r '"$work/removal"'
		d
	}' -e "s/@UNITS@/$units/; s/@MAINTAINER@/$maintainer/; s/@VERSION@/$version/g; s/@REVISION@/$revision/; s/@DATE@/$day/; s/@ZMERGE@/$zmerge/g" "$1"
}

# All files are as old as the commit, whoever made them when.
set_times() { # FOLDER
	find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}

# zmerge as DKMS builds it: /usr/src/zmerge-VERSION
stage_zmerge() { # FOLDER
	mkdir -p "$1/usr/src/zmerge-$zmerge"
	cp --recursive --no-preserve=mode,ownership kernel/zmerge/{Makefile,Kbuild,dkms.conf,core,glue,probe} \
		"$1/usr/src/zmerge-$zmerge/"
	find "$1" \( -name '*.o' -o -name '*.ko' -o -name '*.mod*' -o -name '.*.cmd' \) -delete
	# after the installation of a kernel or its headers, instead of DKMS's own hook, which fails if one does not fit
	for hook in postinst.d header_postinst.d; do
		install -D --mode=755 kernel/zmerge/dkms-hook.sh "$1/etc/kernel/$hook/pagewise-zmerge"
	done
	install -D --mode=644 --target-directory="$1/usr/share/doc/pagewise-zmerge-dkms" kernel/zmerge/{README.md,ABI}
	cat >"$1/usr/share/doc/pagewise-zmerge-dkms/copyright" <<-END
		zmerge is a part of Pagewise. $(grep '^Copyright' LICENSE-MIT)

		It is licensed under the GNU General Public License, version 2 only, whose text is in
		/usr/share/common-licenses/GPL-2 on Debian systems.
	END
}

# Both libraries, their headers and files for pkg-config, installed once and divided into packages.
stage_hugepool() { # FOLDER LIBDIR
	local all=$1/hugepool package
	DESTDIR=$all LIBDIR=$2 crates/hugepool/install.sh /usr
	# names and lines of Rust's standard library, which are most of each
	strip --strip-debug --remove-section=.comment --enable-deterministic-archives "$all/usr/$2"/*.a
	strip --strip-unneeded --remove-section=.comment "$all/usr/$2"/*.so.0
	for package in libhugepool0 libhugepool-coverage0; do
		mkdir -p "$1/$package/usr/$2"
		mv "$all/usr/$2/${package%0}.so.0" "$1/$package/usr/$2/"
		chmod 644 "$1/$package/usr/$2/${package%0}.so.0"
	done
	mv "$all" "$1/libhugepool-dev"
	packaging/copyright.sh hugepool --debian >"$work/copyright"
	for package in libhugepool0 libhugepool-coverage0 libhugepool-dev; do
		install -D --mode=644 "$work/copyright" "$1/$package/usr/share/doc/$package/copyright"
	done
}

# Source packages whose code is in the program, as Debian's rules for packages ask for them: of the C
# library, if the program was linked on a Debian system.
built_using() {
	dpkg-query --show --showformat '${source:Package} (= ${source:Version})' libc6-dev 2>/dev/null || true
}

build_deb() {
	make_deb pagewise pagewise-zmerge-dkms libhugepool0 libhugepool-coverage0 libhugepool-dev
}

build_deb-program() {
	make_deb pagewise
}

make_deb() { # PACKAGE...
	need_packages debhelper dpkg-dev
	local top=$work/deb/pagewise-$version file name
	mkdir -p "$top/debian" "$top/stage"
	ZSH_FOLDER=zsh/vendor-completions DEBIAN_COPYRIGHT=yes packaging/stage.sh "$top/stage/pagewise"
	mv "$top/stage/pagewise/usr/share/doc/pagewise/CHANGELOG.md" "$top/stage/pagewise/usr/share/doc/pagewise/changelog"
	if [ $# -gt 1 ]; then
		stage_zmerge "$top/stage/pagewise-zmerge-dkms"
		stage_hugepool "$top/stage" "lib/$(dpkg-architecture --query DEB_HOST_MULTIARCH)"
	fi
	for file in packaging/debian/*; do
		name=$(basename "$file")
		filled "$file" >"$top/debian/$name"
		[ ! -x "$file" ] || chmod +x "$top/debian/$name"
	done
	cat >"$top/debian/changelog" <<-END
		pagewise ($version-$revision) unstable; urgency=medium

		  * Packages of version $version. CHANGELOG.md says what is new.

		 -- $maintainer  $(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")
	END
	set_times "$top"
	(
		cd "$top"
		export BUILT_USING DEB_COMPRESSION=${DEB_COMPRESSION:--Zxz} DEB_RULES_REQUIRES_ROOT=no
		BUILT_USING=$(built_using)
		DH_OPTIONS=$(printf -- '--package=%s ' "$@") debian/rules binary
	) >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; die "no .deb was built"; }
	keep "$work"/deb/*.deb
}

build_rpm() {
	need_packages rpm
	local top=$work/rpm
	mkdir -p "$top/SPECS"
	packaging/stage.sh "$top/stage"
	set_times "$top/stage"
	filled packaging/rpm/pagewise.spec >"$top/SPECS/pagewise.spec"
	rpmbuild -bb --quiet --define "_topdir $top" --define "staged $top/stage" --define '_buildhost localhost' \
		--define 'use_source_date_epoch_as_buildtime 1' --define 'clamp_mtime_to_source_date_epoch 1' \
		"$top/SPECS/pagewise.spec" >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; die "no .rpm was built"; }
	keep "$top"/RPMS/*/*.rpm
}

build_tar() {
	command -v zstd >/dev/null || need_packages zstd
	local name top
	name=pagewise-$version-$(uname -m)
	top=$work/tar/$name
	mkdir -p "$top"
	packaging/stage.sh "$top"
	for script in install.sh uninstall.sh; do
		filled "packaging/tar/$script" >"$top/$script"
		chmod 755 "$top/$script"
	done
	echo "$version" >"$top/version"
	tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
		--format=gnu --directory "$work/tar" "$name" | zstd --quiet -19 --threads=1 -o "$work/$name.tar.zst"
	keep "$work/$name.tar.zst"
}

build_recipes() {
	local kind file
	for kind in aur alpine; do
		mkdir -p "$packages/recipes/$kind"
		for file in packaging/"$kind"/*; do
			filled "$file" >"$packages/recipes/$kind/$(basename "$file")"
		done
		echo "$packages/recipes/$kind"
	done
}

# Moves finished packages to their folder, and prints their paths.
keep() { # FILE...
	mkdir -p "$packages"
	local file
	for file; do
		cp "$file" "$packages/.part"
		mv "$packages/.part" "$packages/$(basename "$file")"
		echo "$packages/$(basename "$file")"
	done
}

for kind; do
	case $kind in
	deb | deb-program | rpm | tar | recipes) "build_$kind" ;;
	*) die "expected deb, deb-program, rpm, tar or recipes, found $kind" ;;
	esac
done
