// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much memory would be in use if compressed pages counted at their size before compression.

use crate::{Bytes, Name, Outcome, Percent, Ratio, Reading, Snapshot, Source, Zram};

/// Memory in use, with and without compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectiveMemory {
    /// Size of all RAM: `MemTotal`.
    pub ram: Bytes,
    /// RAM in use: `MemTotal` minus `MemAvailable`. The kernel can give the remaining RAM to
    /// programs without swapping.
    pub in_use: Bytes,
    /// Size before compression of the pages in zram, zmerge and zswap. Pages on zram's backing
    /// device are not included.
    pub stored: Bytes,
    /// RAM that these compressed pages take, including the allocator's overhead.
    pub pool: Bytes,
}

impl EffectiveMemory {
    /// RAM that would be in use without compression: [`Self::in_use`] minus the RAM of the pools,
    /// plus the uncompressed size of the pages in them.
    pub fn uncompressed_size(&self) -> Bytes {
        self.in_use.saturating_sub(self.pool).saturating_add(self.stored)
    }

    /// [`Self::uncompressed_size`] in percent of RAM. Above 100 %, more memory is in use than RAM
    /// could hold without compression.
    pub fn of_ram(&self) -> Option<Percent> {
        self.uncompressed_size().percent_of(self.ram)
    }

    /// Size before compression per byte of RAM that the pools take; `None` if the pools are empty.
    pub fn stored_per_pool(&self) -> Option<Ratio> {
        Ratio::from_sizes(self.stored, self.pool)
    }
}

impl Snapshot {
    /// Computes how much memory would be in use if compressed pages counted at their size before
    /// compression. If a Reading that is needed has no value, the result is absent or denied like
    /// that Reading. A kernel without zram and zswap stores nothing compressed, which counts as 0.
    pub fn effective_memory(&self) -> Reading<EffectiveMemory> {
        self.measured_use().map_or_else(
            |outcome| Reading { outcome, source: Source::none() },
            |known| Reading::found(known, Source::none()),
        )
    }

    fn measured_use(&self) -> Result<EffectiveMemory, Outcome<EffectiveMemory>> {
        let ram = read_known(&self.memory.total)?;
        let in_use = ram.saturating_sub(read_known(&self.memory.available)?);
        let mut all = EffectiveMemory { ram, in_use, stored: Bytes::new(0), pool: Bytes::new(0) };
        let in_zram =
            self.compressed_devices().filter(|zram| zram.initialised.get() != Some(false));
        for zram in in_zram {
            all.add(stored_in_ram(zram)?, read_known(&zram.mm_stat.memory_used)?);
        }
        let has_zswap = !matches!(self.zswap.enabled.outcome, Outcome::Absent(_));
        if has_zswap {
            all.add(read_known(&self.zswap.stored)?, read_known(&self.zswap.pool)?);
        }
        Ok(all)
    }
}

impl EffectiveMemory {
    fn add(&mut self, stored: Bytes, pool: Bytes) {
        self.stored = self.stored.saturating_add(stored);
        self.pool = self.pool.saturating_add(pool);
    }
}

/// Uncompressed size of a device's pages that are in RAM. The kernel's `orig_data_size` includes
/// pages that were written to the backing device.
fn stored_in_ram(zram: &Zram) -> Result<Bytes, Outcome<EffectiveMemory>> {
    let stored = read_known(&zram.mm_stat.original)?;
    let has_backing = zram.backing_device.value().is_some_and(|it| it.as_str() != "none");
    let on_disk = if has_backing { read_known(&zram.bd_stat.held)? } else { Bytes::new(0) };
    Ok(stored.saturating_sub(on_disk))
}

/// Returns the value of a Reading, or the outcome that explains why there is none, with the file
/// that would contain it.
fn read_known(size: &Reading<Bytes>) -> Result<Bytes, Outcome<EffectiveMemory>> {
    let at = |why: &str| format!("{}: {why}", Name::from(size.source.to_string().as_str()));
    match &size.outcome {
        Outcome::Value(size) => Ok(*size),
        Outcome::Absent(why) => Err(Outcome::Absent(at(why).into())),
        Outcome::Denied(help) => Err(Outcome::Denied(at(help).into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BdStat, MmStat};

    const MIB: u64 = 1 << 20;

    fn size(mib: u64) -> Reading<Bytes> {
        Reading::found(Bytes::new(mib * MIB), Source::file("/proc/meminfo"))
    }

    fn zram(stored: u64, pool: u64) -> Zram {
        let mm_stat =
            MmStat { original: size(stored), memory_used: size(pool), ..MmStat::default() };
        Zram { mm_stat, ..Zram::default() }
    }

    fn host(zram: Vec<Zram>) -> Snapshot {
        let mut host = Snapshot { zram, ..Snapshot::default() };
        host.memory.total = size(1000);
        host.memory.available = size(400);
        host
    }

    fn outcome(host: &Snapshot) -> Outcome<EffectiveMemory> {
        host.effective_memory().outcome
    }

    #[test]
    fn pools_count_at_the_size_of_what_they_store() {
        let mut host = host(vec![zram(300, 100), zram(60, 20)]);
        host.zswap.enabled = Reading::found(true, Source::none());
        (host.zswap.stored, host.zswap.pool) = (size(40), size(30));
        let memory = host.effective_memory().get().unwrap();
        assert_eq!([memory.stored, memory.pool], [400, 150].map(|mib| Bytes::new(mib * MIB)));
        assert_eq!(memory.uncompressed_size(), Bytes::new((600 - 150 + 400) * MIB));
        assert_eq!(memory.of_ram().unwrap().get(), 85.0);
    }

    #[test]
    fn what_was_written_to_a_backing_device_is_not_in_ram() {
        let mut device = zram(300, 100);
        device.backing_device = Reading::found(Name::from("/dev/loop0"), Source::none());
        device.bd_stat = BdStat { held: size(120), ..BdStat::default() };
        let memory = host(vec![device.clone()]).effective_memory().get().unwrap();
        assert_eq!(memory.stored, Bytes::new(180 * MIB));
        device.bd_stat = BdStat::default();
        assert!(matches!(outcome(&host(vec![device])), Outcome::Absent(_)));
    }

    #[test]
    fn nothing_compressed_is_not_the_same_as_not_known() {
        let none = host(Vec::new()).effective_memory().get().unwrap();
        assert_eq!((none.uncompressed_size(), none.stored_per_pool()), (none.in_use, None));
        let unset = Zram { initialised: Reading::found(false, Source::none()), ..Zram::default() };
        assert!(host(vec![unset]).effective_memory().value().is_some());
        assert!(matches!(outcome(&host(vec![Zram::default()])), Outcome::Absent(_)));
        let mut denied = host(Vec::new());
        denied.zswap.enabled = Reading::found(true, Source::none());
        denied.zswap.stored = Reading::denied("run as root", Source::file("/sys/x"));
        let why = Outcome::Denied("/sys/x: run as root".into());
        assert_eq!(outcome(&denied), why);
    }
}
