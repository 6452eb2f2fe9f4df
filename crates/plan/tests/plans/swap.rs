// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zram: when it is added, replaced or left unchanged, and the files that make it persistent.

use pagewise_model::plan::{Change, Goal, Plan, StepUndo, ZramSwap};
use pagewise_model::{
    Bytes, FeatureState, Installation, Interval, Manager, Name, Purpose, TierKind, ZramUse,
};
use pagewise_testkit::scene::Scene;

use super::machine::carry_out;
use super::{declined, ids, plain, plan_for, plan_of};
use pagewise_testkit::made_host::{
    calm, capability, file, gib, group, line, mib, process, stall, still, tier, with, word, zram,
};

const ADD: &str = "add swap in compressed RAM";

/// 16 GiB of which 200 MiB are available, without swap.
pub(crate) fn short() -> Interval {
    with(|host| {
        host.tiers.clear();
        host.zram = vec![zram(0, ZramUse::NotInitialised, Bytes::new(0))];
        host.memory.swap_total = line("/proc/meminfo", 15, Bytes::new(0));
        host.memory.swap_free = line("/proc/meminfo", 16, Bytes::new(0));
        host.memory.available = line("/proc/meminfo", 3, mib(200));
    })
}

fn added(plan: &Plan) -> (Option<&str>, &ZramSwap) {
    match &plan.steps[0].change {
        Change::AddZramSwap { target, to } => (target.as_deref(), to),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_short_host_gets_zram_now_and_at_each_boot() {
    let plan = plan_of(&short());
    assert_eq!(ids(&plan), ["zram", "zram-file", "zram-link", "zram-reload"]);
    let (target, zram) = added(&plan);
    assert_eq!(target, None, "the unit takes any device");
    assert_eq!((zram.compressor.to_string().as_str(), zram.disksize_bytes), ("lz4", gib(16)));
    assert_eq!((zram.mem_limit_bytes, zram.priority), (Some(gib(12)), 100));
    assert!(
        plan.steps[0].reason.contains("At a compression ratio of 2.0 : 1 (assumed"),
        "{}",
        plan.steps[0].reason
    );
    assert_eq!(plan.steps[0].expected, None, "its size is what the step sets");
    let (path, unit) = super::file(&plan, "zram-file");
    assert_eq!(path, "/etc/systemd/system/pagewise-zram.service");
    let yields = "\nConditionPathExistsGlob=!/run/systemd/generator/dev-zram*.swap\n";
    assert!(unit.contains(yields), "zram-generator may be installed later: {unit}");
    let order = ["comp_algorithm", "mem_limit", "disksize", "mkswap", "swapon"];
    let places: Vec<usize> = order.iter().map(|word| unit.find(word).unwrap()).collect();
    assert!(places.is_sorted(), "{unit}");
    assert!(unit.contains("modprobe zram num_devices=0") && unit.contains("Before=swap.target"));
    assert!(!unit.contains("BindsTo") && !unit.contains(".device\n"), "{unit}");
    let link = &plan.steps[2].change;
    let expected = Change::MakeLink {
        target: "/etc/systemd/system/swap.target.wants/pagewise-zram.service".to_owned(),
        from: None,
        to: path.to_owned(),
    };
    assert_eq!(*link, expected);
}

#[test]
fn zram_generator_gets_a_drop_in_and_no_unit() {
    let installation = Installation { has_generator: true, ..plain() };
    let plan = plan_for(&short(), &installation, Goal::Balanced);
    assert_eq!(ids(&plan), ["zram", "zram-file"]);
    assert_eq!(added(&plan).0, Some("/dev/zram0"));
    let (path, text) = super::file(&plan, "zram-file");
    assert_eq!(path, "/etc/systemd/zram-generator.conf.d/50-pagewise.conf");
    for line in
        ["[zram0]", "zram-size = 16384", "zram-resident-limit = 12288", "swap-priority = 100"]
    {
        assert!(text.lines().any(|known| known == line), "{line} is not in {text}");
    }
}

#[test]
fn zram_goes_above_a_disk() {
    let mut interval = short();
    interval.end.tiers.push(tier("/dev/sda2", TierKind::Partition, gib(3), 150));
    let plan = plan_of(&interval);
    assert_eq!(added(&plan).1.priority, 151);
    assert!(plan.steps[0].reason.contains("Swap is only on /dev/sda2"));
    interval.end.tiers.push(tier("/dev/sdb2", TierKind::Partition, gib(3), 32_767));
    assert!(declined(&plan_of(&interval), ADD).contains("32767"));
}

#[test]
fn the_goal_ratio_takes_zstd_where_the_kernel_offers_it_and_more_hosts() {
    let mut interval = short();
    let available = vec![Name::from("lz4"), Name::from("zstd")];
    let algorithms = pagewise_model::Algorithms { active: Name::from("lz4"), available };
    interval.end.zram[0].algorithm = file("/sys/block/zram0/comp_algorithm", algorithms);
    let algorithm = |goal| {
        let plan = plan_for(&interval, &plain(), goal);
        added(&plan).1.compressor.to_string()
    };
    assert_eq!(algorithm(Goal::Ratio), "zstd");
    assert_eq!(algorithm(Goal::Latency), "lz4");
    interval.end.memory.available = line("/proc/meminfo", 3, gib(6));
    assert!(declined(&plan_of(&interval), ADD).contains("6.0 of 16.0 GiB are available"));
    assert_eq!(ids(&plan_for(&interval, &plain(), Goal::Ratio))[0], "zram");
}

/// A part of the expected reason, and the function that prepares the host.
type Case = (&'static str, fn(&mut Interval));

#[test]
fn zram_is_declined_where_it_would_hurt_and_the_reason_is_said() {
    let cases: [Case; 6] = [
        ("kubelet refuses to start", |it| {
            it.end.cgroups.groups.push(group("/kubepods.slice"));
        }),
        ("kubelet refuses to start", |it| {
            it.end.processes.list.push(process("kubelet", mib(80), mib(0)));
        }),
        ("set up to resume from hibernation (device 259:3)", |it| {
            it.end.configuration.resume_device = word("/sys/power/resume", "259:3");
        }),
        ("zramswap.service", |it| {
            let path = "/etc/systemd/system/multi-user.target.wants/zramswap.service";
            let found = word(path, "present");
            let purpose = Purpose::CompressedSwap;
            it.end.configuration.managers.push(Manager { name: "zram-tools", purpose, found });
        }),
        ("CONFIG_ZRAM", |it| {
            capability(&mut it.end, FeatureState::NotBuilt { option: "CONFIG_ZRAM" });
        }),
        ("memory is not short: 9.0 of 16.0 GiB are available", |it| {
            it.end.memory.available = line("/proc/meminfo", 3, gib(9));
        }),
    ];
    for (why, spoil) in cases {
        let mut interval = short();
        spoil(&mut interval);
        let plan = plan_of(&interval);
        assert!(plan.steps.is_empty(), "{why}: {plan:#?}");
        assert!(declined(&plan, ADD).contains(why), "{why}: {plan:#?}");
    }
}

/// Recordings in which a process was killed because the NUMA nodes of its policy or cpuset were
/// full; 394.8 and 394.5 of 465 MiB were available. If memory is short as well, swap is planned.
#[test]
fn swap_for_all_is_no_answer_to_a_node_that_ran_out() {
    for slug in
        ["debian-trixie-6.12-x86_64-512m-oom-policy", "debian-trixie-6.12-x86_64-512m-oom-cpuset"]
    {
        let mut interval = Scene::load(slug).replay();
        let plan = plan_of(&interval);
        assert!(plan.steps.is_empty(), "{slug}: {plan:#?}");
        let why = declined(&plan, ADD);
        assert!(
            why.contains("are available). Only the NUMA nodes that some process may use ran out"),
            "{why}"
        );
        interval.end.memory.available = line("/proc/meminfo", 3, mib(20));
        assert!(ids(&plan_of(&interval)).contains(&"zram"), "{slug}");
    }
}

#[test]
fn hosts_whose_etc_does_not_last_get_the_running_device_alone() {
    let mut interval = short();
    interval.end.cgroups.groups.clear();
    let named = |id: &str| Installation { distribution: Some(id.to_owned()), ..plain() };
    let hosts = [
        (Installation::default(), "neither systemd nor"),
        (named("nixos"), "zramSwap"),
        (named("steamos"), "an update of this SteamOS"),
    ];
    for (installation, why) in hosts {
        let plan = plan_for(&interval, &installation, Goal::Balanced);
        assert_eq!(ids(&plan), ["zram"]);
        assert!(declined(&plan, "keep the zram swap over a reboot").contains(why), "{plan:#?}");
    }
}

/// On an ostree checkout, /etc is writable and kept across updates.
#[test]
fn an_image_of_ostree_is_planned_for_as_any_other() {
    let installation = Installation { is_ostree: true, ..plain() };
    let plan = plan_for(&short(), &installation, Goal::Balanced);
    assert_eq!(ids(&plan), ["zram", "zram-file", "zram-link", "zram-reload"]);
    assert!(plan.steps[1].reason.contains("image of ostree"));
}

/// A full zram device of 4 GiB, which uses 2 GiB of RAM, on 16 GiB.
fn full(available: Bytes) -> Interval {
    still({
        let mut host = calm().end;
        host.tiers[0].used = line("/proc/swaps", 2, gib(4));
        host.memory.available = line("/proc/meminfo", 3, available);
        host.memory.swap_total = line("/proc/meminfo", 15, gib(4));
        host.memory.swap_free = line("/proc/meminfo", 16, Bytes::new(0));
        host
    })
}

#[test]
fn a_full_device_is_replaced_by_a_larger_one_above_it() {
    let plan = plan_of(&full(gib(9)));
    assert_eq!(ids(&plan), ["zram-new", "zram-drain"]);
    assert_eq!(added(&plan).1.priority, 101);
    assert_eq!(added(&plan).1.disksize_bytes, gib(16));
    let drain = plan.step("zram-drain").unwrap();
    assert_eq!(drain.needs, ["zram-new"]);
    assert!(matches!(drain.undo, StepUndo::Restore { .. }) && drain.risk.contains("4.0 GiB"));
    assert!(declined(&plan, "keep the new zram device").contains("which program sets up zram0"));
}

#[test]
fn while_memory_is_short_nothing_has_to_move() {
    let mut interval = full(mib(400));
    stall(&mut interval.end.psi.memory.some, 40.0, 30.0);
    let plan = plan_of(&interval);
    assert_eq!(ids(&plan), ["zram-new"], "{plan:#?}");
    assert_eq!(added(&plan).1.disksize_bytes, gib(12), "what is missing to the recommended size");
    assert!(declined(&plan, "one larger device").contains("while memory is short"));
}

#[test]
fn the_owner_of_a_replaced_device_gets_the_new_size() {
    let unit = "/etc/systemd/system/pagewise-zram.service";
    let own = |path: &str| Installation {
        own_files: [(path.to_owned(), "earlier\n".to_owned())].into(),
        ..plain()
    };
    let plan = plan_for(&full(gib(9)), &own(unit), Goal::Balanced);
    assert_eq!(ids(&plan), ["zram-new", "zram-file", "zram-drain"]);
    let step = plan.step("zram-file").unwrap();
    assert!(
        matches!(&step.change, Change::WriteFile { from: Some(from), .. } if from == "earlier\n")
    );
    let mut interval = full(gib(9));
    let path = "/usr/lib/systemd/system-generators/zram-generator";
    let found = word(path, "present");
    let purpose = Purpose::CompressedSwap;
    interval.end.configuration.managers = vec![Manager { name: "zram-generator", purpose, found }];
    let plan = plan_of(&interval);
    assert!(super::file(&plan, "zram-file").1.contains("[zram0]\nzram-size = 16384\n"));
}

#[test]
fn an_empty_oversized_device_is_replaced_and_a_used_one_is_not() {
    let sized = |used: Bytes| {
        with(|host| {
            host.tiers[0].size = line("/proc/swaps", 2, gib(60));
            host.tiers[0].used = line("/proc/swaps", 2, used);
            host.zram[0].disksize = file("/sys/block/zram0/disksize", gib(60));
            host.zram[0].slot_table = file("/sys/block/zram0/disksize", mib(240));
        })
    };
    assert_eq!(ids(&plan_of(&sized(Bytes::new(0)))), ["zram-new", "zram-drain"]);
    let plan = plan_of(&sized(gib(1)));
    assert!(plan.steps.is_empty(), "{plan:#?}");
    assert!(declined(&plan, "a smaller device").contains("only its slot table (240.0 MiB)"));
}

#[test]
fn zram_behind_a_disk_moves_above_it() {
    let plan = plan_of(&Scene::load("debian-bookworm-6.1-x86_64-512m-zram-behind-disk").replay());
    assert_eq!(ids(&plan), ["zram-new", "zram-drain"]);
    assert!(plan.steps[0].reason.contains("/dev/vda (priority 50) before /dev/zram0 (priority 5)"));
    let mut interval = calm();
    interval.end.tiers[0].used = line("/proc/swaps", 2, gib(3));
    interval.end.tiers.insert(0, tier("/swapfile", TierKind::File, gib(1), 200));
    interval.end.memory.available = line("/proc/meminfo", 3, gib(2));
    let plan = plan_of(&interval);
    assert!(plan.steps.is_empty());
    assert!(
        declined(&plan, "give /dev/zram0 a higher priority")
            .contains("3.0 GiB of pages have to move")
    );
}

/// Nothing has to move, so no new device is created.
#[test]
fn an_empty_zram_behind_a_disk_gets_a_higher_priority() {
    let interval = Scene::load("debian12-6.18-x86_64-24g-zram-behind-file-used").replay();
    let plan = plan_for(&interval, &Installation::default(), Goal::Balanced);
    assert_eq!(ids(&plan), ["zram-priority"]);
    let expected = Change::SetSwapPriority { target: "/dev/zram1".to_owned(), from: 5, to: 100 };
    assert_eq!(plan.steps[0].change, expected);
    assert!(plan.steps[0].reason.contains("With priority 100, /dev/zram1 will be filled first"));
    assert!(
        declined(&plan, "keep the priority of /dev/zram1").contains("neither systemd nor an init")
    );
    let (after, installation) = carry_out(&plan, &interval, &Installation::default());
    assert_eq!(ids(&plan_for(&after, &installation, Goal::Balanced)), [""; 0]);
}

#[test]
fn zswap_in_front_of_zram_alone_is_switched_off() {
    let plan = plan_of(&Scene::load("debian-sid-7.2-x86_64-512m-zswap-zram").replay());
    assert_eq!(ids(&plan), ["zswap", "tmpfiles-file"]);
    let line = "w /sys/module/zswap/parameters/enabled - - - - N";
    assert!(super::file(&plan, "tmpfiles-file").1.lines().any(|known| known == line));
}

/// A group at its own limit on a host with 22 GiB available does not justify a device of the size
/// of RAM.
#[test]
fn a_group_at_its_limit_is_no_reason_for_zram() {
    let interval = Scene::load("debian12-6.18-x86_64-24g-oom-limit").replay();
    for goal in super::GOALS {
        let plan = plan_for(&interval, &plain(), goal);
        assert!(plan.steps.is_empty(), "{goal:?}: {plan:#?}");
        let why = declined(&plan, ADD);
        assert!(
            why.contains("22.3 of 23.5 GiB are available") && why.contains("its own limit"),
            "{why}"
        );
    }
}
