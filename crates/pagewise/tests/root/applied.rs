// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans on this machine: applied once, verified, undone; killed at any change; refused with
//! nothing changed.
//!
//! A folder of the test replaces /etc (`PAGEWISE_TEST_ETC`, which only a debug build reads).

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::machine::{Place, Thing, note_made, read, said, write};

/// A setting that can be changed for a moment without any effect on programs.
pub(crate) const KNOB: &str = "/proc/sys/vm/extfrag_threshold";
const FILE: &str = "sysctl.d/90-pagewise.conf";
const DROP_IN: &str = "systemd/system/system.slice.d/50-pagewise.conf";
const MASK: &str = "systemd/system/zramswap.service";

pub(crate) struct Site {
    pub(crate) place: Place,
    pub(crate) etc: PathBuf,
    knob: String,
}

impl Site {
    pub(crate) fn new() -> Self {
        let mut place = Place::new();
        let etc = place.folder.path().join("etc");
        for folder in ["sysctl.d", "systemd/system"] {
            fs::create_dir_all(etc.join(folder)).unwrap();
        }
        let knob = read(KNOB);
        place.loans.promise(&format!("echo {knob} > {KNOB}"));
        let (program, folder) = (env!("CARGO_BIN_EXE_pagewise"), place.folder.path().display());
        let undo = format!(
            "PAGEWISE_LOCK='{folder}/run' PAGEWISE_STATE='{folder}/state' PAGEWISE_TEST_ETC='{folder}/etc' \
             '{program}' undo --all > /dev/null"
        );
        place.loans.promise(&undo);
        Self { place, etc, knob }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.command(arguments);
        command.env("PAGEWISE_TEST_ETC", &self.etc);
        command
    }

    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub(crate) fn plan(&self, steps: &[Value]) -> String {
        let path = self.place.folder.path().join("plan.json");
        let plan = json!({
            "schema": "pagewise/plan/1", "id": "00112233aabbccdd", "goal": "balanced",
            "machine": {
                "machine_id_hash": machine_id_hash(), "memory_total_bytes": memory_total(), "kernel": null,
            },
            "steps": steps, "declined": [],
        });
        fs::write(&path, plan.to_string()).unwrap();
        path.display().to_string()
    }

    fn apply(&self, steps: &[Value]) -> Output {
        self.output(&["apply", "--yes", "--settle", "0", &self.plan(steps)])
    }

    #[track_caller]
    pub(crate) fn apply_well(&self, steps: &[Value]) {
        let ended = self.apply(steps);
        assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    }

    /// Every file, link and folder below it: mode, owner and contents.
    fn tree(&self) -> BTreeMap<PathBuf, (u32, u32, String)> {
        let mut found = BTreeMap::new();
        collect(&self.etc, &mut found);
        found
    }

    fn steps(&self) -> [Value; 4] {
        let from = |path: &str| fs::read_to_string(self.etc.join(path)).ok();
        let file = |id: &str, path: &str, to: &str| {
            let target = format!("/etc/{path}");
            step(
                id,
                json!({"action": "write-file", "target": target, "from": from(path), "to": to}),
            )
        };
        [
            step(
                "knob",
                json!({
                    "action": "set-knob", "target": "vm.extfrag_threshold", "from": self.knob, "to": "511",
                }),
            ),
            file("file", FILE, "vm.extfrag_threshold = 511\n"),
            file("drop-in", DROP_IN, "[Slice]\nMemoryLow=1M\n"),
            step(
                "mask",
                json!({
                    "action": "make-link", "target": format!("/etc/{MASK}"), "from": null, "to": "/dev/null",
                }),
            ),
        ]
    }
}

fn collect(folder: &Path, found: &mut BTreeMap<PathBuf, (u32, u32, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        let contents = if meta.is_symlink() {
            fs::read_link(&path).unwrap().display().to_string()
        } else if meta.is_dir() {
            collect(&path, found);
            String::new()
        } else {
            fs::read_to_string(&path).unwrap()
        };
        found.insert(path, (meta.mode(), meta.uid(), contents));
    }
}

