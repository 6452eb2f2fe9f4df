// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Guests whose PID 1 is systemd: that the system is a whole one, and that a command comes to the
//! same outcomes in it as in the minimal one.
//!
//! They need QEMU, and the network where kernel and userland are not kept yet, but no root.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::boot::{Ran, finish, lab, program};
use serde_json::json;

const SYSTEMD: &str = "--userland=systemd";
const SUITES: [&str; 3] = ["bookworm", "trixie", "sid"];

fn script(options: &[&str], script: &str) -> Ran {
    crate::boot::script(&[&[SYSTEMD], options].concat(), script)
}

fn run(options: &[&str], command: &[&str]) -> serde_json::Value {
    crate::boot::run(&[&[SYSTEMD], options].concat(), command)
}

/// A file for a guest, and the option that puts it there.
fn file(folder: &Path, to: &str, contents: &str) -> String {
    let from = folder.join(to.replace('/', "_"));
    fs::write(&from, contents).unwrap();
    format!("--file={}:{to}", from.display())
}

/// A unit that the system is to start, and the options that bring it about: a link cannot be sent.
fn unit(folder: &Path, name: &str, unit: &str) -> [String; 2] {
    let wanted = format!("/etc/systemd/system/multi-user.target.d/{name}.conf");
    let wants = format!("[Unit]\nWants={name}\n");
    [file(folder, &wanted, &wants), file(folder, &format!("/etc/systemd/system/{name}"), unit)]
}

#[test]
fn guest_systemd_of_every_suite_comes_up_whole() {
    for suite in SUITES {
        let look =
            "systemctl is-system-running; cat /proc/1/comm; redis-cli ping; swapon --show=NAME";
        let userland = format!("--userland=systemd/{suite}");
        let ran = crate::boot::script(&[&userland, "--kernel", suite], look);
        assert_eq!(ran.out, "running\nsystemd\nPONG\nNAME\n/dev/zram0\n", "{suite}: {}", ran.err);
        assert!(ran.status == 0 && !ran.err.contains("guest:"), "{suite}: {}", ran.err);
    }
}

#[test]
fn guest_systemd_runs_under_another_kernel_than_its_own() {
    for suite in ["bookworm", "sid"] {
        let ran = script(&["--kernel", suite], "systemctl is-system-running");
        assert_eq!((ran.status, ran.out.as_str()), (0, "running\n"), "{suite}: {}", ran.err);
    }
}

#[test]
fn guest_systemd_makes_zram_swap_as_its_file_says() {
    let folder = tempfile::tempdir().unwrap();
    let conf = "[zram0]\nzram-size = 100\ncompression-algorithm = zstd\nswap-priority = 77\n";
    let conf = file(folder.path(), "/etc/systemd/zram-generator.conf", conf);
    let look = "swapon --show=NAME,SIZE,PRIO --bytes --noheadings --raw; \
                cat /sys/block/zram0/comp_algorithm";
    let ran = script(&[&conf], look);
    let (swap, algorithms) = ran.out.split_once('\n').unwrap();
    assert_eq!(swap, format!("/dev/zram0 {} 77", (100 << 20) - 4096), "{}", ran.err);
    assert!(algorithms.contains("[zstd]"), "{algorithms}");
}

