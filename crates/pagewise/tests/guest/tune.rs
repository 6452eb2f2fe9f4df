// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise tune` in guests: what a measure shows to help is kept, and what it shows no difference
//! for is taken back.
//!
//! In the group, the measure is a command whose numbers follow from the setting alone, so that the
//! judgement does not depend on how fast this machine is; and under a real load, only what must
//! follow from the judgement is checked. `cargo xtask tune` runs that load with the default times,
//! and checks the judgement, too: zram is kept where code in use does not fit into memory beside data
//! that is not.

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
judged() {
    pagewise tune --yes --no-bench --json $times "$@"; status=$?
    echo $status > /tmp/status; test $status = 0 -o $status = 3
}
get zram judged --only zram
say zram-status cat /tmp/status
say seconds echo $(($(cut -d. -f1 /proc/uptime) - begun))
say swaps cat /proc/swaps
cat /tmp/out >&2; kill $worker; wait $worker 2> /dev/null
say undo pagewise undo --all
sysctl -q vm.watermark_scale_factor=2000
seq 1000000 99999999 | head -c 20m > /d/data
(while :; do cat /d/data > /dev/null; sleep 0.01; done) &
reader=$!
sleep 5
get watermarks judged --only watermarks
say watermarks-status cat /tmp/status
say watermark cat /proc/sys/vm/watermark_scale_factor
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

/// Whatever the judgement, the machine is left as it says. With PAGEWISE_TUNE_WHOLE (`cargo xtask
/// tune`), the periods have their default length, and then the judgement must be the right one.
#[test]
fn guest_tune_leaves_the_machine_as_it_judged_a_real_load() {
    let is_whole = std::env::var_os("PAGEWISE_TUNE_WHOLE").is_some();
    let times = if is_whole { "" } else { "--watch 10s --settle 2s" };
    let options = ["--memory", "512M", "--disk", "512M", "--module", "zram", "--deadline", "20m"];
    let ran = script(&options, &format!("{SAY}times='{times}'\n{REAL}"));
    let said = format!("{} {}", ran.out, ran.err);
    let value = |name: &str| answer(&ran.out, name).0.trim().to_owned();
    let is_set = [value("swaps").contains("/dev/zram"), value("watermark") != "2000"];
    for (name, right, is_set) in
        [("zram", "better", is_set[0]), ("watermarks", "not-shown", is_set[1])]
    {
        let tuned = document(&ran.out, name);
        let judgement = &tuned["trial"]["judgement"];
        for measure in judgement["measures"].as_array().expect("measures") {
            let [what, before, after, difference, why] =
                ["name", "before", "after", "difference", "why"].map(|key| &measure[key]);
            println!("{name}: {what} {before} → {after} {difference} {why}");
        }
        let kept = tuned["kept"].as_bool().expect("whether it was kept");
        let is_better = judgement["difference"] == "better";
        assert!(is_better || !kept, "{name}: kept without being better: {said}");
        assert_eq!(kept, is_set, "{name}: {said}");
        assert_eq!(value(&format!("{name}-status")), if kept { "0" } else { "3" }, "{said}");
        if is_whole {
            assert_eq!(judgement["difference"], right, "{name}: {said}");
            assert_eq!(kept, is_better, "{name}: {said}");
        }
    }
    println!("{} s", value("seconds"));
}
