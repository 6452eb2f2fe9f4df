// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that change a memory limit of a cgroup. No other module creates such commands.
//!
//! A command is created only if it cannot do harm. There is none for the root, a slice or another
//! parent of units and containers, because its limit applies to all of them; none for PID 1; and
//! none for a group whose usage is unknown. The new value is never below the limit that is set, or
//! below what the group uses now. Each command is followed by the command that restores the value
//! that was read. The settings of a container belong to its manager: docker and podman have a
//! command of their own for a running container; for other managers no command is known whose
//! effect would last.

use pagewise_facts::groups;
use pagewise_model::{Bytes, Cgroup, Limit, Reading};

use crate::text::{mark_writing_with_undo, quoted};

/// What a command achieves; a text about it follows the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The group gets more memory, so that it no longer waits for it.
    Raises,
    /// The group may use swap.
    AllowsSwap,
    /// The machine is protected from the group, but the cause in the group remains.
    Contains,
}

/// How long a change of a systemd unit lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lasts {
    UntilBoot,
    Permanent,
}

/// A change of one limit of one cgroup, from which a command is created.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LimitChange<'a> {
    pub(crate) group: &'a Cgroup,
    /// The limit as it was read, which contains the path of the file and the value to restore.
    pub(crate) limit: &'a Reading<Limit>,
    pub(crate) to: Limit,
    pub(crate) effect: Effect,
    pub(crate) lasts: Lasts,
    /// A remark about the new value, such as "1.5 times the limit"; may be empty.
    pub(crate) note: &'a str,
}

/// The kinds of limits, by the name of their file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    High,
    Max,
    SwapMax,
    /// `memory.limit_in_bytes` of cgroup version 1.
    V1,
}

impl Kind {
    fn from_path(path: &str) -> Option<Self> {
        match path.rsplit('/').next()? {
            "memory.high" => Some(Self::High),
            "memory.max" => Some(Self::Max),
            "memory.swap.max" => Some(Self::SwapMax),
            "memory.limit_in_bytes" => Some(Self::V1),
            _ => None,
        }
    }

    /// The systemd property that sets the limit; `None` for version 1, because newer releases of
    /// systemd have dropped its property.
    fn property(self) -> Option<&'static str> {
        match self {
            Self::High => Some("MemoryHigh"),
            Self::Max => Some("MemoryMax"),
            Self::SwapMax => Some("MemorySwapMax"),
            Self::V1 => None,
        }
    }

    /// How much the group uses of the resource that this kind of limit restricts.
    fn usage(self, group: &Cgroup) -> Option<Bytes> {
        match self {
            Self::SwapMax => group.swap_current.get(),
            Self::High | Self::Max | Self::V1 => group.current.get(),
        }
    }
}