#[test]
fn guest_systemd_forgets_what_a_run_wrote_and_gives_each_command_a_cgroup_of_its_own() {
    let mark = "/var/lib/mark";
    let first = format!("test -e {mark} || echo absent; redis-cli set a b; redis-cli save");
    let write = format!("{first}; dd if=/dev/zero of={mark} bs=1M count=20 conv=fsync; ls {mark}");
    let ran = script(&[], &write);
    assert_eq!(ran.out, format!("absent\nOK\nOK\n{mark}\n"), "{}", ran.err);
    let look = "own=$(cut -d: -f3 /proc/self/cgroup); echo $own; cd /sys/fs/cgroup/$own; \
                cat cgroup.controllers memory.pressure; cd ..; cat memory.pressure; \
                grep -c . cgroup.procs; tty";
    let ran = script(&[], &format!("test -e {mark} || echo absent; redis-cli get a; {look}"));
    let lines: Vec<&str> = ran.out.lines().collect();
    let job = "/system.slice/pagewise-job.service/job";
    assert_eq!(lines[..3], ["absent", "", job], "{} {}", ran.out, ran.err);
    assert!(lines[3].split(' ').any(|controller| controller == "memory"), "{}", ran.out);
    assert_eq!(ran.out.matches("some avg10=").count(), 2, "{}", ran.out);
    assert!(ran.out.ends_with("0\nnot a tty\n"), "{}", ran.out);
    // What is kept is held against its hash: a disk that a run had written to would be damaged.
    let listed = finish(program().args(["lab", "cache", "list", "--json"]));
    let listed: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
    let userlands = listed["userlands"].as_array().unwrap();
    let trixie = userlands.iter().find(|one| one["suite"] == "trixie").unwrap();
    assert!(trixie["release"].as_str().unwrap().starts_with("systemd "), "{trixie:#}");
    assert!(trixie["size"].as_u64().unwrap() <= 500 << 20, "{trixie:#}");
}

#[test]
fn guest_systemd_passes_output_status_and_files_on() {
    let folder = tempfile::tempdir().unwrap();
    let sent = file(folder.path(), "/opt/a/sent", "contents\n");
    let out = folder.path().join("out");
    let options = [sent.as_str(), "--out", out.to_str().unwrap(), "--disk", "64M"];
    let job = "cat /opt/a/sent; echo c >&2; stat -c %a /opt/a/sent > /out/mode; \
               (cat /sys/block/vda/size; findmnt --noheadings --output SOURCE /) > /out/disks; \
               sleep 1000 & setsid sleep 1000 & exit 7";
    let ran = script(&options, job);
    assert_eq!((ran.status, ran.out.as_str()), (7, "contents\n"), "{}", ran.err);
    assert!(ran.err.lines().any(|line| line == "c"), "{}", ran.err);
    assert!(ran.err.contains("the command left 2 processes"), "{}", ran.err);
    assert_eq!(fs::read_to_string(out.join("mode")).unwrap(), "644\n");
    // The user's disks keep their names.
    assert_eq!(fs::read_to_string(out.join("disks")).unwrap(), "131072\n/dev/vdb\n");
}

#[test]
fn guest_systemd_tells_crash_and_absence() {
    let crashed = run(&[], &["sh", "-c", "kill -SEGV $$"]);
    assert_eq!((&crashed["outcome"], &crashed["signal"]), (&json!("crashed"), &json!(11)));
    let absent = run(&[], &["nonesuch"]);
    assert_eq!(absent["outcome"], "not_started", "{absent:#}");
    assert!(absent["why"].as_str().unwrap().contains("nonesuch"), "{absent:#}");
}

#[test]
fn guest_systemd_is_ended_by_the_deadline() {
    let ran = script(&["--deadline", "90s"], "trap '' TERM INT HUP; while :; do sleep 1; done");
    assert_eq!(ran.status, 124, "{}", ran.err);
    assert!(ran.err.contains("still running the command"), "{}", ran.err);
}

#[test]
fn guest_systemd_panic_is_told_with_the_kernels_words() {
    let ran = script(&[], "echo c > /proc/sysrq-trigger; sleep 60");
    assert_eq!(ran.status, 125, "{}", ran.err);
    assert!(ran.err.contains("the kernel panicked: sysrq triggered crash"), "{}", ran.err);
}

/// The machine has no swap here, or compressing it all would take a long while.
#[test]
fn guest_systemd_that_fills_memory_is_told_from_a_crash() {
    let run = run(&[], &["sh", "-c", "swapoff -a; exec tail /dev/zero"]);
    assert_eq!(run["outcome"], "out_of_memory", "{run:#}");
    assert!(run["kills"].as_u64().unwrap() >= 1, "{run:#}");
}

#[test]
fn guest_systemd_lost_with_its_runner_ends_early() {
    let ran = script(&[], "echo +; kill -KILL $PPID; sleep 100");
    assert_eq!(ran.status, 125, "{}", ran.err);
    assert!(ran.err.contains("the machine ended early"), "{}", ran.err);
}

