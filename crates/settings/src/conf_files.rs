// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists the files of a `.d` folder that exists in several places, in the order in which systemd's
//! tools read them.
//!
//! The order depends on the file *name* only, whatever folder the file is in. Of several files with
//! the same name, only the one in the first folder is read. It hides the others even if it is
//! empty, a link to `/dev/null`, a dangling link, or not readable. Files that are not read are
//! listed as well, after those that are read.

use std::borrow::Cow;
use std::collections::BTreeMap;

use pagewise_hostfs::limits::last;
use pagewise_hostfs::{HostRoot, ReadHost, absolute_path};
use pagewise_model::Effect;

use crate::limits::CONFIG_FILES;

/// A configuration file, and whether it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfFile {
    /// The path of the file, without the leading `/`.
    pub path: String,
    /// Whether the file is read, or why not.
    pub standing: Standing,
}

/// Whether a file of a `.d` folder is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The file is read.
    Read,
    /// The file is not read, because a folder that comes first contains a file of the same name,
    /// whose path this is.
    HiddenBy(String),
    /// The file is not read, because its name does not have this suffix.
    Misnamed(&'static str),
}

impl ConfFile {
    /// Whether the lines of the file are applied and, if not, why.
    #[must_use]
    pub fn effect(&self) -> Effect {
        let why: Cow<'static, str> = match &self.standing {
            Standing::Read => return Effect::Applied,
            Standing::HiddenBy(path) => {
                format!("{} has the same name and is read instead", absolute_path(path)).into()
            }
            Standing::Misnamed(suffix) => format!("its name does not end in {suffix}").into(),
        };
        Effect::Ignored(why)
    }
}

/// Lists the files in these folders whose names end in `suffix`; a file hides those of the same
/// name in later folders. Files without a dot in their name are listed as misnamed, because the
/// suffix was probably forgotten; all other files are left out.
pub fn list_in_order(host: &HostRoot, folders: &[String], suffix: &'static str) -> Vec<ConfFile> {
    let mut read: BTreeMap<String, String> = BTreeMap::new();
    let mut unread = Vec::new();
    for folder in folders {
        for name in host.names(folder) {
            let path = format!("{folder}/{name}");
            if name.starts_with('.') {
                continue;
            } else if !name.ends_with(suffix) {
                let standing = Standing::Misnamed(suffix);
                unread.extend(lacks_suffix(&name).then_some(ConfFile { path, standing }));
            } else if let Some(first) = read.get(&name) {
                unread.push(ConfFile { path, standing: Standing::HiddenBy(first.clone()) });
            } else {
                read.insert(name, path);
            }
        }
    }
    let folder = folders.first().map_or("", String::as_str);
    let is_read = |path| ConfFile { path, standing: Standing::Read };
    let mut all = last(host, folder, CONFIG_FILES, read.into_values().map(is_read).collect());
    unread.truncate(CONFIG_FILES);
    all.extend(unread);
    all
}

/// Whether the suffix of a configuration file was probably forgotten.
#[must_use]
pub fn lacks_suffix(name: &str) -> bool {
    !name.contains('.') && name != "README"
}

/// Returns the folders in which systemd looks for files of a kind, such as `etc/sysctl.d`. Files in
/// earlier folders hide those in later ones.
#[must_use]
pub fn systemd_folders(name: &str) -> Vec<String> {
    ROOTS.map(|root| format!("{root}/{name}")).to_vec()
}

/// Whether `folder` is one of [`systemd_folders`].
#[must_use]
pub fn is_systemd_folder(folder: &str, name: &str) -> bool {
    let root = folder.strip_suffix(name).and_then(|root| root.strip_suffix('/'));
    root.is_some_and(|root| ROOTS.contains(&root))
}

/// The folders in which systemd looks for folders with files of a kind; earlier ones take
/// precedence.
const ROOTS: [&str; 4] = ["etc", "run", "usr/local/lib", "usr/lib"];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::host;

    /// The rule as the manual states it: the set of all names, each in the first folder that
    /// contains it.
    fn naive(files: &BTreeSet<(usize, String)>) -> Vec<String> {
        let folders = systemd_folders("sysctl.d");
        let mut names: Vec<&String> = files.iter().map(|(_, name)| name).collect();
        names.retain(|name| name.ends_with(".conf") && !name.starts_with('.'));
        names.sort();
        names.dedup();
        let first = |name: &String| (0..4).find(|folder| files.contains(&(*folder, name.clone())));
        let path = |name: &String| format!("{}/{name}", folders[first(name).unwrap()]);
        names.into_iter().map(path).collect()
    }

    proptest! {
        /// Each name is listed once, in the order of the names, in the first folder that contains
        /// it.
        #[test]
        fn files_are_chosen_as_the_manual_says(
            files in prop::collection::btree_set((0usize..4, r"\.?[0-9a-cA-C][-0-9a-c]{0,3}(\.conf|\.conf~|)"), 0..40)
        ) {
            let folders = systemd_folders("sysctl.d");
            let paths: Vec<String> =
                files.iter().map(|(folder, name)| format!("{}/{name}", folders[*folder])).collect();
            let host = host(paths.iter().map(|path| (path.as_str(), "")));
            let all = list_in_order(&host, &folders, ".conf");
            let read = all.iter().filter(|file| file.standing == Standing::Read);
            prop_assert_eq!(read.map(|file| file.path.clone()).collect::<Vec<_>>(), naive(&files));
            // no path is listed twice
            let listed: BTreeSet<&str> = all.iter().map(|file| file.path.as_str()).collect();
            prop_assert_eq!(listed.len(), all.len());
        }
    }

    #[test]
    fn a_forgotten_suffix_is_told_from_other_files() {
        let names = ["99-swap", "README", "90.conf.bak", "90.conf~", ".hidden.conf"];
        let paths = names.map(|name| format!("etc/sysctl.d/{name}"));
        let host = host(paths.iter().map(|path| (path.as_str(), "")));
        let [file] = &list_in_order(&host, &systemd_folders("sysctl.d"), ".conf")[..] else {
            panic!()
        };
        assert_eq!(file.path, "etc/sysctl.d/99-swap");
        assert_eq!(file.effect(), Effect::Ignored("its name does not end in .conf".into()));
    }

    #[test]
    fn of_ten_thousand_files_the_last_are_read_because_they_win() {
        let paths: Vec<String> =
            (0..10_000).map(|at| format!("etc/sysctl.d/{at:05}.conf")).collect();
        let host = host(paths.iter().map(|path| (path.as_str(), "")));
        let all = list_in_order(&host, &systemd_folders("sysctl.d"), ".conf");
        assert_eq!(all.len(), CONFIG_FILES);
        assert_eq!(all.last().unwrap().path, "etc/sysctl.d/09999.conf");
        assert!(host.take_problems()[0].to_string().contains("10,000 entries: only the last "));
    }
}
