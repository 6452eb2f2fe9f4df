// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders a plan as a script for any POSIX shell.
//!
//! The script checks all files before it writes the first. As with `apply`, a line that is neither in the plan's
//! file nor in the one that the plan replaces was written by somebody else, and the script stops.

use std::fmt::Write;

use pagewise_model::quote_for_shell;

use super::heading;
use super::layout::Layout;

const FUNCTIONS: &str = r#"set -eu
umask 022
root=${DESTDIR-}

stop() {
  echo "stopped before anything was written: $1" >&2
  exit 1
}

# check_file PATH LINES: stops if the file has a line that is not in LINES
check_file() {
  if [ -L "$root$1" ]; then stop "$1 is a symbolic link"; fi
  if [ ! -e "$root$1" ]; then return 0; fi
  if [ ! -f "$root$1" ]; then stop "$1 is not a file"; fi
  if grep -Fxv -e "$2" "$root$1" >/dev/null; then stop "$1 has lines that are not of this plan"; fi
}

# check_link PATH TARGET: stops if PATH is something else than this link
check_link() {
  if [ -L "$root$1" ] && [ "$(readlink "$root$1")" = "$2" ]; then return 0; fi
  if [ -e "$root$1" ] || [ -L "$root$1" ]; then stop "$1 exists"; fi
}

# write_file PATH MODE CONTENTS
write_file() {
  if [ -e "$root$1" ] && [ "$(cat "$root$1"; echo .)" = "$3." ]; then
    echo "as planned: $1"
    return 0
  fi
  mkdir -p "$root${1%/*}"
  printf '%s' "$3" >"$root$1.new"
  chmod "$2" "$root$1.new"
  mv -f "$root$1.new" "$root$1"
  echo "written: $1"
}

# make_link PATH TARGET
make_link() {
  if [ -L "$root$1" ]; then
    echo "as planned: $1"
    return 0
  fi
  mkdir -p "$root${1%/*}"
  ln -s "$2" "$root$1"
  echo "linked: $1 -> $2"
}

run() {
  echo "run: $*"
  "$@"
}

if [ -z "$root" ] && [ "$(id -u)" -ne 0 ]; then stop "run this script as root"; fi
"#;

pub(super) fn render(layout: &Layout<'_>) -> (Option<String>, Vec<String>) {
    let left_out = layout.list_left_out();
    if layout.is_empty() {
        return (None, left_out);
    }
    (Some(script(layout, &left_out)), left_out)
}

/// The script, with these sentences at its top.
pub(super) fn script(layout: &Layout<'_>, left_out: &[String]) -> String {
    let mut text = format!("#!/bin/sh\n{}", heading(layout, left_out));
    text +=
        "# With DESTDIR=FOLDER, it writes the files below FOLDER and changes no running value.\n";
    text += FUNCTIONS;
    for file in &layout.files {
        let known = format!("{}{}", file.from.unwrap_or_default(), file.to);
        let _ =
            writeln!(text, "check_file {} {}", quote_for_shell(file.path), quote_for_shell(&known));
    }
    for link in &layout.links {
        let _ = writeln!(
            text,
            "check_link {} {}",
            quote_for_shell(link.path),
            quote_for_shell(link.to)
        );
    }
    for file in &layout.files {
        let (path, mode, to) = (quote_for_shell(file.path), file.mode(), quote_for_shell(file.to));
        let _ = writeln!(text, "write_file {path} {mode:04o} {to}");
    }
    for link in &layout.links {
        let _ =
            writeln!(text, "make_link {} {}", quote_for_shell(link.path), quote_for_shell(link.to));
    }
    text += "if [ -n \"$root\" ]; then exit 0; fi\n";
    for command in layout.commands() {
        let words: Vec<String> = command.iter().map(|word| quote_for_shell(word)).collect();
        let _ = writeln!(text, "run {}", words.join(" "));
    }
    text
}
