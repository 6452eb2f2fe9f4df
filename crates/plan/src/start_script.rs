// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The start script of a plan for hosts without systemd: a single file in the folder where the
//! host's init system looks for scripts. It sets the values that no file of sysctl.d keeps, and
//! sets up the zram device and the swap file.
//!
//! The script is written for the `sh` of busybox. It never makes a boot fail: it reports what it
//! cannot set on standard error, and its exit status is 0. In a container it does nothing. Like in
//! the files of sysctl.d, entries of an earlier plan that this plan does not change are kept. The
//! entries are paragraphs between two marker lines.

use pagewise_model::plan::{Change, Step, SwapFilePlan, ZramSwap};
use pagewise_model::{InitSystem, quote_for_shell};

use crate::context::Context;
use crate::draft::{Draft, boot_step};
use crate::names::SWAP_FILE;
use crate::persist::{FileLine, wrap_comment};
use crate::start_place::Place;
use crate::zram_files;

/// The id of the step that writes the script.
const STEP: &str = "start-script";
const BEGIN: &str = "# The settings:";
const END: &str = "# End of the settings.";
/// The first words of the paragraph that sets up zram.
const ZRAM: &str = "# zram swap:";

/// Returns the line of the script that sets a value.
pub(crate) fn setting_line(path: &str, value: &str) -> String {
    format!("set_value {} {}", quote_for_shell(&format!("/{path}")), quote_for_shell(value))
}

/// Whether the script of an earlier plan contains this line.
pub(crate) fn has_line(context: &Context<'_>, place: Place, line: &str) -> bool {
    let own = context.installation.own_files.get(place.script);
    own.is_some_and(|own| own.lines().any(|known| known == line))
}

/// Whether the script of an earlier plan sets up a zram device.
pub(crate) fn does_set_up_zram(context: &Context<'_>, place: Place) -> bool {
    let own = context.installation.own_files.get(place.script);
    own.is_some_and(|own| own.lines().any(|line| line.starts_with(ZRAM)))
}

