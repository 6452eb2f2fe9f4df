// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Guests whose PID 1 is systemd: the system is complete, and a command ends in it in the same way
//! as in the minimal system.
//!
//! They need QEMU, and the network for kernels and userlands that are not in the cache, but no
//! root.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::boot::{ProgramRun, SAY, UNTIL_SENT, answer, answer_of_success, finish, lab, program};
use crate::caches;
use serde_json::json;

const SYSTEMD: &str = "--userland=systemd";

fn script(options: &[&str], script: &str) -> ProgramRun {
    crate::boot::script(&[&[SYSTEMD], options].concat(), script)
}

fn run(options: &[&str], command: &[&str]) -> (serde_json::Value, String) {
    crate::boot::run(&[&[SYSTEMD], options].concat(), command)
}

/// Writes a file for a guest; returns the option that copies it there.
fn file(folder: &Path, to: &str, contents: &str) -> String {
    let from = folder.join(to.replace('/', "_"));
    fs::write(&from, contents).unwrap();
    format!("--file={}:{to}", from.display())
}

/// A unit that the guest starts, and the options for it: links cannot be sent, so a drop-in
/// requests the unit.
fn unit(folder: &Path, name: &str, unit: &str) -> [String; 2] {
    let requested = format!("/etc/systemd/system/multi-user.target.d/{name}.conf");
    let wants = format!("[Unit]\nWants={name}\n");
    [file(folder, &requested, &wants), file(folder, &format!("/etc/systemd/system/{name}"), unit)]
}

/// Checks of a complete system; each output has a name.
const LOOK: &str = r#"
say running systemctl is-system-running
say pid-1 cat /proc/1/comm
say redis redis-cli ping
say swap swapon --show=NAME --noheadings
"#;

/// Checks that systemd, redis and zram run, and that no problem was reported.
#[track_caller]
fn assert_whole(session: &str) {
    for (name, expected) in [
        ("running", "running\n"),
        ("pid-1", "systemd\n"),
        ("redis", "PONG\n"),
        ("swap", "/dev/zram0\n"),
    ] {
        assert_eq!(answer(session, name), (expected, "0"), "{name}");
    }
}

/// All checks of the first system, and what it leaves for the second one to find.
const FIRST: &str = r#"
say zram swapon --show=NAME,SIZE,PRIO --bytes --noheadings --raw
say algorithms cat /sys/block/zram0/comp_algorithm
own=$(cut -d: -f3 /proc/self/cgroup)
say group echo $own
say controllers cat /sys/fs/cgroup/$own/cgroup.controllers
say pressure cat /sys/fs/cgroup/$own/memory.pressure
say pressure-above cat /sys/fs/cgroup/$own/../memory.pressure
say processes-above grep -c . /sys/fs/cgroup/$own/../cgroup.procs
say tty tty
say sent cat /opt/a/sent
stat -c %a /opt/a/sent > /out/mode
(cat /sys/block/vda/size; findmnt --noheadings --output SOURCE /) > /out/disks
say absent test ! -e /var/lib/mark
say set redis-cli set a b
say save redis-cli save
say mark dd if=/dev/zero of=/var/lib/mark bs=1M count=20 conv=fsync status=none
say marked ls /var/lib/mark
echo only on standard error >&2
sleep 1000 & setsid sleep 1000 &
exit 7
"#;

/// The first system is checked in full, and the second one must not contain what the first left. In
/// the second one a unit fails, and a signal ends the command.
#[test]
fn guest_systemd_is_a_whole_system_and_the_next_one_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let (session, err) = first_system(folder.path(), &out);
    assert_whole(&session);
    zram_swap_is_as_its_file_says(&session);
    the_command_has_a_cgroup_of_its_own(&session);
    files_come_in_and_out(&session, &out);
    assert!(err.lines().any(|line| line == "only on standard error"), "{err}");
    assert!(err.contains("the command left 2 processes") && !err.contains("guest:"), "{err}");
    for name in ["absent", "set", "save", "mark"] {
        answer_of_success(&session, name);
    }
    assert_eq!(answer(&session, "marked"), ("/var/lib/mark\n", "0"));
    the_cache_is_as_it_was();
    second_system(folder.path());
}

