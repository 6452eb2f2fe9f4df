#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Prints the copyright file of a package: copyright.sh pagewise|hugepool [--debian]
set -euo pipefail
. "$(dirname "$0")/common.sh"

triple=$("${RUSTC:-rustc}" --version --verbose | sed -n 's/^host: //p')
crates=$("$cargo" run --quiet --locked --package xtask -- licences --package "$1" --target "$triple" ${2:+"$2"})
cat <<-END
	Pagewise is licensed under the Apache License 2.0 or the MIT license, at your choice:

	$(cat LICENSE-MIT)

	The text of the Apache License 2.0 is $(if [ "${2-}" ]; then
		echo in /usr/share/common-licenses/Apache-2.0 on Debian systems.
	else
		echo at the end of this file.
	fi)

END
if [ "$1" = pagewise ]; then
	cat <<-END
		The program contains parts of the GNU C Library, to which it is linked statically. The GNU C Library is licensed
		under the GNU Lesser General Public License 2.1 or later, whose text is in /usr/share/common-licenses/LGPL-2.1 on
		Debian systems. The sources of the program, with which it can be linked to another version of this library, and
		the sources of the library are available where you got this package.

	END
fi
cat <<-END
	The program also contains Rust's standard library, which is licensed under the Apache License 2.0 or the MIT
	license, at your choice. Copyright (c) The Rust Project Contributors.

	It contains these crates, which others wrote. Each text follows the names of the crates that have it.

	$crates
END
[ "${2-}" ] || { echo; cat LICENSE-APACHE; }
