// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of metrics.

use std::borrow::Cow;

use pagewise_model::{
    AgentProof, Bytes, IdleMethod, Level, Limit, Nanos, OomConstraint, Pages, ProofVerdict,
    Reading, Snapshot, TierKind, Zone, Zram,
};

use crate::metric::{Kind, Metric, Scrape, Series, Unit};

/// Maximum number of findings that have a series: the most severe ones.
const FINDINGS: usize = 4;
/// Maximum number of swap areas that have series: those that the kernel fills first.
const TIERS: usize = 2;
/// Maximum number of zones that have a series: those with the least free memory relative to their
/// watermarks.
const ZONES: usize = 2;
/// Maximum number of huge page sizes that have a series: those that hold the most memory.
const SIZES: usize = 3;

/// Defines a metric with a single value and without labels.
macro_rules! one {
    ($name:literal, $kind:ident, $unit:ident, $help:literal, $read:expr) => {
        Metric {
            name: $name,
            kind: Kind::$kind,
            unit: Unit::$unit,
            help: $help,
            labels: &[],
            read: |scrape| {
                let read: fn(&Scrape<'_>) -> Option<f64> = $read;
                read(scrape).map(series_without_labels).into_iter().collect()
            },
        }
    };
}

/// Defines a metric with labels.
macro_rules! several {
    ($name:literal, $kind:ident, $unit:ident, $help:literal, [$($label:literal),*], $read:expr) => {
        Metric {
            name: $name,
            kind: Kind::$kind,
            unit: Unit::$unit,
            help: $help,
            labels: &[$($label),*],
            read: $read,
        }
    };
}

/// All metrics, in the order in which they are printed.
pub const METRICS: &[Metric] = &[
    one!(
        "verdict_level",
        Gauge,
        None,
        "How short of memory the machine or one of its cgroups is: 0 not known, 1 calm, 2 tight, 3 short, 4 critical.",
        |scrape| Some(level(scrape.verdict.level))
    ),
    several!(
        "finding",
        Gauge,
        None,
        "1 for each of the four most severe findings; pagewise explain and pagewise doctor say more.",
        ["id", "severity"],
        findings
    ),
    one!(
        "memory_in_use_uncompressed",
        Gauge,
        Bytes,
        "Memory that would be in use if pages in zram and zswap were not compressed.",
        |scrape| Some(size(end_snapshot(scrape).effective_memory().get()?.uncompressed_size()))
    ),
    one!(
        "memory_compression",
        Gauge,
        Ratio,
        "Size of the pages that are stored in zram and zswap, divided by the memory that these use.",
        |scrape| Some(end_snapshot(scrape).effective_memory().get()?.stored_per_pool()?.get())
    ),
    one!("zram_original", Gauge, Bytes, "Size of the pages in all zram devices.", |scrape| {
        sum(scrape, |it| it.mm_stat.original.get())
    }),
    one!(
        "zram_compressed",
        Gauge,
        Bytes,
        "Size of the pages in all zram devices after compression.",
        |scrape| sum(scrape, |it| it.mm_stat.compressed.get())
    ),
    one!("zram_used", Gauge, Bytes, "Memory that all zram devices use.", |scrape| {
        sum(scrape, |it| it.mm_stat.memory_used.get())
    }),
    one!(
        "zram_limit",
        Gauge,
        Bytes,
        "Memory that all zram devices may use; absent if one of them has no limit.",
        |scrape| {
            let limit = |it: &Zram| it.mm_stat.memory_limit.get().filter(|it| it.get() > 0);
            sum(scrape, limit)
        }
    ),
    one!(
        "zram_same_filled",
        Gauge,
        Pages,
        "Pages in all zram devices that repeat one value, and take no memory.",
        |scrape| sum_pages(scrape, |it| it.mm_stat.same_filled_pages.get())
    ),
    one!(
        "zram_incompressible",
        Gauge,
        Pages,
        "Pages in all zram devices that are stored uncompressed.",
        |scrape| sum_pages(scrape, |it| it.mm_stat.huge_pages.get())
    ),
    one!(
        "zram_written_back",
        Gauge,
        Bytes,
        "Size of the pages that zram devices hold on their backing devices.",
        |scrape| sum(scrape, |it| it.bd_stat.held.get())
    ),
    one!("zswap_pool", Gauge, Bytes, "Memory that zswap uses.", |scrape| {
        end_snapshot(scrape).zswap.pool.get().map(size)
    }),
    one!("zswap_stored", Gauge, Bytes, "Size of the pages in zswap.", |scrape| {
        end_snapshot(scrape).zswap.stored.get().map(size)
    }),
    one!(
        "zswap_written_back",
        Counter,
        Pages,
        "Pages that zswap wrote to the swap area behind it.",
        |scrape| number(&end_snapshot(scrape).zswap.written_back)
    ),
    several!(
        "swap_tier_size",
        Gauge,
        Bytes,
        "Size of a swap area; tier 1 is filled first.",
        ["tier", "kind"],
        |scrape| tiers(scrape, |tier| tier.size.get())
    ),
    several!(
        "swap_tier_used",
        Gauge,
        Bytes,
        "Used part of a swap area; tier 1 is filled first.",
        ["tier", "kind"],
        |scrape| tiers(scrape, |tier| tier.used.get())
    ),
    several!(
        "zone_above_low",
        Gauge,
        Bytes,
        "Free memory of a zone above its low watermark, below which the kernel reclaims; the two zones with least.",
        ["node", "zone"],
        zones
    ),
    several!(
        "reclaim_scanned",
        Counter,
        Pages,
        "Pages that the kernel scanned in order to reclaim memory: in the background, or while a program waited.",
        ["by"],
        scanned_series
    ),
    one!("kswapd_cpu", Counter, Seconds, "CPU time of all threads kswapd.", |scrape| {
        let threads = &end_snapshot(scrape).kernel_threads;
        let is_kswapd = |name: &str| name.starts_with("kswapd");
        let own = threads.iter().filter(|thread| is_kswapd(thread.name.as_str()));
        let times: Option<Vec<f64>> =
            own.map(|thread| thread.cpu_time.get().map(seconds)).collect();
        times.filter(|times| !times.is_empty()).map(|times| times.iter().sum())
    }),
    several!(
        "refaults",
        Counter,
        Pages,
        "Pages that were reclaimed and soon needed again.",
        ["type"],
        refaults
    ),
    several!(
        "pressure_memory_waiting",
        Counter,
        Seconds,
        "Time in which some or all tasks waited for memory (PSI).",
        ["kind"],
        pressure
    ),
    one!(
        "oom_kills",
        Counter,
        None,
        "Processes that the kernel killed for lack of memory since boot.",
        |scrape| { number(&end_snapshot(scrape).vmstat.get("oom_kill")) }
    ),
    several!(
        "kills_in_log",
        Gauge,
        None,
        "Kills for lack of memory in the logs that were read, by what ran out; old ones leave the log.",
        ["by"],
        kills
    ),
    several!(
        "thp_anon",
        Gauge,
        Bytes,
        "Anonymous memory in huge pages of a size; the three sizes that hold the most.",
        ["size"],
        huge_sizes
    ),
    one!(
        "thp_anon_coverage",
        Gauge,
        Ratio,
        "Part of anonymous memory that is in huge pages of the largest size.",
        |scrape| {
            let memory = &end_snapshot(scrape).memory;
            let (huge, anon) = (memory.anon_huge_pages.get()?, memory.anon_pages.get()?);
            (anon.get() > 0).then(|| size(huge) / size(anon))
        }
    ),
    one!("khugepaged_cpu", Counter, Seconds, "CPU time of khugepaged.", |scrape| {
        end_snapshot(scrape).thp.khugepaged.cpu_time.get().map(seconds)
    }),
    one!(
        "mglru_oldest_generation_age",
        Gauge,
        Seconds,
        "Time since the pages of the oldest generation of multi-gen LRU were last seen in use; needs root.",
        |scrape| scrape.oldest_generation_seconds
    ),
    one!(
        "ksm_profit",
        Gauge,
        Bytes,
        "Memory that merging of identical pages (KSM) saves, less what it costs.",
        |scrape| end_snapshot(scrape).ksm.general_profit_bytes.get().map(|profit| profit as f64)
    ),
    one!("plans_applied", Gauge, None, "Plans of Pagewise that are in force.", |scrape| {
        scrape.plans.map(|plans| plans.applied as f64)
    }),
    one!(
        "plan_settings_drifted",
        Gauge,
        None,
        "Settings of applied plans that have another value now.",
        |scrape| scrape.plans.map(|plans| plans.drifted as f64)
    ),
    several!(
        "agent_loop_on",
        Gauge,
        None,
        "Whether a loop of the agent that is switched on and off to compare may act now; needs root.",
        ["loop"],
        |scrape| proofs(scrape, |proof| f64::from(u8::from(proof.is_on)))
    ),
    several!(
        "agent_loop_verdict",
        Gauge,
        None,
        "Whether a loop of the agent pays: 0 not shown yet, 1 pays, 2 does not pay, 3 harms and is switched off; needs root.",
        ["loop"],
        |scrape| proofs(scrape, |proof| match proof.verdict {
            ProofVerdict::NotShownYet => 0.0,
            ProofVerdict::Pays => 1.0,
            ProofVerdict::DoesNotPay => 2.0,
            ProofVerdict::Harms => 3.0,
        })
    ),
    one!("own_cpu", Counter, Seconds, "CPU time of Pagewise itself since it started.", |scrape| {
        Some(scrape.cost.cpu_seconds)
    }),
    one!(
        "own_memory_peak",
        Gauge,
        Bytes,
        "Largest resident memory of Pagewise itself.",
        |scrape| { Some(size(scrape.cost.peak_memory_bytes)) }
    ),
    several!(
        "group_memory_used",
        Gauge,
        Bytes,
        "Memory that a chosen cgroup uses.",
        ["group"],
        |scrape| groups(scrape, |group| group.current.get())
    ),
    several!(
        "group_memory_working_set",
        Gauge,
        Bytes,
        "Memory of a chosen cgroup that is in use, as far as that is known.",
        ["group"],
        |scrape| groups(scrape, |group| group.hot)
    ),
    several!(
        "group_memory_takeable",
        Gauge,
        Bytes,
        "Memory of a chosen cgroup that was not accessed for a minute and could be reclaimed; absent if that is not known.",
        ["group"],
        |scrape| groups(scrape, |group| {
            let idle = group.idle.as_ref()?;
            let is_known = idle.method != IdleMethod::InactiveList;
            is_known.then_some(group.current.get()?.saturating_sub(group.hot?))
        })
    ),
    several!(
        "group_memory_headroom",
        Gauge,
        Bytes,
        "Memory that a chosen cgroup may still use below its limit.",
        ["group"],
        |scrape| groups(scrape, |group| {
            let Limit::Bytes(_) = group.limit.get()? else { return None };
            group.headroom
        })
    ),
    several!(
        "group_memory_suggested_limit",
        Gauge,
        Bytes,
        "Memory limit that a chosen cgroup needs, as pagewise limits computes it.",
        ["group"],
        |scrape| groups(scrape, |group| group.advice.size)
    ),
];

fn series_without_labels(value: f64) -> Series {
    Series { labels: Vec::new(), value }
}

fn series_with_labels<const N: usize>(labels: [Cow<'static, str>; N], value: f64) -> Series {
    Series { labels: labels.into(), value }
}

const fn end_snapshot<'a>(scrape: &Scrape<'a>) -> &'a Snapshot {
    &scrape.interval.end
}

