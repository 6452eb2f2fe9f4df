// SPDX-License-Identifier: Apache-2.0 OR MIT

use pagewise_model::{Bytes, OomKill};
use proptest::prelude::*;

use super::line::tests::{any_line, any_name, any_path};
use super::*;
use crate::testing::{host, mangle};

/// A reading 400 seconds after boot, time suspended not included.
fn taken() -> Taken {
    Taken { unix_seconds: 1_000_000.0, awake_seconds: Some(400.0), ..Taken::default() }
}

fn log_of(raw: impl AsRef<[u8]>) -> KernelLog {
    read(&host([(PATH, raw)]), &taken())
}

fn excerpt(raw: &[u8]) -> Vec<u8> {
    let mut excerpt = Excerpt::new(4096);
    excerpt.take(raw);
    excerpt.finish()
}

/// A record of the kernel with this text.
fn record_of(text: &[u8], sequence: u64) -> Vec<u8> {
    let head = format!("4,{sequence},{},-;", sequence * 1000);
    let record = records([head.as_bytes(), b"x\n"].concat().as_slice()).next().unwrap();
    record.head.with_text(text)
}

const SPOILT: &str = "4,1,1,-;a invoked oom-killer: gfp_mask=0x1(A), order=0, oom_score_adj=0\n\
    6,2,2,-;memory: usage 4kB, limit 4kB, failcnt 1\n6,3,2,-;Memory cgroup stats for /a:\n\
    6,4,2,-;anon 5\n6,5,2,-;[  pid  ]   uid     rss swapents oom_score_adj name\n\
    6,6,2,-;[    981]    33   981    10705 0 b\n6,7,3,-;oom-kill:constraint=CONSTRAINT_MEMCG,\
    nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,task_memcg=/a,task=b,pid=981,uid=0\n\
    3,8,3,-;Memory cgroup out of memory: Killed process 981 (b) total-vm:4kB, anon-rss:1kB\n";

