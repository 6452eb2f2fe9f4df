// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sampling memory that only root can arrange or read: swapped, merged, on devices, of other users.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::machine::{Loans, Thing, note_made, output_as_nobody, run, write};
use pagewise_observe::HostRoot;
use pagewise_sample::{
    Choice, OpenError, Options, Origin, Sample, Sharing, Target as Source, WhyUnread, open,
};
use pagewise_testkit::{Target, read_process, rollup, target_program as program};

const MIB: u64 = 256;

fn looked(source: &Source, choice: Choice) -> (Vec<u8>, Sample) {
    let host = HostRoot::live().expect("a root");
    let options = Options { choice, others_allowed: true, ..Options::default() };
    let mut sampler = open(&host, source, options).expect("something to look at");
    let mut bytes = Vec::new();
    sampler.run(&mut [|_: &Origin, page: &[u8]| bytes.extend_from_slice(page)]);
    (bytes, sampler.finish())
}

/// KiB of anonymous and shared memory of a process, as its proportional share. Files are left out,
/// because the number of processes that map a library changes all the time.
fn pss(pid: u32) -> u64 {
    rollup(pid, "Pss_Anon") + rollup(pid, "Pss_Shmem")
}

/// Values that sampling should or should not change: KiB of anonymous memory of the host and of the
/// targets (their proportional size), KiB in swap, minor and major faults of this thread.
fn state(pids: &[u32]) -> [i64; 5] {
    let signed = |number: u64| i64::try_from(number).expect("a size");
    let sum = |of: &dyn Fn(u32) -> u64| pids.iter().map(|pid| signed(of(*pid))).sum();
    let meminfo = std::fs::read_to_string("/proc/meminfo").expect("meminfo");
    let anon = meminfo.lines().find_map(|line| line.strip_prefix("AnonPages:"));
    let anon = anon.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).expect("KiB");
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("stat");
    let words: Vec<&str> = stat.rsplit(')').next().expect("a name").split_whitespace().collect();
    let fault = |at: usize| words.get(at).and_then(|word| word.parse().ok()).expect("faults");
    [anon, sum(&pss), sum(&|pid| rollup(pid, "Swap")), fault(7), fault(9)]
}

