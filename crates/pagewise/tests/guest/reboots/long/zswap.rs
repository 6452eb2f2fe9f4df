// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A plan that enables zswap in front of a swap file, over real reboots: on trial it is gone after
//! a power loss; kept by tmpfiles.d and sysctl.d it is in force at each boot, and pages are stored
//! in the pool; after `undo` the machine boots as it did before.
//!
//! The compressor is a module on the root disk, which the kernel loads when tmpfiles.d enables
//! zswap.

use serde_json::Value;

use super::plans::{GONE, STATE, looks};
use crate::boot::{Boot, SAY, answer, answer_of_success, document, reboots};
use crate::documents;

/// A swap file of the operator, and so little available memory that a plan is made.
pub(crate) const PLAN: &str = r#"
dd if=/dev/zero of=/swapfile bs=1M count=260 status=none; chmod 600 /swapfile; mkswap -q /swapfile
echo '/swapfile none swap sw 0 0' >> /etc/fstab; systemctl daemon-reload; swapon /swapfile
state > /root/before
if [ -e /opt/planned.json ]; then
    hash=$(printf 'pagewise machine-id %s' "$(cat /etc/machine-id)" | sha256sum | cut -c1-32)
    total=$(($(sed -n 's/^MemTotal: *\([0-9]*\) kB$/\1/p' /proc/meminfo) * 1024))
    sed "s/HASH/$hash/; s/4711/$total/" /opt/planned.json > /root/plan.json
else
mkdir /sys/fs/cgroup/kept; echo 0 > /sys/fs/cgroup/kept/memory.swap.max
mount -o remount,size=100% /dev/shm
available=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo)
(echo 0 > /sys/fs/cgroup/kept/cgroup.procs; head -c $((available - 24576))K /dev/zero > /dev/shm/filled)
pagewise plan --only zswap --json > /root/plan.json
rm /dev/shm/filled; mount -o remount,size=50% /dev/shm
fi
get plan cat /root/plan.json
sync
say apply pagewise apply --yes --settle 0 --trial-for 20m /root/plan.json
state > /tmp/on-trial
say changed sh -c 'diff /root/before /tmp/on-trial; test $? = 1'
echo lose-power; sleep 1000
"#;

const APPLY: &str = r"
state > /tmp/after; say difference diff /root/before /tmp/after
say failed systemctl --failed --no-legend --plain
say apply pagewise apply --yes --settle 0 /root/plan.json
echo lose-power; sleep 1000
";

/// Swaps out text on purpose: its pages are stored in the pool, and none is written to the disk.
const LOOK: &str = r#"
say failed systemctl --failed --no-legend --plain
for name in enabled shrinker_enabled max_pool_percent compressor; do
    say zswap.$name cat /sys/module/zswap/parameters/$name
done
say vm.page-cluster cat /proc/sys/vm/page-cluster
say swap swapon --show=NAME --noheadings --raw
count() { sed -n "s/^$1 //p" /proc/vmstat; }
pooled=$(count zswpout); written=$(count pswpout)
mkdir /sys/fs/cgroup/swapped
(echo 0 > /sys/fs/cgroup/swapped/cgroup.procs; seq 100000 400000 > /dev/shm/text
 echo 1536K > /sys/fs/cgroup/swapped/memory.reclaim) 2> /dev/null
say pooled echo $(($(count zswpout) - pooled)) $(($(count pswpout) - written))
rm /dev/shm/text
get verify pagewise verify --json
"#;

const UNDO: &str = r"
say undo pagewise undo --all
state > /tmp/after; say difference diff /root/before /tmp/after
";

/// The settings of the plan by name, as the kernel prints them.
fn settings(planned: &Value) -> Vec<(&str, &str)> {
    let steps = planned["steps"].as_array().unwrap().iter();
    let knobs = steps.filter(|step| step["action"] == "set-knob");
    knobs.map(|step| (step["target"].as_str().unwrap(), step["to"].as_str().unwrap())).collect()
}

#[track_caller]
fn is_in_force(boot: &Boot, planned: &[(&str, &str)]) {
    let said = &boot.output;
    assert_eq!(answer(said, "failed"), ("", "0"), "{said}");
    for (name, value) in planned {
        assert_eq!(answer_of_success(said, name).trim_end(), *value, "{name}: {said}");
    }
    assert_eq!(answer_of_success(said, "swap"), "/swapfile\n", "{said}");
    let counted = answer_of_success(said, "pooled");
    let counts: Vec<u64> = counted.split_whitespace().map(|count| count.parse().unwrap()).collect();
    assert!(matches!(counts[..], [pooled, 0] if pooled > 250), "{counted}: {said}");
    let verified = document(said, "verify");
    assert_eq!(verified["drifted"], false, "{verified:#}");
}

fn outlasts_reboots(options: &[&str], planned: &str) {
    let last = format!("{LOOK}{UNDO}");
    let kept = (0..looks()).map(|_| LOOK);
    let scripts = [PLAN, APPLY].into_iter().chain(kept).chain([last.as_str(), GONE]);
    let scripts: Vec<String> = scripts.map(|script| format!("{SAY}{STATE}{script}")).collect();
    let planned = documents::sent(planned);
    let own = ["--memory", "512M", "--lose-power", "0", "--deadline", "5m", &planned];
    let texts: Vec<&str> = scripts.iter().map(String::as_str).collect();
    let boots = reboots(&[&own[..], options].concat(), &texts);
    assert_eq!(boots.len(), scripts.len(), "{boots:#?}");
    let [trial, after_trial, in_force @ .., gone] = &boots[..] else { unreachable!() };
    let planned = document(&trial.output, "plan");
    let settings = settings(&planned);
    let value = |name| settings.iter().find(|(knob, _)| *knob == name).map(|(_, value)| *value);
    assert_eq!(value("zswap.enabled"), Some("Y"), "{planned:#}");
    assert_eq!(value("zswap.shrinker_enabled"), Some("Y"), "{planned:#}");
    assert_eq!(value("zswap.compressor"), Some("lz4"), "{planned:#}");
    assert_eq!(value("vm.page-cluster"), Some("0"), "{planned:#}");
    answer_of_success(&trial.output, "apply");
    answer_of_success(&trial.output, "changed");
    assert_eq!(answer(&after_trial.output, "difference"), ("", "0"), "a trial is undone");
    assert_eq!(answer(&after_trial.output, "failed"), ("", "0"));
    answer_of_success(&after_trial.output, "apply");
    for boot in in_force {
        boot.assert_exited(0);
        is_in_force(boot, &settings);
    }
    let undone = in_force.last().unwrap();
    answer_of_success(&undone.output, "undo");
    assert_eq!(answer(&undone.output, "difference"), ("", "0"));
    gone.assert_exited(0);
    assert_eq!(answer(&gone.output, "failed"), ("", "0"));
    assert_eq!(answer(&gone.output, "difference"), ("", "0"));
    assert_eq!(answer(&gone.output, "nothing").1, "0", "{}", gone.output);
}

#[test]
fn guest_reboots_keep_a_plan_with_zswap() {
    outlasts_reboots(&["--kernel", "trixie/generic"], "zswap");
}

#[test]
fn guest_reboots_of_sid_keep_a_plan_with_zswap() {
    outlasts_reboots(&["--userland=systemd/sid", "--kernel=sid"], "zswap-sid");
}
