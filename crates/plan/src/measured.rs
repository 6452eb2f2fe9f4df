// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the JSON documents of `bench`, `scan` and `trial` into [`Measured`].
//!
//! Only the keys that a plan uses are read. The sizes that are derived from them are computed by
//! `pagewise_facts::swap_choice`, as for findings.

use pagewise_facts::swap_choice::{
    FAST, SwapEvidence, choose_zram, is_enough_to_size, is_enough_to_size_with, zswap_compressor,
};
use pagewise_facts::tiers;
use pagewise_model::plan::{Expected, Goal, ZRAM_RATIO};
use pagewise_model::{
    Bytes, Compressor, Name, ParetoPoint, Pick, Picks, RunnerUp, Snapshot, ZramChoice,
};
use serde::Deserialize;
use serde_json::Value;

use crate::compressor;
use crate::tried::Tried;

/// The measurements that a plan uses; empty if there are none.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    bench: Option<Bench>,
    scan: Option<ScanEstimate>,
    trial: Option<Tried>,
    /// The release of the kernel on the measured machine, if the document contains it.
    kernel: Option<String>,
    /// The name of the measured host, if the document contains it.
    host: Option<String>,
}

/// Error for a document that a plan cannot use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotMeasured(String);

impl std::fmt::Display for NotMeasured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotMeasured {}

#[derive(Debug, Clone, Deserialize)]
struct Bench {
    input: Option<BenchInput>,
    #[serde(default)]
    picks: BenchPicks,
    #[serde(default)]
    pareto: Vec<BenchPoint>,
    #[serde(default)]
    cluster_choices: Vec<ClusterChoice>,
    #[serde(default)]
    cost_ratios: Vec<CostRatio>,
    #[serde(default)]
    tier_mixes: Vec<TierMix>,
}

/// The memory whose contents were measured by `bench`.
#[derive(Debug, Clone, Copy, Deserialize)]
struct BenchInput {
    pages: u64,
    bytes: Bytes,
    #[serde(default)]
    same_filled_left_out: u64,
}

impl Bench {
    /// Whether so much memory was measured that a size for the host can be derived from it.
    fn is_enough_to_size(&self) -> bool {
        self.input.is_none_or(|input| {
            is_enough_to_size_with(input.bytes, input.pages, input.same_filled_left_out)
        })
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
struct BenchPicks {
    throughput: Option<BenchPick>,
    latency: Option<BenchPick>,
    ratio: Option<BenchPick>,
    balanced: Option<BenchPick>,
}

#[derive(Debug, Clone, Deserialize)]
struct BenchPick {
    #[serde(flatten)]
    winner: Compressor,
    value: f64,
    runner_up: Option<BenchRunnerUp>,
}

#[derive(Debug, Clone, Deserialize)]
struct BenchRunnerUp {
    #[serde(flatten)]
    contender: Compressor,
    value: f64,
    cost_per_winner: f64,
    is_real: bool,
}

#[derive(Debug, Clone, Deserialize)]
struct BenchPoint {
    #[serde(flatten)]
    contender: Compressor,
    original_per_memory_used: f64,
}

/// The value of `vm.page-cluster` that measured times recommend.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ClusterChoice {
    #[serde(flatten)]
    pub(crate) compressor: Compressor,
    pub(crate) memory: Vec<String>,
    pub(crate) rounds: u32,
    pub(crate) implied: Option<u32>,
}

/// The cost of reading a page from swap compared with the cost of reading one from a file.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct CostRatio {
    #[serde(flatten)]
    pub(crate) compressor: Compressor,
    pub(crate) rounds: u32,
    pub(crate) swap_ns_per_page: f64,
    pub(crate) file_ns_per_page: f64,
    pub(crate) swappiness: u32,
    pub(crate) swappiness_spread: [u32; 2],
}

/// The mean cost of reading a page from swap if some pages come from a slower tier.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct TierMix {
    pub(crate) zram_share: f64,
    pub(crate) swappiness: u32,
}

#[derive(Debug, Clone, Deserialize)]
struct ScanEstimate {
    page_bytes: Bytes,
    pages: u64,
    sized_pages: u64,
    algorithms: Vec<ScanAlgorithm>,
    /// How much of the memory is cold: a Reading as JSON.
    #[serde(default)]
    cold: Value,
}

#[derive(Debug, Clone, Deserialize)]
struct ScanAlgorithm {
    name: String,
    level: Option<i32>,
    #[serde(default)]
    huge_pages: Option<u64>,
    memory_used_bytes: Bytes,
    memory_used_interval: [Bytes; 2],
}

