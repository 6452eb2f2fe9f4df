// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of agings on a made-up kernel: one that refuses, that is raced, whose group goes, and whose
//! refaults fall or not.

use pagewise_model::{Bytes, Generation, Millis, NodeGenerations, Pages};

use super::*;

const PATH: &str = "/job";

/// A kernel with one group of two nodes and one below it.
#[derive(Debug)]
struct Kernel {
    inode: Option<u64>,
    groups: Vec<GroupGenerations>,
    /// Refaults of each time of waiting, in pages.
    course: Vec<u64>,
    waited: usize,
    total: u64,
    commands: Vec<String>,
    /// Before these commands, counted from 1, the kernel ages by itself.
    raced: Vec<usize>,
    /// Errors for all commands.
    refuses: Option<Errno>,
    /// After this many commands the group is gone, or another one.
    inode_later: Option<(usize, Option<u64>)>,
    stops_at: Option<usize>,
    records: Vec<AgingRecord>,
}

fn group(id: u64, path: &str, nodes: &[(u32, u64)]) -> GroupGenerations {
    let generation = |number| Generation {
        number,
        age: Millis::new(0),
        anon: Pages::new(1),
        file: Pages::new(1),
    };
    let node = |&(node, youngest): &(u32, u64)| NodeGenerations {
        node,
        generations: (youngest - 3..=youngest).map(generation).collect(),
    };
    GroupGenerations { id, path: path.into(), nodes: nodes.iter().map(node).collect() }
}

fn kernel(course: &[u64]) -> Kernel {
    Kernel {
        inode: Some(77),
        groups: vec![group(4, PATH, &[(0, 3), (2, 5)]), group(9, "/job/a", &[(0, 8)])],
        course: course.to_vec(),
        waited: 0,
        total: 0,
        commands: Vec::new(),
        raced: Vec::new(),
        refuses: None,
        inode_later: None,
        stops_at: None,
        records: Vec::new(),
    }
}

impl Kernel {
    fn node(&mut self, id: u64, node: u32) -> Option<&mut NodeGenerations> {
        let group = self.groups.iter_mut().find(|group| group.id == id)?;
        group.nodes.iter_mut().find(|it| it.node == node)
    }
}

fn add_generation(node: &mut NodeGenerations) {
    let last = *node.generations.last().unwrap();
    node.generations.push(Generation { number: last.number + 1, ..last });
    node.generations.remove(0);
}

impl AgingHost for Kernel {
    fn generations(&self) -> io::Result<Vec<GroupGenerations>> {
        Ok(self.groups.clone())
    }

    /// `run_aging` of mm/vmscan.c: an older number does nothing, a newer one is refused.
    fn command(&mut self, command: &str) -> io::Result<()> {
        self.commands.push(command.to_owned());
        let count = self.commands.len();
        if let Some((_, inode)) = self.inode_later.filter(|(after, _)| count >= *after) {
            self.inode = inode;
        }
        if let Some(errno) = self.refuses {
            return Err(errno.into());
        }
        let words: Vec<u64> =
            command.split_whitespace().skip(1).map(|word| word.parse().unwrap()).collect();
        assert_eq!(&words[3..], [1, 1], "can_swap, force_scan");
        let is_raced = self.raced.contains(&count);
        let node = self.node(words[0], u32::try_from(words[1]).unwrap()).ok_or(Errno::INVAL)?;
        if is_raced {
            add_generation(node);
        }
        let youngest = node.youngest().unwrap();
        if words[2] > youngest {
            return Err(Errno::INVAL.into());
        }
        if words[2] == youngest {
            add_generation(node);
        }
        Ok(())
    }

    fn identity(&self) -> Option<u64> {
        self.inode
    }

    fn refaults(&self) -> Option<RefaultCounters> {
        self.inode?;
        Some(RefaultCounters { file: self.total, anon: 0, swap: Some(Bytes::new(0)) })
    }

    fn wait(&mut self, _: Duration) -> Option<f64> {
        let now = self.waited;
        self.waited += 1;
        if self.stops_at == Some(now) {
            return None;
        }
        self.total += self.course.get(now).copied().unwrap_or_else(|| *self.course.last().unwrap());
        Some(1.0)
    }

