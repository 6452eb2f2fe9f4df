// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports of the OOM killer in journald's files → an excerpt like that of the kernel log → [`OomKill`]s.
//!
//! The excerpt is what a recording keeps, at a path that no machine has. It begins with a line about the
//! search. Each section of messages that follow one another begins with a line about their boot, and its
//! records are written as `/dev/kmsg` writes them, so the readers of records and reports are the same.
//!
//! The clock of the kernel log begins with each boot. A kill of this boot is dated as those of the
//! kernel log are, one of an earlier boot by the time of day that journald wrote down. Because that clock may
//! have been wrong, such a kill is at least as old as this boot.
//!
//! [`OomKill`]: pagewise_model::OomKill

use std::collections::VecDeque;

use pagewise_model::{KernelLog, Name, OomKill, Reading, Source, Taken};

use super::line::Rename;
use super::record::{Head, Record, records};
use super::report::Reports;
use super::{date, renamed_record};
use crate::journald::{self, FOLDERS, KernelMessage, Reader, Searched};
use crate::limits::OOM_KILLS;
use crate::root::{Entry, HostRoot, NO_SUCH_FILE, Refusal, absolute};
use crate::text::{lines, number, words};

/// Where a recording has the excerpt.
const PATH: &str = "journal/kernel";
/// As proofs name it, with journald's own number of the entry.
const SHOWN: &str = "/var/log/journal";
/// An excerpt may be this large.
const MOST_KEPT: usize = 4 << 20;
/// What the kernel log overwrote of a report that it still has the end of is not older than this.
const LONGEST_REPORT: u64 = 10_000_000;

/// The kernel log of this boot, as far as it matters here.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    /// Of this boot.
    pub(super) boot: Option<Name>,
    /// When its oldest record was written, in microseconds.
    pub(super) from: Option<u64>,
    pub(super) page_size: u64,
}

/// Adds to `log` what journald's files have and it has not.
pub(super) fn complete(
    host: &HostRoot,
    buffer: &Buffer,
    taken: &Taken,
    log: KernelLog,
) -> KernelLog {
    let source = Source::file(absolute(FOLDERS[0].0));
    let answer = excerpt(host, buffer);
    host.remember(PATH, || Entry::of(&answer));
    let journal = kind(host);
    let kept = match answer {
        Err(refusal) => {
            let refusal = refusal.explained(NO_SUCH_FILE, "no files of journald here");
            return KernelLog { journal, journal_files: refusal.reading(source), ..log };
        }
        Ok(kept) => kept,
    };
    let (searched, kills) = understand(&kept, buffer.page_size, taken);
    let known = searched.since > 0;
    let log = KernelLog {
        journal,
        journal_files: Reading::found(searched.files, source),
        journal_files_left_out: searched.left_out,
        journal_unix_seconds: known.then_some(searched.since as f64 / 1e6),
        left_out: log.left_out + kills.left_out,
        ..log
    };
    super::merge(log, kills.newest)
}

/// Whether journald's files outlive the boot.
fn kind(host: &HostRoot) -> Reading<Name> {
    let found = FOLDERS.iter().find(|(path, _)| host.exists(path));
    match found {
        Some((path, kind)) => Reading::found(Name::from(*kind), Source::file(absolute(path))),
        None => Reading::absent("no folder of journald here", Source::file(absolute(FOLDERS[0].0))),
    }
}

fn excerpt(host: &HostRoot, buffer: &Buffer) -> Result<Vec<u8>, Refusal> {
    if !host.is_live() {
        match host.bytes(PATH) {
            Err(Refusal::Absent(why)) if why == NO_SUCH_FILE => {}
            answer => return answer,
        }
    }
    let mut excerpt = Excerpt::new(buffer);
    let searched = journald::search(host, &mut excerpt)?;
    let mut kept = print_searched(&searched);
    excerpt.sections.iter().rev().for_each(|section| kept.extend(section));
    Ok(kept)
}

/// What is kept of the messages.
struct Excerpt<'a> {
    buffer: &'a Buffer,
    reports: Reports,
    /// The newest first.
    sections: Vec<Vec<u8>>,
    /// Of the stretch that is read now, the oldest first.
    stretch: Vec<(Section, Vec<u8>)>,
    size: usize,
}

impl<'a> Excerpt<'a> {
    fn new(buffer: &'a Buffer) -> Self {
        let reports = Reports::new(buffer.page_size, SHOWN);
        Self { buffer, reports, sections: Vec::new(), stretch: Vec::new(), size: 0 }
    }
}