impl Measured {
    /// Reads a document that `bench`, `scan`, `trial`, `lab run` or `lab replay` printed with
    /// `--json`.
    ///
    /// # Errors
    /// If the text is not such a document.
    pub fn from_json(text: &str) -> Result<Self, NotMeasured> {
        let document: Value = serde_json::from_str(text)
            .map_err(|error| NotMeasured(format!("not JSON: {error}")))?;
        let bad = |error: serde_json::Error| NotMeasured(error.to_string());
        let mut measured = Self {
            kernel: word(&document["kernel"]["value"]),
            host: word(&document["host"]["name"]["value"]),
            ..Self::default()
        };
        match document["schema"].as_str() {
            Some("pagewise/bench/1") => {
                measured.bench = Some(serde_json::from_value(document).map_err(bad)?);
            }
            Some("pagewise/scan/1") => {
                let first = document["estimates"][0].clone();
                measured.scan = Some(serde_json::from_value(first).map_err(bad)?);
            }
            Some("pagewise/trial/1") => {
                measured.trial = Some(serde_json::from_value(document).map_err(bad)?);
            }
            Some("pagewise/replay/1") => {
                let trial = document["trial"].clone();
                measured.trial = Some(serde_json::from_value(trial).map_err(bad)?);
            }
            Some("pagewise/lab/1") if document["preview"] == true => {
                let what = "expected a whole experiment, found a preview, which has too few rounds for a verdict";
                return Err(NotMeasured(what.to_owned()));
            }
            Some("pagewise/lab/1") => {
                let cell = cell_of_host(&document)?.clone();
                measured.trial = Some(serde_json::from_value(cell).map_err(bad)?);
            }
            other => {
                let found = other.unwrap_or("no key `schema`");
                let what = format!(
                    "expected the JSON output of bench, scan, trial, lab run or lab replay, found {found}"
                );
                return Err(NotMeasured(what));
            }
        }
        Ok(measured)
    }

    /// Combines two sets of measurements. If both contain a document of the same kind, the later
    /// one is used.
    #[must_use]
    pub fn combined_with(self, later: Self) -> Self {
        Self {
            bench: later.bench.or(self.bench),
            scan: later.scan.or(self.scan),
            trial: later.trial.or(self.trial),
            kernel: later.kernel.or(self.kernel),
            host: later.host.or(self.host),
        }
    }

    /// Returns the release of the kernel on the measured machine, if the document contains it.
    #[must_use]
    pub fn kernel(&self) -> Option<&str> {
        self.kernel.as_deref()
    }

    /// Returns the name of the measured host, if the document contains it.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Returns the result of a trial, if the measurements contain one.
    pub(crate) fn trial(&self) -> Option<&Tried> {
        self.trial.as_ref()
    }

    /// Returns the measurements that the choice between zram and zswap uses.
    pub(crate) fn swap_evidence(&self, goal: Goal, host: &Snapshot) -> SwapEvidence {
        let ram = host.memory.total.get();
        let bench = ram.and_then(|ram| self.zram(goal, ram));
        let scan = self.scan.as_ref();
        let share = |pages: u64, scan: &ScanEstimate| pages as f64 / scan.pages.max(1) as f64;
        let fast = scan.and_then(|scan| scan.algorithms.iter().find(|it| it.name == FAST));
        let scanned = || {
            // if there is swap on a disk, the alternative to zram is zswap
            let is_alone = tiers::on_disk(host).next().is_none();
            let planned = if is_alone {
                compressor::choose_for_goal(goal, host)
            } else {
                Compressor::new(zswap_compressor(host, goal == Goal::Ratio).as_str())
            };
            if !self.is_enough_to_size() {
                return None;
            }
            Some(self.ratio(&planned).or_else(|| self.ratio(&Compressor::new(FAST)))?.value)
        };
        SwapEvidence {
            ratio: bench.as_ref().map(|it| it.original_per_memory_used).or_else(scanned),
            incompressible: scan
                .zip(fast.and_then(|it| it.huge_pages))
                .map(|(scan, pages)| share(pages, scan)),
            cold: scan.and_then(|scan| Some(share(scan.cold["value"].as_u64()?, scan))),
            trial: self.trial.as_ref().and_then(Tried::find_better_swap),
            zram: bench.map(|it| (it.contender.algorithm, it.disksize_bytes)),
            is_density_wanted: goal == Goal::Ratio,
        }
    }

