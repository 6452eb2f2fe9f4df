// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds lines in a plan's files that make programs run as root ([`root_commands`]).
//!
//! Some files that a plan may write contain more than settings: a udev rule with `RUN`, an
//! `install` line of modprobe.d, `kernel.core_pattern` with a pipe, a line of tmpfiles.d that
//! writes to any path. With them, somebody who hands a plan to another person could run any program
//! on that person's machine. `apply` lists such lines, and refuses those that Pagewise itself would
//! not have written. In doubt, a line counts as one that runs a program.
//!
//! Lines that were in the file before the plan belong to the machine's owner and are not
//! considered. Loading a kernel module (modules-load.d) and starting an installed unit through a
//! `.wants` link are not considered either, because the plan does not choose the program that runs.

use std::collections::BTreeSet;

use pagewise_model::plan::{Change, Plan, Step};

use crate::{start_script, zram_files};

/// A line of a file in a plan that makes a program run as root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootCommand {
    /// Id of the step that writes the file.
    pub step: String,
    /// Path of the file.
    pub path: String,
    /// The number of the line in the file, from 1.
    pub line: usize,
    /// What the line does, in a few words.
    pub what: &'static str,
    /// The text of the line with its continuation lines, without the line break at the end.
    pub text: String,
    /// Whether Pagewise itself writes this file for the changes in the plan, except for comments in
    /// a unit.
    pub is_own: bool,
}

/// Finds the lines in the plan's files that make programs run as root, in the order of the plan. Of
/// a shell script, only the first line that the plan changes is listed.
#[must_use]
pub fn root_commands(plan: &Plan) -> Vec<RootCommand> {
    plan.steps.iter().flat_map(|step| commands_of_step(plan, step)).collect()
}

fn commands_of_step(plan: &Plan, step: &Step) -> Vec<RootCommand> {
    let Change::WriteFile { target, from, to } = &step.change else { return Vec::new() };
    let format = Format::of(target);
    let before = from.as_deref().unwrap_or_default();
    let known: BTreeSet<String> =
        logical_lines(before, format).into_iter().map(|line| line.text).collect();
    let new = logical_lines(to, format).into_iter().filter(|line| !known.contains(&line.text));
    let found = new
        .filter_map(|line| Some((line.number, line.explain_what_runs_in_line(format)?, line.text)));
    let most = if format == Format::Script { 1 } else { usize::MAX };
    let is_own = is_own_file(plan, target, before, to);
    let command = |(line, what, text)| RootCommand {
        step: step.id.clone(),
        path: target.clone(),
        line,
        what,
        text,
        is_own,
    };
    found.take(most).map(command).collect()
}

/// Whether Pagewise itself writes a file with this text for the steps of the plan.
fn is_own_file(plan: &Plan, path: &str, before: &str, text: &str) -> bool {
    let zram = plan.steps.iter().filter_map(|step| match &step.change {
        Change::AddZramSwap { to, .. } => Some(to),
        _ => None,
    });
    let zram: Vec<_> = zram.collect();
    if path == zram_files::UNIT {
        return zram.iter().any(|zram| has_lines_of(text, &zram_files::unit_text(zram)));
    }
    let files = plan.steps.iter().filter_map(|step| match &step.change {
        Change::AddSwapFile { to, .. } => Some(*to),
        _ => None,
    });
    Format::of(path) == Format::Script
        && start_script::is_own(text, before, &zram, &files.collect::<Vec<_>>(), |path| {
            explain_what_write_runs(path.trim_start_matches('/'), true).is_none()
        })
}

/// Whether two unit files are equal except for comments and empty lines.
fn has_lines_of(text: &str, own: &str) -> bool {
    let lines = |text| {
        let lines = logical_lines(text, Format::Unit).into_iter();
        lines.map(|line| (line.text, line.parts)).collect::<Vec<_>>()
    };
    lines(text) == lines(own)
}

/// The format of a file: how the program that reads it interprets its lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Sysctl,
    Tmpfiles,
    Modprobe,
    Udev,
    Generator,
    Unit,
    /// Each line is the name of a module, or a path.
    List,
    /// The file is a script, or its path is not one that plans of Pagewise write.
    Script,
}

