// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The choice of what a text report contains: its sections, and the order of its tables of
//! processes and cgroups. JSON always has everything.

use std::collections::BTreeMap;

use pagewise_model::Name;

/// A part of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "SECTIONS has a sentence for each")]
pub enum Section {
    Findings,
    Memory,
    Swap,
    Contents,
    Movement,
    Pressure,
    Zones,
    Zram,
    Thp,
    Savers,
    Cgroups,
    Processes,
    Settings,
    Owners,
    Missing,
    Capabilities,
}

/// Every section in the order of the page, with its name as an option and its description. The complete
/// report has all but the last.
pub const SECTIONS: [(Section, &str, &str); 16] = [
    (Section::Findings, "findings", "the verdict, and the findings about what is wrong"),
    (
        Section::Memory,
        "memory",
        "what memory is used for, and how much is committed (Committed_AS)",
    ),
    (Section::Swap, "swap", "swap areas in the order in which the kernel fills them"),
    (
        Section::Contents,
        "contents",
        "how much memory would be saved if the largest processes were compressed",
    ),
    (
        Section::Movement,
        "movement",
        "pages that were swapped, read again or scanned during the interval",
    ),
    (Section::Pressure, "pressure", "time that programs waited for memory, I/O and CPUs (PSI)"),
    (Section::Zones, "zones", "free memory of each zone, its watermarks, and fragmentation"),
    (Section::Zram, "zram", "zram and zmerge devices (compressed RAM)"),
    (Section::Thp, "thp", "huge pages"),
    (Section::Savers, "savers", "zswap, KSM, MGLRU, DAMON and hugetlb pools"),
    (Section::Cgroups, "cgroups", "the largest memory cgroups"),
    (Section::Processes, "processes", "the largest processes"),
    (Section::Settings, "settings", "settings that differ from the kernel's defaults"),
    (
        Section::Owners,
        "owners",
        "settings that configuration files set at boot, and which file wins",
    ),
    (
        Section::Missing,
        "missing",
        "what pagewise could not read or parse, and what root could read",
    ),
    (
        Section::Capabilities,
        "capabilities",
        "features of memory management that the kernel has or lacks; printed only if it is named here",
    ),
];

/// The order of tables, the largest value first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    /// By size: processes by proportional size, or resident size if that is unknown; cgroups by
    /// usage.
    #[default]
    Size,
    /// Processes or cgroups by memory in swap.
    Swap,
    /// Processes or cgroups by growth of anonymous memory, RAM and swap together.
    Growth,
    /// Processes by major faults; cgroups by refaults.
    Refaults,
    /// Processes by CPU time over the interval; cgroups as for [`Sort::Size`].
    Cpu,
}

/// A column of the table of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "COLUMNS has a sentence for each")]
pub enum Field {
    Pid,
    User,
    Command,
    Unit,
    Virtual,
    Resident,
    Pss,
    Anon,
    File,
    Shmem,
    Swap,
    Growth,
    Faults,
    Cpu,
    Age,
    Huge,
}

/// Every column of the process table, with its name as an option and its description.
pub const COLUMNS: [(Field, &str, &str); 16] = [
    (Field::Pid, "pid", "process ID"),
    (Field::User, "user", "name of the user who owns the process"),
    (Field::Command, "command", "name of the process; with --args its command line"),
    (Field::Unit, "unit", "container, service or cgroup"),
    (Field::Virtual, "virtual", "virtual memory size"),
    (
        Field::Resident,
        "resident",
        "memory in RAM, with shared pages counted in full for each process",
    ),
    (
        Field::Pss,
        "pss",
        "memory in RAM, with shared pages divided among the processes that share them",
    ),
    (Field::Anon, "anon", "anonymous memory in RAM"),
    (Field::File, "file", "file pages in RAM"),
    (Field::Shmem, "shmem", "shared memory and tmpfs pages in RAM"),
    (Field::Swap, "swap", "anonymous memory in swap"),
    (Field::Growth, "growth", "growth of anonymous memory in RAM and in swap, per second"),
    (Field::Faults, "faults", "major faults per second"),
    (Field::Cpu, "cpu", "CPU time during the interval, in percent of one CPU"),
    (Field::Age, "age", "time since the process started"),
    (Field::Huge, "huge", "anonymous memory in huge pages"),
];

