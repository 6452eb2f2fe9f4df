// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Laws of commands that change a limit, on made-up groups: the command is carried out on a model
//! of the machine, and then its undo.

use std::collections::BTreeMap;

use pagewise_model::{Bytes, Cgroup, Limit, Name, Reading, Source};
use proptest::prelude::*;

use super::*;

const ID: &str = "5f3c1d0e77aa0000000000000000000000000000000000000000000000000000";

/// Places of groups: root, slices, services, scopes, containers, pods, and folders of nobody.
const PATHS: [&str; 15] = [
    "/",
    "/system.slice",
    "/user.slice",
    "/user.slice/user-1000.slice",
    "/system.slice/db.service",
    "/system.slice/system-getty.slice",
    "/init.scope",
    "/libpod_parent/libpod-ID",
    "/system.slice/docker-ID.scope",
    "/docker/ID",
    "/docker/ID/below",
    "/machine.slice/libpod-ID.scope",
    "/kubepods.slice/kubepods-pod1.slice/cri-containerd-ID.scope",
    "/batch",
    "/user.slice/user-1000.slice/user@1000.service/app.slice/app.service",
];

const FILES: [&str; 3] = ["memory.max", "memory.high", "memory.swap.max"];

fn limit() -> impl Strategy<Value = Limit> {
    prop_oneof![Just(Limit::Max), (0_u64..4 << 30).prop_map(|size| Limit::Bytes(Bytes::new(size)))]
}

/// A group of version 2 with its limits and its use.
fn group() -> impl Strategy<Value = Cgroup> {
    let used = || (0_u64..4 << 30).prop_map(Bytes::new);
    (0..PATHS.len(), [limit(), limit(), limit()], used(), used(), any::<bool>()).prop_map(
        |(at, [max, high, swap_max], current, swap_current, is_known)| {
            let path = PATHS[at].replace("ID", ID);
            let place = |file: &str| Source::file(format!("/sys/fs/cgroup{path}/{file}"));
            let mut group = Cgroup { path: Name::from(path.as_str()), ..Cgroup::default() };
            group.max = Reading::found(max, place("memory.max"));
            group.high = Reading::found(high, place("memory.high"));
            group.swap_max = Reading::found(swap_max, place("memory.swap.max"));
            if is_known {
                group.current = Reading::found(current, place("memory.current"));
                group.swap_current = Reading::found(swap_current, place("memory.swap.current"));
            }
            group
        },
    )
}

fn reading<'a>(group: &'a Cgroup, file: &str) -> &'a Reading<Limit> {
    match file {
        "memory.max" => &group.max,
        "memory.high" => &group.high,
        _ => &group.swap_max,
    }
}

/// The limits of a machine by path and file.
type Machine = BTreeMap<(String, String), Limit>;

fn parse(value: &str) -> Limit {
    match value {
        "infinity" | "max" | "-1" => Limit::Max,
        mebibytes if mebibytes.ends_with('M') => {
            let number: u64 = mebibytes.trim_end_matches('M').parse().unwrap();
            Limit::Bytes(Bytes::new(number << 20))
        }
        bytes => Limit::Bytes(Bytes::new(bytes.parse().unwrap())),
    }
}

fn file_of(property: &str) -> &'static str {
    match property {
        "MemoryMax" => "memory.max",
        "MemoryHigh" => "memory.high",
        "MemorySwapMax" => "memory.swap.max",
        other => panic!("{other}"),
    }
}

