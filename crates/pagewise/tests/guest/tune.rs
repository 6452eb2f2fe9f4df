// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise tune` with its default times in a guest, for a setting that costs a fifth of memory: kept
//! while programs read their data back from swap because of it, and taken back if nothing is short.

use serde_json::Value;

use crate::boot::{SAY, answer, document, script};

/// A program reads its data again and again: all of it, or a part that fits in any case.
const SESSION: &str = r#"
mkdir -p /var/lib /etc
echo 0123456789abcdef0123456789abcdef > /etc/machine-id
mount -o remount,size=90% /dev/shm
echo lz4 > /sys/block/zram0/comp_algorithm
echo 400M > /sys/block/zram0/disksize
mkswap /dev/zram0 > /dev/null; swapon /dev/zram0
read_again() {
    (while :; do cat /dev/shm/data > /dev/null; sleep 0.01; done) &
    reader=$!
    sleep 5
    sysctl -q vm.watermark_scale_factor=2000
    sleep 5
}
end() { kill $reader; wait $reader 2> /dev/null; rm /dev/shm/data; sysctl -q vm.watermark_scale_factor=10; }
short=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo) / 1024 - 40))
seq 1000000 99999999 | head -c ${short}m > /dev/shm/data
read_again
begun=$(cut -d. -f1 /proc/uptime)
get helps pagewise tune --yes --no-bench --only watermarks --json
say seconds echo $(($(cut -d. -f1 /proc/uptime) - begun))
say kept cat /proc/sys/vm/watermark_scale_factor
say undo pagewise undo --all
end
seq 1000000 99999999 | head -c 20m > /dev/shm/data
read_again
get same pagewise tune --yes --no-bench --only watermarks --json
say taken-back cat /proc/sys/vm/watermark_scale_factor
end
"#;

#[test]
fn guest_tune_keeps_what_helps_and_takes_back_what_makes_no_difference() {
    let options = ["--memory", "512M", "--module", "zram", "--deadline", "20m"];
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
    assert_ne!(answer(&ran.out, "kept").0.trim(), "2000");
    assert_eq!(judgement(&same)["difference"], "not-shown", "{said}");
    assert_eq!(same["kept"], false, "{said}");
    assert_eq!(answer(&ran.out, "taken-back").0.trim(), "2000");
}