pub(crate) fn step(id: &str, change: Value) -> Value {
    let mut step = json!({
        "id": id, "reason": "a test", "finding": null, "expected": null, "risk": "none", "cost": null,
        "coupled": [], "needs": [], "undo": {"how": "restore", "what": "all"}, "survives_reboot": false,
    });
    let Value::Object(change) = change else { panic!("a change") };
    step.as_object_mut().unwrap().extend(change);
    step
}

fn machine_id_hash() -> Option<String> {
    let id = fs::read_to_string("/etc/machine-id").ok()?;
    let sum = "printf 'pagewise machine-id %s' \"$0\" | sha256sum";
    let sum = Command::new("sh").args(["-c", sum, id.trim()]).output().unwrap().stdout;
    (id.trim().len() == 32).then(|| String::from_utf8(sum).unwrap()[..32].to_owned())
}

fn memory_total() -> u64 {
    let line = read("/proc/meminfo").lines().next().unwrap().to_owned();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

pub(crate) fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(output)))
}

#[test]
fn a_plan_is_applied_once_verified_and_undone() {
    let site = Site::new();
    let file = site.etc.join(FILE);
    fs::write(&file, "# mine\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let (before, steps) = (site.tree(), site.steps());
    site.apply_well(&steps);
    assert_eq!(read(KNOB), "511");
    assert_eq!(fs::read_to_string(&file).unwrap(), "vm.extfrag_threshold = 511\n");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(fs::metadata(site.etc.join(DROP_IN)).unwrap().mode() & 0o7777, 0o644);
    assert_eq!(fs::read_link(site.etc.join(MASK)).unwrap(), Path::new("/dev/null"));
    let applied = site.tree();
    let again = site.apply(&steps);
    assert!(String::from_utf8_lossy(&again.stdout).contains("nothing to do"), "{}", said(&again));
    assert_eq!(site.tree(), applied);
    let verified = site.output(&["verify", "--json"]);
    assert_eq!(verified.status.code(), Some(0), "{}", said(&verified));
    assert_eq!(json_of(&verified)["drifted"], false);
    let listed = json_of(&site.output(&["undo", "--json"]));
    assert_eq!(listed["plans"][0]["journal"], "1");
    assert_eq!(read(KNOB), "511", "an applied plan stays");
    let undone = site.output(&["undo", "00112233aabbccdd"]);
    assert_eq!(undone.status.code(), Some(0), "{}", said(&undone));
    assert_eq!((site.tree(), read(KNOB)), (before, site.knob.clone()));
}

/// The report cannot be written, but the plan is applied: the error says so.
#[test]
fn a_plan_whose_report_cannot_be_written_is_said_to_be_applied() {
    let site = Site::new();
    let plan = site.plan(&site.steps());
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = site.command(&["apply", "--quiet", "--yes", "--settle", "0", &plan]);
    let ended = command.stdout(full).output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", said(&ended));
    assert_eq!(read(KNOB), "511");
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(errors.contains("is applied (journal 1)"), "{errors}");
    let undone = site.output(&["undo", "1"]);
    assert_eq!(undone.status.code(), Some(0), "{}", said(&undone));
}

#[test]
fn what_others_changed_is_named_and_stays() {
    let site = Site::new();
    site.apply_well(&site.steps());
    write(KNOB, "505");
    fs::write(site.etc.join(FILE), "vm.extfrag_threshold = 505\n").unwrap();
    let verified = site.output(&["verify", "--json"]);
    assert_eq!(verified.status.code(), Some(3), "{}", said(&verified));
    let steps = json_of(&verified)["plans"][0]["steps"].clone();
    let found = |at: usize| steps[at]["differences"][0]["found"].clone();
    assert_eq!((found(0), found(1)), (json!("505"), json!("line 1: vm.extfrag_threshold = 505")));
    assert_eq!((&steps[2]["differences"], &steps[3]["differences"]), (&json!([]), &json!([])));
    let undone = site.output(&["undo", "1", "--json"]);
    assert_eq!(undone.status.code(), Some(1), "{}", said(&undone));
    let returns = json_of(&undone)["runs"][0]["returns"].clone();
    let conflicts = returns.as_array().unwrap().iter();
    assert_eq!(conflicts.filter(|it| it["outcome"]["is"] == "conflict").count(), 2, "{returns:#}");
    assert_eq!(read(KNOB), "505");
    assert!(!site.etc.join(MASK).is_symlink() && !site.etc.join(DROP_IN).exists());
    let forgotten = site.output(&["undo", "--forget", "1"]);
    assert_eq!(forgotten.status.code(), Some(0), "{}", said(&forgotten));
    assert_eq!(json_of(&site.output(&["undo", "--json"]))["plans"], json!([]));
}

/// SIGKILL after each change: the journal names the change, and `undo` restores the initial state.
#[test]
fn a_plan_that_is_killed_after_any_change_is_undone() {
    let site = Site::new();
    let before = site.tree();
    for change in 1..=5 {
        let plan = site.plan(&site.steps());
        let mut command = site.command(&["apply", "--yes", "--settle", "0", &plan]);
        let killed = command.env("PAGEWISE_TEST_CRASH", format!("kill:{change}")).output().unwrap();
        assert_eq!(killed.status.signal(), Some(9), "change {change}: {}", said(&killed));
        assert_eq!(read(KNOB), "511", "change {change}");
        let refused = site.apply(&site.steps());
        assert!(said(&refused).contains("was interrupted"), "{}", said(&refused));
        let undone = site.output(&["undo"]);
        assert_eq!(undone.status.code(), Some(0), "{}", said(&undone));
        assert_eq!((site.tree(), read(KNOB)), (before.clone(), site.knob.clone()), "{change}");
    }
}

/// If the program itself crashes, the helper that it started undoes the plan at once.
#[test]
fn a_plan_that_crashes_is_undone_at_once() {
    let site = Site::new();
    let before = site.tree();
    let plan = site.plan(&site.steps());
    let mut command = site.command(&["apply", "--yes", "--settle", "0", &plan]);
    let crashed = command.env("PAGEWISE_TEST_CRASH", "abort:3").output().unwrap();
    assert_eq!(crashed.status.signal(), Some(6), "{}", said(&crashed));
    assert_eq!((site.tree(), read(KNOB)), (before, site.knob.clone()));
}

#[test]
fn a_plan_that_does_not_fit_changes_nothing() {
    let site = Site::new();
    let before = site.tree();
    let refused = |steps: &[Value], why: &str| {
        let ended = site.apply(steps);
        assert_eq!(ended.status.code(), Some(1), "{why}");
        let message = said(&ended);
        assert!(
            message.contains(why) && message.contains("nothing was changed"),
            "{why}: {message}"
        );
        assert_eq!((site.tree(), read(KNOB)), (before.clone(), site.knob.clone()), "{why}");
    };
    let change = |change: Value| [step("bad", change), site.steps()[0].clone()];
    let knob = |from: &str, to: &str| {
        [step(
            "bad",
            json!({"action": "set-knob", "target": "vm.extfrag_threshold", "from": from, "to": to}),
        )]
    };
    refused(&knob(&site.knob, "1001"), "expected 0 to 1000");
    refused(&knob("499", "511"), "the plan expects 499");
    for path in ["/etc/passwd", "/etc/sysctl.d/../../passwd.conf", "/usr/lib/sysctl.d/x.conf"] {
        let file = json!({"action": "write-file", "target": path, "from": null, "to": "x\n"});
        refused(&change(file), "bad");
    }
    // a folder in the path that is a link could lead anywhere, so the plan is refused
    let elsewhere = site.place.folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, site.etc.join("modprobe.d")).unwrap();
    let file = json!({"action": "write-file", "target": "/etc/modprobe.d/x.conf", "from": null, "to": "x\n"});
    let ended = site.apply(&change(file));
    assert!(said(&ended).contains("leads through a symbolic link"), "{}", said(&ended));
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    fs::remove_file(site.etc.join("modprobe.d")).unwrap();
    // a file that is a link is not followed, either
    let target = site.place.folder.path().join("target");
    fs::write(&target, "theirs").unwrap();
    symlink(&target, site.etc.join(FILE)).unwrap();
    let ended = site.apply(&[
        site.steps()[2].clone(),
        step(
            "bad",
            json!({
                "action": "write-file", "target": format!("/etc/{FILE}"), "from": null, "to": "x\n",
            }),
        ),
    ]);
    assert!(said(&ended).contains("found a link to"), "{}", said(&ended));
    assert_eq!(fs::read_to_string(&target).unwrap(), "theirs");
}

