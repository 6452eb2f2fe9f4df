// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: a process has nearly reached its own limit of address space, so that its allocations fail.
//!
//! `RLIMIT_AS` limits all address space; `RLIMIT_DATA` limits the private writable part (since
//! Linux 4.7 including anonymous mappings). Both limit what was requested, whether it was touched
//! or not, so that allocations may fail although the process has little memory in RAM.

use pagewise_facts::groups;
use pagewise_model::{
    Bytes, Finding, Interval, Limit, Process, Reading, Severity, Snapshot, Subject,
};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::{process, quoted};

pub(super) const RULE: Rule = Rule {
    id: "process-limit",
    doc: "The address space of a process is within 5 % of its RLIMIT_AS or RLIMIT_DATA, at which allocations fail \
          even if memory is free.",
    diagnose,
};

/// Maximum number of programs that get a finding of their own.
pub(super) const TOLD: usize = 3;
/// A limit below this size is not meant to limit memory: some programs set it to forbid all further
/// allocations.
const LEAST: Bytes = Bytes::new(64 << 20);
/// A process is near its limit if less than the limit divided by this number is left.
const LEFT_PART: u64 = 20;

/// A kind of limit of a process.
struct Kind {
    name: &'static str,
    /// The thing that is limited, in words.
    of: &'static str,
    /// The line of `/proc/PID/status` that contains the present size.
    line: &'static str,
    /// The option of `ulimit`, the setting of systemd, and the item of limits.conf that set the
    /// limit.
    option: &'static str,
    property: &'static str,
    item: &'static str,
    used: fn(&Process) -> &Reading<Bytes>,
    limit: fn(&Process) -> &Reading<Limit>,
}

static KINDS: [Kind; 2] = [
    Kind {
        name: "RLIMIT_AS",
        of: "address space",
        line: "VmSize",
        option: "-v",
        property: "LimitAS",
        item: "as",
        used: |process| &process.virtual_size,
        limit: |process| &process.address_space_limit,
    },
    Kind {
        name: "RLIMIT_DATA",
        of: "private writable address space",
        line: "VmData",
        option: "-d",
        property: "LimitDATA",
        item: "data",
        used: |process| &process.data,
        limit: |process| &process.data_limit,
    },
];

/// A process that has nearly reached one of its limits.
struct NearLimit<'a> {
    process: &'a Process,
    kind: &'static Kind,
    used: Bytes,
    limit: Bytes,
    left: Bytes,
    /// How many other processes of the same name have nearly reached the same kind of limit.
    others: usize,
}

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let host = &interval.end;
    let processes = host.processes.list.iter().filter(|process| !groups::is_own_process(process));
    let mut near: Vec<NearLimit<'_>> = processes
        .flat_map(|process| KINDS.iter().filter_map(|kind| find_near_limit(process, kind)))
        .collect();
    near.sort_by_key(|near| (near.left, near.process.pid));
    let mut programs: Vec<NearLimit<'_>> = Vec::new();
    for one in near {
        let is_same = |it: &&mut NearLimit<'_>| {
            it.process.name == one.process.name && it.kind.name == one.kind.name
        };
        match programs.iter_mut().find(is_same) {
            Some(first) => first.others += 1,
            None => programs.push(one),
        }
    }
    programs.iter().take(TOLD).map(|near| finding(host, near)).collect()
}

fn find_near_limit<'a>(process: &'a Process, kind: &'static Kind) -> Option<NearLimit<'a>> {
    let limit = (kind.limit)(process).get()?.bytes().filter(|limit| *limit >= LEAST)?;
    let used = (kind.used)(process).get()?;
    let left = limit.saturating_sub(used);
    (left.get() <= limit.get() / LEFT_PART).then_some(NearLimit {
        process,
        kind,
        used,
        limit,
        left,
        others: 0,
    })
}

fn finding(host: &Snapshot, near: &NearLimit<'_>) -> Finding {
    let NearLimit { process: found, kind, used, limit, left, .. } = near;
    let name = process(found.name.as_str(), found.pid);
    let available = host.memory.available.get();
    let available =
        available.map_or_else(String::new, |it| format!(", although {it} of memory are available"));
    let others = match near.others {
        0 => String::new(),
        1 => " 1 other process of this name is near its limit, too.".to_owned(),
        more => format!(" {more} other processes of this name are near their limits, too."),
    };
    Finding {
        id: RULE.id,
        about: Some(Subject::part(&format!("{} of {}", kind.name, found.name))),
        severity: Severity::Warning,
        title: format!("{name} has {left} of its {} left", kind.name),
        what: format!(
            "The {} of {name} is {used}, and its limit ({}) is {limit}: an allocation of more than {left} fails\
             {available}.{others}",
            kind.of, kind.name
        ),
        why: format!(
            "Above this limit the kernel refuses to enlarge the {} of the process: malloc and mmap fail with ENOMEM, \
             \"Cannot allocate memory\". It counts what was requested, touched or not, so that more RAM or swap changes \
             nothing. {}",
            kind.of,
            origin(found, kind)
        ),
        evidence: EvidenceList::new()
            .named(kind.line, (kind.used)(found))
            .named(kind.name, (kind.limit)(found))
            .named("MemAvailable", &host.memory.available)
            .into_evidence(),
        next: next(host, found, kind),
    }
}

/// Says where the limit may have been set, and therefore which setting to raise.
fn origin(process: &Process, kind: &Kind) -> String {
    let Kind { option, property, item, .. } = kind;
    let shell = format!(
        "ulimit {option} in the shell or script that started the program, or a line with the item {item} in \
         /etc/security/limits.conf"
    );
    let path = process.cgroup.value().map(pagewise_model::Name::as_str);
    let unit = path.and_then(groups::unit_of_path);
    match unit.filter(|unit| unit.ends_with(".service") && !unit.starts_with("user@")) {
        Some(unit) => format!(
            "A process inherits it from its parent; it comes from {property}= of {unit} (to raise it: systemctl \
             edit, in [Service], then restart the unit), or from {shell}."
        ),
        None => format!(
            "A process inherits it from its parent; it comes from {shell}, or from {property}= of a unit; a \
             higher limit there holds for what is started afterwards."
        ),
    }
}

fn next(host: &Snapshot, process: &Process, kind: &Kind) -> Vec<String> {
    let mut all = vec![format!("grep -E 'address space|data size' /proc/{}/limits", process.pid)];
    let group = process.cgroup.value().and_then(|path| host.cgroups.group(path.as_str()));
    let unit = group.and_then(groups::system_unit).filter(|unit| !unit.starts_with('-'));
    all.extend(unit.filter(|unit| unit.ends_with(".service")).map(|unit| {
        let property = kind.property;
        format!("systemctl show --property={property},{property}Soft {}", quoted(unit))
    }));
    all
}

#[cfg(test)]
#[path = "../../tests/rules/process_limit.rs"]
pub(super) mod tests;
