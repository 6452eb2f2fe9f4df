// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Borrows from the lender what the next run of an arm needs: settings, swap and a cgroup, in this
//! order.
//!
//! The cgroup comes last, because a v1 cgroup copies the host's swappiness when it is made, and a
//! later change of the setting would have no effect. The cgroup is returned first: its processes
//! are killed, which frees their swap, so that swapoff need not read it back.
//!
//! Writing a swap file is slow, so the file is borrowed once and used by all runs; every run
//! formats it again.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pagewise_guest::files::find_folder_on_disk;
use pagewise_model::arm::{is_of_zram, split_instance, strip_neighbour};
use pagewise_model::lend::{
    GroupSpec, KnobSetting, Lender, LoanId, MemoryGroup, SwapArea, SwapFile, SwapSpec, ZramDevice,
    ZramSpec,
};
use pagewise_model::typed::NotASize;
use pagewise_model::{Bytes, Compressor, Refusal, TrialArm, TrialSetting, TrialSwap};
use pagewise_observe::{HostGauges, HostRoot};
use pagewise_stats::{Experiment, Neighbour};

use super::swap_traffic::LentSwap;

/// Priorities of areas without a given one are counted down from this value (not included), unless
/// another area has a given priority.
const USUAL_PRIORITY: i16 = 100;
/// The kernel setting of which each v1 cgroup has its own copy.
const SWAPPINESS: &str = "vm.swappiness";
const ZSWAP: &str = "zswap.enabled";
const ZSWAP_MAX: &str = "cgroup.memory.zswap.max";
const ZSWAP_WRITEBACK: &str = "cgroup.memory.zswap.writeback";

/// What a run has borrowed.
#[derive(Debug, Default)]
pub(super) struct RunLoans {
    pub(super) group: Option<MemoryGroup>,
    /// The cgroup of the neighbour.
    pub(super) neighbour: Option<MemoryGroup>,
    pub(super) swap: LentSwap,
    /// All loans, in the order in which they were taken.
    pub(super) loans: Vec<LoanId>,
}

/// Swap files shared by all runs, by their index in an arm and their size.
pub(super) type Files = BTreeMap<(usize, u64), SwapFile>;

/// Borrows everything for one run. If the lender refuses something, `lent` still has what was
/// borrowed before.
pub(super) fn borrow_all(
    lender: &mut dyn Lender,
    arm: &TrialArm,
    experiment: &Experiment,
    files: &mut Files,
    lent: &mut RunLoans,
) -> Result<(), Refusal> {
    let is_of_host =
        |set: &&TrialSetting| !is_of_zram(&set.knob) && strip_neighbour(&set.knob).is_none();
    for set in arm.settings.iter().filter(is_of_host) {
        let (knob, instance) = split_instance(&set.knob);
        lent.loans.push(lender.lend_knob(&KnobSetting {
            name: knob.to_owned(),
            instance: instance.map(str::to_owned),
            value: set.value.clone(),
        })?);
    }
    let areas = arm.swap.as_deref().unwrap_or_default();
    borrow_zswap(lender, arm, areas, lent)?;
    for (index, (area, priority)) in areas.iter().zip(priorities(areas)).enumerate() {
        borrow_swap(lender, arm, &PlacedArea { index, area, priority }, files, lent)?;
    }
    if let Some(neighbour) = &experiment.neighbour {
        let lent_group = lender.lend_group(&neighbour_spec(arm, neighbour)?)?;
        lent.loans.push(lent_group.loan);
        lent.neighbour = Some(lent_group);
    }
    lent.group = borrow_group(lender, arm, experiment.memory_limit_bytes)?;
    lent.loans.extend(lent.group.as_ref().map(|group| group.loan));
    Ok(())
}

/// The specification of the neighbour's cgroup, with the arm's settings for it.
fn neighbour_spec(arm: &TrialArm, neighbour: &Neighbour) -> Result<GroupSpec, Refusal> {
    let max = neighbour.memory_limit_bytes.map(Bytes::new);
    let mut spec = GroupSpec { max, ..GroupSpec::default() };
    for set in &arm.settings {
        let Some(knob) = strip_neighbour(&set.knob) else { continue };
        let value = set.value.as_str();
        let wrong = |why: String| Refusal::new(set.knob.clone(), why);
        match knob {
            ZSWAP_MAX => {
                spec.zswap_max =
                    Some(value.parse().map_err(|error: NotASize| wrong(error.to_string()))?);
            }
            ZSWAP_WRITEBACK => {
                spec.zswap_writeback = Some(matches!(value, "1" | "Y" | "y" | "true"));
            }
            _ => {
                let why = format!("expected {ZSWAP_MAX} or {ZSWAP_WRITEBACK} of a neighbour");
                return Err(wrong(why));
            }
        }
    }
    Ok(spec)
}

