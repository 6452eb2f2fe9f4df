// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detects counters that have different meanings in arms with and without zswap.
//!
//! The kernel counts a page that is read from zram as swapped in, but not a page that is read from
//! zswap's pool. A decrease from 26,244 pages to none is therefore no improvement if all of them
//! came from the pool. A page that zswap writes back is first read into the swap cache
//! (`__read_swap_cache_async`), which the kernel counts as a refault, and is reclaimed from there.

use pagewise_model::{TrialArm, TrialSwap};

use crate::name::{
    REFAULTS, REFAULTS_ANON, STOLEN, SWAPPED_IN, SWAPPED_OUT, WRITTEN_BACK, ZSWAP_IN, ZSWAP_OUT,
};

/// Names of metrics that can be compared instead of swapped pages, for an error message.
pub(crate) const INSTEAD: &str = "swap-ins, disk-swap-reads or major-faults";

const OF_DEVICES: [&str; 5] = [SWAPPED_IN, SWAPPED_OUT, ZSWAP_IN, ZSWAP_OUT, WRITTEN_BACK];
const WITH_WRITEBACK: [&str; 3] = [REFAULTS, REFAULTS_ANON, STOLEN];
const SWITCH: &str = "zswap.enabled";

/// Returns why this metric cannot be compared between the two arms; `None` if it can.
pub(crate) fn explain_not_comparable(
    metric: &str,
    a: &TrialArm,
    b: &TrialArm,
) -> Option<&'static str> {
    if has_zswap(a) == has_zswap(b) {
        None
    } else if OF_DEVICES.contains(&metric) {
        Some("with zswap, the kernel counts pages of disks only, and without it those of zram, too")
    } else if WITH_WRITEBACK.contains(&metric) {
        Some("with zswap, it also counts pages that zswap writes back from its pool")
    } else {
        None
    }
}

fn has_zswap(arm: &TrialArm) -> bool {
    let by_setting = arm.settings.iter().rev().find(|set| set.knob == SWITCH);
    let is_on = by_setting.is_some_and(|set| ["1", "y", "Y", "true"].contains(&set.value.as_str()));
    is_on || matches!(arm.swap.as_deref(), Some([TrialSwap::Zswap(_), ..]))
}

#[cfg(test)]
mod tests {
    use pagewise_model::TrialSetting;
    use pagewise_model::lend::ZswapSpec;

    use super::*;

    #[test]
    fn counters_of_devices_compare_arms_of_the_same_kind_only() {
        let file = || TrialSwap::File { size_bytes: 1 << 20, priority: None };
        let with = |swap| TrialArm { swap: Some(swap), ..TrialArm::default() };
        let zswap = with(vec![TrialSwap::Zswap(ZswapSpec::new("lz4")), file()]);
        let plain = with(vec![file()]);
        assert!(explain_not_comparable(SWAPPED_IN, &plain, &zswap).is_some());
        assert!(explain_not_comparable(ZSWAP_OUT, &zswap, &plain).is_some());
        assert_eq!(explain_not_comparable("swap-ins", &plain, &zswap), None);
        assert!(explain_not_comparable(REFAULTS, &plain, &zswap).unwrap().contains("writes back"));
        assert_eq!(explain_not_comparable(SWAPPED_IN, &zswap, &zswap), None);
        let setting =
            |value: &str| TrialSetting { knob: SWITCH.to_owned(), value: value.to_owned() };
        let typed = TrialArm { settings: vec![setting("Y")], ..plain.clone() };
        assert!(explain_not_comparable(SWAPPED_OUT, &typed, &plain).is_some());
        let off = TrialArm { settings: vec![setting("0")], ..plain.clone() };
        assert_eq!(explain_not_comparable(SWAPPED_OUT, &off, &plain), None);
    }
}
