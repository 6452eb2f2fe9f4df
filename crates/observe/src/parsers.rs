// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every reader of files with the files that it reads, for fuzzing: bytes → a host → a reader.
//!
//! One input is all files of a reader, split at bytes `0xFF`, in the order of [`Parser::paths`].
//! Split rather than repeated, because readers put files together and a fuzzer finds by itself
//! which file an odd byte belongs in; `0xFF`, because no file of the kernel holds it and other
//! bytes that are no UTF-8 remain. A part that is just `0xFE` is a file that is refused, `0xFD` one
//! that is not there, like every file after the last part.
//!

use std::fmt;
use std::hint::black_box;

use std::time::Duration;

use crate::record::Recording;
use crate::root::{Entry, HostRoot, Refusal};
use crate::snapshot::Scope;
use crate::{
    capability, cgroup, counters, damon, host, hugetlb, knob, ksm, memory, mglru, mounts, process,
    psi, swap, thp, zone, zram,
};

const BETWEEN: u8 = 0xFF;
const REFUSED: &[u8] = &[0xFE];
const MISSING: &[u8] = &[0xFD];

/// A reader and what it reads.
pub struct Parser {
    /// The noun.
    pub name: &'static str,
    /// The files, below `/`.
    pub paths: &'static [&'static str],
    read: Read,
}

enum Read {
    Files(fn(&HostRoot)),
    /// One input as it is, and an input to begin with.
    Bytes(fn(&[u8]), fn() -> Vec<u8>),
}

impl fmt::Debug for Parser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parser").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Parser {
    /// Reads the files that `input` stands for. Whatever they hold, this returns.
    pub fn run(&self, input: &[u8]) {
        match self.read {
            Read::Bytes(read, _) => read(input),
            Read::Files(read) => {
                let host = HostRoot::memory(self.files(input));
                read(&host);
                black_box(host.take_problems());
            }
        }
    }

    /// The input that stands for the files of `host`; `None` where it has none of them.
    pub fn seed(&self, host: &HostRoot) -> Option<Vec<u8>> {
        if let Read::Bytes(_, sample) = self.read {
            return Some(sample());
        }
        let answers: Vec<_> = self.paths.iter().map(|path| host.bytes(path)).collect();
        let parts = answers.iter().map(|answer| match answer {
            Ok(bytes) => bytes.iter().map(|&byte| if byte >= 0xFD { b'?' } else { byte }).collect(),
            Err(Refusal::Denied(_)) => REFUSED.to_vec(),
            Err(Refusal::Absent(_)) => MISSING.to_vec(),
        });
        answers.iter().any(Result::is_ok).then(|| parts.collect::<Vec<_>>().join(&BETWEEN))
    }

    fn files<'a>(&'a self, input: &'a [u8]) -> impl Iterator<Item = (String, Entry)> + 'a {
        let parts = input.split(|&byte| byte == BETWEEN);
        let named = self.paths.iter().zip(parts).filter(|(_, part)| *part != MISSING);
        named.map(|(path, part)| ((*path).to_owned(), entry(part)))
    }
}

fn entry(part: &[u8]) -> Entry {
    match part {
        REFUSED => Entry::Refused(Refusal::Denied("run as root".into())),
        bytes => Entry::File(bytes.to_vec()),
    }
}