impl Format {
    fn of(path: &str) -> Self {
        let places = [
            ("/etc/sysctl.d/", Self::Sysctl),
            ("/etc/tmpfiles.d/", Self::Tmpfiles),
            ("/etc/modprobe.d/", Self::Modprobe),
            ("/etc/udev/rules.d/", Self::Udev),
            ("/etc/systemd/zram-generator.conf", Self::Generator),
            ("/etc/systemd/system/", Self::Unit),
            ("/etc/modules-load.d/", Self::List),
            ("/etc/atomic-update.conf.d/", Self::List),
        ];
        let found = places.into_iter().find(|(place, _)| path.starts_with(place));
        found.map_or(Self::Script, |(_, format)| format)
    }

    const fn has_continuation_lines(self) -> bool {
        matches!(self, Self::Modprobe | Self::Udev | Self::Unit)
    }
}

/// A line with its continuation lines.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    /// Number of the first line in the file, counted from 1.
    number: usize,
    /// The text without surrounding white space.
    text: String,
    /// The single lines, if the line has continuation lines. Formats differ in what continues a
    /// line, so each of these lines must be harmless by itself as well.
    parts: Vec<String>,
}

impl Line {
    fn explain_what_runs_in_line(&self, format: Format) -> Option<&'static str> {
        let alone = || self.parts.iter().find_map(|part| explain_what_runs(format, part.trim()));
        explain_what_runs(format, &self.text).or_else(alone)
    }
}

/// Returns the lines without comments and empty lines. Continuation lines are joined.
///
/// A carriage return or a zero byte ends a line, as it does for systemd; otherwise the text after
/// it could be hidden in a comment.
fn logical_lines(text: &str, format: Format) -> Vec<Line> {
    let has_semicolons = matches!(format, Format::Sysctl | Format::Unit | Format::Generator);
    let is_comment =
        |line: &str| line.starts_with('#') || (line.starts_with(';') && has_semicolons);
    let mut all: Vec<Line> = Vec::new();
    let mut is_open = false;
    let pieces = text.lines().enumerate();
    let pieces = pieces.flat_map(|(at, line)| line.split(['\r', '\0']).map(move |it| (at, it)));
    for (at, raw) in pieces {
        let line = raw.trim();
        if is_comment(line) || (line.is_empty() && !is_open) {
            continue;
        }
        let (rest, goes_on) = match raw.strip_suffix('\\') {
            Some(rest) if format.has_continuation_lines() => (rest, true),
            _ => (raw, false),
        };
        match all.last_mut().filter(|_| is_open) {
            Some(whole) => {
                match format {
                    Format::Udev => whole.text.push_str(rest.trim()),
                    Format::Modprobe => whole.text.push_str(rest),
                    _ => whole.text.extend([" ", rest.trim()]),
                }
                whole.parts.push(raw.to_owned());
            }
            None => all.push(Line {
                number: at + 1,
                text: rest.trim_start().to_owned(),
                parts: vec![raw.to_owned()],
            }),
        }
        is_open = goes_on;
    }
    for line in &mut all {
        line.text.truncate(line.text.trim_end().len());
    }
    all
}

/// Says what this line makes root run; `None` if it runs nothing.
fn explain_what_runs(format: Format, line: &str) -> Option<&'static str> {
    match format {
        Format::Sysctl => judge_sysctl_line(line),
        Format::Tmpfiles => judge_tmpfiles_line(line),
        Format::Modprobe => {
            let first = line.split_whitespace().next();
            let is_command = matches!(first, Some("install" | "remove"));
            is_command.then_some("a command of modprobe.d, run when a module is loaded or removed")
        }
        Format::Udev => judge_udev_rule(line),
        Format::Generator => {
            line.starts_with("set!").then_some("a program that zram-generator runs at boot")
        }
        Format::Unit => judge_unit_line(line),
        Format::List => None,
        Format::Script => Some("a script that the init system runs at boot"),
    }
}

