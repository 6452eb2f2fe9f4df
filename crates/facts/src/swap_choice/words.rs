// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sentences that explain a decision. Each sentence should be acceptable even to people who
//! prefer the other choice.

use crate::tiers::{self, DiskKind};
use pagewise_model::{Bytes, Cgroup, FeatureState, Name, Tier, quote_for_shell};

use super::case::{Case, ClosedToZswap, Missing, Slots};
use super::decision::{Compression, Settled, SwapTrial, ZswapSettings};

/// The effect of zswap's shrinker, measured in guests: docs/measured/zram-or-zswap.md.
const FEWER_READS: &str = "in guests with 6.12 and 7.2, zswap with its shrinker read 25 to 64 % fewer pages from a \
                           disk than zram with as much RAM in front of it (docs/zram-or-zswap.md)";
const BY_TRIAL: &str = "A trial with your own programs decides.";
const BY_SHRINKER: &str = "A kernel whose zswap has a shrinker would change this.";

fn zram(why: String, changes: impl Into<String>) -> Settled {
    Settled { choice: Some(Compression::Zram), why, changes: changes.into() }
}

fn neither(why: impl Into<String>, changes: &str) -> Settled {
    let choice = Some(Compression::Neither);
    Settled { choice, why: why.into(), changes: changes.to_owned() }
}

fn open(why: impl Into<String>, changes: &str) -> Settled {
    Settled { choice: None, why: why.into(), changes: changes.to_owned() }
}

pub(crate) fn explain_missing(Missing(what): Missing) -> Settled {
    open(
        format!("It is not known {what}. Without that, either choice could be wrong."),
        "A decision needs this value.",
    )
}

pub(crate) fn explain_container(kind: &str) -> Settled {
    let why = format!("This is a container ({kind}). Swap belongs to its host.");
    neither(why, "On the host, `pagewise plan` decides.")
}

pub(crate) fn explain_kubernetes() -> Settled {
    neither(
        "This is a node of Kubernetes without swap. kubelet refuses to start while swap is on, unless failSwapOn is \
         false.",
        "A cluster that allows swap would change this.",
    )
}

pub(crate) fn explain_poor_compression(ratio: f64) -> Settled {
    let why = format!(
        "The memory in use compresses by {ratio:.2} : 1 only, so compression would free less than a tenth of it. Swap \
         on a disk frees all of it, but is slower."
    );
    neither(why, "Programs whose memory compresses better would change this (`pagewise scan`).")
}

pub(crate) fn explain_no_kernel_part(has_disk: bool, has_zswap: bool) -> Settled {
    if has_zswap && !has_disk {
        return neither(
            "This kernel has no zram, and zswap needs a slot of swap on a disk for each page that it holds. No such \
             swap is on.",
            "A swap file on a disk would make zswap possible.",
        );
    }
    neither(
        "This kernel has neither zram nor zswap. Only plain swap on a disk is possible.",
        "A kernel with CONFIG_ZRAM or CONFIG_ZSWAP would change this.",
    )
}

pub(crate) fn explain_hibernation_alone(device: &str) -> Settled {
    let why = format!(
        "The machine is set up to resume from hibernation (device {device}), but no swap on a disk is on, and zram \
         cannot keep the image. With zram as the only swap, hibernation fails."
    );
    open(why, "With swap on a disk, zram can be added beside it, or zswap used in front of it.")
}

pub(crate) fn explain_trial_needs_disk(trial: &SwapTrial) -> Settled {
    let why = format!("{}. But zswap needs swap on a disk, and none is on.", trial.told);
    open(why, "Swap on a disk would decide.")
}

pub(crate) fn explain_trial(trial: &SwapTrial) -> Settled {
    Settled {
        choice: Some(trial.better),
        why: format!("{}. It measured one command; other programs may differ.", trial.told),
        changes: "A trial with another command may change this.".to_owned(),
    }
}

pub(crate) fn explain_zram_alone(case: &Case<'_>, percent: u64) -> Settled {
    let has_zswap = case.host.zswap.enabled.value().is_some();
    let kernel = if has_zswap { "" } else { " and a kernel with zswap" };
    let size = case.host.memory.total.get().map(|ram| case.pool_holds(ram, percent));
    let size = size.map_or_else(String::new, |size| format!(" of {size} or more"));
    zram(
        "zswap needs a slot of swap on a disk for each page that it holds (in guests, a disk of 32 MiB bounded it to \
         8,191 pages), and no such swap is on; zram needs none. In exchange, zram keeps cold pages and pages that do \
         not compress in RAM for good."
            .to_owned(),
        format!("A swap file{size} on a disk{kernel} would make zswap possible."),
    )
}

/// Returns a sentence that says what happens when a zram device in front of a disk is full.
fn describe_when_full(disk: &Tier) -> String {
    format!(
        "When zram is full, the kernel writes newer pages to {} while older ones stay in RAM",
        disk.path
    )
}