/// The program that manages a cgroup, and therefore the tool that changes the cgroup's limit.
enum Owner<'a> {
    Systemd(&'a str),
    /// A container of `docker` or `podman` (the first value), with the beginning of its id.
    Container(&'static str, String),
    /// No managing program is known; the limit is changed by writing to its file.
    Nobody,
}

impl LimitChange<'_> {
    /// Returns the command, marked as one that changes the machine, with how long its effect lasts
    /// and how to undo it. `None` if the command could do harm, or if there is no way to make the
    /// change.
    pub(crate) fn command(&self) -> Option<String> {
        let path = self.path()?;
        let kind = Kind::from_path(&path)?;
        let now = self.limit.get()?;
        let is_higher = self.to > now || (self.effect == Effect::Contains && now == Limit::Max);
        let fits = match self.to {
            Limit::Max => true,
            Limit::Bytes(to) => to > kind.usage(self.group)?,
        };
        let is_held_below = kind == Kind::Max && self.effect == Effect::Raises && self.is_at_high();
        if !is_higher || !fits || is_held_below || !is_safe_place(self.group) {
            return None;
        }
        Some(match owner(self.group)? {
            Owner::Systemd(unit) if kind.property().is_some() => {
                self.systemd_command(unit, kind.property()?, now)
            }
            Owner::Container(tool, id) => self.container_command(tool, &id, kind, now)?,
            Owner::Systemd(_) | Owner::Nobody => self.file_command(&path, now)?,
        })
    }

    /// Whether the kernel slows the group down at its `memory.high`. In this case a higher
    /// `memory.max` would not help.
    fn is_at_high(&self) -> bool {
        let high = self.group.high.get().and_then(Limit::bytes);
        high.zip(self.group.current.get()).is_some_and(|(high, used)| used >= high)
    }

    /// Returns the path of the limit's file. With version 1, the absence of a limit was read from
    /// `memory.stat`, so that the path has to be derived.
    fn path(&self) -> Option<String> {
        let path = self.limit.source.path();
        if path.ends_with("/memory.stat") {
            let (folder, _) = self.group.current.source.path().rsplit_once('/')?;
            return Some(format!("{folder}/memory.limit_in_bytes"));
        }
        (!path.is_empty()).then(|| path.to_owned())
    }

    fn systemd_command(&self, unit: &str, property: &str, now: Limit) -> String {
        let (to, before) =
            (format_new_value(self.to, "infinity"), format_old_value(now, "infinity"));
        let (how, lasts) = match self.lasts {
            Lasts::UntilBoot => ("--runtime ", "until the next boot"),
            Lasts::Permanent => ("", "permanent"),
        };
        let set = |value: &str| {
            format!("sudo systemctl set-property {how}{} {property}={value}", quoted(unit))
        };
        self.with_note(set(&to), lasts, &set(&before))
    }

    /// Docker's option is the sum of memory and swap, so the swap that the container may use is
    /// added. There is no command for a limit that docker does not set (`memory.high`), or if the
    /// sum is not known.
    fn container_command(&self, tool: &str, id: &str, kind: Kind, now: Limit) -> Option<String> {
        let (Kind::Max, Limit::Bytes(to), Limit::Bytes(now)) = (kind, self.to, now) else {
            return None;
        };
        let update = |size: Bytes| {
            let both = match self.group.swap_max.get()? {
                Limit::Bytes(swap) => format_bytes_or_mib(size.saturating_add(swap)),
                Limit::Max => "-1".to_owned(),
            };
            let size = format_bytes_or_mib(size);
            Some(format!("sudo {tool} update --memory {size} --memory-swap {both} {id}"))
        };
        Some(self.with_note(update(to)?, "until the container is made again", &update(now)?))
    }

    /// With version 1, the kernel refuses a limit that exceeds the limit on memory and swap
    /// together. That limit is raised first; how much the group may swap stays the same.
    fn file_command(&self, path: &str, now: Limit) -> Option<String> {
        // with version 1, writing -1 removes a limit
        let unlimited = if path.ends_with("limit_in_bytes") { "-1" } else { "max" };
        let (to, before) = (format_new_value(self.to, unlimited), format_old_value(now, unlimited));
        let lasts =
            "until the cgroup is created again; what makes it has to set it to make it last";
        let write = |value: &str, path: &str| format!("echo {value} | sudo tee {}", quoted(path));
        let (mut command, mut undo) = (write(&to, path), write(&before, path));
        let both = path.strip_suffix("limit_in_bytes").filter(|_| unlimited == "-1");
        if let (Some(folder), Some(Limit::Bytes(swap))) = (both, self.group.swap_max.get()) {
            let sum = |limit: Limit| Some(limit.bytes()?.saturating_add(swap));
            let both = format!("{folder}memsw.limit_in_bytes");
            let (raised, read) = (sum(self.to)?, sum(now)?);
            command = format!("{} && {command}", write(&format_bytes_or_mib(raised), &both));
            undo = format!("{undo} && {}", write(&read.get().to_string(), &both));
        }
        Some(self.with_note(command, lasts, &undo))
    }

    fn with_note(&self, command: String, lasts: &str, undo: &str) -> String {
        let effect = match self.effect {
            Effect::Raises => "takes the group's shortage away, not a leak",
            Effect::AllowsSwap => "lets the group swap",
            Effect::Contains if self.limit.source.path().ends_with("memory.high") => {
                "contains the damage and cures nothing: at this limit the kernel slows the group down"
            }
            Effect::Contains => {
                "contains the damage and cures nothing: at this limit the kernel kills a process of this \
                 group and no other"
            }
        };
        let value = if self.note.is_empty() { String::new() } else { format!("{}; ", self.note) };
        mark_writing_with_undo(command, &format!("{value}{effect}; {lasts}"), undo)
    }
}

