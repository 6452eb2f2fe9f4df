// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A naive model of `apply`: the state of a host after a plan was applied.

use pagewise_model::plan::{Change, Plan, SwapFilePlan, ZramSwap};
use pagewise_model::{
    Algorithms, Bytes, Installation, Interval, Mechanism, Name, Pages, PersistentSetting, Reading,
    Snapshot, Source, Target, Tier, TierKind, Zone, Zram, ZramUse,
};

/// The host after the plan.
pub(crate) fn carry_out(
    plan: &Plan,
    interval: &Interval,
    installation: &Installation,
) -> (Interval, Installation) {
    let (mut interval, mut installation) = (interval.clone(), installation.clone());
    for step in &plan.steps {
        change(&step.change, &mut interval.end, &mut installation);
    }
    (interval, installation)
}

fn change(change: &Change, host: &mut Snapshot, installation: &mut Installation) {
    match change {
        Change::SetKnob { target, to, .. } => {
            let reading = host.knobs.iter_mut().find(|it| it.knob.name == target).unwrap();
            reading.live = Reading::found(Name::from(to.as_str()), reading.live.source.clone());
            set_noun(host, target, to);
        }
        Change::WriteFile { target, to, .. } => {
            installation.own_files.insert(target.clone(), to.clone());
            if target.starts_with("/etc/sysctl.d/") {
                read_sysctl(host, target, to);
            }
        }
        Change::AddZramSwap { to, .. } => add_zram(host, to),
        Change::AddSwapFile { target, to } => add_swap_file(host, target, *to),
        Change::SetSwapPriority { target, to, .. } => {
            let tier = host.tiers.iter_mut().find(|tier| tier.path.as_str() == target).unwrap();
            tier.priority = Reading::found(i32::from(*to), tier.priority.source.clone());
        }
        Change::DrainSwap { target, .. } => {
            host.tiers.retain(|tier| tier.path.as_str() != target);
            host.zram.retain(|device| device.path() != *target);
        }
        Change::MakeLink { .. } | Change::ReloadUnits { .. } => {}
    }
}

/// Settings that are also read as part of another type.
fn set_noun(host: &mut Snapshot, knob: &str, to: &str) {
    let number = || to.parse().unwrap();
    match knob {
        "zswap.enabled" => {
            host.zswap.enabled = Reading::found(to == "Y", host.zswap.enabled.source.clone());
        }
        "zswap.shrinker_enabled" => {
            let reading = &mut host.zswap.shrinker_enabled;
            *reading = Reading::found(to == "Y", reading.source.clone());
        }
        "zswap.compressor" => {
            let reading = &mut host.zswap.compressor;
            *reading = Reading::found(Name::from(to), reading.source.clone());
        }
        "thp.khugepaged.max_ptes_none" => {
            let reading = &mut host.thp.khugepaged.max_ptes_none;
            *reading = Reading::found(number(), reading.source.clone());
        }
        "vm.min_free_kbytes" | "vm.watermark_scale_factor" => set_watermarks(host),
        "vm.nr_hugepages" => {
            let pools = host.hugetlb.iter_mut().filter(|pool| pool.node.is_none());
            for pool in pools.filter(|pool| pool.page_bytes == Bytes::new(2 << 20)) {
                let freed = pool.total.get().unwrap().saturating_sub(number());
                let free = pool.free.get().unwrap() - freed;
                pool.free = Reading::found(free, pool.free.source.clone());
                pool.total = Reading::found(number(), pool.total.source.clone());
            }
        }
        _ => {}
    }
}

