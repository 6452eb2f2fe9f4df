// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the pools of preallocated huge pages into [`HugePool`]s: per size the sum over all nodes,
//! then each node.
//!
//! Reservations belong to a mapping and not to a node, so the kernel counts them for the sum alone.

use crate::huge_page_sizes::by_huge_page_size;
use pagewise_model::{Bytes, HugePool, Reading, Source};

use crate::limits;
use pagewise_files::{HostRoot, ReadValues, absolute};

const NODES: &str = "sys/devices/system/node";

pub(crate) fn read(host: &HostRoot) -> Vec<HugePool> {
    let mut pools = pools_of(host, "sys/kernel/mm/hugepages", None);
    for node in limits::first(host, NODES, limits::NODES, host.numbered(NODES, "node")) {
        pools.extend(pools_of(host, &format!("{NODES}/node{node}/hugepages"), Some(node)));
    }
    pools.sort_by_key(|pool| (pool.page_bytes, pool.node));
    pools
}

fn pools_of(host: &HostRoot, folder: &str, node: Option<u32>) -> Vec<HugePool> {
    let sizes = by_huge_page_size(host, folder).into_iter();
    sizes.map(|(size, name)| pool(host, &format!("{folder}/{name}"), size, node)).collect()
}

fn pool(host: &HostRoot, folder: &str, page_bytes: Bytes, node: Option<u32>) -> HugePool {
    HugePool {
        page_bytes,
        node,
        total: host.number_at(&format!("{folder}/nr_hugepages")),
        free: host.number_at(&format!("{folder}/free_hugepages")),
        reserved: reserved(host, &format!("{folder}/resv_hugepages"), node),
        surplus: host.number_at(&format!("{folder}/surplus_hugepages")),
    }
}

fn reserved(host: &HostRoot, path: &str, node: Option<u32>) -> Reading<u64> {
    match node {
        None => host.number_at(path),
        Some(_) => {
            let why = "the kernel counts reservations for all nodes together";
            Reading::absent(why, Source::file(absolute(path)))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{host, mangled};

    const ALL: &str = "sys/kernel/mm/hugepages/hugepages-";
    const NODE: &str = "sys/devices/system/node/node";

    #[test]
    fn pools_stand_by_size_and_then_by_node() {
        let paths = [
            format!("{NODE}10/hugepages/hugepages-2048kB/nr_hugepages"),
            format!("{NODE}9/hugepages/hugepages-2048kB/nr_hugepages"),
            format!("{NODE}9/hugepages/hugepages-1048576kB/nr_hugepages"),
            format!("{ALL}1048576kB/nr_hugepages"),
            format!("{ALL}2048kB/nr_hugepages"),
        ];
        let pools = read(&host(paths.iter().map(|path| (path.as_str(), "1\n"))));
        let order: Vec<_> =
            pools.iter().map(|pool| (pool.page_bytes.get() >> 20, pool.node)).collect();
        let expected = [(2, None), (2, Some(9)), (2, Some(10)), (1024, None), (1024, Some(9))];
        assert_eq!(order, expected);
    }

    #[test]
    fn reservations_are_counted_for_all_nodes_together() {
        let pools = read(&host([
            ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "8\n"),
            ("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "5\n"),
            ("sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "2\n"),
            ("sys/kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages", "1\n"),
            ("sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "8\n"),
        ]));
        let all = &pools[0];
        let counts = [&all.total, &all.free, &all.reserved, &all.surplus].map(Reading::get);
        assert_eq!(counts, [Some(8), Some(5), Some(2), Some(1)]);
        assert_eq!((pools[1].total.get(), pools[1].reserved.get()), (Some(8), None));
    }

    #[test]
    fn a_kernel_without_pools_has_none() {
        assert!(read(&host([("proc/meminfo", "")])).is_empty());
    }

    proptest! {
        #[test]
        fn no_bytes_and_no_names_make_it_panic(count in mangled("8\n"), size in "[0-9a-z]{0,24}", node in "[0-9]{0,12}") {
            let all = format!("{ALL}{size}kB/nr_hugepages");
            let one = format!("{NODE}{node}/hugepages/hugepages-{size}kB/free_hugepages");
            read(&host([(all.as_str(), &count), (one.as_str(), &count)]));
        }
    }
}
