// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The input of the rules: [`Context`].

use pagewise_facts::kubernetes;
use pagewise_facts::swap_choice::{SwapDecision, decide_swap};
use pagewise_model::knob::KnobReading;
use pagewise_model::plan::{Goal, Want};
use pagewise_model::{
    Bytes, Finding, HostVerdict, Installation, Interval, Level, Name, Snapshot, Tier, Zram, arm,
};

use crate::measured::Measured;
use crate::owner::Owners;
use crate::request::Request;
use crate::start_place::Place;

/// Everything that the rules know about a host.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) host: &'a Snapshot,
    pub(crate) installation: &'a Installation,
    pub(crate) measured: &'a Measured,
    pub(crate) goal: Goal,
    only: &'a [String],
    pub(crate) wants: &'a [Want],
    anyway: bool,
    pub(crate) findings: Vec<Finding>,
    pub(crate) verdict: HostVerdict,
    is_short: bool,
    only_nodes_are_short: bool,
    /// The choice between zram and zswap.
    pub(crate) swap: SwapDecision,
}

impl<'a> Context<'a> {
    pub(crate) fn new(request: &Request<'a>) -> Self {
        let interval: &'a Interval = request.interval;
        let verdict = pagewise_decide::judge(interval);
        Self {
            host: &interval.end,
            installation: request.installation,
            measured: request.measured,
            goal: request.goal,
            only: request.only,
            wants: request.wants,
            anyway: request.anyway,
            findings: pagewise_decide::diagnose(interval),
            is_short: pagewise_decide::is_host_short(interval, verdict.host),
            verdict,
            only_nodes_are_short: pagewise_decide::are_only_nodes_short(interval),
            swap: decide_swap(
                interval,
                &request.measured.swap_evidence(request.goal, &interval.end),
            ),
        }
    }

    /// Whether the user limited the plan to rules or findings with this name.
    pub(crate) fn is_asked_for(&self, name: &str) -> bool {
        self.only.iter().any(|only| only == name)
    }

    /// Whether the user requested swap in compressed RAM.
    pub(crate) fn wants_zram(&self) -> bool {
        self.wants.iter().any(|want| matches!(want, Want::Zram { .. }))
    }

    /// Returns the reason why a Kubernetes node gets no swap; `None` for other hosts.
    pub(crate) fn reason_of_kubernetes(&self) -> Option<String> {
        kubernetes::is_node(self.host).then(|| {
            "this is a node of Kubernetes: kubelet refuses to start while swap is on, unless failSwapOn is \
             false, so the cluster's configuration has to allow swap first"
                .to_owned()
        })
    }

    /// Whether the user requested a swap file.
    pub(crate) fn wants_swap_file(&self) -> bool {
        self.wants.iter().any(|want| matches!(want, Want::SwapFile { .. }))
    }

    /// Whether the user requested a swap file with a certain size.
    pub(crate) fn wants_sized_swap_file(&self) -> bool {
        self.wants.iter().any(|want| matches!(want, Want::SwapFile { size: Some(_) }))
    }

    /// Whether the user requested that zswap be switched off.
    pub(crate) fn wants_zswap_off(&self) -> bool {
        let is_off = |value: &str| matches!(value, "N" | "n" | "0");
        let is_it = |want: &Want| match want {
            Want::Knob(setting) => setting.knob == "zswap.enabled" && is_off(&setting.value),
            _ => false,
        };
        self.wants.iter().any(is_it)
    }

    /// Returns the reason against a requested change, with the option that overrides it; `None` if
    /// there is no reason or if the user gave the option.
    pub(crate) fn reason_unless_overridden(&self, why: Option<String>) -> Option<String> {
        let why = why.filter(|_| !self.anyway)?;
        Some(format!(
            "{}. With --anyway the plan contains it all the same",
            why.trim_end_matches('.')
        ))
    }