const fn files(name: &'static str, paths: &'static [&'static str], read: fn(&HostRoot)) -> Parser {
    Parser { name, paths, read: Read::Files(read) }
}

/// All of them.
pub static PARSERS: &[Parser] = &[
    files("memory", &["proc/meminfo"], |host| drop(black_box(memory::read(host)))),
    files("counters", &["proc/vmstat"], |host| {
        drop(black_box(counters::read(host, "proc/vmstat")));
    }),
    files("pressure", &["proc/pressure/cpu", "proc/pressure/memory", "proc/pressure/io"], |host| {
        drop(black_box(psi::read(host)));
    }),
    files("zones", &["proc/zoneinfo"], |host| drop(black_box(zone::read_zones(host)))),
    files("free-blocks", &["proc/buddyinfo"], |host| {
        drop(black_box(zone::read_free_blocks(host)));
    }),
    files("mounts", &[MOUNTS], |host| drop(black_box(mounts::read(host)))),
    files("swap", SWAP, |host| drop(black_box(swap::read(host, &mounts::read(host))))),
    files("zram", ZRAM, |host| {
        let mounts = mounts::read(host);
        drop(black_box(zram::read(host, &swap::read(host, &mounts), &mounts)));
    }),
    files("huge-pages", HUGE_PAGES, |host| {
        drop(black_box(thp::read(host)));
        drop(black_box(hugetlb::read(host)));
        drop(black_box(mglru::read(host)));
    }),
    files("ksm-damon", KSM_DAMON, |host| {
        drop(black_box(ksm::read(host)));
        drop(black_box(damon::read(host)));
    }),
    files("host", HOST, |host| drop(black_box(host::read(host)))),
    files("capability", CAPABILITY, |host| {
        drop(black_box(capability::read(host, &host::read(host))));
    }),
    files("process", PROCESS, |host| {
        drop(black_box(process::read(host, Duration::from_secs(1))));
    }),
    files("cgroup-v1", CGROUP_V1, |host| {
        drop(black_box(cgroup::read(host, &mounts::read(host))));
    }),
    files("cgroup-v2", CGROUP_V2, |host| {
        drop(black_box(cgroup::read(host, &mounts::read(host))));
    }),
    files("knobs", KNOBS, |host| {
        let cgroups = cgroup::read(host, &mounts::read(host));
        drop(black_box(knob::read(host, &cgroups)));
    }),
    Parser { name: "manifest", paths: &[], read: Read::Bytes(manifest, || MANIFEST.to_vec()) },
    Parser {
        name: "archive",
        paths: &[],
        read: Read::Bytes(archive, || tarred("host.toml", MANIFEST)),
    },
    files("redaction", REDACTION, redaction),
];

const MOUNTS: &str = "proc/self/mountinfo";

const SWAP: &[&str] = &[
    "proc/swaps",
    MOUNTS,
    "sys/module/zswap/parameters/enabled",
    "sys/dev/block/254:0/queue/rotational",
    "sys/dev/block/254:0/uevent",
];

const ZRAM: &[&str] = &[
    "sys/block/zram0/mm_stat",
    "sys/block/zram0/comp_algorithm",
    "sys/block/zram0/recomp_algorithm",
    "sys/block/zram0/io_stat",
    "sys/block/zram0/bd_stat",
    "sys/block/zram0/debug_stat",
    "sys/block/zram0/initstate",
    "sys/block/zram0/disksize",
    "sys/block/zram0/backing_dev",
    "sys/block/zram0/dev",
    "run/udev/data/b252:0",
    "proc/swaps",
    MOUNTS,
];

const HUGE_PAGES: &[&str] = &[
    "sys/kernel/mm/transparent_hugepage/enabled",
    "sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
    "sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled",
    "sys/kernel/mm/transparent_hugepage/hugepages-64kB/stats/swpout",
    "sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none",
    "proc/2/comm",
    "proc/2/task/2/children",
    "proc/37/comm",
    "proc/37/stat",
    "proc/37/schedstat",
    "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
    "sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages",
    "sys/kernel/mm/lru_gen/enabled",
    "sys/kernel/mm/lru_gen/min_ttl_ms",
];

const KSM_DAMON: &[&str] = &[
    "sys/kernel/mm/ksm/run",
    "sys/kernel/mm/ksm/general_profit",
    "sys/kernel/mm/ksm/pages_sharing",
    "sys/kernel/mm/ksm/advisor_mode",
    "sys/module/damon_stat/parameters/enabled",
    "sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds",
    "sys/kernel/mm/damon/admin/kdamonds/0/state",
];

const HOST: &[&str] = &[
    "sys/devices/system/cpu/online",
    "proc/sys/kernel/hostname",
    "proc/sys/kernel/arch",
    "proc/cpuinfo",
    "sys/class/dmi/id/sys_vendor",
    "sys/class/dmi/id/product_name",
    "sys/hypervisor/type",
    "proc/1/environ",
    "proc/1/cgroup",
    "run/systemd/container",
    MOUNTS,
];

const CAPABILITY: &[&str] = &[
    "proc/sys/kernel/osrelease",
    "boot/config-6.12.1",
    "lib/modules/6.12.1/modules.dep",
    "lib/modules/6.12.1/modules.builtin",
    "proc/config.gz",
];

const PROCESS: &[&str] = &["proc/7/status", "proc/7/cgroup", "proc/7/smaps_rollup"];

const CGROUP_V1: &[&str] = &[
    "sys/fs/cgroup/memory/memory.limit_in_bytes",
    "sys/fs/cgroup/memory/a/cgroup.procs",
    "sys/fs/cgroup/memory/a/memory.stat",
    "sys/fs/cgroup/memory/a/memory.limit_in_bytes",
    "sys/fs/cgroup/memory/a/memory.usage_in_bytes",
    "sys/fs/cgroup/memory/a/memory.memsw.limit_in_bytes",
    "sys/fs/cgroup/memory/a/memory.oom_control",
];

const CGROUP_V2: &[&str] = &[
    "sys/fs/cgroup/cgroup.controllers",
    "sys/fs/cgroup/memory.stat",
    "sys/fs/cgroup/a/memory.stat",
    "sys/fs/cgroup/a/memory.events",
    "sys/fs/cgroup/a/memory.pressure",
    "sys/fs/cgroup/a/memory.max",
    "sys/fs/cgroup/a/memory.swap.max",
    "sys/fs/cgroup/a/memory.current",
];

const KNOBS: &[&str] = &[
    "proc/sys/vm/swappiness",
    "proc/sys/vm/lowmem_reserve_ratio",
    "sys/kernel/mm/transparent_hugepage/enabled",
    "sys/fs/cgroup/cgroup.controllers",
    "sys/fs/cgroup/a/memory.stat",
    "sys/fs/cgroup/a/memory.high",
];

const REDACTION: &[&str] = &[
    "proc/7/status",
    "proc/7/cgroup",
    "proc/7/smaps_rollup",
    "proc/swaps",
    MOUNTS,
    "proc/cmdline",
    "proc/sys/kernel/osrelease",
    "sys/fs/cgroup/cgroup.controllers",
    "sys/fs/cgroup/a/memory.stat",
];

const MANIFEST: &[u8] = br#"format = "pagewise-recording/1"
name = "host-1"
kernel = "6.12.1"
page_size = 4096

[ends.end]
unix_seconds = 1.5
monotonic_seconds = 2.5

[ends.end.refused]
"proc/1/smaps_rollup" = "denied: run as root"
"#;

fn manifest(bytes: &[u8]) {
    archive(&tarred("host.toml", bytes));
}

/// An archive opened, and what was wrong with it. Its files have parsers of their own above.
fn archive(bytes: &[u8]) {
    if let Ok(recording) = Recording::from_archive(bytes, "fuzz") {
        drop(black_box(recording.into_problems()));
    }
}

/// What a capture of such a host would be.
fn redaction(host: &HostRoot) {
    let files = REDACTION.iter().filter_map(|path| {
        let bytes = host.bytes(path).ok()?;
        Some(((*path).to_owned(), Entry::File(bytes)))
    });
    let recording = Recording { start: None, end: HostRoot::memory(files) };
    let scope = Scope { settings: false, ..Scope::everything(Duration::ZERO) };
    if let Ok((_, tape)) = recording.record::<()>(&scope, || Ok(())) {
        drop(black_box(tape.redacted()));
    }
}

/// A tar archive of one file.
fn tarred(path: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o600);
    let mut archive = tar::Builder::new(Vec::new());
    let written = archive.append_data(&mut header, path, bytes);
    written.and_then(|()| archive.into_inner()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reader_takes_its_own_seed_and_what_is_left_when_it_is_cut() {
        let host = HostRoot::live().unwrap();
        for parser in PARSERS {
            let seed = parser.seed(&host).unwrap_or_default();
            for end in [0, 1, seed.len() / 2, seed.len()] {
                parser.run(&seed[..end.min(seed.len())]);
            }
        }
    }

    #[test]
    fn the_sample_manifest_is_one() {
        let host = Recording::from_archive(&*tarred("host.toml", MANIFEST), "sample").unwrap();
        assert!(host.into_problems().is_empty());
    }
}
