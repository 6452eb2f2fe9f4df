// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `vm.page-cluster`: no reading ahead from zram, unless `bench` measured that it pays.

use pagewise_decide::FAST;
use pagewise_model::plan::Goal;
use pagewise_model::Bytes;

use super::PlanRule;
use crate::context::Context;
use crate::draft::{Draft, Wish};
use crate::measured::ClusterChoice;

pub(super) const RULE: PlanRule = PlanRule {
    id: "page-cluster",
    findings: &[],
    doc: "Sets how many pages a swap-in reads ahead (vm.page-cluster).",
    add,
};

const KNOB: &str = "vm.page-cluster";

fn add(context: &Context<'_>, draft: &mut Draft) {
    let mut in_ram = context.tiers_in_ram();
    let is_used = in_ram.any(|tier| tier.used.get().is_some_and(|used| used > Bytes::new(0)));
    if !is_used && !draft.adds_first_zram {
        return;
    }
    if let Some(choice) = measured(context) {
        return by_measured(context, draft, choice);
    }
    let what = format!("{KNOB} = 0");
    if let Some(disk) = context.tiers_on_disk().next() {
        let why = format!(
            "the setting is one for all swap areas, and {} is on a disk, where reading ahead saves seeks",
            disk.path
        );
        return draft.decline(what, why);
    }
    if context.goal == Goal::Throughput {
        let why = "the goal is throughput: up to 6.12, one fault on shared memory that is read in order brings in 8 \
                   pages with 3 and 1 page with 0";
        return draft.decline(what, why);
    }
    let reason = "All swap is in RAM, where reading ahead saves no seek: it decompresses pages that nobody may ask \
                  for. No effect was measured on private memory, for which the kernel reads nothing ahead from zram.";
    let risk = "shared memory that is read in order takes more faults (kernels up to 6.12)";
    let wish = Wish {
        id: "page-cluster",
        knob: KNOB,
        to: "0".to_owned(),
        reason: reason.to_owned(),
        finding: None,
        expected: None,
        risk: risk.to_owned(),
    };
    draft.set(context, wish);
}

/// What `bench` measured with the algorithm in use.
fn measured<'a>(context: &Context<'a>) -> Option<&'a ClusterChoice> {
    let device = context.tiers_in_ram().find_map(|tier| context.device(tier));
    let algorithm = device.and_then(|device| device.algorithm.value());
    context.measured.page_cluster(algorithm.map_or(FAST, |it| it.active.as_str()))
}

fn by_measured(context: &Context<'_>, draft: &mut Draft, choice: &ClusterChoice) {
    let algorithm = &choice.compressor.algorithm;
    let Some(implied) = choice.implied else {
        let why = format!("`pagewise bench` measured no difference between its values ({algorithm})");
        return draft.decline(format!("another {KNOB}"), why);
    };
    let reason = format!(
        "`pagewise bench` measured the least time per page with {implied} for {} memory ({algorithm}, {} rounds).",
        choice.memory.join(" and "),
        choice.rounds
    );
    let wish = Wish {
        id: "page-cluster",
        knob: KNOB,
        to: implied.to_string(),
        reason,
        finding: None,
        expected: None,
        risk: "the measured memory may differ from what programs use at other times".to_owned(),
    };
    draft.set(context, wish);
}
