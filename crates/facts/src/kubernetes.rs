// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a host is a Kubernetes node, on which kubelet decides about swap.

use pagewise_model::Snapshot;

/// Whether the host is a Kubernetes node: kubelet is running, or has created its cgroups.
#[must_use]
pub fn is_node(host: &Snapshot) -> bool {
    let groups = &host.cgroups.groups;
    groups.iter().any(|group| group.path.as_str().starts_with("/kubepods"))
        || host.processes.list.iter().any(|process| process.name.as_str() == "kubelet")
}