/// Does what the tools would do: systemd and docker find the group by its name.
fn carry_out(machine: &mut Machine, groups: &[Cgroup], command: &str) {
    let words: Vec<&str> = command.split_whitespace().collect();
    let by_end = |end: &str| {
        let is_it = |group: &&Cgroup| group.path.as_str().rsplit('/').next() == Some(end);
        groups.iter().find(is_it).unwrap_or_else(|| panic!("{end}")).path.as_str().to_owned()
    };
    if let Some(at) = words.iter().position(|word| *word == "set-property") {
        let rest: Vec<&&str> =
            words[at + 1..].iter().filter(|word| **word != "--runtime").collect();
        let (property, value) = rest[1].split_once('=').unwrap();
        machine.insert((by_end(rest[0]), file_of(property).to_owned()), parse(value));
    } else if let Some(at) = words.iter().position(|word| *word == "update") {
        let of = |name: &str| words[words.iter().position(|it| *it == name).unwrap() + 1];
        let id = words[at + 5];
        let is_it = |group: &&Cgroup| group.path.as_str().contains(id);
        let group = groups.iter().find(is_it).unwrap();
        let path = group.path.as_str().to_owned();
        let memory = parse(of("--memory"));
        let swap = match (parse(of("--memory-swap")), memory) {
            (Limit::Bytes(both), Limit::Bytes(memory)) => {
                Limit::Bytes(Bytes::new(both.get() - memory.get()))
            }
            _ => Limit::Max,
        };
        machine.insert((path.clone(), "memory.max".to_owned()), memory);
        machine.insert((path, "memory.swap.max".to_owned()), swap);
    } else {
        let path = words[5].trim_matches('\'').trim_start_matches("/sys/fs/cgroup");
        let (path, file) = path.rsplit_once('/').unwrap();
        machine.insert((path.to_owned(), file.to_owned()), parse(words[1]));
    }
}

fn machine(groups: &[Cgroup]) -> Machine {
    let all = groups.iter().flat_map(|group| {
        FILES.iter().map(|file| {
            let key = (group.path.as_str().to_owned(), (*file).to_owned());
            (key, reading(group, file).get().unwrap())
        })
    });
    all.collect()
}

/// The command that takes a command back.
fn undo_of(command: &str) -> &str {
    let (line, note) = command.split_once("  # writes; ").unwrap();
    let undo = note.rsplit_once("undo with ").unwrap().1;
    assert_eq!(line.contains("--runtime"), undo.contains("--runtime"), "{command}");
    undo
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_command_can_harm_and_its_undo_restores_everything(
        group in group(),
        file in 0..FILES.len(),
        to in limit(),
        which in 0..3_usize,
        for_good in any::<bool>(),
    ) {
        let effect = [Effect::Raises, Effect::AllowsSwap, Effect::Contains][which];
        let lasts = if for_good { Lasts::Permanent } else { Lasts::UntilBoot };
        let limit = reading(&group, FILES[file]);
        let change = LimitChange { group: &group, limit, to, effect, lasts, note: "" };
        let Some(command) = change.command() else { return Ok(()) };
        let path = group.path.as_str();
        prop_assert!(path != "/" && !path.ends_with(".slice"), "{command}");
        prop_assert!(!path.contains("kubepods"), "{command}");
        let groups = [group.clone()];
        let before = machine(&groups);
        let mut after = before.clone();
        carry_out(&mut after, &groups, &command);
        prop_assert_eq!(after.len(), before.len(), "a limit of another group: {}", command);
        for (key, new) in &after {
            let old = before[key];
            let used = match key.1.as_str() {
                "memory.swap.max" => group.swap_current.get(),
                _ => group.current.get(),
            };
            // nothing that the group holds now is over the new limit
            let fits = used.is_some_and(|used| *new > Limit::Bytes(used));
            prop_assert!(*new == old || *new == Limit::Max || fits, "{command}");
            // a limit that is set is never lowered
            prop_assert!(*new >= old || old == Limit::Max && effect == Effect::Contains, "{command}");
        }
        let undo = undo_of(&command);
        carry_out(&mut after, &groups, undo);
        prop_assert_eq!(after, before, "{} then {}", command, undo);
    }
}

fn db(max: Limit, current: u64) -> Cgroup {
    let path = "/system.slice/db.service";
    let place = |file: &str| Source::file(format!("/sys/fs/cgroup{path}/{file}"));
    let mut group = Cgroup { path: Name::from(path), ..Cgroup::default() };
    group.max = Reading::found(max, place("memory.max"));
    group.current = Reading::found(Bytes::new(current), place("memory.current"));
    group
}

fn change(group: &Cgroup, to: u64, effect: Effect) -> Option<String> {
    let to = Limit::Bytes(Bytes::new(to));
    let lasts = Lasts::Permanent;
    LimitChange { group, limit: &group.max, to, effect, lasts, note: "" }.command()
}