/// Adds the steps that write the script with these settings and that enable it.
pub(crate) fn add_script(
    context: &Context<'_>,
    draft: &mut Draft,
    place: Place,
    settings: &[&FileLine<'_>],
) {
    let mut entries: Vec<String> = settings
        .iter()
        .map(|it| {
            let comment = wrap_comment(&format!("{}: {}", it.request.knob, it.request.reason));
            format!("{comment}{}", setting_line(it.path(), &it.request.to))
        })
        .collect();
    entries.extend(draft.started.zram.as_ref().map(zram_entry));
    entries.extend(draft.started.file.map(file_entry));
    if entries.is_empty() {
        return;
    }
    let mut needs: Vec<String> =
        settings.iter().filter(|it| it.has_step()).map(|it| it.request.id.to_string()).collect();
    let is_swap = |step: &&Step| {
        matches!(step.change, Change::AddZramSwap { .. } | Change::AddSwapFile { .. })
    };
    needs.extend(draft.steps.iter().filter(is_swap).map(|step| step.id.clone()));
    let from = context.installation.own_files.get(place.script).cloned();
    let to = script(place.init, &merge(from.as_deref(), entries));
    if from.as_ref() != Some(&to) {
        let mut reason = match place.step_for_owner(context.installation) {
            None => "The init system runs this script at each boot; without it, a reboot resets what the plan \
                     changes."
                .to_owned(),
            Some(why) => format!("This script sets at boot what the plan changes, but {why}."),
        };
        if context.installation.sysctl_reader.is_some() {
            reason.push_str(" Settings that a file of sysctl.d keeps are not in it.");
        }
        let undo =
            if from.is_some() { "writes the earlier contents back" } else { "removes the script" };
        draft.steps.push(Step {
            change: Change::WriteFile { target: place.script.to_owned(), from: from.clone(), to },
            reason,
            risk: "a program that sets the same after the script overrides it. The script itself never fails a \
                   boot: it says what it could not set, and ends with status 0"
                .to_owned(),
            needs,
            survives_reboot: place.step_for_owner(context.installation).is_none(),
            ..boot_step(STEP, undo)
        });
    }
    if let Some((path, to)) = place.link.filter(|_| from.is_none()) {
        draft.steps.push(Step {
            change: Change::MakeLink { target: path.to_owned(), from: None, to: to.to_owned() },
            reason: "The init system runs the script at boot only if this link exists.".to_owned(),
            needs: vec![STEP.to_owned()],
            ..boot_step("start-script-link", "removes the link")
        });
    }
}

/// Returns the paragraph that sets up the zram device. It runs the same commands as the systemd
/// unit in a shell of its own, so that a failing command ends only this paragraph.
fn zram_entry(zram: &ZramSwap) -> String {
    let comment = wrap_comment(&format!(
        "zram swap: {} in compressed RAM, compressed with {}.",
        zram.disksize_bytes, zram.compressor.algorithm
    ));
    let start = zram_files::create_script(zram);
    format!(
        "{comment}/bin/sh -ec '{start}' >/dev/null ||\n    echo \"pagewise: the zram swap was not set up\" >&2"
    )
}

fn file_entry(file: SwapFilePlan) -> String {
    let priority = file.priority.map(|it| format!("-p {it} ")).unwrap_or_default();
    let comment = wrap_comment(&format!("swap file: {} in {SWAP_FILE}.", file.size_bytes));
    format!(
        "{comment}if [ -e {SWAP_FILE} ] && ! grep -q '^{SWAP_FILE}[[:space:]]' /proc/swaps; then\n    \
         swapon {priority}{SWAP_FILE} || echo \"pagewise: {SWAP_FILE} was not switched on\" >&2\nfi"
    )
}

/// Returns the entries of a script: the paragraphs between the two marker lines.
fn paragraphs(text: &str) -> Vec<String> {
    let entries = text.split_once(&format!("{BEGIN}\n")).and_then(|(_, rest)| rest.split_once(END));
    let entries = entries.map(|(entries, _)| entries).unwrap_or_default();
    let all = entries.split("\n\n").map(str::trim).filter(|entry| !entry.is_empty());
    all.map(str::to_owned).collect()
}

/// Returns those entries of the earlier script that are not replaced, and the new entries.
fn merge(before: Option<&str>, entries: Vec<String>) -> Vec<String> {
    let name = |entry: &str| {
        let first = entry.lines().next().unwrap_or_default();
        first.split_once(':').map_or(first, |(name, _)| name).to_owned()
    };
    let kept = before.map(paragraphs).unwrap_or_default();
    let is_replaced = |known: &String| entries.iter().any(|entry| name(entry) == name(known));
    let mut all: Vec<String> = kept.into_iter().filter(|known| !is_replaced(known)).collect();
    all.extend(entries);
    all
}

/// Returns the start script with these entries.
fn script(init: InitSystem, entries: &[String]) -> String {
    let entries = entries.join("\n\n");
    let (first, last) = frame(init);
    format!(
        "\
{first}
# Written by pagewise (pagewise plan, pagewise apply). To undo: pagewise undo.

in_container() {{
    [ -e /.dockerenv ] || [ -e /run/.containerenv ] ||
        tr '\\0' '\\n' </proc/1/environ 2>/dev/null | grep -q '^container='
}}

# Sets a value if the kernel has the setting: set_value FILE VALUE
set_value() {{
    [ -e \"$1\" ] || return 0
    {{ echo \"$2\" >\"$1\"; }} 2>/dev/null || echo \"pagewise: $1 was not set to $2\" >&2
}}

set_all() {{
in_container && return 0
PATH=/usr/sbin:/usr/bin:/sbin:/bin

{BEGIN}

{entries}

{END}
return 0
}}

{last}
"
    )
}

/// Whether [`script`] could have written this text: each paragraph sets values at paths that
/// `may_set` permits, sets up one of these devices or files, or was in the script before.
pub(crate) fn is_own(
    text: &str,
    before: &str,
    zram: &[&ZramSwap],
    files: &[SwapFilePlan],
    may_set: impl Fn(&str) -> bool,
) -> bool {
    let all = paragraphs(text);
    let kept = paragraphs(before);
    let is_known = |entry: &String| {
        kept.contains(entry)
            || zram.iter().any(|zram| zram_entry(zram) == *entry)
            || files.iter().any(|file| file_entry(*file) == *entry)
            || is_setting(entry, &may_set)
    };
    let inits =
        [InitSystem::OpenRc, InitSystem::Procd, InitSystem::RunitCoreServices, InitSystem::SysV];
    all.iter().all(is_known) && inits.into_iter().any(|init| script(init, &all) == text)
}

/// Whether a paragraph consists of comments and one line of the form of [`setting_line`].
fn is_setting(entry: &str, may_set: impl Fn(&str) -> bool) -> bool {
    let mut lines = entry.lines().skip_while(|line| line.starts_with('#'));
    let (Some(line), None) = (lines.next(), lines.next()) else { return false };
    let Some((path, value)) = line.strip_prefix("set_value /").and_then(|it| it.split_once(' '))
    else {
        return false;
    };
    let value = value.strip_prefix('\'').and_then(|it| it.strip_suffix('\'')).unwrap_or(value);
    let is_setting = path.starts_with("proc/sys/") || path.starts_with("sys/");
    is_setting && !path.contains("..") && may_set(path) && setting_line(path, value) == line
}

/// Returns the beginning and the end of the script that this init system expects. The values are
/// set in a subshell, because some init systems run the script in their own shell.
const fn frame(init: InitSystem) -> (&'static str, &'static str) {
    match init {
        InitSystem::OpenRc => (
            "#!/sbin/openrc-run",
            "description=\"Memory settings of a plan of pagewise\"

depend() {
    after localmount modules sysctl procps swap
    keyword -docker -lxc -openvz -systemd-nspawn -vserver
}

start() {
    (set_all)
    return 0
}",
        ),
        InitSystem::Procd => (
            "#!/bin/sh /etc/rc.common",
            "START=90

start() {
    (set_all)
    return 0
}",
        ),
        InitSystem::RunitCoreServices => ("# shellcheck shell=sh", "(set_all)"),
        InitSystem::SysV
        | InitSystem::SysVRegistered
        | InitSystem::BusyboxScripts
        | InitSystem::BusyboxRcs
        | InitSystem::Systemd
        | InitSystem::Unknown => (
            "#!/bin/sh
### BEGIN INIT INFO
# Provides:          pagewise
# Required-Start:    $local_fs
# Required-Stop:
# Should-Start:      kmod procps
# Default-Start:     S
# Default-Stop:
# Short-Description: Memory settings of a plan of pagewise
### END INIT INFO",
            "case \"$1\" in
start | restart | reload | force-reload | \"\") (set_all) ;;
esac
exit 0",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_an_earlier_plan_are_kept_unless_they_are_replaced() {
        let entry =
            |name: &str, value: &str| format!("# {name}: why.\n{}", setting_line(name, value));
        let first = [entry("a", "1"), entry("b[2]", "it's")];
        for init in [InitSystem::OpenRc, InitSystem::Procd, InitSystem::RunitCoreServices] {
            let before = script(init, &first);
            let all = merge(Some(&before), vec![entry("a", "2"), entry("c", "3")]);
            assert_eq!(all, [entry("b[2]", "it's"), entry("a", "2"), entry("c", "3")]);
        }
        assert_eq!(merge(Some("edited by hand"), vec![entry("a", "1")]), [entry("a", "1")]);
        assert_eq!(setting_line("sys/x", "it's"), r"set_value /sys/x 'it'\''s'");
    }
}
