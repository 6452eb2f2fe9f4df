// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the lines of `tmpfiles.d` that write a setting (`w` and `w+`), in the same way as
//! systemd-tmpfiles.
//!
//! Files are read in the order of their names. Of several lines for the same path, only the *first*
//! is applied, unless all of them are `w+`: systemd-tmpfiles ignores the others as duplicates. All
//! lines for the same path are applied at the position of the first one. Lines with different
//! patterns that match the same file are all applied.
//!
//! Specifiers that have the same value everywhere (`%%`) and the kernel's release (`%v`) are
//! resolved; with any other specifier the effect of the line is unknown. Lines that create files
//! (`f`) are ignored, because settings are not created.

use std::collections::BTreeMap;

use pagewise_hostfs::text::{Line, words};
use pagewise_hostfs::{HostRoot, ReadValues};
use pagewise_model::{Effect, Mechanism, Name, PersistentSetting, Source, Target};

use crate::collector::Collector;
use crate::conf_files::{list_in_order, systemd_folders};
use crate::knob_path;
use crate::plain::is_plain;

const RELEASE: &str = "proc/sys/kernel/osrelease";

pub(crate) fn read(host: &HostRoot) -> Vec<PersistentSetting> {
    let mut all = Collector::new(host, Mechanism::Tmpfiles);
    let release = host.name_at(RELEASE).value().cloned().unwrap_or_default();
    let mut known = Known::default();
    for file in list_in_order(host, &systemd_folders("tmpfiles.d"), ".conf") {
        let effect = file.effect();
        all.lines_with(&["/sys"], &file.path, |all, line| {
            add(all, &mut known, line, &effect, release.as_str());
        });
    }
    all.finish()
}

/// The paths of all lines that were read so far, with the first line for each path.
type Known = BTreeMap<String, First>;

/// The first line for a path.
#[derive(Debug)]
struct First {
    place: usize,
    source: Source,
    is_forced: bool,
}

fn add(
    all: &mut Collector<'_>,
    known: &mut Known,
    line: &Line<'_>,
    effect: &Effect,
    release: &str,
) {
    let Some(item) = parse_line(line.bytes) else { return };
    let resolved = resolve(&item.path, release).zip(resolve(&item.value, release));
    let Some((path, value)) = resolved else {
        let target = Target::Parameter(Name::from(item.path.as_str()));
        let why = "it has a specifier that pagewise does not resolve";
        let effect = more_restrictive_effect(effect, &Effect::Unknown(why.into()));
        return all.add(target, item.value.as_bytes(), line, &effect);
    };
    let targets = knob_path::find_targets(path.trim_start_matches('/'));
    if targets.is_empty() {
        return;
    }
    let mut effect = more_restrictive_effect(effect, &item.effect);
    let mut place = known.len();
    match known.get(&path) {
        Some(first) => {
            place = first.place;
            if effect == Effect::Applied && !(item.is_forced && first.is_forced) {
                let why =
                    format!("systemd-tmpfiles ignores it: {} names the same path", first.source);
                effect = Effect::Ignored(why.into());
            }
        }
        None if effect == Effect::Applied => {
            let (source, is_forced) = (line.source(), item.is_forced);
            known.insert(path, First { place, source, is_forced });
        }
        None => {}
    }
    for target in targets {
        all.add_at(place, target, value.as_bytes(), line, &effect);
    }
}

/// Combines the effect of a file with that of a line. If the whole file is not applied, its reason
/// takes precedence over that of the line.
fn more_restrictive_effect(of_file: &Effect, of_line: &Effect) -> Effect {
    if *of_file == Effect::Applied { of_line.clone() } else { of_file.clone() }
}

/// One line that writes to a file below `/proc/sys` or `/sys`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The path to write to, in which specifiers and patterns are not resolved.
    pub path: String,
    /// The value to write, in which specifiers are not resolved.
    pub value: String,
    /// Whether the line is `w+`: it is applied even if other `w+` lines have the same path.
    pub is_forced: bool,
    /// Whether the line would be applied if it were the only one.
    pub effect: Effect,
}

/// Parses a line such as `w /sys/kernel/mm/ksm/run - - - - 1`.
#[must_use]
pub fn parse_line(line: &[u8]) -> Option<Item> {
    let line = line.trim_ascii();
    if !line.starts_with(b"w") && !line.starts_with(b"\"w") && !line.starts_with(b"'w") {
        return None;
    }
    let mut rest = line;
    let kind = next_field(&mut rest)?;
    let path = next_field(&mut rest)?;
    if !is_setting(&path) {
        return None;
    }
    for _mode_user_group_age in 0..4 {
        next_field(&mut rest);
    }
    let modifiers = kind.strip_prefix('w')?;
    if !modifiers.bytes().all(|byte| b"+!-=~^$?".contains(&byte)) {
        return None;
    }
    let argument = rest.trim_ascii();
    let effect = if argument.is_empty() || argument == b"-" {
        Effect::Ignored("it has no value".into())
    } else if modifiers.contains(['~', '^']) {
        Effect::Unknown("its value is encoded or a credential".into())
    } else {
        Effect::Applied
    };
    let value = String::from_utf8_lossy(&unescape(argument)).into_owned();
    let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(Item { path, value, is_forced: modifiers.contains('+'), effect })
}

/// Whether a path is that of a kernel setting.
fn is_setting(path: &str) -> bool {
    let is_plain = !path.split('/').any(|part| matches!(part, "." | ".."));
    is_plain && ["/sys/", "/proc/sys/"].iter().any(|folder| path.starts_with(folder))
}

