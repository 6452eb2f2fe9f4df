#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
#   keep.sh program LOG PROGRAM ARGUMENT...    runs a program until standard input ends
#   keep.sh folder FOLDER                      removes a folder when standard input ends
#
# Standard input is a pipe whose other end only the test holds, so it ends when the test ends, however
# it does: also when it is killed. If this shell is killed itself, the kernel kills the program.
case $1 in
program)
	log=$2
	shift 2
	setpriv --pdeathsig KILL -- "$@" </dev/null >>"$log" 2>&1 &
	pid=$!
	# The shell would report that it killed the program.
	exec 2>/dev/null
	# `read` returns when standard input ends; nobody writes to it.
	read -r _
	kill -TERM "$pid" 2>/dev/null
	tries=0
	while kill -0 "$pid" 2>/dev/null && [ "$tries" -lt 50 ]; do
		sleep 0.1
		tries=$((tries + 1))
	done
	kill -KILL "$pid" 2>/dev/null
	wait "$pid"
	;;
folder)
	read -r _
	# Programs that are ending may still write there.
	tries=0
	while ! rm -rf "$2" && [ "$tries" -lt 100 ]; do
		sleep 0.1
		tries=$((tries + 1))
	done
	# A program that was about to create a file may have created the folder again.
	sleep 1
	rm -rf "$2"
	;;
esac
