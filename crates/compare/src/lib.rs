// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes what changed between two hosts, or on one host between two times ([`Comparison`]).
//! Pure, and without a judgement: a measure is called better or worse only because of its
//! direction, and never as the effect of a setting.
//!
//! Recordings contain no names. The host's name and the boot id are hashed with a key that only
//! this recording has, and names of programs and cgroups that are not widely used are replaced by
//! numbers. Whether two recordings are of the same boot is therefore derived from the time of the
//! boot and from processes that exist in both (module `relation`). A numbered name is never matched
//! with the same number in another recording (module `names`).

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod activity;
mod effect;
mod groups;
mod memory;
mod names;
mod programs;
mod relation;
mod settings;
mod threads;

use pagewise_model::{ComparedHost, Comparison, Interval, Relation, Snapshot};

use names::{Matching, Naming};

/// The result of comparing two hosts, or one host at two times.
#[derive(Debug)]
pub struct Compared {
    /// The changes between the two hosts, or on one host between two times.
    pub comparison: Comparison,
    /// The interval from the end of the first interval to the end of the second one.
    pub interval: Interval,
}

/// Compares the ends of two intervals. An interval that has a start also has rates of its own.
/// `verdicts` are the sentences that say how short of memory each host was.
pub fn compare(before: Interval, after: Interval, verdicts: [String; 2]) -> Compared {
    let found = relation::determine_relation(&before.end, &after.end);
    let own_rates = activity::rates_of_intervals(&before, &after);
    // this must be computed before both snapshots get the same boot id below
    let naming = Naming::new(&before.end, &after.end);
    let [before_line, after_line] = verdicts;
    let hosts = (compared_host(&before, before_line), compared_host(&after, after_line));
    let mut interval = Interval { start: Some(Box::new(before.end)), end: after.end };
    if found.relation == Relation::SameBoot {
        join_boots(&mut interval);
    }
    let matching = Matching::new(&interval, found.relation, naming);
    let comparison = differences(&interval, hosts, found, own_rates, &matching);
    Compared { comparison, interval }
}

/// Gives both snapshots the same boot id, because each recording hashes the boot id with another
/// key.
fn join_boots(interval: &mut Interval) {
    if let Some(start) = interval.start.as_deref_mut() {
        start.taken.boot_id.clone_from(&interval.end.taken.boot_id);
    }
}

fn differences(
    interval: &Interval,
    (before, after): (ComparedHost, ComparedHost),
    found: relation::Found,
    own_rates: activity::OwnRates,
    matching: &Matching,
) -> Comparison {
    let Some(start) = interval.start.as_deref() else { return Comparison::default() };
    let settings = settings::setting_changes(start, &interval.end, matching);
    let memory = memory::size_changes(start, &interval.end);
    let pressure = memory::pressure_changes(interval);
    let activity = activity::activity_changes(interval, found.relation, own_rates);
    let (cgroups, unmatched_cgroups) = groups::group_changes(interval, matching);
    let mut effect = effect::observed_effect(start, &memory, &pressure, &activity);
    // if these are two machines, differences of settings are only a part of what differs
    if found.relation != Relation::AnotherHost {
        effect.trial = effect::trial_command(start, &settings);
    }
    Comparison {
        before,
        after,
        relation: found.relation,
        reasons: found.reasons,
        seconds: interval.seconds(),
        settings,
        memory,
        pressure,
        activity,
        threads: threads::thread_changes(interval, found.relation),
        cgroups,
        unmatched_cgroups,
        processes: programs::program_changes(interval, matching),
        effect,
    }
}

fn compared_host(interval: &Interval, verdict: String) -> ComparedHost {
    let end: &Snapshot = &interval.end;
    ComparedHost {
        root: end.host.root.clone(),
        name: end.host.name.clone(),
        kernel: end.taken.kernel.clone(),
        unix_seconds: end.taken.unix_seconds,
        uptime_seconds: relation::uptime(end),
        interval_seconds: interval.seconds(),
        verdict,
    }
}
