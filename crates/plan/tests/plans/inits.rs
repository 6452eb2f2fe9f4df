// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hosts without systemd: where the plan's start script goes, what is in it, and what the owner of
//! the machine has to do.

use pagewise_model::plan::{Change, Goal, Plan, Want};
use pagewise_model::{
    InitSystem, Installation, Interval, Mechanism, Name, PersistentSetting, Target,
};
use pagewise_plan::{Measured, Request, make_plan, root_commands};
use pagewise_testkit::made_host::{knob, line, with};

use super::{declined, file, ids};

/// A host without swap and without systemd.
fn idle() -> Interval {
    with(|host| {
        host.cgroups.groups.clear();
        host.tiers.clear();
        host.zram.clear();
        knob(host, "vm.swappiness", "60");
        knob(host, "thp.enabled", "always");
    })
}

fn started_by(init: InitSystem) -> Installation {
    Installation { init, ..Installation::default() }
}

fn asked_on(interval: &Interval, installation: &Installation, wants: &[&str]) -> Plan {
    let wants: Vec<Want> = wants.iter().map(|text| text.parse().unwrap()).collect();
    let (measured, goal) = (&Measured::default(), Goal::Balanced);
    let (only, anyway) = (&[][..], false);
    make_plan(&Request { interval, installation, measured, goal, only, wants: &wants, anyway })
}

const ALL: [&str; 3] = ["zram=64M", "swappiness=77", "hugepages=madvise"];

fn asked(installation: &Installation) -> Plan {
    asked_on(&idle(), installation, &ALL)
}

fn lasting(plan: &Plan) -> Vec<&str> {
    plan.steps.iter().filter(|step| step.survives_reboot).map(|step| step.id.as_str()).collect()
}

#[test]
fn one_script_in_the_place_of_each_init_system_keeps_all() {
    for (init, script, link) in [
        (InitSystem::OpenRc, "/etc/init.d/pagewise", Some("/etc/runlevels/boot/pagewise")),
        (InitSystem::Procd, "/etc/init.d/pagewise", Some("/etc/rc.d/S90pagewise")),
        (InitSystem::SysV, "/etc/init.d/pagewise", Some("/etc/rcS.d/S99pagewise")),
        (InitSystem::RunitCoreServices, "/etc/runit/core-services/99-pagewise.sh", None),
        (InitSystem::BusyboxScripts, "/etc/init.d/S99pagewise", None),
    ] {
        let plan = asked(&started_by(init));
        let (path, text) = file(&plan, "start-script");
        assert_eq!(path, script, "{init:?}");
        for part in [
            "set_value /proc/sys/vm/swappiness 77\n",
            "set_value /sys/kernel/mm/transparent_hugepage/enabled madvise\n",
            "# zram swap: 64.0 MiB in compressed RAM",
            "echo 67108864 >$sys/disksize",
            "swapon -p 100 /dev/zram$number",
        ] {
            assert!(text.contains(part), "{init:?}: {part}: {text}");
        }
        let made = plan.step("start-script-link").map(|step| match &step.change {
            Change::MakeLink { target, .. } => target.as_str(),
            other => panic!("{other:?}"),
        });
        assert_eq!(made, link, "{init:?}");
        assert_eq!(lasting(&plan), ids(&plan), "{init:?}: {plan:#?}");
        let needs = &plan.step("start-script").unwrap().needs;
        assert_eq!(needs, &["vm.swappiness", "thp.enabled", "zram"]);
    }
}

#[test]
fn the_frame_is_that_of_the_init_system() {
    let frame = |init| file(&asked(&started_by(init)), "start-script").1.to_owned();
    assert!(frame(InitSystem::OpenRc).starts_with("#!/sbin/openrc-run\n"));
    assert!(frame(InitSystem::Procd).starts_with("#!/bin/sh /etc/rc.common\n"));
    let sysv = frame(InitSystem::SysV);
    assert!(sysv.starts_with("#!/bin/sh\n### BEGIN INIT INFO\n") && sysv.ends_with("exit 0\n"));
    // runit runs it in its own shell, which must neither end nor get its functions
    let runit = frame(InitSystem::RunitCoreServices);
    assert!(runit.ends_with("\n(set_all)\n") && !runit.contains("\nexit"), "{runit}");
}

