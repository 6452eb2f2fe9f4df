// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `hugepages`: fills memory for the first time, and measures the time of each first touch, how
//! much of the memory gets huge pages and when, and how large the memory becomes.
//!
//! With `advise=before`, page faults allocate huge pages, and `thp.defrag` determines how much
//! effort they make. With `advise=after`, the memory already has small pages, and only khugepaged
//! can collapse them. A second region, the neighbour, is never advised: with the policy `madvise`
//! it must get no huge pages.
//!
//! `fragment` allocates memory first and frees every second page of it, so that free memory
//! consists of single pages. The kernel can migrate the pages in between, at a cost, which is to be
//! measured. This affects free memory as a whole, so it is useful in a guest, which has little.

mod filled;
mod khugepaged;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use filled::Filled;
use pagewise_mappings::{Advice, Region};
use pagewise_procmem::coverage;

use super::error::{Error, ErrorContext};
use super::progress::{Progress, share};
use super::{Advise, HugePages, WorkloadSummary, check};

/// Size of a huge page in bytes; if the kernel's differs, statistics of the nearest size are used.
const BLOCK: usize = 2 << 20;
/// Interval for checking how much of the memory is in huge pages.
const LOOK: Duration = Duration::from_millis(250);
/// Share of the memory in huge pages at which the workload stops waiting.
const ENOUGH: f64 = 0.9;

/// Runs the workload.
pub(super) fn run(
    settings: &HugePages,
    progress: &mut Progress<'_>,
) -> Result<WorkloadSummary, Error> {
    check::check_hugepages(settings)?;
    let _holes = fragment_memory(check::page_count("fragment", settings.fragment)?, progress)?;
    let mut neighbour =
        map_memory(check::page_count("neighbour", settings.neighbour)?, Advise::Never)?;
    neighbour.fill(1, &mut |_| ());
    let before = khugepaged::processor_time();
    let mut data = map_memory(check::page_count("data", settings.data)?, settings.advise)?;
    let touch_each = usize::try_from(settings.touch_each).unwrap_or(1);
    data.fill(touch_each, &mut |share| progress("filling", share));
    if settings.advise == Advise::After {
        data.region.advise(Advice::Huge).about(|| "MADV_HUGEPAGE".to_owned())?;
    }
    let mut seen = HugeProgress::begin(&data)?;
    seen.wait(settings, &data, progress)?;
    let mut values = data.values();
    values.extend(seen.values());
    if neighbour.pages > 0 {
        values.insert("neighbour-huge".to_owned(), neighbour.huge_bytes()?.1);
    }
    let used = khugepaged::processor_time().zip(before).map(|(now, then)| now - then);
    values.extend(used.map(|seconds| ("khugepaged-cpu".to_owned(), seconds.max(0.0))));
    Ok(WorkloadSummary { workload: "hugepages".to_owned(), values, course: data.course() })
}

fn map_memory(pages: usize, advise: Advise) -> Result<Filled, Error> {
    let filled = Filled::new(pages).about(|| "memory".to_owned())?;
    if advise == Advise::Before {
        filled.region.advise(Advice::Huge).about(|| "MADV_HUGEPAGE".to_owned())?;
    }
    Ok(filled)
}

/// Allocates small pages and frees every second one of them.
fn fragment_memory(pages: usize, progress: &mut Progress<'_>) -> Result<Option<Region>, Error> {
    if pages == 0 {
        return Ok(None);
    }
    let mut region = Region::map_memory(pages, false).about(|| "memory".to_owned())?;
    region.advise(Advice::Small).about(|| "MADV_NOHUGEPAGE".to_owned())?;
    for page in 0..pages {
        region.write_first(page);
        if page % 4096 == 0 {
            progress("fragmenting", share(page, pages));
        }
    }
    (0..pages)
        .step_by(2)
        .try_for_each(|page| region.drop_page(page))
        .about(|| "MADV_DONTNEED".to_owned())?;
    Ok(Some(region))
}

/// How much of the memory is in huge pages, and since when.
struct HugeProgress {
    began: Instant,
    covered: f64,
    /// Size of the memory that is in RAM, in bytes.
    held: f64,
    since: Option<f64>,
}

impl HugeProgress {
    fn begin(data: &Filled) -> Result<Self, Error> {
        let mut seen = Self { began: Instant::now(), covered: 0.0, held: 0.0, since: None };
        seen.sample(data)?;
        Ok(seen)
    }