/// Pagewise creates the parent folder of a file, but no folder above it.
#[test]
fn a_plan_whose_folder_cannot_be_made_is_undone() {
    let site = Site::new();
    let before = site.tree();
    let target = "/etc/udev/rules.d/99-pagewise.rules";
    let rule = json!({"action": "write-file", "target": target, "from": null, "to": "x\n"});
    let ended = site.apply(&[site.steps()[1].clone(), step("rule", rule)]);
    let message = said(&ended);
    assert_eq!(ended.status.code(), Some(1), "{message}");
    assert!(message.contains("/etc/udev/rules.d: No such file or directory"), "{message}");
    assert!(message.contains("undone and read back; nothing else was written"), "{message}");
    assert_eq!(site.tree(), before);
    let undo = site.output(&["undo"]);
    assert_eq!(String::from_utf8_lossy(&undo.stdout), "nothing to put back\n");
}

const SWAP_FILE: &str = "/var/pagewise-swap-0";

/// The line of the swap file in /proc/swaps: size in KiB and priority.
fn swap_file() -> Option<(u64, i32)> {
    let swaps = read("/proc/swaps");
    let line = swaps.lines().find(|line| line.starts_with(SWAP_FILE))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    Some((words[2].parse().unwrap(), words[4].parse().unwrap()))
}

