// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state machine. [`step`] may be called at any time, also after a crash between any two writes: what
//! it returns follows from the profile, its stored state, and the requests and reports of the nodes.

use std::collections::BTreeSet;

use crate::judge::{Judgement, Measured, Verdict, judge};
use crate::order::{next_target, place_of, revision_of};
use crate::{
    Action, Counts, Node, Phase, Profile, Report, Request, Role, Seconds, Stage, State, Step,
};

/// Most nodes that are only measured in a wave.
const MOST_COMPARED: usize = 40;
/// Fewest, if there are so many of the kind: one node does not show what is usual.
const LEAST_COMPARED: usize = 10;
/// A wave stops if more of its nodes fail or do not answer: one in this number.
const ONE_FAILURE_IN: usize = 10;
/// If so many nodes refuse a change and none makes it, the roll-out stops.
const MOST_REFUSALS: usize = 10;

/// Returns what to do next.
///
/// Calling it again after its result was carried out, with nothing new from the nodes, returns no
/// requests and the same state.
#[must_use]
pub fn step(profile: &Profile, state: &State, nodes: &[Node], now: Seconds) -> Step {
    let mut rollout = Rollout::new(profile, state, nodes, now);
    rollout.advance();
    rollout.finish()
}

struct Rollout<'a> {
    profile: &'a Profile,
    nodes: &'a [Node],
    now: Seconds,
    revision: String,
    result: Step,
}

/// How far a changed node is, as the controller sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It was asked and has not answered yet.
    Waiting,
    /// It has measured.
    Measured,
    /// It keeps the change, as it was asked.
    Kept,
    /// It has undone the change although it was not asked to, for example because its timer ran out.
    GaveUp,
    /// It has undone the change as it was asked, or never made it.
    Undone,
    /// It refused the change.
    Refused,
    /// It failed.
    Failed,
    /// It did not answer in time.
    Silent,
}

impl Standing {
    /// Whether nothing more is to be expected of a node that was asked to undo.
    fn is_settled(self) -> bool {
        matches!(self, Self::Undone | Self::Refused | Self::Failed | Self::Silent)
    }
}

impl<'a> Rollout<'a> {
    fn new(profile: &'a Profile, state: &State, nodes: &'a [Node], now: Seconds) -> Self {
        let result = Step { state: state.clone(), ..Step::default() };
        Self { profile, nodes, now, revision: revision_of(profile), result }
    }

    /// Nodes that this profile asks, with their requests.
    fn asked(&self) -> impl Iterator<Item = (&'a Node, &'a Request)> {
        let name = &self.profile.name;
        let asked = self.nodes.iter().filter_map(|node| Some((node, node.request.as_ref()?)));
        asked.filter(move |(_, request)| request.profile == *name)
    }

    /// Nodes that are asked to change something for the present revision.
    fn changed(&self) -> impl Iterator<Item = (&'a Node, &'a Request)> {
        let revision = self.revision.clone();
        let is_one =
            move |request: &Request| request.revision == revision && request.role == Role::Change;
        self.asked().filter(move |(_, request)| is_one(request))
    }

    fn standing(&self, node: &Node, request: &Request) -> Standing {
        let is_of_request =
            |report: &&Report| report.revision == request.revision && report.wave == request.wave;
        let phase = node.report.as_ref().filter(is_of_request).map(|report| report.phase);
        // The node may still be about to do what the newest request says.
        match (request.action, phase) {
            (_, Some(Phase::Failed)) => Standing::Failed,
            (_, Some(Phase::Refused)) => Standing::Refused,
            (Action::Undo, Some(Phase::Undone)) => Standing::Undone,
            (Action::Keep, Some(Phase::Kept)) => Standing::Kept,
            (_, Some(Phase::Undone)) => Standing::GaveUp,
            (Action::Try, Some(Phase::Measured)) => Standing::Measured,
            _ if self.is_late(request) => Standing::Silent,
            _ => Standing::Waiting,
        }
    }

    fn is_late(&self, request: &Request) -> bool {
        self.now.saturating_sub(request.at) >= self.profile.answer
    }

    fn ask(&mut self, node: &str, request: Option<Request>) {
        self.result.requests.push((node.to_owned(), request));
    }

