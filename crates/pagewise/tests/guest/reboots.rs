// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Guests that reboot: the root disk keeps its contents from boot to boot; modules are loaded from
//! that disk; and a boot may end by a reboot of the command, by a power loss or by its deadline.
//!
//! They need QEMU, and the network for kernels and userlands that are not in the cache, but no
//! root. Each boot takes as long as one of a guest with systemd, so most tests are in [`long`].

use std::fs;
use std::path::Path;

use crate::boot::{Boot, ProgramRun, SAY, answer, answer_of_success, finish, lab, reboots};
use serde_json::json;

const SYSTEMD: &str = "--userland=systemd";

/// A unit that makes a zram swap before swap.target, as an administrator without a generator would
/// write it.
const ZRAM_UNIT: &str = r#"
cat > /etc/systemd/system/own-zram.service <<'UNIT'
[Unit]
DefaultDependencies=no
Before=swap.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=sh -c 'modprobe zram && echo 64M > /sys/block/zram0/disksize'
ExecStart=mkswap /dev/zram0
ExecStart=swapon --priority 55 /dev/zram0
UNIT
mkdir -p /etc/systemd/system/swap.target.wants
ln -s ../own-zram.service /etc/systemd/system/swap.target.wants/
"#;

/// Checks that every boot runs.
const LOOK: &str = r#"
say running systemctl is-system-running
say boots journalctl --list-boots --no-pager --quiet
say swap swapon --show=NAME,PRIO --noheadings --raw
say modules lsmod
say kernel dmesg
say kept cat /root/kept
"#;

/// The number of the first line in the kernel's log that contains the text; systemd writes its
/// first messages there.
#[track_caller]
fn line_of(boot: &Boot, text: &str) -> Option<usize> {
    answer_of_success(&boot.output, "kernel").lines().position(|line| line.contains(text))
}

#[track_caller]
fn assert_without_zram(boot: &Boot) {
    assert_eq!(answer(&boot.output, "swap"), ("", "0"));
    assert!(!answer_of_success(&boot.output, "modules").contains("zram"), "{}", boot.output);
    assert_eq!(line_of(boot, "zram"), None, "{}", boot.output);
}

/// Checks that systemd loaded zram, not the program that runs before systemd.
#[track_caller]
fn assert_own_zram(boot: &Boot) {
    assert_eq!(answer(&boot.output, "running"), ("running\n", "0"));
    assert_eq!(answer(&boot.output, "swap"), ("/dev/zram0 55\n", "0"));
    assert_eq!(answer(&boot.output, "kept"), ("kept\n", "0"));
    let systemd = line_of(boot, "running in system mode").expect("systemd says so");
    let zram = line_of(boot, "zram: Added device").expect("zram says so");
    assert!(systemd < zram, "systemd in line {systemd}, zram in line {zram}");
}

/// Checks that systemd's journal contains every boot, so the disk and the machine ID persist.
#[track_caller]
fn assert_boots_in_journal(boot: &Boot, expected: usize) {
    let listed = answer_of_success(&boot.output, "boots");
    // some releases print a heading; boots are numbered backwards from 0
    let boots = listed.lines().filter(|line| line.trim_start().starts_with(['0', '-'])).count();
    assert!(boots == expected, "expected {expected} boots: {listed}");
}

/// The first boot loses power after it has synced a unit and a file; a file written after that must
/// be missing. The second boot is ended by its own command, the third by the end of its command.
fn boots_with_own_zram(options: &[&str]) {
    let unsynced =
        "dd if=/dev/zero of=/root/lost bs=1M count=8 status=none; echo lose-power; sleep 1000";
    let first = format!("{SAY}echo kept > /root/kept{LOOK}{ZRAM_UNIT}sync; {unsynced}");
    let second = format!(
        "{SAY}{LOOK}say lost stat --format=%b /root/lost\nuname -r > /out/release\n\
         systemctl reboot; sleep 1000"
    );
    let third = format!("{SAY}{LOOK}say out ls -A /out");
    let options = [&["--lose-power", "0"], options].concat();
    let boots = reboots(&options, &[&first, &second, &third]);
    let [lost, restarted, last] = &boots[..] else { panic!("three boots: {boots:#?}") };
    assert_without_zram(lost);
    let ends = [lost, restarted].map(|boot| (&boot.run["outcome"], &boot.run["disk"]["state"]));
    let expected = [("power_lost", "in_use"), ("restarted", "clean")];
    assert_eq!(json!(ends), json!(expected), "{boots:#?}");
    assert_eq!(lost.run["disk"]["repairs"], json!([]));
    let repairs = restarted.run["disk"]["repairs"].to_string();
    assert!(repairs.contains("recovery complete"), "{repairs}");
    let (blocks, status) = answer(&restarted.output, "lost");
    assert!(status != "0" || blocks == "0\n", "what was not written is not there: {blocks}");
    assert_own_zram(restarted);
    assert_boots_in_journal(restarted, 2);
    last.assert_exited(0);
    assert_eq!(last.run["disk"], json!({ "boot": 2, "repairs": [], "state": "clean" }));
    assert_own_zram(last);
    assert_boots_in_journal(last, 3);
    assert_eq!(answer(&last.output, "out"), ("", "0"), "files of an earlier boot are gone");
    let troubles = boots.iter().map(|boot| &boot.run["troubles"]);
    assert!(troubles.into_iter().all(|troubles| *troubles == json!([])), "{boots:#?}");
}

