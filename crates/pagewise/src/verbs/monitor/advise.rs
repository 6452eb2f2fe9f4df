// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Learns which memory of the cgroups of `--group` is idle (`monitor --advise`), so that their metrics
//! say how much could be taken from each, and which limit each needs. Changes no setting.
//!
//! Without this, idle memory is known only of a cgroup whose pages the kernel itself ages, which it
//! does while memory is short. A thread ages the cgroups in turn, or clears and reads the accessed bits
//! of their processes. It does nothing while memory is short, because both would make the kernel
//! choose worse what to reclaim, and it keeps within a limit on CPU time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pagewise_agent::CpuBudget;
use pagewise_apply::{aging, state_folder};
use pagewise_model::{Name, Percent, Refusal};
use rustix::time::{ClockId, clock_gettime};

use crate::advisers::print_error;
use crate::cli::AdviseBy;
use crate::verbs::limits::watch::watch;
use crate::verbs::metrics::{IDLE_AFTER, Learnt};

/// The least time between two looks at a cgroup. It is longer than the time after which a page
/// counts as idle, so that the pages of each older generation were unused for that time.
const BETWEEN: Duration = Duration::from_secs(IDLE_AFTER.as_secs() + 1);
/// What was learnt is not used after this: while memory is short, nothing is learnt.
const OUTDATED: Duration = Duration::from_secs(3600);
/// How often the thread checks what is due.
const TICK: Duration = Duration::from_secs(1);

/// What the reading thread tells the learning thread, and learns from it.
#[derive(Debug, Default)]
struct Shared {
    groups: Vec<Name>,
    is_short: bool,
    learnt: BTreeMap<Name, (Instant, Learnt)>,
}

/// The side of the thread that reads.
#[derive(Debug, Clone, Default)]
pub(super) struct Adviser(Arc<Mutex<Shared>>);

impl Adviser {
    /// Starts the thread that learns.
    pub(super) fn start(by: AdviseBy, budget: Percent) -> std::io::Result<Self> {
        let adviser = Self::default();
        let told = adviser.clone();
        let learner = Learner {
            by,
            adviser: told,
            budget: CpuBudget::new(budget.share() * 60.0),
            used: Duration::ZERO,
            tried: BTreeMap::new(),
            errors: BTreeMap::new(),
        };
        std::thread::Builder::new().spawn(move || learner.run())?;
        Ok(adviser)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells which cgroups there are now; what was learnt of others is forgotten.
    pub(super) fn set_groups(&self, groups: Vec<Name>) {
        let mut shared = self.lock();
        shared.learnt.retain(|group, _| groups.contains(group));
        shared.groups = groups;
    }

    pub(super) fn note_shortage(&self, is_short: bool) {
        self.lock().is_short = is_short;
    }

    /// What is known of the cgroups now.
    pub(super) fn learnt(&self, now: Instant) -> BTreeMap<Name, Learnt> {
        let shared = self.lock();
        let fresh = shared.learnt.iter().filter(|(_, (then, _))| now - *then < OUTDATED);
        fresh.map(|(group, (_, learnt))| (group.clone(), learnt.clone())).collect()
    }

    /// The cgroup that is due: of those that were not tried within [`BETWEEN`], the one that was tried
    /// longest ago. None while memory is short.
    fn find_due(&self, tried: &BTreeMap<Name, Instant>, now: Instant) -> Option<Name> {
        let shared = self.lock();
        let due = shared.groups.iter().filter(|_| !shared.is_short).filter(|group| {
            tried.get(*group).is_none_or(|then| now.saturating_duration_since(*then) >= BETWEEN)
        });
        due.min_by_key(|group| tried.get(*group)).cloned()
    }
}

/// The thread that learns.
struct Learner {
    by: AdviseBy,
    adviser: Adviser,
    budget: CpuBudget,
    /// CPU time of this thread and its helpers so far.
    used: Duration,
    tried: BTreeMap<Name, Instant>,
    /// The last error of each cgroup, so that it is said once.
    errors: BTreeMap<Name, String>,
}

impl Learner {
    fn run(mut self) {
        let began = Instant::now();
        loop {
            std::thread::sleep(TICK);
            self.budget.count(began.elapsed(), self.used);
            if self.budget.is_left() {
                self.learn_next(Instant::now());
            }
        }
    }

