// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The package of Debian under systemd: installing changes nothing, plans and journals survive
//! upgrades, and removing the package undoes only what nothing could undo without the program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::applied::{file, plan, step};
use crate::boot::{SAY, answer, answer_of_success, script};

/// The guest's own program has the path of the package's; it is kept aside. The state is everything
/// on the disk and the settings, except for what dpkg itself keeps.
const BEGIN: &str = r#"
mv /usr/bin/pagewise /root/own
cp /root/own /usr/bin/pagewise
touch /var/lib/dpkg/status
id=$(cat /etc/machine-id)
hash=$(printf 'pagewise machine-id %s' "$id" | sha256sum | cut -c1-32)
total=$(($(sed -n 's/^MemTotal: *\([0-9]*\) kB$/\1/p' /proc/meminfo) * 1024))
sed -i "s/HASH/$hash/; s/4711/$total/" /opt/plan.json /opt/trial.json
settings() {
    cat /proc/sys/vm/swappiness /proc/sys/vm/vfs_cache_pressure /proc/sys/vm/page-cluster /proc/swaps
    ls /sys/block /sys/fs/cgroup
    systemctl list-unit-files --no-legend --state=enabled
    systemctl list-timers --all --no-legend | grep -c pagewise
}
state() {
    settings
    find /etc /usr /var /boot /root /home /srv -xdev \( -path /var/log -o -path /var/lib/dpkg -o -path /var/cache \
        -o -path /var/lib/systemd -o -path /var/lib/redis -o -path /var/tmp \) -prune -o ! -type d \
        ! -path /usr/bin/pagewise -printf '%p %y %m %U %G %s %T@ %l\n' | sort
}
running() { [ $(cat /proc/sys/vm/vfs_cache_pressure) != 100 ]; }
until_running() { for i in $(seq 1200); do running && return; sleep 0.1; done; }
long_trial() {
    pagewise trial --a vm.vfs_cache_pressure=150 --b vm.vfs_cache_pressure=160 -- sleep 600 > /tmp/trial 2>&1 &
    until_running
}
state > /tmp/before
settings > /tmp/settings
"#;

const SESSION: &str = r#"
say install dpkg --install /opt/one.deb
say works sh -c 'pagewise --version && pagewise status > /dev/null'
say no-state ls /var/lib/pagewise
settings > /tmp/now; say nothing-set diff /tmp/settings /tmp/now
timers=$(dpkg -L pagewise | sed -n 's|.*/systemd/system/\(.*[.]timer\)$|\1|p')
[ -z "$timers" ] || systemctl start $timers

say apply pagewise apply --yes --settle 0 /opt/plan.json
long_trial; kill -9 $!; wait $!
say killed cat /proc/sys/vm/vfs_cache_pressure
say upgrade dpkg --install /opt/two.deb
say timers-go-on sh -c "[ -z '$timers' ] || systemctl is-active $timers"
say version dpkg-query --show --showformat='${Version}' pagewise
say still-killed cat /proc/sys/vm/vfs_cache_pressure
say undo pagewise undo
say put-back cat /proc/sys/vm/vfs_cache_pressure
say verify pagewise verify --no-ledger

say trial pagewise apply --yes --settle 0 --trial-for 20s /opt/trial.json
say downgrade dpkg --install /opt/one.deb
for i in $(seq 900); do [ $(cat /proc/sys/vm/page-cluster) = 3 ] && break; sleep 0.1; done
for i in $(seq 600); do [ -e /etc/systemd/system/pagewise-unconfirmed.service ] || break; sleep 0.1; done
say trial-ended cat /proc/sys/vm/page-cluster

long_trial
say remove-while-running dpkg --remove pagewise
say still-there dpkg-query --show --showformat='${Status}' pagewise
kill -INT $!; wait $!
say put-back-itself cat /proc/sys/vm/vfs_cache_pressure

say second-trial pagewise apply --yes --settle 0 --trial-for 10m /opt/trial.json
say remove dpkg --remove pagewise
say gone ls /usr/bin/pagewise
say second-trial-ended cat /proc/sys/vm/page-cluster
say no-timer systemctl is-active pagewise-unconfirmed-timer.timer
say plan-stays cat /proc/sys/vm/swappiness /etc/sysctl.d/90-pagewise.conf
say purge-keeps dpkg --purge pagewise
say journal ls /var/lib/pagewise

say install-again dpkg --install /opt/two.deb
say undo-all pagewise undo --all
say purge dpkg --purge pagewise
say no-journal ls /var/lib/pagewise
state > /tmp/after
say as-before diff /tmp/before /tmp/after
cp /root/own /usr/bin/pagewise
"#;