impl Reader for Excerpt<'_> {
    /// The kernel log has its newest records, and so all that follow one that it has.
    fn has(&self, message: &KernelMessage) -> bool {
        let boot = self.buffer.boot.as_ref().map(Name::as_str);
        let from = self.buffer.from.filter(|_| boot == Some(Section::of(message).boot.as_str()));
        from.is_some_and(|from| message.micros >= from.saturating_add(LONGEST_REPORT))
    }

    fn take(&mut self, message: &KernelMessage) -> bool {
        let section = Section::of(message);
        if self.stretch.last().is_none_or(|(last, _)| last.boot != section.boot) {
            self.reports = Reports::new(self.buffer.page_size, SHOWN);
            self.stretch.push((section, Vec::new()));
        }
        let record = record(message);
        let line = self.reports.take(&record);
        let is_taken = line.is_some();
        let records = self.stretch.last_mut().filter(|_| self.size < MOST_KEPT);
        if let Some((line, (_, records))) = line.zip(records) {
            let printed = record.head.with_text(&line.printed());
            self.size += printed.len();
            records.extend(printed);
        }
        is_taken || self.reports.goes_on()
    }

    fn end_stretch(&mut self) {
        let sections = std::mem::take(&mut self.stretch).into_iter().rev();
        let with_records = sections.filter(|(_, records)| !records.is_empty());
        self.sections
            .extend(with_records.map(|(section, records)| [section.print(), records].concat()));
    }
}

/// A message as the kernel's log had it. journald does not keep which records continue others: those of a
/// report begin with a comma.
fn record(message: &KernelMessage) -> Record {
    let text = message.text.clone();
    let head = Head::of_kernel(message.sequence, message.micros);
    Record { head, continues: text.starts_with(b","), caller: Vec::new(), text }
}

/// `journal files=2 left_out=0 since=1764000000000000`
fn print_searched(searched: &Searched) -> Vec<u8> {
    let Searched { files, left_out, since } = searched;
    format!("journal files={files} left_out={left_out} since={since}\n").into_bytes()
}

fn parse_searched(line: &[u8]) -> Option<Searched> {
    let mut parts = words(line.strip_prefix(b"journal ")?);
    let files = value(&mut parts, b"files=")?;
    let left_out = value(&mut parts, b"left_out=")?;
    Some(Searched { files, left_out, since: value(&mut parts, b"since=")? })
}

fn value<'a>(parts: &mut impl Iterator<Item = &'a [u8]>, name: &[u8]) -> Option<u64> {
    number(parts.next()?.strip_prefix(name)?)
}

/// What the records after it have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Section {
    boot: String,
    /// What time it was when the clock of the kernel log was 0, in microseconds since 1970.
    clock_zero: u64,
}

impl Section {
    fn of(message: &KernelMessage) -> Self {
        let id = format!("{:032x}", u128::from_be_bytes(message.boot));
        let parts = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]];
        Self { boot: parts.join("-"), clock_zero: message.clock_zero }
    }

    /// `boot=6d0e5b3c-… clock_zero=1764000000000000`
    fn print(&self) -> Vec<u8> {
        format!("boot={} clock_zero={}\n", self.boot, self.clock_zero).into_bytes()
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let mut parts = words(line);
        let boot = parts.next()?.strip_prefix(b"boot=")?;
        let is_id = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b'-';
        let boot = std::str::from_utf8(boot).ok().filter(|_| boot.iter().all(is_id))?;
        let boot = Some(boot.to_owned()).filter(|boot| (1..=36).contains(&boot.len()))?;
        Some(Self { boot, clock_zero: value(&mut parts, b"clock_zero=")? })
    }
}

/// Kills, the oldest first, and how many older ones there were.
#[derive(Debug, Default, PartialEq)]
struct Kills {
    newest: VecDeque<OomKill>,
    left_out: u64,
}

impl Kills {
    fn extend(&mut self, section: &Section, reports: Reports, taken: &Taken) {
        let (kills, left_out) = dated(section, reports, taken);
        self.left_out += left_out;
        self.newest.extend(kills);
        while self.newest.len() > OOM_KILLS {
            self.newest.pop_front();
            self.left_out += 1;
        }
    }
}

