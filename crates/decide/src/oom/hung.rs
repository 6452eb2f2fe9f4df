// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains the kernel's reports of blocked tasks ("hung tasks"): whether a task waited for memory,
//! and whether that does harm.

use pagewise_model::{HungTask, KernelLog, Name, OomExplanation, OomFact};

use super::limit_of_kill::SHOWN;
use super::words::format_age;

/// Functions of mm/vmscan.c, mm/page_alloc.c and mm/memcontrol.c in which a task reclaims memory
/// itself, or waits until others have reclaimed some.
const RECLAIM: &[&str] = &[
    "try_to_free_pages",
    "try_to_free_mem_cgroup_pages",
    "do_try_to_free_pages",
    "shrink_node",
    "shrink_lruvec",
    "throttle_direct_reclaim",
    "reclaim_throttle",
    "congestion_wait",
    "wait_iff_congested",
    "mem_cgroup_handle_over_high",
    "mem_cgroup_out_of_memory",
    "mem_cgroup_oom_synchronize",
    "out_of_memory",
    "__alloc_pages_slowpath",
];
/// A function of mm/page-writeback.c in which a task that writes to files waits until more of the
/// dirty data has been written to the disk.
const WRITEBACK: &[&str] = &["balance_dirty_pages"];
/// Functions in which a task waits until a page is read from swap.
const SWAP_IN: &[&str] = &[
    "do_swap_page",
    "swap_readpage",
    "swap_read_folio",
    "swapin_readahead",
    "read_swap_cache_async",
];
/// Functions in which a task waits until a page of a file, such as its own code, is read.
const FILE_IN: &[&str] = &["filemap_fault", "filemap_read", "generic_file_read_iter"];

/// The reason why a task was blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitedFor {
    Memory(&'static str),
    Swap(&'static str),
    Writeback(&'static str),
    File(&'static str),
    Else,
    /// The report contains no stack.
    NotKnown,
}

/// Explains the most recent reports of blocked tasks, newest first.
pub fn explain_hung(log: &KernelLog) -> Vec<OomExplanation> {
    log.hung_tasks.iter().rev().take(SHOWN).map(explain).collect()
}

fn explain(task: &HungTask) -> OomExplanation {
    let stack: Vec<&str> = task.stack.iter().take(6).map(Name::as_str).collect();
    let when =
        (task.boot_seconds > 0.0).then(|| format!("{} after boot", format_age(task.boot_seconds)));
    let waited = find_wait_reason(task);
    let facts = [
        ("when", when),
        ("why", Some(describe(waited))),
        ("harmful", Some(describe_harm(waited).to_owned())),
        ("it was in", (!stack.is_empty()).then(|| stack.join(", "))),
    ];
    let facts = facts.into_iter().filter_map(|(label, text)| Some(OomFact { label, text: text? }));
    OomExplanation {
        source: task.source.clone(),
        unix_seconds: None,
        stamp: task.stamp.clone(),
        title: format!(
            "{} (pid {}) had not run for more than {} seconds; it was not killed",
            task.name, task.pid, task.seconds
        ),
        facts: facts.collect(),
        change: suggest_change(waited),
        what_if: Vec::new(),
    }
}

fn find_wait_reason(task: &HungTask) -> WaitedFor {
    let within = |functions: &'static [&'static str]| {
        // the compiler adds suffixes to function names: __alloc_pages_slowpath.constprop.0
        let is_it = |name: &str, function: &str| {
            name.strip_prefix(function).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        functions
            .iter()
            .copied()
            .find(|function| task.stack.iter().any(|name| is_it(name.as_str(), function)))
    };
    if task.stack.is_empty() {
        return WaitedFor::NotKnown;
    }
    if let Some(function) = within(RECLAIM) {
        return WaitedFor::Memory(function);
    }
    if let Some(function) = within(SWAP_IN) {
        return WaitedFor::Swap(function);
    }
    if let Some(function) = within(WRITEBACK) {
        return WaitedFor::Writeback(function);
    }
    within(FILE_IN).map_or(WaitedFor::Else, WaitedFor::File)
}

fn describe(waited: WaitedFor) -> String {
    match waited {
        WaitedFor::Memory(function) => format!(
            "it waited for memory, in {function}: there the kernel frees pages, or holds a task back until some are free"
        ),
        WaitedFor::Writeback(function) => format!(
            "it had to wait until data that was written to files was on the disk, in {function}: the disk is slower than \
             the programs that write to it"
        ),
        WaitedFor::Swap(function) => {
            format!("it waited for a page that had been swapped out, in {function}")
        }
        WaitedFor::File(function) => format!(
            "it waited for a page of a file, such as its own code, in {function}; under memory pressure that is code \
             that was dropped and is read again, otherwise a slow disk"
        ),
        WaitedFor::Else => {
            "nothing in the stack is about memory: it waited for a lock, a disk or another task"
                .to_owned()
        }
        WaitedFor::NotKnown => "the text has no stack of it".to_owned(),
    }
}

fn describe_harm(waited: WaitedFor) -> &'static str {
    match waited {
        WaitedFor::Memory(_) | WaitedFor::Swap(_) => {
            "the message changes nothing, but the program could do nothing for that long, because memory was short"
        }
        WaitedFor::Writeback(_) | WaitedFor::File(_) => {
            "the message changes nothing; if many tasks have it at the same time, memory or the disk was too slow for all"
        }
        WaitedFor::Else | WaitedFor::NotKnown => {
            "the message changes nothing; whether it is about memory is not shown by it"
        }
    }
}

fn suggest_change(waited: WaitedFor) -> Vec<String> {
    let command = match waited {
        WaitedFor::Memory(_)
        | WaitedFor::Swap(_)
        | WaitedFor::Writeback(_)
        | WaitedFor::File(_) => {
            "pagewise doctor  # on that machine: what is short of memory, and what would help"
        }
        WaitedFor::Else | WaitedFor::NotKnown => {
            "cat /proc/pressure/memory /proc/pressure/io  # on that machine: whether tasks wait for memory or for disks"
        }
    };
    vec![command.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(stack: &[&str]) -> WaitedFor {
        let stack = stack.iter().map(|name| Name::from(*name)).collect();
        find_wait_reason(&HungTask { stack, ..HungTask::default() })
    }

    #[test]
    fn the_stack_says_what_a_task_waited_for() {
        let slow = "__alloc_pages_slowpath";
        assert_eq!(
            of(&["schedule", "__alloc_pages_slowpath.constprop.0"]),
            WaitedFor::Memory(slow)
        );
        assert_eq!(of(&["io_schedule", "do_swap_page"]), WaitedFor::Swap("do_swap_page"));
        assert_eq!(of(&["do_swap_page", "shrink_node"]), WaitedFor::Memory("shrink_node"));
        assert_eq!(of(&["io_schedule", "filemap_fault"]), WaitedFor::File("filemap_fault"));
        let writeback = "balance_dirty_pages";
        assert_eq!(of(&["io_schedule", writeback]), WaitedFor::Writeback(writeback));
        assert_eq!(of(&["rwsem_down_write_slowpath"]), WaitedFor::Else);
        assert_eq!(of(&["shrink_nodes"]), WaitedFor::Else);
        assert_eq!(of(&[]), WaitedFor::NotKnown);
    }
}