const fn size(bytes: Bytes) -> f64 {
    bytes.get() as f64
}

const fn pages(pages: Pages) -> f64 {
    pages.get() as f64
}

fn seconds(nanos: Nanos) -> f64 {
    nanos.get() as f64 / 1e9
}

fn number(reading: &Reading<u64>) -> Option<f64> {
    reading.get().map(|number| number as f64)
}

const fn level(level: Level) -> f64 {
    match level {
        Level::Unknown => 0.0,
        Level::Calm => 1.0,
        Level::Tight => 2.0,
        Level::Short => 3.0,
        Level::Critical => 4.0,
    }
}

fn findings(scrape: &Scrape<'_>) -> Vec<Series> {
    let shown = scrape.findings.iter().take(FINDINGS);
    let mut all: Vec<Series> = Vec::new();
    for finding in shown {
        let labels = [finding.id.into(), finding.severity.word().into()];
        // a rule may report several findings, but the labels of each series must be unique
        if !all.iter().any(|other| other.labels == labels) {
            all.push(series_with_labels(labels, 1.0));
        }
    }
    all
}

/// Returns the sum over all devices in use; `None` if there is no device or if a value is not
/// known.
fn sum(scrape: &Scrape<'_>, pick: impl Fn(&Zram) -> Option<Bytes>) -> Option<f64> {
    let used = end_snapshot(scrape).zram.iter().filter(|zram| zram.initialised.get() == Some(true));
    let all: Option<Vec<Bytes>> = used.map(pick).collect();
    all.filter(|all| !all.is_empty()).map(|all| all.into_iter().map(size).sum())
}

