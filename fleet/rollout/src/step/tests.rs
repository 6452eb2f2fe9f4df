// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Simulated clusters: nodes that carry out requests, do better or worse, die, or lie.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{Guard, Metric, Values};

pub(crate) fn profile() -> Profile {
    Profile {
        name: "p".to_owned(),
        uid: "u1".to_owned(),
        want: vec!["zram".to_owned()],
        canary: 1,
        waves: vec![1, 5, 25, 100],
        max_concurrent: 500,
        answer: 1000,
        guards: vec![
            Guard { metric: Metric::MemoryFull, max_increase: 0.25 },
            Guard { metric: Metric::Refaults, max_increase: 0.25 },
        ],
        continue_if_undecided: false,
        undo_if_deleted: true,
        paused: false,
        deleted: false,
    }
}

/// What the change really does to a node.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Nature {
    /// Multiplies refaults and PSI.
    Effect(f64),
    /// Never answers.
    Dead,
    /// Refuses the change.
    Refuses,
    /// Reports what cannot be.
    Lies,
}

#[derive(Debug, Clone)]
struct Machine {
    node: Node,
    nature: Nature,
    /// Whether the change is in force, and when the timer undoes it.
    changed: bool,
    timer: Option<Seconds>,
    /// Whether the change was ever in force.
    touched: bool,
}

#[derive(Debug, Clone)]
struct Cluster {
    machines: BTreeMap<String, Machine>,
    random: fastrand::Rng,
    now: Seconds,
    state: State,
    events: Vec<String>,
    last: Step,
}

const WINDOW: Seconds = 100;
/// Longer than a node may take to answer, as a profile requires.
const TRIAL: Seconds = 1300;

impl Cluster {
    fn new(seed: u64, nodes: usize, nature: impl Fn(usize) -> Nature) -> Self {
        let machine = |at: usize| {
            let node = Node {
                name: format!("node-{at:04}"),
                kind: if at.is_multiple_of(4) { "arm64" } else { "x86_64" }.to_owned(),
                is_selected: true,
                other_owner: None,
                request: None,
                report: None,
            };
            let machine =
                Machine { node, nature: nature(at), changed: false, timer: None, touched: false };
            (machine.node.name.clone(), machine)
        };
        Self {
            machines: (0..nodes).map(machine).collect(),
            random: fastrand::Rng::with_seed(seed),
            now: 1_000_000,
            state: State::default(),
            events: Vec::new(),
            last: Step::default(),
        }
    }

    fn nodes(&self) -> Vec<Node> {
        self.machines.values().map(|it| it.node.clone()).collect()
    }

    /// One call of the controller. It ends after `writes` writes, as if it were killed.
    fn control(&mut self, profile: &Profile, writes: usize) {
        let found = step(profile, &self.state, &self.nodes(), self.now);
        let mut left = writes;
        let mut write = || {
            let may = left > 0;
            left = left.saturating_sub(1);
            may
        };
        if write() {
            self.state = found.state.clone();
            self.events.extend(found.events.clone());
        } else {
            return;
        }
        for (name, request) in &found.requests {
            if !write() {
                return;
            }
            self.machines.get_mut(name).unwrap().node.request = request.clone();
        }
        self.last = found;
    }

    /// Lets all nodes act, then a window of time pass.
    fn run_nodes(&mut self) {
        self.now += WINDOW;
        for machine in self.machines.values_mut() {
            machine.act(self.now, &mut self.random);
        }
    }

    fn run(&mut self, profile: &Profile, rounds: usize) {
        for _ in 0..rounds {
            self.control(profile, usize::MAX);
            self.run_nodes();
        }
    }

    fn count(&self, is: impl Fn(&Machine) -> bool) -> usize {
        self.machines.values().filter(|it| is(it)).count()
    }

    fn touched(&self) -> usize {
        self.count(|it| it.touched)
    }

    fn changed(&self) -> usize {
        self.count(|it| it.changed)
    }
}

