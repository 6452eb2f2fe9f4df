#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Puts the .deb files of target/packages into a signed repository for apt: repository.sh DIR KEY
#
# DIR is made if it does not exist; packages that it has already stay, so that older versions can be
# installed. KEY is the fingerprint or address of a secret key of gpg, which signs Release. The index
# files have names by their hash, and InRelease is replaced last: a client that reads while this runs
# sees the old repository or the new one. Users trust DIR/pagewise-archive-keyring.gpg.
set -euo pipefail
. "$(dirname "$0")/common.sh"

[ $# = 2 ] && [ -n "$1" ] && [ -n "$2" ] || die "usage: make apt-repository DIR=FOLDER KEY=FINGERPRINT" \
	"  KEY is a secret key of gpg: gpg --list-secret-keys"
need_packages apt-utils gpg
packages=$(realpath --canonicalize-missing "${PACKAGES:-$target/packages}")
compgen -G "$packages/*.deb" >/dev/null || die "$packages has no .deb: \`make packages\` makes them"
gpg --batch --list-secret-keys "$2" >/dev/null 2>&1 || die "gpg has no secret key $2" "  next: gpg --list-secret-keys"

# The name by which apt-ftparchive knows the architecture, whatever the file is called.
pool_name() { # DEB
	dpkg-deb --show --showformat='${Package}_${Version}_${Architecture}.deb' "$1"
}

mkdir -p "$1"
cd "$1"
for file in "$packages"/*.deb; do
	name=$(pool_name "$file")
	if [ -e "pool/main/$name" ] && ! cmp --quiet "$file" "pool/main/$name"; then
		die "$1/pool/main/$name exists with other contents: clients compare versions, not contents" \
			"  next: build with a new version, or PACKAGE_REVISION=2; nothing was published"
	fi
done
mkdir -p pool/main
for file in "$packages"/*.deb; do
	name=$(pool_name "$file")
	[ -e "pool/main/$name" ] || { cp "$file" pool/main/.part && mv pool/main/.part "pool/main/$name"; }
done

release=dists/stable
mapfile -t architectures < <(for file in pool/main/*.deb; do dpkg-deb --field "$file" Architecture; done |
	grep -vx all | sort -u)
for architecture in "${architectures[@]}"; do
	index=$release/main/binary-$architecture
	mkdir -p "$index/by-hash/SHA256"
	apt-ftparchive --arch "$architecture" packages pool/main >"$index/Packages.new"
	xz --keep --stdout "$index/Packages.new" >"$index/Packages.xz.new"
	for file in Packages Packages.xz; do
		cp "$index/$file.new" "$index/by-hash/SHA256/$(sha256sum "$index/$file.new" | cut -d ' ' -f 1)"
		mv "$index/$file.new" "$index/$file"
	done
done
apt-ftparchive -o APT::FTPArchive::Release::Origin=Pagewise -o APT::FTPArchive::Release::Label=Pagewise \
	-o APT::FTPArchive::Release::Suite=stable -o APT::FTPArchive::Release::Codename=stable \
	-o "APT::FTPArchive::Release::Architectures=${architectures[*]}" -o APT::FTPArchive::Release::Components=main \
	-o APT::FTPArchive::Release::Acquire-By-Hash=yes release "$release/main" |
	# it lists paths below the folder that it is given
	sed 's|^\( [0-9a-f]* *[0-9]* \)binary-|\1main/binary-|; / main.*\/by-hash\//d; / by-hash\//d' >"$release/.Release"
sign() { gpg --batch --yes --quiet --local-user "$2" "$1" --armor --output "$4" "$3"; }
sign --clearsign "$2" "$release/.Release" "$release/.InRelease"
sign --detach-sign "$2" "$release/.Release" "$release/.Release.gpg"
gpg --batch --yes --quiet --export --output .keyring "$2"
mv .keyring pagewise-archive-keyring.gpg
mv "$release/.Release" "$release/Release"
mv "$release/.Release.gpg" "$release/Release.gpg"
mv "$release/.InRelease" "$release/InRelease"
cat <<-END
	published: $(ls pool/main | wc -l) packages for ${architectures[*]} in $PWD
	to use it, as root, with the address at which the folder is served:
	  cp pagewise-archive-keyring.gpg /usr/share/keyrings/
	  echo 'deb [signed-by=/usr/share/keyrings/pagewise-archive-keyring.gpg] ADDRESS stable main' \
	    >/etc/apt/sources.list.d/pagewise.list
END