/// In the real /var, which must be on a disk: the kernel cannot swap to a file on tmpfs.
#[test]
fn a_swap_file_is_added_verified_and_removed_also_after_a_kill() {
    let mut site = Site::new();
    site.place.loans.promise(&format!("swapoff {SWAP_FILE} 2>/dev/null; rm -f {SWAP_FILE}"));
    let to = json!({"size_bytes": 16 << 20, "priority": null});
    let change = json!({"action": "add-swap-file", "target": SWAP_FILE, "to": to});
    let steps = [step("swap-file", change)];
    for kill in [None, Some("kill:1"), Some("kill:2")] {
        if let Some(kill) = kill {
            let plan = site.plan(&steps);
            let mut command = site.command(&["apply", "--yes", "--settle", "0", &plan]);
            let killed = command.env("PAGEWISE_TEST_CRASH", kill).output().unwrap();
            assert_eq!(killed.status.signal(), Some(9), "{kill}: {}", said(&killed));
        } else {
            site.apply_well(&steps);
            let (kib, priority) = swap_file().expect("it is on");
            assert_eq!(kib, (16 << 10) - 4);
            assert!(priority < 0, "{priority}");
            let file = fs::metadata(SWAP_FILE).unwrap();
            assert_eq!((file.mode() & 0o7777, file.len()), (0o600, 16 << 20));
            assert!(file.blocks() * 512 >= file.len(), "it has no holes");
            let verified = site.output(&["verify", "--json"]);
            assert_eq!(verified.status.code(), Some(0), "{}", said(&verified));
            let again = site.apply(&steps);
            assert!(String::from_utf8_lossy(&again.stdout).contains("nothing to do"));
        }
        let undone = site.output(&["undo", "--all"]);
        assert_eq!(undone.status.code(), Some(0), "{kill:?}: {}", said(&undone));
        assert_eq!((swap_file(), Path::new(SWAP_FILE).exists()), (None, false), "{kill:?}");
    }
    fs::write(SWAP_FILE, "somebody's").unwrap();
    let refused = site.apply(&steps);
    fs::remove_file(SWAP_FILE).unwrap();
    assert!(said(&refused).contains("a file, which is not this swap"), "{}", said(&refused));
}

