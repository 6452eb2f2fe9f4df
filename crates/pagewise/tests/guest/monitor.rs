// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The service of `pagewise monitor` under systemd, from the package: it runs as its own user,
//! serves metrics, records a kill, is the only one that writes entries about findings, and goes on
//! after it was killed. With `--advise`, it finds how much memory of a cgroup is idle.

use crate::boot::{SAY, answer, answer_of_success, script};
use crate::packages::program_package;

/// The metrics as a client on the same machine gets them, and the main process of the service.
const BEGIN: &str = r#"
mv /usr/bin/pagewise /root/own
touch /var/lib/dpkg/status
metrics() {
    bash -c 'exec 3<>/dev/tcp/127.0.0.1/9837; printf "GET /metrics HTTP/1.0\r\n\r\n" >&3; cat <&3'
}
scrape() { metrics > /tmp/scrape && grep -q '^pagewise_' /tmp/scrape; }
main() { systemctl show --property MainPID --value pagewise-monitor; }
until_true() { for i in $(seq 300); do "$@" > /dev/null 2>&1 && return; sleep 0.2; done; return 1; }
entries() { journalctl --quiet --identifier pagewise --output cat; }
"#;

const SESSION: &str = r#"
say install dpkg --install /opt/one.deb
say disabled systemctl is-active pagewise-monitor
say start systemctl enable --now pagewise-monitor
say user stat --format %u /proc/$(main)
say rights grep CapEff /proc/$(main)/status
say score cat /proc/$(main)/oom_score_adj
say scrape until_true scrape
say metrics grep -c '^pagewise_' /tmp/scrape
say folder stat --format %a /var/lib/private/pagewise-monitor/record

cat > /run/systemd/system/hog.service << END
[Service]
Type=oneshot
MemoryMax=24M
MemorySwapMax=0
ExecStart=tail /dev/zero
END
systemctl daemon-reload
say hog systemctl start hog.service
named() { pagewise why --last-oom | grep -q hog.service; }
say recorded until_true named
say why pagewise why --last-oom
has_entry() { entries | grep -q .; }
say entry until_true has_entry
entries > /tmp/entries
say doctor systemctl start pagewise-doctor.service
entries > /tmp/later; say no-second-entry diff /tmp/entries /tmp/later

before=$(main); kill -9 $before
again() { [ $(main) != 0 ] && [ $(main) != $before ] && scrape; }
say goes-on until_true again
say kept pagewise why --last-oom

mkdir /etc/systemd/system/pagewise-monitor.service.d
cat > /etc/systemd/system/pagewise-monitor.service.d/override.conf << END
[Service]
IPAddressAllow=192.0.2.10
ExecStart=
ExecStart=/usr/bin/pagewise monitor --journal --record /var/lib/pagewise-monitor/record --listen 0.0.0.0:9837
END
systemctl daemon-reload
say for-one-machine systemctl restart pagewise-monitor
say listens until_true scrape
say textfile pagewise metrics --textfile /tmp/pagewise.prom
say carried grep -c '^pagewise_' /tmp/pagewise.prom

cat > /run/systemd/system/job.service << END
[Service]
ExecStart=sleep 1h
END
cat > /etc/systemd/system/pagewise-monitor.service.d/override.conf << END
[Service]
ExecStart=
ExecStart=/usr/bin/pagewise monitor --journal --record /var/lib/pagewise-monitor/record --group job.service --advise
DynamicUser=no
AmbientCapabilities=
StateDirectory=pagewise
ProtectKernelTunables=no
END
echo y > /sys/kernel/mm/lru_gen/enabled
systemctl daemon-reload
systemctl start job.service
say advises systemctl restart pagewise-monitor
takeable() { metrics | grep ^pagewise_group_memory_takeable; }
looks=0; until takeable || [ $looks = 280 ]; do sleep 1; looks=$((looks + 1)); done
say takeable takeable
say messages journalctl --quiet --unit pagewise-monitor --lines 4
say state ls /var/lib/pagewise-monitor
rm -r /etc/systemd/system/pagewise-monitor.service.d
say stop systemctl disable --now pagewise-monitor
say purge dpkg --purge pagewise
say nothing-left ls -d /var/lib/pagewise-monitor /var/lib/private/pagewise-monitor
cp /root/own /usr/bin/pagewise
"#;

#[test]
fn guest_monitor_runs_as_a_service_and_says_what_a_unit_was_killed_for() {
    let folder = tempfile::tempdir().unwrap();
    let package = format!("--file={}:/opt/one.deb", program_package(folder.path()).display());
    let options = ["--userland=systemd", "--memory=1G", "--deadline=10m", &package];
    let ran = script(&options, &format!("{SAY}{BEGIN}{SESSION}"));
    println!("{}", ran.out);
    assert_eq!(ran.status, 0, "{} {}", ran.out, ran.err);
    let session = &ran.out;
    let succeed = [
        ["install", "start", "scrape", "recorded"],
        ["entry", "doctor", "goes-on", "for-one-machine"],
        ["listens", "textfile", "advises", "takeable"],
        ["state", "stop", "purge", "start"],
    ];
    for name in succeed.concat() {
        answer_of_success(session, name);
    }
    assert_eq!(answer(session, "disabled").0, "inactive\n");
    // systemd takes the ids of such users from this range
    let user: u32 = answer_of_success(session, "user").trim().parse().unwrap();
    assert!((61_184..65_520).contains(&user), "{user}");
    assert_eq!(answer_of_success(session, "folder"), "700\n");
    // CAP_SYSLOG and nothing else
    assert!(answer(session, "rights").0.ends_with("0000000400000000\n"));
    assert_eq!(answer(session, "score").0, "-900\n");
    for name in ["metrics", "carried"] {
        let metrics: u32 = answer_of_success(session, name).trim().parse().unwrap();
        assert!(metrics > 20, "{name}: {metrics}");
    }
    for name in ["why", "kept"] {
        assert!(answer(session, name).0.contains("hog.service"), "{name}");
    }
    assert_eq!(answer(session, "no-second-entry"), ("", "0"));
    assert_ne!(answer(session, "nothing-left").1, "0");
}

