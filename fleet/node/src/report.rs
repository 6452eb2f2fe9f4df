// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The document of `pagewise report --json`, as much of it as a cluster needs.
//!
//! The types here are not those of the program: they ignore what they do not know, and each part may be
//! missing, so that the versions of the two programs may differ. A reading that has no value is `None`,
//! never zero.

use std::collections::BTreeMap;

use fleet_crd::{
    EstimateSummary, FindingSummary, MemorySummary, MetricValues, NodeMemoryStateStatus,
    OwnerSummary, STATE_BYTES, format_quantity,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

/// A value that was read, or that is absent or denied.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Reading<T> {
    /// The value.
    #[serde(default = "Option::default")]
    pub value: Option<T>,
}

impl<T> Reading<T> {
    fn get(&self) -> Option<&T> {
        self.value.as_ref()
    }
}

/// The document.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Report {
    schema: String,
    boot_id: Reading<String>,
    pagewise: Option<String>,
    kernel: Reading<String>,
    host: Host,
    verdict: Option<Verdict>,
    findings: Vec<Finding>,
    estimates: Vec<Estimate>,
    owners: Vec<Owned>,
    capabilities: Vec<Capability>,
    memory: Memory,
    vmstat: BTreeMap<String, Reading<f64>>,
    psi: Psi,
    cgroups: Cgroups,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Host {
    architecture: Reading<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Verdict {
    level: String,
    line: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Finding {
    id: String,
    severity: String,
    title: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Estimate {
    source: Source,
    page_bytes: Option<f64>,
    pages: Option<f64>,
    sampled_pages: Option<i64>,
    algorithms: Vec<Algorithm>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Source {
    name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Algorithm {
    name: String,
    compressed_bytes: Option<f64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Owned {
    target: String,
    owners: Vec<Owner>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Owner {
    mechanism: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Capability {
    feature: String,
    state: FeatureState,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct FeatureState {
    is: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Memory {
    total: Reading<u64>,
    available: Reading<u64>,
    swap_total: Reading<u64>,
    swap_free: Reading<u64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Psi {
    memory: PsiOf,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct PsiOf {
    some: PsiLine,
    full: PsiLine,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct PsiLine {
    total_us: Reading<f64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Cgroups {
    groups: Vec<Cgroup>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Cgroup {
    path: String,
    swap_max: Reading<serde_json::Value>,
}

/// Counters of the kernel at one time. Two of them give [`MetricValues`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Seconds since boot when they were read.
    pub at: f64,
    /// The id of the boot: counters of another boot cannot be compared.
    pub boot_id: Option<String>,
    refaults: Option<f64>,
    kswapd_scans: Option<f64>,
    oom_kills: Option<f64>,
    full_us: Option<f64>,
    some_us: Option<f64>,
}

/// Longest texts, as the definitions limit them.
const LINE: usize = 512;
const TITLE: usize = 256;
const NAME: usize = 64;
/// Most entries of lists, as the definitions limit them.
const MOST: usize = 64;

impl Report {
    /// Reads a document.
    ///
    /// # Errors
    /// If it is none of `report --json`; what was found instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let report: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if !report.schema.starts_with("pagewise/report/") {
            return Err(format!("expected schema pagewise/report, found {:?}", report.schema));
        }
        Ok(report)
    }

    /// The counters, read at `at` seconds since boot.
    #[must_use]
    pub fn counters(&self, at: f64) -> Counters {
        let vmstat = |name: &str| self.vmstat.get(name).and_then(|it| it.value);
        // Kernels before 5.9 have one counter for both.
        let both = vmstat("workingset_refault_anon").zip(vmstat("workingset_refault_file"));
        Counters {
            at,
            boot_id: self.boot_id.value.clone(),
            refaults: both.map(|(anon, file)| anon + file).or_else(|| vmstat("workingset_refault")),
            kswapd_scans: vmstat("pgscan_kswapd"),
            oom_kills: vmstat("oom_kill"),
            full_us: self.psi.memory.full.total_us.value,
            some_us: self.psi.memory.some.total_us.value,
        }
    }

    /// The swap limit of each cgroup: `None` for `max`.
    #[must_use]
    pub fn swap_limits(&self) -> BTreeMap<&str, Option<u64>> {
        let limit = |group: &'_ Cgroup| match group.swap_max.get()? {
            serde_json::Value::String(text) if text == "max" => Some(None),
            value => value.as_u64().map(Some),
        };
        self.cgroups.groups.iter().filter_map(|it| Some((it.path.as_str(), limit(it)?))).collect()
    }

    /// What is published, without the change. The estimate is of this report, if it has one.
    #[must_use]
    pub fn summarize(&self, time: Time) -> NodeMemoryStateStatus {
        let memory = &self.memory;
        let swap_used = memory.swap_total.value.zip(memory.swap_free.value);
        let swap_used = swap_used.map(|(total, free)| total.saturating_sub(free));
        let mut findings: Vec<FindingSummary> =
            self.findings.iter().map(summarize_finding).collect();
        findings.sort_by_key(|finding| match finding.severity.as_str() {
            "critical" => 0,
            "warning" => 1,
            _ => 2,
        });
        let is_present = |it: &&Capability| it.state.is == "present";
        let capabilities = self.capabilities.iter().filter(is_present);
        let mut status = NodeMemoryStateStatus {
            time: Some(time),
            pagewise: self.pagewise.as_deref().map(|it| cut(it, NAME)),
            boot_id: self.boot_id.get().map(|it| cut(it, NAME)),
            kernel: self.kernel.get().map(|it| cut(it, 128)),
            architecture: self.host.architecture.get().map(|it| cut(it, 32)),
            verdict: self.verdict.as_ref().map(|it| cut(&it.level, 32)),
            line: self.verdict.as_ref().map(|it| cut(&it.line, LINE)),
            memory: Some(MemorySummary {
                total: memory.total.value.map(format_quantity),
                available_percent: percent(memory.available.value, memory.total.value),
                swap_total: memory.swap_total.value.map(format_quantity),
                swap_used_percent: percent(swap_used, memory.swap_total.value),
            }),
            finding_count: u32::try_from(findings.len()).ok(),
            findings,
            estimate: self.estimates.first().and_then(summarize_estimate),
            capabilities: capabilities.map(|it| cut(&it.feature, NAME)).collect(),
            owners: self.owners(),
            ..NodeMemoryStateStatus::default()
        };
        for (name, left) in [
            ("findings", shorten(&mut status.findings, MOST)),
            ("capabilities", shorten(&mut status.capabilities, 2 * MOST)),
            ("owners", shorten(&mut status.owners, MOST)),
        ] {
            if left > 0 {
                status.left_out.push(format!("{left} {name}"));
            }
        }
        status
    }

    fn owners(&self) -> Vec<OwnerSummary> {
        let all = self.owners.iter().flat_map(|owned| {
            owned.owners.iter().map(|owner| OwnerSummary {
                target: cut(&owned.target, 128),
                mechanism: cut(&owner.mechanism, NAME),
            })
        });
        // The kernel's command line is no program that would set a value again.
        let mut all: Vec<OwnerSummary> = all.filter(|it| it.mechanism != "command-line").collect();
        all.dedup();
        all
    }
}

fn summarize_finding(finding: &Finding) -> FindingSummary {
    FindingSummary {
        id: cut(&finding.id, NAME),
        severity: cut(&finding.severity, 16),
        title: cut(&finding.title, TITLE),
    }
}

fn summarize_estimate(estimate: &Estimate) -> Option<EstimateSummary> {
    let algorithm = estimate.algorithms.first()?;
    let bytes = estimate.pages? * estimate.page_bytes?;
    let saved = 100.0 * (1.0 - algorithm.compressed_bytes? / bytes);
    Some(EstimateSummary {
        source: cut(&estimate.source.name, 128),
        sampled_pages: estimate.sampled_pages?,
        saved_percent: whole_percent(saved)?,
        algorithm: cut(&algorithm.name, 32),
    })
}

fn percent(part: Option<u64>, whole: Option<u64>) -> Option<u32> {
    let (part, whole) = (part?, whole?);
    whole_percent(100.0 * part as f64 / whole as f64)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 100")]
fn whole_percent(percent: f64) -> Option<u32> {
    percent.is_finite().then(|| percent.clamp(0.0, 100.0).round() as u32)
}

/// The first characters of a text; an ellipsis stands for the rest.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Removes what is over the limit. Returns how many were removed.
fn shorten<T>(list: &mut Vec<T>, most: usize) -> usize {
    let left = list.len().saturating_sub(most);
    list.truncate(most);
    left
}

/// Removes the least important parts until the object has at most 16 KiB, and says what is missing.
pub fn fit(status: &mut NodeMemoryStateStatus) {
    let size = |status: &NodeMemoryStateStatus| {
        serde_json::to_vec(status).map_or(usize::MAX, |bytes| bytes.len())
    };
    // Room for the words about what is left out, and for the name of the node and the request.
    const ROOM: usize = 4096;
    let mut left = [0usize; 3];
    while size(status) > STATE_BYTES - ROOM {
        if status.capabilities.pop().is_some() {
            left[0] += 1;
        } else if status.owners.pop().is_some() {
            left[1] += 1;
        } else if status.findings.len() > 1 && status.findings.pop().is_some() {
            left[2] += 1;
        } else {
            break;
        }
    }
    for (number, name) in left.into_iter().zip(["capabilities", "owners", "findings"]) {
        if number > 0 {
            status
                .left_out
                .push(format!("{number} {name}, because the object would have more than 16 KiB"));
        }
    }
}

impl Counters {
    /// The rates between an earlier reading and this one. `None` if they are of different boots, or in the
    /// wrong order.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<MetricValues> {
        let seconds = self.at - earlier.at;
        if self.boot_id != earlier.boot_id || !seconds.is_finite() || seconds <= 0.0 {
            return None;
        }
        let rise = |now: Option<f64>, then: Option<f64>| {
            let rise = now? - then?;
            // A counter that fell was reset.
            (rise.is_finite() && rise >= 0.0).then_some(rise)
        };
        let share = |rise: Option<f64>| rise.map(|us| (us / 1e4 / seconds).clamp(0.0, 100.0));
        Some(MetricValues {
            seconds,
            refaults_per_second: rise(self.refaults, earlier.refaults).map(|it| it / seconds),
            memory_full_percent: share(rise(self.full_us, earlier.full_us)),
            memory_some_percent: share(rise(self.some_us, earlier.some_us)),
            kswapd_scans_per_second: rise(self.kswapd_scans, earlier.kswapd_scans)
                .map(|it| it / seconds),
            oom_kills: rise(self.oom_kills, earlier.oom_kills),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn time() -> Time {
        Time("2026-11-28T20:00:00Z".parse().unwrap())
    }

    fn document() -> serde_json::Value {
        json!({
            "schema": "pagewise/report/1", "pagewise": "0.2.0", "new_key": {"a": [1]},
            "boot_id": {"value": "b1", "at": "x"}, "kernel": {"value": "6.12"},
            "host": {"architecture": {"value": "x86_64"}, "name": {"denied": "x"}},
            "verdict": {"level": "tight", "line": "Memory is tight.", "groups": []},
            "findings": [
                {"id": "a", "severity": "info", "title": "A"},
                {"id": "b", "severity": "critical", "title": "B"},
            ],
            "estimates": [{
                "source": {"name": "15 processes"}, "page_bytes": 4096, "pages": 100, "sampled_pages": 50,
                "algorithms": [{"name": "lzo-rle", "compressed_bytes": 102_400}],
            }],
            "owners": [
                {"target": "vm.swappiness", "owners": [{"mechanism": "sysctl"}]},
                {"target": "psi", "owners": [{"mechanism": "command-line"}]},
            ],
            "capabilities": [
                {"feature": "zram", "state": {"is": "present"}},
                {"feature": "zswap", "state": {"is": "not-built", "option": "X"}},
            ],
            "memory": {"total": {"value": 1u64 << 30}, "available": {"value": 1u64 << 28}, "swap_total": {"absent": "none"}},
            "vmstat": {
                "workingset_refault_anon": {"value": 10}, "workingset_refault_file": {"value": 20},
                "pgscan_kswapd": {"value": 7}, "oom_kill": {"value": 1}, "nr_free_pages": {"absent": "x"},
            },
            "psi": {"memory": {"full": {"total_us": {"value": 1_000_000}}, "some": {"total_us": {"value": 2_000_000}}}},
            "cgroups": {"groups": [
                {"path": "/a", "swap_max": {"value": "max"}}, {"path": "/b", "swap_max": {"value": 4096}},
                {"path": "/c", "swap_max": {"absent": "v1"}},
            ]},
        })
    }

    #[test]
    fn a_document_is_summarized() {
        let report = Report::parse(&document().to_string()).unwrap();
        let status = report.summarize(time());
        assert_eq!(status.verdict.as_deref(), Some("tight"));
        let memory = status.memory.unwrap();
        assert_eq!((memory.total.as_deref(), memory.available_percent), (Some("1024Mi"), Some(25)));
        assert_eq!(
            (memory.swap_total, memory.swap_used_percent),
            (None, None),
            "absent is not zero"
        );
        assert_eq!(status.findings.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(status.capabilities, ["zram"]);
        assert_eq!(status.owners.len(), 1);
        assert_eq!(status.estimate.unwrap().saved_percent, 75);
        let limits = report.swap_limits();
        assert_eq!((limits["/a"], limits["/b"], limits.get("/c")), (None, Some(4096), None));
    }

    #[test]
    fn what_is_no_report_is_refused_and_what_is_missing_is_none() {
        for bad in ["", "[]", "{\"schema\": \"pagewise/doctor/1\"}", "{}"] {
            assert!(Report::parse(bad).is_err(), "{bad}");
        }
        let bare = Report::parse(r#"{"schema": "pagewise/report/2"}"#).unwrap();
        let status = bare.summarize(time());
        assert_eq!((status.verdict, status.kernel, status.estimate), (None, None, None));
        assert_eq!(
            bare.counters(1.0).since(&bare.counters(0.0)).unwrap().refaults_per_second,
            None
        );
    }

    /// The program of this machine's tree prints such documents; see `tests/program.rs` for the real one.
    #[test]
    fn rates_are_between_two_readings_of_one_boot() {
        let first = Report::parse(&document().to_string()).unwrap().counters(100.0);
        let mut later = document();
        later["vmstat"]["workingset_refault_anon"]["value"] = json!(110);
        later["vmstat"]["oom_kill"]["value"] = json!(3);
        later["vmstat"]["pgscan_kswapd"]["value"] = json!(0);
        later["psi"]["memory"]["full"]["total_us"]["value"] = json!(2_000_000);
        let second = Report::parse(&later.to_string()).unwrap().counters(110.0);
        let values = second.since(&first).unwrap();
        assert_eq!((values.seconds, values.refaults_per_second), (10.0, Some(10.0)));
        assert_eq!(
            (values.memory_full_percent, values.memory_some_percent),
            (Some(10.0), Some(0.0))
        );
        assert_eq!(
            (values.oom_kills, values.kswapd_scans_per_second),
            (Some(2.0), None),
            "it was reset"
        );
        assert_eq!(first.since(&second), None);
        later["boot_id"]["value"] = json!("b2");
        let reboot = Report::parse(&later.to_string()).unwrap().counters(120.0);
        assert_eq!(reboot.since(&second), None);
    }

    #[test]
    fn the_largest_document_fits_and_says_what_is_missing() {
        let mut huge = document();
        let finding = |at: usize| json!({"id": format!("id-{at}"), "severity": "warning", "title": "ä".repeat(3000)});
        huge["findings"] = (0..500).map(finding).collect();
        huge["capabilities"] = (0..500)
            .map(|at| json!({"feature": format!("f{at}"), "state": {"is": "present"}}))
            .collect();
        huge["owners"] = (0..500)
            .map(|at| json!({"target": format!("t{at}"), "owners": [{"mechanism": "sysctl"}]}))
            .collect();
        huge["verdict"]["line"] = json!("x".repeat(100_000));
        let mut status = Report::parse(&huge.to_string()).unwrap().summarize(time());
        fit(&mut status);
        assert!(
            serde_json::to_vec(&status).unwrap().len() <= STATE_BYTES,
            "{}",
            serde_json::to_vec(&status).unwrap().len()
        );
        assert_eq!(status.finding_count, Some(500));
        let kept = status.findings.len();
        assert!((1..64).contains(&kept));
        let missing: Vec<&str> = status.left_out.iter().map(String::as_str).collect();
        assert!(missing.contains(&"436 findings"), "{missing:?}");
        assert!(
            missing.contains(
                &format!("{} findings, because the object would have more than 16 KiB", 64 - kept)
                    .as_str()
            ),
            "{missing:?}"
        );
    }
}