/// A zram swap that somebody else made: the plan switches it off and replaces it, the undo makes it
/// again.
struct TheirSwap {
    number: u32,
}

impl TheirSwap {
    fn new(site: &mut Site) -> Self {
        let number: u32 = read("/sys/class/zram-control/hot_add").parse().unwrap();
        site.place.loans.promise(&format!(
            "swapoff /dev/zram{number}; echo 1 > /sys/block/zram{number}/reset; \
             echo {number} > /sys/class/zram-control/hot_remove"
        ));
        note_made(&Thing::zram(number).unwrap());
        write(&format!("/sys/block/zram{number}/comp_algorithm"), "lz4");
        write(&format!("/sys/block/zram{number}/disksize"), "33554432");
        let device = format!("/dev/zram{number}");
        note_made(&Thing::swap(&device));
        crate::machine::run("mkswap", &[&device]);
        crate::machine::run("swapon", &["-p", "7", &device]);
        Self { number }
    }

    fn device(&self) -> String {
        format!("/dev/zram{}", self.number)
    }

    /// Size, algorithm and line in /proc/swaps, without the used size.
    fn state(&self) -> (String, String, Option<String>) {
        let file = |name: &str| read(&format!("/sys/block/zram{}/{name}", self.number));
        let start = self.device() + " ";
        let line = swaps().into_iter().find(|line| line.starts_with(&start));
        (file("disksize"), file("comp_algorithm"), line)
    }
}

/// Device, size and priority of each swap area.
fn swaps() -> Vec<String> {
    let text = read("/proc/swaps");
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        format!("{} {} {}", words[0], words[2], words[4])
    };
    text.lines().skip(1).map(line).collect()
}

#[test]
fn a_zram_swap_is_replaced_and_comes_back() {
    let mut site = Site::new();
    let theirs = TheirSwap::new(&mut site);
    let before = theirs.state();
    let size = (33_554_432 - 4096).to_string();
    let size: u64 = size.parse().unwrap();
    let zram = json!({
        "compressor": {"algorithm": "lzo-rle"}, "disksize_bytes": 67_108_864, "mem_limit_bytes": 16_777_216, "priority": 50,
    });
    let steps = [
        step("new", json!({"action": "add-zram-swap", "target": null, "to": zram})),
        step(
            "old",
            json!({
                "action": "drain-swap", "target": theirs.device(),
                "from": {"size_bytes": size, "used_bytes": 0, "priority": 7},
            }),
        ),
    ];
    site.apply_well(&steps);
    assert!(site.place.lent.has_zram() && site.place.lent.has_swap());
    let now = swaps();
    assert!(now.iter().any(|line| line.ends_with(" 65532 50")), "{now:?}");
    let (size, _, line) = theirs.state();
    assert_eq!((size.as_str(), line), ("0", None), "its memory is released");
    let again = site.apply(&steps);
    assert!(String::from_utf8_lossy(&again.stdout).contains("nothing to do"), "{}", said(&again));
    assert_eq!(site.output(&["verify"]).status.code(), Some(0));
    let undone = site.output(&["undo", "1"]);
    assert_eq!(undone.status.code(), Some(0), "{}", said(&undone));
    assert_eq!(theirs.state(), before);
    site.place.lent.assert_zram_went_back();
}

