// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a user asks for on a calm machine (`plan --want`), over real reboots: it is in force at each
//! boot, `verify` is clean, and after `undo` the machine boots as it did before.
//!
//! Asked for are zram, and every setting of the knob table that a file can keep and this kernel has,
//! each with another value than it has.

use serde_json::Value;

use super::plans::{GONE, STATE};
use crate::boot::{Boot, SAY, answer, answer_of_success, document, reboots};

/// Settings whose present value may be any of a few: the first that it does not have is asked for.
/// Left out are those of which a change would stop this guest, and those that tests of their own
/// have.
const VALUES: &str = r#"
vm.swappiness 77 78
vm.page-cluster 1 2
vm.vfs_cache_pressure 80 81
vm.watermark_scale_factor 20 21
vm.watermark_boost_factor 14000 14001
vm.extfrag_threshold 450 451
vm.compaction_proactiveness 10 11
vm.dirty_ratio 15 16
vm.dirty_background_ratio 5 6
vm.dirty_expire_centisecs 2000 2001
vm.dirty_writeback_centisecs 400 401
vm.min_free_kbytes 4000 4100
vm.overcommit_ratio 60 61
thp.enabled madvise never
thp.defrag defer never
thp.use_zero_page 0 1
thp.shmem_enabled advise never
thp.khugepaged.defrag 0 1
thp.khugepaged.pages_to_scan 2048 2049
thp.khugepaged.scan_sleep_millisecs 20000 20001
thp.khugepaged.alloc_sleep_millisecs 50000 50001
thp.khugepaged.max_ptes_none 64 65
thp.khugepaged.max_ptes_swap 32 33
ksm.pages_to_scan 200 201
ksm.sleep_millisecs 50 51
mglru.min_ttl_ms 100 101
zswap.max_pool_percent 15 16
"#;

const PLAN: &str = r#"
state > /root/before
wants='--want zram=64M'
while read -r name one other; do
    test -n "$name" || continue
    now=$(pagewise plan --want "$name=$one" --json | sed -n 's/^ *"to": "\(.*\)",*$/\1/p' | head -n 1)
    if test -n "$now"; then wants="$wants --want $name=$one"; else wants="$wants --want $name=$other"; fi
done < /root/values
pagewise plan $wants -o /root/plan.json > /root/plan.txt || cat /root/plan.txt
get plan cat /root/plan.json
say apply pagewise apply --yes --settle 0 /root/plan.json
sync
"#;

const LOOK: &str = r#"
say failed systemctl --failed --no-legend --plain
say swap swapon --show=NAME,SIZE --bytes --noheadings --raw
get verify pagewise verify --json
"#;

const UNDO: &str = r"
say undo pagewise undo --all
state > /tmp/after; say difference diff /root/before /tmp/after
";

#[track_caller]
fn is_in_force(boot: &Boot) {
    boot.assert_exited(0);
    assert_eq!(answer(&boot.output, "failed"), ("", "0"), "{}", boot.output);
    let swap = answer_of_success(&boot.output, "swap");
    assert!(swap.starts_with("/dev/zram0 67"), "{swap}");
    let verified = document(&boot.output, "verify");
    assert_eq!(verified["drifted"], false, "{verified:#}");
}

fn lasts(options: &[&str]) {
    let values = format!("cat > /root/values <<'END'{VALUES}END\n");
    let first = format!("{values}{PLAN}");
    let last = format!("{LOOK}{UNDO}");
    let scripts = [first.as_str(), LOOK, &last, GONE];
    let scripts: Vec<String> =
        scripts.iter().map(|script| format!("{SAY}{STATE}{script}")).collect();
    let texts: Vec<&str> = scripts.iter().map(String::as_str).collect();
    let own = ["--memory", "512M", "--deadline", "5m"];
    let boots = reboots(&[&own[..], options].concat(), &texts);
    assert_eq!(boots.len(), texts.len(), "{boots:#?}");
    let [planned, once, twice, gone] = &boots[..] else { unreachable!() };
    let plan: Value = document(&planned.output, "plan");
    let steps = plan["steps"].as_array().unwrap();
    let set: Vec<&str> = steps
        .iter()
        .filter(|step| step["action"] == "set-knob")
        .map(|step| step["target"].as_str().unwrap())
        .collect();
    let asked = VALUES.lines().filter(|line| !line.is_empty()).count();
    // a kernel may lack some
    assert!(set.len() + 6 > asked && set.len() > 18, "{} of {asked}: {set:?}", set.len());
    assert!(steps.iter().all(|step| step["survives_reboot"] == true), "{plan:#}");
    answer_of_success(&planned.output, "apply");
    is_in_force(once);
    is_in_force(twice);
    answer_of_success(&twice.output, "undo");
    assert_eq!(answer(&twice.output, "difference"), ("", "0"));
    gone.assert_exited(0);
    assert_eq!(answer(&gone.output, "failed"), ("", "0"));
    assert_eq!(answer(&gone.output, "difference"), ("", "0"));
}

#[test]
fn guest_reboots_keep_what_is_asked_for() {
    lasts(&["--kernel", "trixie/generic"]);
}

#[test]
fn guest_reboots_of_bookworm_keep_what_is_asked_for() {
    lasts(&["--userland=systemd/bookworm", "--kernel=bookworm"]);
}

#[test]
fn guest_reboots_of_sid_keep_what_is_asked_for() {
    lasts(&["--userland=systemd/sid", "--kernel=sid"]);
}