    /// Returns the zram device that `bench` recommends for a goal.
    pub(crate) fn zram(&self, goal: Goal, ram: Bytes) -> Option<ZramChoice> {
        let bench = self.bench.as_ref().filter(|bench| bench.is_enough_to_size())?;
        let BenchPicks { throughput, latency, ratio, balanced } = &bench.picks;
        let pick = match goal {
            Goal::Throughput => throughput.as_ref(),
            Goal::Latency => latency.as_ref(),
            Goal::Ratio => ratio.as_ref(),
            // if no writes were measured, `bench` has no recommendation for the balanced goal
            Goal::Balanced => balanced.as_ref().or(latency.as_ref()),
        };
        let picks = Picks { balanced: Some(pick?.to_pick()), ..Picks::default() };
        let points: Vec<ParetoPoint> = bench.pareto.iter().map(BenchPoint::to_point).collect();
        choose_zram(ram, &picks, &points)
    }

    /// Returns the value of `vm.page-cluster` that `bench` recommends with this algorithm.
    pub(crate) fn page_cluster(&self, algorithm: &str) -> Option<&ClusterChoice> {
        let mut choices = self.bench.as_ref()?.cluster_choices.iter();
        choices.find(|choice| choice.compressor.algorithm.as_str() == algorithm)
    }

    /// Returns the cost of a page from zram with this algorithm, compared with the cost of one from
    /// a file.
    pub(crate) fn cost_ratio(&self, algorithm: &str) -> Option<&CostRatio> {
        let mut ratios = self.bench.as_ref()?.cost_ratios.iter();
        ratios.find(|ratio| ratio.compressor.algorithm.as_str() == algorithm)
    }

    /// Returns the measured mix of tiers whose share of pages in zram is closest to `zram_share` (0
    /// to 1).
    pub(crate) fn tier_mix(&self, zram_share: f64) -> Option<&TierMix> {
        let distance = |mix: &TierMix| (mix.zram_share - zram_share).abs();
        let mixes = self.bench.as_ref()?.tier_mixes.iter();
        mixes.min_by(|one, other| distance(one).total_cmp(&distance(other)))
    }

    /// Whether `scan` sampled enough memory to derive a size for the host from it.
    pub(crate) fn is_enough_to_size(&self) -> bool {
        self.scan.as_ref().is_some_and(|scan| {
            let source = scan.pages.saturating_mul(scan.page_bytes.get());
            is_enough_to_size(Bytes::new(source), scan.sized_pages)
        })
    }

    /// Returns the compression ratio that `scan` predicts for a zram device with this algorithm.
    pub(crate) fn ratio(&self, compressor: &Compressor) -> Option<Expected> {
        let scan = self.scan.as_ref()?;
        let is_it = |it: &&ScanAlgorithm| {
            it.name == compressor.algorithm.as_str() && it.level == compressor.level
        };
        let by_name = |it: &&ScanAlgorithm| {
            it.name == compressor.algorithm.as_str() && compressor.level.is_none()
        };
        let algorithms = &scan.algorithms;
        let it = algorithms.iter().find(is_it).or_else(|| algorithms.iter().find(by_name))?;
        let original = scan.pages.checked_mul(scan.page_bytes.get())? as f64;
        let per = |used: Bytes| (used.get() > 0).then(|| original / used.get() as f64);
        let [low, high] = it.memory_used_interval;
        Some(Expected {
            metric: ZRAM_RATIO.to_owned(),
            value: per(it.memory_used_bytes)?,
            interval: [per(high)?, per(low)?],
            before: None,
            source: format!(
                "pagewise scan, which compressed {} of {} pages with {}",
                scan.sized_pages, scan.pages, it.name
            ),
        })
    }
}

/// Returns the result of an experiment on the host itself, or the only result of a document with
/// several machines.
fn cell_of_host(document: &Value) -> Result<&Value, NotMeasured> {
    let cells = document["cells"].as_array().map(Vec::as_slice).unwrap_or_default();
    let host = cells.iter().find(|cell| cell["cell"] == "host");
    match (host, cells) {
        (Some(cell), _) | (None, [cell]) => Ok(cell),
        _ => Err(NotMeasured(format!(
            "expected an experiment that ran on the host, found {} cells, none of which is called host",
            cells.len()
        ))),
    }
}

fn word(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

impl BenchPick {
    fn to_pick(&self) -> Pick {
        let unit = Name::from("ns");
        let runner_up = self.runner_up.as_ref().map(|it| RunnerUp {
            contender: it.contender.clone(),
            value: it.value,
            cost_per_winner: it.cost_per_winner,
            interval: None,
            is_real: it.is_real,
        });
        Pick { winner: self.winner.clone(), value: self.value, unit, runner_up }
    }
}

impl BenchPoint {
    fn to_point(&self) -> ParetoPoint {
        ParetoPoint {
            contender: self.contender.clone(),
            read_ns: 0.0,
            read_spread: [0.0; 2],
            original_per_memory_used: self.original_per_memory_used,
            is_on_front: false,
        }
    }
}
