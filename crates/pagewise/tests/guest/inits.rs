// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans on machines that other init systems start: OpenRC, init of busybox with the scripts of
//! Buildroot, and with the links of System V. A plan outlasts a reboot, is verified, and after
//! `undo` nothing of it is left at the next boot.
//!
//! The first boot of each guest runs systemd. It replaces the program that the guest starts as PID 1
//! by a script that starts busybox as `init`, with the inittab of the test. The packages come from
//! the archive of this machine's distribution, unpacked, not installed.

use std::path::Path;
use std::process::Command;

use crate::boot::{Boot, SAY, answer, answer_of_success, document, reboots};

/// Makes busybox the init of the next boot. What the guest left in /run/systemd for its own unit
/// would look like systemd.
const REPLACE: &str = r#"
cat > /usr/lib/systemd/other <<'END'
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mv /run/systemd /run/not-systemd
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs devtmpfs /dev
mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec /usr/sbin/init
END
cat > /root/job <<'END'
#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root PAGEWISE_GUEST=unit /usr/bin/pagewise
swapoff -a; sync; mount -o remount,ro /; exec /root/busybox reboot -f
END
chmod 755 /usr/lib/systemd/other /root/job /root/busybox
ln -sf /root/busybox /usr/sbin/init
mv /usr/lib/systemd/other /usr/lib/systemd/systemd
"#;

/// The state of the machine that a plan changes, and all files in /etc.
const LOOK: &str = r#"
say init cat /proc/1/comm
say swap sh -c 'tail -n +2 /proc/swaps | tr -s "\t " " "'
say swappiness cat /proc/sys/vm/swappiness
say thp cat /sys/kernel/mm/transparent_hugepage/enabled
say etc sh -c 'cd /etc; find . \( -type f -o -type l \) -printf "%p %m %l\n" | sort; find . -type f | sort | xargs sha256sum'
say verify pagewise verify
"#;

/// Unpacks packages of this machine's archive to a folder.
fn unpack(packages: &[&str], folder: &Path) {
    let run = |command: &mut Command| {
        let ended = command.current_dir(folder).output().unwrap();
        assert!(ended.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ended.stderr));
    };
    run(Command::new("apt-get").arg("download").args(packages));
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "deb") {
            run(Command::new("dpkg-deb").arg("-x").arg(path).arg("root"));
        }
    }
    run(Command::new("tar").args(["--directory=root", "--create", "--file=root.tar", "."]));
}

/// Boots with systemd, then three times with the init system that `install` sets up; returns these
/// three boots. The plan is made and applied in the first one, and undone in the second.
fn boots_of(packages: &[&str], install: &str, wants: &str) -> [Boot; 3] {
    let folder = tempfile::tempdir().unwrap();
    unpack(&[packages, &["busybox-static"]].concat(), folder.path());
    let file = |name: &str, to: &str| format!("--file={}:{to}", folder.path().join(name).display());
    let busybox = file("root/bin/busybox", "/root/busybox");
    let archive = file("root.tar", "/root/root.tar");
    let first = format!("{SAY}{REPLACE}{install}");
    let apply = format!(
        "{SAY}{LOOK}pagewise plan --json {wants} >/tmp/plan.json\n\
         get plan cat /tmp/plan.json\nsay apply pagewise apply /tmp/plan.json --yes\n"
    );
    let undo = format!("{SAY}{LOOK}say undo pagewise undo 1\n");
    let last = format!("{SAY}{LOOK}");
    let options = ["--memory=1G", busybox.as_str(), archive.as_str()];
    let boots = reboots(&options, &[&first, &apply, &undo, &last]);
    let [installed, boots @ ..] = <[Boot; 4]>::try_from(boots).unwrap();
    installed.assert_exited(0);
    boots
}

