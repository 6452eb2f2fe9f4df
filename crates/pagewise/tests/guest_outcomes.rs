// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Guests with the kernels of three Debian suites: what a command comes to, whatever it does.
//!
//! They need QEMU, and the network where the kernels are not kept yet, but no root. `cargo xtask
//! test --root` builds the static program and names it in PAGEWISE_STATIC.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::allow_attributes,
    reason = "tests start the program and look at its files"
)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SUITES: [&str; 3] = ["bookworm", "trixie", "sid"];

/// What a guest came to.
struct Ran {
    status: i32,
    out: String,
    err: String,
}

fn program() -> Command {
    let path = std::env::var_os("PAGEWISE_STATIC").expect("run by cargo xtask test --root");
    Command::new(path)
}

fn lab(arguments: &[&str]) -> Command {
    let mut command = program();
    command.args(["lab", "guest"]).args(arguments);
    command
}

fn finish(command: &mut Command) -> Ran {
    let ended = command.output().unwrap();
    Ran {
        status: ended.status.code().unwrap(),
        out: String::from_utf8(ended.stdout).unwrap(),
        err: String::from_utf8(ended.stderr).unwrap(),
    }
}

/// A shell script in a guest of that suite.
fn script(suite: &str, options: &[&str], script: &str) -> Ran {
    let all = [&["--kernel", suite], options, &["--", "sh", "-c", script]].concat();
    finish(&mut lab(&all))
}

/// One run as --json tells it.
fn run(suite: &str, options: &[&str], command: &[&str]) -> serde_json::Value {
    let all = [&["--json", "--kernel", suite], options, &["--"], command].concat();
    let ran = finish(&mut lab(&all));
    let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| {
        panic!("no document: {} {}", ran.out, ran.err);
    });
    document["runs"][0].clone()
}

#[test]
fn guest_of_every_suite_comes_up_in_three_cpu_seconds() {
    for suite in SUITES {
        let run = run(suite, &["--emulate"], &["true"]);
        assert_eq!((&run["outcome"], &run["status"]), (&"exited".into(), &0.into()), "{run:#}");
        let seconds = run["boot_cpu_seconds"].as_f64().unwrap();
        println!("{suite} {} PID 1 after {seconds} CPU-s", run["release"]);
        assert!(seconds <= 3.0, "{suite}: {seconds} CPU-s to PID 1");
        assert!(run["initramfs_bytes"].as_u64().unwrap() <= 16 << 20, "{run:#}");
        assert_eq!(run["troubles"], serde_json::json!([]), "{run:#}");
    }
}

#[test]
fn guest_of_every_suite_has_zram_cgroups_and_pressure() {
    let look = "cat /sys/block/zram0/comp_algorithm /sys/fs/cgroup/job/cgroup.controllers \
                /proc/pressure/memory /proc/self/cgroup && pagewise doctor --interval 0; id -u";
    for suite in SUITES {
        let ran = script(suite, &[], look);
        for wanted in ["lz4", "zstd", "memory", "some avg10=", "0::/job"] {
            assert!(ran.out.contains(wanted), "{suite}: no {wanted}: {} {}", ran.out, ran.err);
        }
        assert!(ran.out.ends_with("0\n"), "{}", ran.out);
    }
}

#[test]
fn guest_passes_output_and_status_on() {
    let ran = script("trixie", &[], "printf 'a\\tb'; echo c >&2; exit 7");
    assert_eq!((ran.status, ran.out.as_str()), (7, "a\tb"), "{}", ran.err);
    assert!(ran.err.starts_with("c\n"), "{}", ran.err);
    assert_eq!(finish(&mut lab(&["--kernel", "trixie", "--", "false"])).status, 1);
    let ran = finish(&mut lab(&["--kernel", "trixie", "--", "nonesuch"]));
    assert!(ran.status == 125 && ran.err.contains("nonesuch: No such file"), "{}", ran.err);
}

#[test]
fn guest_tells_a_crash() {
    let run = run("trixie", &[], &["sh", "-c", "kill -SEGV $$"]);
    assert_eq!((&run["outcome"], &run["signal"]), (&"crashed".into(), &11.into()), "{run:#}");
}