    fn learn_next(&mut self, now: Instant) {
        let Some(group) = self.adviser.find_due(&self.tried, now) else { return };
        self.tried.retain(|known, _| self.adviser.lock().groups.contains(known));
        let before = thread_time();
        let learnt = match self.by {
            AdviseBy::Ages => age(&group).map(|it| (it, Duration::ZERO)),
            AdviseBy::AccessedBits => read_accessed_bits(&group),
        };
        // the time of helper threads is at most the time for which they were waited for
        let helped = learnt.as_ref().map_or(Duration::ZERO, |(_, helped)| *helped);
        self.used += thread_time().saturating_sub(before) + helped;
        let done = Instant::now();
        self.tried.insert(group.clone(), done);
        match learnt {
            Ok((learnt, _)) => {
                self.errors.remove(&group);
                self.adviser.lock().learnt.insert(group, (done, learnt));
            }
            Err(error) => self.tell(group, &error),
        }
    }

    fn tell(&mut self, group: Name, error: &anyhow::Error) {
        let text = format!("{error:#}");
        if self.errors.get(&group) != Some(&text) {
            let what =
                format!("{group}: its idle memory is not known: {}", Name::from(text.as_str()));
            let next = match self.by {
                AdviseBy::Ages => {
                    "it is tried again every minute; only root of the host can do it, and only with debugfs; \
                     --advise=accessed-bits does without lru_gen, but makes the kernel choose worse for a minute"
                }
                AdviseBy::AccessedBits => "it is tried again every minute; it needs root",
            };
            let _ = print_error(&Refusal::with_advice(what, next).into());
            self.errors.insert(group, text);
        }
    }
}

fn age(group: &Name) -> anyhow::Result<Learnt> {
    aging::age_for_idle(&state_folder(), group.as_str())?;
    Ok(Learnt::Generations(aging::read_generations(group.as_str())?))
}

/// Also returns the time that the calls took.
fn read_accessed_bits(group: &Name) -> anyhow::Result<(Learnt, Duration)> {
    let watched = watch(group, IDLE_AFTER, &|time| {
        std::thread::sleep(time);
        Ok(())
    })?;
    let took = Duration::try_from_secs_f64(watched.cost.own_seconds).unwrap_or_default();
    Ok((Learnt::Watched(watched), took))
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adviser(groups: &[&str]) -> Adviser {
        let adviser = Adviser::default();
        adviser.set_groups(groups.iter().map(|group| Name::from(*group)).collect());
        adviser
    }

    #[test]
    fn groups_take_turns_and_none_is_due_while_memory_is_short() {
        let adviser = adviser(&["/a", "/b"]);
        let begun = Instant::now();
        let mut tried = BTreeMap::new();
        let mut turns = Vec::new();
        for second in 0..150 {
            let now = begun + Duration::from_secs(second);
            adviser.note_shortage((61..90).contains(&second));
            if let Some(group) = adviser.find_due(&tried, now) {
                turns.push((second, group.as_str().to_owned()));
                tried.insert(group, now);
            }
        }
        let expected = [(0, "/a"), (1, "/b"), (90, "/a"), (91, "/b")];
        assert_eq!(turns, expected.map(|(second, group)| (second, group.to_owned())));
    }

    #[test]
    fn what_is_old_or_of_another_group_is_not_used() {
        let adviser = adviser(&["/a", "/b"]);
        let begun = Instant::now();
        for group in ["/a", "/b"] {
            let learnt = (begun, Learnt::Generations(Vec::new()));
            adviser.lock().learnt.insert(Name::from(group), learnt);
        }
        assert_eq!(adviser.learnt(begun).len(), 2);
        adviser.set_groups(vec![Name::from("/b")]);
        let known: Vec<Name> = adviser.learnt(begun).into_keys().collect();
        assert_eq!(known, [Name::from("/b")]);
        assert!(adviser.learnt(begun + OUTDATED).is_empty());
    }
}
