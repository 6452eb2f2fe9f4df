// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of the pools (hugetlb) for the canary: those that are free, or else borrowed by making a pool
//! larger for as long as it runs. What cannot be had is said, and the others are measured.

use crate::host_loans::HostLoans;
use anyhow::Context;
use pagewise_bench::pool::PoolMemory;
use pagewise_model::lend::{KnobSetting, Lender};
use pagewise_model::{Bytes, HugePool, Snapshot};

/// Memory of each pool, and what was borrowed for it.
#[derive(Debug, Default)]
pub(super) struct Pools {
    /// The size of its pages.
    pub(super) memory: Vec<(Bytes, PoolMemory)>,
    /// Why others are not among it.
    pub(super) left_out: Vec<String>,
    loans: Option<HostLoans>,
}

impl Pools {
    /// So many bytes of every pool that this machine has.
    pub(super) fn open(seen: &Snapshot, bytes: usize) -> Self {
        let mut pools = Self::default();
        let known = seen.hugetlb.iter().filter(|pool| pool.node.is_none());
        for pool in known {
            match pools.map_pool(pool, bytes) {
                Ok(memory) => pools.memory.push((pool.page_bytes, memory)),
                Err(why) => {
                    pools
                        .left_out
                        .push(format!("Pages of {} are left out: {why:#}.", pool.page_bytes));
                }
            }
        }
        if pools.memory.is_empty() && pools.left_out.is_empty() {
            pools.left_out.push("This kernel has no pools of huge pages.".to_owned());
        }
        pools
    }

    fn map_pool(&mut self, pool: &HugePool, bytes: usize) -> anyhow::Result<PoolMemory> {
        if let Ok(memory) = PoolMemory::map(bytes, pool.page_bytes) {
            return Ok(memory);
        }
        let needed = (bytes as u64).div_ceil(pool.page_bytes.get());
        let total = pool.total.get().context("the size of its pool is not known")?;
        self.borrow(pool.page_bytes, total + needed)?;
        Ok(PoolMemory::map(bytes, pool.page_bytes)?)
    }

    /// Makes the pool larger; where memory is too fragmented for that, it is as it was.
    fn borrow(&mut self, page: Bytes, pages: u64) -> anyhow::Result<()> {
        if self.loans.is_none() {
            self.loans = Some(HostLoans::open(false)?);
        }
        let Some(loans) = &mut self.loans else { return Ok(()) };
        let instance = format!("{}kB", page.get() >> 10);
        let name = "hugetlb.nr_hugepages";
        let setting = KnobSetting::of_instance(name, &instance, pages.to_string());
        loans.session.lend_knob(&setting)?;
        Ok(())
    }

    /// Gives all back: first the pages, then what the pools were made larger by.
    pub(super) fn end(mut self) {
        self.memory.clear();
        if let Some(loans) = self.loans.take() {
            loans.end_told();
        }
    }
}