#[test]
fn guest_that_ignores_signals_is_ended_by_the_deadline() {
    let started = Instant::now();
    let stubborn = "trap '' TERM INT HUP; while :; do sleep 1; done";
    let ran = script("trixie", &["--deadline", "40s"], stubborn);
    assert_eq!(ran.status, 124, "{}", ran.err);
    assert!(ran.err.contains("still running the command"), "{}", ran.err);
    assert!(started.elapsed() < Duration::from_secs(80));
}

#[test]
fn guest_panic_is_told_with_the_kernels_words() {
    for suite in SUITES {
        let ran = script(suite, &[], "echo c > /proc/sysrq-trigger; sleep 60");
        assert_eq!(ran.status, 125, "{suite}: {}", ran.err);
        assert!(ran.err.contains("the kernel panicked: sysrq triggered crash"), "{}", ran.err);
    }
}

#[test]
fn guest_that_fills_memory_is_told_from_a_crash() {
    let run = run("trixie", &["--memory", "160M"], &["tail", "/dev/zero"]);
    assert_eq!(run["outcome"], "out_of_memory", "{run:#}");
    assert!(run["kills"].as_u64().unwrap() >= 1, "{run:#}");
    let log = run["log"].to_string();
    assert!(log.contains("Out of memory"), "{log}");
}

#[test]
fn guest_kills_what_the_command_leaves() {
    let run = run("trixie", &[], &["sh", "-c", "sleep 1000 & setsid sleep 1000 & exit 0"]);
    assert_eq!((&run["outcome"], &run["left"]), (&"exited".into(), &2.into()), "{run:#}");
}

#[test]
fn guest_with_too_little_memory_is_refused_or_told() {
    let ran = script("trixie", &["--memory", "32M"], "true");
    assert!(ran.status == 1 && ran.err.contains("kernel and initramfs alone take"), "{}", ran.err);
    // Enough for the images, too little to live: whatever it comes to, it comes to an end.
    let ran = script("trixie", &["--memory", "90M", "--deadline", "30s"], "true");
    assert!([0, 124, 125, 137].contains(&ran.status), "{} {}", ran.status, ran.err);
}

#[test]
fn guest_brings_files_in_and_out() {
    let folder = tempfile::tempdir().unwrap();
    let sent = folder.path().join("sent");
    let bytes: Vec<u8> = (0..200_000_u32).flat_map(|n| (n * 7919).to_le_bytes()).collect();
    std::fs::write(&sent, &bytes).unwrap();
    let out = folder.path().join("out");
    let options =
        ["--file", &format!("{}:/root/x", sent.display()), "--out", out.to_str().unwrap()];
    let ran = script("trixie", &options, "mkdir /out/d; cp x /out/d/y; : > /out/empty");
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(std::fs::read(out.join("d/y")).unwrap() == bytes);
    assert_eq!(std::fs::read(out.join("empty")).unwrap(), b"");
}

#[test]
fn guest_records_a_host_that_opens_here() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let options = ["--out", out.to_str().unwrap()];
    let ran = script("sid", &options, "pagewise capture --quiet --folder /out/host");
    assert_eq!(ran.status, 0, "{}", ran.err);
    let host = out.join("host");
    let report = finish(program().args(["--root", host.to_str().unwrap(), "status"]));
    assert!(report.status == 0 && report.out.contains("RAM"), "{} {}", report.out, report.err);
}

/// Four disks: what is written to an image stays only where that was asked for.
#[test]
fn guest_of_every_suite_has_disks() {
    let folder = tempfile::tempdir().unwrap();
    let image = |name: &str| folder.path().join(name);
    let work = "mke2fs /dev/vda 2>&1 > /dev/null; mkdir /m; mount -t ext4 /dev/vda /m && echo a > /m/a; \
                for disk in b c d; do cat /sys/block/vd$disk/size; head -c 4 /dev/vd$disk; \
                printf new | dd of=/dev/vd$disk 2> /dev/null; echo; done; cat /m/a";
    for suite in SUITES {
        for name in ["copied", "read", "written"] {
            std::fs::write(image(name), [&b"old!"[..], &[0; 65532]].concat()).unwrap();
        }
        let (copied, read) = (image("copied"), format!("{},ro", image("read").display()));
        let written = format!("{},rw", image("written").display());
        let options = ["--disk", "64M", "--disk", copied.to_str().unwrap(), "--disk", &read];
        let ran = script(suite, &[&options[..], &["--disk", &written]].concat(), work);
        let expected = "128\nold!\n128\nold!\n128\nold!\na\n";
        assert_eq!((ran.status, ran.out.as_str()), (0, expected), "{suite}: {}", ran.err);
        let start = |name: &str| std::fs::read(image(name)).unwrap()[..4].to_vec();
        assert_eq!(
            (start("copied"), start("read")),
            (b"old!".to_vec(), b"old!".to_vec()),
            "{suite}"
        );
        assert_eq!(start("written"), b"new!", "{suite}");
    }
}

