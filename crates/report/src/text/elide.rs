// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shortens the names in one column to its width, and keeps different names distinguishable.
//!
//! A name that is too long loses its end (a path its start). If different names become equal by
//! that, like the names of pods, which differ in the middle, they are shown from their first
//! difference on: `kubepod…5f3c1d0e…`. If the differing parts are too long even for that, they are
//! shortened in the same way, and names that are still equal are numbered.

use std::collections::BTreeMap;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::kit::{clip, clip_start};

/// The part of a name that is kept if the name is shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NamePart {
    Start,
    End,
}

/// The names, each shortened to at most `width` columns. For widths of 10 or more, different names
/// stay different.
pub(super) fn elide(names: &[&str], width: usize, keep: NamePart) -> Vec<String> {
    let mut distinct: Vec<&str> = names.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let mut short = shorten_all(&distinct, width, keep);
    number_equals(&mut short, width);
    let by_name: BTreeMap<&str, String> = distinct.into_iter().zip(short).collect();
    names.iter().map(|name| by_name.get(name).cloned().unwrap_or_default()).collect()
}

/// Shortens different names to a width; some of the results may still be equal.
fn shorten_all(names: &[&str], width: usize, keep: NamePart) -> Vec<String> {
    let mut short: Vec<String> = names.iter().map(|name| clip_name(name, width, keep)).collect();
    let mut alike: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    // a name that fits is never cut, even if a shortened one becomes equal to it: then both are
    // numbered
    let cut = short.iter().enumerate().filter(|(at, text)| text.as_str() != names[*at]);
    for (at, text) in cut {
        alike.entry(text).or_default().push(at);
    }
    let alike: Vec<Vec<usize>> = alike.into_values().filter(|those| those.len() > 1).collect();
    for those in alike {
        let cluster: Vec<&str> = those.iter().map(|&at| names[at]).collect();
        for (at, text) in those.into_iter().zip(show_from_difference(&cluster, width, keep)) {
            short[at] = text;
        }
    }
    short
}

fn clip_name(name: &str, width: usize, keep: NamePart) -> String {
    match keep {
        NamePart::Start => clip(name, width).into_owned(),
        NamePart::End => clip_start(name, width).into_owned(),
    }
}

/// Shows names with a common start or end from their first difference on.
fn show_from_difference(names: &[&str], width: usize, keep: NamePart) -> Vec<String> {
    let start = common_start(names);
    let end = common_end(names, start);
    if start == 0 && end == 0 {
        return names.iter().map(|name| clip_name(name, width, keep)).collect();
    }
    let parts: Vec<&str> = names.iter().map(|name| &name[start..name.len() - end]).collect();
    let marks = usize::from(start > 0) + usize::from(end > 0);
    let longest = parts.iter().map(|part| part.width()).max().unwrap_or(0);
    // a third of the width shows the common part, if the rest is sufficient for the difference
    let room = width.saturating_sub(marks);
    let head = (width / 3).min(room.saturating_sub(longest));
    let head =
        if start > 0 { prefix_of(names[0], head.min(names[0][..start].width())) } else { "" };
    let room = room - head.width();
    let middles = if longest <= room {
        names.iter().map(|name| extend_difference(name, start, end, room)).collect()
    } else {
        shorten_all(&parts, room, keep)
    };
    middles.into_iter().map(|middle| join_with_ellipses(head, start, &middle, end)).collect()
}

/// The differing part of a name, and as much of what follows as fits.
fn extend_difference(name: &str, start: usize, end: usize, room: usize) -> String {
    let differs = &name[start..name.len() - end];
    let behind = prefix_of(&name[name.len() - end..], room - differs.width());
    format!("{differs}{behind}")
}

fn join_with_ellipses(head: &str, start: usize, middle: &str, end: usize) -> String {
    let mark = |there: bool| if there { "…" } else { "" };
    let left = mark(start > head.len() && !middle.starts_with('…'));
    let right = mark(end > 0 && !middle.ends_with('…'));
    format!("{head}{left}{middle}{right}")
}

/// The start of a text, in at most `width` columns.
fn prefix_of(text: &str, width: usize) -> &str {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(1);
        used <= width
    };
    let end = text.chars().take_while(fits).map(char::len_utf8).sum();
    &text[..end]
}

/// Number of bytes at the start that all names have in common, in whole characters.
fn common_start(names: &[&str]) -> usize {
    let Some((first, rest)) = names.split_first() else { return 0 };
    let shared = |name: &&str| {
        let pairs = first.chars().zip(name.chars()).take_while(|(a, b)| a == b);
        pairs.map(|(a, _)| a.len_utf8()).sum()
    };
    rest.iter().map(shared).min().unwrap_or(first.len())
}