/// Samples every page several times, and prints the changes: a row of the table in
/// docs/measured/scan.md, which was made with PAGEWISE_LOOKS=31. It prints medians, and for
/// comparison the changes of the host's memory during equally long pauses after every fifth time,
/// because the rest of the machine keeps changing.
fn prints_what_changes(what: &str, pids: &[u32], source: &Source) {
    let times =
        std::env::var("PAGEWISE_LOOKS").map_or(5, |times| times.parse().expect("how often"));
    let host = HostRoot::live().expect("a root");
    let (mut changes, mut idle, mut disturbed) = (Vec::new(), Vec::new(), Vec::new());
    let changed =
        |before: [i64; 5], after: [i64; 5]| [0, 1, 2, 3, 4].map(|at| after[at] - before[at]);
    for number in 0..times {
        let (before, begun) = (state(pids), Instant::now());
        let options = Options { choice: Choice::Exact, others_allowed: true, ..Options::default() };
        let mut sampler = open(&host, source, options).expect("something to look at");
        sampler.run(&mut [|_: &Origin, _: &[u8]| ()]);
        disturbed.push(sampler.finish().disturbed);
        let (after, lasted) = (state(pids), begun.elapsed());
        changes.push(changed(before, after));
        if number % 5 == 0 {
            std::thread::sleep(lasted);
            idle.push(changed(after, state(pids)));
        }
    }
    let median = |of: &[[i64; 5]], at: usize| {
        let mut all: Vec<i64> = of.iter().map(|change| change[at]).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    let [anon, pss, swap, minor, major] = [0, 1, 2, 3, 4].map(|at| median(&changes, at));
    let (idle, last) = (median(&idle, 0), disturbed[times - 1]);
    let (unshared, referenced) = (last.unshared_pages.get(), last.referenced_pages.get());
    println!(
        "| {what} | {anon:+} ({idle:+}) | {pss:+} | {swap:+} | {minor}, {major} | {unshared} | {referenced} |"
    );
    assert!(pss.abs() < 512 && swap.abs() < 512, "{what}: {changes:?}");
    assert_eq!(major, 0, "{what}: {changes:?}");
}

/// Creates a memory cgroup with a limit; returns its path below the root of the hierarchy.
fn limited_group(loans: &mut Loans, limit: &str) -> (String, String) {
    let (mount, file) = if Path::new("/sys/fs/cgroup/memory").exists() {
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
    } else {
        ("/sys/fs/cgroup", "memory.max")
    };
    let path = format!("/pagewise-test-{}", std::process::id());
    let folder = format!("{mount}{path}");
    // processes that were in it may take a moment to vanish
    loans.promise(&format!("for i in $(seq 600); do rmdir '{folder}' && break; sleep 0.1; done"));
    note_made(&Thing::Path(folder.clone().into()));
    run("mkdir", &[&folder]);
    write(&format!("{folder}/{file}"), limit);
    (folder, path)
}

#[test]
fn swapped_pages_stay_swapped() {
    let mut loans = Loans::new();
    let device = format!("/dev/zram{}", loans.zram("128M"));
    run("mkswap", &[&device]);
    loans.swap_on(&device, 100);
    let (folder, group) = limited_group(&mut loans, "32M");
    let script = format!("echo $$ > {folder}/cgroup.procs && exec \"$0\" hold 64");
    let target = Target::from_command(Command::new("sh").arg("-c").arg(script).arg(program()));

    let swap = || rollup(target.pid(), "Swap");
    let before = swap();
    assert!(before >= 30 << 10, "KiB in swap: {before}");
    for source in [Source::Process(target.pid()), Source::Cgroup(group)] {
        let (bytes, sample) = looked(&source, Choice::Exact);
        assert_eq!(sample.parts.len(), 1, "{:?}", sample.parts);
        assert_eq!(sample.parts[0].pid, Some(target.pid()));
        assert_eq!(sample.partial, None);
        let swapped = sample.swapped_pages().get() + sample.parts[0].skipped.swapped.get();
        assert!((swapped * 4).abs_diff(before) < 1024, "{swapped} pages, {before} KiB");
        assert!(swap().abs_diff(before) < 1024, "KiB in swap: {before} to {}", swap());
        assert_eq!(bytes.len() as u64, sample.sampled_pages().get() * 4096);
        assert!(sample.sampled_pages().get() > 20 * MIB, "{:?}", sample.parts);
        assert!(sample.disturbed.faults < 64, "{:?}", sample.disturbed);
    }
    prints_what_changes(
        "64 MiB, half of it swapped",
        &[target.pid()],
        &Source::Process(target.pid()),
    );
}

#[test]
fn merged_pages_stay_merged_and_are_shown_once() {
    let mut loans = Loans::new();
    loans.setting("/sys/kernel/mm/ksm/run", "1");
    loans.setting("/sys/kernel/mm/ksm/pages_to_scan", "20000");
    loans.setting("/sys/kernel/mm/ksm/sleep_millisecs", "10");
    let target = Target::start("merge 16");
    let merged = || -> u64 {
        read_process(target.pid(), "ksm_merging_pages").trim().parse().expect("a number")
    };
    let all = 16 * MIB - 64;
    let done = (0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        merged() >= all
    });
    assert!(done, "{} merged", merged());
    let (merged_before, before) = (merged(), pss(target.pid()));

    let (_, sample) = looked(&Source::Process(target.pid()), Choice::Exact);
    assert_eq!(sample.sharing, Sharing::ByFrame);
    assert!(sample.parts[0].skipped.duplicate.get() > 15 * MIB, "{:?}", sample.parts);
    let (_, sample) = looked(&Source::Process(target.pid()), Choice::Count(4000));
    assert!(sample.parts[0].sampled_shared.get() > 3000, "{:?}", sample.parts);

    // ksmd may still be merging the last pages; unsharing would lower the number
    assert!(merged() + 16 > merged_before, "{merged_before} to {}", merged());
    // unsharing would raise the proportional size
    let after = pss(target.pid());
    assert!(after < before + 256, "KiB: {before} to {after}");
    prints_what_changes("16 MiB merged by KSM", &[target.pid()], &Source::Process(target.pid()));
}