fn understand(kept: &[u8], page_size: u64, taken: &Taken) -> (Searched, Kills) {
    let mut searched = Searched::default();
    let mut kills = Kills::default();
    let mut open: Option<(Section, Reports)> = None;
    for line in lines(kept) {
        if let Some(section) = Section::parse(line) {
            if let Some((before, reports)) = open.replace((section, Reports::new(page_size, SHOWN)))
            {
                kills.extend(&before, reports, taken);
            }
        } else if let Some((_, reports)) = &mut open {
            records(line).for_each(|record| drop(reports.take(&record)));
        } else if let Some(found) = parse_searched(line) {
            searched = found;
        }
    }
    if let Some((section, reports)) = open {
        kills.extend(&section, reports, taken);
    }
    (searched, kills)
}

/// The kills of a section, with their time.
fn dated(section: &Section, reports: Reports, taken: &Taken) -> (Vec<OomKill>, u64) {
    let (mut kills, left_out) = reports.done();
    let is_now = taken.boot_id.value().is_some_and(|boot| boot.as_str() == section.boot);
    for kill in &mut kills {
        if is_now {
            date(kill, taken);
        } else {
            date_earlier(kill, section, taken);
        }
    }
    (kills, left_out)
}

fn date_earlier(kill: &mut OomKill, section: &Section, taken: &Taken) {
    let unix = section.clock_zero as f64 / 1e6 + kill.boot_seconds;
    let since_boot = taken.awake_seconds.unwrap_or(0.0);
    kill.earlier_boot = Some(Name::from(section.boot.as_str()));
    kill.unix_seconds = Some(unix).filter(|_| section.clock_zero > 0);
    let ago = kill.unix_seconds.filter(|_| taken.unix_seconds > 0.0);
    kill.seconds_ago = ago.map(|unix| (taken.unix_seconds - unix).max(since_boot));
}