/// The init systems for which a plan writes a start script.
const WITH_SCRIPTS: [InitSystem; 7] = [
    InitSystem::OpenRc,
    InitSystem::Procd,
    InitSystem::SysV,
    InitSystem::SysVRegistered,
    InitSystem::RunitCoreServices,
    InitSystem::BusyboxScripts,
    InitSystem::BusyboxRcs,
];

/// Shell syntax, as far as this machine's `sh` checks it.
#[test]
#[expect(clippy::disallowed_methods, reason = "a shell of this machine reads the scripts")]
fn every_script_is_one_that_a_shell_can_read() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    for init in WITH_SCRIPTS {
        let plan = asked(&started_by(init));
        let mut command = Command::new("sh");
        let mut sh = command.arg("-n").stdin(Stdio::piped()).spawn().unwrap();
        let text = file(&plan, "start-script").1;
        sh.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(sh.wait().unwrap().success(), "{init:?}: {text}");
    }
}

#[test]
fn a_reader_of_sysctl_files_keeps_what_no_sysctl_conf_overrules() {
    let reader = Some("/etc/runlevels/boot/sysctl".to_owned());
    let installation = Installation { sysctl_reader: reader, ..started_by(InitSystem::OpenRc) };
    let plan = asked(&installation);
    assert!(file(&plan, "sysctl-file").1.contains("\nvm.swappiness = 77\n"));
    assert!(!file(&plan, "start-script").1.contains("swappiness"));
    let reason = &plan.step("sysctl-file").unwrap().reason;
    assert!(reason.contains("/etc/runlevels/boot/sysctl sets vm.swappiness"), "{reason}");
    assert_eq!(lasting(&plan), ids(&plan));

    let alone = asked_on(&idle(), &installation, &["swappiness=77"]);
    assert_eq!(ids(&alone), ["vm.swappiness", "sysctl-file"]);

    let mut interval = idle();
    let value = line("/etc/sysctl.conf", 3, Name::from("10"));
    let set = Target::of_knob("vm.swappiness");
    let setting = PersistentSetting::applied(Mechanism::Sysctl, set, value);
    interval.end.configuration.settings.push(setting);
    let plan = asked_on(&interval, &installation, &["swappiness=77"]);
    assert_eq!(ids(&plan), ["vm.swappiness", "start-script", "start-script-link"], "{plan:#?}");
}

#[test]
fn what_the_owner_has_to_do_is_said_and_not_promised() {
    for (init, next) in [
        (InitSystem::SysVRegistered, "`sudo update-rc.d pagewise defaults`"),
        (
            InitSystem::BusyboxRcs,
            "Add this line at the end of /etc/init.d/rcS: `/etc/init.d/pagewise start`",
        ),
    ] {
        let mut installation = started_by(init);
        let plan = asked(&installation);
        let what = "keep vm.swappiness, thp.enabled, the zram swap over a reboot";
        assert!(declined(&plan, what).contains(next), "{init:?}: {plan:#?}");
        assert_eq!(lasting(&plan), [""; 0], "{init:?}: {plan:#?}");
        assert!(plan.step("start-script").is_some() && plan.step("start-script-link").is_none());
        installation.starts_own_script = true;
        let plan = asked(&installation);
        assert_eq!(lasting(&plan), ids(&plan), "{init:?}: {plan:#?}");
    }
    let plan = asked(&started_by(InitSystem::Unknown));
    let why = declined(&plan, "keep vm.swappiness, thp.enabled over a reboot");
    assert!(why.contains("`echo 77 >/proc/sys/vm/swappiness`"), "{why}");
    assert!(why.contains("`echo madvise >/sys/kernel/mm/transparent_hugepage/enabled`"), "{why}");
}

