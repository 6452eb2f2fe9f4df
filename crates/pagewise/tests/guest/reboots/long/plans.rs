// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans over real reboots: a plan on trial is gone after a power loss, a kept one is in force at every later
//! boot, a file that overrules it is named, and after `undo` the machine starts as it did before.
//!
//! Three places keep the plans: files of sysctl.d and tmpfiles.d in each run, and for zram a unit of Pagewise or a
//! drop-in of zram-generator. In a run of `make test` a plan outlasts few boots, with the kernel of trixie;
//! `cargo xtask reboots` has it outlast twenty, with three kernels.

use std::path::Path;

use serde_json::{Value, json};

use crate::applied::{file, plan, step};
use crate::boot::{Boot, SAY, answer, answer_of_success, document, reboots};
use crate::documents;

/// How the machine is, without what a boot or its load decides.
pub(crate) const STATE: &str = r#"
state() {
    (cd /etc && find . \( -type f -o -type l \) -printf '%p %m %u %g %l\n' | sort
     find . -type f | sort | xargs sha256sum) 2>&1
    grep -s '' /proc/sys/vm/* | grep -Ev '/(user_reserve|admin_reserve|min_free)_kbytes'
    grep -rs '' /sys/kernel/mm/transparent_hugepage /sys/kernel/mm/lru_gen /sys/kernel/mm/ksm \
        /sys/module/zswap/parameters \
        | grep -Ev 'khugepaged/(full_scans|pages_collapsed)|/stats/|ksm/(full_scans|general_profit)' | sort
    grep -v Filename /proc/swaps | cut -d' ' -f1
    ls -A /var
}
"#;

/// What each boot says of the plans.
const LOOK: &str = r#"
say failed systemctl --failed --no-legend --plain
say swap swapon --show=NAME,SIZE,PRIO --bytes --noheadings --raw
say sysctl sysctl -n vm.extfrag_threshold
say max-ptes cat /sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none
say zram sh -c 'cd /sys/block/zram0 && cat disksize comp_algorithm'
get verify pagewise verify --json
"#;

/// Time for systemd to start what it no longer holds back, after it has read its units: a unit whose file is gone
/// by then fails. Of `pagewise` alone, which looks for systemctl here first.
const SLOW_RELOAD: &str = r#"
test -e /usr/sbin/systemctl || cat > /usr/sbin/systemctl <<'END'
#!/bin/sh
/usr/bin/systemctl "$@"; status=$?
test "$1" = daemon-reload && sleep 3
exit $status
END
chmod 755 /usr/sbin/systemctl
"#;

/// The operator's file, which a file of the plan overrules; and memory so full that swap is planned for. The
/// steps of a swap file are added, because the plan takes zram where there is some.
pub(crate) const PLAN: &str = r#"
echo 'vm.extfrag_threshold = 0' > /etc/sysctl.d/10-own.conf; sysctl -q vm.extfrag_threshold=0
id=$(cat /etc/machine-id)
hash=$(printf 'pagewise machine-id %s' "$id" | sha256sum | cut -c1-32)
total=$(($(sed -n 's/^MemTotal: *\([0-9]*\) kB$/\1/p' /proc/meminfo) * 1024))
sed -i "s/HASH/$hash/; s/4711/$total/" /root/made-up.json
state > /root/before
if [ -e /opt/planned.json ]; then
    sed "s/HASH/$hash/; s/4711/$total/" /opt/planned.json > /root/planned.json
else
    head -c 200M /dev/zero > /dev/shm/filled
    pagewise plan --goal ratio --only zram,extfrag-threshold --json > /root/planned.json
    rm /dev/shm/filled
fi
get plan cat /root/planned.json
awk '{ at = index($0, "\"steps\": [") }
    at && !done { getline more < "/root/more.json"; $0 = substr($0, 1, at + 9) more "," substr($0, at + 10); done = 1 }
    { print }' /root/planned.json > /root/plan.json
say has-file grep -c add-swap-file /root/plan.json
sync
"#;

pub(super) const NO_GENERATOR: &str = "";
/// Its package comes with a configuration that takes half of the memory.
pub(crate) const GENERATOR: &str = r"
swapoff /dev/zram0 && echo 1 > /sys/block/zram0/reset
rm -f /etc/systemd/zram-generator.conf /usr/lib/systemd/zram-generator.conf; systemctl daemon-reload
";

/// Applied on trial, and the power is lost: only what Pagewise syncs is on the disk.
const TRIAL: &str = r"
say apply pagewise apply --yes --settle 0 --trial-for 20m /root/plan.json
state > /tmp/on-trial
say changed sh -c 'diff /root/before /tmp/on-trial; test $? = 1'
echo lose-power; sleep 1000
";

/// Nothing is left of the trial; now both plans are applied for good, and the power is lost again.
const APPLY: &str = r"
state > /tmp/after; say difference diff /root/before /tmp/after
say failed systemctl --failed --no-legend --plain
say apply pagewise apply --yes --settle 0 /root/plan.json
say made-up pagewise apply --yes --settle 0 /root/made-up.json
echo lose-power; sleep 1000
";

/// Somebody's file overrules the plan from the next boot on.
const OVERRULE: &str = "echo 'vm.extfrag_threshold = 5' > /etc/sysctl.d/zz-other.conf\n";

/// The drift is named; mended; and the plans are undone.
const UNDO: &str = r"
get drifted sh -c 'pagewise verify --json; test $? = 3'
rm /etc/sysctl.d/zz-other.conf; sysctl -q vm.extfrag_threshold=500
get verify pagewise verify --json
say undo pagewise undo --all
state > /tmp/after; say difference diff /root/before /tmp/after
";

pub(super) const GONE: &str = r"
say failed systemctl --failed --no-legend --plain
state > /tmp/after; say difference diff /root/before /tmp/after
say nothing pagewise undo
";

/// How many boots see the plans in force, beside the ones that apply and undo them.
pub(super) fn looks() -> usize {
    std::env::var("PAGEWISE_REBOOTS").map_or(1, |number| number.parse().expect("a number of boots"))
}

/// A setting of the second plan, with its line in tmpfiles.d.
fn made_up() -> String {
    let knob = "thp.khugepaged.max_ptes_none";
    let path = "/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none";
    plan(&[
        step("knob", json!({"action": "set-knob", "target": knob, "from": "511", "to": "64"})),
        file("tmpfiles", "/etc/tmpfiles.d/05-pagewise.conf", &format!("w {path} - - - - 64\n")),
    ])
}

const SWAP_FILE: &str = "/var/pagewise-swap-0";
const SWAP_FILE_BYTES: u64 = 16 << 20;

/// The steps that keep a swap file, as plans have them.
fn swap_file() -> String {
    let unit = r"/etc/systemd/system/var-pagewise\x2dswap\x2d0.swap";
    let link = r"/etc/systemd/system/swap.target.wants/var-pagewise\x2dswap\x2d0.swap";
    let text = format!("[Swap]\nWhat={SWAP_FILE}\n\n[Install]\nWantedBy=swap.target\n");
    let to = json!({"size_bytes": SWAP_FILE_BYTES, "priority": null});
    let mut added =
        step("swap-file", json!({"action": "add-swap-file", "target": SWAP_FILE, "to": to}));
    added["survives_reboot"] = json!(true);
    let steps = [
        added,
        file("swap-file-unit", unit, &text),
        step(
            "swap-file-link",
            json!({"action": "make-link", "target": link, "from": null, "to": unit}),
        ),
        step("swap-file-reload", json!({"action": "reload-units", "target": "systemd"})),
    ];
    steps.map(|step| step.to_string()).join(",")
}

/// What [`PLAN`] makes its plans of, and the options that send it into a guest; the folder has to be kept.
pub(crate) fn plans(folder: &Path) -> [String; 2] {
    let sent = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        format!("--file={}:/root/{name}", path.display())
    };
    [sent("made-up.json", &made_up()), sent("more.json", &format!("{}\n", swap_file()))]
}

/// `planned` names the plan that is applied; without a name `pagewise plan` makes it there.
fn outlast_reboots(options: &[&str], prepare: &str, planned: Option<&str>) {
    let folder = tempfile::tempdir().unwrap();
    let [sent, more] = plans(folder.path());
    let functions = format!("{SAY}{STATE}");
    let mut scripts = vec![
        format!("{functions}{prepare}{SLOW_RELOAD}{PLAN}{TRIAL}"),
        format!("{functions}{APPLY}"),
    ];
    scripts.extend((1..looks()).map(|_| format!("{functions}{LOOK}")));
    scripts.push(format!("{functions}{LOOK}{OVERRULE}"));
    scripts.push(format!("{functions}{UNDO}"));
    scripts.push(format!("{functions}{GONE}"));
    let scripts: Vec<&str> = scripts.iter().map(String::as_str).collect();
    let own = ["--memory", "512M", "--lose-power", "0", "--deadline", "5m", &sent, &more];
    let planned = planned.map(documents::sent);
    let own: Vec<&str> = own.into_iter().chain(planned.as_deref()).collect();
    let boots = reboots(&[&own[..], options].concat(), &scripts);
    assert_eq!(boots.len(), scripts.len(), "{boots:#?}");

    let planned = document(&boots[0].output, "plan");
    assert_eq!(answer_of_success(&boots[0].output, "has-file"), "1\n");
    answer_of_success(&boots[0].output, "apply");
    answer_of_success(&boots[0].output, "changed");
    let after_trial = &boots[1].output;
    assert_eq!(answer(after_trial, "difference"), ("", "0"), "a plan on trial is undone");
    assert_eq!(answer(after_trial, "failed"), ("", "0"));
    answer_of_success(after_trial, "apply");
    answer_of_success(after_trial, "made-up");
    let [.., undone, gone] = &boots[..] else { unreachable!() };
    for boot in &boots[2..boots.len() - 2] {
        boot.assert_exited(0);
        is_in_force(boot, &planned);
    }
    is_named_and_undone(&undone.output);
    gone.assert_exited(0);
    assert_eq!(answer(&gone.output, "failed"), ("", "0"));
    assert_eq!(answer(&gone.output, "difference"), ("", "0"));
    assert_eq!(answer(&gone.output, "nothing").1, "0", "{}", gone.output);
}

/// What the boot itself has set, and what `verify` says of it.
#[track_caller]
fn is_in_force(boot: &Boot, planned: &Value) {
    let said = &boot.output;
    assert_eq!(answer(said, "failed"), ("", "0"), "{said}");
    assert_eq!(answer_of_success(said, "sysctl"), "500\n", "{said}");
    assert_eq!(answer_of_success(said, "max-ptes"), "64\n", "{said}");
    let steps = planned["steps"].as_array().unwrap();
    let zram =
        steps.iter().find(|step| step["action"] == "add-zram-swap").expect("zram is planned");
    let size = zram["to"]["disksize_bytes"].as_u64().unwrap();
    let mut swaps: Vec<&str> = answer_of_success(said, "swap").lines().collect();
    swaps.sort_unstable();
    let on_zram = format!("/dev/zram0 {} {}", size - 4096, zram["to"]["priority"]);
    let on_disk = format!("{SWAP_FILE} {} -", SWAP_FILE_BYTES - 4096);
    assert!(swaps.len() == 2 && swaps[0] == on_zram && swaps[1].starts_with(&on_disk), "{said}");
    let device = answer_of_success(said, "zram");
    let algorithm = zram["to"]["compressor"]["algorithm"].as_str().unwrap();
    assert!(device.starts_with(&format!("{size}\n")), "{device}");
    assert!(device.contains(&format!("[{algorithm}]")), "{device}");
    let verified = document(said, "verify");
    assert_eq!(verified["drifted"], false, "{verified:#}");
    assert_eq!(verified["plans"].as_array().unwrap().len(), 2, "{verified:#}");
}

fn is_named_and_undone(said: &str) {
    let drifted = document(said, "drifted");
    assert_eq!(drifted["drifted"], true);
    assert!(drifted.to_string().contains("/etc/sysctl.d/zz-other.conf"), "{drifted:#}");
    assert_eq!(document(said, "verify")["drifted"], false);
    answer_of_success(said, "undo");
    assert_eq!(answer(said, "difference"), ("", "0"));
}

pub(crate) const WITH_GENERATOR: [&str; 2] = ["--package", "systemd-zram-generator"];
const BOOKWORM: [&str; 2] = ["--userland=systemd/bookworm", "--kernel=bookworm"];
const SID: [&str; 2] = ["--userland=systemd/sid", "--kernel=sid"];

#[test]
fn guest_reboots_keep_a_plan_with_a_unit() {
    outlast_reboots(&[], NO_GENERATOR, Some("unit"));
}

#[test]
fn guest_reboots_keep_a_plan_with_zram_generator() {
    outlast_reboots(&WITH_GENERATOR, GENERATOR, Some("generator"));
}

#[test]
#[ignore = "run by cargo xtask reboots"]
fn guest_reboots_of_bookworm_keep_a_plan_with_a_unit() {
    outlast_reboots(&BOOKWORM, NO_GENERATOR, None);
}

#[test]
#[ignore = "run by cargo xtask reboots"]
fn guest_reboots_of_bookworm_keep_a_plan_with_zram_generator() {
    outlast_reboots(&[BOOKWORM, WITH_GENERATOR].concat(), GENERATOR, None);
}

#[test]
#[ignore = "run by cargo xtask reboots"]
fn guest_reboots_of_sid_keep_a_plan_with_a_unit() {
    outlast_reboots(&SID, NO_GENERATOR, None);
}

#[test]
#[ignore = "run by cargo xtask reboots"]
fn guest_reboots_of_sid_keep_a_plan_with_zram_generator() {
    outlast_reboots(&[SID, WITH_GENERATOR].concat(), GENERATOR, None);
}
