// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise tune` with its default times in a guest: zram is kept where code in use does not fit
//! into memory beside data that is not, and a setting without effect is taken back.

use serde_json::Value;

use crate::boot::{SAY, answer, document, script};

/// First, code in use and data of which a small part is used, together more than memory: without swap
/// the code does not fit, with zram it does. Multi-gen LRU is off: with it, this kernel swaps nothing
/// out under such a load and reclaims pages of files alone, so zram makes no difference. Then a small
/// file, and a setting that has no effect on it.
const SESSION: &str = r#"
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
get same pagewise tune --yes --no-bench --only watermarks --json
say taken-back cat /proc/sys/vm/watermark_scale_factor
kill $reader
"#;

#[test]
fn guest_tune_keeps_what_helps_and_takes_back_what_makes_no_difference() {
    let options = ["--memory", "512M", "--disk", "512M", "--module", "zram", "--deadline", "20m"];
    let ran = script(&options, &format!("{SAY}{SESSION}"));
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
