// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Other programs that decide which pages of a cgroup are reclaimed. Two of them would each read the
//! effect of the other as their own, so the agent leaves such a cgroup alone.
//!
//! Not among them, because they decide about something else: systemd-oomd, earlyoom and nohang kill
//! programs, TuneD sets settings of the host.

/// Names of processes, at most 15 characters as the kernel keeps them, each with the program's name.
const MANAGERS: [(&str, &str); 3] =
    [("senpai", "senpai"), ("koordlet", "koordinator"), ("katalyst-agent", "katalyst")];
/// The folder below which kubelet makes the cgroups of pods: `kubepods` or `kubepods.slice`.
const PODS: &str = "kubepods";

/// The program that manages the reclaim of the cgroup with this path, if one does. `processes` are
/// the names of all processes.
pub fn other_manager<'a>(
    cgroup: &str,
    processes: impl IntoIterator<Item = &'a str>,
) -> Option<&'static str> {
    let mut steps = cgroup.split('/').filter(|step| !step.is_empty());
    if steps
        .any(|step| step == PODS || step.starts_with("kubepods.") || step.starts_with("kubepods-"))
    {
        return Some("kubelet");
    }
    processes.into_iter().find_map(|process| {
        MANAGERS.iter().find(|(name, _)| *name == process).map(|(_, manager)| *manager)
    })
}

/// The program that switches kernel same-page merging on and off, if one of these runs. It is a service
/// of virtualization hosts (package ksm-control-scripts, earlier qemu-kvm).
pub fn ksm_manager<'a>(processes: impl IntoIterator<Item = &'a str>) -> Option<&'static str> {
    processes.into_iter().any(|process| process == "ksmtuned").then_some("ksmtuned")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_kubelets_and_some_programs_manage_every_cgroup() {
        let of =
            |cgroup, processes: &[&'static str]| other_manager(cgroup, processes.iter().copied());
        assert_eq!(of("/kubepods.slice/kubepods-pod1.slice", &[]), Some("kubelet"));
        assert_eq!(of("/kubepods/burstable/pod1", &[]), Some("kubelet"));
        assert_eq!(of("/system.slice/web.service", &["koordlet"]), Some("koordinator"));
        assert_eq!(of("/system.slice/web.service", &["systemd-oomd", "tuned", "kubelet"]), None);
        assert_eq!(of("/system.slice/kubepodsx.service", &["koordlet2"]), None);
    }
}