    fn record(&mut self, record: &AgingRecord) -> Result<(), Error> {
        // each aging is recorded before the kernel is asked
        if record.after.is_none() {
            assert_eq!(self.commands.len() % 3, 0, "{:?}", self.commands);
        }
        self.records.push(record.clone());
        Ok(())
    }

    fn stamp(&self) -> (u64, Option<String>) {
        (1_700_000_000 + self.records.len() as u64 / 2, None)
    }
}

const BUDGET: AgingBudget = AgingBudget { times: 6, every: Duration::from_secs(1) };

fn age_on(kernel: &mut Kernel) -> Result<Aging, AgingFailure> {
    run(kernel, PATH, BUDGET, &mut |_| {})
}

#[test]
fn all_nodes_of_the_group_and_of_those_below_it_are_aged_once_if_that_is_enough() {
    let mut kernel = kernel(&[8000, 300]);
    let aging = age_on(&mut kernel).unwrap();
    assert_eq!(kernel.commands, ["+ 4 0 3 1 1", "+ 4 2 5 1 1", "+ 9 0 8 1 1"]);
    assert_eq!((aging.ended, aging.rounds.len()), (AgingEnd::Fell, 1));
    let round = &aging.rounds[0];
    let aged: Vec<_> =
        round.nodes.iter().map(|it| (&*it.group, it.node, it.from, it.to.unwrap())).collect();
    assert_eq!(aged, [("/job", 0, 3, 4), ("/job", 2, 5, 6), ("/job/a", 0, 8, 9)]);
    assert_eq!((round.before.file, round.after.unwrap().file), (8000, 300));
    // announced, then measured
    assert_eq!(kernel.records.len(), 2);
    assert!(kernel.records[0].after.is_none() && kernel.records[0].nodes[0].to.is_none());
    assert_eq!(kernel.records[1], *round);
}

#[test]
fn the_second_aging_may_be_the_one_that_helps() {
    let mut kernel = kernel(&[8000, 7900, 400]);
    let aging = age_on(&mut kernel).unwrap();
    assert_eq!((aging.ended, aging.rounds.len()), (AgingEnd::Fell, 2));
    assert_eq!(kernel.commands.len(), 6);
}

#[test]
fn agings_end_when_refaults_do_not_fall_and_when_the_budget_is_used_up() {
    for (course, ended, rounds) in [
        (&[8000, 7900, 8100, 8000, 7800][..], AgingEnd::DidNotFall, 4),
        // a fall that is not enough goes on, and starts the count of those in vain anew
        (&[8000, 7900, 6000, 7900, 7900, 7900, 7900], AgingEnd::DidNotFall, 6),
        (&[8000, 6000, 5000, 4000, 3000, 3000, 3000], AgingEnd::Budget, 6),
        // as measured on 7.2
        (&[8000, 8600, 6200, 7700, 300], AgingEnd::Fell, 4),
        (&[8000, 17_000], AgingEnd::DidNotFall, 1),
        (&[0], AgingEnd::FewRefaults, 0),
        (&[49], AgingEnd::FewRefaults, 0),
    ] {
        let mut kernel = kernel(course);
        let aging = age_on(&mut kernel).unwrap();
        assert_eq!((aging.ended, aging.rounds.len()), (ended, rounds), "{course:?}");
        assert_eq!(kernel.commands.len(), rounds * 3);
    }
}

#[test]
fn a_generation_that_the_kernel_adds_meanwhile_counts_and_none_is_added_twice() {
    let mut kernel = kernel(&[8000, 300]);
    // an older number is accepted without effect
    kernel.raced = vec![2];
    let aging = age_on(&mut kernel).unwrap();
    assert_eq!(kernel.commands.len(), 3, "{:?}", kernel.commands);
    assert_eq!(aging.rounds[0].nodes[1].to, Some(6));
}

#[test]
fn a_kernel_that_keeps_refusing_is_asked_a_bounded_number_of_times() {
    let mut kernel = kernel(&[8000, 300]);
    kernel.refuses = Some(Errno::INVAL);
    let error = age_on(&mut kernel).unwrap_err();
    assert!(matches!(error, AgingFailure::Aging(AgingError::Kernel { .. })), "{error:?}");
    assert_eq!(kernel.commands.len(), 3 * TRIES as usize);
    kernel.commands.clear();
    kernel.refuses = Some(Errno::PERM);
    age_on(&mut kernel).unwrap_err();
    assert_eq!(kernel.commands.len(), 1, "an error that no race explains");
}