/// What the user has chosen to see in the table of processes.
#[derive(Debug, Clone, Default)]
pub struct ProcessView {
    /// The order of the processes.
    pub sort: Sort,
    /// The columns to show; empty means a default that suits the order.
    pub fields: Vec<Field>,
    /// User names by id, if they are shown and known.
    pub users: BTreeMap<u32, Name>,
    /// Command lines by process id, if they were requested.
    pub command_lines: BTreeMap<u32, Name>,
}

/// What the user has chosen to see in a report.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Whether only the first screen of the complete report is printed: the verdict, who, and what to
    /// do now.
    pub first_screen_only: bool,
    /// The sections to print; empty means all.
    pub sections: Vec<Section>,
    /// Number of rows of the tables of processes and cgroups; `None` means ten, zero means all.
    pub rows: Option<usize>,
    /// The table of processes to print; `None` prints the default table.
    pub processes: Option<ProcessView>,
    /// Why there is no estimate of the gain by compression, and what would help; `None` if there is
    /// an estimate, or if no explanation is needed.
    pub no_contents: Option<String>,
}

impl View {
    /// Whether the user chose no section: the report is the first screen and all sections.
    pub fn is_complete(&self) -> bool {
        self.sections.is_empty()
    }

    /// Whether a section is printed, provided that it has content.
    pub fn shows(&self, section: Section) -> bool {
        let is_in_complete_report = section != Section::Capabilities;
        self.sections.contains(&section) || self.sections.is_empty() && is_in_complete_report
    }

    /// Maximum number of rows of a table of processes or cgroups.
    pub fn most_rows(&self) -> usize {
        match self.rows {
            None => 10,
            Some(0) => usize::MAX,
            Some(rows) => rows,
        }
    }

    /// The order of the rows of a table.
    pub fn sort(&self) -> Sort {
        self.processes.as_ref().map_or(Sort::Size, |processes| processes.sort)
    }
}

impl ProcessView {
    /// The columns of the process table that are shown.
    pub fn shown_fields(&self) -> Vec<Field> {
        if !self.fields.is_empty() {
            return self.fields.clone();
        }
        use Field::{Command, Growth, Pid, Pss, Resident, Swap, Unit, User};
        let mut fields = if self.command_lines.is_empty() {
            vec![Pid, User, Command, Unit, Resident, Pss, Swap, Growth]
        } else {
            // the command line gets the room that is left
            vec![Pid, User, Pss, Swap, Growth]
        };
        match self.sort {
            Sort::Cpu => fields.push(Field::Cpu),
            Sort::Refaults => fields.push(Field::Faults),
            Sort::Size | Sort::Swap | Sort::Growth => {}
        }
        if !fields.contains(&Command) {
            fields.push(Command);
        }
        fields
    }

    /// Whether the table needs CPU time and faults over the interval.
    pub fn needs_rates(&self) -> bool {
        let of_rates = |field: &Field| matches!(field, Field::Cpu | Field::Faults);
        matches!(self.sort, Sort::Cpu | Sort::Refaults) || self.fields.iter().any(of_rates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unique_and_each_has_a_meaning() {
        let unique = |mut words: Vec<&str>| {
            words.sort_unstable();
            words.windows(2).all(|pair| pair[0] != pair[1])
        };
        assert!(unique(SECTIONS.iter().map(|(_, word, _)| *word).collect()));
        assert!(unique(COLUMNS.iter().map(|(_, word, _)| *word).collect()));
        assert!(SECTIONS.iter().all(|(_, _, about)| about.len() > 8));
        assert!(COLUMNS.iter().all(|(_, _, about)| about.len() > 8));
    }

    #[test]
    fn nothing_chosen_shows_all_of_it() {
        let all = View::default();
        let left_out = SECTIONS.iter().filter(|(section, _, _)| !all.shows(*section));
        assert_eq!(left_out.map(|(_, word, _)| *word).collect::<Vec<_>>(), ["capabilities"]);
        let one = View { sections: vec![Section::Zram], rows: Some(0), ..View::default() };
        assert_eq!(SECTIONS.iter().filter(|(section, _, _)| one.shows(*section)).count(), 1);
        assert_eq!((all.most_rows(), one.most_rows()), (10, usize::MAX));
    }

    #[test]
    fn rates_are_needed_by_what_shows_them() {
        let sorted = |sort| ProcessView { sort, ..ProcessView::default() };
        assert!(sorted(Sort::Cpu).needs_rates() && !sorted(Sort::Growth).needs_rates());
        let shown =
            ProcessView { fields: vec![Field::Pid, Field::Faults], ..ProcessView::default() };
        assert!(shown.needs_rates());
        assert!(sorted(Sort::Cpu).shown_fields().contains(&Field::Cpu));
    }
}
