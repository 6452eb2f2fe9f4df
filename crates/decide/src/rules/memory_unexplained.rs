// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: much RAM is in use that no counter of the kernel explains, or that a balloon has given
//! back to the hypervisor.
//!
//! The kernel has no list of such pages. Only kernels that were built with allocation profiling
//! list them in `/proc/allocinfo`, by the line of code that allocated them.

use pagewise_facts::unexplained::unexplained_memory;
use pagewise_model::{Balloon, Bytes, Finding, GpuMemory, Interval, Severity, Snapshot, Subject};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::process;

pub(super) const RULE: Rule = Rule {
    id: "memory-unexplained",
    doc: "A large share of RAM is in use that neither processes nor page cache nor the kernel's own counters explain, \
          or a balloon driver has given it back to the hypervisor.",
    diagnose,
};

/// Minimum share of RAM, in percent, of unexplained memory for a finding. On the hosts that were
/// recorded for this project it is at most 9.4 %.
const WORTH_PERCENT: f64 = 30.0;
/// Drivers whose buffers in system memory are in no counter of the kernel (TTM). Buffers of other
/// drivers, such as i915, are files in memory and are counted as shared memory.
const UNCOUNTED: [&str; 6] = ["amdgpu", "radeon", "nouveau", "xe", "vmwgfx", "qxl"];
/// Maximum number of processes with GPU buffers that are named.
const NAMED: usize = 3;
/// The GPU buffers of one process are the explanation if they are at least this share of the
/// unexplained memory, in percent.
const MOST_PERCENT: f64 = 50.0;
/// The beginning of the title of the finding about the balloon.
pub(crate) const BALLOON_TITLE: &str = "the hypervisor's balloon holds";

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let host = &interval.end;
    find_balloon(host).into_iter().chain(find_unexplained(host)).collect()
}

/// Returns the finding that a large part of RAM is in the hypervisor's balloon.
fn find_balloon(host: &Snapshot) -> Option<Finding> {
    let Balloon { size, is_in_total } = host.balloon()?;
    let total = host.memory.total.get()?;
    let ram = if is_in_total == Some(false) { total.saturating_add(size) } else { total };
    let percent = size.percent_of(ram)?.get();
    if percent < WORTH_PERCENT {
        return None;
    }
    // memory that is not in MemTotal is nowhere counted as RAM of this machine
    let severity = if is_in_total == Some(false) { Severity::Info } else { Severity::Warning };
    let counted = match is_in_total {
        Some(true) => "MemTotal still has these pages: no program can use them.".to_owned(),
        Some(false) => format!("MemTotal ({total}) does not have these pages any more."),
        None => "It is not known whether MemTotal still has these pages.".to_owned(),
    };
    Some(Finding {
        id: RULE.id,
        about: Some(Subject::part("balloon")),
        severity,
        title: format!("{BALLOON_TITLE} {size}: {percent:.0} % of RAM"),
        what: format!("A balloon driver has given {} back to the hypervisor. {counted}", size.part_of(ram)),
        why: "A hypervisor takes memory from a guest by asking the guest's balloon driver to allocate it. The guest gets \
              it back only if the hypervisor lowers the balloon's target (or, if it allows that, when the guest runs out of \
              memory): nothing inside the guest frees it."
            .to_owned(),
        evidence: host
            .memory
            .other
            .get("Balloon")
            .into_iter()
            .fold(EvidenceList::new(), |proof, line| proof.named("Balloon", line))
            .named("balloon_inflate", &host.vmstat.get("balloon_inflate"))
            .named("balloon_deflate", &host.vmstat.get("balloon_deflate"))
            .named("MemTotal", &host.memory.total)
            .named("MemAvailable", &host.memory.available)
            .into_evidence(),
        next: vec![
            "grep -E 'MemTotal|Balloon' /proc/meminfo; grep balloon /proc/vmstat  # does it still grow?".to_owned(),
            "virsh dommemstat GUEST  # on the hypervisor (libvirt): what the guest has now; ask its owner for more memory, \
             or for a balloon target that the guest's programs fit into"
                .to_owned(),
        ],
    })
}

