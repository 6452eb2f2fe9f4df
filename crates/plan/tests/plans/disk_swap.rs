// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A swap file: when it is added, its size, and when it is declined.

use pagewise_model::plan::{Change, Goal, Plan, SwapFilePlan};
use pagewise_model::{
    Bytes, FeatureState, Installation, Interval, Name, Reading, Source, SwapFolder, TierKind,
};
use pagewise_plan::{Measured, Request, make_plan};
use pagewise_testkit::scene::Scene;

use super::machine::carry_out;
use super::swap::short;
use super::{declined, file, ids, plain, plan_for};
use pagewise_testkit::made_host::{capability, gib, group, line, mib, tier, zram};

const ADD: &str = "add a swap file";
const UNIT: &str = r"/etc/systemd/system/var-pagewise\x2dswap\x2d0.swap";

/// Short of memory, without swap, and with a kernel without zram.
fn short_without_zram() -> Interval {
    let mut interval = short();
    capability(&mut interval.end, FeatureState::NotBuilt { option: "CONFIG_ZRAM" });
    interval
}

fn var_on(file_system: &str, disk: &str, free: Bytes) -> Installation {
    let found = |name: &str| Reading::found(Name::from(name), Source::file("/made"));
    let mut swap_folder = SwapFolder { free_bytes: Some(free), ..SwapFolder::default() };
    swap_folder.disk.file_system = found(file_system);
    swap_folder.disk.name = found(disk);
    swap_folder.disk.lowest = found(disk);
    Installation { swap_folder, ..plain() }
}

fn plan_on(interval: &Interval, installation: &Installation) -> Plan {
    plan_for(interval, installation, Goal::Balanced)
}

fn asked_for(interval: &Interval, installation: &Installation) -> Plan {
    let (measured, only) = (&Measured::default(), &["swap-file".to_owned()][..]);
    make_plan(&Request {
        interval,
        installation,
        measured,
        goal: Goal::Balanced,
        only,
        wants: &[],
        anyway: false,
    })
}

