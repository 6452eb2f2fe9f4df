// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines the container or systemd unit that a cgroup belongs to, from the cgroup's path.

use crate::Name;

/// How many characters of a container's id are printed, as by `docker ps`.
const ID: usize = 12;

/// Returns the name of the container or unit that a cgroup belongs to, in the form that other tools
/// accept: `docker 5f3c1d0e77aa`, `nginx.service`. If the path names none, returns its last folder;
/// `None` for the root.
///
/// If containers or units are nested, the deepest container is used, otherwise the deepest service
/// or scope. Other tools do not know the cgroups that a service creates below its own.
pub fn unit_of(cgroup: &Name) -> Option<String> {
    let path = cgroup.as_str().strip_suffix(" (deleted)").unwrap_or(cgroup.as_str());
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let containers = (0..parts.len()).rev().filter_map(|at| container(&parts, at));
    let units = parts.iter().rev().filter(|part| is_unit(part)).map(|part| unescape(part));
    containers.chain(units).next().or_else(|| parts.last().map(|part| unescape(part)))
}

/// Cuts the path of a cgroup after the folder of its container or unit, without cgroups that the
/// container or unit created below.
pub fn unit_path(cgroup: &Name) -> &str {
    let (path, unit) = (cgroup.as_str(), unit_of(cgroup));
    let ends = path.match_indices('/').map(|(at, _)| at).filter(|&at| at > 0);
    let mut tops = ends.map(|end| &path[..end]);
    tops.find(|top| unit_of(&Name::from(*top)) == unit).unwrap_or(path)
}

/// Returns the container that the folder `parts[at]` of a path belongs to. It recognises
/// `docker-<id>.scope`, `cri-containerd-<id>.scope`, `docker/<id>` and `lxc.payload.NAME`.
fn container(parts: &[&str], at: usize) -> Option<String> {
    let part = parts[at];
    if let Some(name) = part.strip_prefix("lxc.payload.") {
        return Some(format!("lxc {name}"));
    }
    let bare = part.strip_suffix(".scope").unwrap_or(part);
    let (runtime, id) = match bare.rsplit_once('-') {
        Some((runtime, id)) => (runtime, id),
        None => (at.checked_sub(1).map_or("container", |above| runtime_of(parts[above])), bare),
    };
    let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let runtime = if runtime == "libpod" { "podman" } else { runtime };
    is_id.then(|| format!("{runtime} {}", &id[..ID]))
}

/// The container runtime, from the name of the folder `above` a container's id; `container` if that
/// folder has another name, as in pods.
fn runtime_of(above: &str) -> &str {
    if matches!(above, "docker" | "lxc" | "podman") { above } else { "container" }
}

fn is_unit(part: &str) -> bool {
    part.ends_with(".service") || part.ends_with(".scope")
}

/// Replaces `\x2d` by `-`: systemd escapes a `-` within a name this way.
fn unescape(part: &str) -> String {
    part.replace(r"\x2d", "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_and_units_are_named_as_their_tools_name_them() {
        let id = "5f3c1d0e77aa".to_owned() + &"0".repeat(52);
        let of = |path: &str| unit_of(&Name::from(path.replace("ID", &id).as_str()));
        for (path, unit) in [
            ("/system.slice/nginx.service", "nginx.service"),
            ("/system.slice/docker-ID.scope", "docker 5f3c1d0e77aa"),
            ("/docker/ID", "docker 5f3c1d0e77aa"),
            ("/docker/ID/init", "docker 5f3c1d0e77aa"),
            (
                "/kubepods.slice/kubepods-pod1.slice/cri-containerd-ID.scope",
                "cri-containerd 5f3c1d0e77aa",
            ),
            ("/kubepods/burstable/pod77/ID", "container 5f3c1d0e77aa"),
            ("/machine.slice/libpod-ID.scope/container", "podman 5f3c1d0e77aa"),
            ("/lxc.payload.web/system.slice/cron.service", "lxc web"),
            ("/lxc.payload.web", "lxc web"),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/app-firefox-77.scope",
                "app-firefox-77.scope",
            ),
            ("/system.slice/system-getty.slice/getty@tty1.service", "getty@tty1.service"),
            (r"/system.slice/a\x2db.service (deleted)", "a-b.service"),
            ("/user.slice", "user.slice"),
            ("/batch/job", "job"),
        ] {
            assert_eq!(of(path).as_deref(), Some(unit), "{path}");
        }
        assert_eq!((of("/"), of("")), (None, None));
    }

    #[test]
    fn what_a_unit_makes_below_itself_is_part_of_it_and_equal_names_elsewhere_are_not() {
        for (path, top) in [
            ("/system.slice/nginx.service/worker", "/system.slice/nginx.service"),
            ("/lxc.payload.web/system.slice/cron.service", "/lxc.payload.web"),
            ("/a/job", "/a/job"),
            ("/b/job", "/b/job"),
            ("/", "/"),
            ("", ""),
        ] {
            assert_eq!(unit_path(&Name::from(path)), top);
        }
    }
}
