// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The text of sections for absent and denied values, and for very many values.

mod host;

use pagewise_model::knob::{Access, Domain, KNOBS, Knob, KnobReading, Undo};
use pagewise_model::{Finding, Interval, KnobOwnership, Name, Reading, Severity, Snapshot, Source};
use pagewise_report::text::{
    TextStyle, capabilities, doctor, oom, report, report_in_view, settable_knobs, status,
};
use pagewise_report::view::{Section, View};
use pagewise_report::{Answer, OomFound};

const LOOK: TextStyle = TextStyle { width: 100, colour: false };

fn rich() -> Snapshot {
    host::interval().end
}

/// Lines that take effect, are overridden, are not read, or have an unknown effect are printed
/// differently, and at most a fixed number of them.
#[test]
fn settings_that_files_set() {
    let owners = host::owners();
    let text = report_with(&owners);
    for line in ["changed later", "overridden", "not read", "may win"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(text.contains("zram0: several mechanisms set up this zram device"), "{text}");
    assert!(!report_with(&[]).contains("Settings that files set"));
    let many = vec![owners[0].clone(); 50];
    assert!(report_with(&many).contains("and 10 more: pagewise report --json lists all"));
}

/// Values, instances and missing settings are distinguishable at each width.
#[test]
fn settings_that_an_arm_may_set() {
    let of = |name: &str, instance: Option<&str>, live: Reading<Name>| {
        let knob = KNOBS.iter().find(|knob| knob.name == name).unwrap();
        KnobReading { knob, instance: instance.map(Name::from), live, default: knob.default }
    };
    let size = |kib: &str, text: &str| {
        of("thp.size.enabled", Some(kib), host::found(Name::from(text), "/sys/x"))
    };
    let readings = [
        of("vm.swappiness", None, host::found(Name::from("77"), "/proc/sys/vm/swappiness")),
        of("vm.page-cluster", None, Reading::denied("run as root", Source::file("/y"))),
        of("vm.defrag_mode", None, Reading::absent("no such file", Source::file("/z"))),
        size("16kB", "always inherit madvise [never]"),
        size("64kB", "always inherit madvise [never]"),
        size("2048kB", "always [inherit] madvise never"),
    ];
    let knobs = pagewise_model::list_settable(&readings);
    for width in [80, 120] {
        let text = settable_knobs(&knobs, TextStyle { width, colour: false });
        let line = |start: &str| text.lines().find(|line| line.trim_start().starts_with(start));
        let swappiness = line("vm.swappiness ").unwrap();
        assert!(swappiness.contains(" 77 ") && swappiness.ends_with("0 to 200; default 60"));
        assert!(line("vm.page-cluster ").unwrap().contains("needs root"));
        assert!(line("thp.size.enabled[SIZE] ").is_some(), "{text}");
        assert!(line("never in 16kB, 64kB · inherit in 2048kB").is_some(), "{text}");
        let (_, lacking) = text.split_once("Not on this machine").unwrap();
        assert!(lacking.contains("vm.defrag_mode") && !lacking.contains("vm.swappiness"));
        assert!(!text.contains("cgroup.") && !text.contains("zram.disksize"), "{text}");
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(width), "{widest:?}: {text}");
    }
}

fn report_with(owners: &[KnobOwnership]) -> String {
    let (verdict, cost) = (host::verdict(), host::cost());
    let interval = Interval::default();
    let answer = Answer {
        interval: &interval,
        verdict,
        findings: &[],
        hidden: 0,
        owners,
        estimates: &[],
        cost,
    };
    report(&answer, LOOK)
}

fn report_of(end: Snapshot, findings: &[Finding]) -> String {
    let interval = Interval::single(end);
    report(
        &Answer {
            interval: &interval,
            verdict: host::verdict(),
            findings,
            hidden: 0,
            owners: &[],
            estimates: &[],
            cost: host::cost(),
        },
        LOOK,
    )
}

fn without_pressure() -> Snapshot {
    let mut end = rich();
    let off = || Reading::absent("compiled in but switched off", Source::file("/proc/pressure/x"));
    for pressure in [&mut end.psi.memory, &mut end.psi.io, &mut end.psi.cpu] {
        for stall in [&mut pressure.some, &mut pressure.full] {
            (stall.avg10, stall.avg60, stall.avg300) = (off(), off(), off());
        }
    }
    end
}

/// An answer without findings.
fn facts_of(interval: &Interval) -> Answer<'_> {
    Answer {
        interval,
        verdict: host::verdict(),
        findings: &[],
        hidden: 0,
        owners: &[],
        estimates: &[],
        cost: host::cost(),
    }
}

