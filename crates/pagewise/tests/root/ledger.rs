// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Predicted gains of plans that are applied on this machine: measured by `verify`, and stored in
//! the ledger.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::applied::{Holder, Site, json_of, step, used};
use crate::machine::{read, said};

const SCALE: &str = "/proc/sys/vm/watermark_scale_factor";
const MIB: u64 = 1 << 20;

fn with_prediction(mut step: Value, metric: &str, value: f64, interval: [f64; 2]) -> Value {
    step["expected"] = json!({
        "metric": metric, "value": value, "interval": interval, "before": null, "source": "a test",
    });
    step
}

/// 64 MiB of pages whose first half is random and whose second half is zero.
fn half_random() -> Vec<u8> {
    let mut bytes = vec![0; 64 << 20];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for page in bytes.chunks_exact_mut(4096) {
        for word in page[..2048].chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
    }
    bytes
}

/// The sum of the high watermarks with this scale factor in bytes, computed from the zones' managed
/// pages.
fn high_watermarks(scale: u64) -> f64 {
    let zoneinfo = read("/proc/zoneinfo");
    let reserve = read("/proc/sys/vm/min_free_kbytes").parse::<u64>().unwrap() / 4;
    let number = |line: &str, name: &str| {
        let rest = line.trim().strip_prefix(name)?;
        rest.starts_with(' ').then(|| rest.trim().parse::<u64>().unwrap())
    };
    let zones: Vec<&str> = zoneinfo.split("Node ").skip(1).collect();
    let value = |zone: &str, name: &str| zone.lines().find_map(|line| number(line, name)).unwrap();
    let all: u64 = zones.iter().map(|zone| value(zone, "managed")).sum();
    let mut sum = 0;
    for zone in zones {
        let managed = value(zone, "managed");
        let (min, high) = (reserve * managed / all, value(zone, "high"));
        let gap = (min / 4).max(managed * scale / 10_000);
        sum += if managed == 0 { high } else { min + 2 * gap };
    }
    (sum * 4096) as f64
}

struct Ledger<'a>(&'a Site);

impl Ledger<'_> {
    #[track_caller]
    fn read(&self) -> Value {
        let ended = self.0.output(&["ledger", "--json"]);
        assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
        json_of(&ended)
    }

    #[track_caller]
    fn entries(&self) -> usize {
        self.read()["entries"].as_array().unwrap().len()
    }

    #[track_caller]
    fn verify(&self) -> Value {
        let ended = self.0.output(&["verify", "--json"]);
        assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
        json_of(&ended)["plans"][0].clone()
    }
}