fn sum_pages(scrape: &Scrape<'_>, pick: impl Fn(&Zram) -> Option<Pages>) -> Option<f64> {
    let used = end_snapshot(scrape).zram.iter().filter(|zram| zram.initialised.get() == Some(true));
    let all: Option<Vec<Pages>> = used.map(pick).collect();
    all.filter(|all| !all.is_empty()).map(|all| all.into_iter().map(pages).sum())
}

fn tiers(
    scrape: &Scrape<'_>,
    pick: impl Fn(&pagewise_model::Tier) -> Option<Bytes>,
) -> Vec<Series> {
    let tiers = end_snapshot(scrape).tiers.iter().take(TIERS).enumerate();
    let known = tiers.filter_map(|(at, tier)| {
        let kind = match tier.kind {
            TierKind::Zram => "zram",
            TierKind::Zmerge => "zmerge",
            TierKind::Partition => "partition",
            TierKind::File => "file",
        };
        Some(series_with_labels([(at + 1).to_string().into(), kind.into()], size(pick(tier)?)))
    });
    known.collect()
}

fn zones(scrape: &Scrape<'_>) -> Vec<Series> {
    let host = end_snapshot(scrape);
    let page = size(host.page_size());
    let above = |zone: &Zone| {
        let is_empty = zone.managed_pages.get() == Some(Pages::new(0));
        let (free, low) = (zone.free_pages.get()?, zone.low_pages.get()?);
        (!is_empty && low.get() > 0).then(|| (pages(free) / pages(low), pages(free) - pages(low)))
    };
    let mut known: Vec<_> =
        host.zones.iter().filter_map(|zone| Some((above(zone)?, zone))).collect();
    known.sort_by(|((one, _), _), ((other, _), _)| one.total_cmp(other));
    let series = known.into_iter().take(ZONES).map(|((_, above), zone)| {
        series_with_labels(
            [zone.node.to_string().into(), zone.name.as_str().to_owned().into()],
            above * page,
        )
    });
    series.collect()
}

