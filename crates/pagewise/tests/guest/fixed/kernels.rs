// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One guest for each of three Debian kernels. Each runs all checks that depend on the kernel and
//! do not need a guest of their own: the guest's devices, the kernel's features, what `pagewise
//! scan` reads of a process, its core and a cgroup; applying and undoing a plan, undoing a killed
//! run's changes, and what zmerge stores and hides.
//!
//! Each output has a name, so a failure says which check it was. `make test` runs these; tests that
//! need a guest of their own are in groups (`cargo xtask groups`).

use std::fs;
use std::path::{Path, PathBuf};

use crate::applied::{file, plan, step};
use crate::boot::{SAY, answer, answer_of_success, document, finish, program};
use crate::example::into_guest;
use crate::loans;
use crate::zmerge;
use serde_json::{Value, json};

/// Describes the machine. It has four disks; images keep what is written only if that was asked for.
const MACHINE: &str = r#"
say algorithms cat /sys/block/zram0/comp_algorithm
say controllers cat /sys/fs/cgroup/pagewise-lab-job/cgroup.controllers
say pressure cat /proc/pressure/memory
say group cat /proc/self/cgroup
say doctor pagewise doctor --interval 0 --min-severity info
say user id -u
disks() {
    mke2fs /dev/vda > /dev/null 2>&1; mkdir /m; mount -t ext4 /dev/vda /m && echo a > /m/a
    for disk in b c d; do
        cat /sys/block/vd$disk/size; head -c 4 /dev/vd$disk
        printf new | dd of=/dev/vd$disk 2> /dev/null; echo
    done
    cat /m/a
}
say disks disks
say capture pagewise capture --quiet --folder /out/host
"#;

/// Scans a process that holds 4 MiB of text in its own cgroup, and that cgroup; then the core that
/// the kernel writes of the process, and the first half of that core.
const SCAN: &str = r#"
# one stream: what the shell says of the killed program would else come anywhere among the answers
exec 2>&1
cd /tmp && echo core > /proc/sys/kernel/core_pattern && echo 0 > /proc/sys/kernel/core_uses_pid
ulimit -c unlimited
mkdir /sys/fs/cgroup/held
sh -c 'echo $$ > /sys/fs/cgroup/held/cgroup.procs; exec /hold 4 text still < /dev/null > /held' &
for try in $(seq 600); do grep -q held /held && break; sleep 0.1; done
say held cat /held
# a new generation, so that the one before can be told to be cold or not
group=$(grep ' /held$' /sys/kernel/debug/lru_gen | tr -s ' ' | cut -d ' ' -f 2)
[ -z $group ] || echo + $group 0 $(grep -A 9 ' /held$' /sys/kernel/debug/lru_gen | tr -s ' ' |
    grep '^ [0-9]' | head -4 | tail -1 | cut -d ' ' -f 2) > /sys/kernel/debug/lru_gen
get group-scan pagewise scan --cgroup /held --measure --json --algorithm lz4
look() { pagewise scan --exact --json --algorithm lz4 $*; }
get alive look --pid $!
kill -ABRT $!
wait $!
get core look --core core
head -c $(($(stat -c %s core) / 2)) core > half
get half look --core half
"#;

/// The kernel's features according to its own files, and according to pagewise.
const FEATURES: &str = r#"
say lru_gen sh -c '[ -e /sys/kernel/mm/lru_gen/enabled ] && echo yes || echo no'
say zswap sh -c '[ -e /sys/module/zswap/parameters/enabled ] && echo yes || echo no'
say cgroup sh -c 'grep -q memory /sys/fs/cgroup/cgroup.controllers && echo yes || echo no'
say psi sh -c '[ -e /proc/pressure/memory ] && echo yes || echo no'
say modules lsmod
get capabilities pagewise capabilities --json
"#;

