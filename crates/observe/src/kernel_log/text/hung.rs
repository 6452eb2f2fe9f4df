// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages about tasks that did not run for a long time ("blocked for more than 120 seconds"), with
//! the kernel functions in which they waited.
//!
//! The form is that of `check_hung_task` in kernel/hung_task.c, and of the stack that the kernel
//! prints after it: `try_to_free_pages+0xdb/0x1b0`.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use pagewise_model::{HungTask, Name};

/// Maximum number of functions that are kept of a stack, the innermost first.
const FUNCTIONS: usize = 24;
/// Number of messages after which a stack is taken to be complete.
const LONGEST: usize = 64;
/// The last line of a stack since Linux 5.17.
const END: &str = " </TASK>";
/// Maximum number of tasks that are kept.
const KEPT: usize = 100;

/// The tasks of a text so far.
#[derive(Debug, Default)]
pub(crate) struct HungTasks {
    found: Vec<HungTask>,
    left_out: u64,
    /// Number of messages since the last task was named, while its stack may go on.
    since: Option<usize>,
}

impl HungTasks {
    /// Whether further lines of a stack may follow, so that each message has to be parsed.
    pub(crate) fn is_in_stack(&self) -> bool {
        self.since.is_some()
    }

    pub(crate) fn is_of_interest(text: &[u8]) -> bool {
        static BLOCKED: LazyLock<Finder<'_>> =
            LazyLock::new(|| Finder::new(" blocked for more than "));
        BLOCKED.find(text).is_some()
    }

    /// Takes a message of the kernel; `about` adds the place and the time of the message.
    pub(crate) fn take(&mut self, text: &[u8], about: impl FnOnce(HungTask) -> HungTask) {
        if let Some(task) = parse(text) {
            if self.found.len() < KEPT {
                self.found.push(about(task));
                self.since = Some(0);
            } else {
                self.left_out += 1;
                self.since = None;
            }
            return;
        }
        let Some(since) = &mut self.since else { return };
        *since += 1;
        let Some(task) = self.found.last_mut() else { return };
        for line in text.split(|byte| *byte == b'\n') {
            let function = parse_function(line);
            if let Some(function) = function.filter(|_| task.stack.len() < FUNCTIONS) {
                task.stack.push(Name::from_bytes(function));
            }
        }
        if *since > LONGEST || memchr::memmem::find(text, END.as_bytes()).is_some() {
            self.since = None;
        }
    }

    /// What a recording keeps of a message of the kernel: the task with the name that `rename` gives
    /// it, and the functions of its stack; `None` of any other message.
    pub(crate) fn keep(
        &mut self,
        text: &[u8],
        rename: &mut dyn FnMut(&[u8]) -> Vec<u8>,
    ) -> Option<Vec<u8>> {
        let (before, was_open) = (self.found.len(), self.is_in_stack());
        let functions = self.found.last().map_or(0, |task| task.stack.len());
        self.take(text, |task| task);
        let task = self.found.last()?;
        if self.found.len() > before {
            let rest = format!(":{} blocked for more than {} seconds.", task.pid, task.seconds);
            let name = rename(task.name.as_str().as_bytes());
            return Some([b"INFO: task ".as_slice(), &name, rest.as_bytes()].concat());
        }
        if !was_open {
            return None;
        }
        let new = task.stack.get(functions..).unwrap_or_default();
        let mut lines: Vec<String> = new.iter().map(|name| format!(" {name}+0x0/0x0")).collect();
        let is_end = memchr::memmem::find(text, END.as_bytes()).is_some();
        lines.extend(is_end.then(|| END.to_owned()));
        (!lines.is_empty()).then(|| lines.join("\n").into_bytes())
    }

    pub(crate) fn finish(self) -> (Vec<HungTask>, u64) {
        (self.found, self.left_out)
    }
}

/// Parses `INFO: task jbd2/sda1-8:310 blocked for more than 120 seconds.` The name may contain colons.
fn parse(text: &[u8]) -> Option<HungTask> {
    let text = std::str::from_utf8(text).ok()?;
    let rest = text.strip_prefix("INFO: task ")?;
    let (task, rest) = rest.rsplit_once(" blocked for more than ")?;
    let (name, pid) = task.rsplit_once(':')?;
    let (seconds, rest) = rest.split_once(' ')?;
    if !rest.starts_with("second") {
        return None;
    }
    Some(HungTask {
        name: Name::from(name),
        pid: pid.parse().ok()?,
        seconds: seconds.parse().ok()?,
        ..HungTask::default()
    })
}

