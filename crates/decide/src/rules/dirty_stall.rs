// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: a large amount of dirty data waits for the disk, and tasks stall.
//!
//! Whether a dirty limit is too high depends on the speed of the disk, which the kernel does not
//! report (virtual disks claim to be rotational). The rule therefore requires actual harm: much
//! dirty data, and stalls.

use pagewise_facts::settings;
use pagewise_model::{Bytes, Evidence, Finding, Interval, Severity, Snapshot};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::mark_writing_with_caution;

pub(super) const RULE: Rule = Rule {
    id: "dirty-stall",
    doc: "Much dirty data waits to be written to disk while tasks wait for I/O: the limits on dirty data \
          (vm.dirty_*) are too large for this disk.",
    diagnose,
};

/// Minimum amount of dirty memory for a finding: writing it takes ten seconds at 100 MB/s, for
/// which a sync has to wait.
const WORTH: Bytes = Bytes::new(1 << 30);
/// Minimum share of the last minute in which some task was stalled on I/O, in percent.
const STALL_PERCENT: f64 = 10.0;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    finding(&interval.end).into_iter().collect()
}

fn finding(host: &Snapshot) -> Option<Finding> {
    let memory = &host.memory;
    let writeback = memory.writeback.get().unwrap_or(Bytes::new(0));
    let waiting = memory.dirty.get()?.saturating_add(writeback);
    let stall = host.psi.io.some.avg60.get()?;
    if waiting < WORTH || stall.get() < STALL_PERCENT {
        return None;
    }
    let limit = limit(host)?;
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Warning,
        title: format!("{waiting} of dirty data wait to be written, and tasks wait for I/O"),
        what: format!(
            "{waiting} of data wait to be written to disk (Dirty and Writeback); the kernel allows about {} \
             of dirty data ({}). Tasks waited for I/O {} of the last minute.",
            limit.bytes,
            limit.name,
            stall.format_share_of_time()
        ),
        why: "Programs write into the page cache faster than the disk can store the data; if the limit on \
              dirty data is large, minutes of disk writes queue up. A task that calls fsync or reads from \
              the disk waits behind these writes; with a smaller limit, only the program that writes has to \
              wait."
            .to_owned(),
        evidence: proof(host, &limit),
        next: vec![
            mark_writing_with_caution(
                "sudo sysctl vm.dirty_background_bytes=67108864 vm.dirty_bytes=268435456",
                &format!("until the next boot; undo with sudo sysctl {}", undo_command(host)),
            ),
            "grep -E 'Dirty|Writeback' /proc/meminfo; cat /proc/pressure/io".to_owned(),
        ],
    })
}

/// The amount of dirty memory above which writers are throttled.
#[derive(Debug)]
struct Limit<'a> {
    name: String,
    bytes: Bytes,
    set: settings::Setting<'a>,
}

/// Returns the limit above which writers of dirty pages are throttled. `dirty_bytes` takes
/// precedence over `dirty_ratio` if it is not zero. The kernel applies the ratio to free memory
/// plus page cache, which is about the available memory.
fn limit(host: &Snapshot) -> Option<Limit<'_>> {
    if let Some(set) = settings::number(host, "vm.dirty_bytes").filter(|set| set.value > 0) {
        return Some(Limit {
            name: "vm.dirty_bytes".to_owned(),
            bytes: Bytes::new(set.value),
            set,
        });
    }
    let set = settings::number(host, "vm.dirty_ratio")?;
    let available = host.memory.available.get()?;
    let bytes = Bytes::new(available.get() / 100 * set.value.min(100));
    Some(Limit { name: format!("vm.dirty_ratio {}", set.value), bytes, set })
}

/// Returns the command that undoes a change of the limit. Setting one of the two values (bytes or
/// ratio) clears the other, so the command writes the one that was not zero.
fn undo_command(host: &Snapshot) -> String {
    let pair = |kind: &str| {
        let bytes = format!("vm.dirty_{kind}bytes");
        let ratio = format!("vm.dirty_{kind}ratio");
        let set = |name: &str| settings::number(host, name).map(|set| set.value);
        match set(&bytes).filter(|&value| value > 0) {
            Some(value) => format!("{bytes}={value}"),
            None => format!("{ratio}={}", set(&ratio).unwrap_or(10)),
        }
    };
    format!("{} {}", pair("background_"), pair(""))
}

fn proof(host: &Snapshot, limit: &Limit<'_>) -> Vec<Evidence> {
    EvidenceList::new()
        .named("Dirty", &host.memory.dirty)
        .named("Writeback", &host.memory.writeback)
        .named("MemAvailable", &host.memory.available)
        .value(limit.set.live)
        .named("some avg60", &host.psi.io.some.avg60)
        .into_evidence()
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::Percent;

    use super::*;
    use crate::testing::{assert_silent, calm, gib, knob, line, mib, only, with};

    fn writing(dirty: Bytes, stalled: f64) -> Interval {
        with(|host| {
            knob(host, "vm.dirty_ratio", "20");
            knob(host, "vm.dirty_bytes", "0");
            knob(host, "vm.dirty_background_ratio", "10");
            knob(host, "vm.dirty_background_bytes", "0");
            host.memory.dirty = line("/proc/meminfo", 17, dirty);
            host.memory.writeback = line("/proc/meminfo", 18, mib(100));
            host.psi.io.some.avg60 = line("/proc/pressure/io", 1, Percent::new(stalled));
        })
    }

    pub(crate) fn host_with_finding() -> Interval {
        writing(mib(1500), 62.0)
    }

    #[test]
    fn much_waits_while_tasks_stall() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(
            finding.title,
            "1.6 GiB of dirty data wait to be written, and tasks wait for I/O"
        );
        assert!(
            finding
                .what
                .contains("the kernel allows about 1.8 GiB of dirty data (vm.dirty_ratio 20)")
        );
        let back = "undo with sudo sysctl vm.dirty_background_ratio=10 vm.dirty_ratio=20";
        assert!(finding.next[0].ends_with(back), "{}", finding.next[0]);
    }

    #[test]
    fn a_limit_in_bytes_rules() {
        let mut interval = host_with_finding();
        knob(&mut interval.end, "vm.dirty_bytes", "4294967296");
        let finding = only(&RULE, &interval);
        assert!(
            finding.what.contains("the kernel allows about 4.0 GiB of dirty data (vm.dirty_bytes)")
        );
        assert!(finding.next[0].ends_with("vm.dirty_bytes=4294967296"), "{}", finding.next[0]);
    }

    #[test]
    fn a_fast_disk_or_little_data_is_silent() {
        assert_silent(&RULE, &calm());
        assert_silent(&RULE, &writing(gib(3), 2.0));
        assert_silent(&RULE, &writing(mib(700), 62.0));
    }
}
