// SPDX-License-Identifier: Apache-2.0 OR MIT
//! hugetlb pages for the canary: free pages of the pools; if there are none, a pool is enlarged
//! while the canary runs. A pool that cannot provide pages is reported, and the other pools are
//! measured.

use crate::host_loans::HostLoans;
use anyhow::Context;
use pagewise_bench::pool::PoolMemory;
use pagewise_model::lend::{KnobSetting, Lender};
use pagewise_model::{Bytes, HugePool, Snapshot};

/// The mapped hugetlb memory, and the temporary changes to the pools' sizes.
#[derive(Debug, Default)]
pub(super) struct Pools {
    /// The pools of preallocated huge pages: the page size of each, and its memory.
    pub(super) memory: Vec<(Bytes, PoolMemory)>,
    /// Why other pools of huge pages are not measured.
    pub(super) left_out: Vec<String>,
    loans: Option<HostLoans>,
}

impl Pools {
    /// Maps this many bytes from every hugetlb pool of this machine.
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
        self.enlarge(pool.page_bytes, total + needed)?;
        Ok(PoolMemory::map(bytes, pool.page_bytes)?)
    }

    /// Enlarges a hugetlb pool for the duration of the measurement. If memory is too fragmented for
    /// that, the pool keeps its size.
    fn enlarge(&mut self, page: Bytes, pages: u64) -> anyhow::Result<()> {
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

    /// Frees the mapped pages, then restores the sizes of the pools.
    pub(super) fn end(mut self) {
        self.memory.clear();
        if let Some(loans) = self.loans.take() {
            loans.end_with_messages();
        }
    }
}