/// Number of bytes at the end that all names have in common, not counting the first `start`.
fn common_end(names: &[&str], start: usize) -> usize {
    let Some((first, rest)) = names.split_first() else { return 0 };
    let shared = |name: &&str| {
        let pairs = first[start..].chars().rev().zip(name[start..].chars().rev());
        pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
    };
    rest.iter().map(shared).min().unwrap_or(0)
}

/// Numbers shortened names that are still equal: `…ab#2`.
fn number_equals(short: &mut [String], width: usize) {
    let mut used: BTreeMap<String, u64> = BTreeMap::new();
    for text in short.iter() {
        *used.entry(text.clone()).or_default() += 1;
    }
    for text in short {
        if used.get(text.as_str()) == Some(&1) {
            continue;
        }
        let candidates = (1u64..).map(|number| {
            let end = format!("#{number}");
            format!("{}{end}", clip(text, width.saturating_sub(end.width())))
        });
        let unused = candidates.into_iter().find(|candidate| !used.contains_key(candidate));
        if let Some(unused) = unused {
            used.insert(unused.clone(), 1);
            *text = unused;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_fit_stay_and_others_lose_what_says_least() {
        let names = ["init", "a-very-long-name-of-a-program"];
        assert_eq!(elide(&names, 12, NamePart::Start), ["init", "a-very-long…"]);
        assert_eq!(elide(&["/one/two/three/payload"], 12, NamePart::End), ["…ree/payload"]);
    }

    #[test]
    fn what_tells_names_apart_is_kept_wherever_it_stands() {
        let pods = [
            "kubepods-burstable-pod5f3c1d0e_77aa_4c7e.slice",
            "kubepods-burstable-pod9a11aa02_77aa_4c7e.slice",
        ];
        assert_eq!(
            elide(&pods, 20, NamePart::Start),
            ["kubepo…5f3c1d0e_77a…", "kubepo…9a11aa02_77a…"]
        );
        let ends = ["postgres: worker process 1", "postgres: worker process 2"];
        assert_eq!(elide(&ends, 14, NamePart::Start), ["post…1", "post…2"]);
        let starts = ["/alpha/data/cache/store", "/omega/data/cache/store"];
        assert_eq!(elide(&starts, 14, NamePart::End), ["/alpha/data/…", "/omega/data/…"]);
    }

    /// A name that fits is not cut because a shortened name equals it: a case that the property
    /// test below has found.
    #[test]
    fn a_name_that_fits_is_not_cut_because_a_shortened_one_looks_like_it() {
        let names = ["kubepods-burstable-podkubepods-burstable-pod", "kubepods-burstable-pod…"];
        let short = elide(&names, 23, NamePart::Start);
        assert_ne!(short[0], short[1]);
        assert!(short[1] == names[1] || short[1].contains('#'), "{short:?}");
    }

    #[test]
    fn equal_names_stay_equal() {
        let names = ["postgres: worker process", "postgres: worker process", "x"];
        let short = elide(&names, 12, NamePart::Start);
        assert_eq!((short[0].as_str(), short[0] == short[1]), ("postgres: w…", true));
    }

    /// Names built from a few stems, so that many are partly equal.
    fn names() -> impl Strategy<Value = Vec<String>> {
        let stem = prop::sample::select(vec![
            "kubepods-burstable-pod",
            "/system.slice/",
            "worker",
            "漢字",
            "a",
            "…",
            "#1",
            "-",
            "0",
            "é",
        ]);
        let name = prop::collection::vec(
            prop_oneof![4 => stem.prop_map(str::to_owned), 1 => "[a-c]{0,6}"],
            1..12,
        );
        prop::collection::vec(name.prop_map(|parts| parts.concat()), 1..24)
    }

    proptest! {
        /// Shortened names fit, and two of them are equal exactly if the full names are.
        #[test]
        fn names_fit_and_stay_as_different_as_they_were(
            names in names(),
            width in 10usize..60,
            keep in prop::sample::select(vec![NamePart::Start, NamePart::End]),
        ) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let short = elide(&names, width, keep);
            prop_assert_eq!(short.len(), names.len());
            for (name, short) in names.iter().zip(&short) {
                prop_assert!(short.width() <= width, "{short} is wider than {width}");
                prop_assert!(name.width() > width || short == name || short.contains('#'));
            }
            let pairs: BTreeSet<(&str, &str)> =
                names.iter().copied().zip(short.iter().map(String::as_str)).collect();
            let whole: BTreeSet<&str> = names.iter().copied().collect();
            let cut: BTreeSet<&str> = short.iter().map(String::as_str).collect();
            prop_assert_eq!(pairs.len(), whole.len());
            prop_assert_eq!(cut.len(), whole.len());
        }
    }
}