#[test]
fn guest_reboots_keep_the_disk_and_load_zram_only_on_request() {
    boots_with_own_zram(&[]);
}

/// Only one boot, because no boot follows one that exceeds its deadline.
#[test]
fn guest_reboots_end_with_a_boot_that_passes_its_deadline() {
    let options = [SYSTEMD, "--reboots", "3", "--deadline", "5s"];
    let stubborn = "trap '' TERM INT HUP; echo boot $PAGEWISE_BOOT; while :; do sleep 1; done";
    let ran = crate::boot::script(&options, stubborn);
    assert_eq!((ran.status, ran.out.as_str()), (124, "boot 0\n"), "{}", ran.err);
    let told = ["boot 0: still running the command after 5 s", "boot 0: root disk: not unmounted"];
    assert!(told.iter().all(|line| ran.err.contains(line)), "{}", ran.err);
}

fn refused(options: &[&str]) -> ProgramRun {
    finish(&mut lab(&[options, &["--", "true"]].concat()))
}

/// No guest is started for options that cannot work.
#[test]
fn guest_reboots_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    fs::write(&image, [1; 4096]).unwrap();
    let ran = refused(&["--reboots", "2"]);
    assert_eq!(ran.status, 1, "{}", ran.err);
    assert!(ran.err.contains("minimal userland has no root disk"), "{}", ran.err);
    assert!(ran.err.contains("add --userland systemd"), "{}", ran.err);
    let ran = refused(&[SYSTEMD, "--reboots", "2", "--package", "nonesuch"]);
    assert_eq!(ran.status, 1, "{}", ran.err);
    assert!(ran.err.contains("no package nonesuch"), "{}", ran.err);
    assert!(ran.err.contains("systemd-zram-generator"), "{}", ran.err);
    let ran = refused(&[SYSTEMD, "--reboots", "2", "--disk", image.to_str().unwrap()]);
    assert_eq!(ran.status, 1, "{}", ran.err);
    assert!(ran.err.contains("discarded at the end of each boot"), "{}", ran.err);
    assert!(ran.err.contains("image,rw"), "{}", ran.err);
    for wrong in [
        &["--reboots", "0"][..],
        &["--reboots", "51"],
        &["--reboots", "2", "--boots", "2"],
        &["--reboots", "2", "--count"],
        &["--lose-power", "1s"],
        &["--package", "systemd-zram-generator"],
    ] {
        let ran = refused(&[&[SYSTEMD], wrong].concat());
        assert_eq!(ran.status, 2, "{wrong:?}: {}", ran.err);
    }
}

/// Tests of other suites, and tests that take many boots.
pub(crate) mod long {
    mod faults;
    pub(crate) mod plans;
    pub(crate) mod wanted;
    pub(crate) mod zswap;

    use super::*;
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    use crate::caches;
    use rustix::process::{Pid, Signal};

    #[test]
    fn guest_reboots_of_bookworm() {
        boots_with_own_zram(&["--userland=systemd/bookworm", "--kernel=bookworm"]);
    }

    #[test]
    fn guest_reboots_of_sid() {
        boots_with_own_zram(&["--userland=systemd/sid", "--kernel=sid"]);
    }

