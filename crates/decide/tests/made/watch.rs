// SPDX-License-Identifier: Apache-2.0 OR MIT
use pagewise_decide::watch::summarize;
use pagewise_model::{Bytes, Coverage, WatchCourse, WatchSample};

/// A server whose memory is collapsed after 5 s, that forks from 10 to 15 s, and is collapsed again
/// after 20 s.
fn server() -> Vec<WatchSample> {
    let mib = |count: u64| Bytes::new(count << 20);
    let at = |second: u32| {
        let shared = (10..15).contains(&second);
        let (huge, collapsed) = match second {
            0..5 => (0, 0),
            5..10 => (360, 180),
            10..20 => (20, 180),
            _ => (360, 350),
        };
        WatchSample {
            seconds: f64::from(second),
            coverage: Coverage { anon: mib(362), anon_huge: mib(huge), ..Coverage::default() },
            memory: Some(if shared { mib(200) } else { mib(362 + collapsed / 180) }),
            shared: Some(if shared { mib(300) } else { mib(0) }),
            cpu_seconds: Some(f64::from(second) * 0.5),
            requests: Some(u64::from(second) * 250_000),
            collapsed,
        }
    };
    (0..25).map(at).collect()
}

#[test]
fn phases_begin_where_a_fork_comes_or_goes_and_after_much_was_collapsed() {
    let found = summarize(&server());
    let phases: Vec<_> = found.phases.iter().map(|phase| (phase.shared, phase.collapsed)).collect();
    assert_eq!(phases, [(false, 0), (false, 180), (true, 0), (false, 0), (false, 170)]);
    assert_eq!(found.phases[1].seconds, [5.0, 9.0]);
    assert!(found.phases[1].covered.unwrap() > 99.0);
    assert!(found.phases.iter().all(|phase| (phase.used.unwrap() - 2e-6).abs() < 1e-12));
    assert!(found.phases.is_sorted_by(|a, b| a.seconds[1] < b.seconds[0]));
    assert_eq!((found.forks, found.covered.len()), (vec![[10.0, 14.0]], 25));
    assert!(found.counts_requests);
}

#[test]
fn without_a_counter_it_is_a_share_of_a_processor() {
    let mut samples = server();
    samples.iter_mut().for_each(|sample| sample.requests = None);
    assert_eq!(summarize(&samples).used[0], (0.5, 0.5));
    samples[1].cpu_seconds = None;
    assert_eq!((summarize(&samples).used.len(), summarize(&samples).used[0]), (23, (1.0, 0.5)));
    // an idle program used no measurable CPU time
    samples.iter_mut().for_each(|sample| sample.cpu_seconds = Some(7.0));
    assert_eq!(summarize(&samples).used, []);
}

#[test]
fn one_look_without_an_answer_is_left_out() {
    let mut samples = server();
    samples[7].requests = None;
    samples[24].requests = None;
    let all = summarize(&samples).used;
    assert!(all.iter().all(|(_, used)| (used - 2e-6).abs() < 1e-12), "{all:?}");
    assert!(summarize(&samples).phases.iter().all(|phase| phase.used.is_some()));
    assert!(summarize(&[]) == WatchCourse::default());
}
