// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `/proc/meminfo` into [`Memory`].
//!
//! The file prints "kB" and means KiB. `HugePages_*` lines have no unit because they are counts of
//! huge pages; they go to [`Memory::counts`]. Unknown lines are kept in [`Memory::other`], because
//! newer kernels add some. A known line must be a size: if its unit is missing, it is malformed and
//! not taken as a count. Whether a value is good or bad is not decided here.

use pagewise_model::{Bytes, Memory, Name, Outcome, Reading, Source};

use crate::limits::MEMINFO_LINES;
use pagewise_hostfs::text::{Line, NO_LINE, number};
use pagewise_hostfs::{HostRoot, ReadValues, Refusal, absolute_path};

const PATH: &str = "proc/meminfo";

pub(crate) fn read(host: &HostRoot) -> Memory {
    let mut memory = Memory::default();
    match host.text(PATH) {
        Ok(text) => {
            set_refusal(&mut memory, &Refusal::Absent(NO_LINE.into()));
            text.first_lines(host, MEMINFO_LINES).for_each(|line| take(host, &mut memory, &line));
        }
        Err(refusal) => set_refusal(&mut memory, &refusal),
    }
    memory
}

/// The value of a line of meminfo that has no field of its own, by the kernel's name.
pub(crate) fn find_other(memory: &Memory, name: &str) -> Reading<Bytes> {
    let missing = || match &memory.total.outcome {
        // every kernel prints MemTotal first: if it is missing, the file was not read
        Outcome::Value(_) => Reading::absent(NO_LINE, Source::file(absolute_path(PATH))),
        Outcome::Absent(_) | Outcome::Denied(_) => memory.total.clone(),
    };
    memory.other.get(name).cloned().unwrap_or_else(missing)
}

/// Sets every field of the memory values to this refusal, so that a field whose line is missing has
/// a reason.
fn set_refusal(memory: &mut Memory, refusal: &Refusal) {
    for (_, field) in fields(memory) {
        *field = refusal.clone().reading(Source::file(absolute_path(PATH)));
    }
}

fn take(host: &HostRoot, memory: &mut Memory, line: &Line<'_>) {
    let Some((name, rest)) = line.split_name(host) else { return };
    let known = fields(memory).into_iter().find(|(known, _)| known.as_bytes() == name);
    if let Some((_, field)) = known {
        *field = line.size(host, rest);
    } else if rest.ends_with(b"kB") {
        memory.other.insert(Name::from_bytes(name), line.size(host, rest));
    } else {
        memory.counts.insert(Name::from_bytes(name), count(host, line, rest));
    }
}

fn count(host: &HostRoot, line: &Line<'_>, rest: &[u8]) -> Reading<u64> {
    line.reading(host, "a size in kB or a count", number(rest))
}