/// As in the kernel's `setup_per_zone_wmarks` and `__setup_per_zone_wmarks`, on machines without
/// highmem and movable zones.
pub(crate) fn set_watermarks(host: &mut Snapshot) {
    let knob = |name: &str| host.knob(name)?.active_word()?.parse::<u64>().ok();
    let (Some(kib), Some(scale)) = (knob("vm.min_free_kbytes"), knob("vm.watermark_scale_factor"))
    else {
        return;
    };
    let mut lowmem = 0;
    for zone in &host.zones {
        lowmem += zone.managed_pages.get().map_or(0, Pages::get);
    }
    let with_memory = |zone: &&mut Zone| zone.managed_pages.get() > Some(Pages::new(0));
    for zone in host.zones.iter_mut().filter(with_memory) {
        let managed = zone.managed_pages.get().map_or(0, Pages::get);
        let mut tmp = kib / 4;
        tmp *= managed;
        tmp /= lowmem;
        let min = tmp;
        tmp >>= 2;
        let other = managed / 10_000 * scale + managed % 10_000 * scale / 10_000;
        if other > tmp {
            tmp = other;
        }
        let at = zone.high_pages.source.clone();
        let set = |pages: u64| Reading::found(Pages::new(pages), at.clone());
        (zone.min_pages, zone.low_pages, zone.high_pages) =
            (set(min), set(min + tmp), set(min + tmp + tmp));
        zone.boost_pages = set(0);
    }
}

/// Applies the file as systemd-sysctl does: sorted by name among the others.
fn read_sysctl(host: &mut Snapshot, path: &str, text: &str) {
    let all = &mut host.configuration.settings;
    all.retain(|setting| setting.value.source.path() != path);
    for (number, line) in (1..).zip(text.lines()) {
        let Some((key, value)) = line.split_once(" = ").filter(|(key, _)| !key.starts_with('#'))
        else {
            continue;
        };
        let knob = host.knobs.iter().find(|it| it.knob.name == key).unwrap().knob.name;
        let value = Reading::found(Name::from(value), Source::line(path, number));
        let target = Target::of_knob(knob);
        all.push(PersistentSetting::applied(Mechanism::Sysctl, target, value));
    }
    let name = |setting: &PersistentSetting| {
        let path = setting.value.source.path();
        (path == "/etc/sysctl.conf", path.rsplit('/').next().unwrap().to_owned())
    };
    all.sort_by_key(name);
}

fn add_swap_file(host: &mut Snapshot, path: &str, to: SwapFilePlan) {
    let at = Source::file("/made");
    let lowest = host.tiers.iter().filter_map(|tier| tier.priority.get()).min();
    let below_all = lowest.unwrap_or_default().min(-1) - 1;
    host.tiers.push(Tier {
        path: Name::from(path),
        kind: TierKind::File,
        size: Reading::found(to.size_bytes.saturating_sub(Bytes::new(4096)), at.clone()),
        used: Reading::found(Bytes::new(0), at.clone()),
        priority: Reading::found(to.priority.map_or(below_all, i32::from), at.clone()),
        disk: pagewise_model::Disk::default(),
        zswap_in_front: Reading::not_read(),
    });
}

fn add_zram(host: &mut Snapshot, zram: &ZramSwap) {
    let id = (0..).find(|id| host.zram.iter().all(|device| device.id != *id)).unwrap();
    let at = Source::file("/made");
    let found = |bytes| Reading::found(bytes, at.clone());
    let priority = i32::from(zram.priority);
    let algorithm = zram.compressor.algorithm.clone();
    let mut device = Zram {
        id,
        disksize: found(zram.disksize_bytes),
        algorithm: Reading::found(
            Algorithms { active: algorithm.clone(), available: vec![algorithm] },
            at.clone(),
        ),
        initialised: Reading::found(true, at.clone()),
        used_as: Reading::found(ZramUse::Swap { priority }, at.clone()),
        ..Zram::default()
    };
    device.mm_stat.memory_limit = found(zram.mem_limit_bytes.unwrap_or_default());
    let tier = Tier {
        path: Name::from(device.path().as_str()),
        kind: TierKind::Zram,
        // one page is used by the swap header
        size: found(zram.disksize_bytes.saturating_sub(Bytes::new(4096))),
        used: found(Bytes::new(0)),
        priority: Reading::found(priority, at.clone()),
        disk: pagewise_model::Disk::default(),
        zswap_in_front: Reading::not_read(),
    };
    host.zram.push(device);
    host.tiers.push(tier);
}