/// The cost of a full zram device in front of a disk, compared with no zram at all, measured in
/// guests: docs/measured/zram-or-zswap.md.
const FULL_READS: &str = "in guests with 6.12, a full zram device in front of a disk made the kernel read 1.7 to 2.1 \
                          times as many pages from this disk as without zram";

/// Returns a clause about the space for the hibernation image, if hibernation is set up.
fn describe_hibernation_space(case: &Case<'_>) -> &'static str {
    match case.resume_device() {
        Ok(Some(_)) => ", beside the swap on the disk, which stays on for the image of hibernation",
        _ => "",
    }
}

pub(crate) fn explain_no_zswap(case: &Case<'_>, disk: &Tier) -> Settled {
    let why = format!(
        "This kernel was built without zswap, so only zram can compress{}. {}, so it must be large enough: {FULL_READS}.",
        describe_hibernation_space(case),
        describe_when_full(disk)
    );
    zram(why, BY_SHRINKER)
}

pub(crate) fn explain_no_shrinker(case: &Case<'_>, disk: &Tier, is_open: bool) -> Settled {
    let fact = "The zswap of this kernel has no shrinker: in guests with 6.1 it kept its first pages for good, and \
                the disk was read as often as with zram in front of it (28.0 to 28.4 against 28.4 to 28.8 thousand \
                pages, 2 seeds)";
    if is_open {
        let why =
            format!("{fact}. So it is not known that a change of what is on would gain anything.");
        return open(why, BY_SHRINKER);
    }
    let why = format!(
        "{fact}; but zram needs no slots of the disk{}. {}: {FULL_READS}.",
        describe_hibernation_space(case),
        describe_when_full(disk)
    );
    zram(why, BY_SHRINKER)
}

pub(crate) fn explain_unsuited(kind: DiskKind, disk: &Tier, has_zram: bool) -> Settled {
    let path = &disk.path;
    let (fact, other) = if kind == DiskKind::Card {
        let fact = format!(
            "{path} is on a memory card or eMMC, to which zswap's shrinker writes cold pages whenever memory is \
             short, and which wears out; zram alone writes nothing"
        );
        (
            fact,
            "it must be large enough: in guests, zswap wrote 77 % and 35 % less than a full zram before the same disk",
        )
    } else {
        let fact = format!(
            "{path} is reached over a network: to write a page there takes memory when none is free, and zswap's \
             shrinker does so whenever memory is short"
        );
        (fact, "zram only puts that off")
    };
    if !has_zram {
        return open(format!("{fact}. But this kernel has no zram."), BY_TRIAL);
    }
    let why = format!("{fact}. {}, so {other}.", describe_when_full(disk));
    zram(why, "Swap on an SSD would change this.")
}

pub(crate) fn explain_room_in_zram(tier: &Tier, disk: &Tier) -> Settled {
    let held = tier.used.get().zip(tier.size.get()).map(|(used, size)| used.part_of(size));
    let why = format!(
        "{} is on and has room ({}), and a page costs as much CPU time in zswap (−5 to +9 % in guests), so a change \
         would gain nothing now. {}; then, {FEWER_READS}.",
        tier.path,
        held.unwrap_or_default(),
        describe_when_full(disk),
    );
    zram(why, format!("A full {} would change this.", tier.path))
}

pub(crate) fn explain_full_zram(case: &Case<'_>, tier: &Tier, disk: &Tier) -> Settled {
    let why = format!(
        "{} is full, so the kernel writes newer pages to {} while older ones stay in RAM; {FEWER_READS}. But all \
         pages in zram would have to move for a change, and the guests ran synthetic programs.",
        tier.path, disk.path
    );
    let writeback = case.host.capability("zram.writeback");
    let idle = match writeback.map(|it| &it.state) {
        Some(FeatureState::Present) => {
            "; zram with a backing device to which idle pages are written regularly may help, too"
        }
        _ => "",
    };
    open(why, &format!("A trial with your own programs decides, or a larger zram device{idle}."))
}

pub(crate) fn explain_incompressible_zram(tier: &Tier) -> Settled {
    let why = format!(
        "Many pages do not compress, and {} keeps them in RAM at their full size. In guests, zswap wrote such pages to \
         the disk with 6.1 and 6.12, but kept them too with 7.2.",
        tier.path
    );
    open(why, BY_TRIAL)
}

pub(crate) fn explain_spinning_disk(disk: &Tier) -> Settled {
    let why = format!(
        "{} is on a hard disk, and what its seeks cost was not measured. By count, {FEWER_READS}, but zram that never \
         becomes full does not read the disk at all.",
        disk.path
    );
    open(why, BY_TRIAL)
}

pub(crate) fn explain_classic_lru() -> Settled {
    let why = "The multi-gen LRU is off or absent, and zswap's shrinker was measured only with it. Without it, the \
               kernel chooses other pages to swap out.";
    open(
        why,
        "With the multi-gen LRU on, the other facts decide; or a trial with your own programs does.",
    )
}

pub(crate) fn explain_group_at_limit(group: &Cgroup) -> Settled {
    let why = format!(
        "The cgroup {} is at its memory limit, against which zswap's pool counts and zram's does not: in guests, such \
         a cgroup had 1.5 to 2.2 times as many page faults with zswap. But with zram, it takes more RAM than its limit \
         says, of which others on the host may have to give way (they did on 7.2, not on 6.12).",
        group.path
    );
    open(
        why,
        "If the limit matters more to you than the speed of this cgroup, take zswap; a trial measures the speed.",
    )
}

pub(crate) fn explain_closed_to_zswap(closed: &ClosedToZswap<'_>) -> Settled {
    let ClosedToZswap { group, file, held, all } = closed;
    let why = format!(
        "{file} is 0 in {}, and cgroups with such a setting hold {held} of {all} of anonymous memory. zswap and its \
         shrinker would do nothing for them.",
        group.path
    );
    open(why, &format!("Another value of {file} would change this."))
}

pub(crate) fn explain_little_cold(cold: f64) -> Settled {
    let why = format!(
        "Only {:.0} % of pages were not used lately (`pagewise scan`), so zswap's shrinker has few cold pages to write \
         to the disk. It was measured with 35 % of cold pages.",
        cold * 100.0
    );
    open(why, BY_TRIAL)
}

pub(crate) fn explain_few_slots(
    case: &Case<'_>,
    disk: &Tier,
    slots: &Slots,
    is_open: bool,
) -> Settled {
    let Slots { free, wanted } = slots;
    let fact = format!(
        "Swap on a disk has {free} free, and zswap needs a slot of it for each page, so its pool could hold {free} of \
         pages instead of {wanted}"
    );
    let changes = format!("{wanted} of free swap on the disk would change this.");
    if is_open {
        let why =
            format!("{fact}. But zswap is on, or there is no zram, and a change was not measured.");
        return open(why, &changes);
    }
    let zram_too = describe_hibernation_space(case);
    let why =
        format!("{fact}; zram needs none{zram_too}. {}: {FULL_READS}.", describe_when_full(disk));
    zram(why, changes)
}

pub(crate) fn explain_zswap(case: &Case<'_>, disk: &Tier, slots: &Slots) -> Settled {
    let is_flash = case.kind(disk) == Some(DiskKind::Flash);
    let kind = if is_flash { "an SSD" } else { "a virtual disk" };
    let is_encrypted = disk.disk.encrypted.get() == Some(true);
    let resumes = case.resume_device().is_ok_and(|device| device.is_some());
    let notes = match (is_encrypted, resumes) {
        (true, true) => " (encrypted, and hibernation keeps it)",
        (true, false) => " (encrypted, and it stays so)",
        (false, true) => " (and hibernation keeps it)",
        (false, false) => "",
    };
    let why = format!(
        "{} is on {kind} with {} free{notes}; {FEWER_READS}, and a page cost about the same CPU time (−5 to +9 %). But \
         the guests ran a synthetic program; swap on the disk alone read as little with some data and more than twice as \
         much with other; without the shrinker, which is off by default, zswap read no fewer than the disk alone; and a \
         cgroup at its limit gains less, because the pool counts against the limit.",
        disk.path, slots.free
    );
    let changes = "Few free slots on the disk, a cgroup at its limit, or zram that never becomes full would change \
                   this.";
    Settled { choice: Some(Compression::Zswap), why, changes: changes.to_owned() }
}

/// The command that compares zram and zswap with the user's own program, with the settings
/// recommended here.
pub(crate) fn trial_command(
    case: &Case<'_>,
    (algorithm, size): &(Name, Bytes),
    zswap: &ZswapSettings,
) -> Option<String> {
    let host = case.host;
    let has_both = case.has_zram().unwrap_or_default() && case.has_zswap().unwrap_or_default();
    if !has_both || host.host.container.value().is_some() {
        return None;
    }
    let ram = host.memory.total.get()?;
    let mib = |size: Bytes| (size.get() >> 20).max(1);
    let on_disk: Bytes = tiers::on_disk(host).filter_map(|tier| tier.size.get()).sum();
    let has_disk = on_disk > Bytes::new(0);
    let pool = || case.pool_holds(ram, zswap.max_pool_percent);
    let file = format!("+file:{}M", mib(if has_disk { on_disk.min(ram) } else { pool() }));
    let behind = if has_disk { file.as_str() } else { "" };
    let shrinker = if zswap.has_shrinker { ":shrinker" } else { "" };
    let shared = if host.tiers.is_empty() { "" } else { "--allow-shared-swap " };
    Some(format!(
        "sudo pagewise trial {shared}--a swap=zram:{}M:{}{behind} --b swap=zswap:{}:{}{shrinker}{file} \
         --b vm.page-cluster=0 -- CMD",
        mib(*size),
        quote_for_shell(algorithm.as_str()),
        quote_for_shell(zswap.compressor.as_str()),
        zswap.max_pool_percent
    ))
}