impl Machine {
    fn act(&mut self, now: Seconds, random: &mut fastrand::Rng) {
        if self.timer.is_some_and(|at| now >= at) {
            (self.changed, self.timer) = (false, None);
            if let Some(report) = &mut self.node.report {
                report.phase = Phase::Undone;
            }
        }
        if self.nature == Nature::Dead {
            return;
        }
        let Some(request) = self.node.request.clone() else {
            // What is on trial is undone when the request is gone.
            if self.timer.take().is_some() {
                self.changed = false;
            }
            return;
        };
        let is_new = self.node.report.as_ref().is_none_or(|report| {
            report.revision != request.revision || report.wave != request.wave
        });
        let mut report = |phase, before, after| {
            self.node.report = Some(Report {
                revision: request.revision.clone(),
                wave: request.wave,
                phase,
                before,
                after,
                message: None,
            });
        };
        let effect = match (request.role, self.nature) {
            (Role::Change, Nature::Effect(effect)) => effect,
            _ => 1.0,
        };
        match request.action {
            Action::Try
                if is_new && request.role == Role::Change && self.nature == Nature::Refuses =>
            {
                report(Phase::Refused, None, None);
            }
            Action::Try if is_new => {
                let mut values = |factor: f64| {
                    // Load differs by 5 % from window to window, and rises and falls on all nodes.
                    let common = 1.0 + 0.5 * ((now / 700) as f64).sin();
                    let mut noise =
                        || 1.0 + (random.f64() + random.f64() + random.f64() - 1.5) * 0.1;
                    Some(Values {
                        memory_full: Some(2.0 * factor * common * noise()),
                        memory_some: Some(5.0 * factor * common * noise()),
                        refaults: Some(2000.0 * factor * common * noise()),
                        kswapd_scans: Some(9000.0 * factor * common * noise()),
                        oom_kills: Some(0.0),
                    })
                };
                let (before, mut after) = (values(1.0), values(effect));
                if self.nature == Nature::Lies {
                    after = Some(Values {
                        refaults: Some(f64::NAN),
                        memory_full: Some(-7.0),
                        ..Values::default()
                    });
                }
                report(Phase::Measured, before, after);
                if request.role == Role::Change {
                    (self.changed, self.touched, self.timer) = (true, true, Some(now + TRIAL));
                }
            }
            Action::Try => {}
            Action::Keep if self.changed => {
                self.timer = None;
                if let Some(report) = &mut self.node.report {
                    report.phase = Phase::Kept;
                }
            }
            Action::Keep => {}
            Action::Undo => {
                (self.changed, self.timer) = (false, None);
                report(Phase::Undone, None, None);
            }
        }
    }
}

/// The promise: a change that harms all nodes touches at most 1 % of 1,000 nodes, each time.
#[test]
fn a_harmful_profile_touches_at_most_one_percent() {
    for seed in 0..20 {
        let mut cluster = Cluster::new(seed, 1000, |_| Nature::Effect(1.6));
        cluster.run(&Profile { name: "p".to_owned(), uid: format!("u{seed}"), ..profile() }, 40);
        assert!((1..=10).contains(&cluster.touched()), "seed {seed}: {}", cluster.touched());
        assert_eq!((cluster.changed(), cluster.state.stage), (0, Stage::Stopped));
        assert!(
            cluster.events.iter().any(|event| event.contains("accepted is")),
            "{:?}",
            cluster.events
        );
    }
}

/// With `continue_if_undecided` too, and with the other extreme of pace.
#[test]
fn a_harmful_profile_is_stopped_at_any_pace() {
    for (canary, max_concurrent) in [(1, 1), (10, 500), (3, 7)] {
        let profile = Profile { canary, max_concurrent, continue_if_undecided: true, ..profile() };
        let mut cluster = Cluster::new(9, 1000, |_| Nature::Effect(3.0));
        cluster.run(&profile, 60);
        assert!(
            (1..=10).contains(&cluster.touched()),
            "{canary} {max_concurrent}: {}",
            cluster.touched()
        );
        assert_eq!(cluster.changed(), 0);
    }
}