    /// Asks a node for something else, if it is not asked for it already.
    fn ask_for(&mut self, node: &Node, request: &Request, action: Action) {
        if request.action != action {
            self.ask(&node.name, Some(Request { action, at: self.now, ..request.clone() }));
        }
    }

    fn event(&mut self, event: impl Into<String>) {
        self.result.events.push(event.into());
    }

    fn set_stage(&mut self, stage: Stage) {
        self.result.state.stage = stage;
    }

    fn advance(&mut self) {
        if self.profile.deleted {
            return self.delete();
        }
        if self.result.state.revision != self.revision && !self.replace() {
            return;
        }
        match self.result.state.stage {
            Stage::Stopping | Stage::Stopped => self.stop(),
            _ if self.profile.paused => self.pause(),
            Stage::Paused => {
                self.event("resumed");
                self.set_stage(Stage::Ready);
                self.result.message = "resumed; the next wave begins".to_owned();
            }
            Stage::Ready | Stage::Complete | Stage::Replacing | Stage::Deleting => {
                self.begin_wave();
            }
            Stage::Trying => self.await_wave(),
            Stage::Keeping => self.await_kept(),
        }
    }

    /// Asks nodes to undo, and removes requests that are no longer needed. Returns the nodes that have not
    /// finished, and the names of those whose condition is not known.
    fn undo(&mut self, nodes: &[(&Node, &Request)]) -> (usize, Vec<String>) {
        let (mut unfinished, mut unknown) = (0, Vec::new());
        for (node, request) in nodes {
            if request.role == Role::Compare {
                self.ask(&node.name, None);
                continue;
            }
            let standing = self.standing(node, request);
            if standing == Standing::GaveUp || standing == Standing::Refused {
                // nothing is left to undo
            } else if request.action != Action::Undo {
                self.ask_for(node, request, Action::Undo);
                unfinished += 1;
            } else if !standing.is_settled() {
                unfinished += 1;
            } else if standing != Standing::Undone {
                // The request stays: the node undoes the change when it answers again.
                unknown.push(node.name.clone());
            }
        }
        (unfinished, unknown)
    }

    fn delete(&mut self) {
        if self.result.state.stage != Stage::Deleting {
            self.event("the profile is deleted");
            self.set_stage(Stage::Deleting);
        }
        let all: Vec<_> = self.asked().collect();
        let stays = |node: &Node, request: &Request| {
            !self.profile.undo_if_deleted && self.standing(node, request) == Standing::Kept
        };
        let (kept, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(node, request)| stays(node, request));
        let (unfinished, unknown) = self.undo(&others);
        self.result.may_go = unfinished == 0;
        if self.result.may_go {
            for (node, request) in others.iter().chain(&kept) {
                if request.role == Role::Change && !unknown.contains(&node.name) {
                    self.ask(&node.name, None);
                }
            }
        }
        self.result.message = format!(
            "deleted: {} nodes stay changed, {unfinished} have not undone the change yet{}",
            kept.len(),
            list_unknown(&unknown)
        );
    }

    /// Undoes the change of a former revision. Returns whether that is done.
    fn replace(&mut self) -> bool {
        let former: Vec<_> =
            self.asked().filter(|(_, request)| request.revision != self.revision).collect();
        if !former.is_empty() && self.result.state.stage != Stage::Replacing {
            self.event("the profile was edited: nodes undo the former change");
            self.set_stage(Stage::Replacing);
        }
        let (unfinished, unknown) = self.undo(&former);
        self.result.message = format!(
            "edited: {unfinished} nodes have not undone the former change yet{}",
            list_unknown(&unknown)
        );
        if unfinished > 0 {
            return false;
        }
        for (node, request) in &former {
            if request.role == Role::Change && !unknown.contains(&node.name) {
                self.ask(&node.name, None);
            }
        }
        self.result.state = State { revision: self.revision.clone(), ..State::default() };
        self.event(format!("revision {} begins", self.revision));
        // Nodes are chosen in the next call, when their former requests are gone.
        former.is_empty()
    }

    fn stop(&mut self) {
        let all: Vec<_> = self.asked().collect();
        let (unfinished, unknown) = self.undo(&all);
        if unfinished == 0 && self.result.state.stage != Stage::Stopped {
            self.set_stage(Stage::Stopped);
            self.event(format!("every node has undone the change{}", list_unknown(&unknown)));
        }
        self.result.message = match unfinished {
            0 => format!("stopped; no node keeps the change{}", list_unknown(&unknown)),
            _ => format!("stopped; {unfinished} nodes have not undone the change yet"),
        };
    }