#[test]
fn a_group_that_is_gone_or_another_one_is_not_aged_again() {
    for inode in [None, Some(78)] {
        let mut kernel = kernel(&[8000, 7000]);
        kernel.inode_later = Some((3, inode));
        let error = age_on(&mut kernel).unwrap_err();
        assert!(matches!(error, AgingFailure::Aging(AgingError::Gone(_))), "{error:?}");
        assert_eq!(kernel.commands.len(), 3, "{inode:?}");
    }
    let mut kernel = kernel(&[8000]);
    kernel.groups.remove(0);
    let error = age_on(&mut kernel).unwrap_err();
    assert!(matches!(error, AgingFailure::Aging(AgingError::NotListed(_))), "{error:?}");
    assert!(kernel.commands.is_empty() && kernel.records.is_empty());
}

#[test]
fn a_group_below_that_ended_is_left_out() {
    let mut kernel = kernel(&[8000, 300]);
    let mut nodes = nodes_of(&kernel.groups);
    kernel.groups.pop();
    age_once(&mut kernel, PATH, &mut nodes).unwrap();
    assert_eq!(nodes.iter().map(|it| &*it.group).collect::<Vec<_>>(), [PATH, PATH]);
}

#[test]
fn a_run_that_is_stopped_says_what_it_did() {
    let mut before = kernel(&[8000]);
    before.stops_at = Some(0);
    let aging = age_on(&mut before).unwrap();
    assert_eq!((aging.ended, aging.rounds.len(), before.commands.len()), (AgingEnd::Stopped, 0, 0));
    let mut after = kernel(&[8000]);
    after.stops_at = Some(1);
    let aging = age_on(&mut after).unwrap();
    assert_eq!((aging.ended, aging.rounds.len(), after.commands.len()), (AgingEnd::Stopped, 1, 3));
    assert!(aging.after().is_none() && after.records.len() == 2);
}

#[test]
fn each_aging_is_in_the_history_once_with_its_effect_if_that_was_counted() {
    let mut kernel = kernel(&[8000, 7900, 400]);
    age_on(&mut kernel).unwrap();
    let all = || kernel.records.iter().cloned().map(ActionRecord::Aging);
    let joined = join_records(all().collect());
    assert_eq!(joined.iter().map(|it| it.round).collect::<Vec<_>>(), [1, 2]);
    assert!(joined.iter().all(|it| it.after.is_some()));
    // a run that was killed
    let joined = join_records(all().take(3).collect());
    assert_eq!(joined.len(), 2);
    assert!(joined[1].after.is_none());
}

#[test]
fn records_survive_a_torn_line() {
    use crate::fake::{Fake, STATE};
    use crate::host_ops::HostOps;
    let mut kernel = kernel(&[8000, 300]);
    age_on(&mut kernel).unwrap();
    let mut fake = Fake::new(true, true);
    let path = path_in(STATE);
    for record in &kernel.records {
        append(&mut fake, &path, &[ActionRecord::Aging(record.clone())]).unwrap();
    }
    let bytes = fake.journal(&path).unwrap();
    let parse = |bytes: &[u8]| RecordedLines::<ActionRecord>::parse(bytes);
    assert_eq!(parse(&bytes).records.len(), 2);
    let torn = parse(&bytes[..bytes.len() - 9]);
    assert_eq!((torn.records.len(), torn.is_torn, torn.damaged_lines.len()), (1, true, 0));
}

#[test]
fn each_failure_says_what_to_do() {
    let no_file = |errno: Errno| AgingError::NoFile(errno.into());
    for error in [
        no_file(Errno::PERM),
        no_file(Errno::NODEV),
        no_file(Errno::NOENT),
        AgingError::NotListed("/a".into()),
        AgingError::NoCounters("/a".into()),
        AgingError::Gone("/a".into()),
        AgingError::TooMany { group: "/a".into(), found: 2000 },
        AgingError::Kernel { group: "/a".into(), source: Errno::IO.into() },
    ] {
        assert!(error.next().is_some(), "{error}");
    }
    assert!(no_file(Errno::PERM).next().unwrap().contains("lockdown"));
}
