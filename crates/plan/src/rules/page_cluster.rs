// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: sets `vm.page-cluster` so that nothing is read ahead from zram, unless `bench` measured
//! that readahead saves time.

use pagewise_model::Bytes;
use pagewise_model::plan::Goal;

use super::PlanRule;
use crate::context::Context;
use crate::draft::{Draft, SettingRequest};
use crate::measured::ClusterChoice;

pub(super) const RULE: PlanRule = PlanRule {
    id: "page-cluster",
    findings: &[],
    doc: "Sets how many pages a swap-in reads ahead (vm.page-cluster).",
    add,
};

const KNOB: &str = "vm.page-cluster";
/// The maximum of `vm.page-cluster` that the kernel accepts.
const LARGEST: u32 = 31;
/// Readahead saves time if at least this percentage of the pages that it reads are used.
const PAYS_PERCENT: f64 = 50.0;

fn add(context: &Context<'_>, draft: &mut Draft) {
    let mut in_ram = context.tiers_in_ram();
    let is_used = in_ram.any(|tier| tier.used.get().is_some_and(|used| used > Bytes::new(0)));
    if !is_used && draft.first_zram.is_none() {
        return;
    }
    if let Some(choice) = measured_choice(context, draft) {
        return add_measured(context, draft, choice);
    }
    let what = format!("{KNOB} = 0");
    if let Some(disk) = context.tiers_on_disk().next() {
        let why = format!(
            "the setting applies to every swap area, and {} is on a disk, where reading ahead saves seeks",
            disk.path
        );
        return draft.decline(what, why);
    }
    match reason(context, draft.first_zram.is_some()) {
        Ok(reason) => {
            let risk = "on kernels up to 6.12, programs that read shared memory sequentially get more page \
                        faults"
                .to_owned();
            let to = "0".to_owned();
            let request = SettingRequest {
                id: "page-cluster".into(),
                knob: KNOB.into(),
                to,
                reason,
                finding: None,
                expected: None,
                risk,
            };
            draft.set(context, request);
        }
        Err(why) => draft.decline(what, why),
    }
}

/// Returns the reason against readahead from zram, based on the kernel's counters on this host. As
/// an error, returns why the counters do not show such a reason.
fn reason(context: &Context<'_>, adds_first_zram: bool) -> Result<String, String> {
    let counted = |name: &str| context.host.vmstat.get(name).get();
    let private = "the kernel never reads private memory ahead from zram";
    let reads_none = counted("swap_ra") == Some(0) && !adds_first_zram;
    if context.goal == Goal::Latency && !reads_none {
        let reason = "With 0, a page fault decompresses only the page that the program waits for, which \
                      serves the goal latency. For private memory nothing changes, because the kernel never \
                      reads it ahead from zram.";
        return Ok(reason.to_owned());
    }
    let Some((ahead, hits)) =
        counted("swap_ra").zip(counted("swap_ra_hit")).filter(|(ahead, _)| *ahead > 0)
    else {
        return Err(format!(
            "{private}, and no other page was read ahead from swap since boot (swap_ra is 0 or not counted)"
        ));
    };
    let percent = hits as f64 * 100.0 / ahead as f64;
    let numbers = format!(
        "of {} pages that were read ahead since boot, {percent:.0} % were used (swap_ra, swap_ra_hit)",
        pagewise_model::group_digits(ahead)
    );
    if percent < PAYS_PERCENT {
        return Ok(format!(
            "All swap is in RAM, where reading ahead saves no seek, and {numbers}."
        ));
    }
    Err(format!("reading ahead pays here: {numbers}"))
}

/// Returns what `bench` measured about readahead with the algorithm in use.
fn measured_choice<'a>(context: &Context<'a>, draft: &Draft) -> Option<&'a ClusterChoice> {
    context.measured.page_cluster(draft.algorithm(context)?.as_str())
}

fn add_measured(context: &Context<'_>, draft: &mut Draft, choice: &ClusterChoice) {
    let algorithm = &choice.compressor.algorithm;
    let Some(implied) = choice.implied.filter(|&implied| implied <= LARGEST) else {
        let why =
            format!("`pagewise bench` measured no difference between the values ({algorithm})");
        return draft.decline(format!("another value of {KNOB}"), why);
    };
    let reason = format!(
        "In `pagewise bench`, {} memory took the least time per page with {implied} ({algorithm}, {} \
         rounds).",
        choice.memory.join(" and "),
        choice.rounds
    );
    let request = SettingRequest {
        id: "page-cluster".into(),
        knob: KNOB.into(),
        to: implied.to_string(),
        reason,
        finding: None,
        expected: None,
        risk: "the measured memory may differ from what programs use at other times".to_owned(),
    };
    draft.set(context, request);
}