/// Kernel settings (paths without the leading `/`) whose value names a program that the kernel runs
/// as root.
const HELPERS: [&str; 6] = [
    "proc/sys/kernel/core_pattern",
    "proc/sys/kernel/modprobe",
    "proc/sys/kernel/hotplug",
    "proc/sys/kernel/poweroff_cmd",
    "proc/sys/fs/binfmt_misc/register",
    "sys/kernel/uevent_helper",
];

/// Says which program the kernel runs because of a write to this path, which may be a pattern. Core
/// dumps are passed to a program only if the value begins with a pipe.
fn explain_what_write_runs(path: &str, is_pipe: bool) -> Option<&'static str> {
    let fixed = path.find(['*', '?', '[', '{', '%', '\\']).map(|at| &path[..at]);
    let is_named = |helper: &str| match fixed {
        Some(fixed) => helper.starts_with(fixed),
        None => helper == path,
    };
    let found = HELPERS
        .iter()
        .any(|helper| is_named(helper) && (is_pipe || !helper.ends_with("core_pattern")));
    found.then_some("a program that the kernel runs as root")
}

fn judge_sysctl_line(line: &str) -> Option<&'static str> {
    let (key, value) = line.trim_start_matches('-').split_once('=')?;
    let path = format!("proc/sys/{}", key.trim().replace('.', "/"));
    explain_what_write_runs(&path, value.trim().starts_with('|'))
}

fn judge_tmpfiles_line(line: &str) -> Option<&'static str> {
    let mut words = line.split_whitespace();
    let kind = words.next()?;
    let path = words.next().unwrap_or_default();
    if matches!(kind.chars().next(), Some('d' | 'e' | 'v' | 'q' | 'Q' | 'x' | 'X')) {
        return None;
    }
    let is_setting = kind.starts_with('w')
        && (path.starts_with("/sys/") || path.starts_with("/proc/sys/"))
        && !path.contains("..")
        && !path.contains("//")
        && !path.contains(['%', '\\', '"', '\'']);
    if !is_setting {
        return Some("changes a file that root may run or read");
    }
    explain_what_write_runs(path.trim_start_matches('/'), line.contains('|'))
}

fn judge_udev_rule(line: &str) -> Option<&'static str> {
    let outside = match remove_quoted(line) {
        Some(outside) => outside,
        None => line.to_owned(),
    };
    let outside: String = outside.split_whitespace().collect();
    let harmless = [
        "RUN{builtin}",
        "IMPORT{builtin}",
        "IMPORT{file}",
        "IMPORT{db}",
        "IMPORT{cmdline}",
        "IMPORT{parent}",
    ];
    let rest = harmless.iter().fold(outside, |rest, harmless| rest.replace(harmless, ""));
    if ["RUN", "PROGRAM", "IMPORT"].iter().any(|key| rest.contains(key)) {
        return Some("a program that udev runs");
    }
    if ["SYSTEMD_WANTS", "SYSTEMD_USER_WANTS"].iter().any(|key| rest.contains(key)) {
        return Some("starts a unit of systemd");
    }
    let writes_setting = rest.contains("SYSCTL") || line.contains("uevent_helper");
    writes_setting.then_some("a program that the kernel runs as root")
}

/// Returns a udev rule without its quoted values; `None` if a quotation mark is missing.
fn remove_quoted(line: &str) -> Option<String> {
    let (mut outside, mut is_quoted, mut characters) = (String::new(), false, line.chars());
    while let Some(character) = characters.next() {
        match character {
            '"' => is_quoted = !is_quoted,
            '\\' if is_quoted => drop(characters.next()),
            _ if is_quoted => {}
            other => outside.push(other),
        }
    }
    (!is_quoted).then_some(outside)
}

fn judge_unit_line(line: &str) -> Option<&'static str> {
    let (key, value) = line.split_once('=')?;
    let (key, value) = (key.trim(), value.trim());
    if value.is_empty() {
        // an empty value resets a list
        return None;
    }
    if key.starts_with("Exec") {
        return Some("a program that systemd runs");
    }
    let changes_program =
        ["Environment", "Root", "Bind", "MountImages", "ExtensionImages", "ExtensionDirectories"]
            .iter()
            .any(|prefix| key.starts_with(prefix));
    changes_program.then_some("changes which program or library a unit runs")
}

#[cfg(test)]
mod tests;
