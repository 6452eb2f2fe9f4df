// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `vm.swappiness` and what it makes of scanning.
//!
//! Classic reclaim shares scanning between the anonymous and the file lists. Source: the kernel's
//! `get_scan_count`: the anonymous list is weighted with `s·(total+1)/(anon_cost+1)` and the file
//! list with `(200−s)·(total+1)/(file_cost+1)`, each times the size of its list. The kernel exports
//! neither cost; with equal ones the weights are `s/200` and `(200−s)/200`. That assumption is
//! strong: with swappiness 1 the costs soon outweigh it, and only 0 is taken literally.

use pagewise_model::{Bytes, Name, Reading, Snapshot};

/// The setting and where it was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Swappiness<'a> {
    pub(crate) value: u64,
    pub(crate) reading: &'a Reading<Name>,
}

/// The host's setting.
pub(crate) fn read_swappiness(host: &Snapshot) -> Option<Swappiness<'_>> {
    let reading = &host.knob("vm.swappiness")?.live;
    let value = reading.value()?.as_str().parse().ok()?;
    Some(Swappiness { value, reading })
}

/// How this kernel chooses pages to reclaim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lru {
    /// Active and inactive lists, shared out by swappiness.
    Classic,
    /// Multi-gen LRU is on: the formula above is not used.
    Generations,
    /// Not read, or not for us to read.
    Unknown,
}

/// Which of them it is. A kernel without the file has only the classic lists.
pub(crate) fn lru(host: &Snapshot) -> Lru {
    let enabled = &host.mglru.enabled;
    match host.mglru.is_on() {
        Some(true) => Lru::Generations,
        Some(false) => Lru::Classic,
        None if enabled.is_denied() || enabled.source.path().is_empty() => Lru::Unknown,
        None => Lru::Classic,
    }
}

/// The lists that classic reclaim chooses from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lists {
    pub(crate) anon: Bytes,
    pub(crate) file: Bytes,
}

/// Their sizes.
pub(crate) fn lists(host: &Snapshot) -> Option<Lists> {
    let memory = &host.memory;
    let sum = |a: &Reading<Bytes>, b: &Reading<Bytes>| Some(a.get()?.saturating_add(b.get()?));
    Some(Lists {
        anon: sum(&memory.active_anon, &memory.inactive_anon)?,
        file: sum(&memory.active_file, &memory.inactive_file)?,
    })
}

impl Lists {
    /// Share of scanning, in percent, that anonymous pages get where both costs are equal; `None`
    /// where both lists are empty.
    pub(crate) fn anon_percent(self, swappiness: u64) -> Option<f64> {
        let swappiness = swappiness.min(200) as f64;
        let anon = self.anon.get() as f64 * swappiness;
        let file = self.file.get() as f64 * (200.0 - swappiness);
        (anon + file > 0.0).then(|| anon * 100.0 / (anon + file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_costs_share_scanning_by_swappiness_and_list_size() {
        let lists = |anon, file| Lists { anon: Bytes::new(anon), file: Bytes::new(file) };
        assert_eq!(lists(100, 100).anon_percent(100), Some(50.0));
        assert_eq!(lists(100, 100).anon_percent(60), Some(30.0));
        assert_eq!(lists(300, 100).anon_percent(100), Some(75.0));
        assert_eq!(lists(100, 100).anon_percent(0), Some(0.0));
        assert_eq!(lists(0, 0).anon_percent(60), None);
    }
}
