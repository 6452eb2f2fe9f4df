// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results of `bench`: numbers of a real run, one row of each kind.

#![allow(dead_code, reason = "each test program uses a part of this")]
#![allow(clippy::allow_attributes, reason = "each test program uses a part of this")]

use pagewise_model::*;

fn figures(mean_ns: f64, block: f64) -> Figures {
    let iops = 1e9 / mean_ns;
    Figures {
        rounds: 9,
        requests: 100_000,
        iops,
        iops_spread: [iops * 0.97, iops * 1.02],
        bytes_per_second: iops * block,
        mean_ns,
        mean_spread: [mean_ns * 0.98, mean_ns * 1.03],
        p50_ns: mean_ns * 0.95,
        p50_spread: [mean_ns * 0.94, mean_ns * 0.96],
        p99_ns: mean_ns * 1.6,
        p999_ns: mean_ns * 4.0,
        cpu_ns_per_io: mean_ns * 0.9,
        kernel_ns_per_io: Some(mean_ns * 0.85),
        cpu_ns_per_page: mean_ns * 0.9 * 4096.0 / block,
    }
}

fn rows(name: &str, ns: f64, ratio: f64, used: u64) -> Vec<BenchRow> {
    let shape = |pages: u32, jobs, direction| {
        let block_bytes = Bytes::new(4096 * u64::from(pages));
        let slower = if direction == Direction::Write { 2.2 } else { 1.0 };
        let figures = figures(ns * slower * f64::from(pages), 4096.0 * f64::from(pages));
        BenchRow {
            compressor: Compressor::new(name),
            shape: Shape { block_bytes, jobs, direction },
            figures,
            original_per_compressed: Some(ratio),
            memory_used_bytes: Some(Bytes::new(used << 20)),
        }
    };
    let both = [Direction::Read, Direction::Write];
    let of_size =
        |pages| both.into_iter().flat_map(move |way| [1, 2].map(|jobs| (pages, jobs, way)));
    [1, 2, 4, 8]
        .into_iter()
        .flat_map(of_size)
        .map(|(pages, jobs, way)| shape(pages, jobs, way))
        .collect()
}

fn pick(
    winner: &str,
    value: f64,
    unit: &str,
    next: &str,
    behind: f64,
    is_real: bool,
) -> Option<Pick> {
    let interval = (unit != "original_per_memory_used").then_some([behind * 0.98, behind * 1.02]);
    let runner_up = Some(RunnerUp {
        contender: Compressor::new(next),
        value: value * behind,
        cost_per_winner: behind,
        interval,
        is_real,
    });
    Some(Pick { winner: Compressor::new(winner), value, unit: Name::from(unit), runner_up })
}

fn effect(
    memory: SwappedKind,
    access: Access,
    pages: f64,
    verdict: ClusterVerdict,
) -> ClusterEffect {
    ClusterEffect {
        store: zram(),
        memory,
        access,
        page_clusters: [0, 3],
        pages_per_fault: [1.0, pages],
        reads_ahead: pages > 1.05,
        undisturbed_ns: [3210.0, 3330.0],
        time_ratio: 1.04,
        time_ratio_spread: [0.98, 1.1],
        verdict,
    }
}

fn zram() -> SwapStore {
    SwapStore::zram(Compressor::new("lz4"))
}

fn fault() -> FaultRow {
    FaultRow {
        store: zram(),
        memory: SwappedKind::Private,
        access: Access::Random,
        page_cluster: 0,
        rounds: 5,
        swapped_out_pages: 10_240,
        backing: None,
        pool_bytes_per_page: Some(1560.4),
        touched_pages: 10_240,
        wrong_pages: 0,
        major_faults: 10_240,
        swapped_in_pages: 10_240,
        pages_per_fault: Some(1.0),
        read_ahead_pages: Reading::found(0, Source::file("/proc/vmstat")),
        read_ahead_hits: Reading::absent("no such line", Source::file("/proc/vmstat")),
        mean_ns: 3310.0,
        mean_spread: [3290.0, 3400.0],
        undisturbed_ns: 3250.0,
        undisturbed_spread: [3240.0, 3270.0],
        p50_ns: 3100.0,
        p99_ns: 6200.0,
        p999_ns: 22_140.0,
        in_cpu_ns_per_page: 3300.0,
        in_cpu_spread: [3290.0, 3390.0],
        out_cpu_ns_per_page: 6100.0,
        out_cpu_spread: [6000.0, 6150.0],
    }
}

fn out(store: SwapStore, cpu_ns_per_page: f64) -> SwapOutCost {
    let cpu_spread = [cpu_ns_per_page - 100.0, cpu_ns_per_page + 50.0];
    SwapOutCost { store, swapped_out_pages: 10_240, cpu_ns_per_page, cpu_spread }
}

fn comparison(algorithm: &str, backing_share: f64, of_cpu: CostVerdict) -> StoreComparison {
    let cost = |zswap_per_zram: f64, verdict| RelativeCost {
        zswap_per_zram,
        spread: [zswap_per_zram - 0.04, zswap_per_zram + 0.02],
        verdict,
    };
    let same = match of_cpu {
        CostVerdict::NotJudged => of_cpu,
        _ => CostVerdict::NoDifferenceShown,
    };
    StoreComparison {
        compressor: Compressor::new(algorithm),
        memory: SwappedKind::Private,
        access: Access::Random,
        page_cluster: 0,
        rounds: 5,
        backing_share,
        out_cpu: cost(0.994, same),
        in_cpu: cost(1.07, of_cpu),
        touch: cost(1.03, same),
        pool: Some(cost(1.002, same)),
    }
}