/// The name of the function in a line of a stack. A line with `?` is an old value on the stack and not a caller:
/// the result is `None`.
fn parse_function(line: &[u8]) -> Option<&[u8]> {
    let line = line.trim_ascii();
    let line = match line.strip_prefix(b"[<") {
        // before Linux 4.10 the address stands before the name
        Some(rest) => rest.split(|byte| *byte == b' ').nth(1)?,
        None => line,
    };
    let at = memchr::memmem::find(line, b"+0x")?;
    let name = &line[..at];
    let is_name = !name.is_empty()
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(byte));
    (is_name && memchr::memchr(b'/', &line[at..]).is_some()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(messages: &[&str]) -> Vec<HungTask> {
        let mut hung = HungTasks::default();
        messages.iter().for_each(|message| hung.take(message.as_bytes(), |task| task));
        hung.finish().0
    }

    fn stack(task: &HungTask) -> Vec<&str> {
        task.stack.iter().map(Name::as_str).collect()
    }

    #[test]
    fn a_task_has_its_stack_in_old_and_new_forms() {
        let new = taken(&[
            "INFO: task kworker/u8:2:310 blocked for more than 120 seconds.",
            "      Not tainted 6.12.9 #1",
            "\"echo 0 > /proc/sys/kernel/hung_task_timeout_secs\" disables this message.",
            "task:kworker/u8:2 state:D stack:0 pid:310 tgid:310 ppid:2 flags:0x00004000",
            "Call Trace:",
            " <TASK>",
            " __schedule+0x3f2/0x1500",
            " ? __mod_timer+0x1/0x2",
            " try_to_free_pages+0xdb/0x1b0\n  __alloc_pages_slowpath.constprop.0+0x372/0xd90",
            " </TASK>",
            " shrink_node+0x1/0x2",
        ]);
        let [task] = &new[..] else { panic!("{new:?}") };
        assert_eq!((task.name.as_str(), task.pid, task.seconds), ("kworker/u8:2", 310, 120));
        let expected = ["__schedule", "try_to_free_pages", "__alloc_pages_slowpath.constprop.0"];
        assert_eq!(stack(task), expected);
        let old = taken(&[
            "INFO: task postgres:77 blocked for more than 120 seconds.",
            " [<ffffffff8163a909>] schedule+0x29/0x70",
            " [<ffffffff8163a91a>] ? bit_wait+0x50/0x50",
            " [<ffffffff811c5b8c>] io_schedule_timeout+0xae/0x130",
        ]);
        assert_eq!(stack(&old[0]), ["schedule", "io_schedule_timeout"]);
    }

    /// What a recording keeps gives the same tasks, under other names, and is kept as it is.
    #[test]
    fn what_is_kept_gives_the_same_tasks() {
        let messages = [
            "INFO: task secret:310 blocked for more than 120 seconds.",
            "      Not tainted 6.12.9 #1",
            "task:secret state:D stack:0 pid:310 tgid:310 ppid:2 flags:0x00004000",
            " __schedule+0x3f2/0x1500",
            " ? __mod_timer+0x1/0x2",
            " try_to_free_pages+0xdb/0x1b0",
            " </TASK>",
            " shrink_node+0x1/0x2",
            "INFO: task b:311 blocked for more than 241 seconds.",
        ];
        let keep = |messages: &[String]| {
            let mut hung = HungTasks::default();
            let kept = messages
                .iter()
                .filter_map(|message| hung.keep(message.as_bytes(), &mut |_| b"proc-1".to_vec()));
            kept.map(|kept| String::from_utf8(kept).unwrap()).collect::<Vec<_>>()
        };
        let once = keep(&messages.map(str::to_owned));
        assert_eq!(
            once,
            [
                "INFO: task proc-1:310 blocked for more than 120 seconds.",
                " __schedule+0x0/0x0",
                " try_to_free_pages+0x0/0x0",
                " </TASK>",
                "INFO: task proc-1:311 blocked for more than 241 seconds.",
            ]
        );
        assert_eq!(keep(&once), once);
        let named = |found: Vec<HungTask>| {
            found.into_iter().map(|task| (task.pid, task.seconds, task.stack)).collect::<Vec<_>>()
        };
        let kept: Vec<&str> = once.iter().map(String::as_str).collect();
        assert_eq!(named(taken(&kept)), named(taken(&messages)));
    }

    #[test]
    fn other_messages_are_none() {
        for message in [
            "INFO: task blocked for more than 120 seconds.",
            "INFO: task a:b blocked for more than 120 seconds.",
            "INFO: task a:1 blocked for more than x seconds.",
            "INFO: task a:1 blocked for more than 120 apples",
            "a+0x1/0x2",
            "",
        ] {
            assert!(taken(&[message]).is_empty(), "{message}");
        }
        assert!(parse_function(b"a b+0x1/0x2").is_none() && parse_function(b"+0x1/0x2").is_none());
    }
}
