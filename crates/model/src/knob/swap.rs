// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of swap in general. The priority and discard of a swap area are not here, because they
//! are arguments of `swapon` and not files.

use super::row::{int, sysctl, sysfs};
use super::{Domain, Knob, Persist};

pub(super) const ROWS: &[Knob] = &[
    sysctl(
        "vm.swappiness",
        "proc/sys/vm/swappiness",
        int(0, 200),
        "Cost of swap I/O against file I/O; 100 weighs them equally, kernels before 5.8 stop there.",
    )
    .with_default("60")
    .with_persist(&[Persist::Sysctl, Persist::Udev]),
    sysctl(
        "vm.page-cluster",
        "proc/sys/vm/page-cluster",
        int(0, 31),
        "Swap readahead as a power of two of pages; 0 reads one page, which suits zram.",
    )
    .with_default("3")
    .with_persist(&[Persist::Sysctl, Persist::Udev])
    .with_couples(&["swap.vma_ra_enabled"]),
    sysfs(
        "swap.vma_ra_enabled",
        "sys/kernel/mm/swap/vma_ra_enabled",
        Domain::Bool,
        "Swap readahead follows virtual addresses; off, it follows swap slots; ignored on rotating disks.",
    )
    .with_default("true")
    .with_couples(&["vm.page-cluster"]),
];