/// Formats a new limit in MiB.
fn format_new_value(limit: Limit, unlimited: &str) -> String {
    limit.bytes().map_or_else(|| unlimited.to_owned(), format_bytes_or_mib)
}

/// Formats the limit that was read, in bytes as the kernel prints it.
fn format_old_value(limit: Limit, unlimited: &str) -> String {
    limit.bytes().map_or_else(|| unlimited.to_owned(), |bytes| bytes.get().to_string())
}

fn format_bytes_or_mib(size: Bytes) -> String {
    match size.get() {
        whole if whole % (1 << 20) == 0 => format!("{}M", whole >> 20),
        bytes => bytes.to_string(),
    }
}

/// Whether a limit of this group applies to one unit, container or job only. This excludes a slice,
/// a container engine's parent group, a user's session, and PID 1.
fn is_safe_place(group: &Cgroup) -> bool {
    const PARENTS: [&str; 7] =
        ["docker", "libpod_parent", "lxc", "machine", "podman", "garden", "init.scope"];
    let path = group.path.as_str().trim_matches('/');
    let last = path.rsplit('/').next().unwrap_or_default();
    let is_parent =
        PARENTS.contains(&last) || last.ends_with(".slice") || last.starts_with("user@");
    !path.is_empty() && !is_parent
}

/// The path at which root's docker or podman creates the cgroup of a container: the text before and
/// after the 64 digits of the id.
struct ContainerPlace {
    tool: &'static str,
    before: &'static str,
    after: &'static str,
}

const CONTAINER_PLACES: [ContainerPlace; 5] = [
    ContainerPlace { tool: "docker", before: "/docker/", after: "" },
    ContainerPlace { tool: "docker", before: "/system.slice/docker-", after: ".scope" },
    ContainerPlace { tool: "podman", before: "/machine.slice/libpod-", after: ".scope" },
    ContainerPlace { tool: "podman", before: "/system.slice/libpod-", after: ".scope" },
    ContainerPlace { tool: "podman", before: "/libpod_parent/libpod-", after: "" },
];

/// Returns the tool and the id of a container of root's docker or podman. Containers of other
/// users, and those inside another container, are unknown to the tool if root starts it.
fn container_of_root(path: &str) -> Option<(&'static str, &str)> {
    CONTAINER_PLACES.iter().find_map(|place| {
        let id = path.strip_prefix(place.before)?.strip_suffix(place.after)?;
        let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| (place.tool, &id[..12]))
    })
}

/// Determines who manages a cgroup. `None` if a manager would set the limits again and no command
/// for it is known, or if systemctl could take the group's name for another unit.
fn owner(group: &Cgroup) -> Option<Owner<'_>> {
    let path = group.path.as_str();
    if let Some((tool, id)) = container_of_root(path) {
        return Some(Owner::Container(tool, id.to_owned()));
    }
    let is_id =
        |part: &str| part.as_bytes().windows(64).any(|run| run.iter().all(u8::is_ascii_hexdigit));
    let is_managed = |part: &str| {
        part.starts_with("kubepods")
            || part.starts_with("lxc.payload")
            || part == "docker"
            || is_id(part)
    };
    if path.split('/').any(is_managed) {
        return None;
    }
    match groups::system_unit(group) {
        // systemd writes `_` before a name that is also the name of a kernel file; systemctl would
        // take a leading `-` for an option
        Some(unit) if unit.starts_with(['_', '-']) => None,
        Some(unit) => Some(Owner::Systemd(unit)),
        None => Some(Owner::Nobody),
    }
}

/// The resource that a limit of a cgroup restricts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    Memory,
    /// Processes and threads.
    Tasks,
}