#[test]
fn the_verdict_is_printed_as_it_was_decided_and_what_is_unknown_is_said() {
    let first = |end: Snapshot, findings: &[Finding]| {
        let text = report_of(end, findings);
        let verdict = text.split("\n\n").nth(1).unwrap();
        verdict.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let felt = first(rich(), &[host::waiting()]);
    assert!(felt.starts_with(&format!("SHORT {}", host::verdict().line)), "{felt}");
    assert!(felt.ends_with("1 critical finding."), "{felt}");
    let unknown = first(without_pressure(), &[]);
    assert!(unknown.contains("is not known: compiled in but switched off: boot with psi=1."));
}

#[test]
fn pressure_that_is_switched_off_is_one_line() {
    let text = report_of(without_pressure(), &[]);
    assert!(text.contains("  Pressure        compiled in but switched off: boot with psi=1\n"));
    assert!(!text.contains("share of time lost"));
}

#[test]
fn what_is_denied_is_named_once_at_the_end() {
    let mut end = rich();
    end.ksm.run = host::denied("/sys/kernel/mm/ksm/run");
    end.zram[0].mm_stat.compressed = host::denied("/sys/block/zram0/mm_stat");
    end.capabilities.clear();
    let text = report_of(end, &[]);
    assert!(text.contains("  KSM             needs root\n"));
    let line = "Root would add  details of zram · KSM · proportional sizes of up to 1 process\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn nobody_is_asked_for_rights_where_nothing_was_denied() {
    let mut end = rich();
    end.processes = pagewise_model::Processes::default();
    end.capabilities.clear();
    let text = report_of(end, &[]);
    assert!(!text.contains("Root would add") && !text.contains("needs root"));
}

#[test]
fn a_size_that_is_not_known_is_not_drawn_as_nothing() {
    let mut end = rich();
    end.memory.free = host::none("/proc/meminfo");
    end.tiers[0].used = host::denied("/proc/swaps");
    end.zones[2].free_pages = host::none("/proc/zoneinfo");
    let text = report_of(end, &[]);
    assert!(!text.contains("░  free") && !text.contains("the rest"));
    let tier = text.lines().find(|line| line.contains("/swapfile")).unwrap();
    assert!(tier.contains("needs root") && !tier.contains('░') && !tier.contains('%'), "{tier}");
    let zone = text.lines().find(|line| line.contains("Normal  59.9 GiB")).unwrap();
    assert!(zone.contains("–") && !zone.contains("kswapd"), "{zone}");
}

#[test]
fn an_unreadable_host_is_not_called_well() {
    let mut end = Snapshot::default();
    end.memory.total = host::none("/proc/meminfo");
    let interval = Interval::single(end);
    let answer = facts_of(&interval);
    for text in [report(&answer, LOOK), status(&answer, LOOK), doctor(&answer, LOOK)] {
        assert!(text.contains("could not be read (/proc/meminfo: "), "{text}");
        assert!(!text.contains("No findings") && !text.contains("not short"), "{text}");
    }
}

const fn knob(name: &'static str, domain: Domain) -> Knob {
    Knob {
        name,
        path: "sys/x",
        domain,
        access: Access::ReadWrite,
        default: None,
        persist: &[],
        undo: Undo::WriteBack,
        couples: &[],
        doc: "A setting.",
    }
}

static SWITCH: Knob = knob("zswap.enabled", Domain::Bool);
static CHOICE: Knob = knob("thp.enabled", Domain::Listed);
static SIZE: Knob = knob("zram.disksize", Domain::Size);
static DAMON: Knob = knob("damon.nr_schemes", Domain::Int { min: 0, max: 9 });
static NUMBER: Knob = knob("vm.number", Domain::Int { min: 0, max: 9 });

fn live(knob: &'static Knob, of: &str, live: &str, default: &'static str) -> KnobReading {
    let instance = (!of.is_empty()).then(|| Name::from(of));
    let live = host::found(Name::from(live), "/sys/x");
    KnobReading { knob, instance, live, default: Some(default) }
}

fn settings(knobs: Vec<KnobReading>) -> String {
    report_of(Snapshot { knobs, ..Snapshot::default() }, &[])
}

#[test]
fn a_setting_differs_by_meaning_and_not_by_spelling() {
    let same = vec![
        live(&SWITCH, "", "N", "0"),
        live(&CHOICE, "", "always [madvise] never", "madvise"),
        KnobReading { live: Reading::not_read(), ..live(&NUMBER, "", "", "1") },
        KnobReading { default: None, ..live(&NUMBER, "", "3", "1") },
    ];
    assert!(settings(same).contains("Settings        2 have the kernel's default\n"));
    let text = settings(vec![live(&CHOICE, "", "[always] madvise never", "madvise")]);
    assert!(text.contains("    thp.enabled  always  madvise\n"), "{text}");
}

#[test]
fn a_size_is_spelled_with_its_unit_and_damon_is_counted() {
    let knobs = vec![
        live(&SIZE, "zram0", "536870912", "0"),
        live(&DAMON, "0", "1", "0"),
        live(&DAMON, "1", "2", "0"),
    ];
    let text = settings(knobs);
    assert!(text.contains("    zram.disksize  zram0  512.0 MiB  0 B\n"), "{text}");
    assert!(text.contains("    and 2 of the DAMON that somebody set up: pagewise"), "{text}");
    assert!(!text.contains("damon.nr_schemes"), "{text}");
    let text = settings(vec![live(&NUMBER, "", "1", "1"), live(&DAMON, "0", "1", "0")]);
    let line = "Settings        1 have the kernel's default, but not 1 of the DAMON";
    assert!(text.contains(line), "{text}");
}

#[test]
fn one_look_says_that_it_has_no_rates() {
    assert!(report_of(rich(), &[]).contains("  Movement        not known: one look alone"));
    assert!(!report_of(Snapshot::default(), &[]).contains("Movement"));
}

#[test]
fn what_was_garbled_is_never_a_heading_over_nothing() {
    let mut end = rich();
    let garbled =
        || Reading::absent("garbled: expected at least 7 numbers", Source::file("/sys/x"));
    end.zram.iter_mut().for_each(|zram| zram.mm_stat.original = garbled());
    end.hugetlb.iter_mut().for_each(|pool| pool.total = host::none("/sys/y"));
    end.memory.anon_huge_pages = host::none("/proc/meminfo");
    end.memory.shmem_huge_pages = host::none("/proc/meminfo");
    end.memory.file_huge_pages = host::none("/proc/meminfo");
    let text = report_of(end.clone(), &[]);
    assert!(text.contains("    zram0: garbled: expected at least 7 numbers\n"), "{text}");
    assert!(!text.contains("hugetlb pools   ") && !text.contains("now in use"), "{text}");
    let interval = Interval::single(end);
    let answer = facts_of(&interval);
    assert!(!status(&answer, LOOK).contains("always:\n"));
}

#[test]
fn a_problem_is_told_to_its_end() {
    let mut end = rich();
    let source = Source::line("/sys/fs/cgroup/a/long/path/to/a/group/memory.stat", 3);
    let expected = "a name, a space and a whole number";
    end.problems.push(pagewise_model::Problem::new(&source, expected, b"the very end"));
    assert!(report_of(end, &[]).replace("\n     ", "").contains("found \"the very end\""));
}

#[test]
fn the_disk_under_a_tier_is_told_in_short() {
    let kind = |rotational: bool, guest: bool| {
        let mut end = rich();
        end.tiers[0].disk.rotational = host::found(rotational, "/sys/block/x/queue/rotational");
        end.host.virtualization =
            if guest { host::found(Name::from("kvm"), "/sys/x") } else { host::none("/sys/x") };
        let text = report_of(end, &[]);
        let line = text.lines().find(|line| line.contains("/swapfile  ")).unwrap().to_owned();
        line.split_whitespace().nth(2).unwrap().to_owned()
    };
    assert_eq!(kind(false, true), "ssd");
    assert_eq!(kind(true, false), "hdd");
    assert_eq!(kind(true, true), "virtual");
}

#[test]
fn hidden_findings_are_counted_and_nothing_is_called_well() {
    let interval = host::interval();
    let findings = host::findings();
    let answer = Answer {
        interval: &interval,
        verdict: host::verdict(),
        findings: &findings[..1],
        hidden: 2,
        owners: &[],
        estimates: &[],
        cost: host::cost(),
    };
    let text = doctor(&answer, LOOK);
    assert!(text.contains("1 critical finding. 2 findings below --min-severity not shown."));
    let text = doctor(&Answer { findings: &[], ..answer }, LOOK);
    assert!(text.contains("  2 findings below --min-severity not shown.\n"), "{text}");
    assert!(!text.contains("No findings"), "{text}");
}

#[test]
fn features_are_told_by_what_would_bring_them() {
    let mut end = Snapshot::default();
    let feature = |feature, option| pagewise_model::Capability {
        feature,
        doc: "Good.",
        state: pagewise_model::FeatureState::NotBuilt { option },
        evidence: Vec::new(),
    };
    end.capabilities =
        vec![feature("a", "CONFIG_X"), feature("b", "CONFIG_Y"), feature("c", "CONFIG_X")];
    let text = capabilities(&end, LOOK);
    assert!(text.contains("kernel build  a, c (CONFIG_X) · b (CONFIG_Y)\n"), "{text}");
}

#[test]
fn the_same_difference_in_many_places_is_one_line_and_many_lines_are_counted() {
    let same: Vec<_> = ["zram0", "zram1", "zram2"].map(|of| live(&NUMBER, of, "3", "1")).into();
    assert!(settings(same).contains("    vm.number  3 places  3   1\n"));
    let values: Vec<String> = (2..22).map(|value| value.to_string()).collect();
    let text = settings(values.iter().map(|value| live(&NUMBER, "zram0", value, "1")).collect());
    assert_eq!(text.matches("vm.number").count(), 15);
    assert!(text.contains("and 5 more"));
}

/// Swap on zmerge is called compressed RAM in every section, and its merging is printed next to it.
#[test]
fn a_swap_tier_of_zmerge_is_compressed_ram() {
    let mut end = rich();
    end.zram.clear();
    end.tiers.truncate(1);
    let tier = &mut end.tiers[0];
    (tier.path, tier.kind) = (Name::from("/dev/zmerge0"), pagewise_model::TierKind::Zmerge);
    tier.disk = pagewise_model::Disk::default();
    let text = report_of(end.clone(), &[]);
    let line = text.lines().find(|line| line.contains(" zmerge0  ")).unwrap();
    assert!(line.contains("compressed RAM") && line.ends_with("costs 4.0 MiB empty"), "{line}");
    assert!(text.contains("what zram, zmerge and zswap hold, after compression"), "{text}");
    assert!(text.contains("\n  zmerge   compressed RAM as a block device that stores"), "{text}");
    assert!(!text.contains("zramctl"), "it does not know zmerge: {text}");
    let interval = Interval::single(end);
    let glance = status(&facts_of(&interval), LOOK);
    let words: Vec<&str> = glance.split_whitespace().collect();
    let expected = "zmerge0 (lz4) holds 512.0 MiB in 142.6 MiB, 3.59 to 1; merging inline, 32,768 \
                    pages merged save 46.9 MiB, 25 % of 131,072 pages searched";
    assert!(words.join(" ").contains(expected), "{glance}");
}

#[test]
fn how_zmerge_merges_is_told_mode_by_mode() {
    let glance_of = |mode: &str, merged, left| {
        let mut end = rich();
        end.zmerge = vec![host::zmerge_device(0, mode, merged)];
        end.zmerge[0].merging.as_mut().unwrap().slots_left = host::found(left, "/sys/x");
        let text = status(&facts_of(&Interval::single(end)), LOOK);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(glance_of("request", 0, 0).contains("; merging on request, none merged"));
    assert!(glance_of("off", 0, 0).contains("; merging off, none merged"));
    let running = glance_of("request", 1, 12_000);
    assert!(running.contains("; merging now, 12,000 slots to go, 1 page merged save"), "{running}");
}

/// Only root may read how much a zmerge device stores and merges.
#[test]
fn what_zmerge_tells_root_alone_needs_root() {
    let mut end = rich();
    end.zmerge = vec![host::zmerge_device(0, "inline", 1)];
    let device = &mut end.zmerge[0];
    device.mm_stat.original = host::denied("/sys/block/zmerge0/mm_stat");
    device.mm_stat.memory_used = host::denied("/sys/block/zmerge0/mm_stat");
    let merging = device.merging.as_mut().unwrap();
    merging.merged_pages = host::denied("/sys/block/zmerge0/merged_pages");
    merging.merged_bytes = host::denied("/sys/block/zmerge0/merged_bytes");
    let text = report_of(end.clone(), &[]);
    assert!(text.contains("\n    zmerge0: needs root\n"), "{text}");
    let hint = text.lines().find(|line| line.contains("Root would add"));
    assert!(hint.is_some_and(|line| line.contains("details of zmerge")), "{text}");
    let glance = status(&facts_of(&Interval::single(end)), LOOK);
    assert!(glance.contains("zmerge0: needs root"), "{glance}");
}

/// The log may be denied, without kills, or full of them; each case is printed.
#[test]
fn what_the_kernel_log_is_good_for_is_said_first() {
    let mut interval = host::interval();
    let findings = host::findings();
    let describe = |interval: &Interval| {
        let answer = Answer { findings: &findings, ..facts_of(interval) };
        oom(&answer, &OomFound::default(), &[], LOOK)
    };
    let log = &mut interval.end.kernel_log;
    log.kills.clear();
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let none = words(describe(&interval));
    assert!(none.contains("No kill was found: 2,456 records of the kernel log (older ones than 812 s after boot were overwritten); 3 files of journald since "), "{none}");
    assert!(none.contains(" (1 more could not be searched in full)."), "{none}");
    // only a log that goes back to the boot can say that there was none
    interval.end.kernel_log.wrapped = false;
    let sure = words(describe(&interval));
    assert!(sure.contains("No process was killed for lack of memory: 2,456 records"), "{sure}");
    interval.end.kernel_log.not_understood = 2;
    let unsure = words(describe(&interval));
    assert!(unsure.contains("No kill was found: 2,456 records"), "{unsure}");
    assert!(unsure.contains("2 messages about kills were not understood"), "{unsure}");
    interval.end.kernel_log.not_understood = 0;
    interval.end.kernel_log.records = host::denied("/dev/kmsg");
    interval.end.kernel_log.journal_files = host::denied("/var/log/journal");
    let refused = describe(&interval);
    assert!(!refused.contains("No process was killed"), "{refused}");
    assert!(
        words(refused.clone()).contains("Files of journald could not be read: needs root"),
        "{refused}"
    );
    assert!(
        refused
            .contains("The kernel log could not be read: needs root, or kernel.dmesg_restrict=0")
    );
    // findings based on counters are printed instead
    assert!(findings.iter().all(|finding| refused.contains(finding.id)));
    let report = report(&facts_of(&interval), LOOK);
    assert!(
        report
            .lines()
            .any(|line| line.contains("Root would add") && line.contains("the kernel log"))
    );
    let kill = host::interval().end.kernel_log.kills.remove(0);
    let log = &mut interval.end.kernel_log;
    *log = host::interval().end.kernel_log;
    log.kills = vec![kill; 12];
    log.left_out = 3;
    assert!(
        describe(&interval).contains("15 reports of the OOM killer, the last 0 of which are shown")
    );
}

/// Three kills in three cgroups have the same reason; a command that only one of them has is still
/// printed.
#[test]
fn findings_with_one_reason_have_it_once() {
    let first = host::findings().into_iter().next().expect("one of the host's findings");
    let own = Finding { next: vec!["pagewise explain swap".to_owned()], ..first.clone() };
    let interval = Interval { start: None, end: rich() };
    let findings = [first.clone(), first.clone(), own];
    let answer = Answer { findings: &findings, ..facts_of(&interval) };
    let view = View { sections: vec![Section::Findings], ..View::default() };
    let text = report_in_view(&answer, &view, LOOK);
    let begin: String = first.why.split_inclusive(' ').take(3).collect();
    assert_eq!(text.matches(&begin).count(), 1, "{text}");
    assert!(text.contains("why   as for 1, with the same next command\n"), "{text}");
    assert!(
        text.contains("why   as for 1\n               next  pagewise explain swap\n"),
        "{text}"
    );
    assert_eq!(text.matches(&first.next[0]).count(), 1, "{text}");
}

/// `doctor` leaves out findings of severity info unless they are requested.
#[test]
fn findings_that_did_not_fit_are_shown_by_the_command_that_is_named() {
    let warning = host::findings().into_iter().find(|one| one.severity == Severity::Warning);
    let warning = warning.expect("one of the host's findings");
    let info = Finding { severity: Severity::Info, ..warning.clone() };
    let text = |last: &Finding| {
        report_of(rich(), &[vec![warning.clone(); 6], vec![last.clone()]].concat())
    };
    assert!(text(&warning).contains("  and 1 more:  pagewise doctor\n"), "{}", text(&warning));
    assert!(text(&info).contains("  and 1 more:  pagewise doctor --min-severity info\n"));
}

/// However long a verdict is, the first screen fits on a terminal of 24 rows, with its first words and
/// the first command.
#[test]
fn the_first_screen_fits_whatever_the_verdict_says() {
    let interval = host::interval();
    let findings = host::findings();
    let command = findings[0].next[0].as_str();
    for words in [1, 10, 100, 1000] {
        for line in ["memory ".repeat(words), "Memory is short. ".repeat(words)] {
            let verdict = pagewise_model::HostVerdict { line, ..host::verdict().clone() };
            let answer = Answer { findings: &findings, verdict: &verdict, ..facts_of(&interval) };
            let view = View { first_screen_only: true, ..View::default() };
            for width in [60, 80, 100] {
                let look = TextStyle { width, colour: false };
                let text = report_in_view(&answer, &view, look);
                assert!(text.lines().count() <= 24, "{text}");
                assert!(text.contains("emory") && text.contains(command), "{text}");
            }
        }
    }
}
