// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pools of huge pages.

use pagewise_hostfs::HostRoot;
use pagewise_model::{HugePool, Reading};
use proptest::prelude::*;

use crate::glance;
use crate::testing::{host, mangle};

fn read(host: &HostRoot) -> Vec<HugePool> {
    glance(host).hugetlb
}

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
    let order: Vec<_> = pools.iter().map(|pool| (pool.page_bytes.get() >> 20, pool.node)).collect();
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
    fn no_bytes_and_no_names_make_it_panic(count in mangle("8\n"), size in "[0-9a-z]{0,24}", node in "[0-9]{0,12}") {
        let all = format!("{ALL}{size}kB/nr_hugepages");
        let one = format!("{NODE}{node}/hugepages/hugepages-{size}kB/free_hugepages");
        read(&host([(all.as_str(), &count), (one.as_str(), &count)]));
    }
}
