// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long pages have been idle, according to the generations of multi-gen LRU.

use crate::{Millis, Name, Pages};

/// Pages of one memory cgroup on all NUMA nodes, by generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupGenerations {
    /// The id by which `lru_gen` names the cgroup. It is not the inode of the cgroup's folder.
    pub id: u64,
    /// Path of the cgroup below the hierarchy's root, starting with `/`.
    pub path: Name,
    /// The generations on each NUMA node that has memory.
    pub nodes: Vec<NodeGenerations>,
}

/// Pages of one memory cgroup on one NUMA node, by generation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeGenerations {
    /// Number of the NUMA node.
    pub node: u32,
    /// The generations, oldest first.
    pub generations: Vec<Generation>,
}

impl NodeGenerations {
    /// Number of the youngest generation; `None` if the kernel listed none.
    pub fn youngest(&self) -> Option<u64> {
        self.generations.last().map(|generation| generation.number)
    }
}

/// A generation: pages that were last seen in use at about the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    /// Number of the generation. Each aging adds a generation with the next number.
    pub number: u64,
    /// Age of the generation: the time since the kernel created it.
    pub age: Millis,
    /// Number of anonymous pages and shmem pages in the generation.
    pub anon: Pages,
    /// Number of file pages in the generation.
    pub file: Pages,
}

impl GroupGenerations {
    /// Counts anonymous pages that were not seen in use for at least `at_least`: the pages of every
    /// generation whose successor is at least that old. The pages of the youngest generation are
    /// not counted, because the kernel notices that a page was used only at the next scan of the
    /// page tables: these pages may have been used a moment ago.
    pub fn cold_anon(&self, at_least: Millis) -> Pages {
        let cold = |pair: &[Generation]| (pair[1].age >= at_least).then_some(pair[0].anon);
        self.nodes.iter().flat_map(|node| node.generations.windows(2).filter_map(cold)).sum()
    }

    /// Counts anonymous pages and file pages that had been idle for at least `at_least` when the
    /// kernel last scanned: the pages of every generation whose successor was created at least that
    /// long before the youngest generation. This is stricter than [`Self::cold_anon`]: the time
    /// since the youngest generation was created does not count, because the kernel has not scanned
    /// in this time.
    pub fn idle(&self, at_least: Millis) -> (Pages, Pages) {
        let (mut anon, mut file) = (0u64, 0u64);
        for node in self.nodes.iter().map(|node| &node.generations) {
            let Some(youngest) = node.last() else { continue };
            let proved = |pair: &&[Generation]| {
                pair[1].age.get().saturating_sub(youngest.age.get()) >= at_least.get()
            };
            for pair in node.windows(2).filter(proved) {
                anon = anon.saturating_add(pair[0].anon.get());
                file = file.saturating_add(pair[0].file.get());
            }
        }
        (Pages::new(anon), Pages::new(file))
    }

    /// The longest idle time that [`Self::idle`] can detect: from the creation of the second oldest
    /// generation to that of the youngest. Zero if the kernel has not scanned the pages twice.
    pub fn observed(&self) -> Millis {
        let of_node = |node: &NodeGenerations| {
            let (second, youngest) = (node.generations.get(1)?, node.generations.last()?);
            Some(second.age.get().saturating_sub(youngest.age.get()))
        };
        Millis::new(self.nodes.iter().filter_map(of_node).max().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_node(generations: Vec<Generation>) -> NodeGenerations {
        NodeGenerations { node: 0, generations }
    }

    #[test]
    fn a_page_is_as_cold_as_the_next_generation_is_old() {
        let generation = |seconds: u64, anon| Generation {
            number: 0,
            age: Millis::new(seconds * 1000),
            anon: Pages::new(anon),
            file: Pages::new(1),
        };
        let nodes = vec![
            vec![generation(900, 10), generation(300, 20), generation(60, 40)],
            vec![generation(900, 5)],
        ];
        let nodes = nodes.into_iter().map(on_node).collect();
        let group = GroupGenerations { id: 1, path: "/a".into(), nodes };
        let cold = |seconds: u64| group.cold_anon(Millis::new(seconds * 1000)).get();
        assert_eq!((cold(300), cold(60), cold(301)), (10, 30, 0));
    }

    #[test]
    fn idle_time_ends_when_the_kernel_last_looked() {
        let generation = |seconds: u64, anon, file| Generation {
            number: 0,
            age: Millis::new(seconds * 1000),
            anon: Pages::new(anon),
            file: Pages::new(file),
        };
        let node = vec![
            generation(900, 10, 1),
            generation(500, 20, 2),
            generation(300, 40, 4),
            generation(200, 80, 8),
        ];
        let group = GroupGenerations {
            id: 1,
            path: "/a".into(),
            nodes: vec![on_node(node), on_node(Vec::new())],
        };
        let idle = |seconds: u64| {
            let (anon, file) = group.idle(Millis::new(seconds * 1000));
            (anon.get(), file.get())
        };
        // the youngest generation is 200 s old, and the kernel has not scanned in these 200 s
        assert_eq!([idle(300), idle(100), idle(301)], [(10, 1), (30, 3), (0, 0)]);
        assert_eq!(group.observed(), Millis::new(300_000));
        let once = GroupGenerations { nodes: vec![on_node(vec![generation(900, 1, 1)])], ..group };
        assert_eq!(once.observed(), Millis::new(0));
    }
}