/// Switches zswap on if an area uses it. Otherwise switches zswap off: if it were on, it would
/// compress the pages of areas that should not have it. If the arm has a setting for zswap, that
/// setting is used instead.
fn borrow_zswap(
    lender: &mut dyn Lender,
    arm: &TrialArm,
    areas: &[TrialSwap],
    lent: &mut RunLoans,
) -> Result<(), Refusal> {
    match areas {
        [TrialSwap::Zswap(spec), ..] => {
            lent.loans.extend(lender.lend_zswap(spec)?);
            lent.swap.has_zswap = true;
        }
        [_, ..] if !arm.settings.iter().any(|set| set.knob == ZSWAP) && is_zswap_on() => {
            lent.loans.push(lender.lend_knob(&KnobSetting::new(ZSWAP, "N"))?);
        }
        _ => {}
    }
    Ok(())
}

fn is_zswap_on() -> bool {
    HostRoot::live().is_ok_and(|host| HostGauges(&host).is_zswap_on())
}

fn borrow_group(
    lender: &mut dyn Lender,
    arm: &TrialArm,
    limit: Option<u64>,
) -> Result<Option<MemoryGroup>, Refusal> {
    let swappiness = arm.settings.iter().find(|set| set.knob == SWAPPINESS);
    let without_swap = arm.swap.as_ref().is_some_and(Vec::is_empty) && has_swap();
    let spec = GroupSpec {
        max: limit.map(Bytes::new),
        swap_max: without_swap.then_some(Bytes::new(0)),
        swappiness: swappiness.and_then(|set| set.value.parse().ok()),
        ..GroupSpec::default()
    };
    match lender.lend_group(&spec) {
        Ok(group) => Ok(Some(group)),
        // without a limit the cgroup is only needed for its counters
        Err(_) if limit.is_none() && !without_swap => Ok(None),
        Err(refused) => Err(refused),
    }
}

/// Whether this host has swap. If it has, an arm without swap must be barred from using it.
fn has_swap() -> bool {
    HostRoot::live().is_ok_and(|host| HostGauges(&host).has_swap())
}

/// A swap area of an arm.
struct PlacedArea<'a> {
    /// Position of the area among the arm's areas, from 0.
    index: usize,
    area: &'a TrialSwap,
    /// The priority for swapon; `None`: the kernel chooses the priority.
    priority: Option<i16>,
}

fn borrow_swap(
    lender: &mut dyn Lender,
    arm: &TrialArm,
    placed: &PlacedArea<'_>,
    files: &mut Files,
    lent: &mut RunLoans,
) -> Result<(), Refusal> {
    let area = match placed.area {
        TrialSwap::Zram { size_bytes, algorithm, mem_limit_bytes, writeback, .. } => {
            let made = lender.lend_zram(&ZramSpec {
                compressor: algorithm.as_deref().map(Compressor::new),
                mem_limit: mem_limit_bytes.map(Bytes::new),
                writeback: writeback.clone(),
                ..ZramSpec::new(Bytes::new(*size_bytes))
            })?;
            lent.loans.push(made.loan);
            set_up_zram(lender, &arm.settings, &made, &mut lent.loans)?;
            lent.swap.zram.push(made.number);
            lent.swap.behind_zram.extend(writeback.iter().map(|it| PathBuf::from(&it.device)));
            SwapArea::Lent(made.device)
        }
        TrialSwap::File { size_bytes, .. } => {
            lent.swap.has_files = true;
            SwapArea::Lent(borrow_file(lender, (placed.index, *size_bytes), files)?)
        }
        TrialSwap::Device { path, .. } => {
            lent.swap.disks.push(path.into());
            SwapArea::Device(path.into())
        }
        // zswap is not an area of its own, and was already switched on
        TrialSwap::Zswap(_) => return Ok(()),
    };
    lent.loans.push(lender.lend_swap(&SwapSpec { area, priority: placed.priority })?);
    Ok(())
}

