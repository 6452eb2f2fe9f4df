// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What multi-gen LRU knows of how long pages were not used.

use crate::{Millis, Name, Pages};

/// One memory cgroup's pages on all nodes, by generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupGenerations {
    /// Path below the hierarchy's root, starting with `/`.
    pub path: Name,
    /// For each node its generations, oldest first.
    pub nodes: Vec<Vec<Generation>>,
}

/// Pages that were last seen in use at about the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    /// How long ago it began.
    pub age: Millis,
    /// Anonymous pages and shmem.
    pub anon: Pages,
    /// Pages of files.
    pub file: Pages,
}

impl GroupGenerations {
    /// Anonymous pages that were not seen in use for so long: those of every generation whose successor
    /// began that long ago. The kernel notices a use only at its next scan of the page tables. The
    /// youngest generation says nothing: its pages may have been used a moment ago.
    pub fn cold_anon(&self, at_least: Millis) -> Pages {
        let cold = |pair: &[Generation]| (pair[1].age >= at_least).then_some(pair[0].anon);
        self.nodes.iter().flat_map(|node| node.windows(2).filter_map(cold)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_as_cold_as_the_next_generation_is_old() {
        let generation = |seconds: u64, anon| Generation {
            age: Millis::new(seconds * 1000),
            anon: Pages::new(anon),
            file: Pages::new(1),
        };
        let nodes = vec![
            vec![generation(900, 10), generation(300, 20), generation(60, 40)],
            vec![generation(900, 5)],
        ];
        let group = GroupGenerations { path: "/a".into(), nodes };
        let cold = |seconds: u64| group.cold_anon(Millis::new(seconds * 1000)).get();
        assert_eq!((cold(300), cold(60), cold(301)), (10, 30, 0));
    }
}