#[test]
fn shared_memory_and_private_memory_stay_what_they_are() {
    for (what, arrangement) in
        [("64 MiB private", "hold 64"), ("64 MiB of shmem, mapped three times", "shmem 64")]
    {
        let target = Target::start(arrangement);
        prints_what_changes(what, &[target.pid()], &Source::Process(target.pid()));
    }
}

#[test]
fn forked_memory_of_several_processes_is_shown_once() {
    let target = Target::start("fork 16");
    let child = target.message.parse().expect("a process id");
    let both = Source::Processes(vec![target.pid(), child]);
    let (_, sample) = looked(&both, Choice::Exact);
    assert_eq!((sample.parts.len(), sample.sharing), (2, Sharing::ByFrame));
    let duplicates: u64 = sample.parts.iter().map(|part| part.skipped.duplicate.get()).sum();
    assert!(duplicates >= 16 * MIB, "{:?}", sample.parts);
    assert!(sample.sampled_pages().get() < 18 * MIB, "{:?}", sample.parts);
    let (_, sample) = looked(&both, Choice::Precise);
    assert_eq!(sample.sharing, Sharing::Weighed);
    assert!(sample.pages().get() > 32 * MIB);
    prints_what_changes("16 MiB shared since a fork", &[target.pid(), child], &both);
}

#[test]
fn a_device_of_odd_size_is_shown_to_its_end() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().join("disk");
    let contents: Vec<u8> = (0..10 * 4096 + 512).map(|n: u32| (n % 251) as u8).collect();
    std::fs::write(&file, &contents).unwrap();
    let mut loans = Loans::new();
    let device = run("losetup", &["--find", "--show", "--read-only", file.to_str().unwrap()]);
    let device = device.trim();
    loans.promise(&format!("losetup --detach '{device}'"));
    note_made(&Thing::Loop { device: device.to_owned(), file: file.clone() });
    let (bytes, sample) = looked(&Source::Device(device.into()), Choice::Exact);
    assert_eq!(sample.sampled_pages().get(), 11);
    assert_eq!(bytes[..contents.len()], contents);
    assert!(bytes[contents.len()..].iter().all(|&byte| byte == 0));
    assert_eq!(bytes.len(), 11 * 4096);
}

#[test]
fn a_live_zram_device_is_shown_as_it_is() {
    let mut loans = Loans::new();
    let id = loans.zram("4M");
    let device = format!("/dev/zram{id}");
    run("dd", &["if=/dev/urandom", &format!("of={device}"), "bs=4k", "count=100", "oflag=direct"]);
    let (bytes, sample) = looked(&Source::Device(device.clone().into()), Choice::Exact);
    assert_eq!(sample.sampled_pages().get(), 4 * MIB);
    assert!(bytes == std::fs::read(&device).unwrap());
    let (_, sample) = looked(&Source::Device(device.into()), Choice::Count(50));
    assert_eq!(sample.sampled_pages().get(), 50);
}

#[test]
fn other_users_are_read_on_request_only() {
    let target = Target::from_command(
        Command::new("setpriv")
            .args(["--reuid", "65534", "--clear-groups"])
            .arg(program())
            .args(["hold", "1"]),
    );
    let host = HostRoot::live().unwrap();
    let source = Source::Process(target.pid());
    match open(&host, &source, Options::default()) {
        Err(OpenError::Process { why, .. }) => assert_eq!(why, WhyUnread::OtherUser),
        other => panic!("{other:?}"),
    }
    let (_, sample) = looked(&source, Choice::Exact);
    assert!(sample.sampled_pages().get() > MIB);
}

/// `pagewise scan` of a process as the user nobody: its exit status, and its error message.
fn scanned_by_nobody(pid: u32) -> (Option<i32>, String) {
    let output = output_as_nobody(&["scan", "--exact", "--pid", &pid.to_string()]);
    (output.status.code(), String::from_utf8(output.stderr).expect("what tests need"))
}

#[test]
fn who_may_not_look_is_told_why() {
    let of_nobody = |what: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        Target::from_command(command.arg(program()).args([what, "1"]))
    };
    let (open, secretive, of_root) =
        (of_nobody("hold"), of_nobody("secretive"), Target::start("hold 1"));
    assert_eq!(scanned_by_nobody(open.pid()), (Some(0), String::new()));
    for (pid, why) in [
        (secretive.pid(), "forbids tracing"),
        (of_root.pid(), "belongs to another user"),
        (2, "a thread of the kernel"),
    ] {
        let (status, complaint) = scanned_by_nobody(pid);
        assert_eq!(status, Some(1), "{complaint}");
        assert!(complaint.contains(why), "{why}: {complaint}");
    }
    // root may read it
    let (_, sample) = looked(&Source::Process(secretive.pid()), Choice::Exact);
    assert!(sample.sampled_pages().get() > MIB);
}