/// A plan takes effect, is verified, and is undone.
const PLAN: &str = r#"
mkdir -p /etc/sysctl.d /var/lib
echo 0123456789abcdef0123456789abcdef > /etc/machine-id
hash=$(printf 'pagewise machine-id %s' "$(cat /etc/machine-id)" | sha256sum | cut -c1-32)
total=$(($(sed -n 's/^MemTotal: *\([0-9]*\) kB$/\1/p' /proc/meminfo) * 1024))
sed -i "s/HASH/$hash/; s/4711/$total/" /opt/plan.json
machine() {
    cat /proc/sys/vm/swappiness; cut -f1 /proc/swaps; find /etc/sysctl.d -type f | xargs -r sha256sum
    for zram in /sys/block/zram*; do echo $zram $(cat $zram/disksize); done
}
machine > /tmp/machine
say apply pagewise apply --yes --settle 0 /opt/plan.json
say swappiness cat /proc/sys/vm/swappiness
say areas tail -n +2 /proc/swaps
get verify pagewise verify --json --no-ledger
say undo pagewise undo --all
machine > /tmp/now; say plan-difference diff /tmp/machine /tmp/now
"#;

/// Scans the whole host without multi-gen LRU, once damon_stat has measured; then a process; then
/// the same process while a DAMON thread watches it.
const DAMON: &str = r#"
echo n > /sys/kernel/mm/lru_gen/enabled
sleep 1000 &
idle=/sys/module/damon_stat/parameters/memory_idle_ms_percentiles
for i in $(seq 60); do grep -q '[1-9]' $idle && break; sleep 1; done
look() { pagewise scan --measure --json --algorithm lz4 $*; }
get all look --host
get one look --pid $!
echo N > /sys/module/damon_stat/parameters/enabled
cd /sys/kernel/mm/damon/admin/kdamonds
echo 1 > nr_kdamonds && echo 1 > 0/contexts/nr_contexts
echo vaddr > 0/contexts/0/operations && echo 1 > 0/contexts/0/targets/nr_targets
echo $! > 0/contexts/0/targets/0/pid_target && echo on > 0/state
get watched look --pid $!
"#;

#[test]
fn guest_of_bookworm_has_a_whole_machine_and_is_scanned() {
    let session = asked("bookworm", "");
    let off = &scanned_by_cgroup(&session)["cold"]["absent"];
    assert_eq!(off, "multi-gen LRU is off: /sys/kernel/mm/lru_gen/enabled");
}

#[test]
fn guest_of_trixie_has_a_whole_machine_and_is_scanned() {
    scanned_by_cgroup(&asked("trixie", ""));
}

/// In the newest kernel, damon_stat is mentioned in the reason only: it does not measure single
/// processes.
#[test]
fn guest_of_sid_has_a_whole_machine_and_is_scanned_and_says_who_could_tell_what_is_cold() {
    let session = asked("sid", DAMON);
    let young = &scanned_by_cgroup(&session)["cold"];
    assert_eq!(young["value"], 0, "nothing there is two minutes old: {young}");
    let absent = |name: &str| {
        let cold = estimate(&session, name)["cold"].clone();
        cold["absent"].as_str().unwrap_or_else(|| panic!("{name}: {cold}")).to_owned()
    };
    let all = absent("all");
    assert!(all.contains("multi-gen LRU is off") && all.contains("damon_stat saw 0 %"), "{all}");
    assert!(absent("one").contains("damo start"), "{}", absent("one"));
    assert!(absent("watched").contains("damo report access"), "{}", absent("watched"));
}

/// Images for the disks of a guest.
struct Images(PathBuf);

impl Images {
    fn new(folder: &Path) -> Self {
        for name in ["copied", "read", "written"] {
            fs::write(folder.join(name), [&b"old!"[..], &[0; 65532]].concat()).unwrap();
        }
        Self(folder.to_owned())
    }

    fn options(&self) -> Vec<String> {
        let path = |name: &str| self.0.join(name).display().to_string();
        let disks =
            ["64M".to_owned(), path("copied"), path("read") + ",ro", path("written") + ",rw"];
        disks.into_iter().flat_map(|disk| ["--disk".to_owned(), disk]).collect()
    }

