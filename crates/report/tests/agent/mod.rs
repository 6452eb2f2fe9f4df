// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An agent with two cgroups, one that it has aged and one that it leaves alone, and a zram device.

use pagewise_model::{
    AgentDecision, AgentLimit, AgentLoop, AgentProof, AgentReport, AgentStatus, AgentTarget, Bytes,
    ProofEffect, ProofVerdict,
};

fn target(path: &str, state: &str, actions_in_hour: u32) -> AgentTarget {
    AgentTarget {
        loop_: AgentLoop::Aging,
        target: path.to_owned(),
        state: state.to_owned(),
        limit: AgentLimit::Actions { actions_in_hour, actions_per_hour: 12 },
    }
}

fn decision(seconds: u64, target: Option<&str>, text: &str) -> AgentDecision {
    let target = target.map(str::to_owned);
    AgentDecision { unix_seconds: 1_795_700_000 + seconds, target, text: text.to_owned() }
}

pub(crate) fn report() -> AgentReport {
    let web = "/system.slice/web.service";
    let targets = vec![
        target(web, "waits: 3 refaults of files per second, fewer than 50", 3),
        target("/kubepods/pod1", "left alone: kubelet manages this cgroup", 0),
        AgentTarget {
            loop_: AgentLoop::Reclaim,
            target: "/system.slice/batch.service".to_owned(),
            state: "waits 30 s: 140 refaults/s cost 1.2 % of its CPU time".to_owned(),
            limit: AgentLimit::Reclaimed {
                reclaimed_bytes: Bytes::new(48 << 20),
                swapped_bytes: Bytes::new(45 << 20),
                uncharged_bytes: Some(Bytes::new(14 << 20)),
                floor_bytes: Bytes::new(19 << 20),
            },
        },
        AgentTarget {
            loop_: AgentLoop::Zram,
            target: "zram0".to_owned(),
            state: "wrote 96 MiB to /dev/sdb1; 102 → 68 MiB of RAM".to_owned(),
            limit: AgentLimit::Flash {
                flash_bytes_today: Bytes::new(96 << 20),
                flash_bytes_per_day: Bytes::new(1 << 30),
            },
        },
        AgentTarget {
            loop_: AgentLoop::Ksm,
            target: "ksm".to_owned(),
            state: "on: saves 62.7 MiB, for 0.6 % of a CPU".to_owned(),
            limit: AgentLimit::Merging {
                profit_bytes: Some(65_800_000),
                cpu_percent: Some(0.6),
                cpu_percent_limit: 5.0,
            },
        },
    ];
    let decisions = vec![
        decision(0, None, "started; aging is switched on for 2 cgroups"),
        decision(40, Some(web), "aged 3 times, 1,204 → 310 refaults/s"),
    ];
    let refused = "/etc/pagewise/agent.toml:2: agin: no such section is known; did you mean aging?";
    let status = AgentStatus {
        pid: 812,
        started_unix_seconds: 1_795_700_000,
        written_unix_seconds: 1_795_700_060,
        configuration: vec!["/etc/pagewise/agent.toml".to_owned()],
        refused_configuration: Some(refused.to_owned()),
        cpu_seconds: 0.43,
        cpu_seconds_per_minute: 0.3,
        waits_seconds: 12.4,
        targets,
        proofs: proofs(),
        decisions,
    };
    AgentReport { is_running: true, agent: Some(status) }
}

/// One loop that pays, one that was switched off because it harms, and one that is not known yet.
fn proofs() -> Vec<AgentProof> {
    let effect = |without_loop: f64, ratio: f64, interval| {
        Some(ProofEffect { with_loop: without_loop * ratio, without_loop, ratio, interval })
    };
    let pays = AgentProof {
        loop_: AgentLoop::Reclaim,
        measured: "requests_total per CPU second of /system.slice/web.service".to_owned(),
        is_more_better: true,
        is_on: false,
        until_unix_seconds: 1_795_708_800,
        stopped_unix_seconds: None,
        trouble: Some("/run/web/metrics: No such file or directory".to_owned()),
        verdict: ProofVerdict::Pays,
        more_days: None,
        blocks: 176,
        days: 30,
        pairs: 86,
        confidence: 0.985,
        work: effect(512.0, 1.002, Some([0.996, 1.008])),
        refaults_per_second: effect(1.02, 2.0, None),
        memory_bytes: effect(104_857_600.0, 0.79, Some([0.77, 0.81])),
    };
    let harms = AgentProof {
        loop_: AgentLoop::Aging,
        measured: "CPU time of /db".to_owned(),
        is_more_better: false,
        stopped_unix_seconds: Some(1_795_700_000),
        trouble: None,
        verdict: ProofVerdict::Harms,
        ..pays.clone()
    };
    let unknown = AgentProof {
        loop_: AgentLoop::Zram,
        is_on: true,
        trouble: None,
        verdict: ProofVerdict::NotShownYet,
        more_days: Some(12),
        days: 0,
        pairs: 0,
        blocks: 1,
        work: None,
        refaults_per_second: None,
        memory_bytes: None,
        ..pays.clone()
    };
    vec![harms, pays, unknown]
}
