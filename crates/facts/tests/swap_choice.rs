// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a decision between zram and zswap must never do, on random machines, compared with a
//! second, simple implementation.

use pagewise_facts::swap_choice::Compression::{self, Neither, Zram, Zswap};
use pagewise_facts::swap_choice::{SwapEvidence, SwapTrial, choose_zram, decide_swap, zram_size};
use pagewise_model::{
    Bytes, Compressor, FeatureState, Interval, Limit, Name, ParetoPoint, Pick, Picks, Reading,
    Snapshot, TierKind, ZramUse,
};
use proptest::prelude::*;

use pagewise_testkit::made_host::{
    calm, capability, file, gib, group, line, mib, on_nvme, tier, word, zram,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nvme,
    Virtual,
    HardDisk,
    Card,
    Nbd,
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fill {
    Off,
    Room,
    Full,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Unlimited,
    Limited,
    AtLimit,
}

/// Settings of a cgroup that keep zswap from storing its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closed {
    /// `memory.zswap.writeback` is 0.
    Writeback,
    /// `memory.zswap.max` is 0.
    Pool,
}

/// Everything that the decision depends on.
#[derive(Debug, Clone)]
struct Machine {
    disk: Option<Kind>,
    /// Free space in 16 GiB of swap on the disk.
    free: Bytes,
    zram: Fill,
    has_zram: bool,
    has_zswap: bool,
    zswap_on: bool,
    has_shrinker: bool,
    mglru: bool,
    resumes: bool,
    group: Group,
    closed: Option<Closed>,
    /// Memory of the cgroup.
    held: Bytes,
    container: bool,
    kubernetes: bool,
    ratio: Option<f64>,
    incompressible: Option<f64>,
    cold: Option<f64>,
    trial: Option<Compression>,
}

fn machine() -> impl Strategy<Value = Machine> {
    use prop::sample::select;
    let kinds = [
        Kind::Nvme,
        Kind::Nvme,
        Kind::Virtual,
        Kind::HardDisk,
        Kind::Card,
        Kind::Nbd,
        Kind::Unknown,
    ];
    let disk = prop_oneof![1 => Just(None), 3 => select(kinds.to_vec()).prop_map(Some)];
    let free = prop_oneof![Just(Bytes::new(0)), Just(gib(16)), (0..16_384u64).prop_map(mib)];
    let fill = select(vec![Fill::Off, Fill::Off, Fill::Room, Fill::Full]);
    let groups = select(vec![Group::Unlimited, Group::Limited, Group::AtLimit]);
    let often = || prop::bool::weighted(0.8);
    let seldom = || prop::bool::weighted(0.1);
    let share = || prop_oneof![3 => Just(None), 1 => (0.0..1.0f64).prop_map(Some)];
    let closed = prop_oneof![
        6 => Just(None),
        1 => Just(Some(Closed::Writeback)),
        1 => Just(Some(Closed::Pool)),
    ];
    let ratio = prop_oneof![3 => Just(None), 1 => (0.8..9.0f64).prop_map(Some)];
    let trial = prop_oneof![6 => Just(None), 1 => Just(Some(Zram)), 1 => Just(Some(Zswap))];
    (
        (disk, free, fill, often(), often(), any::<bool>(), often(), often()),
        (seldom(), groups, seldom(), seldom(), ratio, share(), share(), trial),
        (closed, (1..16_384u64).prop_map(mib)),
    )
        .prop_map(|(one, two, (closed, held))| Machine {
            disk: one.0,
            free: one.1,
            zram: one.2,
            has_zram: one.3,
            has_zswap: one.4,
            zswap_on: one.5,
            has_shrinker: one.6,
            mglru: one.7,
            resumes: two.0,
            group: two.1,
            closed,
            held,
            container: two.2,
            kubernetes: two.3,
            ratio: two.4,
            incompressible: two.5,
            cold: two.6,
            trial: two.7,
        })
}

fn absent<T>(reading: &mut Reading<T>) {
    *reading = Reading::absent("not in this kernel", reading.source.clone());
}

const WRITEBACK: &str = "/sys/fs/cgroup/system.slice/db.service/memory.zswap.writeback";
const POOL: &str = "/sys/fs/cgroup/system.slice/db.service/memory.zswap.max";