fn fields(memory: &mut Memory) -> [(&'static str, &mut Reading<Bytes>); 32] {
    [
        ("MemTotal", &mut memory.total),
        ("MemFree", &mut memory.free),
        ("MemAvailable", &mut memory.available),
        ("Buffers", &mut memory.buffers),
        ("Cached", &mut memory.cached),
        ("SwapCached", &mut memory.swap_cached),
        ("Active(anon)", &mut memory.active_anon),
        ("Inactive(anon)", &mut memory.inactive_anon),
        ("Active(file)", &mut memory.active_file),
        ("Inactive(file)", &mut memory.inactive_file),
        ("Unevictable", &mut memory.unevictable),
        ("Mlocked", &mut memory.mlocked),
        ("SwapTotal", &mut memory.swap_total),
        ("SwapFree", &mut memory.swap_free),
        ("Dirty", &mut memory.dirty),
        ("Writeback", &mut memory.writeback),
        ("AnonPages", &mut memory.anon_pages),
        ("Mapped", &mut memory.mapped),
        ("Shmem", &mut memory.shmem),
        ("SReclaimable", &mut memory.slab_reclaimable),
        ("SUnreclaim", &mut memory.slab_unreclaimable),
        ("KernelStack", &mut memory.kernel_stack),
        ("PageTables", &mut memory.page_tables),
        ("SecPageTables", &mut memory.secondary_page_tables),
        ("Percpu", &mut memory.percpu),
        ("VmallocUsed", &mut memory.vmalloc_used),
        ("CommitLimit", &mut memory.commit_limit),
        ("Committed_AS", &mut memory.committed),
        ("AnonHugePages", &mut memory.anon_huge_pages),
        ("ShmemHugePages", &mut memory.shmem_huge_pages),
        ("FileHugePages", &mut memory.file_huge_pages),
        ("Hugetlb", &mut memory.hugetlb),
    ]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{denied_entry, host, mangle};
    use pagewise_hostfs::ReadHost;

    /// The file as Linux 6.18 prints it on a machine with 24 GiB.
    const MEMINFO: &str = "\
MemTotal:       24684092 kB
MemFree:        23721328 kB
MemAvailable:   24233328 kB
Buffers:            7960 kB
Cached:           665032 kB
SwapCached:            0 kB
Active:           277604 kB
Inactive:         398460 kB
Active(anon):       1568 kB
Inactive(anon):    10484 kB
Active(file):     276036 kB
Inactive(file):   387976 kB
Unevictable:       20188 kB
Mlocked:           19292 kB
SwapTotal:             0 kB
SwapFree:              0 kB
Zswap:                 0 kB
Zswapped:              0 kB
Dirty:              3340 kB
Writeback:             0 kB
AnonPages:         23456 kB
Mapped:            10812 kB
Shmem:              8856 kB
KReclaimable:     149480 kB
Slab:             177416 kB
SReclaimable:     149480 kB
SUnreclaim:        27936 kB
KernelStack:        1552 kB
PageTables:         2880 kB
SecPageTables:         0 kB
NFS_Unstable:          0 kB
Bounce:                0 kB
WritebackTmp:          0 kB
CommitLimit:    12342044 kB
Committed_AS:      71936 kB
VmallocTotal:   34359738367 kB
VmallocUsed:       14476 kB
VmallocChunk:          0 kB
Percpu:              664 kB
AnonHugePages:         0 kB
ShmemHugePages:        0 kB
ShmemPmdMapped:        0 kB
FileHugePages:         0 kB
FilePmdMapped:         0 kB
Balloon:               0 kB
HugePages_Total:       0
HugePages_Free:        0
HugePages_Rsvd:        0
HugePages_Surp:        0
Hugepagesize:       2048 kB
Hugetlb:               0 kB
DirectMap4k:       30720 kB
DirectMap2M:     2066432 kB
DirectMap1G:    25165824 kB
";

    fn kib(kib: u64) -> Bytes {
        Bytes::from_kib(kib).unwrap()
    }

    fn source_at(line: u32) -> Source {
        Source::line("/proc/meminfo", line)
    }

    #[test]
    fn sizes_leave_in_bytes_with_their_line() {
        let host = host([(PATH, MEMINFO)]);
        let memory = read(&host);
        assert_eq!(memory.total, Reading::found(kib(24_684_092), source_at(1)));
        assert_eq!(memory.inactive_anon, Reading::found(kib(10_484), source_at(10)));
        assert_eq!(memory.committed, Reading::found(kib(71_936), source_at(35)));
        assert_eq!(memory.hugetlb, Reading::found(kib(0), source_at(51)));
        assert!(host.take_problems().is_empty());
    }

    #[test]
    fn every_line_lands_in_one_place() {
        let mut memory = read(&host([(PATH, MEMINFO)]));
        let values = fields(&mut memory).iter().filter(|(_, field)| field.get().is_some()).count();
        assert_eq!(values, 32);
        assert_eq!(memory.counts.len(), 4);
        assert_eq!(values + memory.counts.len() + memory.other.len(), MEMINFO.lines().count());
        assert_eq!(
            find_other(&memory, "DirectMap1G"),
            Reading::found(kib(25_165_824), source_at(54))
        );
    }

    #[test]
    fn a_line_that_the_kernel_does_not_print_is_absent_and_not_zero() {
        let memory = read(&host([(PATH, "MemTotal: 1024 kB\n")]));
        let absent = Reading::absent(NO_LINE, Source::file("/proc/meminfo"));
        assert_eq!(memory.percpu, absent);
        assert_eq!(find_other(&memory, "Zswapped"), absent);
    }

    #[test]
    fn a_file_that_is_not_ours_is_denied_in_every_field() {
        let memory = read(&HostRoot::memory([denied_entry(PATH)]));
        assert!(memory.total.is_denied() && memory.hugetlb.is_denied());
        assert!(find_other(&memory, "Zswap").is_denied());
    }

    #[test]
    fn a_known_line_that_is_no_size_is_garbled_and_the_rest_goes_on() {
        let text = "MemTotal: lots\nMemFree: 12\nCached: 99999999999999999999999999999999 kB\nmumble\nDirty: 4 kB\n";
        let host = host([(PATH, text)]);
        let memory = read(&host);
        assert!([&memory.total, &memory.free, &memory.cached].iter().all(|r| r.get().is_none()));
        assert_eq!(memory.free.source, source_at(2));
        assert!(memory.counts.is_empty());
        assert_eq!(memory.dirty, Reading::found(kib(4), source_at(5)));
        let shown: Vec<String> = host.take_problems().iter().map(ToString::to_string).collect();
        assert_eq!(shown[0], "/proc/meminfo:1: expected a size in kB, found \"MemTotal: lots\"");
        assert_eq!(shown[3], "/proc/meminfo:4: expected a name and a colon, found \"mumble\"");
        assert_eq!(shown.len(), 4);
    }

    proptest! {
        /// A parsed size is exactly the number of its line; otherwise there is no value.
        #[test]
        fn a_size_is_what_its_line_says(number in any::<u128>()) {
            let memory = read(&host([(PATH, format!("MemTotal: {number} kB\n"))]));
            let expected = u64::try_from(number).ok().and_then(|n| n.checked_mul(1024));
            prop_assert_eq!(memory.total.get().map(Bytes::get), expected);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in mangle(MEMINFO)) {
            read(&host([(PATH, &bytes)]));
        }
    }
}
