// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers the questions that lead to the choice between zram and zswap, from the Readings of a
//! host. If an answer is not known, it says what is missing.
//!
//! An absent Reading is an answer: this kernel does not have the thing. A denied Reading is not an
//! answer.

use crate::tiers::{self, DiskKind};
use crate::{groups, ratio};
use pagewise_model::{
    Bytes, Cgroup, FeatureState, Hierarchy, Interval, Limit, Outcome, Reading, Snapshot, Tier,
};

use super::decision::SwapEvidence;

/// What is not known, worded as the end of "it is not known …".
#[derive(Debug)]
pub(crate) struct Missing(pub(crate) String);

/// The machine and the measurements on which the decision between zram and zswap is based.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) interval: &'a Interval,
    pub(crate) host: &'a Snapshot,
    pub(crate) evidence: &'a SwapEvidence,
}

/// Free and needed slots of swap on disks: zswap needs one slot for each page that it stores.
#[derive(Debug)]
pub(crate) struct Slots {
    pub(crate) free: Bytes,
    /// Uncompressed size of the pages that a full zswap pool holds.
    pub(crate) wanted: Bytes,
}

/// The cgroups whose settings keep zswap from storing their memory.
#[derive(Debug)]
pub(crate) struct ClosedToZswap<'a> {
    /// The cgroup with the most memory among them.
    pub(crate) group: &'a Cgroup,
    /// The cgroup file whose value 0 keeps zswap from storing the memory.
    pub(crate) file: &'static str,
    /// Anonymous memory of all these groups, in RAM and in swap.
    pub(crate) held: Bytes,
    /// Anonymous memory of the whole host.
    pub(crate) all: Bytes,
}

type PickLimit = fn(&Cgroup) -> &Reading<Limit>;
type PickCount = fn(&Cgroup) -> &Reading<u64>;

/// Returns the value of a reading; `None` if the kernel does not have it, and an error if it could
/// not be read.
fn read_asked<'a, T>(reading: &'a Reading<T>, what: &str) -> Result<Option<&'a T>, Missing> {
    match &reading.outcome {
        Outcome::Value(value) => Ok(Some(value)),
        Outcome::Absent(_) => Ok(None),
        Outcome::Denied(_) => Err(Missing(format!("{what} ({} is not readable)", reading.source))),
    }
}

/// Returns the value of a reading without which no answer is possible.
fn read_needed<T: Copy>(reading: &Reading<T>, what: &str) -> Result<T, Missing> {
    read_asked(reading, what)?.copied().ok_or_else(|| Missing(what.to_owned()))
}

/// Returns the cgroup file that keeps zswap from storing the group's memory; `None` if there is
/// none.
fn closing_file(group: &Cgroup) -> Result<Option<&'static str>, Missing> {
    let what = || format!("whether {} lets zswap have its memory", group.path);
    if read_asked(&group.zswap_writeback, &what())? == Some(&false) {
        return Ok(Some("memory.zswap.writeback"));
    }
    let is_closed = read_asked(&group.zswap_max, &what())? == Some(&Limit::Bytes(Bytes::new(0)));
    Ok(is_closed.then_some("memory.zswap.max"))
}