fn find_unexplained(host: &Snapshot) -> Option<Finding> {
    let total = host.memory.total.get()?;
    let size = unexplained_memory(host)?;
    let percent = size.percent_of(total)?.get();
    if percent < WORTH_PERCENT {
        return None;
    }
    let gpu: Vec<&GpuMemory> = uncounted_gpu_buffers(host).take(NAMED).collect();
    let balloon = host.balloon().map_or_else(String::new, |balloon| {
        format!(" The {} in the balloon of the hypervisor are not a part of this.", balloon.size)
    });
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Warning,
        title: title(size, percent, gpu.first().copied()),
        what: format!(
            "{} of RAM are in use that neither processes, page cache, shared memory, slab, page tables, vmalloc, \
             hugetlb pools, ZFS nor compressed swap account for.{balloon}{}",
            size.part_of(total),
            describe_gpus(&gpu)
        ),
        why: "A driver can take pages directly from the kernel, which then counts them nowhere: buffers of a GPU or \
              network card, a balloon that the kernel does not count, or pages that a driver leaks. Such \
              pages belong to no process, and can be neither dropped nor swapped."
            .to_owned(),
        evidence: gpu
            .iter()
            .fold(proof(host), |proof, gpu| {
                proof.named(&format!("{} {}", gpu.driver, gpu.device), &gpu.system)
            })
            .into_evidence(),
        next: vec![
            "sudo sort -g -r /proc/allocinfo | head -20  # from Linux 6.10 on, if built with allocation profiling"
                .to_owned(),
            "sudo grep -s -H -E 'drm-(total|resident)' /proc/[0-9]*/fdinfo/* | sort -k2 -n -r | head -20  # GPU"
                .to_owned(),
            "grep balloon /proc/vmstat; lsmod | head -40".to_owned(),
        ],
    })
}

/// Returns processes with GPU buffers that are in no counter of the kernel, the largest first.
fn uncounted_gpu_buffers(host: &Snapshot) -> impl Iterator<Item = &GpuMemory> {
    let is_uncounted = |gpu: &&GpuMemory| UNCOUNTED.contains(&gpu.driver.as_str());
    let has_some = |gpu: &&GpuMemory| gpu.system.get() > Some(Bytes::new(0));
    host.gpu_memory.iter().filter(is_uncounted).filter(has_some)
}

fn title(size: Bytes, percent: f64, gpu: Option<&GpuMemory>) -> String {
    let named = gpu.and_then(|gpu| {
        let held = gpu.system.get()?;
        let share = held.percent_of(size)?.get();
        (share >= MOST_PERCENT).then(|| (process(gpu.process.as_str(), gpu.pid), held))
    });
    match named {
        Some((name, held)) => {
            format!("GPU buffers of {name} take {held} of RAM")
        }
        None => format!("nothing explains what {size} are used for: {percent:.0} % of RAM"),
    }
}

fn describe_gpus(gpus: &[&GpuMemory]) -> String {
    if gpus.is_empty() {
        return String::new();
    }
    let named = gpus.iter().map(|gpu| {
        let name = process(gpu.process.as_str(), gpu.pid);
        let held = gpu.system.get().unwrap_or_default();
        format!("{name} has {held} on {} {}", gpu.driver, gpu.device)
    });
    let named: Vec<String> = named.collect();
    format!(
        " A part of it is in GPU buffers: {} (a buffer that several processes share counts for each).",
        named.join(", ")
    )
}

