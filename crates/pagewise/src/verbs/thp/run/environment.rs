// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes from the requested policy the environment variables for every allocator that has a
//! switch for huge pages.
//!
//! All variables except the JVM's are set for every program: it may start other programs, and
//! programs ignore variables that they do not know. The JVM prints a message to standard error for
//! its variable, so only a JVM gets it. Values that the user has set already are kept, and if the
//! user has already set an allocator's huge page policy, its variable is left alone.

use super::Switch;
use super::program::Allocator;

/// The variable that limits the number of arenas of glibc's malloc.
pub(super) const ARENAS: &str = "MALLOC_ARENA_MAX";

/// A variable that controls an allocator: its words for on and off, the word that shows that the
/// user has already decided, and the separator between words.
struct Row {
    name: &'static str,
    on: Option<&'static str>,
    off: Option<&'static str>,
    decided: &'static str,
    between: &'static str,
}

const ROWS: [Row; 7] = [
    Row {
        name: "GLIBC_TUNABLES",
        on: Some("glibc.malloc.hugetlb=1"),
        off: Some("glibc.malloc.hugetlb=0"),
        decided: "glibc.malloc.hugetlb=",
        between: ":",
    },
    Row {
        name: "MALLOC_CONF",
        on: Some("thp:always,metadata_thp:auto"),
        off: Some("thp:never"),
        decided: "thp:",
        between: ",",
    },
    // mimalloc 2.0 reads the first of these three, later 2.x the second, version 3 the third
    Row {
        name: "MIMALLOC_LARGE_OS_PAGES",
        on: Some("1"),
        off: Some("0"),
        decided: "",
        between: "",
    },
    Row {
        name: "MIMALLOC_ALLOW_LARGE_OS_PAGES",
        on: Some("1"),
        off: Some("0"),
        decided: "",
        between: "",
    },
    Row { name: "MIMALLOC_ALLOW_THP", on: Some("1"), off: Some("0"), decided: "", between: "" },
    Row {
        name: "GODEBUG",
        on: None,
        off: Some("disablethp=1"),
        decided: "disablethp=",
        between: ",",
    },
    Row {
        name: "JAVA_TOOL_OPTIONS",
        on: Some("-XX:+UseTransparentHugePages"),
        off: Some("-XX:-UseTransparentHugePages"),
        decided: "UseTransparentHugePages",
        between: " ",
    },
];

/// The environment variables to set, with their values, for a huge page policy. "Only advised" sets
/// nothing: an allocator that requests huge pages by itself still does.
pub(in super::super) fn build(
    switch: Switch,
    allocator: Allocator,
    has: impl Fn(&str) -> Option<String>,
) -> Vec<(&'static str, String)> {
    let requested =
        ROWS.iter().filter(|row| row.name != "JAVA_TOOL_OPTIONS" || allocator == Allocator::Jvm);
    requested
        .filter_map(|row| Some((row.name, choose_value(row, switch, has(row.name))?)))
        .collect()
}

fn choose_value(row: &Row, switch: Switch, had: Option<String>) -> Option<String> {
    let word = match switch {
        Switch::On => row.on?,
        Switch::Off => row.off?,
        Switch::Advised => return None,
    };
    match had.filter(|had| !had.is_empty()) {
        None => Some(word.to_owned()),
        Some(had) if had.contains(row.decided) => None,
        Some(had) => Some(format!("{had}{}{word}", row.between)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_variable(
        switch: Switch,
        allocator: Allocator,
        had: &[(&str, &str)],
    ) -> Vec<(&'static str, String)> {
        let has = |name: &str| {
            had.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        build(switch, allocator, has)
    }

    fn get(set: &[(&'static str, String)], name: &str) -> Option<String> {
        set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    }

    #[test]
    fn what_the_user_has_set_stays() {
        let had = [("MALLOC_CONF", "narenas:2"), ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=2")];
        let set = set_variable(Switch::On, Allocator::Glibc, &had);
        let conf = get(&set, "MALLOC_CONF").unwrap();
        assert_eq!(conf, "narenas:2,thp:always,metadata_thp:auto");
        assert_eq!(get(&set, "GLIBC_TUNABLES"), None, "the user has decided");
    }

    #[test]
    fn only_a_jvm_gets_what_a_jvm_announces() {
        let java = |allocator| get(&set_variable(Switch::On, allocator, &[]), "JAVA_TOOL_OPTIONS");
        assert_eq!(java(Allocator::Glibc), None);
        assert_eq!(java(Allocator::Jvm).as_deref(), Some("-XX:+UseTransparentHugePages"));
    }

    #[test]
    fn off_reaches_go_and_advised_changes_nothing() {
        let off = set_variable(Switch::Off, Allocator::Go, &[]);
        assert_eq!(get(&off, "GODEBUG").as_deref(), Some("disablethp=1"));
        assert_eq!(get(&set_variable(Switch::On, Allocator::Go, &[]), "GODEBUG"), None);
        assert_eq!(set_variable(Switch::Advised, Allocator::Jvm, &[]), []);
    }
}