#[test]
fn a_limit_that_is_set_is_raised_and_restored_to_the_byte() {
    let group = db(Limit::Bytes(Bytes::new(200 << 20)), 199 << 20);
    let command = change(&group, 300 << 20, Effect::Raises).unwrap();
    assert_eq!(
        command,
        "sudo systemctl set-property db.service MemoryMax=300M  # writes; takes the group's shortage away, \
         not a leak; permanent; undo with sudo systemctl set-property db.service MemoryMax=209715200"
    );
    assert_eq!(change(&group, 100 << 20, Effect::Raises), None, "lower than what is set");
    assert_eq!(change(&group, 100 << 20, Effect::Contains), None, "lower than what is set");
}

#[test]
fn a_new_limit_is_above_what_is_in_use() {
    let group = db(Limit::Max, 199 << 20);
    let command = change(&group, 300 << 20, Effect::Contains).unwrap();
    assert!(
        command.contains("cures nothing") && command.ends_with("MemoryMax=infinity"),
        "{command}"
    );
    assert_eq!(change(&group, 150 << 20, Effect::Contains), None);
}

#[test]
fn a_container_is_changed_by_its_manager() {
    let mut group = db(Limit::Bytes(Bytes::new(200 << 20)), 100 << 20);
    group.path = Name::from(format!("/system.slice/docker-{ID}.scope").as_str());
    group.swap_max = Reading::found(Limit::Bytes(Bytes::new(50 << 20)), Source::none());
    let command = change(&group, 300 << 20, Effect::Raises).unwrap();
    assert!(
        command.starts_with(
            "sudo docker update --memory 300M --memory-swap 350M 5f3c1d0e77aa  # writes;"
        ),
        "{command}"
    );
    assert!(
        command.ends_with(
            "undo with sudo docker update --memory 200M --memory-swap 250M 5f3c1d0e77aa"
        ),
        "{command}"
    );
    group.path = Name::from(format!("/kubepods.slice/cri-containerd-{ID}.scope").as_str());
    assert_eq!(change(&group, 300 << 20, Effect::Raises), None, "kubelet would set it back");
}

/// The kernel refuses a limit above that of memory and swap together, so that is written first and
/// restored last.
#[test]
fn on_version_1_memory_and_swap_are_raised_before_memory() {
    let path = "/sys/fs/cgroup/memory/batch/memory.limit_in_bytes";
    let mut group = db(Limit::Bytes(Bytes::new(200 << 20)), 199 << 20);
    group.path = Name::from("/batch");
    group.max = Reading::found(Limit::Bytes(Bytes::new(200 << 20)), Source::file(path));
    let unlimited = change(&group, 300 << 20, Effect::Raises).unwrap();
    assert!(
        unlimited.starts_with(&format!("echo 300M | sudo tee {path}  # writes")),
        "{unlimited}"
    );
    group.swap_max = Reading::found(Limit::Bytes(Bytes::new(50 << 20)), Source::none());
    let command = change(&group, 300 << 20, Effect::Raises).unwrap();
    let both = "/sys/fs/cgroup/memory/batch/memory.memsw.limit_in_bytes";
    let start = format!("echo 350M | sudo tee {both} && echo 300M | sudo tee {path}  # writes");
    assert!(command.starts_with(&start), "{command}");
    let undo = format!("echo 209715200 | sudo tee {path} && echo 262144000 | sudo tee {both}");
    assert_eq!(undo_of(&command), undo);
}

#[test]
fn the_limit_above_the_one_that_slows_the_group_down_is_left_alone() {
    let mut group = db(Limit::Bytes(Bytes::new(200 << 20)), 150 << 20);
    group.high = Reading::found(Limit::Bytes(Bytes::new(150 << 20)), Source::none());
    assert_eq!(change(&group, 300 << 20, Effect::Raises), None);
    group.high = Reading::found(Limit::Bytes(Bytes::new(151 << 20)), Source::none());
    assert!(change(&group, 300 << 20, Effect::Raises).is_some());
}

