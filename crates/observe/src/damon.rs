// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads who uses DAMON into [`Damon`]: the modules that run it for one purpose, and the threads
//! that were configured by hand through sysfs.
//!
//! The sysfs files are for root alone; that there are threads can be seen by anybody, so their
//! states are listed and denied.

use pagewise_model::{Damon, DamonModule, Name};

use crate::root::HostRoot;

const MODULES: [&str; 3] = ["damon_reclaim", "damon_lru_sort", "damon_stat"];
const KDAMONDS: &str = "sys/kernel/mm/damon/admin/kdamonds";

/// Threads whose state is read; each is one of the kernel's and would use a CPU.
const MAX_KDAMONDS: usize = 64;

pub(crate) fn read(host: &HostRoot) -> Damon {
    let ids = host.numbered(KDAMONDS, "").into_iter().take(MAX_KDAMONDS);
    Damon {
        modules: MODULES.iter().map(|name| module(host, name)).collect(),
        kdamonds: host.number_at(&format!("{KDAMONDS}/nr_kdamonds")),
        kdamond_states: ids.map(|id| host.name_at(&format!("{KDAMONDS}/{id}/state"))).collect(),
    }
}

fn module(host: &HostRoot, name: &str) -> DamonModule {
    DamonModule {
        name: Name::from(name),
        enabled: host.flag_at(&format!("sys/module/{name}/parameters/enabled")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::testing::{denied, host, mangled};

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
        let states: Vec<_> =
            damon.kdamond_states.iter().map(|s| s.value().unwrap().as_str()).collect();
        assert_eq!(states, ["on", "off"]);
    }

    #[test]
    fn a_plain_user_sees_threads_without_their_state() {
        let state = "sys/kernel/mm/damon/admin/kdamonds/0/state";
        let damon = read(&HostRoot::memory([denied(state)]));
        assert!(damon.kdamond_states[0].is_denied());
        assert_eq!(damon.kdamond_states.len(), 1);
    }

    #[test]
    fn a_folder_of_threads_without_end_is_read_up_to_a_bound() {
        let paths: Vec<String> =
            (0..5000).map(|id| format!("sys/kernel/mm/damon/admin/kdamonds/{id}/state")).collect();
        let damon = read(&host(paths.iter().map(|path| (path.as_str(), "on\n"))));
        assert_eq!(damon.kdamond_states.len(), MAX_KDAMONDS);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(flag in mangled("Y\n"), nr in mangled("1\n"), state in mangled("on\n")) {
            read(&host([
                ("sys/module/damon_reclaim/parameters/enabled", flag),
                ("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", nr),
                ("sys/kernel/mm/damon/admin/kdamonds/0/state", state),
            ]));
        }
    }
}