fn shape(host: &mut Snapshot, machine: &Machine) {
    on_nvme(host, gib(16).saturating_sub(machine.free));
    host.zswap.enabled = file("/sys/module/zswap/parameters/enabled", machine.zswap_on);
    if !machine.has_zswap {
        absent(&mut host.zswap.enabled);
    }
    if !machine.has_shrinker {
        absent(&mut host.zswap.shrinker_enabled);
    }
    host.mglru.enabled = file("/sys/kernel/mm/lru_gen/enabled", u32::from(machine.mglru) * 7);
    if machine.resumes {
        host.configuration.resume_device = word("/sys/power/resume", "259:3");
    }
    let disk = &mut host.tiers[0].disk;
    let (name, spins) = match machine.disk.unwrap_or(Kind::Nvme) {
        Kind::Nvme => ("nvme0n1", false),
        Kind::Virtual => ("vda", true),
        Kind::HardDisk => ("sda", true),
        Kind::Card => ("mmcblk0", false),
        Kind::Nbd => ("nbd0", false),
        Kind::Unknown => ("dm-3", false),
    };
    disk.lowest = word("/sys/class/block/x/uevent", name);
    disk.rotational = file("/sys/block/x/queue/rotational", spins);
    if machine.disk.is_none() {
        host.tiers.clear();
    }
    let state = if machine.has_zram {
        FeatureState::Present
    } else {
        FeatureState::NotBuilt { option: "CONFIG_ZRAM" }
    };
    capability(host, state);
    if machine.zram != Fill::Off {
        let used = if machine.zram == Fill::Full { gib(4) } else { gib(1) };
        host.tiers.push(tier("/dev/zram0", TierKind::Zram, used, 100));
        host.zram = vec![zram(0, ZramUse::Swap { priority: 100 }, used)];
    }
    if host.tiers.is_empty() {
        host.memory.swap_total = line("/proc/meminfo", 10, Bytes::new(0));
    }
    if machine.kubernetes {
        host.cgroups.groups.push(group("/kubepods.slice"));
    }
    if machine.container {
        host.host.container = word("/run/systemd/container", "docker");
    }
    host.memory.anon_pages = line("/proc/meminfo", 17, gib(6));
    let service = &mut host.cgroups.groups[2];
    service.anon = line("/sys/fs/cgroup/system.slice/db.service/memory.stat", 1, machine.held);
    match machine.closed {
        Some(Closed::Writeback) => service.zswap_writeback = file(WRITEBACK, false),
        Some(Closed::Pool) => service.zswap_max = file(POOL, Limit::Bytes(Bytes::new(0))),
        None => service.zswap_writeback = file(WRITEBACK, true),
    }
    if machine.group != Group::Unlimited {
        let path = "/sys/fs/cgroup/system.slice/db.service/memory.max";
        host.cgroups.groups[2].max = file(path, Limit::Bytes(gib(1)));
    }
}

fn interval_of(machine: &Machine) -> Interval {
    let mut interval = calm();
    for host in interval.start.as_deref_mut().into_iter().chain([&mut interval.end]) {
        shape(host, machine);
    }
    if machine.group == Group::AtLimit {
        let at = "/sys/fs/cgroup/system.slice/db.service/memory.events";
        interval.end.cgroups.groups[2].events.max = line(at, 3, 9);
    }
    interval
}

fn evidence_of(machine: &Machine) -> SwapEvidence {
    let told = || "In a trial with `x` (9 pairs of runs), time was 5.0 % lower".to_owned();
    SwapEvidence {
        ratio: machine.ratio,
        incompressible: machine.incompressible,
        cold: machine.cold,
        trial: machine.trial.map(|better| SwapTrial { better, told: told() }),
        zram: None,
        is_density_wanted: false,
    }
}

fn choice(machine: &Machine) -> Option<Compression> {
    decide_swap(&interval_of(machine), &evidence_of(machine)).choice
}

