// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An agent with two cgroups, one that it has aged and one that it leaves alone, and a zram device.

use pagewise_model::{
    AgentDecision, AgentLimit, AgentLoop, AgentReport, AgentStatus, AgentTarget, Bytes,
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
        decisions,
    };
    AgentReport { is_running: true, agent: Some(status) }
}
