// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: a cgroup is protected, but an ancestor has less protection, and the kernel uses the
//! smaller value.
//!
//! Only protection against reclaim on the whole host is considered. An ancestor with a limit of its
//! own may have less protection on purpose: reclaim because of that limit starts below the
//! ancestor, and respects the protection of the cgroups there.

use pagewise_facts::groups::is_below;
use pagewise_facts::protection::{Kind, LOW, MIN, protections};
use pagewise_model::{Bytes, Cgroup, Finding, Interval, Limit, Severity, Snapshot};

use crate::Rule;
use crate::commands;
use crate::proof::EvidenceList;
use crate::text::shorten_group;

pub(super) const RULE: Rule = Rule {
    id: "protection-limited",
    doc: "A cgroup is protected (memory.low or memory.min), but a cgroup above it has less protection, which limits \
          it.",
    diagnose,
};

/// If a group loses less protection than this, there is no finding.
const WORTH: Bytes = Bytes::new(16 << 20);

/// A group whose protection is limited by an ancestor.
struct Limited<'a> {
    group: &'a Cgroup,
    kind: Kind,
    wanted: Bytes,
    above: &'a Cgroup,
    left: Bytes,
}

impl Limited<'_> {
    /// Returns how much of the group's memory in use is not protected although this is configured.
    fn lost_protection(&self) -> Bytes {
        let used = self.group.current.get().unwrap_or_default();
        self.wanted.min(used).saturating_sub(self.left)
    }
}

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let host = &interval.end;
    let groups = host.cgroups.groups.iter();
    let limited = groups.flat_map(|group| [LOW, MIN].map(|kind| find_limited(host, group, kind)));
    let limited: Vec<Limited<'_>> =
        limited.flatten().filter(|it| it.lost_protection() >= WORTH).collect();
    let worst = limited.iter().max_by_key(|it| it.lost_protection());
    worst.map(|worst| finding(host, worst, limited.len() - 1)).into_iter().collect()
}

fn find_limited<'a>(host: &'a Snapshot, group: &'a Cgroup, kind: Kind) -> Option<Limited<'a>> {
    let wanted = kind.claim(group).filter(|wanted| *wanted > Bytes::new(0))?;
    let is_above = |it: &&Cgroup| it.path.as_str() != "/" && is_below(group, it);
    let above: Vec<&Cgroup> = host.cgroups.groups.iter().filter(is_above).collect();
    let has_limit = |group: &&Cgroup| {
        [&group.max, &group.high].iter().any(|limit| matches!(limit.get(), Some(Limit::Bytes(_))))
    };
    if above.iter().any(has_limit) {
        return None;
    }
    let read: Option<Vec<(Limit, &Cgroup)>> =
        above.into_iter().map(|it| Some(((kind.reading)(it).get()?, it))).collect();
    let (least, above) = read?.into_iter().min_by_key(|(limit, _)| *limit)?;
    let left = least.bytes().filter(|left| *left < wanted)?;
    Some(Limited { group, kind, wanted, above, left })
}

fn finding(host: &Snapshot, worst: &Limited<'_>, others: usize) -> Finding {
    let Limited { group, kind, wanted, above, left } = worst;
    let (path, file) = (group.path.as_str(), kind.file);
    let name = file.trim_start_matches("memory.");
    let others = match others {
        0 => String::new(),
        1 => "; 1 more protection is limited in this way".to_owned(),
        more => format!("; {more} more protections are limited in this way"),
    };
    let raised = protections(host, group, *kind, *wanted).unwrap_or_default();
    let raise = commands::advise_protection(&raised);
    let look = "pagewise report --sort swap -n 10".to_owned();
    Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Warning,
        title: format!("{file} of {} is limited by a cgroup above it", shorten_group(path)),
        what: format!(
            "The cgroup {path} has {file} set to {wanted}, but {}, which contains it, has only {left}{others}.{}",
            above.path, raise.sentence
        ),
        why: "The kernel limits the protection of a cgroup to that of each cgroup above it, except the root. When \
              the host is short of memory, it reclaims memory of this cgroup as if it were not protected further."
            .to_owned(),
        evidence: EvidenceList::new()
            .named(name, (kind.reading)(group))
            .named(name, (kind.reading)(above))
            .named("current", &group.current)
            .into_evidence(),
        next: raise.commands.into_iter().chain([look]).collect(),
    }
}

#[cfg(test)]
#[path = "../../tests/rules/protection_limited.rs"]
pub(super) mod tests;