/// Lines of reports in any order, with unrelated messages in between.
fn any_log() -> impl Strategy<Value = Vec<u8>> {
    let noise = prop_oneof![
        Just(b"usb 1-1: new device".to_vec()),
        any_name(),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    let line = prop_oneof![3 => any_line().prop_map(|line| line.to_text()), 1 => noise];
    (prop::collection::vec(line, 0..40), 0u64..5).prop_map(|(lines, first)| {
        lines.iter().zip(first..).flat_map(|(text, at)| record_of(text, at)).collect()
    })
}

/// A complete report about a cgroup limit, with this process name and cgroup path.
fn report_of(name: &[u8], path: &[u8]) -> Vec<Vec<u8>> {
    let columns = vec!["uid", "rss", "swapents", "oom_score_adj"];
    let (group, victim_group) = (Some(path.to_vec()), [path, b"/below"].concat());
    let (constraint, message) = ("CONSTRAINT_MEMCG", line::MEMCG_KILLED);
    let (pid, uid, order, oom_score_adj) = (980, 33, 0, 0);
    let (name, gfp_mask) = (name.to_vec(), b"0xcc0(GFP_KERNEL)".to_vec());
    let sizes = vec![("total-vm", 9), ("anon-rss", 5), ("file-rss", 2), ("shmem-rss", 1)];
    let values = vec![33, 1, 0, 0];
    let choice = line::Choice { constraint, group, victim_group, name: name.clone(), pid, uid };
    let killed = line::Killed {
        message,
        pid,
        name: name.clone(),
        sizes,
        uid: Some(uid),
        oom_score_adj: Some(0),
    };
    let lines = [
        OomLine::Invoked { name: name.clone(), gfp_mask, order, oom_score_adj },
        OomLine::Usage(line::Usage { of: "memory", usage: 64, limit: 64, failures: 3 }),
        OomLine::StatsOf(path.to_vec()),
        OomLine::Stats(vec![("anon", 40960)]),
        OomLine::TaskHeader(columns),
        OomLine::Task { pid, values, name },
        OomLine::Choice(choice),
        OomLine::Killed(killed),
    ];
    lines.iter().map(OomLine::to_text).collect()
}

proptest! {
    /// The report does not depend on the names of the victim and its cgroup, nor on unrelated
    /// messages between its lines.
    #[test]
    fn other_messages_and_hostile_names_change_nothing(
        name in any_name(),
        path in any_path(),
        noise in prop::collection::vec((0usize..9, "[a-z]{1,12}( [0-9]{1,3}){0,2}"), 0..12),
    ) {
        let mut texts = report_of(&name, &path);
        for (at, text) in noise {
            texts.insert(at.min(texts.len()), text.into_bytes());
        }
        let raw: Vec<u8> = texts.iter().zip(1..).flat_map(|(text, at)| record_of(text, at)).collect();
        let log = log_of(raw);
        prop_assert_eq!(log.kills.len(), 1);
        let kill = &log.kills[0];
        let named = pagewise_model::Name::from_bytes(&name);
        let victim = kill.victim.as_ref().unwrap();
        prop_assert_eq!((&victim.name, victim.pid, victim.resident()), (&named, 980, Bytes::from_kib(8)));
        let named = |path: &[u8]| Some(pagewise_model::Name::from_bytes(path));
        prop_assert_eq!(&kill.group, &named(&path));
        prop_assert_eq!(&kill.victim_group, &named(&[path.as_slice(), b"/below"].concat()));
        let named = pagewise_model::Name::from_bytes(&name);
        prop_assert_eq!(kill.tasks.len(), 1);
        prop_assert_eq!(&kill.tasks[0].name, &named);
        prop_assert_eq!(kill.group_memory.as_ref().unwrap().memory.unwrap().reached, 3);
        prop_assert_eq!(&kill.invoker.as_ref().unwrap().name, &named);
    }

    /// An excerpt gives the same reports as the log, and the excerpt of an excerpt is unchanged.
    #[test]
    fn an_excerpt_says_what_the_log_said(raw in any_log()) {
        let kept = excerpt(&raw);
        prop_assert_eq!(&excerpt(&kept), &kept);
        prop_assert_eq!(log_of(&kept).kills, log_of(&raw).kills);
        prop_assert_eq!(log_of(&kept).records, log_of(&raw).records);
        // the result must equal a naive parse of every record of the whole log
        let mut reports = Reports::new(4096, SHOWN);
        records(&raw).for_each(|record| drop(reports.take(&record)));
        let naive = reports.finish().kills;
        let known = |kill: &OomKill| (kill.source.clone(), kill.victim.clone(), kill.tasks.clone());
        let read = log_of(&raw).kills;
        prop_assert!(naive.iter().map(known).eq(read.iter().map(known)));
    }

    #[test]
    fn a_spoilt_log_never_panics(raw in mangle(SPOILT)) {
        let kept = excerpt(&raw);
        drop(log_of(&kept));
        prop_assert_eq!(&excerpt(&kept), &kept);
    }

    /// Renaming changes nothing but the names.
    #[test]
    fn a_renamed_excerpt_says_the_same_of_others(raw in any_log()) {
        /// Different names stay different: equal kills after each other are counted as one.
        #[derive(Default)]
        struct Letters(Vec<Vec<u8>>);
        impl Letters {
            fn number(&mut self, name: &[u8]) -> usize {
                self.0.iter().position(|it| it == name).unwrap_or_else(|| {
                    self.0.push(name.to_vec());
                    self.0.len() - 1
                })
            }
        }
        impl Rename for Letters {
            fn program(&mut self, name: &[u8]) -> Vec<u8> {
                format!("p{}", self.number(name)).into_bytes()
            }
            fn group(&mut self, path: &[u8]) -> Vec<u8> {
                let letters = path.iter().map(|&byte| if byte == b'/' { b'/' } else { b'g' });
                letters.chain(self.number(path).to_string().into_bytes()).collect()
            }
            fn user(&mut self, _: u32) -> u32 {
                7
            }
            fn boot(&self, _: &[u8]) -> String {
                "b".to_owned()
            }
        }
        let kept = excerpt(&raw);
        let other = rename(&kept, &mut Letters::default());
        let (here, there) = (log_of(&kept).kills, log_of(&other).kills);
        prop_assert_eq!(here.len(), there.len());
        for (here, there) in here.iter().zip(&there) {
            prop_assert_eq!((&here.source, &here.host, here.repeats), (&there.source, &there.host, there.repeats));
            let pid = |kill: &OomKill| kill.victim.as_ref().map(|victim| (victim.pid, victim.resident()));
            prop_assert_eq!(pid(here), pid(there));
            let tasks = |kill: &OomKill| kill.tasks.iter().map(pagewise_model::OomTask::size).collect::<Vec<_>>();
            prop_assert_eq!(tasks(here), tasks(there));
            let names = there.tasks.iter().map(|task| task.name.as_str());
            prop_assert!(names.into_iter().all(|name| name.starts_with('p')));
        }
    }
}
