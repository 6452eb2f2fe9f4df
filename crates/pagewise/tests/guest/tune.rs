// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise tune` in guests: what a measure shows to help is kept, and what it shows no difference
//! for is taken back.
//!
//! In the group, the measure is a command whose numbers follow from the setting alone, so that the
//! judgement does not depend on how fast this machine is. `cargo xtask tune` runs a real load with
//! the default times and the default measures: zram is kept where code in use does not fit into
//! memory beside data that is not.

use serde_json::Value;

use crate::boot::{SAY, answer, document, script};

/// First, code in use and data of which a small part is used, together more than memory: without swap
/// the code does not fit, with zram it does. Multi-gen LRU is off: with it, this kernel swaps nothing
/// out under such a load and reclaims pages of files alone, so zram makes no difference. Then a small
/// file, and a setting that has no effect on it.
const REAL: &str = r#"
mkdir -p /var/lib /etc /d
echo 0123456789abcdef0123456789abcdef > /etc/machine-id
mke2fs -q /dev/vda > /dev/null && mount /dev/vda /d
echo n > /sys/kernel/mm/lru_gen/enabled
available=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo) / 1024))
TMPDIR=/d pagewise lab workload swap data=$((available * 7 / 10))M code=$((available * 5 / 10))M window=4M step=4K \
    seconds=900 iterations=1000000 > /tmp/out 2>&1 &
worker=$!
sleep 30
begun=$(cut -d. -f1 /proc/uptime)
get helps pagewise tune --yes --no-bench --only zram --json
say seconds echo $(($(cut -d. -f1 /proc/uptime) - begun))
say kept cat /proc/swaps
cat /tmp/out >&2; kill $worker; wait $worker 2> /dev/null
say undo pagewise undo --all
sysctl -q vm.watermark_scale_factor=2000
seq 1000000 99999999 | head -c 20m > /d/data
(while :; do cat /d/data > /dev/null; sleep 0.01; done) &
reader=$!
sleep 5
taken_back() { pagewise tune --yes --no-bench --only watermarks --json; test $? = 3; }
get same taken_back
say taken-back cat /proc/sys/vm/watermark_scale_factor
kill $reader
"#;

/// A setting that is far from its default, and a reader of a small file on a disk.
const MEASURED: &str = r#"
mkdir -p /var/lib /etc
echo 0123456789abcdef0123456789abcdef > /etc/machine-id
setting=/proc/sys/vm/watermark_scale_factor
tuned="pagewise tune --yes --no-bench --watch 10s --settle 2s --only watermarks --json"
echo 2000 > $setting
taken_back() { $tuned "$@"; test $? = 3; }
get same taken_back --measure 'echo 50'
say taken-back cat $setting
get worse taken_back --keep --lower-is-better --measure "awk '{ print 2100 - \$1 }' $setting"
say harm cat $setting
get helps $tuned --lower-is-better --measure "cat $setting"
say kept cat $setting
say undo pagewise undo --all
say undone cat $setting
"#;

#[test]
fn guest_tune_keeps_what_a_measure_shows_to_help_and_takes_back_the_rest() {
    let ran = script(&["--memory", "384M", "--deadline", "10m"], &format!("{SAY}{MEASURED}"));
    let said = format!("{} {}", ran.out, ran.err);
    for (name, difference, kept) in
        [("same", "not-shown", false), ("worse", "worse", false), ("helps", "better", true)]
    {
        let tuned = document(&ran.out, name);
        assert_eq!(tuned["trial"]["judgement"]["difference"], difference, "{name}: {said}");
        assert_eq!(tuned["kept"], kept, "{name}: {said}");
    }
    for name in ["taken-back", "harm", "undone"] {
        assert_eq!(answer(&ran.out, name).0.trim(), "2000", "{name}: {said}");
    }
    let kept = answer(&ran.out, "kept").0;
    assert!(kept.trim().parse::<u32>().is_ok_and(|kept| kept < 2000), "{said}");
}

#[test]
#[ignore = "run by cargo xtask tune"]
fn guest_tune_keeps_what_helps_and_takes_back_what_makes_no_difference() {
    let options = ["--memory", "512M", "--disk", "512M", "--module", "zram", "--deadline", "20m"];
    let ran = script(&options, &format!("{SAY}{REAL}"));
    let said = format!("{} {}", ran.out, ran.err);
    let [helps, same] = ["helps", "same"].map(|name| document(&ran.out, name));
    let judgement = |tuned: &Value| tuned["trial"]["judgement"].clone();
    for (name, tuned) in [("helps", &helps), ("same", &same)] {
        for measure in judgement(tuned)["measures"].as_array().expect("measures") {
            println!(
                "{name}: {} {} → {} {} {}",
                measure["name"],
                measure["before"],
                measure["after"],
                measure["difference"],
                measure["why"]
            );
        }
    }
    println!("{} s", answer(&ran.out, "seconds").0);
    assert_eq!(judgement(&helps)["difference"], "better", "{said}");
    assert_eq!(helps["kept"], true, "{said}");
    assert!(answer(&ran.out, "kept").0.contains("/dev/zram"), "{said}");
    assert_eq!(judgement(&same)["difference"], "not-shown", "{said}");
    assert_eq!(same["kept"], false, "{said}");
    assert_eq!(answer(&ran.out, "taken-back").0.trim(), "2000");
}
