// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise fleet report`: many machines at once.

use pagewise_model::{
    DifferingSetting, FleetCompression, FleetFinding, FleetGroup, FleetLimits, FleetReport, Level,
    LimitSums, Name, Outlier, OutlierMeasure, SettingValue, Severity, SwapSetup,
};

use super::kit::{Line, Page, Role};
use super::table::{Cell, Column, NONE, Table};
use super::verdict;
use super::words::{count, plural};
use crate::time;

/// Maximum number of rows of each table; JSON has all.
const SHOWN: usize = 20;
/// Maximum number of findings: there are fewer rules than twice this.
const SHOWN_FINDINGS: usize = 40;
/// Maximum number of settings and of outliers of a group.
const SHOWN_OF_GROUP: usize = 10;
/// Number of values of a setting that are printed.
const VALUES: usize = 3;

pub(super) fn print(page: &mut Page, report: &FleetReport) {
    print_head(page, report);
    if report.machines == 0 {
        return;
    }
    print_findings(page, &report.findings);
    print_groups(page, &report.groups);
    for group in &report.groups {
        print_differences(page, group);
    }
    print_gains(page, report);
}

fn print_head(page: &mut Page, report: &FleetReport) {
    let machines = plural(report.machines, "machine");
    let when = report.unix_seconds.and_then(|ends| {
        let [first, last] = ends.map(|seconds| time::timestamp(seconds).map(|it| it.to_string()));
        let (first, last) = (first?, last?);
        let day = |time: &str| time.chars().take(10).collect::<String>();
        let (first, last) = (day(&first), day(&last));
        Some(if first == last { format!(" of {first}") } else { format!(" of {first} to {last}") })
    });
    let title = format!("{machines}{}", when.unwrap_or_default());
    page.line(&Line::default().span(Role::Strong, title));
    let levels =
        report.levels.iter().map(|it| format!("{} {}", count(it.machines), word(it.level)));
    page.fact_items("verdicts", &levels.collect::<Vec<_>>());
    if report.older_readings > 0 {
        let older = plural(report.older_readings, "older reading");
        page.fact("not counted", &format!("{older} of a machine that is counted by a newer one"));
    }
    if report.unread_files > 0 {
        page.fact_in("not read", Role::Warning, &plural(report.unread_files, "file"));
        for unread in report.unread.iter().take(SHOWN_OF_GROUP) {
            page.hang(Line::indent(4), 6, Role::Plain, &format!("{}: {}", unread.file, unread.why));
        }
        let more = report.unread_files.saturating_sub(SHOWN_OF_GROUP as u64);
        if more > 0 {
            page.prose(4, Role::Quiet, &format!("and {} more; --json has 100", count(more)));
        }
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Unknown => "not known",
        level => verdict::label(level),
    }
}

fn names(examples: &[Name], machines: u64) -> String {
    let mut list: Vec<&str> = examples.iter().map(Name::as_str).collect();
    if machines > examples.len() as u64 {
        list.push("…");
    }
    list.join(", ")
}

const fn severity(severity: Severity) -> (Role, &'static str) {
    match severity {
        Severity::Critical => (Role::Critical, "critical"),
        Severity::Warning => (Role::Warning, "warning"),
        Severity::Info => (Role::Quiet, "info"),
    }
}

fn print_findings(page: &mut Page, findings: &[FleetFinding]) {
    if findings.is_empty() {
        page.heading("Findings", "none on any machine");
        return;
    }
    page.heading("Findings", "`pagewise doctor` on the machine explains each");
    let columns = vec![
        Column::left("finding"),
        Column::left("worst"),
        Column::right("machines"),
        Column::words("for example"),
    ];
    let mut table = Table::new(4, columns);
    for finding in findings.iter().take(SHOWN_FINDINGS) {
        let (role, label) = severity(finding.severity);
        table.row(vec![
            finding.id.as_str().into(),
            Cell::new(role, label),
            count(finding.machines).into(),
            names(&finding.examples, finding.machines).into(),
        ]);
    }
    table.print(page);
    more(page, findings.len().saturating_sub(SHOWN_FINDINGS), "finding");
}