fn first_system(folder: &Path, out: &Path) -> (String, String) {
    let conf = "[zram0]\nzram-size = 100\ncompression-algorithm = zstd\nswap-priority = 77\n";
    let conf = file(folder, "/etc/systemd/zram-generator.conf", conf);
    let sent = file(folder, "/opt/a/sent", "contents\n");
    let options = [&conf, sent.as_str(), "--out", out.to_str().unwrap(), "--disk", "64M"];
    let ran = script(&options, &format!("{SAY}{LOOK}{FIRST}"));
    assert_eq!(ran.status, 7, "{} {}", ran.out, ran.err);
    (ran.out, ran.err)
}

fn zram_swap_is_as_its_file_says(session: &str) {
    let swap = answer_of_success(session, "zram");
    assert_eq!(swap, format!("/dev/zram0 {} 77\n", (100 << 20) - 4096));
    let algorithms = answer_of_success(session, "algorithms");
    assert!(algorithms.contains("[zstd]"), "{algorithms}");
}

fn the_command_has_a_cgroup_of_its_own(session: &str) {
    let job = "/system.slice/pagewise-job.service/pagewise-lab-job\n";
    assert_eq!(answer(session, "group"), (job, "0"));
    let controllers = answer_of_success(session, "controllers");
    assert!(controllers.split_whitespace().any(|name| name == "memory"), "{controllers}");
    for name in ["pressure", "pressure-above"] {
        let pressure = answer_of_success(session, name);
        assert!(pressure.contains("some avg10="), "{name}: {pressure}");
    }
    assert_eq!(answer(session, "processes-above").0, "0\n");
    assert_eq!(answer(session, "tty").0, "not a tty\n");
}

/// Disks of `--disk` keep their names, because the system's own disk is the last one.
fn files_come_in_and_out(session: &str, out: &Path) {
    assert_eq!(answer(session, "sent"), ("contents\n", "0"));
    assert_eq!(fs::read_to_string(out.join("mode")).unwrap(), "644\n");
    assert_eq!(fs::read_to_string(out.join("disks")).unwrap(), "131072\n/dev/vdb\n");
}

/// Cached files are compared with their hashes: a disk that a run had written to would be damaged.
fn the_cache_is_as_it_was() {
    let listed = finish(program().args(["lab", "cache", "list", "--json"]));
    let listed: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
    let userlands = listed["userlands"].as_array().unwrap();
    let trixie = userlands.iter().find(|one| one["suite"] == "trixie").unwrap();
    assert!(trixie["release"].as_str().unwrap().starts_with("systemd "), "{trixie:#}");
    assert!(trixie["size"].as_u64().unwrap() <= 500 << 20, "{trixie:#}");
}

fn second_system(folder: &Path) {
    let unit = "[Service]\nType=oneshot\nExecStart=sh -c 'echo no luck; exit 3'\n";
    let [wanted, unit] = self::unit(folder, "broken.service", unit);
    let look = format!(
        "{SAY}say absent test ! -e /var/lib/mark\nsay key redis-cli get a\n\
         say degraded systemctl is-system-running\nkill -SEGV $$"
    );
    let (run, session) = run(&[&wanted, &unit], &["sh", "-c", &look]);
    answer_of_success(&session, "absent");
    assert_eq!(answer(&session, "key"), ("\n", "0"));
    assert_eq!(answer(&session, "degraded"), ("degraded\n", "1"));
    assert_eq!((&run["outcome"], &run["signal"]), (&json!("crashed"), &json!(11)), "{run:#}");
    assert_eq!(run["troubles"].as_array().unwrap().len(), 1, "{run:#}");
    let listed = run["troubles"][0].as_str().unwrap();
    assert!(listed.starts_with("broken.service failed (exit-code)"), "{listed}");
}

