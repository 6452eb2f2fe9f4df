// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the pools of preallocated huge pages (hugetlb) into [`HugePool`]s: for each size the sum
//! over all nodes, then each node.
//!
//! Reservations belong to a mapping and not to a node, so the kernel reports them only for the sum.

use crate::huge_page_sizes::list_huge_page_sizes;
use pagewise_model::{Bytes, HugePool, Reading, Source};

use crate::limits;
use pagewise_hostfs::{HostRoot, ReadValues, absolute_path};

const NODES: &str = "sys/devices/system/node";

pub(crate) fn read(host: &HostRoot) -> Vec<HugePool> {
    let mut pools = pools_of(host, "sys/kernel/mm/hugepages", None);
    for node in limits::first(host, NODES, limits::NODES, host.list_numbers(NODES, "node")) {
        pools.extend(pools_of(host, &format!("{NODES}/node{node}/hugepages"), Some(node)));
    }
    pools.sort_by_key(|pool| (pool.page_bytes, pool.node));
    pools
}

fn pools_of(host: &HostRoot, folder: &str, node: Option<u32>) -> Vec<HugePool> {
    let sizes = list_huge_page_sizes(host, folder).into_iter();
    sizes.map(|(size, name)| pool(host, &format!("{folder}/{name}"), size, node)).collect()
}

fn pool(host: &HostRoot, folder: &str, page_bytes: Bytes, node: Option<u32>) -> HugePool {
    HugePool {
        page_bytes,
        node,
        total: host.number_at(&format!("{folder}/nr_hugepages")),
        free: host.number_at(&format!("{folder}/free_hugepages")),
        reserved: read_reserved(host, &format!("{folder}/resv_hugepages"), node),
        surplus: host.number_at(&format!("{folder}/surplus_hugepages")),
    }
}

fn read_reserved(host: &HostRoot, path: &str, node: Option<u32>) -> Reading<u64> {
    match node {
        None => host.number_at(path),
        Some(_) => {
            let why = "the kernel counts reservations for all nodes together";
            Reading::absent(why, Source::file(absolute_path(path)))
        }
    }
}