fn more(page: &mut Page, rest: usize, noun: &str) {
    let rest = rest as u64;
    if rest > 0 {
        page.prose(
            4,
            Role::Quiet,
            &format!("and {}; --json has all", plural(rest, &format!("more {noun}"))),
        );
    }
}

fn print_groups(page: &mut Page, groups: &[FleetGroup]) {
    page.heading(
        "Groups",
        "about as much RAM, same architecture, series of kernels and kinds of swap",
    );
    let columns = vec![
        Column::right("machines"),
        Column::right("RAM"),
        Column::left("architecture").spare(1),
        Column::left("Linux"),
        Column::left("swap"),
        Column::right("available (median)"),
        Column::right("short of memory"),
    ];
    let mut table = Table::new(4, columns);
    for group in groups.iter().take(SHOWN) {
        let text = |value: Option<&Name>| value.map_or(NONE, Name::as_str).to_owned();
        let short = match group.short {
            0 => Cell::new(Role::Quiet, "0"),
            short => Cell::new(Role::Warning, count(short)),
        };
        table.row(vec![
            count(group.machines).into(),
            group.ram_bytes.map_or_else(|| NONE.to_owned(), |ram| ram.to_string()).into(),
            text(group.architecture.as_ref()).into(),
            text(group.kernel.as_ref()).into(),
            describe_swap(group.swap).into(),
            group
                .available_percent
                .map_or_else(|| NONE.to_owned(), |it| format!("{:.0} %", it.get()))
                .into(),
            short,
        ]);
    }
    table.print(page);
    more(page, groups.len().saturating_sub(SHOWN), "group");
}

const fn describe_swap(swap: SwapSetup) -> &'static str {
    match swap {
        SwapSetup::Unknown => "not known",
        SwapSetup::None => "none",
        SwapSetup::Disk => "disk",
        SwapSetup::Zswap => "zswap and disk",
        SwapSetup::Zram => "zram",
        SwapSetup::ZramAndDisk => "zram and disk",
    }
}

fn describe_group(group: &FleetGroup) -> String {
    let mut parts = vec![plural(group.machines, "machine")];
    parts.extend(group.ram_bytes.map(|ram| ram.to_string()));
    parts.extend(group.architecture.as_ref().map(ToString::to_string));
    parts.extend(group.kernel.as_ref().map(|series| format!("Linux {series}")));
    parts.push(format!("swap: {}", describe_swap(group.swap)));
    parts.join(", ")
}

/// Prints what differs within a group; nothing if nothing does.
fn print_differences(page: &mut Page, group: &FleetGroup) {
    if group.settings.is_empty() && group.outliers.is_empty() {
        return;
    }
    page.heading("Differences", &format!("among {}", describe_group(group)));
    for outlier in group.outliers.iter().take(SHOWN_OF_GROUP) {
        page.hang(Line::indent(4), 6, Role::Warning, &describe_outlier(outlier));
    }
    rest(page, group.outliers.len(), "machine that differs");
    for setting in group.settings.iter().take(SHOWN_OF_GROUP) {
        page.hang(Line::indent(4), 6, Role::Plain, &describe_setting(setting));
    }
    rest(page, group.settings.len(), "setting that differs");
}

fn rest(page: &mut Page, all: usize, noun: &str) {
    let rest = all.saturating_sub(SHOWN_OF_GROUP) as u64;
    if rest > 0 {
        let text = format!("and {} more ({noun}); --json has all", count(rest));
        page.prose(4, Role::Quiet, &text);
    }
}

fn describe_outlier(outlier: &Outlier) -> String {
    let (value, middle) = (outlier.percent.get(), outlier.median_percent.get());
    let what = match outlier.measure {
        OutlierMeasure::Available => "of RAM is available",
        OutlierMeasure::SwapUsed => "of RAM is used in swap",
        OutlierMeasure::Waited => "of the last minute some task waited for memory",
        OutlierMeasure::Anonymous => "of RAM is anonymous memory",
    };
    format!("{}: {value:.0} % {what}; the median of the group is {middle:.0} %", outlier.machine)
}