#[test]
fn a_frozen_process_is_looked_at() {
    // declared before the loans, so dropped after them: a frozen process could not end
    let target = Target::start("hold 4");
    let mut loans = Loans::new();
    let (mount, file, frozen, thawed) = if Path::new("/sys/fs/cgroup/freezer").exists() {
        ("/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED")
    } else {
        ("/sys/fs/cgroup", "cgroup.freeze", "1", "0")
    };
    let folder = format!("{mount}/pagewise-test-{}", std::process::id());
    loans.promise(&format!("for i in $(seq 300); do rmdir '{folder}' && break; sleep 0.2; done"));
    loans.promise(&format!("kill {}", target.pid()));
    note_made(&Thing::Path(folder.clone().into()));
    run("mkdir", &[&folder]);
    write(&format!("{folder}/cgroup.procs"), &target.pid().to_string());
    loans.promise(&format!("echo {thawed} > {folder}/{file}"));
    write(&format!("{folder}/{file}"), frozen);
    let (_, sample) = looked(&Source::Process(target.pid()), Choice::Exact);
    assert_eq!(sample.partial, None);
    assert!(sample.sampled_pages().get() >= 4 * MIB);
}

#[test]
fn threads_of_the_kernel_have_no_memory() {
    let host = HostRoot::live().unwrap();
    match open(&host, &Source::Process(2), Options::default()) {
        Err(error) => assert_eq!(
            error.to_string(),
            "process 2: a thread of the kernel, which has no memory of its own"
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_of_the_host_is_one_population() {
    let target = Target::start("hold 16");
    let host = HostRoot::live().unwrap();
    let mut sampler = open(&host, &Source::Host, Options::default()).unwrap();
    let mut part_of_target = 0u64;
    let at = sampler.parts().iter().position(|part| part.pid == Some(target.pid())).unwrap();
    let visit = |origin: &Origin, _: &[u8]| part_of_target += u64::from(origin.part == at);
    let drawn = sampler.run(&mut [visit]);
    assert!(drawn.shown.get() > 1000, "{drawn:?}");
    let sample = sampler.finish();
    assert!(sample.parts.len() > 1);
    assert_eq!(sample.parts[at].sampled.get(), part_of_target);
    assert!(sample.pages().get() >= 16 * MIB);
}

/// For processes of another user, the output says what was refused, why, and what to do, instead of
/// an empty estimate.
#[test]
fn processes_of_another_user_are_refused_by_name() {
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65_534;
    let name = format!("pw-{}", std::process::id());
    let script = format!("printf {name} > /proc/self/comm; echo ready; read line");
    let others: Vec<Target> = (0..2)
        .map(|_| Target::from_command(Command::new("sh").args(["-c", &script]).uid(NOBODY)))
        .collect();
    let pids: Vec<String> = others.iter().map(|other| other.pid().to_string()).collect();
    let [one, two] = [&pids[0], &pids[1]];
    for (arguments, named) in [
        (vec!["--name", &name], format!("({name}) and 1 more")),
        (vec!["--pid", one], format!("process {one}")),
        (vec!["--pid", one, "--pid", two], format!("({name}) and 1 more")),
    ] {
        let ran = crate::program::run(&[&["scan"], arguments.as_slice()].concat());
        assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{arguments:?}: {}", ran.err);
        for expected in [&named, "belongs to another user", "sudo pagewise scan --measure"] {
            assert!(ran.err.contains(expected), "{expected}: {}", ran.err);
        }
    }
    let own = std::process::id().to_string();
    let ran = crate::program::run(&["scan", "--sample", "50", "--pid", &own, "--pid", one]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(ran.out.contains("partial: 1 of 2 processes refused"), "{}", ran.out);
    let ran = crate::program::run(&["scan", "--measure", "--name", &name]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(!ran.out.contains("refused"), "{}", ran.out);
}
