// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DAMON: its modules, its threads and the regions they found.

use pagewise_hostfs::HostRoot;
use pagewise_model::{Damon, Millis, Percent};
use pagewise_observe::{DamonRegion as Region, damon_regions as regions, idle_share, read_targets};
use proptest::prelude::*;

use crate::testing::{denied_entry, host, mangle};
use crate::{glance, limit};

const KDAMONDS: &str = "sys/kernel/mm/damon/admin/kdamonds";
const IDLE: &str = "sys/module/damon_stat/parameters/memory_idle_ms_percentiles";

fn read(host: &HostRoot) -> Damon {
    glance(host).damon
}

#[test]
fn modules_and_threads_say_whether_they_run() {
    let damon = read(&host([
        ("sys/module/damon_stat/parameters/enabled", "Y\n"),
        ("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "11\n"),
        ("sys/kernel/mm/damon/admin/kdamonds/10/state", "off\n"),
        ("sys/kernel/mm/damon/admin/kdamonds/2/state", "on\n"),
    ]));
    let enabled: Vec<_> = damon.modules.iter().map(|module| module.enabled.get()).collect();
    assert_eq!(enabled, [None, None, Some(true)]);
    assert_eq!(damon.kdamonds.get(), Some(11));
    let states: Vec<_> = damon.kdamond_states.iter().map(|s| s.value().unwrap().as_str()).collect();
    assert_eq!(states, ["on", "off"]);
}

#[test]
fn a_plain_user_sees_threads_without_their_state() {
    let state = "sys/kernel/mm/damon/admin/kdamonds/0/state";
    let damon = read(&HostRoot::memory([denied_entry(state)]));
    assert!(damon.kdamond_states[0].is_denied());
    assert_eq!(damon.kdamond_states.len(), 1);
}

#[test]
fn a_folder_of_threads_without_end_is_read_up_to_a_bound() {
    let paths: Vec<String> =
        (0..5000).map(|id| format!("sys/kernel/mm/damon/admin/kdamonds/{id}/state")).collect();
    let damon = read(&host(paths.iter().map(|path| (path.as_str(), "on\n"))));
    assert_eq!(damon.kdamond_states.len(), limit("DAMON threads"));
}

#[test]
fn idle_memory_is_a_share_of_all() {
    let text = |idle: &dyn Fn(i64) -> i64| {
        (0..=100).map(|at| idle(at).to_string()).collect::<Vec<_>>().join(",")
    };
    let share = |text: String| {
        idle_share(&host([(IDLE, text.as_str())]), Millis::new(120_000)).get().map(Percent::get)
    };
    assert_eq!(share(text(&|at| at * 2000 - 6000)), Some(38.0), "from 63 on");
    assert_eq!(share(text(&|_| 120_000)), Some(100.0));
    assert_eq!(share(text(&|_| -5)), Some(0.0));
    assert_eq!(share(text(&|_| 0)), None, "nothing was measured");
    assert_eq!(share("1,2,3".to_owned()), None);
}

#[test]
fn only_a_thread_that_runs_watches() {
    let threads = "sys/kernel/mm/damon/admin/kdamonds";
    let files = [
        (format!("{threads}/0/state"), "on\n"),
        (format!("{threads}/0/contexts/0/targets/0/pid_target"), "41\n"),
        (format!("{threads}/0/contexts/0/targets/1/pid_target"), "42\n"),
        (format!("{threads}/1/state"), "off\n"),
        (format!("{threads}/1/contexts/0/targets/0/pid_target"), "43\n"),
    ];
    let files = files.iter().map(|(path, text)| (path.as_str(), *text));
    assert_eq!(read_targets(&host(files)), [41, 42]);
}

#[test]
fn regions_come_in_order_of_address_and_those_without_numbers_not_at_all() {
    let of = |id: u32, start, end, accesses| {
        let folder = format!("{KDAMONDS}/1/contexts/0/schemes/0/tried_regions/{id}");
        [("start", start), ("end", end), ("nr_accesses", accesses)]
            .map(|(file, text)| (format!("{folder}/{file}"), text))
    };
    let files = [of(9, "4096", "8192", "3"), of(10, "0", "4096", "0"), of(11, "x", "1", "1")];
    let files = files.as_flattened().iter().map(|(path, text)| (path.as_str(), *text));
    let region = |start, end, accesses| Region { start, end, accesses };
    assert_eq!(regions(&host(files), 1), [region(0, 4096, 0), region(4096, 8192, 3)]);
    assert!(regions(&HostRoot::memory([]), 1).is_empty());
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(flag in mangle("Y\n"), nr in mangle("1\n"), state in mangle("on\n")) {
        read(&host([
            ("sys/module/damon_reclaim/parameters/enabled", flag),
            ("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", nr),
            ("sys/kernel/mm/damon/admin/kdamonds/0/state", state),
        ]));
    }

    #[test]
    fn no_numbers_make_it_panic(idle in mangle("-5,0,120000\n"), pid in mangle("41\n")) {
        let host = host([
            (IDLE, idle),
            ("sys/kernel/mm/damon/admin/kdamonds/0/state", b"on".to_vec()),
            ("sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/targets/0/pid_target", pid),
        ]);
        idle_share(&host, Millis::new(1));
        read_targets(&host);
    }
}
