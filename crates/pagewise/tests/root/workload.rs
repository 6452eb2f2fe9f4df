// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Workloads in a cgroup that is too small for them, with a zram device for the test.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::machine::lender::LoansLender;
use pagewise_model::Bytes;
use pagewise_model::lend::{GroupSpec, Lender, SwapArea, SwapSpec, ZramSpec};
use pagewise_workload::{WorkloadSummary, parse_summary};
use tempfile::TempDir;

/// A cgroup with a limit, removed at the end of the test, or by the helper that watches the test.
struct Short {
    group: String,
    // dropped before the folder with its tokens
    _lender: LoansLender,
    _tokens: TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Short {
    fn of(mebibytes: u64, with_swap: bool) -> Self {
        static ONE: Mutex<()> = Mutex::new(());
        let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut lender = LoansLender::new(tokens.path());
        if with_swap {
            let disksize = Bytes::new(256 << 20);
            let zram = lender.lend_zram(&ZramSpec::new(disksize)).unwrap();
            let area = SwapArea::Lent(zram.device);
            lender.lend_swap(&SwapSpec { area, priority: Some(10) }).unwrap();
        }
        let max = Some(Bytes::new(mebibytes << 20));
        let group = lender.lend_group(&GroupSpec { max, ..GroupSpec::default() }).unwrap();
        let group = group.folder.display().to_string();
        Self { group, _lender: lender, _tokens: tokens, _alone: alone }
    }

    fn run(&self, words: &[&str]) -> Output {
        let enter = format!("echo $$ > {}/cgroup.procs; exec \"$0\" \"$@\"", self.group);
        let mut command = Command::new("sh");
        command.args(["-c", &enter, env!("CARGO_BIN_EXE_pagewise"), "lab", "workload"]);
        command.env("TMPDIR", env!("CARGO_TARGET_TMPDIR")).args(words).output().unwrap()
    }

    fn answer(&self, words: &[&str]) -> WorkloadSummary {
        let output = self.run(words);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {complaint}", output.status);
        parse_summary(&String::from_utf8_lossy(&output.stdout)).unwrap()
    }
}

/// The number of pages that this machine has swapped out since boot.
fn swapped_out() -> u64 {
    let all = crate::machine::read("/proc/vmstat");
    let line = all.lines().find_map(|line| line.strip_prefix("pswpout "));
    line.unwrap().parse().unwrap()
}

#[test]
fn coldpages_judges_what_the_kernel_evicted() {
    let short = Short::of(48, true);
    let small = ["coldpages", "data=40M", "library=8M", "stream=16M", "operations=150000"];
    for sharers in [&[][..], &["sharers=8", "write_share=0"]] {
        let before = swapped_out();
        let message = short.answer(&[&small[..], sharers, &["contents=random:100"]].concat());
        let precision = message.values["precision"];
        assert!(precision > 0.0 && precision <= 1.0, "{message:?}");
        assert!(message.values["cold-kept"] <= 4096.0, "{message:?}");
        assert_eq!(message.values["operations"], 150_000.0);
        assert!(swapped_out() > before + 100, "{message:?}");
    }
}

#[test]
fn swap_goes_on_where_its_data_does_not_fit() {
    let short = Short::of(48, true);
    let small = ["swap", "data=48M", "code=12M", "window=4M", "step=4M", "iterations=24"];
    for shared in ["shared=false", "shared=true"] {
        let before = swapped_out();
        let message = short.answer(&[&small[..], &[shared, "seconds=600"]].concat());
        assert_eq!(message.values["operations"], 24.0 * 1024.0);
        assert!(swapped_out() > before + 1000, "{message:?}");
    }
}

/// Runs `words` until the kernel did not also kill the runner, which may happen if the runner has
/// no OOM protection and allocates at that moment.
fn told(short: &Short, words: &[&str]) -> Output {
    let killed = |run: &Output| run.status.signal() == Some(9);
    let mut runs = std::iter::repeat_with(|| short.run(words)).take(20);
    runs.find(|run| !killed(run)).expect("of 20 runners one that lived")
}

/// Without swap, the kernel kills one of the processes; in both cases the outcome is printed, and
/// nothing is left behind.
///
/// The program files are read first, outside of the cgroup: pages charged to the cgroup would be
/// dropped and read again for a minute or longer before the kernel kills.
#[test]
fn where_memory_is_out_it_is_told() {
    let few = Command::new(env!("CARGO_BIN_EXE_pagewise"))
        .args(["lab", "workload", "redis", "records=100", "requests=100"])
        .env("TMPDIR", env!("CARGO_TARGET_TMPDIR"))
        .output();
    assert!(few.unwrap().status.success());
    let short = Short::of(24, false);
    let redis = told(&short, &["redis", "records=100000"]);
    let complaint = String::from_utf8_lossy(&redis.stderr);
    assert_eq!(redis.status.code(), Some(1), "{}: {complaint}", redis.status);
    assert!(complaint.contains("redis-server was killed (signal 9)"), "{complaint}");
    let swap = short.run(&["swap", "data=64M", "code=1M", "contents=random:100"]);
    assert_eq!(swap.status.signal(), Some(9));
    assert!(swap.stdout.is_empty());
    assert_eq!(crate::machine::read(&format!("{}/cgroup.procs", short.group)), "");
}