/// Returns series of counters of `/proc/vmstat`, each from the value of its label and the counters
/// to add up.
fn counters(scrape: &Scrape<'_>, named: &[(&'static str, &[&str])]) -> Vec<Series> {
    let vmstat = &end_snapshot(scrape).vmstat;
    let read = |(label, names): &(&'static str, &[&str])| {
        let all: Option<Vec<f64>> = names.iter().map(|name| number(&vmstat.get(name))).collect();
        Some(series_with_labels([(*label).into()], all?.into_iter().sum()))
    };
    named.iter().filter_map(read).collect()
}

fn scanned_series(scrape: &Scrape<'_>) -> Vec<Series> {
    counters(scrape, &[("kswapd", &["pgscan_kswapd"]), ("direct", &["pgscan_direct"])])
}

fn refaults(scrape: &Scrape<'_>) -> Vec<Series> {
    counters(
        scrape,
        &[("anon", &["workingset_refault_anon"]), ("file", &["workingset_refault_file"])],
    )
}

fn pressure(scrape: &Scrape<'_>) -> Vec<Series> {
    let memory = &end_snapshot(scrape).psi.memory;
    let stalls = [("some", &memory.some), ("full", &memory.full)];
    let series = stalls.into_iter().filter_map(|(kind, stall)| {
        Some(series_with_labels([kind.into()], stall.total_us.get()?.get() as f64 / 1e6))
    });
    series.collect()
}