#[test]
fn a_good_profile_reaches_all_nodes() {
    for seed in 0..20 {
        let mut cluster = Cluster::new(seed, 1000, |_| Nature::Effect(0.9));
        cluster.run(&Profile { uid: format!("u{seed}"), ..profile() }, 60);
        assert_eq!(cluster.changed(), 1000, "seed {seed}: {:?}", cluster.events);
        assert_eq!(cluster.state.stage, Stage::Complete);
        assert_eq!(cluster.count(|it| it.timer.is_some()), 0, "no timer is left");
        assert_eq!(cluster.last.counts.kept, 1000);
    }
}

/// Harm to a minority is found when a wave contains enough of it, and everything is undone.
#[test]
fn harm_to_a_part_of_the_nodes_stops_the_roll_out() {
    for (share, most) in [(2, 10), (20, 250)] {
        for seed in 0..10 {
            let nature =
                |at: usize| Nature::Effect(if at.is_multiple_of(share) { 4.0 } else { 1.0 });
            let mut cluster = Cluster::new(seed, 1000, nature);
            cluster.run(&Profile { uid: format!("u{seed}"), ..profile() }, 60);
            assert_eq!(
                (cluster.changed(), cluster.state.stage),
                (0, Stage::Stopped),
                "{:?}",
                cluster.events
            );
            assert!(cluster.touched() <= most, "1 in {share}, seed {seed}: {}", cluster.touched());
        }
    }
}

#[test]
fn nodes_that_refuse_are_left_out_and_dead_ones_are_named() {
    let nature = |at: usize| match at % 50 {
        0 => Nature::Dead,
        1..=5 => Nature::Refuses,
        _ => Nature::Effect(1.0),
    };
    let mut cluster = Cluster::new(3, 1000, nature);
    cluster.run(&profile(), 300);
    assert_eq!(cluster.state.stage, Stage::Complete, "{:?}", cluster.events);
    let good = cluster.count(|it| matches!(it.nature, Nature::Effect(_)));
    assert_eq!(cluster.changed(), good);
    assert_eq!(cluster.last.counts.unknown, 20);

    let mut cluster = Cluster::new(3, 1000, |_| Nature::Dead);
    cluster.run(&profile(), 60);
    assert_eq!((cluster.state.stage, cluster.touched()), (Stage::Stopped, 0));
    assert!(
        cluster.last.message.contains("not known to have undone it: node-"),
        "{}",
        cluster.last.message
    );

    let mut cluster = Cluster::new(3, 1000, |_| Nature::Refuses);
    cluster.run(&profile(), 200);
    assert_eq!((cluster.state.stage, cluster.touched()), (Stage::Stopped, 0));
    assert!(
        cluster.events.iter().any(|it| it.contains("nodes that were asked refused")),
        "{:?}",
        cluster.events
    );
}

/// What a hostile node says cannot make the others change, nor stop the judgement of the others.
#[test]
fn nodes_that_lie_do_not_hide_harm() {
    let lies = |effect: f64| {
        move |at: usize| if at.is_multiple_of(10) { Nature::Lies } else { Nature::Effect(effect) }
    };
    let mut cluster = Cluster::new(5, 1000, lies(2.0));
    cluster.run(&profile(), 60);
    assert!(cluster.touched() <= 10 && cluster.changed() == 0);
}

#[test]
fn nodes_with_another_owner_are_left_alone() {
    let mut cluster = Cluster::new(5, 200, |_| Nature::Effect(1.0));
    for machine in cluster.machines.values_mut().take(50) {
        machine.node.other_owner = Some("tuned".to_owned());
    }
    for machine in cluster.machines.values_mut().skip(50).take(50) {
        machine.node.is_selected = false;
    }
    cluster.run(&profile(), 60);
    assert_eq!((cluster.changed(), cluster.state.stage), (100, Stage::Complete));
    assert_eq!((cluster.last.counts.left_alone, cluster.last.counts.nodes), (50, 100));
}