fn added(plan: &Plan) -> (&str, SwapFilePlan) {
    match &plan.step("swap-file").unwrap().change {
        Change::AddSwapFile { target, to } => (target, *to),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_short_host_without_zram_gets_a_swap_file_now_and_at_each_boot() {
    let (interval, installation) = (short_without_zram(), var_on("ext4", "nvme0n1", gib(100)));
    let plan = plan_on(&interval, &installation);
    let all = ["swap-file", "swap-file-unit", "swap-file-link", "swap-file-reload"];
    assert_eq!(ids(&plan), all);
    let to = SwapFilePlan { size_bytes: gib(8), priority: None };
    assert_eq!(added(&plan), ("/var/pagewise-swap-0", to));
    let step = plan.step("swap-file").unwrap();
    let why = "There is no swap, and zram swap is left out (see below). The kernel";
    assert!(step.reason.contains(why) && step.survives_reboot, "{step:#?}");
    let asked = asked_for(&short(), &installation);
    let why = &asked.step("swap-file").unwrap().reason;
    assert!(why.contains("would be faster (`pagewise plan --want zram`)"), "{why}");
    assert_eq!(step.expected, None, "its size is what the step sets");
    let (path, unit) = file(&plan, "swap-file-unit");
    assert_eq!(path, UNIT);
    assert!(unit.contains("\n[Swap]\nWhat=/var/pagewise-swap-0\n\n[Install]\n"), "{unit}");
    let (after, installation) = carry_out(&plan, &interval, &installation);
    assert_eq!(ids(&plan_on(&after, &installation)), [""; 0]);
    let again = asked_for(&after, &installation);
    assert!(declined(&again, ADD).contains("/var/pagewise-swap-0 has room"), "{again:#?}");
}

/// The killed process freed its swap, so the device has free space now.
#[test]
fn swap_that_was_full_when_the_kernel_killed_a_process_has_no_room() {
    let mut interval = Scene::load("debian-trixie-6.12-x86_64-256m-oom-zram-full").replay();
    let plan = plan_on(&interval, &plain());
    assert!(declined(&plan, ADD).contains("the file system of /var is not known"), "{plan:#?}");
    let installation = var_on("ext4", "vda", gib(10));
    let plan = plan_on(&interval, &installation);
    let why = &plan.step("swap-file").unwrap().reason;
    assert!(why.contains("ago; 162.3 of 213.2 MiB are available. All swap was full when"), "{why}");
    let (after, installation) = carry_out(&plan, &interval, &installation);
    assert_eq!(ids(&plan_on(&after, &installation)), [""; 0]);
    let host = interval.end.kernel_log.kills[0].host.as_mut().unwrap();
    host.swap_free = Some(mib(30));
    let plan = plan_on(&interval, &var_on("ext4", "vda", gib(10)));
    assert!(plan.steps.is_empty());
    assert!(declined(&plan, ADD).contains("/dev/zram0 has room (14.7 of 64.0 MiB in use)"));
}

#[test]
fn the_size_follows_from_ram_and_from_the_free_space() {
    let sizes = [
        (gib(16), gib(100), Some(gib(8))),
        (gib(64), gib(100), Some(gib(8))),
        (gib(4), gib(100), Some(gib(2))),
        (mib(256), gib(100), Some(mib(512))),
        (gib(16), gib(10), Some(mib(2560))),
        (gib(16), gib(1), Some(mib(256))),
        (gib(16), mib(1023), None),
    ];
    for (ram, free, size) in sizes {
        let mut interval = short_without_zram();
        interval.end.memory.total = line("/proc/meminfo", 1, ram);
        interval.end.memory.available = line("/proc/meminfo", 3, Bytes::new(ram.get() / 100));
        let plan = plan_on(&interval, &var_on("xfs", "sda", free));
        match size {
            Some(size) => assert_eq!(added(&plan).1.size_bytes, size, "{ram} {free}"),
            None => assert!(declined(&plan, ADD).contains("only 1023.0 MiB are free"), "{plan:#?}"),
        }
    }
}

#[test]
fn a_swap_file_is_declined_where_it_would_hurt_and_the_reason_is_said() {
    let interval = short_without_zram();
    let mut unknown = plain();
    unknown.swap_folder.free_bytes = Some(gib(100));
    let hosts = [
        (var_on("btrfs", "sda", gib(100)), "btrfs filesystem mkswapfile"),
        (var_on("tmpfs", "sda", gib(100)), "/var is on tmpfs"),
        (var_on("nfs4", "sda", gib(100)), "/var is on nfs4"),
        (unknown, "the file system of /var is not known"),
        (var_on("ext4", "mmcblk0", gib(100)), "wears out"),
        (var_on("ext4", "nbd0", gib(100)), "over a network"),
    ];
    for (installation, why) in hosts {
        let plan = plan_on(&interval, &installation);
        assert_eq!(ids(&plan), [""; 0], "{why}");
        assert!(declined(&plan, ADD).contains(why), "{plan:#?}");
    }
    let mut kubernetes = interval.clone();
    kubernetes.end.cgroups.groups.push(group("/kubepods.slice"));
    let good = var_on("ext4", "sda", gib(100));
    assert!(declined(&plan_on(&kubernetes, &good), ADD).contains("kubelet refuses"));
    let card = asked_for(&interval, &var_on("ext4", "mmcblk0", gib(100)));
    assert_eq!(ids(&card)[0], "swap-file", "it was asked for");
    let network = asked_for(&interval, &var_on("ext4", "nbd0", gib(100)));
    assert!(declined(&network, ADD).contains("over a network"), "{network:#?}");
}

#[test]
fn zram_comes_first_and_a_full_one_has_a_file_below_it() {
    let good = var_on("ext4", "sda", gib(100));
    let plan = plan_on(&short(), &good);
    assert_eq!(ids(&plan)[0], "zram");
    assert!(plan.step("swap-file").is_none());
    let mut full = short_without_zram();
    full.end.zram = vec![zram(0, pagewise_model::ZramUse::Swap { priority: 100 }, mib(4096))];
    full.end.tiers.push(tier("/dev/zram0", TierKind::Zram, gib(4), 100));
    assert!(plan_on(&full, &good).step("swap-file").is_none(), "it has room");
    full.end.tiers[0].used = line("/proc/swaps", 2, gib(4));
    let only = asked_for(&full, &good);
    assert!(only.step("swap-file").unwrap().reason.contains("/dev/zram0 is full"), "{only:#?}");
    assert_eq!(added(&only).1.priority, None, "the kernel fills it after zram");
}

#[test]
fn hosts_that_are_not_short_are_told_so_if_they_ask() {
    let mut interval = short_without_zram();
    interval.end.memory.available = line("/proc/meminfo", 3, gib(9));
    let good = var_on("ext4", "sda", gib(100));
    let plan = plan_on(&interval, &good);
    assert!(plan.declined.iter().all(|it| it.what != ADD), "zram's reason is the same: {plan:#?}");
    let why = "memory is not short: 9.0 of 16.0 GiB are available";
    assert!(declined(&asked_for(&interval, &good), ADD).contains(why));
}

#[test]
fn without_systemd_the_file_is_swap_until_the_next_boot() {
    let mut interval = short_without_zram();
    interval.end.cgroups.groups.clear();
    let mut installation = var_on("ext4", "sda", gib(100));
    installation.has_systemd = false;
    let plan = plan_on(&interval, &installation);
    assert_eq!(ids(&plan), ["swap-file"]);
    assert!(
        declined(&plan, "keep the swap file over a reboot")
            .contains("neither systemd nor an init system")
    );
}
