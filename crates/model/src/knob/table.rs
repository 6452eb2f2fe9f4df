// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rows.

use super::{Access, Domain, Knob, Persist, Undo};

/// Every setting that Pagewise knows.
pub static KNOBS: &[Knob] = &[Knob {
    name: "vm.swappiness",
    path: "proc/sys/vm/swappiness",
    domain: Domain::Int { min: 0, max: 200 },
    access: Access::ReadWrite,
    default: Some("60"),
    persist: &[Persist::Sysctl, Persist::Udev],
    undo: Undo::WriteBack,
    couples: &[],
    doc: "Cost of swap I/O against file I/O; 100 weighs them equally.",
}];
