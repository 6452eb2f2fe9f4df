// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Entry points for fuzzing the journal reader with arbitrary input.
//!
//! A line with a wrong checksum is rejected at once, and a fuzzer does not guess a right one. So
//! each input is read twice: unchanged, and with the checksum of each line corrected.

use pagewise_model::plan::Plan;

use super::change::{
    Device, DisabledSwap, EnabledSwap, FileChange, FileText, Identity, LinkChange, LoadedModule,
    MemoryController, NewFolder, NewGroup, NewSwapFile, NewZram, RecordedChange, SettingChange,
    Write, ZramSetup, ZramSizeChange,
};
use super::read::Reading;
use super::record::{self, Record, RunStart};
use crate::plan::check::{describe_change, shape_complaints};

/// Parses the input. Must return without a panic, whatever it contains.
pub fn run(input: &[u8]) {
    read(input);
    read(&with_checksums(input));
}

/// Corrects the checksum of each line of the input, so that the journal reader accepts the lines.
pub fn with_checksums(input: &[u8]) -> Vec<u8> {
    let lines = input.split(|&byte| byte == b'\n');
    lines.flat_map(|line| record::with_checksum(record_of(line))).collect()
}

/// Checks a plan as far as that does not need the machine. Must return without a panic.
pub fn check_plan(plan: &Plan) {
    std::hint::black_box(shape_complaints(plan, false));
    for step in &plan.steps {
        std::hint::black_box(describe_change(&step.change));
    }
}

/// Journals as earlier versions wrote them: one of a plan, two of temporary changes.
#[must_use]
pub fn plan_journals() -> Vec<Vec<u8>> {
    let all: [&[u8]; 3] = [
        include_bytes!("plan-0.1.journal"),
        include_bytes!("lines.journal"),
        include_bytes!("early.journal"),
    ];
    all.map(<[u8]>::to_vec).to_vec()
}

/// A valid plan with which the fuzzer starts, as JSON.
#[must_use]
pub fn plan_seed() -> Vec<u8> {
    let reading = Reading::parse(include_bytes!("plan-0.1.journal"));
    serde_json::to_vec(&reading.plan()).unwrap_or_default()
}

fn read(journal: &[u8]) {
    // the lines of the ledger have the same form
    std::hint::black_box(crate::ledger::LedgerFile::parse(journal));
    let reading = Reading::parse(journal);
    let good = usize::try_from(reading.good).unwrap_or(usize::MAX);
    let again = Reading::parse(&journal[..good]);
    assert_eq!(again.records, reading.records, "what is kept says the same");
    let open = reading.open_changes();
    for (at, it) in open.iter().enumerate() {
        std::hint::black_box((it.describe(), it.area(), it.find_dependent(&open[at + 1..])));
    }
    std::hint::black_box((reading.plan(), reading.open_changes_by_step(), reading.is_applied()));
    std::hint::black_box((reading.may_be_applied(), reading.may_be_confirmed()));
}

/// The record of a line that has the right form; otherwise the line itself.
fn record_of(line: &[u8]) -> &[u8] {
    record::split_line(line).map_or(line, |(record, _)| record)
}

/// A valid journal with which the fuzzer starts.
#[must_use]
pub fn seed() -> Vec<u8> {
    let text = str::to_owned;
    let back = Write { path: text("/proc/sys/vm/swappiness"), value: text("60") };
    let device = Device { number: 1, diskseq: 9 };
    let loans = [
        RecordedChange::Module(LoadedModule { name: text("zram") }),
        RecordedChange::Zram(NewZram { others: vec![0], newest_diskseq: 8, announced: Some(1) }),
        RecordedChange::SwapOn(EnabledSwap {
            area: text("/dev/zram1"),
            diskseq: Some(9),
            zram: None,
        }),
        RecordedChange::SwapFile(NewSwapFile { path: text("/pagewise-swap-1-1"), folder_inode: 2 }),
        RecordedChange::Controller(MemoryController { folder: text("/sys/fs/cgroup") }),
        RecordedChange::Group(NewGroup { folder: text("/sys/fs/cgroup/pagewise-1-2"), home: None }),
        RecordedChange::Setting(SettingChange {
            name: text("vm.swappiness"),
            path: back.path.clone(),
            old: text("60"),
            ours: text("10"),
            back,
        }),
    ];
    let device_without_size = Device { number: 2, diskseq: 8 };
    let file = FileText { text: text("x"), mode: 0o644, user: 0, group: 0, label: Some(text("l")) };
    let setup = ZramSetup { number: 0, algorithm: text("lz4"), disksize: 4096, mem_limit: 0 };
    let of_plans = [
        RecordedChange::Folder(NewFolder { path: text("/etc/sysctl.d") }),
        RecordedChange::File(FileChange {
            path: text("/etc/sysctl.d/x.conf"),
            old: Some(file),
            ours: text("y"),
        }),
        RecordedChange::Link(LinkChange {
            path: text("/etc/sysctl.d/z.conf"),
            old: None,
            ours: text("/dev/null"),
        }),
        RecordedChange::Units,
        RecordedChange::Timer,
        RecordedChange::ZramSize(ZramSizeChange {
            device: device_without_size,
            algorithm: text("lz4"),
            disksize: 4096,
        }),
        RecordedChange::Drained(DisabledSwap {
            area: text("/dev/zram0"),
            priority: 5,
            zram: Some(setup),
        }),
    ];
    let began = Record::Began(RunStart {
        boot_id: text("b"),
        pid: 1,
        unix_seconds: 1,
        pagewise: text(env!("CARGO_PKG_VERSION")),
    });
    let taking = (1..)
        .zip(loans.into_iter().chain(of_plans))
        .map(|(id, what)| Record::Announced { id, what });
    let more = [
        Record::Made { id: 2, device },
        Record::Identified { id: 4, identity: Identity { device: 1, inode: 3 } },
        Record::Done { id: 2 },
        Record::Conflict { id: 7, found: text("5") },
        Record::Undone { id: 6 },
        Record::Step { id: text("a") },
        Record::Trial { until: 1, until_since_boot: Some(1) },
        Record::Confirmed,
        Record::Applied,
        Record::Undoing,
    ];
    [began].into_iter().chain(taking).chain(more).flat_map(|record| record.to_line()).collect()
}

/// The changes that a journal names as in force, in words.
#[cfg(test)]
pub(crate) fn open_in(journal: &[u8]) -> Vec<String> {
    Reading::parse(journal).open_changes().iter().map(super::OpenChange::describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_is_a_journal_with_everything_in_it() {
        let reading = Reading::parse(&seed());
        assert_eq!((reading.records.len(), reading.damaged_line), (25, None));
        assert_eq!(open_in(&seed()).len(), 13);
        run(&seed());
    }

    #[test]
    fn the_seed_of_plans_is_a_plan() {
        let plan: Plan = serde_json::from_slice(&plan_seed()).unwrap();
        assert!(plan.steps.len() > 1, "{plan:?}");
        check_plan(&plan);
    }

    /// A line with only a record gets its checksum, so a fuzzer need not compute it.
    #[test]
    fn sums_are_put_right() {
        let line = Record::Done { id: 1 }.to_line();
        let line = line.strip_suffix(b"\n").unwrap();
        assert_eq!(record_of(line), br#"{"event":"done","loan":1}"#);
        assert_eq!(record::with_checksum(record_of(line)), [line, b"\n"].concat());
    }
}