impl<'a> Case<'a> {
    pub(crate) fn container(&self) -> Result<Option<&'a str>, Missing> {
        let kind = read_asked(&self.host.host.container, "whether this is a container")?;
        Ok(kind.map(pagewise_model::Name::as_str))
    }

    /// Returns the swap areas that are on disks.
    pub(crate) fn disks(&self) -> Result<Vec<&'a Tier>, Missing> {
        if self.host.tiers.is_empty() && !tiers::is_swap_off(self.host) {
            return Err(Missing("which swap areas are on (/proc/swaps)".to_owned()));
        }
        Ok(tiers::on_disk(self.host).collect())
    }

    /// Returns the compression ratio of the memory in use, if it was measured.
    pub(crate) fn ratio(&self) -> Result<Option<f64>, Missing> {
        for device in self.host.compressed_devices() {
            read_asked(&device.mm_stat.original, "what zram holds")?;
            read_asked(&device.mm_stat.memory_used, "how much memory zram uses")?;
        }
        let measured = || ratio::measured_ratio(self.host).map(pagewise_model::Ratio::get);
        Ok(self.evidence.ratio.or_else(measured))
    }

    /// Returns the device from which the machine resumes after hibernation; `None` if there is
    /// none.
    pub(crate) fn resume_device(&self) -> Result<Option<String>, Missing> {
        let device =
            read_asked(&self.host.configuration.resume_device, "whether hibernation is set up")?;
        Ok(device.map(ToString::to_string).filter(|device| device != "0:0"))
    }

    pub(crate) fn has_zram(&self) -> Result<bool, Missing> {
        if self.host.compressed_devices().next().is_some() {
            return Ok(true);
        }
        match self.host.capability("zram").map(|zram| &zram.state) {
            Some(FeatureState::Present | FeatureState::Loadable { .. }) => Ok(true),
            Some(FeatureState::Denied) | None => {
                Err(Missing("whether this kernel has zram".to_owned()))
            }
            Some(_) => Ok(false),
        }
    }

    pub(crate) fn has_zswap(&self) -> Result<bool, Missing> {
        Ok(read_asked(&self.host.zswap.enabled, "whether this kernel has zswap")?.is_some())
    }

    pub(crate) fn has_shrinker(&self) -> Result<bool, Missing> {
        let shrinker = &self.host.zswap.shrinker_enabled;
        Ok(read_asked(shrinker, "whether zswap has a shrinker")?.is_some())
    }

    pub(crate) fn has_mglru(&self) -> Result<bool, Missing> {
        let bits = read_asked(&self.host.mglru.enabled, "whether the multi-gen LRU is on")?;
        Ok(bits.is_some_and(|bits| bits & 1 == 1))
    }

    pub(crate) fn kind(&self, tier: &Tier) -> Option<DiskKind> {
        let is_guest = self.host.host.virtualization.value().is_some();
        tiers::disk_kind(&tier.disk, is_guest)
    }

    /// Returns the first cgroup (version 2) with anonymous memory that reached its limit during the
    /// interval.
    pub(crate) fn group_at_limit(&self) -> Result<Option<&'a Cgroup>, Missing> {
        const LIMITS: [(PickLimit, PickCount); 2] = [
            (|group| &group.max, |group| &group.events.max),
            (|group| &group.high, |group| &group.events.high),
        ];
        if self.host.cgroups.hierarchy != Hierarchy::V2 {
            return Ok(None);
        }
        let holds = |group: &Cgroup| group.anon.get() != Some(Bytes::new(0));
        for pair in groups::pairs(self.interval).into_iter().filter(|pair| holds(pair.now)) {
            let what = format!("whether {} reached its memory limit", pair.now.path);
            let is_new = pair.before.is_none() && self.interval.start.is_some();
            for (limit, reached) in LIMITS {
                let Some(Limit::Bytes(_)) = read_asked(limit(pair.now), &what)? else { continue };
                match pair.change(reached) {
                    Some(change) if change.delta > 0 => return Ok(Some(pair.now)),
                    None if !is_new => return Err(Missing(what)),
                    _ => {}
                }
            }
        }
        Ok(None)
    }

    /// Returns the cgroups (version 2) whose settings keep zswap from storing their memory, if
    /// these hold at least half of all anonymous memory.
    ///
    /// A `memory.zswap.writeback` of 0 applies to descendants too
    /// (`mem_cgroup_zswap_writeback_enabled`), and so does a `memory.zswap.max` of 0
    /// (`obj_cgroup_may_zswap`).
    pub(crate) fn closed_to_zswap(
        &self,
        disks: &[&Tier],
    ) -> Result<Option<ClosedToZswap<'a>>, Missing> {
        let mut closed: Vec<(&Cgroup, &'static str, Bytes)> = Vec::new();
        if self.host.cgroups.hierarchy != Hierarchy::V2 {
            return Ok(None);
        }
        for group in &self.host.cgroups.groups {
            if closed.iter().any(|(above, ..)| groups::is_below(group, above)) {
                continue;
            }
            let Some(file) = closing_file(group)? else { continue };
            let what = format!("how much memory {} holds", group.path);
            let swapped = read_asked(&group.swap_current, &what)?.copied().unwrap_or_default();
            closed.push((group, file, read_needed(&group.anon, &what)?.saturating_add(swapped)));
        }
        let Some(&(group, file, _)) = closed.iter().max_by_key(|(.., held)| *held) else {
            return Ok(None);
        };
        let held: Bytes = closed.iter().map(|(.., held)| *held).sum();
        let mut all =
            read_needed(&self.host.memory.anon_pages, "how much anonymous memory there is")?;
        for tier in disks {
            all =
                all.saturating_add(read_needed(&tier.used, &format!("how full {} is", tier.path))?);
        }
        let all = all.max(held);
        let is_most = held.get() >= all.get().div_ceil(2);
        Ok(is_most.then_some(ClosedToZswap { group, file, held, all }))
    }

    /// Returns the free slots in these areas, and the number of slots that a full pool of `percent`
    /// of RAM needs. Pages that are in the pool already have their slots.
    pub(crate) fn slots(&self, disks: &[&Tier], percent: u64) -> Result<Slots, Missing> {
        let mut free = Bytes::new(0);
        for tier in disks {
            let what = format!("how much room {} has", tier.path);
            let (size, used) = (read_needed(&tier.size, &what)?, read_needed(&tier.used, &what)?);
            free = free.saturating_add(size.saturating_sub(used));
        }
        let zswap = &self.host.zswap;
        if zswap.enabled.get() == Some(true) {
            free = free.saturating_add(read_needed(&zswap.stored, "how much zswap holds")?);
        }
        read_needed(&zswap.max_pool_percent, "how large zswap's pool may be")?;
        let ram = read_needed(&self.host.memory.total, "how much memory there is")?;
        Ok(Slots { free, wanted: self.pool_holds(ram, percent).max(Bytes::new(1 << 20)) })
    }

    /// Returns the uncompressed size of the pages in a full pool of `percent` of RAM, in whole MiB.
    /// It is limited to the size of RAM, because memory that compresses well rarely fills the pool.
    pub(crate) fn pool_holds(&self, ram: Bytes, percent: u64) -> Bytes {
        let ratio = self.evidence.ratio.unwrap_or_else(|| ratio::ratio(self.host)).max(1.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size")]
        let holds = (ram.get() as f64 * percent as f64 / 100.0 * ratio) as u64;
        Bytes::new(holds.min(ram.get()) >> 20 << 20)
    }
}