#[test]
fn predicted_gains_are_measured_and_kept_in_the_ledger() {
    let mut site = Site::new();
    let scale: u64 = read(SCALE).parse().unwrap();
    site.place.loans.promise(&format!("echo {scale} > {SCALE}"));
    let zram = json!({
        "compressor": {"algorithm": "lzo-rle"}, "disksize_bytes": 128 * MIB, "mem_limit_bytes": null,
        "priority": 50,
    });
    let zram = step("zram", json!({"action": "add-zram-swap", "target": null, "to": zram}));
    let knob = |target: &str, from: &str, to: &str| json!({"action": "set-knob", "target": target, "from": from, "to": to});
    let (from, to) = (scale.to_string(), (scale + 1).to_string());
    let watermarks = step("scale", knob("vm.watermark_scale_factor", &from, &to));
    let present = read("/proc/sys/vm/extfrag_threshold");
    let other = step("other", knob("vm.extfrag_threshold", &present, "511"));
    let high = high_watermarks(scale + 1);
    let metric = "zone_high_watermark_bytes";
    site.apply_well(&[
        // half of each page is stored, and slightly more
        with_prediction(zram, "zram_original_per_memory_used", 1.9, [1.7, 2.0]),
        with_prediction(watermarks, metric, high, [high, high]),
        with_prediction(other, metric, 1.0, [1.0, 1.0]),
    ]);
    let ledger = Ledger(&site);
    assert_eq!(ledger.entries(), 0);

    let plan = ledger.verify();
    let gains = &plan["gains"];
    assert_eq!(gains[0]["state"], "not-measured");
    let why = gains[0]["why"].as_str().unwrap();
    assert!(why.ends_with("only if it stores 16.0 MiB or more"), "{why}");
    assert_eq!((&gains[1]["measured"], &gains[1]["hit"]), (&json!(high), &json!(true)));
    assert_eq!((&gains[2]["measured"], &gains[2]["hit"]), (&json!(high), &json!(false)));
    assert_eq!(ledger.entries(), 2, "the ratio was not measurable");

    let device = plan["steps"][0]["area"].as_str().unwrap().to_owned();
    let holder = Holder::holding(&site, &half_random());
    let since = std::time::Instant::now();
    while used(&device) < 32 * MIB {
        assert!(since.elapsed().as_secs() < 60, "swapped out: {}", used(&device));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let shown = site.output(&["verify"]);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert_eq!(shown.status.code(), Some(0), "a miss is no drift: {text}");
    for part in
        ["zram compression", "1.90 (1.70 to 2.00)", "hit", "miss", "3 measurements were added"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let not_added = site.output(&["verify", "--no-ledger"]);
    assert!(!String::from_utf8_lossy(&not_added.stdout).contains("were added"));
    let found = ledger.read();
    assert_eq!(found["entries"].as_array().unwrap().len(), 5);
    check_ratio(&found["entries"][2], &device);
    let rate = |kind: &str| (found[kind]["hits"].clone(), found[kind]["predictions"].clone());
    assert_eq!(rate("estimates"), (json!(1), json!(1)));
    assert_eq!(rate("exact"), (json!(1), json!(2)), "each counts once");
    eprintln!("{}", String::from_utf8_lossy(&site.output(&["ledger"]).stdout));
    assert!(holder.ends_well());

    damage(&site);
    let undone = site.output(&["undo", "1"]);
    assert_eq!(undone.status.code(), Some(0), "{}", said(&undone));
    assert_eq!(read(SCALE), scale.to_string());
    assert_eq!(ledger.entries(), 6, "the ledger outlives the plan");
}

/// The ratio can be recomputed from the readings in the entry.
fn check_ratio(entry: &Value, device: &str) {
    assert_eq!((&entry["step"], &entry["hit"]), (&json!("zram"), &json!(true)), "{entry:#}");
    let path = device.replace("/dev/", "/sys/block/") + "/mm_stat";
    let bytes = |at: usize| {
        assert_eq!(entry["evidence"][at]["path"], json!(path));
        let words = entry["evidence"][at]["value"].as_str().unwrap().to_owned();
        words.split(' ').rev().nth(1).unwrap().parse::<f64>().unwrap()
    };
    let measured = entry["measured"].as_f64().unwrap();
    assert!((bytes(0) / bytes(1) - measured).abs() < 1e-9, "{entry:#}");
    assert_eq!(entry["boot_id"], json!(read("/proc/sys/kernel/random/boot_id")));
    assert_eq!(entry["kernel"], json!(read("/proc/sys/kernel/osrelease")));
}

/// A ledger that others can write to is neither read nor written; a torn last line is removed, and
/// no other is lost.
fn damage(site: &Site) {
    let path = site.place.folder.path().join("state/ledger");
    let mode = |mode: u32| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    mode(0o666);
    for verb in ["verify", "ledger"] {
        let refused = site.output(&[verb]);
        assert_eq!(refused.status.code(), Some(1), "{verb}");
        let message = said(&refused);
        assert!(message.contains("others may write to it"), "{message}");
        assert!(message.contains("move the file away"), "{message}");
    }
    mode(0o600);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 40]).unwrap();
    let ledger = Ledger(site);
    let torn = ledger.read();
    assert_eq!((&torn["is_torn"], torn["entries"].as_array().unwrap().len()), (&json!(true), 4));
    // the process has ended, so the device stores too little to measure
    ledger.verify();
    let mended = ledger.read();
    assert_eq!((&mended["is_torn"], &mended["damaged_lines"]), (&json!(false), &json!([])));
    assert_eq!(mended["entries"].as_array().unwrap().len(), 6);
}
