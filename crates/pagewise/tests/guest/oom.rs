// SPDX-License-Identifier: Apache-2.0 OR MIT
//! OOM kills in guests of two kernels: first at the limit of a cgroup that is barred from swapping,
//! then on a machine whose swap is full; checked with `pagewise doctor --oom` right afterwards.

use serde_json::Value;

use crate::boot::{SAY, answer, finish, lab};

const KILLS: &str = r#"
both() { name=$1; shift; echo "== $name"; "$@" 2> /tmp/said; status=$?; cat /tmp/said >&2; printf '\n-- %s\n' $status; }
echo 24M > /sys/block/zram0/disksize; mkswap /dev/zram0 > /dev/null
swapon /dev/zram0
mkdir /sys/fs/cgroup/app.service && cd /sys/fs/cgroup/app.service
echo 24M > memory.max; echo 0 > memory.swap.max
sh -c 'echo 0 > cgroup.procs; exec tail /dev/zero'
both limit pagewise doctor --oom --json --interval 0
dd if=/dev/urandom of=/dev/shm/random bs=1M count=30 2> /dev/null
tail /dev/zero
both kills pagewise doctor --oom --json --interval 0
both findings pagewise doctor --json --interval 0
dmesg | tail -n 120 >&2
"#;

fn told(kernel: &str) {
    let script = format!("{SAY}{KILLS}");
    let ran = finish(&mut lab(&[
        "--quiet",
        "--kernel",
        kernel,
        "--memory",
        "224M",
        "--deadline",
        "5m",
        "--",
        "sh",
        "-c",
        &script,
    ]));
    let document = |name| -> Value {
        let (text, status) = answer(&ran.out, name);
        assert_eq!(status, "3", "{name}: {text} {}", ran.err);
        serde_json::from_str(text)
            .unwrap_or_else(|error| panic!("{name}: {error}: {text} {}", ran.err))
    };
    // failures print the messages of the guest's kernel
    let message = &ran.err;
    let kills = document("kills");
    let of = |kind: &str| {
        let kills = kills["oom_kills"]["kills"].as_array().unwrap();
        let kill = kills.iter().find(|kill| kill["constraint"] == kind);
        let kill =
            kill.unwrap_or_else(|| panic!("{kernel}: no {kind} in {kills:?} {message}")).clone();
        (kill.clone(), kills_explained(&kills_at(&kill), &document("kills")))
    };
    let (kill, _) = of("cgroup");
    // read before the machine's swap is filled: the report contains the current free swap
    let explained = kills_explained(&kills_at(&kill), &document("limit"));
    assert_eq!(kill["group"], "/app.service", "{kill} {message}");
    assert_eq!(kill["victim"]["name"], "tail", "{kill} {message}");
    assert_eq!(kill["group_memory"]["swap"]["limit"], 0, "{kill} {message}");
    assert!(explained.contains("memory.swap.max was 0, although"), "{explained} {message}");
    let (kill, explained) = of("host");
    assert_eq!(kill["victim"]["name"], "tail", "{kill} {message}");
    let swap_total = kill["host"]["swap_total"].as_u64().unwrap();
    assert!(swap_total > 20 << 20, "{kill} {message}");
    assert!(explained.contains("why no swap"), "{explained} {message}");

    let findings = document("findings");
    let findings = findings["findings"].as_array().unwrap();
    let titles: Vec<&str> = findings
        .iter()
        .filter(|finding| finding["id"] == "oom-kills" && finding["severity"] == "critical")
        .map(|finding| finding["title"].as_str().unwrap())
        .collect();
    // the machine's finding comes first: it is later, and affects all processes
    let at = |end: &str| titles.iter().position(|title| title.ends_with(end));
    let (host, group) = (at("the machine ran out of memory"), at("at the limit of /app.service"));
    assert!(host.is_some() && group.is_some() && host < group, "{titles:?} {message}");
}

fn kills_at(kill: &Value) -> String {
    kill["at"].as_str().unwrap().to_owned()
}

/// The explanation of the kill with this record, as text.
fn kills_explained(at: &str, document: &Value) -> String {
    let all = document["oom_explained"].as_array().unwrap();
    all.iter().find(|told| told["at"] == at).unwrap().to_string()
}

#[test]
fn guest_of_trixie_tells_of_kills() {
    told("trixie");
}

#[test]
fn guest_of_sid_tells_of_kills() {
    told("sid");
}