#[test]
fn a_zram_swap_gets_another_priority_also_if_it_is_killed_in_between() {
    let mut site = Site::new();
    let theirs = TheirSwap::new(&mut site);
    let before = theirs.state();
    let raise = |from: i32| {
        let change = json!({"action": "set-swap-priority", "target": theirs.device(), "from": from, "to": 60});
        [step("raise", change)]
    };
    site.apply_well(&raise(7));
    let raised = format!("{} 32764 60", theirs.device());
    let (size, algorithm, line) = theirs.state();
    assert_eq!(line.as_ref(), Some(&raised));
    assert_eq!((&size, &algorithm), (&before.0, &before.1), "the device is the same");
    let again = site.apply(&raise(7));
    assert!(String::from_utf8_lossy(&again.stdout).contains("nothing to do"), "{}", said(&again));
    assert_eq!(site.output(&["verify"]).status.code(), Some(0));
    let undone = site.output(&["undo", "1"]);
    assert_eq!(undone.status.code(), Some(0), "{}", said(&undone));
    assert_eq!(theirs.state(), before);
    let stale = site.apply(&raise(8));
    assert!(said(&stale).contains("nothing was changed"), "{}", said(&stale));
    for change in 1..=2 {
        let mut command = site.command(&["apply", "--yes", "--settle", "0", &site.plan(&raise(7))]);
        let killed = command.env("PAGEWISE_TEST_CRASH", format!("kill:{change}")).output().unwrap();
        assert_eq!(killed.status.signal(), Some(9), "change {change}: {}", said(&killed));
        assert_ne!(theirs.state(), before, "change {change}");
        let undone = site.output(&["undo", "--all"]);
        assert_eq!(undone.status.code(), Some(0), "{}", said(&undone));
        assert_eq!(theirs.state(), before, "killed at change {change}");
    }
}

/// A process in a cgroup of 24 MiB that holds more than that until its pipe is closed, and then
/// prints its checksum.
pub(crate) struct Holder {
    child: std::process::Child,
    pipe: Option<fs::File>,
    sum: String,
    _group: crate::held::Group,
}

impl Holder {
    fn new(site: &Site) -> Self {
        let mut bytes = vec![0; 40 << 20];
        fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
        Self::holding(site, &bytes)
    }

    pub(crate) fn holding(site: &Site, bytes: &[u8]) -> Self {
        let (data, pipe) =
            (site.place.folder.path().join("data"), site.place.folder.path().join("pipe"));
        fs::write(&data, bytes).unwrap();
        let script = "mkfifo \"$1\"; sha256sum < \"$0\"";
        let made = Command::new("sh").args(["-c", script]).args([&data, &pipe]).output().unwrap();
        let sum = String::from_utf8(made.stdout).unwrap();
        let group = crate::held::Group::with_limit(24 << 20);
        let held = bytes.len();
        let script = format!("cat \"$0\" \"$1\" | tail -c {held} | sha256sum");
        let mut command = group.command(Path::new("/bin/sh"));
        command.args(["-c", &script]).args([&data, &pipe]).stdout(std::process::Stdio::piped());
        let child = command.spawn().unwrap();
        // opened for writing, so this blocks until the process reads
        let pipe = Some(fs::OpenOptions::new().write(true).open(pipe).unwrap());
        Self { child, pipe, sum, _group: group }
    }

    /// Whether the process still has the data that it was given.
    pub(crate) fn ends_well(mut self) -> bool {
        drop(self.pipe.take());
        let ended = self.child.wait_with_output().unwrap();
        ended.status.success() && String::from_utf8(ended.stdout).unwrap() == self.sum
    }
}

/// Used bytes of a swap area.
pub(crate) fn used(device: &str) -> u64 {
    let text = read("/proc/swaps");
    let line = text.lines().find(|line| line.starts_with(device)).unwrap_or_default();
    line.split_whitespace().nth(3).unwrap_or("0").parse::<u64>().unwrap() * 1024
}

