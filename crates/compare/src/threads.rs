// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the CPU time of the kernel threads that reclaim, compact and collapse memory.

use pagewise_model::{
    Interval, KernelThread, Nanos, Percent, Reading, Relation, Snapshot, ThreadChange,
};

use crate::activity::averages_since_boot;

const THREADS: [&str; 3] = ["kswapd", "kcompactd", "khugepaged"];

pub(crate) fn thread_changes(interval: &Interval, relation: Relation) -> Vec<ThreadChange> {
    let Some(start) = interval.start.as_deref() else { return Vec::new() };
    let change = |name: &'static str| {
        let [before, after] = [start, &interval.end].map(|host| cpu_time(host, name));
        let between = interval.change(|host| cpu_time(host, name));
        let seconds = |host: &Snapshot| Some(cpu_time(host, name).get()?.get() as f64 / 1e9);
        ThreadChange {
            name,
            before,
            after,
            between: between.map(|it| Percent::new(it.per_second / 1e7)),
            since_boot: averages_since_boot(interval, relation, seconds)
                .map(|both| both.map(|share| Percent::new(share * 100.0))),
        }
    };
    let is_known = |it: &ThreadChange| it.before.value().or(it.after.value()).is_some();
    THREADS.into_iter().map(change).filter(is_known).collect()
}

/// Returns the sum of the CPU times of all threads of a kind; unknown if it is unknown for one of
/// them.
fn cpu_time(host: &Snapshot, kind: &str) -> Reading<Nanos> {
    let is_it = |thread: &&KernelThread| thread.name.as_str().starts_with(kind);
    let mut sum = Reading::not_read();
    for thread in host.kernel_threads.iter().filter(is_it) {
        let Some(time) = thread.cpu_time.get() else { return thread.cpu_time.clone() };
        let before: Nanos = sum.get().unwrap_or_default();
        sum = thread.cpu_time.clone().map(|_| before.saturating_add(time));
    }
    sum
}