    fn sample(&mut self, data: &Filled) -> Result<(), Error> {
        let (held, huge) = data.huge_bytes()?;
        (self.held, self.covered) = (held, huge / data.length());
        if self.covered >= ENOUGH && self.since.is_none() {
            self.since = Some(self.began.elapsed().as_secs_f64());
        }
        Ok(())
    }

    /// Waits until nearly all of the memory is in huge pages, or the time is over.
    fn wait(
        &mut self,
        settings: &HugePages,
        data: &Filled,
        progress: &mut Progress<'_>,
    ) -> Result<(), Error> {
        let time = Duration::from_secs_f64(settings.seconds);
        while self.since.is_none() && self.began.elapsed() < time {
            progress("waiting", self.began.elapsed().as_secs_f64() / settings.seconds);
            std::thread::sleep(LOOK.min(time.saturating_sub(self.began.elapsed())));
            self.sample(data)?;
        }
        Ok(())
    }

    fn values(&self) -> BTreeMap<String, f64> {
        let mut values = BTreeMap::new();
        let mut say = |name: &str, value: f64| values.insert(name.to_owned(), value);
        say("coverage", self.covered);
        say("held", self.held);
        if let Some(seconds) = self.since {
            say("time-to-coverage", seconds);
        }
        values
    }
}

impl Filled {
    /// How many bytes of the memory are in RAM, and how many in huge pages.
    fn huge_bytes(&self) -> Result<(f64, f64), Error> {
        let kept = |error: coverage::LookError| Error::Ended(error.to_string());
        let (own, block) = (std::process::id(), BLOCK as u64);
        let memory = coverage::Memory::open(own, block).map_err(kept)?;
        let (blocks, _) = memory.blocks().map_err(kept)?;
        let blocks = || blocks.iter().filter(|block| self.has(block.address));
        let size =
            |block: &coverage::Block| u64::from(block.present) * rustix::param::page_size() as u64;
        let held = blocks().map(size).sum::<u64>() as f64;
        if memory.can_scan() {
            let huge: u64 = blocks().filter(|block| block.huge).map(size).sum();
            return Ok((held, huge as f64));
        }
        // this kernel reports huge pages per mapping only, and the mapping may contain more than
        // this region
        let found = coverage::survey_process(own, block, false).map_err(kept)?;
        let around = found.largest.iter().filter(|mapping| {
            (mapping.start..mapping.start + mapping.size.get()).contains(&self.start())
        });
        let huge: u64 = around.map(|mapping| mapping.coverage.anon_huge.get()).sum();
        Ok((held, (huge as f64).min(self.length())))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Size;
    use super::*;

    fn small() -> HugePages {
        let data = Size::mib(8);
        HugePages { data, neighbour: Size::mib(4), seconds: 0.3, ..HugePages::default() }
    }

    #[test]
    fn what_is_filled_is_there_and_no_more_is_said_than_is_known() {
        let settings = HugePages { advise: Advise::Never, fragment: Size::mib(1), ..small() };
        let summary = run(&settings, &mut |_, _| {}).unwrap();
        let values = &summary.values;
        assert!(values["held"] >= f64::from(8 << 20) && values["start-up"] > 0.0, "{values:?}");
        assert!((0.0..=1.0).contains(&values["coverage"]), "{values:?}");
        assert_eq!(values.contains_key("time-to-coverage"), values["coverage"] >= ENOUGH);
        let touches: u64 = summary.course.latency_ns.iter().map(|(_, count)| count).sum();
        assert_eq!(touches, (8 << 20) / rustix::param::page_size() as u64);
        assert!(values["p50"] <= values["p99"] && values["p99"] <= values["p99.9"]);
    }

    #[test]
    fn sparse_memory_is_as_large_as_what_was_written() {
        let settings = HugePages { advise: Advise::Never, touch_each: 8, ..small() };
        let values = run(&settings, &mut |_, _| {}).unwrap().values;
        // with the policy `always`, page faults use huge pages for all of it
        let policy = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
        if !policy.is_ok_and(|policy| policy.contains("[always]")) {
            let found = (values["held"], values["neighbour-huge"]);
            assert_eq!(found, (f64::from(1 << 20), 0.0), "{values:?}");
            assert!(values["coverage"].is_sign_positive(), "shown as -0.0 %: {values:?}");
        }
    }
}