    fn pause(&mut self) {
        if self.result.state.stage != Stage::Paused {
            self.event("paused: nodes on trial undo the change");
            self.set_stage(Stage::Paused);
        }
        let all: Vec<_> = self.asked().collect();
        let stays =
            |request: &Request| request.role == Role::Change && request.action == Action::Keep;
        let (kept, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(_, request)| stays(request));
        let (unfinished, unknown) = self.undo(&others);
        for (node, request) in &others {
            // Such a node may be asked again after the pause.
            let standing = self.standing(node, request);
            let has_undone = matches!(standing, Standing::Undone | Standing::GaveUp);
            if request.role == Role::Change && has_undone {
                self.result.requests.retain(|(name, _)| *name != node.name);
                self.ask(&node.name, None);
            }
        }
        self.result.message = format!(
            "paused: {} nodes keep the change, {unfinished} on trial have not undone it yet{}",
            kept.len(),
            list_unknown(&unknown)
        );
    }

    /// Nodes that the profile is for, and that have no other owner.
    fn eligible(&self) -> Vec<&'a Node> {
        let is_free = |node: &&Node| {
            let request = node.request.as_ref();
            request.is_none_or(|request| request.profile == self.profile.name)
        };
        let nodes = self.nodes.iter().filter(|node| node.is_selected && node.other_owner.is_none());
        nodes.filter(is_free).collect()
    }

    fn begin_wave(&mut self) {
        let standings: Vec<Standing> =
            self.changed().map(|(node, request)| self.standing(node, request)).collect();
        let count = |wanted: Standing| standings.iter().filter(|it| **it == wanted).count();
        let (kept, refused) = (count(Standing::Kept), count(Standing::Refused));
        if kept == 0 && refused >= MOST_REFUSALS {
            return self
                .begin_stop(&format!("all {refused} nodes that were asked refused the change"));
        }
        // Nodes that cannot be changed do not count: of a wave of 10, ten are to be measured.
        let lost = standings.len() - kept;
        let nodes = self.eligible().len().saturating_sub(lost);
        let Some(target) = next_target(self.profile, to_u32(kept), to_u32(nodes)) else {
            if self.result.state.stage != Stage::Complete {
                self.event(format!("complete: {kept} nodes keep the change"));
                self.set_stage(Stage::Complete);
            }
            self.result.message =
                format!("{kept} nodes keep the change; {lost} could not be changed");
            return;
        };
        let is_first = standings.is_empty() && self.result.state.size == 0;
        self.result.state.wave = if is_first { 0 } else { self.result.state.wave + 1 };
        self.result.state.size = target - to_u32(kept);
        self.set_stage(Stage::Trying);
        let (wave, size) = (self.result.state.wave, self.result.state.size);
        self.event(format!("wave {wave}: {size} of {nodes} nodes try the change, {kept} keep it"));
        self.fill_wave();
        self.result.message = format!("wave {wave}: {size} nodes are asked to try the change");
    }

    fn wave(&self, role: Role) -> Vec<(&'a Node, &'a Request)> {
        let (wave, revision) = (self.result.state.wave, self.revision.clone());
        let is_of_wave = move |request: &Request| {
            request.wave == wave && request.revision == revision && request.role == role
        };
        self.asked().filter(|(_, request)| is_of_wave(request)).collect()
    }

    /// Asks nodes until the wave has as many as it should. Returns whether any was asked.
    fn fill_wave(&mut self) -> bool {
        let changed = self.wave(Role::Change);
        let compared = self.wave(Role::Compare);
        let mut free: Vec<&Node> =
            self.eligible().into_iter().filter(|node| node.request.is_none()).collect();
        free.sort_by_cached_key(|node| place_of(&self.revision, &node.name));
        let missing = (self.result.state.size as usize).saturating_sub(changed.len());
        let rest = free.split_off(missing.min(free.len()));
        let to_change = free;
        // Nodes that are changed last are compared with, so that the order stays random.
        let mut kinds: Vec<&str> = changed.iter().map(|(node, _)| node.kind.as_str()).collect();
        kinds.extend(to_change.iter().map(|node| node.kind.as_str()));
        let times = LEAST_COMPARED.div_ceil(kinds.len().max(1));
        kinds = kinds.repeat(times);
        kinds.truncate(MOST_COMPARED);
        for (node, _) in &compared {
            if let Some(at) = kinds.iter().position(|kind| *kind == node.kind) {
                kinds.swap_remove(at);
            }
        }
        let mut to_compare = Vec::new();
        for node in rest.into_iter().rev() {
            if let Some(at) = kinds.iter().position(|kind| *kind == node.kind) {
                kinds.swap_remove(at);
                to_compare.push(node);
            }
        }
        let request = |role| Request {
            profile: self.profile.name.clone(),
            revision: self.revision.clone(),
            wave: self.result.state.wave,
            role,
            action: Action::Try,
            at: self.now,
        };
        let (change, compare) = (request(Role::Change), request(Role::Compare));
        let any = !to_change.is_empty() || !to_compare.is_empty();
        // Nodes that are only measured come first: they are harmless if the controller ends here.
        for node in to_compare {
            self.ask(&node.name, Some(compare.clone()));
        }
        for node in to_change {
            self.ask(&node.name, Some(change.clone()));
        }
        any
    }

    fn await_wave(&mut self) {
        let changed = self.wave(Role::Change);
        // A former controller may have ended before it asked all. Late nodes are not replaced.
        let is_new =
            changed.iter().all(|(node, request)| self.standing(node, request) == Standing::Waiting);
        if is_new && changed.len() < self.result.state.size as usize && self.fill_wave() {
            self.result.message = format!("wave {}: nodes are asked", self.result.state.wave);
            return;
        }
        let compared = self.wave(Role::Compare);
        let standing = |(node, request): &(&Node, &Request)| self.standing(node, request);
        let failed: Vec<_> = changed.iter().filter(|it| is_failure(standing(it))).collect();
        if failed.len() > changed.len() / ONE_FAILURE_IN {
            let names: Vec<String> =
                failed.iter().take(5).map(|(node, _)| describe(node)).collect();
            let reason = format!(
                "{} of {} nodes of wave {} failed or did not answer: {}",
                failed.len(),
                changed.len(),
                self.result.state.wave,
                names.join(", ")
            );
            return self.begin_stop(&reason);
        }
        let measured_changed = measured(&changed);
        let measured_compared = measured(&compared);
        let judgement = judge(&self.profile.guards, &measured_changed, &measured_compared);
        let waiting =
            changed.iter().chain(&compared).filter(|it| standing(it) == Standing::Waiting);
        let waiting = waiting.count();
        // Harm to those that have answered is not improved by the others: they must not wait.
        let stops_early =
            waiting > 0 && !judgement.harmed.is_empty() && judgement.verdict == Verdict::Harm;
        if waiting > 0 && !stops_early {
            self.result.message = format!(
                "wave {}: {} of {} nodes have measured",
                self.result.state.wave,
                measured_changed.len(),
                changed.len()
            );
            return;
        }
        self.decide(judgement, &changed, &compared);
    }

    fn decide(
        &mut self,
        judgement: Judgement,
        changed: &[(&Node, &Request)],
        compared: &[(&Node, &Request)],
    ) {
        let wave = self.result.state.wave;
        let reasons = judgement.reasons.join("; ");
        let goes_on = match judgement.verdict {
            Verdict::NoHarm | Verdict::TooFew => true,
            Verdict::Undecided => self.profile.continue_if_undecided,
            Verdict::Harm => false,
        };
        let effect = judgement.describe_smallest_effect();
        let unseen = judgement.unseen_share().map_or_else(String::new, |share| {
            format!("; up to {:.0} % of nodes may be greatly harmed unseen", (share * 100.0).ceil())
        });
        self.result.judgement = Some(judgement);
        if !goes_on {
            return self.begin_stop(&format!("wave {wave}: {reasons}"));
        }
        for (node, request) in changed {
            match self.standing(node, request) {
                Standing::Measured => self.ask_for(node, request, Action::Keep),
                // What comes now is not expected any longer: the node is to be as it was.
                Standing::Silent | Standing::Failed => self.ask_for(node, request, Action::Undo),
                _ => {}
            }
        }
        for (node, _) in compared {
            self.ask(&node.name, None);
        }
        self.set_stage(Stage::Keeping);
        self.event(format!("wave {wave}: no harm found. It could show: {effect}{unseen}"));
        self.result.message = format!("wave {wave}: nodes are asked to keep the change");
    }

    fn await_kept(&mut self) {
        let changed = self.wave(Role::Change);
        let asked: Vec<_> =
            changed.iter().filter(|(_, request)| request.action != Action::Undo).collect();
        // A former controller may have ended before it asked all.
        for (node, request) in &asked {
            if self.standing(node, request) == Standing::Measured {
                self.ask_for(node, request, Action::Keep);
            }
        }
        for (node, _) in self.wave(Role::Compare) {
            self.ask(&node.name, None);
        }
        let standings: Vec<Standing> =
            asked.iter().map(|(node, request)| self.standing(node, request)).collect();
        let lost =
            standings.iter().filter(|it| is_failure(**it) || **it == Standing::GaveUp).count();
        let wave = self.result.state.wave;
        if lost > asked.len() / ONE_FAILURE_IN {
            return self.begin_stop(&format!(
                "wave {wave}: {lost} of {} nodes did not keep the change as they were asked",
                asked.len()
            ));
        }
        let waiting = |it: &&Standing| matches!(**it, Standing::Waiting | Standing::Measured);
        let waiting = standings.iter().filter(waiting).count();
        if waiting > 0 {
            self.result.message = format!("wave {wave}: {waiting} nodes have not confirmed yet");
            return;
        }
        let is_whole = self.result.requests.is_empty();
        if is_whole {
            self.set_stage(Stage::Ready);
            self.result.message = format!("wave {wave} is done");
        }
    }

    fn begin_stop(&mut self, reason: &str) {
        self.event(format!("stopped: {reason}"));
        self.set_stage(Stage::Stopping);
        let all: Vec<_> = self.asked().collect();
        self.result.requests.clear();
        self.undo(&all);
        self.result.message = format!("stopped: {reason}");
    }

    fn finish(mut self) -> Step {
        let mut counts = Counts { nodes: to_u32(self.eligible().len()), ..Counts::default() };
        let is_other = |node: &&Node| node.is_selected && node.other_owner.is_some();
        counts.left_alone = to_u32(self.nodes.iter().filter(is_other).count());
        for (node, request) in self.asked().filter(|(_, request)| request.role == Role::Change) {
            let counter = match self.standing(node, request) {
                Standing::Kept => &mut counts.kept,
                Standing::Waiting | Standing::Measured => &mut counts.trying,
                Standing::Undone | Standing::Refused | Standing::GaveUp => &mut counts.undone,
                Standing::Failed | Standing::Silent => &mut counts.unknown,
            };
            *counter += 1;
        }
        self.result.counts = counts;
        let mut seen = BTreeSet::new();
        self.result.requests.retain(|(name, _)| seen.insert(name.clone()));
        self.result
    }
}

fn is_failure(standing: Standing) -> bool {
    matches!(standing, Standing::Failed | Standing::Silent | Standing::GaveUp)
}

fn measured<'a>(nodes: &[(&'a Node, &'a Request)]) -> Vec<Measured<'a>> {
    let values = |(node, request): &(&'a Node, &'a Request)| {
        let report = node.report.as_ref()?;
        let is_of_request = report.revision == request.revision && report.wave == request.wave;
        let has_measured = matches!(report.phase, Phase::Measured | Phase::Kept);
        (is_of_request && has_measured).then_some(Measured {
            name: &node.name,
            kind: &node.kind,
            before: report.before.as_ref()?,
            after: report.after.as_ref()?,
        })
    };
    nodes.iter().filter_map(values).collect()
}

fn describe(node: &Node) -> String {
    let message = node.report.as_ref().and_then(|report| report.message.as_deref());
    match message {
        Some(message) => format!("{} ({message})", node.name),
        None => node.name.clone(),
    }
}

fn list_unknown(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let shown: Vec<&str> = names.iter().take(20).map(String::as_str).collect();
    let more = names.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("; not known to have undone it: {}{more}", shown.join(", "))
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
pub(crate) mod tests;