fn describe_setting(setting: &DifferingSetting) -> String {
    let describe = |(at, value): (usize, &SettingValue)| {
        let machines = count(value.machines);
        match at {
            // the most frequent value needs no examples
            0 => format!("{} on {machines}", value.value),
            _ => format!(
                "{} on {machines} ({})",
                value.value,
                names(&value.examples, value.machines)
            ),
        }
    };
    let mut values: Vec<String> =
        setting.values.iter().enumerate().take(VALUES).map(describe).collect();
    let more = setting.values.len().saturating_sub(VALUES) as u64;
    if more > 0 {
        values.push(plural(more, "further value"));
    }
    format!("{}: {}", setting.setting, values.join(", "))
}

fn print_gains(page: &mut Page, report: &FleetReport) {
    page.heading("What would gain", "over all machines");
    print_compression(page, &report.compression);
    match &report.limits {
        Some(limits) => page.fact("limits", &describe_limits(limits)),
        None => page.fact("limits", "not known: no machine has the memory cgroups that this needs"),
    }
    let huge = report.huge_pages;
    let share = huge.huge_bytes.percent_of(huge.anon_bytes);
    let text = match share {
        Some(share) => format!(
            "{} of {} anonymous memory ({:.0} %) is in huge pages, on {}. What more would gain is not in a reading: \
             pagewise thp measures it on the machine",
            huge.huge_bytes,
            huge.anon_bytes,
            share.get(),
            plural(huge.machines, "machine"),
        ),
        None => "not known".to_owned(),
    };
    page.fact("huge pages", &text);
}

fn describe_limits(limits: &FleetLimits) -> String {
    let LimitSums { could_be_lower, freed_bytes, too_low } = limits.sums;
    let machines = plural(limits.machines, "machine");
    let lower = match could_be_lower {
        0 => format!("no cgroup on {machines} has a limit above what it needs"),
        more => {
            let cgroups = plural(more, "cgroup");
            format!("{cgroups} on {machines} could have lower limits: {freed_bytes} less in all")
        }
    };
    let low = match too_low {
        0 => "no limit is too low".to_owned(),
        1 => "1 limit is too low".to_owned(),
        more => format!("{} limits are too low", count(more)),
    };
    format!(
        "{lower}; {low}. This is from single readings, so its confidence is low: `pagewise limits` on the machine says \
         more before one is changed"
    )
}

fn print_compression(page: &mut Page, found: &FleetCompression) {
    let now = if found.storing_machines == 0 {
        "no machine stores pages in zram or zswap".to_owned()
    } else {
        let saved = found.stored_bytes.saturating_sub(found.pool_bytes);
        format!(
            "{} keep {} in {} of RAM: {saved} more than without",
            plural(found.storing_machines, "machine"),
            found.stored_bytes,
            found.pool_bytes,
        )
    };
    page.fact("zram, zswap", &now);
    if found.without_machines == 0 {
        return;
    }
    let have = format!(
        "{} without have {} of inactive anonymous memory",
        plural(found.without_machines, "machine"),
        found.inactive_bytes,
    );
    let text = match found.saved_bytes {
        Some(saved) => format!(
            "{have}. At most {} of it would be saved ({} to {}, 95 % interval), as well as memory compresses on the {} \
             that show it. How much of it is really idle is not in a reading",
            saved.value,
            saved.low,
            saved.high,
            plural(found.ratio_machines, "machine"),
        ),
        None => format!(
            "{have}. How well it compresses is not known: {} it, and 5 are needed (sudo pagewise report --json \
             samples it)",
            shows(found.ratio_machines)
        ),
    };
    page.fact("", &text);
}

fn shows(machines: u64) -> String {
    match machines {
        0 => "no machine shows".to_owned(),
        1 => "1 machine shows".to_owned(),
        more => format!("{more} machines show"),
    }
}
