// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The service of `pagewise monitor` under systemd, from the package: it runs as its own user,
//! serves metrics, records a kill, is the only one that writes entries about findings, and goes on
//! after it was killed.

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
        ["listens", "textfile", "stop", "purge"],
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