#[test]
fn guest_without_qemu_says_what_to_install() {
    let ran = finish(lab(&["--kernel", "trixie", "--", "true"]).env("PATH", "/nowhere"));
    assert_eq!(ran.status, 1);
    assert!(ran.err.contains("apt-get install qemu-system-x86"), "{}", ran.err);
}

#[test]
fn guest_counts_repeat_within_one_percent() {
    let sum = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";
    let all = ["--json", "--kernel", "bookworm", "--count", "--", "sh", "-c", sum];
    let ran = finish(&mut lab(&all));
    let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let runs = document["runs"].as_array().unwrap();
    let counts: Vec<u64> =
        runs.iter().map(|run| run["counted"]["ticks"].as_u64().unwrap()).collect();
    println!("instructions: {counts:?}");
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(counts.len() == 5 && *least > 1_000_000, "{counts:?}");
    assert!((most - least) * 100 <= *least, "{counts:?}");
}

/// A cache of its own with the kernels of the shared one: what other tests run is not seen in it.
fn own_cache() -> tempfile::TempDir {
    let shared = std::env::var_os("PAGEWISE_CACHE").expect("set by cargo xtask test");
    let shared = Path::new(&shared).join("kernels");
    if !shared.join("bookworm").exists() {
        assert!(program().args(["lab", "cache", "fetch", "bookworm"]).status().unwrap().success());
    }
    let own = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(shared, own.path().join("kernels")).unwrap();
    own
}

/// A runner whose guest would sleep for a minute.
fn sleeper(cache: &Path) -> Command {
    let mut runner = lab(&["--kernel", "bookworm", "--", "sleep", "60"]);
    runner.env("PAGEWISE_CACHE", cache).stdout(Stdio::null());
    runner
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Processes whose command line names this folder.
fn processes(folder: &Path) -> usize {
    let folder = folder.to_string_lossy().into_owned();
    let all = names(Path::new("/proc")).into_iter();
    let lines = all.filter_map(|pid| std::fs::read(format!("/proc/{pid}/cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(&folder)).count()
}

#[test]
fn guest_killed_at_any_time_leaves_nothing() {
    let cache = own_cache();
    let runs = cache.path().join("runs");
    let mut seen = 0;
    let mut told = String::new();
    for pause in (0..20).map(|n| n * 217 % 4000) {
        let mut runner = sleeper(cache.path()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(pause));
        runner.kill().unwrap();
        told += &String::from_utf8(runner.wait_with_output().unwrap().stderr).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(processes(&runs), 0, "after {pause} ms");
        seen = seen.max(if runs.exists() { names(&runs).len() } else { 0 });
    }
    let mut last = lab(&["--kernel", "bookworm", "--", "true"]);
    let last = finish(last.env("PAGEWISE_CACHE", cache.path()));
    assert_eq!((last.status, names(&runs)), (0, Vec::new()), "{}", last.err);
    told += &last.err;
    assert!(seen > 0 && told.contains("left by a run that was killed"), "{told}");
}

#[test]
fn guest_stopped_by_the_user_leaves_nothing() {
    let cache = own_cache();
    let runs = cache.path().join("runs");
    let runner = sleeper(cache.path()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let pid = rustix::process::Pid::from_raw(i32::try_from(runner.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = runner.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(130) && told.contains("stopped by the user"), "{told}");
    assert_eq!((processes(&runs), names(&runs)), (0, Vec::new()));
}