/// An excerpt with other names in it, and other boot ids.
pub(crate) fn renamed(excerpt: &[u8], to: &mut dyn Rename) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut reports = Reports::new(4096, SHOWN);
    for line in lines(excerpt) {
        if let Some(searched) = parse_searched(line) {
            kept.extend(print_searched(&searched));
        } else if let Some(section) = Section::parse(line) {
            reports = Reports::new(4096, SHOWN);
            kept.extend(Section { boot: to.boot(section.boot.as_bytes()), ..section }.print());
        } else {
            records(line).for_each(|record| kept.extend(renamed_record(&mut reports, &record, to)));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use pagewise_model::OomConstraint;
    use proptest::prelude::*;

    use super::super::tests::BY_LIMIT;
    use super::*;
    use crate::journald::written::{Packing, Variant, Written, journal};
    use crate::text::testing::{denied, file, host};

    const FILE: &str = "var/log/journal/0123456789abcdef0123456789abcdef/system.journal";
    const EARLIER: [u8; 16] = [0xab; 16];
    const EARLIER_ID: &str = "abababab-abab-abab-abab-abababababab";
    const NOW: [u8; 16] = *b"\0this boot's id.";
    const NOW_ID: &str = "00746869-7320-626f-6f74-27732069642e";
    /// What time it was when the earlier boot began, in seconds since 1970.
    const BEGAN: u64 = 1_000_000;

    /// 400 seconds after this boot, 90,000 after the one before.
    fn taken() -> Taken {
        Taken {
            unix_seconds: (BEGAN + 90_000) as f64,
            awake_seconds: Some(400.0),
            boot_id: Reading::found(Name::from(NOW_ID), Source::file("/boot_id")),
            ..Taken::default()
        }
    }

    /// The report, with its last message `end` seconds after boot, a millisecond between two.
    fn report(boot: [u8; 16], end: u64) -> Vec<Written> {
        let zero = if boot == EARLIER { BEGAN } else { BEGAN + 89_600 };
        let begin = end * 1_000_000 - (BY_LIMIT.len() as u64 - 1) * 1000;
        let lines = BY_LIMIT.iter().zip((begin..).step_by(1000));
        lines
            .map(|(text, at)| Written::by_kernel(boot, zero * 1_000_000, at, text.as_bytes()))
            .collect()
    }

    /// The same as the kernel log has it.
    fn buffer(end: u64) -> String {
        let begin = end * 1_000_000 - (BY_LIMIT.len() as u64 - 1) * 1000;
        let lines = BY_LIMIT.iter().zip((begin..).step_by(1000)).zip(7..);
        lines.map(|((text, at), number)| format!("4,{number},{at},-;{text}\n")).collect()
    }

    fn file_of(entries: &[Written]) -> Vec<u8> {
        journal(
            &Variant { is_compact: true, is_keyed: true, packing: Packing::Zstd, buckets: 64 },
            entries,
        )
    }

    fn log_of(kmsg: &str, entries: &[Written]) -> KernelLog {
        let files = HostRoot::memory([file("dev/kmsg", kmsg), file(FILE, file_of(entries))]);
        super::super::read(&files, &taken())
    }

    #[test]
    fn a_kill_that_the_kernel_log_lost_is_in_the_journal() {
        let log = log_of("6,900,390000000,-;x\n", &report(NOW, 100));
        let [kill] = &log.kills[..] else { panic!("{:#?}", log.kills) };
        assert_eq!((kill.boot_seconds, kill.seconds_ago), (100.0, Some(300.0)));
        assert_eq!((&kill.earlier_boot, kill.constraint), (&None, Some(OomConstraint::Cgroup)));
        assert_eq!(kill.victim.as_ref().unwrap().pid, 980);
        assert_eq!(kill.source.to_string(), format!("/var/log/journal:{}", BY_LIMIT.len()));
        assert_eq!((log.journal_files.get(), log.journal_files_left_out), (Some(1), 0));
        let since = log.journal_unix_seconds.unwrap() - (BEGAN + 89_600 + 99) as f64;
        assert!((0.0..1.0).contains(&since), "{since}");
    }

    #[test]
    fn a_kill_of_an_earlier_boot_is_dated_by_the_clock_of_the_day() {
        let log = log_of("6,0,0,-;x\n", &report(EARLIER, 3_600));
        let [kill] = &log.kills[..] else { panic!("{:#?}", log.kills) };
        assert_eq!(kill.earlier_boot.as_ref().unwrap().as_str(), EARLIER_ID);
        assert_eq!((kill.boot_seconds, kill.seconds_ago), (3_600.0, Some(86_400.0)));
        assert_eq!(kill.unix_seconds, Some((BEGAN + 3_600) as f64));
    }

    /// A clock that ran ahead then, or was set back since.
    #[test]
    fn a_kill_of_an_earlier_boot_is_at_least_as_old_as_this_boot() {
        let log = log_of("6,0,0,-;x\n", &report(EARLIER, 95_000));
        assert_eq!(log.kills[0].seconds_ago, Some(400.0));
    }

    #[test]
    fn a_report_that_both_have_is_one() {
        let log = log_of(&buffer(100), &report(NOW, 100));
        assert_eq!(log.kills.len(), 1, "{:#?}", log.kills);
        assert_eq!(log.kills[0].source.to_string(), "/dev/kmsg:21");
        // another process, and the same number of a process a second later
        let log = log_of(&buffer(100), &report(NOW, 99));
        assert_eq!(
            log.kills.iter().map(|kill| kill.boot_seconds).collect::<Vec<_>>(),
            [99.0, 100.0]
        );
    }

    #[test]
    fn a_report_whose_beginning_was_overwritten_is_taken_from_the_journal() {
        let whole = buffer(100);
        let end = whole.lines().rev().take(2).collect::<Vec<_>>();
        let kmsg = format!("{}\n{}\n", end[1], end[0]);
        let log = log_of(&kmsg, &report(NOW, 100));
        let [kill] = &log.kills[..] else { panic!("{:#?}", log.kills) };
        assert!(kill.group_memory.is_some() && kill.tasks.len() == 2);
    }

    #[test]
    fn only_the_newest_are_kept_of_many_sections() {
        let section = |at: u64| {
            let boot = format!("boot={at:x} clock_zero={at}\n");
            boot + &BY_LIMIT
                .iter()
                .map(|text| format!("4,{at},{at},-;{text}\n"))
                .collect::<String>()
        };
        let excerpt: String = (1..=200).map(section).collect();
        let log = super::super::read(&host([(PATH, excerpt)]), &taken());
        assert_eq!((log.kills.len(), log.left_out), (64, 136));
        assert_eq!(log.kills[63].earlier_boot.as_ref().unwrap().as_str(), "c8");
    }

    #[test]
    fn two_files_with_the_same_messages_are_one() {
        let copy = FILE.replace("var/log", "run/log");
        let entries = file_of(&[report(EARLIER, 3_000), report(NOW, 100)].concat());
        let files = HostRoot::memory([file(FILE, &entries), file(copy, &entries)]);
        let log = super::super::read(&files, &taken());
        assert_eq!((log.kills.len(), log.journal_files.get()), (2, Some(2)));
    }

    #[test]
    fn kills_of_all_boots_are_in_order() {
        let both = [report(EARLIER, 3_000), report(EARLIER, 3_600), report(NOW, 100)].concat();
        let log = log_of(&buffer(300), &both);
        let order: Vec<_> =
            log.kills.iter().map(|kill| (kill.earlier_boot.is_some(), kill.boot_seconds)).collect();
        assert_eq!(order, [(true, 3_000.0), (true, 3_600.0), (false, 100.0), (false, 300.0)]);
        let newest_last = log.kills.windows(2).all(|two| two[0].seconds_ago > two[1].seconds_ago);
        assert!(newest_last, "{:?}", log.kills);
    }

    #[test]
    fn files_that_may_not_be_read_say_what_would_help() {
        let files = HostRoot::memory([file("dev/kmsg", "6,0,0,-;x\n"), denied(FILE)]);
        let log = super::super::read(&files, &taken());
        assert!(format!("{:?}", log.journal_files).contains("the group systemd-journal"));
        assert_eq!(log.journal.value().unwrap().as_str(), "persistent");
        let log = super::super::read(&host([("dev/kmsg", "6,0,0,-;x\n")]), &taken());
        assert!(format!("{:?}", log.journal_files).contains("no files of journald here"));
    }

    /// What is recorded replays, and holds no names.
    #[test]
    fn an_excerpt_says_what_the_files_said() {
        let entries = [report(EARLIER, 3_000), report(NOW, 100)].concat();
        let files = HostRoot::memory([
            file("dev/kmsg", "6,900,390000000,-;x\n"),
            file(FILE, file_of(&entries)),
        ]);
        let files = files.remembering();
        let original = super::super::read(&files, &taken());
        let remembered = files.remembered();
        assert!(!remembered.contains_key(FILE), "files of journald are not recorded");
        let replay = super::super::read(&HostRoot::memory(remembered), &taken());
        assert_eq!(format!("{original:?}"), format!("{replay:?}"));
        assert_eq!(original.kills.len(), 2);
    }

    #[test]
    fn an_excerpt_with_other_names_has_the_same_numbers() {
        struct Others;
        impl Rename for Others {
            fn program(&mut self, _: &[u8]) -> Vec<u8> {
                b"other".to_vec()
            }
            fn group(&mut self, _: &[u8]) -> Vec<u8> {
                b"/cg-1".to_vec()
            }
            fn user(&mut self, _: u32) -> u32 {
                1001
            }
            fn boot(&self, _: &[u8]) -> String {
                "b007".to_owned()
            }
        }
        let files = HostRoot::memory([file(FILE, file_of(&report(EARLIER, 3_000)))]);
        let kept = excerpt(&files, &Buffer { page_size: 4096, ..Buffer::default() }).unwrap();
        let other = renamed(&kept, &mut Others);
        let text = String::from_utf8(other.clone()).unwrap();
        assert!(
            !text.contains("nginx") && !text.contains("web.service") && !text.contains("abab"),
            "{text}"
        );
        let (before, after) =
            (understand(&kept, 4096, &taken()), understand(&other, 4096, &taken()));
        assert_eq!((before.0, before.1.newest.len()), (after.0, after.1.newest.len()));
        assert_eq!(after.1.newest[0].earlier_boot.as_ref().unwrap().as_str(), "b007");
        assert_eq!(before.1.newest[0].group_memory, after.1.newest[0].group_memory);
    }

    proptest! {
        /// Whatever a recording holds in its place.
        #[test]
        fn a_spoilt_excerpt_never_panics(
            lines in prop::collection::vec(
                prop_oneof![
                    Just("journal files=1 left_out=0 since=18446744073709551615".to_owned()),
                    "boot=[a-f0-9-]{0,40} clock_zero=[0-9]{0,21}",
                    "[ -~]{0,60}",
                    prop::sample::select(BY_LIMIT).prop_map(|text| format!("4,1,18446744073709551615,-;{text}")),
                ],
                0..30,
            ),
        ) {
            let files = host([(PATH, lines.join("\n"))]);
            let log = super::super::read(&files, &taken());
            prop_assert!(log.kills.iter().all(|kill| kill.seconds_ago.is_none_or(|ago| ago >= 0.0)));
        }
    }
}