#[test]
fn a_later_plan_keeps_what_the_script_has() {
    let mut installation = started_by(InitSystem::OpenRc);
    let first = asked(&installation);
    let (path, text) = file(&first, "start-script");
    installation.own_files.insert(path.to_owned(), text.to_owned());
    let again = asked_on(&idle(), &installation, &["swappiness=5"]);
    assert_eq!(ids(&again), ["vm.swappiness", "start-script"], "the link is there already");
    let text = file(&again, "start-script").1;
    for part in ["/proc/sys/vm/swappiness 5\n", "enabled madvise\n", "# zram swap: 64.0 MiB"] {
        assert_eq!(text.matches(part).count(), 1, "{part}: {text}");
    }
    assert!(!text.contains("swappiness 77"), "{text}");
}

#[test]
fn steamos_is_told_which_files_to_keep_over_an_update() {
    let steamos = |has_keep_list| Installation {
        distribution: Some("steamos".to_owned()),
        has_keep_list,
        ..super::plain()
    };
    let plan = asked_on(&idle(), &steamos(true), &["swappiness=77", "zram=64M"]);
    let (path, text) = file(&plan, "keep-list");
    assert_eq!(path, "/etc/atomic-update.conf.d/pagewise.conf");
    for kept in [
        "/etc/sysctl.d/90-pagewise.conf\n",
        "/etc/systemd/system/pagewise-zram.service\n",
        "/etc/systemd/system/swap.target.wants/pagewise-zram.service\n",
    ] {
        assert!(text.contains(kept), "{kept}: {text}");
    }
    assert_eq!(lasting(&plan).len(), plan.steps.len(), "{plan:#?}");
    let old = asked_on(&idle(), &steamos(false), &["swappiness=77"]);
    assert_eq!(ids(&old), ["vm.swappiness"]);
    assert!(declined(&old, "keep vm.swappiness").contains("/etc/atomic-update.conf.d"));
}

/// `apply` carries out a script of this program, and refuses one to which somebody has added
/// anything, or which sets what makes the kernel run a program.
#[test]
fn a_script_is_of_this_program_only_as_this_program_writes_it() {
    let is_own = |plan: &Plan| {
        let found = root_commands(plan);
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].is_own
    };
    for init in WITH_SCRIPTS {
        let installation = started_by(init);
        let plan = asked_on(&idle(), &installation, &[&ALL[..], &["swapfile=256M"]].concat());
        assert!(is_own(&plan), "{init:?}: {plan:#?}");
        let edited = |from: &str, to: &str| {
            let mut plan = plan.clone();
            for step in &mut plan.steps {
                if let Change::WriteFile { to: text, .. } = &mut step.change {
                    assert!(text.contains(from), "{text}");
                    *text = text.replacen(from, to, 1);
                }
            }
            plan
        };
        for (from, to) in [
            ("# The settings:\n", "# The settings:\n\n/tmp/x\n"),
            (
                "set_value /proc/sys/vm/swappiness 77\n",
                "set_value /proc/sys/vm/swappiness 77; /tmp/x\n",
            ),
            ("set_value /proc/sys/vm/swappiness 77\n", "set_value /proc/sys/vm/swappiness $(x)\n"),
            ("/proc/sys/vm/swappiness 77", "/proc/sys/kernel/core_pattern '|/tmp/x'"),
            ("/proc/sys/vm/swappiness 77", "/proc/sys/kernel/modprobe /tmp/x"),
            ("/proc/sys/vm/swappiness 77", "/etc/passwd x"),
            ("echo 67108864", "/tmp/x; echo 67108864"),
            ("PATH=/usr/sbin", "PATH=/tmp:/usr/sbin"),
            ("(set_all)", "(set_all; /tmp/x)"),
        ] {
            assert!(!is_own(&edited(from, to)), "{init:?}: {to}");
        }
        // what an earlier plan has put there stays
        let before = file(&plan, "start-script").1.replace("swappiness 77", "swappiness 70; true");
        let own_files = [(file(&plan, "start-script").0.to_owned(), before)].into();
        let later = Installation { own_files, ..installation };
        let plan = asked_on(&idle(), &later, &["zram=128M"]);
        assert!(is_own(&plan), "{init:?}: {plan:#?}");
    }
}