/// Returns where the limit of a group is set, in the terms of the program that manages the group;
/// `None` if the path does not show it.
pub(crate) fn describe_owner(path: &str, resource: Resource) -> Option<String> {
    let is_memory = resource == Resource::Memory;
    let parts = || path.split('/').filter(|part| !part.is_empty());
    if parts().any(|part| part.starts_with("kubepods") || part.starts_with("kubelet")) {
        let pod = parts().find_map(find_pod_uid);
        if !is_memory {
            // the group of all pods has another limit, which each pod counts towards
            return pod.map(|uid| {
                format!(
                    "podPidsLimit in the kubelet's configuration, for every pod of the node (here \
                     the pod with uid {uid})"
                )
            });
        }
        let container = parts().find_map(find_container_id);
        return Some(match (container, pod) {
            (None, None) => "the limit holds for all pods: kubeReserved, systemReserved and \
                 evictionHard in the kubelet's configuration leave them the rest of the node"
                .to_owned(),
            // the kubelet computes the pod's limit from the limits of its containers
            (None, Some(uid)) => format!(
                "resources.limits.memory of all containers of the pod with uid {uid}, in its \
                 manifest: the pod's limit is their sum"
            ),
            (Some(id), pod) => {
                let pod = pod.map_or_else(String::new, |uid| format!(" of the pod with uid {uid}"));
                format!("resources.limits.memory of the container {id}{pod}, in its manifest")
            }
        });
    }
    if let Some(id) = parts().find_map(find_container_id) {
        let tool = if path.contains("libpod") { "podman" } else { "docker" };
        let option = if is_memory { "--memory" } else { "--pids-limit" };
        return Some(format!("{tool} update {option} for container {id}, and in what starts it"));
    }
    if let Some(job) = parts().find_map(|part| part.strip_prefix("job_")) {
        return is_memory.then(|| format!("--mem of the Slurm job {job}"));
    }
    let payload = parts().find_map(|part| part.strip_prefix("lxc.payload."));
    if let Some(name) = payload.or_else(|| path.strip_prefix("/lxc/")?.split('/').next()) {
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        return Some(match (is_number, resource) {
            (true, Resource::Memory) => format!("pct set {name} --memory MIB (Proxmox)"),
            (true, Resource::Tasks) => {
                format!("lxc.cgroup2.pids.max in /etc/pve/lxc/{name}.conf (Proxmox)")
            }
            (false, Resource::Memory) => {
                format!("lxc config set {name} limits.memory (LXD), or lxc.cgroup2.memory.max")
            }
            (false, Resource::Tasks) => {
                format!("lxc config set {name} limits.processes (LXD), or lxc.cgroup2.pids.max")
            }
        });
    }
    let unit = groups::unit_of_path(path)?;
    if is_memory && path.trim_end_matches('/').rsplit('/').next() != Some(unit) {
        // `user@1000.service` and container engines create groups below their own
        return Some(format!("memory.max of {path}, set by what {unit} runs"));
    }
    let property = if is_memory { "MemoryMax" } else { "TasksMax" };
    Some(format!("{property}= of {unit} (systemctl edit, in [Service] or [Scope])"))
}

/// Returns where the limit on tasks of this group itself is set. `None` if the path does not show
/// it, or if the group is the parent of units or containers, because the limit then applies to all
/// of them.
pub(crate) fn describe_task_limit(group: &Cgroup) -> Option<String> {
    let path = group.path.as_str();
    let last = path.rsplit('/').next()?;
    let is_pod = find_pod_uid(last).is_some();
    let is_payload = last.starts_with("lxc.payload.") || path.rsplit_once('/')?.0 == "/lxc";
    let is_unit = groups::unit_of_path(path) == Some(last) && is_safe_place(group);
    (is_pod || is_payload || is_unit || find_container_id(last).is_some())
        .then(|| describe_owner(path, Resource::Tasks))?
}

/// Returns the beginning of a container's id in a component of a path; the id has 64 hexadecimal
/// digits.
pub(crate) fn find_container_id(part: &str) -> Option<&str> {
    let part = part.strip_suffix(".scope").unwrap_or(part);
    let id = part.rsplit(['-', ':']).next()?;
    let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| &id[..12])
}

/// Returns the uid of a pod in a component of a path: `podUID`, or
/// `kubepods-burstable-podUID.slice` with `_` instead of `-`.
fn find_pod_uid(part: &str) -> Option<String> {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let uid = &part[part.rfind("pod").filter(|at| !part[*at..].starts_with("pods"))? + 3..];
    (uid.len() >= 8).then(|| uid.replace('_', "-"))
}

#[cfg(test)]
#[path = "../tests/unit/limit_change.rs"]
mod tests;
