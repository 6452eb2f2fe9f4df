// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kills at the limit of a test cgroup: eight, or with PAGEWISE_KILLS=20 as many. `oom --what-if` reads the kernel's log of each, and then
//! each change of which it says something is made for real, and the same programs run again.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::held::Group;
use crate::program::pagewise;

const MIB: u64 = 1 << 20;
const SHMEM: &str = "/dev/shm/pagewise-test-what-if";
/// A run that is not over then is stuck.
const PATIENCE: Duration = Duration::from_secs(120);

/// How the programs of a kill take their memory, in MiB.
#[derive(Debug, Clone, Copy)]
struct Planted {
    limit: u64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// A program maps what it needs, and fills that.
    Fills { takes: u64 },
    /// A program maps more and more. First a smaller one dies, which shows how fast it grows.
    LeaksBeside { first: u64 },
    /// A program maps more and more, dies, and is started again.
    LeaksAgain,
    /// Most of the limit is a file of a tmpfs.
    FillsBesideFile { file: u64, takes: u64 },
}

/// A process of this program that takes memory.
struct Holder {
    child: Child,
    go: Option<ChildStdin>,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Holder {
    fn start(group: &Group, arguments: &[String]) -> Self {
        let program = pagewise(&[]);
        let mut command = group.command(program.get_program().as_ref());
        command.args(["lab", "hold"]).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let go = child.stdin.take();
        Self { child, go, lines }
    }

    /// Lets it take memory until it has all, or is killed; returns how much it held.
    fn take(&mut self) -> u64 {
        self.begin();
        self.wait()
    }

    fn begin(&mut self) {
        self.go.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    fn wait(&mut self) -> u64 {
        let mut held = 0;
        for line in &mut self.lines {
            match line.unwrap().strip_prefix("held ") {
                Some(number) => held = number.parse().unwrap(),
                None => break,
            }
        }
        held
    }

    fn prefer_to_kill(&self) {
        std::fs::write(format!("/proc/{}/oom_score_adj", self.child.id()), "1000").unwrap();
    }

    fn is_killed(&mut self) -> bool {
        // its end is known a moment after its output is closed
        let until = Instant::now() + Duration::from_millis(200);
        loop {
            match self.child.try_wait().unwrap() {
                Some(_) => return true,
                None if Instant::now() > until => return false,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.go.take();
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn arguments(takes: u64, maps: u64, pause: u64) -> Vec<String> {
    let take = format!("--take={}", takes * MIB);
    vec![take, format!("--map={}", maps * MIB), format!("--pause={pause}")]
}

/// Which part is left out of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    Grower,
    File,
}

impl Planted {
    /// Runs the programs in a cgroup with this limit in bytes; returns whether the one that grows was
    /// killed, and how much it held.
    fn run(&self, limit: u64, without: Without) -> (bool, u64) {
        let group = Group::with_limit(limit);
        let runs = if matches!(self.kind, Kind::LeaksAgain) { 2 } else { 1 };
        let (mut file, mut first) = (None, None);
        let size = match self.kind {
            Kind::FillsBesideFile { file, .. } if without != Without::File => file,
            _ => 0,
        };
        if size > 0 {
            let arguments = [format!("--take={}", size * MIB), format!("--file={SHMEM}")];
            let mut holder = Holder::start(&group, &arguments);
            holder.take();
            assert!(!holder.is_killed(), "{self:?}: the file alone does not fit");
            file = Some(holder);
        }
        if let Kind::LeaksBeside { first: size } = self.kind {
            let mut holder = Holder::start(&group, &arguments(size, size, 0));
            holder.prefer_to_kill();
            holder.take();
            first = Some(holder);
        }
        let mut last = (false, 0);
        for _ in 0..runs {
            if without == Without::Grower {
                break;
            }
            let (takes, maps, pause) = match self.kind {
                Kind::Fills { takes } | Kind::FillsBesideFile { takes, .. } => (takes, takes, 0),
                // ends in any case, far above what a limit in these tests allows
                // slow enough for a second between two reports
                Kind::LeaksBeside { .. } => (self.limit * 8, 0, 32),
                Kind::LeaksAgain => (self.limit * 8, 0, 18),
            };
            let began = Instant::now();
            let mut grower = Holder::start(&group, &arguments(takes, maps, pause));
            let held = grower.take();
            assert!(began.elapsed() < PATIENCE, "{self:?}");
            last = (grower.is_killed(), held);
        }
        drop((file, first));
        _ = std::fs::remove_file(SHMEM);
        last
    }
}

fn lines_of_log() -> Vec<String> {
    let out = Command::new("dmesg").output().unwrap();
    String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned).collect()
}

/// What `oom --what-if` says of the newest kill in these lines.
fn what_if(lines: &[String]) -> Vec<Value> {
    let mut child = pagewise(&["oom", "-", "--what-if", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(3), "{lines:?}");
    let document: Value = serde_json::from_slice(&out.stdout).unwrap();
    let newest = document["oom_explained"][0].clone();
    newest["what_if"].as_array().unwrap().clone()
}

#[test]
fn what_is_said_of_kills_comes_true() {
    let wanted = std::env::var("PAGEWISE_KILLS").ok().and_then(|number| number.parse().ok());
    let wanted: u64 = wanted.unwrap_or(8);
    let mut planted = Vec::new();
    for step in 0..wanted / 4 {
        let limit = 64 + 16 * step;
        planted.extend([
            Planted { limit, kind: Kind::Fills { takes: 2 * limit + 20 * step } },
            Planted { limit, kind: Kind::LeaksBeside { first: 36 + 2 * step } },
            Planted { limit, kind: Kind::LeaksAgain },
            Planted {
                limit,
                kind: Kind::FillsBesideFile { file: limit / 2, takes: limit - 20 + step },
            },
        ]);
    }
    assert!(planted.len() >= 8, "each kind twice");
    let (mut said, mut known, mut not_known) = (0, 0, 0);
    for planted in &planted {
        let before = lines_of_log();
        let (is_killed, held) = planted.run(planted.limit * MIB, Without::Nothing);
        assert!(is_killed, "{planted:?}");
        // the log is a ring: its last old line may have moved
        let after = lines_of_log();
        let old = before.last().and_then(|last| after.iter().rposition(|line| line == last));
        let lines = after.get(old.map_or(0, |at| at + 1)..).unwrap_or_default();
        let all = what_if(lines);
        let mut is_known = false;
        for change in &all {
            let size = change["size"].as_u64().unwrap_or_default();
            let run = match change["kind"].as_str().unwrap() {
                "limit" => (size, Without::Nothing),
                "without-process" => (planted.limit * MIB, Without::Grower),
                "without-shmem" => (planted.limit * MIB, Without::File),
                // this machine may have no swap to lend
                _ => continue,
            };
            said += 1;
            let effect = change["effect"].as_str().unwrap();
            if effect == "not-known" {
                not_known += 1;
                continue;
            }
            is_known = true;
            let (killed_again, held_again) = planted.run(run.0, run.1);
            let is_right = match effect {
                "avoided" => !killed_again,
                "delayed" => killed_again && held_again > held,
                "none" => killed_again && held_again <= held + 2 * MIB,
                other => panic!("{other}"),
            };
            assert!(
                is_right,
                "{planted:?} {change}: {held} then, {held_again} {killed_again}\n{}",
                lines.join("\n")
            );
        }
        known += usize::from(is_known);
    }
    println!(
        "{said} changes of {} kills, {not_known} of them not known, all others came true",
        planted.len()
    );
    assert_eq!(known, planted.len(), "of each kill something is known");
}