/// Checks that what the plan set is there after a reboot, and that nothing is left after `undo`.
#[track_caller]
fn assert_lasts([before, during, after]: &[Boot; 3], swap: &str, files: &[&str]) {
    for boot in [before, during, after] {
        boot.assert_exited(0);
        assert_eq!(answer(&boot.output, "init"), ("init\n", "0"));
    }
    let plan = document(&before.output, "plan");
    let steps = plan["steps"].as_array().unwrap_or_else(|| panic!("{plan:#}"));
    let lasting = steps.iter().filter(|step| step["survives_reboot"] == true).count();
    assert_eq!(lasting, steps.len(), "{plan:#}");
    let target = |step: &serde_json::Value| step["target"].as_str().unwrap_or_default().to_owned();
    assert!(!steps.iter().any(|step| target(step).contains("systemd")), "{plan:#}");
    answer_of_success(&before.output, "apply");
    let etc = answer_of_success(&during.output, "etc");
    for file in files {
        assert!(etc.contains(&format!("./{file} ")), "{file}: {etc}");
    }
    assert!(answer_of_success(&during.output, "swap").starts_with(swap), "{}", during.output);
    assert_eq!(answer(&during.output, "swappiness"), ("77\n", "0"));
    assert_eq!(answer(&during.output, "thp"), ("always [madvise] never\n", "0"));
    let verified = answer_of_success(&during.output, "verify");
    assert!(verified.contains("steps as planned"), "{verified}");
    answer_of_success(&during.output, "undo");
    for name in ["swap", "swappiness", "thp", "etc"] {
        assert_eq!(answer(&after.output, name), answer(&before.output, name), "{name}");
    }
}

const WANTS: &str = "--want zram=64M --want vm.swappiness=77 --want hugepages=madvise";
const ZRAM: &str = "/dev/zram0 partition 65532 0 100";

#[test]
fn a_plan_lasts_with_the_scripts_of_busybox() {
    let install = r"
echo '::sysinit:/etc/init.d/rcS' > /etc/inittab
echo '::once:/root/job' >> /etc/inittab
cat > /etc/init.d/rcS <<'END'
#!/bin/sh
for i in /etc/init.d/S??* ;do
    [ -f $i ] && $i start
done
END
chmod 755 /etc/init.d/rcS
";
    let boots = boots_of(&[], install, WANTS);
    assert_lasts(&boots, ZRAM, &["init.d/S99pagewise 755"]);
}

/// A service reads sysctl.d, as on Alpine Linux, so the sysctl is kept there.
#[test]
fn a_plan_lasts_with_openrc() {
    let install = r"
set -e
tar -C / --keep-directory-symlink -xf /root/root.tar
echo '::sysinit:/sbin/openrc sysinit' > /etc/inittab
echo '::sysinit:/sbin/openrc boot' >> /etc/inittab
echo '::wait:/sbin/openrc default' >> /etc/inittab
echo '::once:/root/job' >> /etc/inittab
cat > /etc/init.d/sysctl <<'END'
#!/sbin/openrc-run
start() { sysctl -q --system; }
END
chmod 755 /etc/init.d/sysctl
ln -s /etc/init.d/sysctl /etc/runlevels/boot/sysctl
";
    let boots = boots_of(&["openrc", "libeinfo1", "librc1"], install, WANTS);
    let files =
        ["init.d/pagewise 755", "runlevels/boot/pagewise 777", "sysctl.d/90-pagewise.conf 644"];
    assert_lasts(&boots, ZRAM, &files);
}

/// The swap is a file, and init runs the links of System V in the order of their names.
#[test]
fn a_plan_with_a_swap_file_lasts_with_links_of_system_v() {
    let install = r"
echo '::sysinit:/etc/init.d/rc' > /etc/inittab
echo '::once:/root/job' >> /etc/inittab
cat > /etc/init.d/rc <<'END'
#!/bin/sh
for link in /etc/rcS.d/S*; do $link start; done
END
printf '#!/bin/sh\nmount -o remount,rw /\n' > /etc/init.d/mountall.sh
chmod 755 /etc/init.d/rc /etc/init.d/mountall.sh
ln -s ../init.d/mountall.sh /etc/rcS.d/S01mountall.sh
";
    let wants = "--want swapfile=64M --want vm.swappiness=77 --want hugepages=madvise";
    let boots = boots_of(&[], install, wants);
    let files = ["init.d/pagewise 755", "rcS.d/S99pagewise 777"];
    assert_lasts(&boots, "/var/pagewise-swap-0 file 65532 0 -2", &files);
}