/// Whoever may make a cgroup chooses its name: none of these may reach a command line.
#[test]
fn names_that_only_look_like_containers_and_parents_of_many_get_no_command() {
    let hostile = [
        format!("/lxc.payload.web/docker/{ID}"),
        format!("/docker/{ID}/docker/{ID}"),
        format!("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope"),
        "/docker".to_owned(),
        "/libpod_parent".to_owned(),
        "/init.scope".to_owned(),
        "/user.slice/user-1000.slice/user@1000.service".to_owned(),
        "/system.slice/_memory.service".to_owned(),
        "/system.slice/-Hroot@evil.service".to_owned(),
    ];
    for path in hostile {
        let mut group = db(Limit::Bytes(Bytes::new(200 << 20)), 100 << 20);
        group.swap_max = Reading::found(Limit::Max, Source::none());
        group.path = Name::from(path.as_str());
        assert_eq!(change(&group, 300 << 20, Effect::Raises), None, "{path}");
    }
    // known only as a file, whose name is quoted
    for path in ["/batch/podman x;reboot", "/batch/docker $(touch pwned)"] {
        let mut group = db(Limit::Bytes(Bytes::new(200 << 20)), 100 << 20);
        let file = Source::file(format!("/sys/fs/cgroup{path}/memory.max"));
        group.max = Reading::found(Limit::Bytes(Bytes::new(200 << 20)), file);
        group.path = Name::from(path);
        let command = change(&group, 300 << 20, Effect::Raises).unwrap();
        let start = format!("echo 300M | sudo tee '/sys/fs/cgroup{path}/memory.max'  # writes");
        assert!(command.starts_with(&start), "{command}");
    }
}

#[test]
fn the_limit_on_tasks_is_set_where_its_owner_keeps_it() {
    let named =
        |path: &str| describe_task_limit(&Cgroup { path: Name::from(path), ..Cgroup::default() });
    let uid = "11111111_2222_3333_4444_555555555555";
    let pod = format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice");
    let of_pod = format!(
        "podPidsLimit in the kubelet's configuration, for every pod of the node (here the pod with uid {})",
        uid.replace('_', "-")
    );
    let known = [
        (
            "/system.slice/web.service".to_owned(),
            "TasksMax= of web.service (systemctl edit, in [Service] or [Scope])".to_owned(),
        ),
        (
            format!("/system.slice/docker-{ID}.scope"),
            format!(
                "docker update --pids-limit for container {}, and in what starts it",
                &ID[..12]
            ),
        ),
        (
            format!("/machine.slice/libpod-{ID}.scope"),
            format!(
                "podman update --pids-limit for container {}, and in what starts it",
                &ID[..12]
            ),
        ),
        (
            "/lxc.payload.web".to_owned(),
            "lxc config set web limits.processes (LXD), or lxc.cgroup2.pids.max".to_owned(),
        ),
        (
            "/lxc/101".to_owned(),
            "lxc.cgroup2.pids.max in /etc/pve/lxc/101.conf (Proxmox)".to_owned(),
        ),
        (pod.clone(), of_pod.clone()),
        (format!("{pod}/cri-containerd-{ID}.scope"), of_pod),
    ];
    for (path, owner) in known {
        assert_eq!(named(&path), Some(owner), "{path}");
    }
    // parents of many, and groups that a unit or a container made below its own
    for path in [
        "/",
        "/user.slice/user-1000.slice",
        "/user.slice/user-1000.slice/user@1000.service",
        "/user.slice/user-1000.slice/user@1000.service/app.slice",
        "/system.slice/web.service/workers",
        "/kubepods.slice",
        "/kubepods.slice/kubepods-burstable.slice",
        "/docker",
        "/init.scope",
        "/slurm/uid_0/job_12",
        "/batch",
    ] {
        assert_eq!(named(path), None, "{path}");
    }
}

#[test]
fn the_limit_on_memory_is_set_where_its_owner_keeps_it() {
    let pod = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod11111111_2222.slice";
    for (path, owner) in [
        ("/system.slice/web.service".to_owned(), "MemoryMax= of web.service (systemctl edit"),
        ("/system.slice/system-foo.slice/foo@1.service".to_owned(), "MemoryMax= of foo@1.service"),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice".to_owned(),
            "set by what user@1000",
        ),
        ("/kubepods.slice".to_owned(), "the limit holds for all pods: kubeReserved"),
        ("/kubepods.slice/kubepods-burstable.slice".to_owned(), "the limit holds for all pods"),
        (pod.to_owned(), "all containers of the pod with uid 11111111-2222"),
        (format!("{pod}/cri-containerd-{ID}.scope"), "of the pod with uid 11111111-2222, in its"),
    ] {
        let said = describe_owner(&path, Resource::Memory).unwrap();
        assert!(said.contains(owner), "{path}: {said}");
    }
}
