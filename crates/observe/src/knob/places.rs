// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replaces the placeholders of a path by what exists on a host.

use crate::huge_page_sizes::list_huge_page_sizes;
use std::collections::HashMap;

use pagewise_model::{Name, Source};

use crate::limits::SETTING_PLACES;
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues, absolute_path};

/// One file that matches the path of a row in the settings table.
#[derive(Debug)]
pub(super) struct KnobFile {
    pub(super) path: String,
    /// The values of the placeholders, joined by `/`; `None` if the path has no placeholder.
    pub(super) instance: Option<Name>,
}

/// Finds the files of settings; lists each folder only once.
#[derive(Debug)]
pub(super) struct KnobFiles<'h> {
    host: &'h HostRoot,
    listed: HashMap<String, Vec<String>>,
    /// More files exist than are read; a Problem was recorded.
    is_cut: bool,
}

impl<'h> KnobFiles<'h> {
    pub(super) fn new(host: &'h HostRoot) -> Self {
        Self { host, listed: HashMap::new(), is_cut: false }
    }

    /// Every file that matches `path`; empty if a placeholder has no match.
    pub(super) fn find(&mut self, path: &str) -> Vec<KnobFile> {
        if !path.contains('{') {
            return vec![KnobFile { path: path.to_owned(), instance: None }];
        }
        let mut open = vec![(path.to_owned(), Vec::new())];
        while open.first().is_some_and(|(path, _)| path.contains('{')) {
            open = open.iter().flat_map(|(path, filled)| self.fill(path, filled)).collect();
            open = self.take_first(path, open);
        }
        let place = |(path, filled): (String, Vec<String>)| KnobFile {
            path,
            instance: (!filled.is_empty()).then(|| Name::from(filled.join("/").as_str())),
        };
        open.into_iter().map(place).collect()
    }

    /// Truncates the list of a setting's files to the maximum number. The Problem is recorded for
    /// one setting only, because the other settings in the same folders exceed the maximum too.
    fn take_first<T>(&mut self, path: &str, mut open: Vec<T>) -> Vec<T> {
        if open.len() > SETTING_PLACES && !self.is_cut {
            let expected = format!("at most {SETTING_PLACES} files");
            self.host.problem(&Source::file(absolute_path(path)), &expected, b"more of them");
            self.is_cut = true;
        }
        open.truncate(SETTING_PLACES);
        open
    }

    /// `path` with its first placeholder replaced by each possible value.
    fn fill(&mut self, path: &str, before: &[String]) -> Vec<(String, Vec<String>)> {
        let Some((head, tail)) = path.split_once('{') else { return Vec::new() };
        let Some((placeholder, tail)) = tail.split_once('}') else { return Vec::new() };
        // one more than the maximum, to detect that there are more
        let ways = self.continuations(head, placeholder).iter().take(SETTING_PLACES + 1);
        let fill = |way: &String| {
            let filled = before.iter().chain([way]).cloned().collect();
            (format!("{head}{way}{tail}"), filled)
        };
        ways.map(fill).collect()
    }

    /// Possible continuations of `head` (a folder and the beginning of a name) where the path has a
    /// placeholder.
    fn continuations(&mut self, head: &str, placeholder: &str) -> &[String] {
        let host = self.host;
        self.listed.entry(head.to_owned()).or_insert_with(|| {
            let (folder, prefix) = head.rsplit_once('/').unwrap_or(("", head));
            if placeholder == "size" { sizes(host, folder) } else { numbers(host, folder, prefix) }
        })
    }
}

fn numbers(host: &HostRoot, folder: &str, prefix: &str) -> Vec<String> {
    host.list_numbers(folder, prefix).iter().map(ToString::to_string).collect()
}

/// Huge page sizes, spelled as in the kernel's folder names, smallest first.
fn sizes(host: &HostRoot, folder: &str) -> Vec<String> {
    let names = list_huge_page_sizes(host, folder).into_iter();
    names.filter_map(|(_, name)| name.strip_prefix("hugepages-").map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::host;

    fn find_in(host: &HostRoot, path: &str) -> Vec<(String, String)> {
        let describe = |place: KnobFile| {
            (place.path, place.instance.map_or_else(String::new, |i| i.to_string()))
        };
        KnobFiles::new(host).find(path).into_iter().map(describe).collect()
    }

    #[test]
    fn placeholders_are_filled_from_left_to_right() {
        let host =
            host(["k/0/c/0/s/0/a", "k/0/c/0/s/1/a", "k/1/c/nr", "k/2/c/0/s/4/a"].map(|p| (p, "")));
        let found = find_in(&host, "k/{N}/c/{N}/s/{N}/a");
        let instances: Vec<&str> = found.iter().map(|(_, instance)| instance.as_str()).collect();
        assert_eq!(instances, ["0/0/0", "0/0/1", "2/0/4"]);
        assert_eq!(found[2].0, "k/2/c/0/s/4/a");
    }

    #[test]
    fn a_path_without_placeholder_is_itself() {
        let host = host::<&str>([]);
        assert_eq!(find_in(&host, "proc/x"), [("proc/x".to_owned(), String::new())]);
        assert!(find_in(&host, "proc/x{N}/y").is_empty());
    }

    #[test]
    fn a_host_of_a_million_things_does_not_multiply() {
        let paths: Vec<String> = (0..300).map(|n| format!("k/{n}/c/{n}/a")).collect();
        let host = host(paths.iter().map(|path| (path.as_str(), "")));
        assert_eq!(find_in(&host, "k/{N}/c/{N}/a").len(), SETTING_PLACES);
        let problems = host.take_problems();
        assert!(
            problems.iter().any(|it| it.to_string().contains("at most 256 files")),
            "{problems:?}"
        );
    }
}