    pub(crate) fn owners(&self) -> Owners<'a> {
        Owners { configuration: &self.host.configuration }
    }

    /// Returns the reading of a setting by its name in the table of settings; an instance follows
    /// in brackets.
    pub(crate) fn knob_reading(&self, name: &str) -> Option<&'a KnobReading> {
        let (bare, which) = arm::split_instance(name);
        let is_it = |it: &&KnobReading| {
            it.knob.name == bare && it.instance.as_ref().map(Name::as_str) == which
        };
        self.host.knobs.iter().find(is_it)
    }

    pub(crate) fn finding(&self, id: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.id == id)
    }

    /// Returns the value that a finding's first command for this sysctl sets. The plan uses this
    /// value, so that plan and finding cannot differ.
    pub(crate) fn advised_sysctl(&self, id: &str, key: &str) -> Option<String> {
        let command = format!("sudo sysctl {key}=");
        self.advised_value(id, |next| next.strip_prefix(&command))
    }

    /// Returns the value that a finding's command writes to this kernel file.
    pub(crate) fn advised_write(&self, id: &str, path: &str) -> Option<String> {
        let end = format!(" | sudo tee {path}");
        self.advised_value(id, |next| {
            let (value, rest) = next.strip_prefix("echo ")?.split_once(&end)?;
            (rest.is_empty() || rest.starts_with(' ')).then_some(value)
        })
    }

    fn advised_value(&self, id: &str, value: impl Fn(&str) -> Option<&str>) -> Option<String> {
        let of_rule = self.findings.iter().filter(|finding| finding.id == id);
        let commands = of_rule.flat_map(|finding| &finding.next);
        let value = commands.filter_map(|next| value(next)).next()?;
        value.split_whitespace().next().map(str::to_owned)
    }

    /// Whether systemd runs on the host: it has a folder in `/run` or, in a recording, there are
    /// cgroups that it creates.
    pub(crate) fn has_systemd(&self) -> bool {
        let groups = &self.host.cgroups.groups;
        self.installation.has_systemd
            || groups
                .iter()
                .any(|group| matches!(group.path.as_str(), "/init.scope" | "/system.slice"))
    }

    /// Returns why a plan cannot change anything on this host; `None` if it can.
    pub(crate) fn reason_against_changes(&self) -> Option<String> {
        if let Some(kind) = self.host.host.container.value() {
            return Some(format!(
                "this is a container ({kind}): swap and settings of the kernel belong to its host; make the plan there"
            ));
        }
        let why = "not even the size of memory could be read";
        self.ram().is_none().then(|| why.to_owned())
    }

    /// Returns why files that a plan writes would have no effect after a reboot; `None` if they
    /// would have one.
    pub(crate) fn reason_against_files(&self) -> Option<String> {
        let named = |name: &str| self.installation.distribution.as_deref() == Some(name);
        if named("nixos") {
            let why = "NixOS builds /etc from its configuration: set it there (boot.kernel.sysctl, zramSwap, \
                       systemd.tmpfiles.rules). `pagewise plan --render nix` prints the lines";
            return Some(why.to_owned());
        }
        if named("steamos") && !self.installation.has_keep_list {
            let why = "an update of this SteamOS removes unknown files from /etc, so a file would not last (SteamOS 3.6 \
                       and later keep the files listed in /etc/atomic-update.conf.d)";
            return Some(why.to_owned());
        }
        if self.has_systemd() || self.start_place().is_some() {
            return None;
        }
        let why = "neither systemd nor an init system whose start scripts are known was found on this host (OpenRC, \
                   procd, runit with core-services, System V, busybox). Let a file that it runs at boot make the \
                   change";
        Some(why.to_owned())
    }

    /// Returns the place of the plan's start script; `None` if the host runs systemd or if no place
    /// is known.
    pub(crate) fn start_place(&self) -> Option<Place> {
        if self.has_systemd() { None } else { Place::of(self.installation.init) }
    }

    /// Whether the plan's files set everything up again after a reboot, without anything else that
    /// must be done.
    pub(crate) fn do_files_survive_reboot(&self) -> bool {
        let is_left =
            self.start_place().is_some_and(|it| it.step_for_owner(self.installation).is_some());
        self.reason_against_files().is_none() && !is_left
    }

    pub(crate) fn ram(&self) -> Option<Bytes> {
        self.host.memory.total.get()
    }

    /// Describes available memory: `5.5 of 23.4 GiB`.
    pub(crate) fn describe_available(&self) -> String {
        match (self.host.memory.available.get(), self.ram()) {
            (Some(available), Some(ram)) => available.part_of(ram),
            _ => "an unknown part of memory".to_owned(),
        }
    }

    pub(crate) fn available_percent(&self) -> Option<f64> {
        Some(self.host.memory.available.get()?.percent_of(self.ram()?)?.get())
    }

    /// Whether the host itself, or a cgroup, is short of memory.
    pub(crate) fn is_short(&self) -> bool {
        self.verdict.level > Level::Calm
    }

    /// Whether the host itself is short of memory, and not only some of its NUMA nodes.
    pub(crate) fn is_host_short(&self) -> bool {
        self.is_short
    }

    /// Returns a sentence that says why swap for the whole host does not help, for a host that is
    /// not short of memory.
    pub(crate) fn explain_swap_does_not_help(&self) -> String {
        let available = self.describe_available();
        if self.only_nodes_are_short {
            return format!(
                "the host is not short of memory ({available} are available). Only the NUMA nodes that some process may \
                 use ran out. Let it use other nodes, too: `grep Mems_allowed_list /proc/PID/status` shows its \
                 nodes; cpuset.mems of its cgroup, AllowedMemoryNodes= and NUMAPolicy= of its unit, or numactl \
                 set them"
            );
        }
        let plenty = || {
            format!("memory is not short: {available} are available, so nothing would be swapped")
        };
        self.explain_only_groups_are_short().unwrap_or_else(plenty)
    }

    /// Returns a sentence that says why swap for the whole host does not help, if only cgroups are
    /// short of memory because of their own limits.
    pub(crate) fn explain_only_groups_are_short(&self) -> Option<String> {
        if self.verdict.host > Level::Calm {
            return None;
        }
        let first = self.verdict.groups.first()?;
        Some(format!(
            "the host is not short of memory ({} are available). Only the cgroup {} is short, because of its \
             own limit (`pagewise plan --only limits`)",
            self.describe_available(),
            first.group
        ))
    }

    pub(crate) fn tiers_in_ram(&self) -> impl Iterator<Item = &'a Tier> {
        self.host.tiers.iter().filter(|tier| tier.kind.is_ram())
    }

    pub(crate) fn tiers_on_disk(&self) -> impl Iterator<Item = &'a Tier> {
        self.host.tiers.iter().filter(|tier| !tier.kind.is_ram())
    }

    /// Returns the zram or zmerge device of this swap area.
    pub(crate) fn device(&self, tier: &Tier) -> Option<&'a Zram> {
        self.host.compressed_devices().find(|zram| zram.path() == tier.path.as_str())
    }

    /// Returns a swap priority above that of all existing areas; `None` if there is no higher one.
    pub(crate) fn priority_above_all(&self) -> Option<i16> {
        const USUAL: i32 = 100;
        let highest = self.host.tiers.iter().filter_map(|tier| tier.priority.get()).max();
        let above = highest.map_or(USUAL, |highest| highest.saturating_add(1).max(USUAL));
        i16::try_from(above).ok()
    }
}