fn kills(scrape: &Scrape<'_>) -> Vec<Series> {
    let log = &end_snapshot(scrape).kernel_log;
    let mut all = Vec::new();
    if log.records.get().is_some() {
        let count = |is_own: fn(Option<OomConstraint>) -> bool| {
            log.kills.iter().filter(|kill| is_own(kill.constraint)).count() as f64
        };
        let is_group = |it: Option<OomConstraint>| it == Some(OomConstraint::Cgroup);
        all.push(series_with_labels(["cgroup".into()], count(is_group)));
        all.push(series_with_labels(
            ["host".into()],
            count(|it| it != Some(OomConstraint::Cgroup)),
        ));
    }
    let by_programs = scrape.program_kills.map(|kills| kills as f64);
    all.extend(by_programs.map(|kills| series_with_labels(["program".into()], kills)));
    all
}

fn huge_sizes(scrape: &Scrape<'_>) -> Vec<Series> {
    let sizes = &end_snapshot(scrape).thp.sizes;
    let held = sizes.iter().filter_map(|one| {
        let held = number(&one.stats.get("nr_anon"))? * size(one.bytes);
        Some((one.bytes, held))
    });
    let mut held: Vec<(Bytes, f64)> = held.collect();
    if held.is_empty() {
        // before 6.10, the kernel counts only huge pages of the largest size
        let largest = end_snapshot(scrape).thp.pmd_size.get();
        held.extend(largest.zip(end_snapshot(scrape).memory.anon_huge_pages.get().map(size)));
    }
    held.sort_by(|(one_size, one), (other_size, other)| {
        other.total_cmp(one).then(other_size.cmp(one_size))
    });
    held.truncate(SIZES);
    held.into_iter()
        .map(|(bytes, held)| series_with_labels([bytes.get().to_string().into()], held))
        .collect()
}

/// A series for each loop of the agent that is proved.
fn proofs(scrape: &Scrape<'_>, read: fn(&AgentProof) -> f64) -> Vec<Series> {
    let series = |proof: &AgentProof| Series {
        labels: vec![Cow::Borrowed(proof.loop_.name())],
        value: read(proof),
    };
    scrape.proofs.iter().map(series).collect()
}

fn groups(
    scrape: &Scrape<'_>,
    pick: impl Fn(&pagewise_model::WorkingSet) -> Option<Bytes>,
) -> Vec<Series> {
    let known = scrape.groups.iter().filter_map(|group| {
        Some(series_with_labels([group.group.as_str().to_owned().into()], size(pick(group)?)))
    });
    known.collect()
}