/// The rules as one would explain them: what excludes each side, and what leaves the decision open.
fn naive(m: &Machine) -> Option<Compression> {
    let can_zram = m.has_zram || m.zram != Fill::Off;
    let zram_or = |other| if can_zram { Some(Zram) } else { other };
    if m.container || m.ratio.is_some_and(|ratio| ratio < 1.1) {
        return Some(Neither);
    }
    let Some(disk) = m.disk else {
        return match () {
            () if m.kubernetes && m.zram == Fill::Off => Some(Neither),
            () if m.resumes => None,
            () if can_zram && m.trial == Some(Zswap) => None,
            () => zram_or(Some(Neither)),
        };
    };
    if !m.has_zswap {
        return zram_or(Some(Neither));
    }
    match m.trial {
        Some(Zram) if can_zram => return Some(Zram),
        Some(Zswap) if m.free.get() > 0 => return Some(Zswap),
        _ => {}
    }
    if !m.has_shrinker {
        let is_zswap_alone = m.zswap_on && m.zram == Fill::Off;
        return if is_zswap_alone { None } else { zram_or(None) };
    }
    if matches!(disk, Kind::Card | Kind::Nbd) {
        return zram_or(None);
    }
    match m.zram {
        Fill::Room if m.incompressible.is_some_and(|share| share >= 0.3) => return None,
        Fill::Room => return Some(Zram),
        Fill::Full => return None,
        Fill::Off => {}
    }
    // 6 GiB in RAM, and what is on the disk
    let all = gib(6).get() + gib(16).saturating_sub(m.free).get();
    let is_open = m.closed.is_some() && m.held.get() * 2 >= all
        || matches!(disk, Kind::HardDisk | Kind::Unknown)
        || !m.mglru
        || m.group == Group::AtLimit
        || m.cold.is_some_and(|cold| cold < 0.1);
    if is_open {
        return None;
    }
    // 20 % of 16 GiB at this ratio, at most all of it
    let wanted = 16.0 * (0.2 * m.ratio.unwrap_or(2.0).max(1.0)).min(1.0) * 1024.0;
    if ((m.free.get() >> 20) as f64) < wanted.floor() {
        return if m.zswap_on { None } else { zram_or(None) };
    }
    Some(Zswap)
}

