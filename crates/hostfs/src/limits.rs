// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many of each thing are read from a host. There is one row per limit, declared with
//! [`limit_table!`](crate::limit_table).

use pagewise_model::{PartRead, Source};

use crate::answer::absolute_path;
use crate::read::ReadHost;
use crate::root::HostRoot;

/// A limit on the number of files, lines or entries that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The maximum number that is read.
    pub most: usize,
    /// What is counted, in words.
    pub what: &'static str,
    /// The file or folder that lists what is counted.
    pub listed_in: &'static str,
    /// What is read if there is more than the limit, and where this is reported.
    pub beyond: &'static str,
}

/// Declares a constant for each row, and `LIMITS` with all of them.
#[macro_export]
macro_rules! limit_table {
    ($($name:ident = $most:expr, $what:literal, $listed_in:literal, $beyond:literal;)*) => {
        $(
            #[doc = $what]
            pub(crate) const $name: usize = $most;
        )*

        /// All limits that this table declares.
        pub const LIMITS: &[$crate::limits::Limit] = &[$(
            $crate::limits::Limit {
                most: $name, what: $what, listed_in: $listed_in, beyond: $beyond,
            },
        )*];
    };
}

/// The first `most` of what a folder lists. If there are more, a Problem says how many.
pub fn first<T>(host: &HostRoot, folder: &str, most: usize, mut listed: Vec<T>) -> Vec<T> {
    if is_beyond(host, folder, most, listed.len(), PartRead::First) {
        listed.truncate(most);
    }
    listed
}

/// The last `most` of what a folder lists, for files of which a later one overrides an earlier
/// one. If there are more, a Problem says how many.
pub fn last<T>(host: &HostRoot, folder: &str, most: usize, mut listed: Vec<T>) -> Vec<T> {
    if is_beyond(host, folder, most, listed.len(), PartRead::Last) {
        listed.drain(..listed.len() - most);
    }
    listed
}

fn is_beyond(host: &HostRoot, folder: &str, most: usize, found: usize, part: PartRead) -> bool {
    let is_beyond = found > most;
    if is_beyond {
        let source = Source::file(absolute_path(folder));
        host.beyond_limit(&source, "entries", found as u64, most as u64, part);
    }
    is_beyond
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left out is reported once; otherwise nothing is reported.
    #[test]
    fn what_is_beyond_a_limit_is_told() {
        let host = HostRoot::memory([]);
        assert_eq!(first(&host, "sys/x", 3, vec![1, 2, 3]), [1, 2, 3]);
        assert!(host.take_problems().is_empty());
        assert_eq!(first(&host, "sys/x", 3, vec![1, 2, 3, 4]), [1, 2, 3]);
        let problem = host.take_problems().remove(0).to_string();
        assert_eq!(problem, "/sys/x: 4 entries: only the first 3 were read");
        assert_eq!(last(&host, "sys/x", 3, vec![1, 2, 3, 4]), [2, 3, 4]);
        let problems = host.take_problems();
        assert_eq!(problems[0].to_string(), "/sys/x: 4 entries: only the last 3 were read");
        assert_eq!(problems.len(), 1);
    }
}