/// The next field of a line, with quotes and escapes resolved.
fn next_field(rest: &mut &[u8]) -> Option<String> {
    let text = rest.trim_ascii_start();
    let mut word = Vec::new();
    let mut quote = None;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match (quote, byte) {
            (None, byte) if byte.is_ascii_whitespace() => break,
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if byte == open => quote = None,
            (_, b'\\') => {
                word.push(b'\\');
                at += 1;
                word.extend(text.get(at));
            }
            (_, byte) => word.push(byte),
        }
        at += 1;
    }
    *rest = text.get(at..).unwrap_or_default();
    let word = String::from_utf8(unescape(&word)).ok()?;
    (!word.is_empty()).then_some(word)
}

/// Resolves C escapes in a value, as far as they occur in settings.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            plain.push(byte);
            continue;
        }
        plain.push(match bytes.next() {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b's') => b' ',
            Some(other) => other,
            None => b'\\',
        });
    }
    plain
}

/// Resolves the specifiers in a text; returns `None` if a specifier is unknown.
fn resolve(text: &str, release: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            plain.push(c);
            continue;
        }
        match rest.next()? {
            '%' => plain.push('%'),
            'v' if !release.is_empty() => plain.push_str(release),
            _ => return None,
        }
    }
    Some(plain)
}

/// Whether a recording may contain this line: it writes known words or numbers to a setting of the
/// table.
#[must_use]
pub fn is_known(line: &[u8]) -> bool {
    parse_line(line).is_some_and(|item| {
        let targets = knob_path::find_targets(item.path.trim_start_matches('/'));
        let fields: Vec<&[u8]> = words(line).skip(2).take(4).collect();
        let has_defaults = fields.iter().all(|field| *field == b"-");
        !targets.is_empty() && has_defaults && is_plain(item.value.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{host, show_all};

    #[test]
    fn the_first_line_for_a_path_wins() {
        let host = host([
            (
                "etc/tmpfiles.d/10.conf",
                "# w /sys/kernel/mm/ksm/run - - - - 0\nd /run/x 0755 - - -\n\
                 w /sys/kernel/mm/ksm/run - - - - 1\n\
                 w! /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise\n",
            ),
            (
                "usr/lib/tmpfiles.d/20.conf",
                "w /sys/kernel/mm/ksm/run - - - - 0\n\
                 w+ /sys/kernel/mm/ksm/run - - - - 2\n\
                 'w' \"/sys/kernel/mm/transparent_hugepage/hugepages-*/enabled\" - - - - never\\n\n\
                 w /proc/sys/vm/swappiness\n\
                 w /proc/sys/vm/page-cluster - - - - %m\n\
                 w /sys/../etc/passwd - - - - x\n",
            ),
        ]);
        assert_eq!(
            show_all(&read(&host)),
            [
                "ksm.run 1 /etc/tmpfiles.d/10.conf:3",
                "ksm.run 0 /usr/lib/tmpfiles.d/20.conf:1 ignored: systemd-tmpfiles ignores it: \
                 /etc/tmpfiles.d/10.conf:3 names the same path",
                "ksm.run 2 /usr/lib/tmpfiles.d/20.conf:2 ignored: systemd-tmpfiles ignores it: \
                 /etc/tmpfiles.d/10.conf:3 names the same path",
                "/proc/sys/vm/page-cluster %m /usr/lib/tmpfiles.d/20.conf:5 unknown: \
                 it has a specifier that pagewise does not resolve",
                "thp.enabled madvise /etc/tmpfiles.d/10.conf:4",
                "thp.size.enabled[*] never /usr/lib/tmpfiles.d/20.conf:3",
                "vm.swappiness  /usr/lib/tmpfiles.d/20.conf:4 ignored: it has no value",
            ]
        );
    }

    #[test]
    fn lines_that_may_repeat_a_path_are_applied_where_the_first_stands() {
        let text = "w+ /proc/sys/vm/dirty_ratio - - - - 1\nw /proc/sys/vm/dirty_*ratio - - - - 2\n\
                    w+ /proc/sys/vm/dirty_ratio - - - - 3\nw /proc/sys/vm/dirty_ratio - - - - 4\n";
        let at = "/etc/tmpfiles.d/1.conf";
        assert_eq!(
            show_all(&read(&host([("etc/tmpfiles.d/1.conf", text)]))),
            [
                format!("vm.dirty_ratio 1 {at}:1"),
                format!("vm.dirty_ratio 3 {at}:3"),
                format!(
                    "vm.dirty_ratio 4 {at}:4 ignored: systemd-tmpfiles ignores it: {at}:1 names the same path"
                ),
                format!("vm.dirty_ratio 2 {at}:2"),
                format!("vm.dirty_background_ratio 2 {at}:2"),
            ]
        );
    }

    #[test]
    fn specifiers_that_are_known_are_resolved() {
        assert_eq!(resolve("50%% of %v", "6.12.1").as_deref(), Some("50% of 6.12.1"));
        assert_eq!((resolve("%m", "6"), resolve("%", "6"), resolve("%v", "")), (None, None, None));
    }

    #[test]
    fn a_recording_gets_only_settings() {
        assert!(is_known(b"w /sys/kernel/mm/ksm/run - - - - 1"));
        assert!(!is_known(b"w /sys/kernel/mm/ksm/run - - - - bob's/secret"));
        assert!(!is_known(b"w /sys/class/leds/x - - - - 1"));
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse_line(&[b"w /sys/", line.as_slice()].concat());
            let _ = parse_line(&line);
        }
    }
}
