// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: a process keeps deleted files of a tmpfs open or mapped. Neither `ls` nor `du` shows their
//! memory.
//!
//! Files that never had a path (memfd) are not reported, because programs use them for shared
//! memory.

use pagewise_facts::memory_files::{self, Holder};
use pagewise_model::{DeletedKind, Finding, Interval, Snapshot};

use crate::Rule;
use crate::grade::stranded;
use crate::proof::EvidenceList;
use crate::text::{count_of, process};

pub(super) const RULE: Rule = Rule {
    id: "deleted-files",
    doc: "A process keeps deleted files of a tmpfs open or mapped; the kernel frees the memory of these files only \
          when the process closes or unmaps them.",
    diagnose,
};

/// Share of RAM in deleted files, in percent, below which a restart of the process is not
/// worthwhile.
const WORTH_PERCENT: f64 = 2.0;
/// Maximum number of files listed as evidence.
const NAMED: usize = 5;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    finding(&interval.end).into_iter().collect()
}

fn finding(host: &Snapshot) -> Option<Finding> {
    let total = host.memory.total.get()?;
    let of_tmpfs = |kind| kind == DeletedKind::Tmpfs;
    let holder = memory_files::find_holders(&host.memory_files, of_tmpfs).into_iter().next()?;
    let share = holder.bytes.percent_of(total)?;
    if share.get() < WORTH_PERCENT {
        return None;
    }
    let pid = holder.pid;
    let name = process(holder.process.as_str(), pid);
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: stranded::severity(host, holder.bytes),
        title: format!("{name} keeps {} of deleted files {}", holder.bytes, describe_hold(&holder)),
        what: describe(&holder, &name, share.get()),
        why: "A deleted file in a tmpfs takes memory until the last process closes and unmaps it, and the kernel can swap \
              this memory but not drop it. df counts a deleted file, but ls and du do not show it, because it \
              has no path any more."
            .to_owned(),
        evidence: holder
            .files
            .iter()
            .take(NAMED)
            .fold(EvidenceList::new(), |proof, file| proof.named("deleted file of", &file.bytes))
            .named("MemTotal", &host.memory.total)
            .named("MemAvailable", &host.memory.available)
            .into_evidence(),
        next: vec![
            if holder.files.iter().all(|file| file.mapped) {
                format!("sudo grep deleted /proc/{pid}/maps")
            } else {
                format!("sudo ls -l /proc/{pid}/fd | grep deleted")
            },
            format!("systemctl status {pid}  # names its unit; restarting the unit frees the files"),
        ],
    })
}

/// Describes how the process keeps the files: open or mapped.
fn describe_hold(holder: &Holder<'_>) -> &'static str {
    let mapped = holder.files.iter().filter(|file| file.mapped).count();
    match mapped {
        0 => "open",
        all if all == holder.files.len() => "mapped",
        _ => "open or mapped",
    }
}

fn describe(holder: &Holder<'_>, name: &str, percent: f64) -> String {
    let files = count_of(holder.files.len() as u64, "deleted file");
    let (take, them) = if holder.files.len() == 1 { ("takes", "it") } else { ("take", "them") };
    let held = describe_hold(holder);
    let others = holder.files.iter().map(|file| file.others).max().unwrap_or_default();
    let others = match others {
        0 => String::new(),
        others => format!("; {} {them} {held} too", describe_others(others)),
    };
    format!(
        "{files} in tmpfs {take} {} ({percent:.1} % of RAM), because {name} keeps {them} {held}{others}.",
        holder.bytes,
    )
}

fn describe_others(others: u64) -> String {
    let processes = if others == 1 { "process has" } else { "processes have" };
    format!("{} other {processes}", crate::text::count(others))
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::{Bytes, DeletedFile, Name, Severity};

    use super::*;
    use crate::testing::{assert_silent, calm, file, gib, line, mib, only, proof_of, with};

    fn open(
        kind: DeletedKind,
        pid: u32,
        descriptor: u32,
        bytes: Bytes,
        others: u64,
    ) -> DeletedFile {
        let bytes = file(&format!("/proc/{pid}/fd/{descriptor}"), bytes);
        DeletedFile { kind, bytes, pid, process: Name::from("rsyslogd"), others, mapped: false }
    }

    fn keeping(files: Vec<DeletedFile>) -> Interval {
        with(|host| host.memory_files.deleted = files)
    }

    pub(crate) fn host_with_finding() -> Interval {
        keeping(vec![
            open(DeletedKind::Tmpfs, 812, 7, mib(900), 0),
            open(DeletedKind::Tmpfs, 77, 4, mib(600), 0),
            open(DeletedKind::Tmpfs, 812, 9, mib(100), 2),
        ])
    }

    #[test]
    fn the_process_that_keeps_most_is_named_with_its_descriptors() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(finding.title, "rsyslogd (pid 812) keeps 1000.0 MiB of deleted files open");
        assert_eq!(
            finding.what,
            "2 deleted files in tmpfs take 1000.0 MiB (6.1 % of RAM), because rsyslogd (pid 812) keeps them \
             open; 2 other processes have them open too."
        );
        assert_eq!(finding.severity, Severity::Info);
        let proof = proof_of(&finding);
        assert!(proof.starts_with("/proc/812/fd/7 = deleted file of 900.0 MiB\n"), "{proof}");
        assert!(!proof.contains("/proc/77/"));
    }

    pub(crate) fn host_with_mapped_finding() -> Interval {
        let mapped = |mut file: DeletedFile| {
            file.bytes.source = pagewise_model::Source::file("/proc/812/map_files");
            DeletedFile { mapped: true, ..file }
        };
        keeping(vec![mapped(open(DeletedKind::Tmpfs, 812, 0, mib(900), 1))])
    }

    #[test]
    fn files_that_are_only_mapped_are_told_with_their_maps() {
        let finding = only(&RULE, &host_with_mapped_finding());
        assert_eq!(finding.title, "rsyslogd (pid 812) keeps 900.0 MiB of deleted files mapped");
        assert_eq!(
            finding.what,
            "1 deleted file in tmpfs takes 900.0 MiB (5.5 % of RAM), because rsyslogd (pid 812) keeps it mapped; \
             1 other process has it mapped too."
        );
        assert_eq!(finding.next[0], "sudo grep deleted /proc/812/maps");
        let mut both = host_with_mapped_finding();
        both.end.memory_files.deleted.push(open(DeletedKind::Tmpfs, 812, 7, mib(100), 0));
        let title = only(&RULE, &both).title;
        assert!(title.ends_with("1000.0 MiB of deleted files open or mapped"), "{title}");
    }

    #[test]
    fn it_is_a_warning_where_memory_is_low() {
        let mut interval = host_with_finding();
        interval.end.memory.available = line("/proc/meminfo", 3, mib(300));
        interval.end.memory.swap_free = line("/proc/meminfo", 16, Bytes::new(0));
        assert_eq!(only(&RULE, &interval).severity, Severity::Warning);
    }

    #[test]
    fn a_third_of_ram_is_a_warning() {
        let much = keeping(vec![open(DeletedKind::Tmpfs, 812, 7, gib(6), 0)]);
        assert_eq!(only(&RULE, &much).severity, Severity::Warning);
    }

    #[test]
    fn small_files_and_files_that_never_had_a_path_are_no_trouble() {
        assert_silent(&RULE, &calm());
        assert_silent(&RULE, &keeping(vec![open(DeletedKind::Tmpfs, 812, 7, mib(300), 0)]));
        assert_silent(&RULE, &keeping(vec![open(DeletedKind::Memfd, 812, 7, gib(3), 1)]));
    }
}