#[test]
fn guest_systemd_tells_which_units_failed() {
    let folder = tempfile::tempdir().unwrap();
    let unit = "[Service]\nType=oneshot\nExecStart=sh -c 'echo no luck; exit 3'\n";
    let [wanted, unit] = self::unit(folder.path(), "broken.service", unit);
    let run = run(&[&wanted, &unit], &["systemctl", "is-system-running"]);
    assert_eq!((&run["outcome"], &run["status"]), (&json!("exited"), &json!(1)), "{run:#}");
    assert_eq!(run["troubles"].as_array().unwrap().len(), 1, "{run:#}");
    let told = run["troubles"][0].as_str().unwrap();
    assert!(told.starts_with("broken.service failed (exit-code)"), "{told}");
}

#[test]
fn guest_systemd_that_does_not_finish_starting_runs_the_command_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let unit = "[Service]\nType=oneshot\nExecStart=sleep 1000\n";
    let [wanted, unit] = self::unit(folder.path(), "slow.service", unit);
    let run = run(&[&wanted, &unit, "--deadline", "120s"], &["true"]);
    assert_eq!((&run["outcome"], &run["status"]), (&json!("exited"), &json!(0)), "{run:#}");
    let told = run["troubles"].to_string();
    assert!(told.contains("still starting after 60 s") && told.contains("slow.service"), "{told}");
}

/// A cache of its own with what the shared one holds; its userland may be damaged.
fn own_cache() -> (tempfile::TempDir, PathBuf) {
    let shared = std::env::var_os("PAGEWISE_CACHE").expect("set by cargo xtask test");
    let shared = Path::new(&shared);
    if !shared.join("userlands/trixie").exists() {
        let fetch = ["lab", "cache", "fetch", "systemd/trixie"];
        assert!(program().args(fetch).status().unwrap().success());
    }
    let own = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(shared.join("kernels"), own.path().join("kernels")).unwrap();
    let entry = own.path().join("userlands/trixie");
    fs::create_dir_all(&entry).unwrap();
    for file in ["disk", "manifest.json"] {
        fs::copy(shared.join("userlands/trixie").join(file), entry.join(file)).unwrap();
    }
    let disk = entry.join("disk");
    (own, disk)
}

#[test]
fn guest_systemd_damaged_in_the_cache_is_noticed() {
    let (cache, disk) = own_cache();
    let file = fs::File::options().write(true).open(&disk).unwrap();
    file.write_all_at(b"damage", 40 << 20).unwrap();
    let listed =
        finish(program().args(["lab", "cache", "list"]).env("PAGEWISE_CACHE", cache.path()));
    assert!(listed.out.contains("damaged: fetched again"), "{}", listed.out);
    // No apt: it cannot be fetched, and a damaged disk is not what is used instead.
    let tools = cache.path().join("tools");
    fs::create_dir(&tools).unwrap();
    for name in ["qemu-system-x86_64", "setpriv"] {
        std::os::unix::fs::symlink(Path::new("/usr/bin").join(name), tools.join(name)).unwrap();
    }
    let mut command = lab(&[SYSTEMD, "--", "true"]);
    let ran = finish(command.env("PAGEWISE_CACHE", cache.path()).env("PATH", &tools));
    assert_eq!(ran.status, 1, "{}", ran.err);
    assert!(ran.err.contains("systemd/trixie: the cached userland is damaged"), "{}", ran.err);
    assert!(ran.err.contains("apt-get is not installed"), "{}", ran.err);
}

#[test]
fn guest_systemd_of_a_suite_without_its_packages_is_refused() {
    for (suite, why) in [("experimental", "systemd-zram-generator"), ("nonesuch", "Release")] {
        let ran = finish(program().args(["lab", "cache", "fetch", &format!("systemd/{suite}")]));
        assert_eq!(ran.status, 1, "{}", ran.err);
        let named = format!("no userland systemd/{suite}: apt");
        assert!(ran.err.contains(&named) && ran.err.contains(why), "{}", ran.err);
    }
    let ran = finish(program().args(["lab", "cache", "fetch", "systemd/../etc"]));
    assert_eq!(ran.status, 2, "{}", ran.err);
}