/// The command still runs, and its own deadline starts with it.
#[test]
fn guest_systemd_that_does_not_finish_starting_runs_the_command_until_its_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let unit = "[Service]\nType=oneshot\nExecStart=sleep 1000\n";
    let [wanted, unit] = self::unit(folder.path(), "slow.service", unit);
    let stubborn = "trap '' TERM INT HUP; echo runs; while :; do sleep 1; done";
    let options = [&wanted, unit.as_str(), "--start-deadline", "100s", "--deadline", "5s"];
    let ran = script(&options, stubborn);
    assert_eq!((ran.status, ran.out.as_str()), (124, "runs\n"), "{}", ran.err);
    assert!(ran.err.contains("still running the command after 5 s"), "{}", ran.err);
    let listed = ran.err.lines().find(|line| line.contains("still starting after 50 s"));
    assert!(listed.is_some_and(|line| line.contains("slow.service")), "{}", ran.err);
}

/// There is no swap, because compressing all memory would take long. Dropped pages must be read
/// again within half a second, or the kernel kills; otherwise it would try for a minute.
#[test]
fn guest_systemd_that_fills_memory_is_told_from_a_crash() {
    let fill = "swapoff -a; echo 500 > /sys/kernel/mm/lru_gen/min_ttl_ms; \
                echo 1 > /proc/sys/vm/overcommit_memory; \
                exec dd if=/dev/zero of=/dev/null bs=1G count=1";
    let (run, _) = run(&["--memory", "192M"], &["sh", "-c", fill]);
    assert_eq!(run["outcome"], "out_of_memory", "{run:#}");
    assert!(run["kills"].as_u64().unwrap() >= 1, "{run:#}");
}

#[test]
fn guest_systemd_lost_with_its_runner_ends_early() {
    // wait, because a runner that is killed at once could not even report that the command has
    // begun
    let script = format!("{UNTIL_SENT}until_all_is_sent; kill -KILL $PPID; sleep 100");
    let (run, _) = run(&[], &["sh", "-c", &script]);
    assert_eq!(run["outcome"], "failed", "{run:#}");
    assert!(run["command_seconds"].is_number(), "the command ran: {run:#}");
}

/// Userlands and kernels of the other suites.
mod other_suites {
    use super::*;

    /// Checks that the userland of a suite boots completely with its own kernel.
    fn comes_up_whole(suite: &str) {
        let userland = format!("--userland=systemd/{suite}");
        let options = [&userland, "--kernel", suite];
        let ran = crate::boot::script(&options, &format!("{SAY}{LOOK}"));
        assert_whole(&ran.out);
        assert!(ran.status == 0 && !ran.err.contains("guest:"), "{suite}: {}", ran.err);
    }

    #[test]
    fn guest_systemd_of_bookworm_comes_up_whole() {
        comes_up_whole("bookworm");
    }

    #[test]
    fn guest_systemd_of_sid_comes_up_whole() {
        comes_up_whole("sid");
    }

    /// A system that is not running, or that has a failed unit, would be reported as a problem.
    #[test]
    fn guest_systemd_under_an_older_kernel_tells_absence() {
        let (absent, _) = run(&["--kernel", "bookworm"], &["nonesuch"]);
        assert_eq!(absent["release"], caches::release("bookworm"), "{absent:#}");
        assert_eq!(absent["outcome"], "not_started", "{absent:#}");
        assert!(absent["why"].as_str().unwrap().contains("nonesuch"), "{absent:#}");
        assert_eq!(absent["troubles"], json!([]), "{absent:#}");
    }

    #[test]
    fn guest_systemd_under_a_newer_kernel_panics_with_the_kernels_words() {
        let look = "systemctl is-system-running; uname -r; until_all_is_sent; \
                    echo c > /proc/sysrq-trigger; sleep 60";
        let ran = script(&["--kernel", "sid"], &format!("{UNTIL_SENT}{look}"));
        assert_eq!(ran.out, format!("running\n{}\n", caches::release("sid")), "{}", ran.err);
        assert_eq!(ran.status, 125, "{}", ran.err);
        assert!(ran.err.contains("the kernel panicked: sysrq triggered crash"), "{}", ran.err);
    }
}

/// A separate copy of the shared cache, whose userland the test may damage.
fn own_cache() -> (tempfile::TempDir, PathBuf) {
    let shared = caches::shared();
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
    // Without apt it cannot be fetched again, and the damaged disk must not be used instead.
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