fn proof(host: &Snapshot) -> EvidenceList {
    let memory = &host.memory;
    EvidenceList::new()
        .named("MemTotal", &memory.total)
        .named("MemFree", &memory.free)
        .named("AnonPages", &memory.anon_pages)
        .named("Cached", &memory.cached)
        .named("SwapCached", &memory.swap_cached)
        .named("SUnreclaim", &memory.slab_unreclaimable)
        .named("SReclaimable", &memory.slab_reclaimable)
        .named("PageTables", &memory.page_tables)
        .named("VmallocUsed", &memory.vmalloc_used)
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::{Bytes, Pages, Zone};

    use super::*;
    use crate::testing::{assert_silent, calm, gib, line, mib, only, set_knob, with};

    fn memory(host: &mut Snapshot, anon: Bytes) {
        let memory = &mut host.memory;
        memory.free = line("/proc/meminfo", 2, gib(4));
        memory.anon_pages = line("/proc/meminfo", 17, anon);
        memory.cached = line("/proc/meminfo", 5, gib(3));
        memory.swap_cached = line("/proc/meminfo", 6, Bytes::new(0));
        memory.slab_unreclaimable = line("/proc/meminfo", 23, mib(200));
        memory.page_tables = line("/proc/meminfo", 25, mib(40));
        memory.vmalloc_used = line("/proc/meminfo", 36, mib(40));
    }

    pub(crate) fn host_with_finding() -> Interval {
        with(|host| memory(host, gib(2)))
    }

    #[test]
    fn the_size_is_told_and_where_to_look() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.title.starts_with("nothing explains what 6."), "{}", finding.title);
        assert!(!finding.what.contains("balloon"), "{}", finding.what);
        let what = only(&RULE, &inflated(host_with_finding(), 51_200)).what;
        let end = "The 200.0 MiB in the balloon of the hypervisor are not a part of this.";
        assert!(what.ends_with(end), "{what}");
    }

    pub(crate) fn host_with_gpu_finding() -> Interval {
        let mut interval = host_with_finding();
        let client = |pid, name: &str, driver: &str, size| GpuMemory {
            pid,
            process: name.into(),
            driver: driver.into(),
            device: "0000:0b:00.0".into(),
            system: crate::testing::file(&format!("/proc/{pid}/fdinfo"), size),
        };
        interval.end.gpu_memory = vec![
            client(90, "browser", "i915", gib(7)),
            client(812, "game", "amdgpu", gib(5)),
            client(77, "compositor", "amdgpu", mib(200)),
        ];
        interval
    }

    #[test]
    fn the_process_with_gpu_buffers_is_named() {
        let finding = only(&RULE, &host_with_gpu_finding());
        assert_eq!(finding.title, "GPU buffers of game (pid 812) take 5.0 GiB of RAM");
        let named = " A part of it is in GPU buffers: game (pid 812) has 5.0 GiB on amdgpu 0000:0b:00.0, compositor \
                     (pid 77) has 200.0 MiB on amdgpu 0000:0b:00.0 (a buffer that several processes share counts for \
                     each).";
        assert!(finding.what.ends_with(named), "{}", finding.what);
        let proof = crate::testing::proof_of(&finding);
        assert!(proof.contains("/proc/812/fdinfo = amdgpu 0000:0b:00.0 5.0 GiB"), "{proof}");
        let mut little = host_with_gpu_finding();
        little.end.gpu_memory.remove(1);
        assert!(only(&RULE, &little).title.starts_with("nothing explains what 6."));
        let mut counted = host_with_gpu_finding();
        counted.end.gpu_memory.truncate(1);
        assert!(!only(&RULE, &counted).what.contains("GPU"));
    }

    /// Adds a balloon of `pages` pages.
    fn inflated(mut interval: Interval, pages: u64) -> Interval {
        set_knob(&mut interval.end, "balloon_inflate", pages + 44_000);
        set_knob(&mut interval.end, "balloon_deflate", 44_000);
        interval
    }

    /// Adds a single zone that contains all RAM.
    fn present(mut interval: Interval, size: Bytes) -> Interval {
        let pages = Pages::new(size.get() / interval.end.page_size().get());
        let present_pages = line("/proc/zoneinfo", 20, pages);
        interval.end.zones = vec![Zone { present_pages, ..Zone::default() }];
        interval
    }

    #[test]
    fn a_balloon_that_explains_it_is_the_cause() {
        let mut host = present(inflated(host_with_finding(), 1_310_720), gib(16));
        let finding = only(&RULE, &host);
        assert_eq!(finding.severity, Severity::Warning);
        assert!(
            finding.title.starts_with("the hypervisor's balloon holds 5.0 GiB: "),
            "{}",
            finding.title
        );
        assert!(finding.what.contains("MemTotal still has these pages"), "{}", finding.what);
        host.end.zones.clear();
        let finding = only(&RULE, &host);
        assert!(
            finding.what.ends_with("It is not known whether MemTotal still has these pages."),
            "{}",
            finding.what
        );
    }

    #[test]
    fn a_balloon_that_is_not_in_the_total_explains_nothing_of_it() {
        let host = present(inflated(host_with_finding(), 2_097_152), gib(32));
        let findings = diagnose(&host);
        let [taken, rest] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!((taken.severity, rest.severity), (Severity::Info, Severity::Warning));
        assert!(
            taken.title.starts_with("the hypervisor's balloon holds 8.0 GiB: "),
            "{}",
            taken.title
        );
        assert!(rest.title.starts_with("nothing explains what 6."), "{}", rest.title);
    }

    #[test]
    fn what_is_explained_is_no_trouble() {
        assert_silent(&RULE, &calm());
        assert_silent(&RULE, &with(|host| memory(host, gib(6))));
        let mut zfs = host_with_finding();
        zfs.end.memory.zfs_cache.size = line("/proc/spl/kstat/zfs/arcstats", 7, gib(5));
        assert_silent(&RULE, &zfs);
        let mut unknown = host_with_finding();
        crate::testing::erase(&mut unknown.end.memory.swap_cached);
        assert_silent(&RULE, &unknown);
    }
}