/// Switching the area off would make the kernel kill the process, although memory is free, so it is
/// refused. If new swap is added first, the pages move there, and no data is lost.
#[test]
fn swap_in_use_is_replaced_and_never_at_the_cost_of_a_process() {
    let mut site = Site::new();
    let theirs = TheirSwap::new(&mut site);
    let holder = Holder::new(&site);
    let since = std::time::Instant::now();
    while used(&theirs.device()) < 15 << 20 {
        assert!(since.elapsed().as_secs() < 60, "swapped out: {}", used(&theirs.device()));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let drain = step(
        "old",
        json!({
            "action": "drain-swap", "target": theirs.device(),
            "from": {"size_bytes": 33_554_432 - 4096, "used_bytes": 0, "priority": 7},
        }),
    );
    let refused = site.apply(std::slice::from_ref(&drain));
    let message = said(&refused);
    assert!(message.contains("the kernel would kill its processes"), "{message}");
    assert!(message.contains("nothing was changed"), "{message}");
    assert!(used(&theirs.device()) >= 15 << 20);
    let zram = json!({
        "compressor": {"algorithm": "lzo-rle"}, "disksize_bytes": 67_108_864, "mem_limit_bytes": null,
        "priority": 50,
    });
    let new = step("new", json!({"action": "add-zram-swap", "target": null, "to": zram}));
    site.apply_well(&[new, drain]);
    assert_eq!(used(&theirs.device()), 0);
    let undone = site.output(&["undo", "1"]);
    assert_eq!(undone.status.code(), Some(0), "{}", said(&undone));
    assert!(used(&theirs.device()) >= 10 << 20, "its pages are back");
    assert!(holder.ends_well());
}

/// While apply watches the machine after the last step, another plan is refused, and Ctrl-C undoes
/// this one.
#[test]
fn ctrl_c_undoes_a_plan_and_a_second_one_waits() {
    let site = Site::new();
    let before = site.tree();
    let plan = site.plan(&site.steps());
    let mut command = site.command(&["apply", "--yes", "--settle", "600s", &plan]);
    let child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let since = std::time::Instant::now();
    while !site.etc.join(MASK).is_symlink() {
        assert!(since.elapsed().as_secs() < 120, "the last step");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let refused = site.output(&["apply", "--yes", &plan]);
    assert!(said(&refused).contains("another run of pagewise"), "{}", said(&refused));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", said(&ended));
    assert!(said(&ended).contains("5 changes were undone and read back"), "{}", said(&ended));
    assert_eq!((site.tree(), read(KNOB)), (before, site.knob.clone()));
    assert_eq!(json_of(&site.output(&["undo", "--json"]))["plans"], json!([]));
}

/// What a user asks for: the plan that is written is the one that is applied, and without a file
/// apply makes the same one.
#[test]
fn what_is_asked_for_is_applied_with_a_file_and_without_one() {
    let site = Site::new();
    let other = if read(KNOB) == "432" { "433" } else { "432" };
    let want = format!("vm.extfrag_threshold={other}");
    let path = site.place.folder.path().join("wanted.json");
    let path = path.to_str().unwrap();
    let planned = site.output(&["plan", "--want", &want, "-o", path]);
    assert_eq!(planned.status.code(), Some(0), "{}", said(&planned));
    assert!(said(&planned).contains(&format!("sudo pagewise apply {path}")), "{}", said(&planned));
    let of_file: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let printed = site.output(&["plan", "--want", &want, "--json"]);
    let of_print: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(of_file["id"], of_print["id"]);
    // the file is there, and is not written over
    let again = site.output(&["plan", "--want", &want, "-o", path]);
    assert_eq!(again.status.code(), Some(1), "{}", said(&again));
    for arguments in [vec![path], vec!["--want", &want]] {
        // nobody can be asked
        let asked = site.output(&[&["apply", "--settle", "0"], &arguments[..]].concat());
        assert_eq!(asked.status.code(), Some(1), "{}", said(&asked));
        assert_eq!(read(KNOB), site.knob);
        let applied = site.output(&[&["apply", "--yes", "--settle", "0"], &arguments[..]].concat());
        assert_eq!(applied.status.code(), Some(0), "{}", said(&applied));
        assert_eq!(read(KNOB), other);
        let undone = site.output(&["undo", "--all"]);
        assert_eq!(undone.status.code(), Some(0), "{}", said(&undone));
        assert_eq!(read(KNOB), site.knob);
    }
    let both = site.output(&["apply", "--want", &want, path]);
    assert_eq!(both.status.code(), Some(2), "{}", said(&both));
}
