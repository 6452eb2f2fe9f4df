// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: a line of a configuration file has no effect, because nothing reads it. The file has the
//! wrong name, the program that reads it is not installed or not enabled, or an earlier line takes
//! precedence.
//!
//! Only files of the administrator are considered. There is no finding if the value that is set at
//! boot is the same as that in the line.

use pagewise_model::{
    Effect, Finding, Interval, KnobOwnership, Mechanism, PersistentSetting, Severity, ownership,
};

use super::zram_unused;
use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::{mark_writing_with_caution, quoted, setting, shorten_title};

pub(super) const RULE: Rule = Rule {
    id: "setting-unread",
    doc: "A configuration file of the administrator contains a memory, zram or swap setting that nothing \
          reads at boot.",
    diagnose,
};

/// A line of a configuration file that is not read, and the reason.
struct Unread {
    line: PersistentSetting,
    why: String,
    /// The kernel's current value, if it was read.
    running: Option<String>,
}

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let owned = ownership(&interval.end);
    // the rule `zram-unused` reports the line because of which zram-generator ignores all lines
    let is_refused = zram_unused::is_refused(interval);
    let is_told = |it: &Unread| is_refused && it.line.mechanism == Mechanism::ZramGenerator;
    let unread: Vec<Unread> =
        owned.iter().flat_map(find_unread).filter(|it| !is_told(it)).collect();
    finding(&unread).into_iter().collect()
}

fn find_unread(owned: &KnobOwnership) -> impl Iterator<Item = Unread> + use<'_> {
    let wins = owned.winning_line();
    let is_moot = move |line: &PersistentSetting| {
        // a swap area that is not enabled is usually intended
        matches!(line.mechanism, Mechanism::Fstab | Mechanism::SwapUnit)
            || wins.is_some_and(|wins| wins.wanted() == line.wanted())
    };
    owned.owners.iter().filter(move |line| line.is_local() && !is_moot(line)).filter_map(|line| {
        let Effect::Ignored(why) = &line.effect else { return None };
        line.value.value()?;
        let running = owned.running.value().map(ToString::to_string);
        Some(Unread { line: line.clone(), why: why.to_string(), running })
    })
}

fn finding(unread: &[Unread]) -> Option<Finding> {
    let first = unread.first()?;
    let (line, place) = (&first.line, &first.line.value.source);
    let others = match unread.len() - 1 {
        0 => String::new(),
        1 => "; 1 more line is not read either".to_owned(),
        more => format!("; {more} more lines are not read either"),
    };
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Info,
        title: shorten_title(format!("nothing reads {} in {}", setting(&line.target), place.path())),
        what: format!(
            "{place} sets {} to {}, but {}{}{others}.",
            setting(&line.target),
            line.wanted(),
            first.why,
            first.running.iter().map(|value| format!("; it is {value} now")).collect::<String>()
        ),
        why: "The line has no effect: at the next boot, the setting does not get this value. At most the journal \
              of the boot has a message about it."
            .to_owned(),
        evidence: unread
            .iter()
            .take(4)
            .fold(EvidenceList::new(), |all, it| {
                all.named(&it.line.target.to_string(), &it.line.value)
            })
            .into_evidence(),
        next: next(line),
    })
}

/// Returns the command that makes the line take effect, if a single command can do that.
fn next(line: &PersistentSetting) -> Vec<String> {
    let path = line.value.source.path();
    let name = path.rsplit('/').next().unwrap_or_default();
    let look = "pagewise report --only owners".to_owned();
    let link = "/etc/sysctl.d/99-sysctl.conf";
    let mend = if path == "/etc/sysctl.conf" {
        let undo = format!("permanent, from the next boot on; undo with sudo rm {link}");
        mark_writing_with_caution(format!("sudo ln -s ../sysctl.conf {link}"), &undo)
    } else if line.mechanism == Mechanism::Sysctl && !name.contains('.') {
        let (old, new) = (quoted(path), quoted(&format!("{path}.conf")));
        let undo = format!("permanent, from the next boot on; undo with sudo mv {new} {old}");
        mark_writing_with_caution(format!("sudo mv {old} {new}"), &undo)
    } else {
        return vec![look];
    };
    vec![mend, look]
}

#[cfg(test)]
#[path = "../../tests/rules/setting_unread.rs"]
pub(super) mod tests;
