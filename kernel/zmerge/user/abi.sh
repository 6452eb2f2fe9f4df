#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Compares the files that the module's sources create, and their modes, with those that ABI
# describes.
set -eu
cd "$(dirname "$0")/.."

created() {
	sed -n 's/^static DEVICE_ATTR_RW(\(.*\));/\1 0644/p; s/^static DEVICE_ATTR_RO(\(.*\));/\1 0444/p
		s/^static DEVICE_ATTR_WO(\(.*\));/\1 0200/p; s/^static DEVICE_ATTR_ADMIN_RO(\(.*\));/\1 0400/p' glue/sysfs.c
	sed -n 's/^\t__ATTR(\([a-z_]*\), \(0[0-7]*\),.*/\1 \2/p' glue/control.c
	sed -n 's/^module_param(\([a-z_]*\), [a-z]*, \(0[0-7]*\));/\1 \2/p' glue/main.c
}

described() {
	awk '$1 == "What:" { name = $2; sub(".*/", "", name) } $1 == "Access:" { print name, $2 }' ABI
}

# Counts the attributes, in whatever form they are written, to notice one that the parser missed.
attributes=$(cat glue/sysfs.c glue/control.c glue/main.c | grep -cE '^static DEVICE_ATTR|^	__ATTR\(|^module_param')
[ "$(created | wc -l)" = "$attributes" ] || { echo "ABI: a file of the module was not understood"; exit 1; }
if ! [ "$(created | sort)" = "$(described | sort)" ]; then
	echo "ABI: the module's files ($(created | sort | tr '\n' ';')) are not those described ($(described | sort | tr '\n' ';'))"
	exit 1
fi
echo "ABI: $attributes files are described"