    fn starts(&self) -> [Vec<u8>; 3] {
        ["copied", "read", "written"].map(|name| fs::read(self.0.join(name)).unwrap()[..4].to_vec())
    }
}

/// Runs a guest of the suite, and checks what is the same in all of them.
fn asked(suite: &str, more: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let images = Images::new(folder.path());
    let out = folder.path().join("out");
    let hold = into_guest("hold");
    let options = ["--emulate", "--kernel", suite];
    let options = options.into_iter().chain(["--deadline", "10m", "--out", out.to_str().unwrap()]);
    let disks = images.options();
    let more_options = disks.iter().chain(&hold).map(String::as_str);
    let sent = [plan_file(folder.path()), zmerge::sent(suite)].concat();
    let borrow = into_guest("borrow");
    let more_options = more_options.chain(sent.iter().chain(&borrow).map(String::as_str));
    let borrowed = format!("loan() (\n{}{})\nsay loan loan", loans::MACHINE, loans::KILLED);
    let script = format!(
        "{SAY}{MACHINE}{SCAN}{more}{FEATURES}{PLAN}{}{borrowed}\nexit 0",
        zmerge::KEEP_AND_HIDE
    );
    let (run, session) =
        crate::boot::run(&options.chain(more_options).collect::<Vec<_>>(), &["sh", "-c", &script]);
    assert_eq!(
        (&run["outcome"], &run["status"]),
        (&json!("exited"), &json!(0)),
        "{session}{run:#}"
    );
    it_comes_up(&run, &[&hold[..], &sent, &borrow].concat());
    it_has_what_a_guest_is_given(&session);
    let expected = "128\nold!\n128\nold!\n128\nold!\na\n";
    assert_eq!(answer(&session, "disks"), (expected, "0"));
    let [copied, read, written] = images.starts();
    assert_eq!(
        (copied.as_slice(), read.as_slice(), written.as_slice()),
        (&b"old!"[..], &b"old!"[..], &b"new!"[..])
    );
    it_is_recorded(&session, &out.join("host"));
    a_core_is_what_the_process_was(&session);
    its_features_are_those_of_its_files(&session);
    a_plan_takes_effect_and_goes_back(&session);
    zmerge::keeps_and_hides(&session);
    loans::a_killed_run_is_given_back(answer_of_success(&session, "loan"));
    session
}

/// A plan with a knob, a file and a zram device.
fn plan_file(folder: &Path) -> Vec<String> {
    let knob = json!({"action": "set-knob", "target": "vm.swappiness", "from": "60", "to": "77"});
    let zram = json!({
        "compressor": {"algorithm": "lz4", "level": null}, "disksize_bytes": 67_108_864,
        "mem_limit_bytes": 33_554_432, "priority": 50,
    });
    let steps = [
        step("knob", knob),
        file("sysctl", "/etc/sysctl.d/90-pagewise.conf", "vm.swappiness = 77\n"),
        step("zram", json!({"action": "add-zram-swap", "target": null, "to": zram})),
    ];
    let path = folder.join("plan.json");
    fs::write(&path, plan(&steps)).unwrap();
    vec!["--file".to_owned(), format!("{}:/opt/plan.json", path.display())]
}

fn its_features_are_those_of_its_files(session: &str) {
    let document = document(session, "capabilities");
    let capabilities = document["capabilities"].as_array().expect("capabilities");
    for (name, feature) in
        [("lru_gen", "mglru"), ("zswap", "zswap"), ("psi", "psi"), ("cgroup", "cgroup.v2.memory")]
    {
        let found = capabilities.iter().find(|one| one["feature"] == feature);
        let found = found.unwrap_or_else(|| panic!("no {feature}: {document:#}"));
        let is_there = answer_of_success(session, name).trim() == "yes";
        assert_eq!(found["state"]["is"] == "present", is_there, "{feature}: {found:#}");
    }
    let modules = answer_of_success(session, "modules");
    assert!(modules.lines().any(|line| line.starts_with("zram ")), "{modules}");
}