#[test]
fn a_paused_profile_keeps_what_is_kept_and_undoes_what_is_on_trial() {
    let mut cluster = Cluster::new(5, 1000, |_| Nature::Effect(1.0));
    while cluster.state.wave < 2 || cluster.state.stage != Stage::Trying {
        cluster.run(&profile(), 1);
    }
    let kept = cluster.count(|it| it.changed && it.timer.is_none());
    assert!(kept >= 10 && cluster.changed() > kept);
    let paused = Profile { paused: true, ..profile() };
    cluster.run(&paused, 5);
    assert_eq!((cluster.changed(), cluster.state.stage), (kept, Stage::Paused));
    assert!(cluster.last.message.contains(&format!("{kept} nodes keep the change, 0 on trial")));
    let asked = cluster.count(|it| it.node.request.is_some());
    assert_eq!(asked, kept, "requests of nodes that keep it stay");
    cluster.run(&profile(), 60);
    assert_eq!((cluster.changed(), cluster.state.stage), (1000, Stage::Complete));
}

#[test]
fn an_edited_profile_undoes_the_former_change_and_begins_anew() {
    let mut cluster = Cluster::new(5, 300, |_| Nature::Effect(1.0));
    cluster.run(&profile(), 60);
    assert_eq!(cluster.changed(), 300);
    let edited = Profile { want: vec!["swappiness=10".to_owned()], ..profile() };
    cluster.control(&edited, usize::MAX);
    assert_eq!(cluster.state.stage, Stage::Replacing);
    cluster.run_nodes();
    cluster.control(&edited, usize::MAX);
    assert_eq!(cluster.changed(), 0);
    cluster.run(&edited, 60);
    assert_eq!((cluster.changed(), cluster.state.stage), (300, Stage::Complete));
    assert_eq!(cluster.state.revision, revision_of(&edited));
}

#[test]
fn a_deleted_profile_ends_as_it_says() {
    for (undo_if_deleted, left) in [(true, 0), (false, 300)] {
        let mut cluster = Cluster::new(5, 300, |_| Nature::Effect(1.0));
        let profile = Profile { undo_if_deleted, ..profile() };
        cluster.run(&profile, 60);
        let deleted = Profile { deleted: true, ..profile };
        cluster.run(&deleted, 3);
        assert!(cluster.last.may_go);
        assert_eq!(cluster.changed(), left, "{}", cluster.last.message);
        assert_eq!(cluster.count(|it| it.node.request.is_some()), 0);
    }
}

/// Deleting never waits for a dead node for ever, and the request stays for the time when it is back.
#[test]
fn a_dead_node_does_not_keep_a_deleted_profile() {
    let mut cluster = Cluster::new(5, 100, |_| Nature::Effect(1.0));
    cluster.run(&profile(), 60);
    cluster.machines.get_mut("node-0007").unwrap().nature = Nature::Dead;
    let deleted = Profile { deleted: true, ..profile() };
    cluster.run(&deleted, 3);
    assert!(!cluster.last.may_go);
    cluster.run(&deleted, 12);
    assert!(cluster.last.may_go && cluster.last.message.contains("node-0007"));
    let request = cluster.machines["node-0007"].node.request.as_ref();
    assert_eq!(request.map(|it| it.action), Some(Action::Undo));
    assert_eq!((cluster.changed(), cluster.count(|it| it.node.request.is_some())), (1, 1));
}

/// A clock that goes backwards makes no node silent.
#[test]
fn a_clock_that_jumps_back_stops_nothing() {
    let mut cluster = Cluster::new(5, 100, |_| Nature::Effect(1.0));
    for round in 0..60 {
        cluster.control(&profile(), usize::MAX);
        cluster.run_nodes();
        if round % 7 == 3 {
            cluster.now -= 5 * WINDOW;
            cluster
                .machines
                .values_mut()
                .for_each(|it| it.timer = it.timer.map(|at| at - 5 * WINDOW));
        }
    }
    assert_eq!(cluster.state.stage, Stage::Complete, "{:?}", cluster.events);
}

