// SPDX-License-Identifier: Apache-2.0 OR MIT
//! OOM kills that only journald's files still record, because the kernel log was overwritten or
//! they happened in another boot. The files are from a real journald, in guests whose PID 1 is
//! systemd.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::boot::{SAY, answer, finish, lab};

/// A service is killed at its limit, and then the kernel log is filled until the report is
/// overwritten, because `dmesg -C` would hide it from `dmesg` only.
const KILL: &str = r#"
group=/sys/fs/cgroup/system.slice/greedy.service
mkdir $group; echo 24M > $group/memory.max; echo 0 > $group/memory.swap.max
sh -c "echo 0 > $group/cgroup.procs; exec tail /dev/zero"
get first pagewise doctor --oom --json --interval 0 --min-severity info
echo on > /proc/sys/kernel/printk_devkmsg
line=$(printf %0900d 0)
seq 500 | while read -r number; do echo "$number $line" > /dev/kmsg; done
dmesg -C
journalctl --sync
say overwritten sh -c 'dd if=/dev/kmsg iflag=nonblock bs=8192 2> /dev/null | grep -c "invoked oom-killer"'
get after pagewise doctor --oom --json --interval 0
get text pagewise doctor --oom --interval 0
group=$(getent group systemd-journal | cut -d: -f3)
get member setpriv --reuid 1000 --regid 1000 --groups $group pagewise doctor --oom --json --interval 0
get user setpriv --reuid 1000 --regid 1000 --clear-groups pagewise doctor --oom --json --interval 0
get expected journalctl --dmesg --boot --grep 'Killed process' --output cat
pagewise capture --quiet --interval 0 --folder /out/capture
cp /var/log/journal/*/system*.journal /out/
"#;

/// Files of another boot are next to those of this boot.
const NEXT_BOOT: &str = r#"
for file in /opt/earlier/*; do cp $file "/var/log/journal/$(cat /etc/machine-id)/"; done
get earlier pagewise doctor --oom --json --interval 0 --min-severity info
get report pagewise report --json --interval 0 --only verdict
"#;

fn guest(options: &[String], script: &str) -> String {
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let common = ["--quiet", "--userland=systemd", "--memory", "256M", "--deadline", "6m"];
    let script = format!("{SAY}{script}");
    let ran = finish(&mut lab(&[&common, &options[..], &["--", "sh", "-c", &script]].concat()));
    format!("{}\n{}", ran.out, ran.err)
}

/// `doctor` exits with 3 because it has findings, so the document comes through `get`.
#[track_caller]
fn document(session: &str, name: &str) -> Value {
    let (text, status) = answer(session, name);
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{name} ({status}): {error}: {text}"))
}

#[track_caller]
fn only_kill(document: &Value) -> &Value {
    let kills = document["oom_kills"]["kills"].as_array().unwrap();
    assert_eq!(kills.len(), 1, "{kills:#?}");
    &kills[0]
}

/// Checks that both kills have the same numbers, whichever source they were read from.
#[track_caller]
fn assert_same(one: &Value, other: &Value) {
    for part in ["boot_seconds", "constraint", "group", "victim", "group_memory", "tasks"] {
        assert_eq!(one[part], other[part], "{part}");
    }
}

fn journal_files(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|kind| kind == "journal")).collect()
}

#[test]
fn guest_systemd_journal_has_kills_that_the_kernel_log_lost_and_those_of_another_boot() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let session = guest(&["--out".to_owned(), out.display().to_string()], KILL);
    let first = document(&session, "first");
    let first = only_kill(&first).clone();
    assert!(first["at"].as_str().unwrap().starts_with("/dev/kmsg:"), "{first:#}");

    assert_eq!(answer(&session, "overwritten").0, "0\n", "the kernel log still has the report");
    let after = document(&session, "after");
    let kill = only_kill(&after);
    assert!(kill["at"].as_str().unwrap().starts_with("/var/log/journal:"), "{kill:#}");
    assert_same(&first, kill);
    assert_eq!((&kill["earlier_boot"], &kill["group"]), (&Value::Null, &first["group"]));
    assert_eq!(after["oom_elsewhere"], serde_json::json!([]), "all was searched");
    let killed = answer(&session, "expected").0;
    let pid = kill["victim"]["pid"].as_u64().unwrap();
    assert!(killed.contains(&format!("Killed process {pid} (tail)")), "{killed}");
    let text = answer(&session, "text").0.split_whitespace().collect::<Vec<_>>().join(" ");
    let because = "was killed because the cgroup /system.slice/greedy.service reached its memory limit (24.0 MiB)";
    assert!(text.contains(because), "{text}");

    assert_same(&first, only_kill(&document(&session, "member")));
    let user = document(&session, "user");
    assert_eq!(user["oom_kills"]["kills"], serde_json::json!([]));
    let help = user["oom_kills"]["journal_files"]["denied"].as_str().unwrap();
    assert!(help.contains("systemd-journal"), "{help}");

    a_capture_has_the_report_without_names(&out.join("capture"), &first);
    another_boot_says_so(&journal_files(&out), &first);
}

fn a_capture_has_the_report_without_names(capture: &Path, first: &Value) {
    let excerpt = fs::read_to_string(capture.join("end/journal/kernel")).unwrap();
    assert!(excerpt.contains("Killed process") && !excerpt.contains("greedy"), "{excerpt}");
    let mut command = crate::boot::program();
    command.args(["doctor", "--oom", "--json", "--root"]).arg(capture);
    let told: Value = serde_json::from_str(&finish(&mut command).out).unwrap();
    let kill = only_kill(&told);
    assert_eq!(
        (&kill["boot_seconds"], &kill["group_memory"]),
        (&first["boot_seconds"], &first["group_memory"])
    );
}

fn another_boot_says_so(files: &[PathBuf], first: &Value) {
    assert!(!files.is_empty());
    let sent = files.iter().zip(1..).map(|(file, number)| {
        let name =
            format!("system@00000000000000000000000000000000-{number:016x}-{number:016x}.journal");
        format!("--file={}:/opt/earlier/{name}", file.display())
    });
    let session = guest(&sent.collect::<Vec<_>>(), NEXT_BOOT);
    let earlier = document(&session, "earlier");
    let kill = only_kill(&earlier);
    assert_same(first, kill);
    assert!(kill["earlier_boot"].is_string(), "{kill:#}");
    let told = earlier["oom_explained"][0].to_string();
    assert!(told.contains("in an earlier boot") && !told.contains("alive now"), "{told}");
    let ago = kill["seconds_ago"].as_f64().unwrap();
    let finding = earlier["findings"].as_array().unwrap().iter().find(|it| it["id"] == "oom-kills");
    // its group went with the boot, so that the kill is past
    assert_eq!(finding.unwrap()["severity"], "warning", "{finding:#?}, {ago} seconds ago");
}

/// The service of `packaging/` runs as its timer would start it: after a kill, without news, after another
/// kill, and after the rule is ignored.
const TIMER: &str = r#"
say enable systemctl enable pagewise-doctor.timer
group=/sys/fs/cgroup/system.slice/greedy.service
mkdir $group; echo 24M > $group/memory.max; echo 0 > $group/memory.swap.max
kill_one() { sh -c "echo 0 > $group/cgroup.procs; exec tail /dev/zero"; }
check() { say $1 systemctl start pagewise-doctor.service; }
kill_one; check first; check again
kill_one; check third
mkdir -p /etc/pagewise; echo 'ignore = ["oom-kills"]' > /etc/pagewise/doctor.toml
check fourth
journalctl --sync
get entries journalctl -t pagewise -o json --no-pager
get begins journalctl -o json --no-pager MESSAGE_ID=2786d5abc3684be08857dad440196815
get unit journalctl -u greedy.service -o cat --no-pager
say score systemd-analyze security --no-pager --threshold 25 pagewise-doctor.service
echo damage > /var/lib/pagewise/doctor/findings
say damaged pagewise doctor --journal
say user setpriv --reuid 1000 --regid 1000 --clear-groups pagewise doctor --journal
say named env STATE_DIRECTORY=/run/mine setpriv --reuid 1000 --regid 1000 --clear-groups pagewise doctor --journal
mkdir -m 700 /run/mine; chown 1000:1000 /run/mine
say own env STATE_DIRECTORY=/run/mine setpriv --reuid 1000 --regid 1000 --clear-groups pagewise doctor --journal
"#;

#[test]
fn guest_systemd_has_an_entry_for_each_finding_that_begins_worsens_or_ends() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let sent = ["pagewise-doctor.service", "pagewise-doctor.timer"].map(|unit| {
        format!("--file={}:/etc/systemd/system/{unit}", packaging.join(unit).display())
    });
    let session = guest(&sent, TIMER);
    for run in ["first", "again", "third", "fourth"] {
        assert_eq!(answer(&session, run), ("", "0"), "{run}: {session}");
    }
    assert_eq!(answer(&session, "enable").1, "0");
    let entries: Vec<Value> = answer(&session, "entries")
        .0
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|entry: &Value| entry["PAGEWISE_FINDING"] == "oom-kills")
        .collect();
    let states: Vec<&Value> = entries.iter().map(|entry| &entry["PAGEWISE_STATE"]).collect();
    assert_eq!(states, ["begins", "worsens", "ends"], "{entries:#?}");
    let priorities: Vec<&Value> = entries.iter().map(|entry| &entry["PRIORITY"]).collect();
    assert_eq!(priorities, ["2", "2", "6"]);
    let begins: Value = serde_json::from_str(answer(&session, "begins").0.trim()).unwrap();
    assert_eq!(begins["__CURSOR"], entries[0]["__CURSOR"], "found by its MESSAGE_ID");
    assert_eq!(begins["PAGEWISE_UNIT"], "greedy.service", "{begins:#}");
    assert_eq!(begins["_SYSTEMD_UNIT"], "pagewise-doctor.service", "{begins:#}");
    assert!(begins["PAGEWISE_NEXT"].as_array().unwrap().len() > 1, "{begins:#}");
    let of_unit = answer(&session, "unit").0;
    assert_eq!(of_unit.matches("oom-kills").count(), 3, "{of_unit}");
    assert_eq!(answer(&session, "score").1, "0", "{}", answer(&session, "score").0);

    let damaged = answer(&session, "damaged");
    assert!(damaged.0.contains("every finding is taken for a new one"), "{damaged:?}");
    assert_eq!(damaged.1, "0");
    for refused in ["user", "named"] {
        let (said, status) = answer(&session, refused);
        assert!(said.contains("STATE_DIRECTORY=FOLDER") && status == "1", "{said}");
    }
    assert_eq!(answer(&session, "own"), ("", "0"), "a user with a folder may run it");
}