fn a_plan_takes_effect_and_goes_back(session: &str) {
    answer_of_success(session, "apply");
    assert_eq!(answer(session, "swappiness"), ("77\n", "0"));
    let areas = answer_of_success(session, "areas");
    assert!(areas.starts_with("/dev/zram") && areas.trim_end().ends_with("50"), "{areas}");
    assert_eq!(document(session, "verify")["drifted"], false);
    answer_of_success(session, "undo");
    assert_eq!(answer(session, "plan-difference"), ("", "0"));
}

/// Copies little more into the guest than the program and the requested files.
fn it_comes_up(run: &Value, files: &[String]) {
    assert!(run["boot_cpu_seconds"].as_f64().unwrap() > 0.0, "{run:#}");
    assert_eq!(run["troubles"], json!([]), "{run:#}");
    let sent = files.iter().filter_map(|file| file.split_once(':'));
    let sent: u64 = sent.map(|(from, _)| fs::metadata(from).unwrap().len()).sum();
    let program = fs::metadata(program().get_program()).unwrap().len();
    let rest = run["initramfs_bytes"].as_u64().unwrap().saturating_sub(program + sent);
    assert!(rest <= 7 << 20, "{rest} bytes beside program and files: {run:#}");
}

fn it_has_what_a_guest_is_given(session: &str) {
    assert_eq!(answer(session, "user"), ("0\n", "0"));
    assert_eq!(answer(session, "group"), ("0::/pagewise-lab-job\n", "0"));
    for (name, wanted) in [
        ("algorithms", "lz4"),
        ("algorithms", "zstd"),
        ("controllers", "memory"),
        ("pressure", "some avg10="),
    ] {
        let text = answer_of_success(session, name);
        assert!(text.contains(wanted), "{name}: no {wanted}: {text}");
    }
    let (text, status) = answer(session, "doctor");
    assert!(["0", "3"].contains(&status), "doctor: {status}: {text}");
}

fn it_is_recorded(session: &str, host: &Path) {
    answer_of_success(session, "capture");
    let status = finish(program().args(["--root", host.to_str().unwrap(), "status"]));
    assert!(status.status == 0 && status.out.contains("RAM"), "{} {}", status.out, status.err);
}

fn estimate(session: &str, name: &str) -> Value {
    document(session, name)["estimates"][0].clone()
}

fn scanned_by_cgroup(session: &str) -> Value {
    let estimate = estimate(session, "group-scan");
    assert_eq!(estimate["source"]["kind"], "cgroup", "{estimate:#}");
    let pages = estimate["pages"].as_u64().expect("pages");
    assert!((900..20_000).contains(&pages), "{pages} pages of about 4 MB");
    let ratio = estimate["algorithms"][0]["original_per_compressed"].as_f64();
    assert!(ratio.is_some_and(|ratio| ratio > 1.5), "text compresses: {ratio:?}");
    let marked = estimate["disturbed"]["referenced_pages"].as_u64();
    assert_eq!(marked, estimate["sampled_pages"].as_u64(), "{estimate:#}");
    estimate
}

fn a_core_is_what_the_process_was(session: &str) {
    let [alive, core, half] = ["alive", "core", "half"].map(|name| estimate(session, name));
    let number = |of: &Value, key: &str| of[key].as_u64().expect(key);
    let pages = number(&alive, "pages");
    assert!(pages > 900, "{pages} pages of about 4 MB");
    assert!(number(&core, "pages").abs_diff(pages) <= 20, "{alive:#} {core:#}");
    let bytes = |of: &Value| of["algorithms"][0]["compressed_bytes"].as_f64().expect("bytes");
    assert!((bytes(&core) / bytes(&alive) - 1.0).abs() < 0.02, "{alive:#} {core:#}");
    assert!(core["partial"].is_null(), "{core:#}");
    let why = half["partial"].as_str().expect("a reason");
    assert!(why.starts_with("the core is truncated after"), "{why}");
    assert!(number(&half, "pages") < pages * 3 / 4, "{half:#}");
}
