// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many of each thing are read of a host: one row for each limit, made by [`limit_table!`](crate::limit_table).

use pagewise_model::Source;

use crate::answer::absolute;
use crate::read::ReadHost;
use crate::root::HostRoot;

/// One limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// How many are read.
    pub most: usize,
    /// Of what.
    pub what: &'static str,
    /// Where they are listed.
    pub listed_in: &'static str,
    /// Which are read where there are more, and who says so.
    pub beyond: &'static str,
}

/// Makes a constant of each row, and `LIMITS` of all of them.
#[macro_export]
macro_rules! limit_table {
    ($($name:ident = $most:expr, $what:literal, $listed_in:literal, $beyond:literal;)*) => {
        $(
            #[doc = $what]
            pub(crate) const $name: usize = $most;
        )*

        /// All of them.
        pub const LIMITS: &[$crate::limits::Limit] = &[$(
            $crate::limits::Limit {
                most: $name, what: $what, listed_in: $listed_in, beyond: $beyond,
            },
        )*];
    };
}

/// The first of what a folder lists. Where there are more, a Problem says how many.
pub fn first<T>(host: &HostRoot, folder: &str, most: usize, mut listed: Vec<T>) -> Vec<T> {
    if is_beyond(host, folder, most, listed.len()) {
        listed.truncate(most);
    }
    listed
}

/// As [`first`], but the last ones: for files of which a later one overrules an earlier one.
pub fn last<T>(host: &HostRoot, folder: &str, most: usize, mut listed: Vec<T>) -> Vec<T> {
    if is_beyond(host, folder, most, listed.len()) {
        listed.drain(..listed.len() - most);
    }
    listed
}

fn is_beyond(host: &HostRoot, folder: &str, most: usize, found: usize) -> bool {
    let is_beyond = found > most;
    if is_beyond {
        let found = format!("{found} entries, {most} of them read");
        let source = Source::file(absolute(folder));
        host.problem(&source, &format!("at most {most} entries"), found.as_bytes());
    }
    is_beyond
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left out is said, once, and what is not left out is not.
    #[test]
    fn what_is_beyond_a_limit_is_told() {
        let host = HostRoot::memory([]);
        assert_eq!(first(&host, "sys/x", 3, vec![1, 2, 3]), [1, 2, 3]);
        assert!(host.take_problems().is_empty());
        assert_eq!(first(&host, "sys/x", 3, vec![1, 2, 3, 4]), [1, 2, 3]);
        let [problem] = &host.take_problems()[..] else { panic!() };
        assert!(problem.to_string().contains("4 entries, 3 of them read"), "{problem}");
        assert_eq!(last(&host, "sys/x", 3, vec![1, 2, 3, 4]), [2, 3, 4]);
        assert_eq!(host.take_problems().len(), 1);
    }
}
