#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
[ "$1" = where ] && echo "${PAGEWISE_CI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pagewise-ci}${2:+/$2}"
