// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of probed features: the file that shows each one, and the option or module that
//! provides it.
//!
//! Some features are not listed, because no file shows them and a probe needs a system call:
//! `process_madvise`, `PAGEMAP_SCAN`, `MADV_COLLAPSE`, merging all memory of a process
//! (`PR_SET_MEMORY_MERGE`).

/// One feature of the kernel.
pub(crate) struct Feature {
    /// Stable name of the feature; never changed once released.
    pub(crate) name: &'static str,
    /// The feature's purpose in half a sentence.
    pub(crate) doc: &'static str,
    /// How to detect the feature.
    pub(crate) probe: Probe<'static>,
    /// Kernel configuration options, any of which provides the feature; messages name the first.
    pub(crate) options: &'static [&'static str],
    /// The name of the feature that this one is a part of; that one precedes it in the table.
    pub(crate) part_of: Option<&'static str>,
    /// The kernel module that provides the feature.
    pub(crate) module: Option<&'static str>,
    /// What turns the feature on if it is built in but not visible.
    pub(crate) switch: Option<&'static str>,
}

/// How a feature is detected.
pub(crate) enum Probe<'a> {
    /// The feature is present if any of these paths exists.
    Paths(&'a [&'a str]),
    /// The feature is present if the first zram device has this file.
    ZramFile(&'static str),
    /// The feature is present if `zram-control` or a zram device exists.
    ZramDevice,
    /// The feature is present if this file can be read; a file that exists may still refuse to be
    /// read.
    Read(&'static str),
    /// The feature is present if this file (the first text) contains the word (the second).
    Word(&'static str, &'static str),
    /// The feature is present if the kernel configuration says so; if that is not available, this
    /// file in debugfs may show it.
    Configuration(&'static str),
}

const fn plain(
    name: &'static str,
    paths: &'static [&'static str],
    options: &'static [&'static str],
    doc: &'static str,
) -> Feature {
    let probe = Probe::Paths(paths);
    Feature { name, doc, probe, options, part_of: None, module: None, switch: None }
}

const fn of_zram(
    name: &'static str,
    probe: Probe<'static>,
    options: &'static [&'static str],
    doc: &'static str,
) -> Feature {
    Feature { name, doc, probe, options, part_of: Some("zram"), module: None, switch: None }
}