/// Applies the arm's zram settings to a device. All devices of the arm have the same settings.
fn set_up_zram(
    lender: &mut dyn Lender,
    settings: &[TrialSetting],
    device: &ZramDevice,
    loans: &mut Vec<LoanId>,
) -> Result<(), Refusal> {
    for set in settings.iter().filter(|set| is_of_zram(&set.knob)) {
        let number = device.number.to_string();
        let setting = KnobSetting::of_instance(&set.knob, &number, &set.value);
        loans.push(lender.lend_knob(&setting)?);
    }
    Ok(())
}

fn borrow_file(
    lender: &mut dyn Lender,
    which: (usize, u64),
    files: &mut Files,
) -> Result<PathBuf, Refusal> {
    if let Some(file) = files.get(&which) {
        return Ok(file.path.clone());
    }
    let folder = lender.swap_folder().or_else(find_folder_on_disk).ok_or_else(|| {
        let why = "expected a folder on a disk, found none: /var/tmp and /tmp are memory";
        Refusal::new("a swap file", why)
    })?;
    let file = lender.lend_swap_file(&folder, Bytes::new(which.1))?;
    let path = file.path.clone();
    files.insert(which, file);
    Ok(path)
}

/// Priorities of the areas: areas without a given priority come after those that have one, in the
/// given order. If the kernel assigned the priorities, some kernels would use the areas round-robin
/// and others one after the other.
pub(super) fn priorities(areas: &[TrialSwap]) -> Vec<Option<i16>> {
    let mut next = areas.iter().filter_map(TrialSwap::priority).min().unwrap_or(USUAL_PRIORITY);
    let mut given = |area: &TrialSwap| {
        if matches!(area, TrialSwap::Zswap(_)) {
            return None;
        }
        area.priority().or_else(|| {
            next = next.saturating_sub(1);
            Some(next).filter(|priority| *priority >= 0)
        })
    };
    areas.iter().map(&mut given).collect()
}

#[cfg(test)]
mod tests {
    use pagewise_model::Program;
    use pagewise_model::arm::parse_setting;
    use pagewise_model::lend::ZswapSpec;

    use super::*;

    #[test]
    fn settings_of_the_neighbour_are_those_of_its_cgroup() {
        let neighbour = Neighbour {
            program: Program::from_words(&["true"]),
            memory_limit_bytes: Some(100 << 20),
            ready: None,
        };
        let spec = |set: &[&str]| {
            let settings = set.iter().map(|text| parse_setting(text).unwrap()).collect();
            neighbour_spec(&TrialArm { settings, ..TrialArm::default() }, &neighbour)
        };
        let limited = GroupSpec { max: Some(Bytes::new(100 << 20)), ..GroupSpec::default() };
        assert_eq!(spec(&["vm.swappiness=60"]), Ok(limited));
        let both = spec(&[
            "cgroup.memory.zswap.max[neighbour]=8M",
            "cgroup.memory.zswap.writeback[neighbour]=0",
        ]);
        let (zswap_max, zswap_writeback) = (Some(Bytes::new(8 << 20)), Some(false));
        assert_eq!(both, Ok(GroupSpec { zswap_max, zswap_writeback, ..limited }));
        for bad in ["cgroup.memory.zswap.max[neighbour]=8", "cgroup.memory.low[neighbour]=8M"] {
            assert!(spec(&[bad]).is_err(), "{bad}");
        }
    }

    fn file(priority: Option<i16>) -> TrialSwap {
        TrialSwap::File { size_bytes: 1 << 20, priority }
    }

    #[test]
    fn areas_without_a_priority_come_in_order_behind_the_others() {
        let of = |all: &[Option<i16>]| {
            priorities(&all.iter().map(|priority| file(*priority)).collect::<Vec<_>>())
        };
        assert_eq!(of(&[None, None]), [Some(99), Some(98)]);
        assert_eq!(of(&[None, Some(5), None]), [Some(4), Some(5), Some(3)]);
        assert_eq!(of(&[Some(1), None, None]), [Some(1), Some(0), None]);
        assert!(of(&[]).is_empty());
        let zswap = TrialSwap::Zswap(ZswapSpec::new("lz4"));
        assert_eq!(priorities(&[zswap, file(None)]), [None, Some(99)]);
    }
}