/// The name of a Reading, and a function that makes it denied.
type Denier = (&'static str, fn(&mut Snapshot));

/// Readings that may be denied.
fn deniers() -> Vec<Denier> {
    fn deny<T>(reading: &mut Reading<T>) {
        *reading = Reading::denied("a test forbids it", reading.source.clone());
    }
    vec![
        ("container", |host| deny(&mut host.host.container)),
        ("ram", |host| deny(&mut host.memory.total)),
        ("swap total", |host| deny(&mut host.memory.swap_total)),
        ("resume", |host| deny(&mut host.configuration.resume_device)),
        ("mglru", |host| deny(&mut host.mglru.enabled)),
        ("zswap", |host| deny(&mut host.zswap.enabled)),
        ("shrinker", |host| deny(&mut host.zswap.shrinker_enabled)),
        ("compressor", |host| deny(&mut host.zswap.compressor)),
        ("pool percent", |host| deny(&mut host.zswap.max_pool_percent)),
        ("stored", |host| deny(&mut host.zswap.stored)),
        ("size", |host| host.tiers.iter_mut().for_each(|it| deny(&mut it.size))),
        ("used", |host| host.tiers.iter_mut().for_each(|it| deny(&mut it.used))),
        ("priority", |host| host.tiers.iter_mut().for_each(|it| deny(&mut it.priority))),
        ("lowest", |host| host.tiers.iter_mut().for_each(|it| deny(&mut it.disk.lowest))),
        ("name", |host| host.tiers.iter_mut().for_each(|it| deny(&mut it.disk.name))),
        ("rotational", |host| host.tiers.iter_mut().for_each(|it| deny(&mut it.disk.rotational))),
        ("encrypted", |host| host.tiers.iter_mut().for_each(|it| deny(&mut it.disk.encrypted))),
        ("file system", |host| host.tiers.iter_mut().for_each(|it| deny(&mut it.disk.file_system))),
        ("virtual", |host| deny(&mut host.host.virtualization)),
        ("features", |host| host.capabilities.clear()),
        ("feature", |host| capability(host, FeatureState::Denied)),
        ("original", |host| host.zram.iter_mut().for_each(|it| deny(&mut it.mm_stat.original))),
        ("used memory", |host| {
            host.zram.iter_mut().for_each(|it| deny(&mut it.mm_stat.memory_used));
        }),
        ("limit", |host| host.cgroups.groups.iter_mut().for_each(|it| deny(&mut it.max))),
        ("high", |host| host.cgroups.groups.iter_mut().for_each(|it| deny(&mut it.high))),
        ("events", |host| host.cgroups.groups.iter_mut().for_each(|it| deny(&mut it.events.max))),
        ("all anon", |host| deny(&mut host.memory.anon_pages)),
        ("swapped", |host| {
            host.cgroups.groups.iter_mut().for_each(|it| deny(&mut it.swap_current));
        }),
        ("zswap.max", |host| host.cgroups.groups.iter_mut().for_each(|it| deny(&mut it.zswap_max))),
        ("writeback", |host| {
            host.cgroups.groups.iter_mut().for_each(|it| deny(&mut it.zswap_writeback));
        }),
        ("anon", |host| host.cgroups.groups.iter_mut().for_each(|it| deny(&mut it.anon))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    /// The list of questions agrees with the simple rules.
    #[test]
    fn a_naive_decision_is_the_same(machine in machine()) {
        prop_assert_eq!(choice(&machine), naive(&machine), "{}", decide_swap(&interval_of(&machine), &evidence_of(&machine)).why);
    }

    /// zswap needs kernel support and free slots on a disk; zram is never the only swap of a
    /// machine that hibernates.
    #[test]
    fn nothing_impossible_is_chosen(machine in machine()) {
        match choice(&machine) {
            Some(Zswap) => {
                prop_assert!(machine.has_zswap && machine.disk.is_some());
                prop_assert!(machine.free > Bytes::new(0));
            }
            Some(Zram) => {
                prop_assert!(machine.has_zram || machine.zram != Fill::Off);
                prop_assert!(!machine.resumes || machine.disk.is_some());
            }
            _ => {}
        }
    }

    /// Whichever Readings are denied, the choice is the same or there is none.
    #[test]
    fn a_missing_reading_never_leads_to_another_choice(
        machine in machine(),
        denied in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
        loses_start in prop::bool::weighted(0.1),
    ) {
        let (whole, mut interval) = (choice(&machine), interval_of(&machine));
        let deniers = deniers();
        let mut names = Vec::new();
        for index in denied {
            let (name, deny) = index.get(&deniers);
            names.push(*name);
            deny(&mut interval.end);
        }
        if loses_start {
            interval.start = None;
        }
        let decision = decide_swap(&interval, &evidence_of(&machine));
        prop_assert!(
            decision.choice.is_none() || decision.choice == whole,
            "{whole:?}, and without {names:?}: {:?}: {}", decision.choice, decision.why
        );
    }

    /// Two sentences, a command that names both sides, and settings within their range.
    #[test]
    fn every_decision_is_argued_and_can_be_measured(machine in machine()) {
        let decision = decide_swap(&interval_of(&machine), &evidence_of(&machine));
        prop_assert_eq!(decision.why.matches(". ").count(), 1, "{}", decision.why);
        prop_assert!(decision.why.ends_with('.') && decision.changes.ends_with('.'));
        if let Some(trial) = &decision.trial {
            prop_assert!(trial.contains(" --a swap=zram:") && trial.contains(" --b swap=zswap:"));
            prop_assert!(trial.contains("+file:") && trial.ends_with(" -- CMD"));
            let shared = machine.disk.is_some() || machine.zram != Fill::Off;
            prop_assert_eq!(trial.contains("--allow-shared-swap"), shared);
        }
        let (algorithm, size) = decision.zram;
        prop_assert!(!algorithm.as_str().is_empty() && size >= mib(1));
        prop_assert!((1..=100).contains(&decision.zswap.max_pool_percent));
    }

    /// Size and algorithm are those that `bench` recommends if it measured, otherwise those for the
    /// same ratio.
    #[test]
    fn the_device_is_the_one_that_bench_recommends(machine in machine(), ratio in 1.0..9.0f64) {
        let interval = interval_of(&machine);
        let ram = interval.end.memory.total.get().unwrap();
        let contender = Compressor::new("lzo-rle");
        let pick = Pick { winner: contender.clone(), value: 1.0, unit: Name::from("ns"), runner_up: None };
        let point = ParetoPoint {
            contender,
            read_ns: 1.0,
            read_spread: [1.0; 2],
            original_per_memory_used: ratio,
            is_on_front: true,
        };
        let picks = Picks { latency: Some(pick), ..Picks::default() };
        let bench = choose_zram(ram, &picks, &[point]).unwrap();
        let zram = (bench.contender.algorithm.clone(), bench.disksize_bytes);
        let measured = SwapEvidence { zram: Some(zram.clone()), ..evidence_of(&machine) };
        prop_assert_eq!(decide_swap(&interval, &measured).zram, zram);
        let scanned = SwapEvidence { ratio: Some(ratio), ..evidence_of(&machine) };
        prop_assert_eq!(decide_swap(&interval, &scanned).zram.1, zram_size(ram, Some(ratio)));
    }
}

#[test]
fn nothing_known_decides_nothing() {
    let decision = decide_swap(&Interval::default(), &SwapEvidence::default());
    assert_eq!((decision.choice, decision.trial), (None, None));
}