/// Every kernel feature whose presence is probed.
pub(crate) static FEATURES: &[Feature] = &[
    plain("swap", &["proc/swaps"], &["CONFIG_SWAP"], "moves cold anonymous memory elsewhere"),
    plain(
        "swap.vma_readahead",
        &["sys/kernel/mm/swap/vma_ra_enabled"],
        &["CONFIG_SWAP"],
        "reads ahead from swap by address rather than by slot",
    ),
    Feature {
        name: "zram",
        doc: "swaps to compressed RAM",
        probe: Probe::ZramDevice,
        options: &["CONFIG_ZRAM"],
        part_of: None,
        module: Some("zram"),
        switch: None,
    },
    of_zram(
        "zram.writeback",
        Probe::ZramFile("backing_dev"),
        &["CONFIG_ZRAM_WRITEBACK"],
        "moves cold or incompressible pages of zram to a disk",
    ),
    of_zram(
        "zram.compressed_writeback",
        Probe::ZramFile("compressed_writeback"),
        &["CONFIG_ZRAM_WRITEBACK"],
        "writes pages back as they are compressed",
    ),
    of_zram(
        "zram.multi_comp",
        Probe::ZramFile("recomp_algorithm"),
        &["CONFIG_ZRAM_MULTI_COMP"],
        "recompresses cold pages with a stronger algorithm",
    ),
    of_zram(
        "zram.algorithm_params",
        Probe::ZramFile("algorithm_params"),
        &["CONFIG_ZRAM"],
        "sets the level of a compression algorithm",
    ),
    of_zram(
        "zram.track_entry_actime",
        Probe::Configuration("block_state"),
        &["CONFIG_ZRAM_TRACK_ENTRY_ACTIME", "CONFIG_ZRAM_MEMORY_TRACKING"],
        "marks pages of zram idle by age",
    ),
    plain(
        "zswap",
        &["sys/module/zswap/parameters/enabled"],
        &["CONFIG_ZSWAP"],
        "keeps swapped pages compressed in RAM before a disk sees them",
    ),
    plain(
        "zswap.shrinker",
        &["sys/module/zswap/parameters/shrinker_enabled"],
        &["CONFIG_ZSWAP"],
        "writes cold pages of zswap to disk under pressure",
    ),
    Feature {
        name: "zswap.zstd",
        doc: "lets zswap compress with zstd, which needs less memory than lz4 and more CPU time",
        probe: Probe::Word("proc/crypto", "zstd"),
        options: &["CONFIG_CRYPTO_ZSTD"],
        part_of: Some("zswap"),
        module: Some("zstd"),
        switch: None,
    },
    plain("ksm", &["sys/kernel/mm/ksm/run"], &["CONFIG_KSM"], "merges equal pages"),
    plain(
        "ksm.advisor",
        &["sys/kernel/mm/ksm/advisor_mode"],
        &["CONFIG_KSM"],
        "paces the merging of pages by itself",
    ),
    plain(
        "thp",
        &["sys/kernel/mm/transparent_hugepage/enabled"],
        &["CONFIG_TRANSPARENT_HUGEPAGE"],
        "backs memory with huge pages without the program's help",
    ),
    plain(
        "thp.sizes",
        // the smallest mTHP sizes with base pages of 4 or 16 KiB, and of 64 KiB
        &[
            "sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled",
            "sys/kernel/mm/transparent_hugepage/hugepages-256kB/enabled",
        ],
        &["CONFIG_TRANSPARENT_HUGEPAGE"],
        "huge pages smaller than 2 MiB, chosen per size",
    ),
    plain(
        "thp.shrink_underused",
        &["sys/kernel/mm/transparent_hugepage/shrink_underused"],
        &["CONFIG_TRANSPARENT_HUGEPAGE"],
        "splits huge pages that hold mostly zeros under pressure",
    ),
    plain(
        "hugetlb",
        &["sys/kernel/mm/hugepages"],
        &["CONFIG_HUGETLB_PAGE"],
        "huge pages reserved in pools",
    ),
    plain(
        "mglru",
        &["sys/kernel/mm/lru_gen/enabled"],
        &["CONFIG_LRU_GEN"],
        "ages pages in generations and finds cold ones cheaper",
    ),
    Feature {
        name: "psi",
        doc: "tells how long work waits for memory",
        probe: Probe::Read("proc/pressure/memory"),
        options: &["CONFIG_PSI"],
        part_of: None,
        module: None,
        switch: Some("psi=1 on the kernel command line"),
    },
    Feature {
        name: "cgroup.v2.memory",
        doc: "limits, protects and watches the memory of groups of processes",
        probe: Probe::Word("sys/fs/cgroup/cgroup.controllers", "memory"),
        options: &["CONFIG_MEMCG"],
        part_of: None,
        module: None,
        switch: Some("the memory controller in a unified cgroup v2 hierarchy"),
    },
    Feature {
        name: "memory.reclaim",
        doc: "reclaims cold memory of a group on request",
        probe: Probe::Paths(&[
            "sys/fs/cgroup/memory.reclaim",
            "sys/fs/cgroup/unified/memory.reclaim",
        ]),
        options: &["CONFIG_MEMCG"],
        part_of: Some("cgroup.v2.memory"),
        module: None,
        switch: None,
    },
    plain(
        "page_idle",
        &["sys/kernel/mm/page_idle/bitmap"],
        &["CONFIG_IDLE_PAGE_TRACKING"],
        "tells which pages were not touched since they were marked",
    ),
    plain(
        "damon.sysfs",
        &["sys/kernel/mm/damon/admin"],
        &["CONFIG_DAMON_SYSFS"],
        "watches which memory is used, at a bounded cost",
    ),
    plain(
        "damon_reclaim",
        &["sys/module/damon_reclaim/parameters/enabled"],
        &["CONFIG_DAMON_RECLAIM"],
        "reclaims memory that was not used for long",
    ),
    plain(
        "damon_lru_sort",
        &["sys/module/damon_lru_sort/parameters/enabled"],
        &["CONFIG_DAMON_LRU_SORT"],
        "sorts hot and cold pages for reclaim",
    ),
    plain(
        "damon_stat",
        &["sys/module/damon_stat/parameters/enabled"],
        &["CONFIG_DAMON_STAT"],
        "tells how much memory is idle for how long",
    ),
    plain(
        "userfaultfd",
        &["proc/sys/vm/unprivileged_userfaultfd", "dev/userfaultfd"],
        &["CONFIG_USERFAULTFD"],
        "lets a program serve page faults and watch writes",
    ),
    plain(
        "compaction",
        &["proc/sys/vm/compact_memory"],
        &["CONFIG_COMPACTION"],
        "moves pages together so that huge ones fit",
    ),
    plain(
        "compaction.proactive",
        &["proc/sys/vm/compaction_proactiveness"],
        &["CONFIG_COMPACTION"],
        "compacts in the background before huge pages are asked for",
    ),
    plain(
        "numa.balancing",
        &["proc/sys/kernel/numa_balancing"],
        &["CONFIG_NUMA_BALANCING"],
        "moves memory to the node that uses it",
    ),
    plain(
        "numa.demotion",
        &["sys/kernel/mm/numa/demotion_enabled"],
        &["CONFIG_MIGRATION"],
        "moves cold pages to slower memory rather than to swap",
    ),
    plain(
        "mempolicy.weighted_interleave",
        &["sys/kernel/mm/mempolicy/weighted_interleave"],
        &["CONFIG_NUMA"],
        "spreads memory over nodes by their bandwidth",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{kconfig, module};

    #[test]
    fn names_are_unique_and_documented() {
        let names: BTreeSet<_> = FEATURES.iter().map(|feature| feature.name).collect();
        assert_eq!(names.len(), FEATURES.len());
        assert!(
            FEATURES.iter().all(|feature| feature.doc.len() > 10 && !feature.doc.ends_with('.'))
        );
    }

    #[test]
    fn every_option_and_module_named_here_is_kept_in_recordings() {
        for feature in FEATURES {
            for option in feature.options {
                assert!(kconfig::ASKED.contains(option), "{option}");
            }
            assert!(feature.module.is_none_or(|module| module::ASKED.contains(&module)));
        }
        let asked = |option: &&str| FEATURES.iter().any(|feature| feature.options.contains(option));
        assert!(
            kconfig::ASKED.iter().all(|option| asked(option) || *option == kconfig::CHAIN_SIZE)
        );
    }

    #[test]
    fn parts_come_after_the_whole() {
        for (at, feature) in FEATURES.iter().enumerate() {
            let before = |whole| FEATURES[..at].iter().any(|other| other.name == whole);
            assert!(feature.part_of.is_none_or(before), "{}", feature.name);
        }
    }

    #[test]
    fn paths_are_below_the_root() {
        for feature in FEATURES {
            if let Probe::Paths(paths) = feature.probe {
                assert!(paths.iter().all(|path| !path.starts_with('/') && !path.contains("..")));
            }
        }
    }
}
