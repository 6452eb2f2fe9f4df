// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans over real reboots: a plan on trial is gone after a power loss, a kept one is in force at
//! every later boot, a file that overrides it is named, and after `undo` the machine boots as it
//! did before.
//!
//! A plan is kept in files of sysctl.d and tmpfiles.d, and for zram also in a unit of Pagewise or a
//! drop-in of zram-generator. In the group of these tests (`cargo xtask groups`) a plan outlasts
//! few boots, with the kernel of trixie; `cargo xtask reboots` has it outlast twenty, with three
//! kernels.

use std::path::Path;

use serde_json::{Value, json};

use crate::applied::{file, plan, step};
use crate::boot::{Boot, SAY, answer, answer_of_success, document, reboots};
use crate::documents;

/// Prints the state of the machine, without values that depend on the boot or the load.
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

/// What each boot reports about the plans.
const LOOK: &str = r#"
say failed systemctl --failed --no-legend --plain
say swap swapon --show=NAME,SIZE,PRIO --bytes --noheadings --raw
say sysctl sysctl -n vm.extfrag_threshold
say max-ptes cat /sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none
say zram sh -c 'cd /sys/block/zram0 && cat disksize comp_algorithm'
get verify pagewise verify --json
"#;

/// Delays systemctl after systemd has reloaded its units, so that systemd starts jobs whose units
/// were removed meanwhile: such a unit fails. Only `pagewise` uses this systemctl, because it
/// searches this folder first.
const SLOW_RELOAD: &str = r#"
test -e /usr/sbin/systemctl || cat > /usr/sbin/systemctl <<'END'
#!/bin/sh
/usr/bin/systemctl "$@"; status=$?
test "$1" = daemon-reload && sleep 3
exit $status
END
chmod 755 /usr/sbin/systemctl
"#;

/// Creates the operator's file, which a file of the plan overrides, and fills memory so that the
/// plan adds swap. The steps of a swap file are added by the test, because plans prefer zram if the
/// kernel has it.
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
/// Its package contains a configuration that uses half of the memory.
pub(crate) const GENERATOR: &str = r"
swapoff /dev/zram0 && echo 1 > /sys/block/zram0/reset
rm -f /etc/systemd/zram-generator.conf /usr/lib/systemd/zram-generator.conf; systemctl daemon-reload
";

/// Applies the plan on trial and loses power: only what Pagewise has synced is on the disk.
const TRIAL: &str = r"
say apply pagewise apply --yes --settle 0 --trial-for 20m /root/plan.json
state > /tmp/on-trial
say changed sh -c 'diff /root/before /tmp/on-trial; test $? = 1'
echo lose-power; sleep 1000
";

/// Nothing is left of the trial; now applies both plans for good, and loses power again.
const APPLY: &str = r"
state > /tmp/after; say difference diff /root/before /tmp/after
say failed systemctl --failed --no-legend --plain
say apply pagewise apply --yes --settle 0 /root/plan.json
say made-up pagewise apply --yes --settle 0 /root/made-up.json
echo lose-power; sleep 1000
";

/// A file of somebody else that overrides the plan from the next boot on.
const OVERRULE: &str = "echo 'vm.extfrag_threshold = 5' > /etc/sysctl.d/zz-other.conf\n";

/// `verify` names the drift; the file is removed, and the plans are undone.
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

/// The number of boots with the plans in force, in addition to those that apply and undo them.
pub(super) fn looks() -> usize {
    std::env::var("PAGEWISE_REBOOTS").map_or(1, |number| number.parse().expect("a number of boots"))
}

/// The second plan: a setting, with its line in tmpfiles.d.
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

/// The steps that add a swap file, as in plans of `pagewise plan`.
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

/// The files from which [`PLAN`] makes its plans, as options that send them into a guest; `folder`
/// must outlive the guest.
pub(crate) fn plans(folder: &Path) -> [String; 2] {
    let sent = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        format!("--file={}:/root/{name}", path.display())
    };
    [sent("made-up.json", &made_up()), sent("more.json", &format!("{}\n", swap_file()))]
}

/// `planned` names the plan file to apply; with `None`, `pagewise plan` makes the plan in the
/// guest.
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

/// Checks the values that are in force after the boot, and the output of `verify`.
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
