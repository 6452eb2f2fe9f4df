// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: zmerge searches for a duplicate of every page that is written, and hardly finds any.
//!
//! Whether a merge pass on request would be worthwhile is not judged. That needs a sample of page
//! contents (`scan --device`), because no counter shows it.

use pagewise_model::{Finding, Interval, Severity, Subject, Zram};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::{count, write_command};

pub(super) const RULE: Rule = Rule {
    id: "zmerge-few-copies",
    doc: "A zmerge device searches for an identical page each time that a page is written to it, but rarely \
          finds one.",
    diagnose,
};

/// If fewer pages than this share, in percent, are duplicates, searching for them costs more than
/// it saves. zmerge's mode `adaptive` stops below 1.6 %.
const WORTH_PERCENT: f64 = 1.0;
/// Minimum number of searches before their hit rate is judged. Fewer pages (64 MiB with pages of 4
/// KiB) do not predict the rate of later pages.
const ENOUGH: u64 = 16_384;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    interval.end.zmerge.iter().filter_map(finding).collect()
}

fn finding(device: &Zram) -> Option<Finding> {
    let merging = device.merging.as_ref()?;
    let always = merging.mode.value().is_some_and(|mode| mode.active.as_str() == "inline");
    let looked_for = merging.count_searches().filter(|&pages| always && pages >= ENOUGH)?;
    let percent = merging.hit_percent?.get();
    if percent >= WORTH_PERCENT {
        return None;
    }
    let name = device.name();
    let (index, saved) = (merging.index_bytes.get()?, merging.merged_bytes.get()?);
    Some(Finding {
        id: RULE.id,
        about: Some(Subject::device(&name)),
        severity: Severity::Info,
        title: format!("{name} searches for copies of each page, but only {percent:.2} % have one"),
        what: format!(
            "Of {} pages written to {name}, only {} had an identical page that zmerge could merge them with. \
             The index for this search uses {index} of memory, and merging saves {saved}.",
            count(looked_for),
            count(merging.hits.get()?)
        ),
        why: "The search makes writing a page that has no copy about 4 % slower, and the index needs an entry \
              for each such page. As long as few pages have copies, zmerge in adaptive mode searches for \
              copies of only one page in eleven."
            .to_owned(),
        evidence: EvidenceList::new()
            .value(&merging.mode)
            .named("merge_hits", &merging.hits)
            .named("merge_misses", &merging.misses)
            .value(&merging.index_bytes)
            .value(&merging.merged_bytes)
            .into_evidence(),
        next: vec![
            write_command("adaptive", &format!("/sys/block/{name}/merge_mode")),
            format!("sudo pagewise scan --device /dev/{name} --duplicates"),
        ],
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::{assert_silent, file, only, with, zmerge};

    /// A host with a zmerge swap area in this merge mode that found `hits` duplicates among 100,000
    /// pages.
    fn interval_with(mode: &str, hits: u64) -> Interval {
        with(|host| {
            host.zram.clear();
            host.tiers[0].path = pagewise_model::Name::from("/dev/zmerge0");
            host.tiers[0].kind = pagewise_model::TierKind::Zmerge;
            host.zmerge = vec![zmerge(mode, hits, 100_000 - hits)];
        })
    }

    pub(crate) fn host_with_finding() -> Interval {
        interval_with("inline", 120)
    }

    #[test]
    fn looking_for_every_page_in_vain() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(
            finding.title,
            "zmerge0 searches for copies of each page, but only 0.12 % have one"
        );
        assert_eq!(
            finding.what,
            "Of 100,000 pages written to zmerge0, only 120 had an identical page that zmerge could merge them \
             with. The index for this search uses 2.0 MiB of memory, and merging saves 1.0 MiB."
        );
        let command =
            "echo adaptive | sudo tee /sys/block/zmerge0/merge_mode  # writes; until the next boot";
        assert_eq!(finding.next[0], command);
        assert_eq!(finding.evidence.len(), 5);
    }

    #[test]
    fn copies_enough_other_modes_and_few_pages_are_silent() {
        assert_silent(&RULE, &interval_with("inline", 1_000));
        for mode in ["off", "request", "adaptive"] {
            assert_silent(&RULE, &interval_with(mode, 0));
        }
        let mut few = host_with_finding();
        let merging = few.end.zmerge[0].merging.as_mut().unwrap();
        merging.misses = file("/sys/block/zmerge0/merge_misses", 16_000);
        assert_silent(&RULE, &few);
    }
}
