// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `/proc/meminfo` into [`Memory`].
//!
//! The file prints "kB" and means KiB. `HugePages_*` lines have no unit because they are counts of
//! huge pages; they go to [`Memory::counts`]. Lines we do not know are kept in [`Memory::other`]:
//! newer kernels add some. Whether a value is good or bad is not decided here.

use pagewise_model::{Bytes, Memory, Name, Reading};

use crate::root::{HostRoot, Refusal, absolute};
use crate::text::{Line, number};

const PATH: &str = "proc/meminfo";

pub(crate) fn read(host: &HostRoot) -> Memory {
    let mut memory = Memory::default();
    match host.text(PATH) {
        Ok(text) => {
            mark(&mut memory, &Refusal::Absent("this kernel prints no such line".into()));
            text.lines().for_each(|line| take(host, &mut memory, &line));
        }
        Err(refusal) => mark(&mut memory, &refusal),
    }
    memory
}

/// Every field starts as refused, so that a line that never comes says why.
fn mark(memory: &mut Memory, refusal: &Refusal) {
    for (_, field) in fields(memory) {
        *field = refusal.clone().reading(pagewise_model::Source::file(absolute(PATH)));
    }
}

fn take(host: &HostRoot, memory: &mut Memory, line: &Line<'_>) {
    let Some((name, rest)) = line.split_once(b':') else {
        let _: Reading<()> = host.garbled(line.source(), "a name and a colon", line.bytes);
        return;
    };
    if let Some(digits) = rest.strip_suffix(b"kB") {
        let size = size(host, line, digits.trim_ascii());
        if let Some((_, field)) =
            fields(memory).into_iter().find(|(known, _)| known.as_bytes() == name)
        {
            *field = size;
        } else {
            memory.other.insert(Name::from_bytes(name), size);
        }
    } else {
        let count = match number(rest) {
            Some(count) => Reading::found(count, line.source()),
            None => host.garbled(line.source(), "a size in kB or a count", line.bytes),
        };
        memory.counts.insert(Name::from_bytes(name), count);
    }
}

fn size(host: &HostRoot, line: &Line<'_>, digits: &[u8]) -> Reading<Bytes> {
    match number(digits).and_then(Bytes::from_kib) {
        Some(bytes) => Reading::found(bytes, line.source()),
        None => host.garbled(line.source(), "a size in kB", line.bytes),
    }
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