/// The naive oracle of how many nodes may be on trial or kept: the numbers that the profile allows,
/// counted from the requests of all nodes.
fn allowed_after(profile: &Profile, kept: usize, nodes: usize) -> usize {
    let one_percent = (nodes / 100).max(1);
    let room = kept + profile.max_concurrent.max(10) as usize;
    if kept < one_percent { one_percent.min(room) } else { room }
}

fn any_profile() -> impl Strategy<Value = Profile> {
    (1u32..=10, 1u32..300, any::<bool>(), 0u32..1000).prop_map(
        |(canary, max_concurrent, go_on, uid)| Profile {
            canary,
            max_concurrent,
            continue_if_undecided: go_on,
            uid: uid.to_string(),
            ..profile()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Wherever a controller is killed, and whatever it does after: never more nodes are changed than the
    /// profile allows, and a good change reaches all nodes.
    #[test]
    fn a_controller_that_is_killed_anywhere_goes_on(
        profile in any_profile(),
        nodes in 20usize..300,
        kills in prop::collection::vec(0usize..40, 0..60),
        seed in any::<u64>(),
    ) {
        let mut cluster = Cluster::new(seed, nodes, |_| Nature::Effect(1.0));
        let mut kills = kills.into_iter();
        for _ in 0..1200 {
            let kept = cluster.count(|it| it.changed && it.timer.is_none());
            cluster.control(&profile, kills.next().unwrap_or(usize::MAX));
            cluster.run_nodes();
            let allowed = allowed_after(&profile, kept, nodes);
            prop_assert!(cluster.changed() <= allowed, "{} of {allowed}, {kept} kept", cluster.changed());
            if cluster.state.stage == Stage::Complete || cluster.state.stage == Stage::Stopped {
                break;
            }
        }
        // With a noise of 5 % and few pairs, an undecided comparison may stop it; then nothing is changed.
        let end = (cluster.state.stage, cluster.changed());
        prop_assert!(end == (Stage::Complete, nodes) || end == (Stage::Stopped, 0), "{end:?} {:?}", cluster.events);
        if profile.continue_if_undecided {
            prop_assert_eq!(end.0, Stage::Complete);
        }
    }

    /// Two controllers that act at the same time, each on what it has read, ask the same nodes.
    #[test]
    fn two_controllers_change_no_more_nodes_than_one(profile in any_profile(), nodes in 100usize..300, seed in any::<u64>()) {
        let mut cluster = Cluster::new(seed, nodes, |_| Nature::Effect(1.0));
        for _ in 0..300 {
            let kept = cluster.count(|it| it.changed && it.timer.is_none());
            let (state, read, now) = (cluster.state.clone(), cluster.nodes(), cluster.now);
            cluster.control(&profile, usize::MAX);
            let second = step(&profile, &state, &read, now + 1);
            cluster.state = second.state;
            for (name, request) in second.requests {
                cluster.machines.get_mut(&name).unwrap().node.request = request;
            }
            cluster.run_nodes();
            prop_assert!(cluster.changed() <= allowed_after(&profile, kept, nodes));
            if cluster.state.stage == Stage::Complete {
                break;
            }
        }
    }

    /// Nothing is asked twice: a second call on what the first left changes nothing.
    #[test]
    fn a_step_that_was_carried_out_is_not_repeated(
        profile in any_profile(), rounds in 0usize..30, paused in any::<bool>(), deleted in any::<bool>(), seed in any::<u64>(),
    ) {
        let mut cluster = Cluster::new(seed, 120, |_| Nature::Effect(1.0));
        cluster.run(&profile, rounds);
        let profile = Profile { paused, deleted, ..profile };
        // Some steps only change the stage, so that the next one acts.
        for _ in 0..5 {
            cluster.control(&profile, usize::MAX);
        }
        let (state, nodes) = (cluster.state.clone(), cluster.nodes());
        cluster.control(&profile, usize::MAX);
        prop_assert_eq!(cluster.nodes(), nodes);
        prop_assert_eq!(cluster.state, state);
    }
}