/// In /job, 24 MiB are written once, and 8 MiB are read every second. Nothing is short, so the kernel
/// itself ages nothing. With the count of instructions as clock, the minutes of waiting are skipped.
const ADVISE: &str = r#"
echo lz4 > /sys/block/zram0/comp_algorithm
echo 96M > /sys/block/zram0/disksize && mkswap /dev/zram0 > /dev/null && swapon /dev/zram0
echo +memory > /sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/job
cat > /bin/job << END
#!/bin/awk -f
BEGIN {
    for (at = 0; at < 24; at++) cold[at] = sprintf("%1048576d", at)
    for (at = 0; at < 8; at++) hot[at] = sprintf("%1048576d", at)
    while (1) { for (at in hot) found += index(hot[at], "none"); system("sleep 1") }
}
END
chmod +x /bin/job
sh -c 'echo $$ > /sys/fs/cgroup/job/cgroup.procs; exec /bin/job' &
watched() { # NAME HOW [SECONDS]
    pagewise monitor --no-record --no-listen --textfile /tmp/$1 --group /job $2 --advise-budget 10% 2> /tmp/$1.said &
    monitor=$!; seconds=0
    until grep -q takeable /tmp/$1 2> /dev/null || [ $seconds -ge 400 ]; do sleep 2; seconds=$((seconds + 2)); done
    kill $monitor; wait $monitor
    say $1 grep '^pagewise_group' /tmp/$1
    say $1.said cat /tmp/$1.said
}
echo y > /sys/kernel/mm/lru_gen/enabled
grep -q debugfs /proc/mounts || mount -t debugfs none /sys/kernel/debug
watched ages --advise
watched bits --advise=accessed-bits
say reclaimed awk '/^pgsteal|^pswpout/ { sum += $2 } END { print sum }' /proc/vmstat
mount -t securityfs none /sys/kernel/security
echo integrity > /sys/kernel/security/lockdown
seconds=0
pagewise monitor --no-record --no-listen --textfile /tmp/locked --group /job --advise 2> /tmp/locked.said & monitor=$!
until grep -q 'not known' /tmp/locked.said || [ $seconds -ge 60 ]; do sleep 2; seconds=$((seconds + 2)); done
kill $monitor; wait $monitor
say locked cat /tmp/locked.said
"#;

fn series(session: &str, name: &str, metric: &str) -> f64 {
    let metrics = answer_of_success(session, name);
    let line = metrics.lines().find(|line| line.starts_with(metric));
    let line = line.unwrap_or_else(|| panic!("{name}: {metric}: {session}"));
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

fn finds_idle_memory(suite: &str) {
    const MIB: f64 = 1048576.0;
    let options = ["--kernel", suite, "--memory", "320M", "--count", "--boots", "1"];
    let options = [&options[..], &["--deadline", "15m"]].concat();
    let ran = script(&options, &format!("{SAY}{ADVISE}"));
    println!("{suite}: {} {}", ran.out, ran.err);
    assert_eq!(ran.status, 0, "{suite}: {} {}", ran.out, ran.err);
    for how in ["ages", "bits"] {
        let takeable = series(&ran.out, how, "pagewise_group_memory_takeable_bytes");
        let used = series(&ran.out, how, "pagewise_group_memory_used_bytes");
        assert!(
            takeable >= 22.0 * MIB && takeable <= used - 8.0 * MIB,
            "{suite} {how}: {takeable} of {used}"
        );
        let limit = series(&ran.out, how, "pagewise_group_memory_suggested_limit_bytes");
        assert!(limit > used - takeable, "{suite} {how}: {limit}, {takeable} of {used}");
    }
    // it only looked
    assert_eq!(answer_of_success(&ran.out, "reclaimed"), "0\n");
    let locked = answer_of_success(&ran.out, "locked");
    assert!(
        locked.contains("/job: its idle memory is not known")
            && locked.contains("--advise=accessed-bits"),
        "{locked}"
    );
}

#[test]
fn guest_of_bookworm_says_what_could_be_taken_of_a_cgroup() {
    finds_idle_memory("bookworm");
}

#[test]
fn guest_of_trixie_says_what_could_be_taken_of_a_cgroup() {
    finds_idle_memory("trixie");
}

#[test]
fn guest_of_sid_says_what_could_be_taken_of_a_cgroup() {
    finds_idle_memory("sid");
}