/// With zswap measured too: with lz4 all pages stay in the pool, with lzo many are refused.
pub(crate) fn with_zswap() -> Benchmark {
    let mut benchmark = benchmark();
    let path = || Source::file("/proc/vmstat");
    let [lz4, lzo] = ["lz4", "lzo"].map(|name| SwapStore::zswap(Compressor::new(name)));
    let past = |pages, refused_pages| {
        Some(BackingTraffic {
            written_pages: pages,
            refused_pages,
            read_pages: pages,
            is_zram: false,
        })
    };
    let kept = FaultRow {
        store: lz4.clone(),
        backing: past(0, Reading::found(0, path())),
        in_cpu_ns_per_page: 3530.0,
        ..fault()
    };
    let refused = FaultRow {
        store: lzo.clone(),
        backing: past(3072, Reading::found(3070, path())),
        pool_bytes_per_page: None,
        ..fault()
    };
    benchmark.faults.extend([kept, refused]);
    benchmark.swap_out.extend([out(lz4.clone(), 6063.0), out(lzo, 5900.0)]);
    benchmark.store_comparisons = vec![
        comparison("lz4", 0.0, CostVerdict::More),
        comparison("lzo", 0.3, CostVerdict::NotJudged),
    ];
    benchmark.writebacks = vec![WritebackCost {
        compressor: Compressor::new("lz4"),
        rounds: 5,
        written_pages: 10_112,
        written_share: 0.99,
        cpu_ns_per_page: 8120.0,
        cpu_spread: [7900.0, 8650.0],
    }];
    let effect = effect(SwappedKind::Private, Access::Sequential, 7.95, ClusterVerdict::Faster);
    benchmark.cluster_effects.push(ClusterEffect { store: lz4, ..effect });
    benchmark
}

fn ratio() -> CostRatio {
    CostRatio {
        compressor: Compressor::new("lz4"),
        rounds: 5,
        page_cluster: 0,
        swap_ns_per_page: 3310.0,
        swap_spread: [3290.0, 3400.0],
        file_ns_per_page: 98_000.0,
        file_spread: [91_000.0, 104_000.0],
        file_faults_per_page: 1.0,
        file_per_swap: 29.6,
        file_per_swap_spread: [27.0, 31.4],
        swappiness: 193,
        swappiness_spread: [193, 194],
    }
}

pub(crate) fn benchmark() -> Benchmark {
    let mut rows = [rows("lz4", 3400.0, 2.63, 99), rows("zstd", 9200.0, 3.37, 78)].concat();
    rows.extend(self::rows("lzo-rle", 5000.0, 2.74, 96));
    let path = Reference {
        name: Name::from("block path"),
        layer: Name::from("block"),
        what: Name::from("zram with data that does not compress"),
        shape: Shape { block_bytes: Bytes::new(4096), jobs: 1, direction: Direction::Read },
        figures: figures(1750.0, 4096.0),
    };
    Benchmark {
        input: BenchInput {
            name: Name::from("redis-server (pid 4121)"),
            pages: 65_536,
            bytes: Bytes::new(256 << 20),
            same_filled_left_out: 812,
            measured_bytes: Bytes::new(256 << 20),
        },
        layer: BenchLayer::Zram,
        stopped: false,
        rows,
        references: vec![path],
        faults: vec![fault()],
        swap_out: vec![out(zram(), 6100.0)],
        writebacks: Vec::new(),
        store_comparisons: Vec::new(),
        cluster_effects: vec![
            effect(SwappedKind::Private, Access::Random, 1.0, ClusterVerdict::NoDifferenceShown),
            effect(SwappedKind::Forked, Access::Sequential, 7.99, ClusterVerdict::Slower),
        ],
        cluster_choices: vec![ClusterChoice {
            compressor: Compressor::new("lz4"),
            memory: vec![SwappedKind::Private, SwappedKind::Forked],
            rounds: 5,
            candidates: Vec::new(),
            implied: Some(0),
        }],
        cost_ratios: vec![ratio()],
        tier_mixes: vec![
            TierMix { zram_share: 1.0, fault_ns: 3310.0, swappiness: 193 },
            TierMix { zram_share: 0.9, fault_ns: 12_779.0, swappiness: 177 },
        ],
        break_even: vec![BreakEven {
            contender: Compressor::new("lz4"),
            out_ns: 6100.0,
            fault_ns: 3310.0,
            other_fault_ns: 98_000.0,
            other: Name::from("a page of a file, read at random"),
            faults_per_page: Some(0.064),
        }],
        pareto: Vec::new(),
        recommended: Some(ZramChoice {
            contender: Compressor::new("lz4"),
            disksize_bytes: Bytes::new(20 << 30),
            original_per_memory_used: 2.5,
        }),
        picks: Picks {
            throughput: pick("lz4", 1.2e9, "bytes_per_second", "lzo-rle", 1.47, true),
            latency: pick("lz4", 3230.0, "ns", "lzo-rle", 1.47, true),
            iops: pick("lz4", 538_000.0, "iops", "lzo-rle", 1.02, false),
            ratio: pick("zstd", 3.26, "original_per_memory_used", "lzo-rle", 1.23, true),
            balanced: pick("lz4", 1.11, "times_ideal", "zstd", 1.3, true),
        },
        noise: Noise {
            seconds: 40.0,
            others_share: Some(0.31),
            stolen_share: Some(0.0),
            calm: Some(Name::from("block path, 4.0 KiB read by 1")),
            calm_p50_spread: Some(0.04),
            clock_step_ns: Some(24.0),
        },
        not_measured: vec![Refusal {
            what: "842".to_owned(),
            why: "a zram device: the kernel refuses 842".to_owned(),
            next: Some("cat /sys/block/zram0/comp_algorithm lists what it has".to_owned()),
        }],
        notes: vec!["swap: not all rounds fit into 11 s; --full takes them".to_owned()],
    }
}
