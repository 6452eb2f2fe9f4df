// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the rows of the table of settings ([`Target`]) for the path of a file below `/proc/sys` or
//! `/sys`.
//!
//! Paths in configuration files may be patterns (`*`). Which files a pattern matches depends on the
//! host, which is not read here; the pattern itself becomes the instance of the target.

use std::collections::HashMap;
use std::sync::LazyLock;

use pagewise_model::knob::{Access, Domain, KNOBS, Knob};
use pagewise_model::{Name, Target};

/// Maximum length of a path in bytes, as in the kernel (`PATH_MAX`). A longer path cannot exist,
/// and matching it as a pattern against each row of the table would be slow.
const LONGEST: usize = 4096;

/// The rows of the table of settings whose path has no placeholder, by path. Most rows have none.
static PLAIN: LazyLock<HashMap<&str, &Knob>> =
    LazyLock::new(|| KNOBS.iter().map(|knob| (knob.path, knob)).collect());

/// Whether a path contains a pattern.
pub(crate) fn has_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// Returns the settings in the table for a path without its leading `/`; empty if there are none.
pub(crate) fn find_targets(path: &str) -> Vec<Target> {
    if path.len() > LONGEST {
        return Vec::new();
    }
    if let Some(knob) = PLAIN.get(path) {
        return can_be_set(knob).then(|| Target::of_knob(knob.name)).into_iter().collect();
    }
    // the path matches a row with a placeholder, or it is a pattern that matches several rows
    let folder = path.split('/').next().unwrap_or_default();
    let may_match = |knob: &&Knob| knob.path.starts_with(folder) && can_be_set(knob);
    let rows = KNOBS.iter().filter(may_match);
    rows.filter_map(|knob| match_path(knob, path)).collect()
}

fn can_be_set(knob: &Knob) -> bool {
    matches!(knob.access, Access::ReadWrite | Access::WriteOnly) && knob.domain != Domain::Trigger
}

fn match_path(knob: &'static Knob, path: &str) -> Option<Target> {
    let mut given = path.split('/');
    let mut filled = Vec::new();
    for part in knob.path.split('/') {
        filled.extend(match_component(part, given.next()?)?);
    }
    if given.next().is_some() {
        return None;
    }
    let instance = (!filled.is_empty()).then(|| Name::from(filled.join("/").as_str()));
    Some(Target::Knob { knob: knob.name, instance })
}

/// Matches a component `given` of a path with a component of a path in the table. Returns the text
/// that matches the placeholder, or `Some(None)` if there is no placeholder; `None` if the
/// components do not match.
fn match_component<'g>(part: &str, given: &'g str) -> Option<Option<&'g str>> {
    let Some((before, _)) = part.split_once('{') else {
        return (part == given || matches_pattern(given, part)).then_some(None);
    };
    match given.strip_prefix(before) {
        Some(rest) => (!rest.is_empty()).then_some(Some(rest)),
        None => matches_pattern(given, &format!("{before}0")).then_some(Some("*")),
    }
}

fn matches_pattern(pattern: &str, text: &str) -> bool {
    has_pattern(pattern) && glob::Pattern::new(pattern).is_ok_and(|pattern| pattern.matches(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_in(path: &str) -> Vec<String> {
        find_targets(path).iter().map(Target::to_string).collect()
    }

    #[test]
    fn paths_are_rows_of_the_table() {
        assert_eq!(names_in("proc/sys/vm/swappiness"), ["vm.swappiness"]);
        assert_eq!(names_in("sys/module/zswap/parameters/enabled"), ["zswap.enabled"]);
        assert_eq!(names_in("sys/block/zram3/disksize"), ["zram.disksize[3]"]);
        let thp = "sys/kernel/mm/transparent_hugepage";
        assert_eq!(names_in(&format!("{thp}/hugepages-64kB/enabled")), ["thp.size.enabled[64kB]"]);
        assert_eq!(names_in(&format!("{thp}/hugepages-*/enabled")), ["thp.size.enabled[*]"]);
        assert_eq!(names_in(&format!("{thp}/huge*/enabled")), ["thp.size.enabled[*]"]);
        let node = "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages";
        assert_eq!(names_in(node), ["hugetlb.node.nr_hugepages[0/2048kB]"]);
        assert_eq!(
            names_in("proc/sys/vm/dirty_*ratio"),
            ["vm.dirty_ratio", "vm.dirty_background_ratio"]
        );
        for none in
            ["proc/sys/vm", "proc/sys/vm/swappiness/x", "etc/passwd", "", "sys/block/zram/disksize"]
        {
            assert_eq!(names_in(none), [""; 0], "{none}");
        }
    }

    #[test]
    fn a_path_that_no_file_can_have_is_no_setting() {
        let rest = "sys/block/zram/disksize".len();
        let long = |length: usize| format!("sys/block/zram{}/disksize", "3".repeat(length - rest));
        assert!(!find_targets(&long(LONGEST)).is_empty());
        assert_eq!(find_targets(&long(LONGEST + 1)), []);
    }

    #[test]
    fn what_only_informs_cannot_be_set() {
        assert_eq!(names_in("sys/kernel/mm/transparent_hugepage/hpage_pmd_size"), [""; 0]);
        assert_eq!(names_in("proc/sys/vm/[x"), [""; 0]);
    }
}