    /// The generator's configuration takes effect at the next boot; an added disk keeps its
    /// contents.
    #[test]
    fn guest_reboots_with_zram_generator_and_a_second_disk() {
        let conf = "printf '[zram0]\\nzram-size = 100\\nswap-priority = 77\\n' \
                    > /etc/systemd/zram-generator.conf";
        let look = "say zram swapon --show=NAME,SIZE,PRIO --bytes --noheadings --raw\n\
                    say generator ls /usr/lib/systemd/system-generators/zram-generator\n";
        let first = format!("{SAY}{LOOK}{look}{conf}; mkswap -L second /dev/vda");
        let second = format!("{SAY}{LOOK}{look}say second blkid -o value -s LABEL /dev/vda");
        let options = ["--package", "systemd-zram-generator", "--disk", "64M"];
        let boots = reboots(&options, &[&first, &second]);
        let [first, second] = &boots[..] else { panic!("two boots: {boots:#?}") };
        first.assert_exited(0);
        second.assert_exited(0);
        for boot in &boots {
            answer_of_success(&boot.output, "generator");
            let systemd = line_of(boot, "running in system mode").expect("systemd says so");
            assert!(line_of(boot, "zram: Added device").is_some_and(|zram| systemd < zram));
        }
        // by default zram-generator uses half of the memory
        let defaults = answer_of_success(&first.output, "zram");
        assert!(defaults.starts_with("/dev/zram0 ") && defaults.ends_with(" 100\n"), "{defaults}");
        let own = format!("/dev/zram0 {} 77\n", (100 << 20) - 4096);
        assert_eq!(answer(&second.output, "zram"), (own.as_str(), "0"));
        assert_eq!(answer(&second.output, "second"), ("second\n", "0"));
    }

    /// A root disk that the command filled up still boots, and the command runs. Redis is disabled:
    /// it would never stop, because it cannot save and its unit lets it retry without a limit.
    #[test]
    fn guest_reboots_with_a_full_root_disk() {
        let fill = "systemctl mask --quiet --now redis-server; cat /dev/zero > /root/full; sync; df --output=avail / | tail -1; true";
        let look = format!(
            "{SAY}say full stat --format=%s /root/full\nsay write cp /etc/os-release /root/x\nrm /root/full"
        );
        let boots = reboots(&[], &[fill, &look, "df --output=avail / | tail -1"]);
        let [full, next, last] = &boots[..] else { panic!("three boots: {boots:#?}") };
        for boot in &boots {
            boot.assert_exited(0);
        }
        assert!(full.output.contains("No space left on device"), "{}", full.output);
        assert!(full.output.lines().any(|line| line.trim() == "0"), "{}", full.output);
        let size: u64 = answer_of_success(&next.output, "full").trim().parse().unwrap();
        assert!(size > 100 << 20, "{size}");
        let (said, status) = answer(&next.output, "write");
        assert!(status != "0" && said.contains("No space left"), "{said}");
        let free: u64 = last.output.trim().parse().unwrap();
        assert!(free > 100 << 10, "{free} KiB");
    }

    /// Modules of `--module` are on the disk and are not loaded; a boot whose command fails is the
    /// last one.
    #[test]
    fn guest_reboots_stop_at_a_command_that_fails() {
        let first = format!("{SAY}{LOOK}say loaded modprobe dm_mod\nsay then lsmod");
        let boots = reboots(&["--module", "dm_mod"], &[&first, "exit 3", "true"]);
        let [first, failed] = &boots[..] else { panic!("two boots: {boots:#?}") };
        assert!(!answer_of_success(&first.output, "modules").contains("dm_mod"), "{first:#?}");
        answer_of_success(&first.output, "loaded");
        assert!(answer_of_success(&first.output, "then").contains("dm_mod"), "{first:#?}");
        failed.assert_exited(3);
    }

    fn runs() -> Vec<String> {
        let entries = fs::read_dir(caches::shared().join("runs")).unwrap().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// Ctrl-C in the second boot ends the whole run, and its disk is removed.
    #[test]
    fn guest_reboots_that_are_stopped_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let command = "echo boot $PAGEWISE_BOOT; [ $PAGEWISE_BOOT = 0 ] || exec sleep 1000";
        let mut command = lab(&[SYSTEMD, "--reboots", "3", "--", "sh", "-c", command]);
        command.stdout(fs::File::create(&out).unwrap()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let own = format!("{}-", child.id());
        wait_for(&out, "boot 0\nboot 1\n");
        assert!(runs().iter().any(|name| name.starts_with(&own)), "{:?}", runs());
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::INT).unwrap();
        let ended = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(130), "{err}");
        assert!(err.contains("boot 1: stopped by the user"), "{err}");
        assert!(!err.contains("boot 2"), "{err}");
        assert!(!runs().iter().any(|name| name.starts_with(&own)), "{:?}", runs());
    }

    fn wait_for(file: &Path, expected: &str) {
        let until = Instant::now() + Duration::from_secs(600);
        while fs::read_to_string(file).unwrap() != expected {
            assert!(Instant::now() < until, "{}", fs::read_to_string(file).unwrap());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