/// Builds the package of the program under test in a folder.
pub(crate) fn program_package(folder: &Path) -> PathBuf {
    let program = std::env::var_os("PAGEWISE_STATIC").expect("run by cargo xtask test --root");
    let mut build = Command::new(packaging().join("build.sh"));
    build.arg("deb-program").env("PAGEWISE_PROGRAM", &program).env("PACKAGES", folder);
    PathBuf::from(output_of(build.env("DEB_COMPRESSION", "-Zgzip -z1")).trim_end())
}

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

fn output_of(command: &mut Command) -> String {
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// The package of the program under test, and the same with a later version.
fn packages(folder: &Path) -> [PathBuf; 2] {
    let first = program_package(folder);
    let later = folder.join("later.deb");
    output_of(Command::new(packaging().join("test/later.sh")).args([&first, &later]));
    [first, later]
}

#[test]
fn guest_package_keeps_plans_and_journals_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let knob = |name: &str, from: &str, to: &str| {
        step("knob", json!({"action": "set-knob", "target": name, "from": from, "to": to}))
    };
    let lasting = file("sysctl", "/etc/sysctl.d/90-pagewise.conf", "vm.swappiness = 77\n");
    let whole = plan(&[knob("vm.swappiness", "60", "77"), lasting]);
    let trial = plan(&[knob("vm.page-cluster", "3", "1")]).replace("00112233", "44556677");
    let documents = [("plan.json", whole), ("trial.json", trial)].map(|(name, text)| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        format!("--file={}:/opt/{name}", path.display())
    });
    let packages = packages(folder.path());
    let packages = [("one", &packages[0]), ("two", &packages[1])]
        .map(|(name, path)| format!("--file={}:/opt/{name}.deb", path.display()));
    let mut options = vec!["--userland=systemd", "--memory=1G", "--deadline=10m"];
    options.extend(documents.iter().chain(&packages).map(String::as_str));
    let ran = script(&options, &format!("{SAY}{BEGIN}{SESSION}"));
    assert_eq!(ran.status, 0, "{} {}", ran.out, ran.err);
    changes_nothing_by_itself(&ran.out);
    survives_an_upgrade(&ran.out);
    is_removed(&ran.out);
}

fn changes_nothing_by_itself(session: &str) {
    for name in ["install", "works", "nothing-set", "as-before"] {
        answer_of_success(session, name);
    }
    assert_ne!(answer(session, "no-state").1, "0", "{session}");
}

fn survives_an_upgrade(session: &str) {
    for name in ["apply", "upgrade", "timers-go-on", "undo", "trial", "downgrade"] {
        answer_of_success(session, name);
    }
    assert!(answer_of_success(session, "version").ends_with("-99"), "{session}");
    let killed = answer_of_success(session, "killed");
    assert_ne!(killed, "100\n");
    assert_eq!(answer_of_success(session, "still-killed"), killed, "an upgrade undoes nothing");
    assert_eq!(answer_of_success(session, "put-back"), "100\n");
    let verified = answer_of_success(session, "verify");
    assert!(verified.contains("2 steps as planned"), "{verified}");
    assert_eq!(answer_of_success(session, "trial-ended"), "3\n");
}

fn is_removed(session: &str) {
    let (refused, status) = answer(session, "remove-while-running");
    assert!(status != "0" && refused.contains("pagewise: not removed"), "{refused}");
    assert_eq!(answer_of_success(session, "still-there"), "deinstall ok installed");
    assert_eq!(answer_of_success(session, "put-back-itself"), "100\n");

    answer_of_success(session, "second-trial");
    let removed = answer_of_success(session, "remove");
    for said in ["stays in force", "/etc/sysctl.d/90-pagewise.conf", "pagewise undo --all"] {
        assert!(removed.contains(said), "{said}: {removed}");
    }
    assert_eq!(answer_of_success(session, "second-trial-ended"), "3\n");
    assert_eq!(answer_of_success(session, "plan-stays"), "77\nvm.swappiness = 77\n");
    let kept = answer_of_success(session, "purge-keeps");
    assert!(kept.contains("/var/lib/pagewise is kept"), "{kept}");
    assert!(answer_of_success(session, "journal").contains(".plan"), "{session}");
    for name in ["install-again", "undo-all", "purge"] {
        answer_of_success(session, name);
    }
    for name in ["gone", "no-timer", "no-journal"] {
        assert_ne!(answer(session, name).1, "0", "{name}: {session}");
    }
}
