// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise agent` collapses memory of a real redis-server into huge pages on real kernels: within the
//! bound on growth, and again after a fork (BGSAVE) during which writes split huge pages.

use serde_json::Value;

use crate::boot::{SAY, answer_of_success, document, finish, lab};

/// The values of redis are two pages each, and every third is removed, so that every block has gaps: to
/// fill all of them would need about 20 MiB. At first 4 MiB of growth are allowed, then 64 MiB. BGSAVE
/// takes at least 6 seconds, in which all values are written.
const SCRIPT: &str = r#"
echo madvise > /sys/kernel/mm/transparent_hugepage/enabled
service=/system.slice/redis-server.service
group=/sys/fs/cgroup$service
redis-cli config set save '' > /dev/null
redis-cli config set rdb-key-save-delay 1000 > /dev/null
redis-cli eval 'for i = 0, 7999 do redis.call("set", "key:" .. i, string.rep("v" .. i .. ":", 8000 / #("v" .. i .. ":"))) end' 0 > /dev/null
redis-cli eval 'for i = 0, 7999, 3 do redis.call("del", "key:" .. i) end' 0 > /dev/null
redis-cli memory purge > /dev/null
of_stat() { awk '/^'$1' / { print $2 }' $group/memory.stat; }
coverage() { echo $(($(of_stat anon_thp) * 100 / $(of_stat anon))); }
configure() {
    printf '[budget]\ncpu_seconds_per_minute = 40\n[hugepages."%s"]\nmax_growth = "%s"\ninterval = "2s"\n' $service $1 > /etc/pagewise/agent.toml
}
until_done() {
    looks=0
    until eval "$1" || [ $looks -ge 240 ]; do sleep 0.5; looks=$((looks + 1)); done
}
mkdir -p /etc/pagewise
configure 4M
say check pagewise agent --check
say dry pagewise agent --once --dry-run
say before cat $group/memory.current
say covered_before coverage
pagewise agent 2> /tmp/said & agent=$!
until_done "grep -q 'more than max_growth' /tmp/said"
say bounded cat $group/memory.current
get bounded_status pagewise agent status --json
configure 64M
kill -HUP $agent
until_done '[ $(coverage) -ge 80 ]'
say covered coverage
say unbounded cat $group/memory.current
say rewrite redis-cli bgsave
redis-cli eval 'for i = 1, 7999, 3 do redis.call("setrange", "key:" .. i, 0, "x") redis.call("setrange", "key:" .. i, 5000, "x") end' 0 > /dev/null
say forked coverage
say saving sh -c 'redis-cli info persistence | grep rdb_bgsave_in_progress'
until_done "redis-cli info persistence | grep -q rdb_bgsave_in_progress:0"
until_done '[ $(coverage) -ge 80 ]'
say again coverage
say last cat $group/memory.current
get status pagewise agent status --json
say status_text pagewise agent status
kill $agent; wait $agent
say said cat /tmp/said
say huge_pages cat /sys/kernel/mm/transparent_hugepage/enabled
"#;

const MIB: u64 = 1 << 20;

fn number(session: &str, name: &str) -> u64 {
    answer_of_success(session, name).trim().parse().unwrap()
}

/// What `agent status` says about growth: bytes, and the bound.
fn growth(session: &str, name: &str) -> (u64, u64) {
    let status = document(session, name);
    let target = &status["agent"]["targets"][0];
    let bytes = |key: &str| target[key].as_u64().unwrap_or_else(|| panic!("{status:#}"));
    assert_eq!(target["loop"], Value::from("hugepages"), "{status:#}");
    (bytes("growth_bytes"), bytes("growth_limit_bytes"))
}

fn runs(suite: &str) {
    let options = ["--quiet", "--kernel", suite, "--userland=systemd", "--memory", "512M"];
    let script = format!("{SAY}{SCRIPT}");
    let rest = ["--deadline", "9m", "--", "sh", "-c", &script];
    let ran = finish(&mut lab(&[&options[..], &rest[..]].concat()));
    let session = format!("{}\n{}", ran.out, ran.err);
    println!("{suite}: {session}");
    let checked = answer_of_success(&session, "check");
    assert!(checked.contains("the loop for huge pages is switched on for 1 cgroup"), "{checked}");
    let dry = answer_of_success(&session, "dry");
    assert!(
        dry.contains("would collapse ") && number(&session, "covered_before") < 20,
        "{session}"
    );
    // 4 MiB and not more; redis itself and its clients may need a MiB meanwhile
    let (grown, limit) = growth(&session, "bounded_status");
    assert!(grown <= limit && limit == 4 * MIB && grown > 2 * MIB, "{suite}: {grown} of {limit}");
    let (before, bounded) = (number(&session, "before"), number(&session, "bounded"));
    assert!(bounded <= before + 5 * MIB, "{suite}: {before} → {bounded}");
    let (grown, limit) = growth(&session, "status");
    assert!(grown <= limit && limit == 64 * MIB, "{suite}: {grown} of {limit}");
    // writes while a child shares the memory split huge pages, and then they are collapsed again
    let percent = |name| number(&session, name);
    assert!(percent("covered") >= 80 && percent("again") >= 80, "{suite}: {session}");
    assert!(percent("forked") + 40 <= percent("covered"), "{suite}: {session}");
    let saving = answer_of_success(&session, "saving");
    assert!(saving.contains("rdb_bgsave_in_progress:1"), "{suite}: {session}");
    assert!(answer_of_success(&session, "huge_pages").contains("[madvise]"), "{session}");
    let said = answer_of_success(&session, "said");
    assert!(said.contains("collapsed ") && said.contains("as after a fork"), "{said}");
}

#[test]
fn guest_systemd_the_agent_collapses_memory_on_trixie() {
    runs("trixie");
}
