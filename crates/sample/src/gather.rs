// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collects the pages of several processes as spans; a page of a file counts once.
//!
//! A helper thread searches the processes ([`crate::find`]). The search takes each process's mmap
//! lock, whose holder may be waiting for a disk that does not respond; then the helper blocks, too,
//! and cannot be interrupted. So if the helper sends no message for a limited time, it is
//! abandoned, and another helper continues with the next process. (When pages are read later, that
//! read may still block.)
//!
//! Shmem and file pages are identified by file and offset, so each counts once, for the first
//! process that maps it. Private pages cannot be identified in this way: see [`crate::Sharing`].

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pagewise_model::{Name, Pages, Problem, Source};
use pagewise_procmem::devices::Devices;
use pagewise_procmem::open::{maps, text_of_process};
use pagewise_procmem::pagemap::Pagemap;

use crate::candidate::Candidate;
use crate::find::{FilePage, Finder, FoundRun, ProcessSearch, RunSink, SearchCounts, SearchEnd};
use crate::identity::{Identity, Stat, is_ours};
use crate::pace::Pace;
use crate::process::how_ended;
use crate::ranges::RangeSet;
use crate::spans::{Run, Spans};
use crate::{Part, PartKind, Partial, ProcessEnd, SkippedPages, UnreadProcess, WhyUnread, open};

/// Maximum number of helper threads: each except the first replaces one that is stuck.
const MAX_HELPERS: usize = 8;
/// If a helper thread sends no message for this time, it is stuck.
const PATIENCE: Duration = Duration::from_secs(2);
/// That time is multiplied by this while the helper thread is running or waits for a CPU.
const BUSY: u32 = 10;
/// Interval between two checks whether sampling may continue.
const GLANCE: Duration = Duration::from_millis(50);
/// Maximum number of spans of all processes together, which take 12 MiB.
const MOST_SPANS: usize = 1 << 18;
/// Minimum number of spans for each process.
const LEAST_SPANS: usize = 1 << 10;
/// Maximum number of ranges of file pages that are remembered to recognise pages again: about 8
/// MiB.
const MOST_RANGES: usize = 1 << 17;

/// A message from a helper thread about the process that it searches.
#[derive(Debug)]
enum Message {
    Begun(Stat),
    Runs(Vec<FoundRun>),
    Ended(SearchCounts, Option<ProcessEnd>),
    NotRead(Option<Name>, WhyUnread),
}

/// The pages that were found in all processes.
#[derive(Debug, Default)]
pub(crate) struct GatheredRuns {
    pub(crate) parts: Vec<Part>,
    pub(crate) identities: Vec<Identity>,
    pub(crate) spans: Vec<Spans>,
    pub(crate) not_read: Vec<UnreadProcess>,
    pub(crate) partial: Option<Partial>,
    pub(crate) problems: Vec<Problem>,
    files: Files,
    /// Whether the last part is of a process that is still being searched.
    is_open: bool,
}

/// Searches all candidate processes for pages, in order.
pub(crate) fn gather(candidates: &[Candidate], finder: &Finder, pace: &Pace) -> GatheredRuns {
    let mut gathered = GatheredRuns::default();
    let mut rest = candidates;
    for _ in 0..MAX_HELPERS {
        let helper = (!rest.is_empty()).then(|| Helper::start(rest, finder, pace)).flatten();
        let Some(helper) = helper else { break };
        rest = helper.receive_messages(rest, &mut gathered, pace);
    }
    let why = |candidate: &Candidate| unread_process(candidate, WhyUnread::NoTime);
    gathered.not_read.extend(rest.iter().map(why));
    if gathered.files.is_full {
        gathered.problems.push(make_problem(
            0,
            "fewer pieces of shared files",
            "some pages count twice",
        ));
    }
    gathered
}

fn unread_process(candidate: &Candidate, why: WhyUnread) -> UnreadProcess {
    UnreadProcess { pid: candidate.pid, name: candidate.name.clone(), why }
}

fn make_problem(pid: u32, expected: &str, found: &str) -> Problem {
    let path = if pid == 0 { "/proc".to_owned() } else { format!("/proc/{pid}/maps") };
    Problem::new(&Source::file(path), expected, found.as_bytes())
}

struct Helper {
    messages: Receiver<Message>,
    /// Kernel id of the helper thread; set when the thread runs.
    thread: Arc<OnceLock<u32>>,
}

impl Helper {
    /// Starts a helper thread; `None` if no thread can be started.
    fn start(candidates: &[Candidate], finder: &Finder, pace: &Pace) -> Option<Self> {
        let pids: Vec<u32> = candidates.iter().map(|candidate| candidate.pid).collect();
        let (finder, others) = (finder.clone(), pace.options().others_allowed);
        let (tell, messages) = sync_channel(4);
        let thread = Arc::new(OnceLock::new());
        let own = thread.clone();
        let search = move || {
            // the target of the link is, for example, `123/task/456`
            let path = std::fs::read_link("/proc/thread-self").unwrap_or_default();
            let number = path.file_name().and_then(|name| name.to_str()?.parse().ok());
            number.map(|number| own.set(number));
            let mut searcher = Searcher { finder, others, devices: Devices::new(), tell };
            pids.into_iter().all(|pid| searcher.process(pid));
        };
        let name = "search".to_owned();
        std::thread::Builder::new().name(name).spawn(search).ok().map(|_| Self { messages, thread })
    }

    /// Receives messages until the helper is done or is abandoned; returns the candidates that are
    /// not searched yet.
    fn receive_messages<'a>(
        &self,
        mut rest: &'a [Candidate],
        gathered: &mut GatheredRuns,
        pace: &Pace,
    ) -> &'a [Candidate] {
        while let Some((candidate, after)) = rest.split_first() {
            match self.next(pace) {
                Ok(message) => {
                    if gathered.take(message, candidate) {
                        rest = after;
                    }
                }
                Err(Some(Partial::Stuck)) => {
                    gathered.drop_unfinished();
                    gathered.not_read.push(unread_process(candidate, WhyUnread::Stuck));
                    gathered.partial.get_or_insert(Partial::Stuck);
                    return after;
                }
                Err(partial) => {
                    gathered.drop_unfinished();
                    gathered.partial = partial.or(gathered.partial);
                    gathered
                        .not_read
                        .extend(rest.iter().map(|c| unread_process(c, WhyUnread::NoTime)));
                    return &[];
                }
            }
        }
        rest
    }

    fn next(&self, pace: &Pace) -> Result<Message, Option<Partial>> {
        let quarter = pace.options().budget.map_or(PATIENCE, |budget| budget / 4);
        let patience = quarter.clamp(2 * GLANCE, PATIENCE);
        let waits_since = Instant::now();
        loop {
            match self.messages.recv_timeout(GLANCE) {
                Ok(message) => return pace.why_over().map_or(Ok(message), |over| Err(Some(over))),
                Err(RecvTimeoutError::Disconnected) => return Err(None),
                Err(RecvTimeoutError::Timeout) => (),
            }
            if let Some(over) = pace.why_over() {
                return Err(Some(over));
            }
            let waited = waits_since.elapsed();
            if waited > patience && (waited > patience * BUSY || !self.is_running()) {
                return Err(Some(Partial::Stuck));
            }
        }
    }

    /// Whether the helper's thread is running or runnable: then it is slow, but not blocked.
    fn is_running(&self) -> bool {
        // a thread that has not started yet is waiting for a CPU, so it is not stuck
        let Some(thread) = self.thread.get() else { return true };
        let stat = text_of_process(*thread, "stat").unwrap_or_default();
        let name_ends = stat.iter().rposition(|&byte| byte == b')');
        name_ends.and_then(|at| stat.get(at + 2)) == Some(&b'R')
    }
}

impl GatheredRuns {
    /// Processes a message about the candidate; returns whether it was the last message about this
    /// process.
    fn take(&mut self, message: Message, candidate: &Candidate) -> bool {
        match message {
            Message::Begun(stat) => self.begin(stat, candidate),
            Message::Runs(runs) => runs.iter().for_each(|run| self.add(run)),
            Message::Ended(counted, ended) => {
                self.end(&counted, ended);
                return true;
            }
            Message::NotRead(name, why) => {
                let mut unread = unread_process(candidate, why);
                unread.name = name.unwrap_or(unread.name);
                self.not_read.push(unread);
                return true;
            }
        }
        false
    }

    fn begin(&mut self, stat: Stat, candidate: &Candidate) {
        self.is_open = true;
        let used: usize = self.spans.iter().map(Spans::len).sum();
        let most = (MOST_SPANS.saturating_sub(used) / 2).max(LEAST_SPANS);
        self.spans.push(Spans::new(most));
        self.identities.push(stat.identity);
        let mut part = empty_part(PartKind::Process, stat.name);
        part.pid = Some(candidate.pid);
        part.cgroup.clone_from(&candidate.cgroup);
        self.parts.push(part);
    }

    fn add(&mut self, found: &FoundRun) {
        let Some(spans) = self.spans.last_mut() else { return };
        let Some(place) = &found.of_file else { return spans.push(found.run) };
        let mut apart = found.run.apart;
        for (first, end) in self.files.new_pages(place, found.run.length) {
            let first = found.run.first + (first - place.page);
            let length = end - place.page - (first - found.run.first);
            spans.push(Run { first, length, apart, ..found.run });
            apart = false;
        }
    }

    fn end(&mut self, counted: &SearchCounts, ended: Option<ProcessEnd>) {
        self.is_open = false;
        let (Some(part), Some(spans)) = (self.parts.last_mut(), self.spans.last()) else { return };
        part.pages = Pages::new(spans.total());
        part.swapped = Pages::new(counted.swapped);
        part.zero_page = Pages::new(counted.zero_page);
        part.ended = ended;
        let pid = part.pid.unwrap_or(0);
        if ended.is_some() {
            self.partial.get_or_insert(Partial::Ended);
        }
        if counted.garbled > 0 {
            let found = format!("{} other lines", counted.garbled);
            self.problems.push(make_problem(pid, "lines with a range of addresses", &found));
        }
        if counted.not_searched > 0 {
            let found = format!("{} pages not searched", counted.not_searched);
            self.problems.push(make_problem(pid, "a kernel with PAGEMAP_SCAN", &found));
        }
    }

    /// Discards the part of a process whose search did not finish.
    fn drop_unfinished(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.spans.pop();
            self.parts.pop();
            self.identities.pop();
        }
    }
}

/// A source of pages, of which no page was found yet.
pub(crate) fn empty_part(kind: PartKind, name: Name) -> Part {
    let none = Pages::new(0);
    Part {
        kind,
        name,
        pid: None,
        cgroup: None,
        pages: none,
        sampled: none,
        sampled_shared: none,
        swapped: none,
        zero_page: none,
        skipped: SkippedPages::default(),
        ended: None,
    }
}

/// The pages of files that were found so far, so that each counts once.
#[derive(Debug, Default)]
struct Files {
    seen: HashMap<((u32, u32), u64), RangeSet>,
    ranges: usize,
    is_full: bool,
}

impl Files {
    /// The ranges among `length` pages of a file, from `place` on, that were not found before.
    fn new_pages(&mut self, place: &FilePage, length: u64) -> Vec<(u64, u64)> {
        let end = place.page.saturating_add(length);
        let file = (place.device, place.inode);
        if self.ranges >= MOST_RANGES {
            self.is_full = true;
            let known = self.seen.get(&file);
            return known.map_or(vec![(place.page, end)], |seen| seen.missing(place.page, end));
        }
        let seen = self.seen.entry(file).or_default();
        let before = seen.len();
        let new = seen.insert(place.page, end);
        self.ranges = self.ranges.saturating_sub(before) + seen.len();
        new
    }
}

/// What a helper thread needs to search processes and report the result.
struct Searcher {
    finder: Finder,
    others: bool,
    devices: Devices,
    tell: SyncSender<Message>,
}

impl RunSink for SyncSender<Message> {
    fn runs(&mut self, runs: &mut Vec<FoundRun>) -> bool {
        self.send(Message::Runs(std::mem::take(runs))).is_ok()
    }
}

/// The open files of a process that may be searched.
struct SearchableProcess {
    stat: Stat,
    pagemap: Pagemap,
    maps: std::fs::File,
}

impl Searcher {
    /// Searches a process; returns whether the receiver still wants results.
    fn process(&mut self, pid: u32) -> bool {
        match self.open_searchable(pid) {
            Ok(ready) => self.search(ready),
            Err((name, why)) => self.tell.send(Message::NotRead(name, why)).is_ok(),
        }
    }

    fn open_searchable(&self, pid: u32) -> Result<SearchableProcess, (Option<Name>, WhyUnread)> {
        let before = Stat::read(pid).map_err(|_| (None, WhyUnread::Gone))?;
        let name = Some(before.name.clone());
        self.check_may_read(&before).map_err(|why| (name.clone(), why))?;
        let (pagemap, maps) = open_all(pid).map_err(|error| (name.clone(), why_unread(&error)))?;
        // the open files belong to the address space that the process had when they were opened, so
        // its identity must be read afterwards
        let stat = Stat::read(pid).map_err(|_| (name, WhyUnread::Gone))?;
        Ok(SearchableProcess { stat, pagemap, maps })
    }

    fn check_may_read(&self, stat: &Stat) -> Result<(), WhyUnread> {
        if let Some(why) = stat.why_no_memory() {
            return Err(why);
        }
        let ours = rustix::process::geteuid().as_raw();
        if self.others || is_ours(stat.identity.pid, ours).ok_or(WhyUnread::Gone)? {
            Ok(())
        } else {
            Err(WhyUnread::OtherUser)
        }
    }

    fn search(&mut self, ready: SearchableProcess) -> bool {
        let SearchableProcess { stat, pagemap, maps } = ready;
        let identity = stat.identity;
        if self.tell.send(Message::Begun(stat)).is_err() {
            return false;
        }
        let Self { finder, devices, tell, .. } = self;
        let hunt = ProcessSearch::new(finder, identity.pid, &pagemap, tell);
        let counted = match hunt.search(maps, |mapping| devices.backing(identity.pid, mapping)) {
            Ok(counted) => counted,
            Err(SearchEnd::NotWanted) => return false,
            // the call fails only if the process's memory is gone; the code below finds out why
            Err(SearchEnd::Refused(_)) => SearchCounts::default(),
        };
        let ended = (!pagemap.is_alive()).then(|| how_ended(&identity));
        self.tell.send(Message::Ended(counted, ended)).is_ok()
    }
}

/// Opens the pagemap and the memory of a process. The memory is opened here, too, because the
/// kernel may refuse only that file.
fn open_all(pid: u32) -> std::io::Result<(Pagemap, std::fs::File)> {
    open::open_memory(pid)?;
    Ok((Pagemap::open(pid)?, maps(pid)?))
}

fn why_unread(error: &std::io::Error) -> WhyUnread {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => WhyUnread::Denied,
        _ => WhyUnread::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::find::Method;
    use pagewise_procmem::frames::Frames;
    use pagewise_procmem::pagemap::{can_see_frames, find_zero_frame};
    use pagewise_testkit::Target;

    fn gather_all(pids: &[u32], method: Method) -> GatheredRuns {
        let page_size = rustix::param::page_size() as u64;
        let zero_frame = find_zero_frame(page_size);
        let kernel = Arc::new(Frames::open());
        let finder = Finder { method, page_size, file_backed: true, zero_frame, kernel };
        let name = Name::default();
        let candidate = |pid: &u32| Candidate { pid: *pid, name: name.clone(), cgroup: None };
        let candidates: Vec<Candidate> = pids.iter().map(candidate).collect();
        gather(&candidates, &finder, &Pace::start(Options::default()))
    }

    /// A finder without frame numbers.
    fn finder(method: Method) -> Finder {
        let kernel = Arc::default();
        Finder { method, page_size: 4096, file_backed: false, zero_frame: None, kernel }
    }

    /// First page and length of every span, without the huge flag that only PAGEMAP_SCAN reports.
    fn places(gathered: &GatheredRuns) -> Vec<(u64, u64)> {
        let spans =
            gathered.spans.iter().flat_map(|spans| (0..spans.len()).filter_map(|i| spans.get(i)));
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for span in spans {
            match runs.last_mut().filter(|(first, length)| first + length == span.first) {
                Some((_, length)) => *length += u64::from(span.length),
                None => runs.push((span.first, span.length.into())),
            }
        }
        runs
    }

    /// The other methods find the same pages as PAGEMAP_SCAN; if frame numbers are available, also
    /// the same zero pages.
    #[test]
    fn every_method_finds_the_same_pages() {
        for arrangement in ["hold 4", "shmem 2", "scatter 3000", "reserve 100 200"] {
            let target = Target::start(arrangement);
            for method in [Method::Scan, Method::Plain] {
                let (scan, other) = both(target.pid(), method);
                assert_eq!(places(&other), places(&scan), "{arrangement} {method:?}");
                assert_eq!(other.parts[0].swapped, scan.parts[0].swapped);
                assert!(other.problems.is_empty() && other.not_read.is_empty());
            }
        }
    }

    /// Runs of pages that are mapped in the same way: first page, length, and whether as part of a
    /// huge page.
    fn mapped(gathered: &GatheredRuns) -> Vec<(u64, u64, Option<bool>)> {
        let spans = &gathered.spans[0];
        let mut runs: Vec<(u64, u64, Option<bool>)> = Vec::new();
        for span in (0..spans.len()).filter_map(|at| spans.get(at)) {
            let length = u64::from(span.length);
            match runs.last_mut().filter(|run| run.0 + run.1 == span.first && run.2 == span.huge) {
                Some(run) => run.1 += length,
                None => runs.push((span.first, length, span.huge)),
            }
        }
        runs
    }

    /// Without PAGEMAP_SCAN, root finds the same huge, small and zero pages as with it; other users
    /// cannot distinguish them.
    #[test]
    fn huge_pages_are_told_without_the_scan() {
        let target = Target::start("huge 8");
        let (scan, plain) = both(target.pid(), Method::Plain);
        let count = |found: &GatheredRuns, huge: bool| -> u64 {
            let runs = mapped(found).into_iter().filter(|run| run.2 == Some(huge));
            runs.map(|(_, length, _)| length).sum()
        };
        assert_eq!(count(&scan, true), 8 * 256, "the kernel made no huge pages");
        assert!(count(&scan, false) >= 8 * 256);
        if can_see_frames(4096) {
            assert_eq!(mapped(&plain), mapped(&scan));
            assert_eq!(plain.parts[0].zero_page, scan.parts[0].zero_page);
        } else {
            assert_eq!((count(&plain, true), count(&plain, false)), (0, 0));
        }
    }

    /// Results of PAGEMAP_SCAN and of another method for unchanged memory: repeats both until the
    /// memory did not change in between, because the target may still be starting.
    fn both(pid: u32, method: Method) -> (GatheredRuns, GatheredRuns) {
        for _ in 0..100 {
            let scan = gather_all(&[pid], Method::ScanWithGuards);
            let other = gather_all(&[pid], method);
            if places(&gather_all(&[pid], Method::ScanWithGuards)) == places(&scan) {
                return (scan, other);
            }
        }
        panic!("the memory of {pid} keeps changing");
    }

    /// A receiver that accepts all runs and discards them.
    struct DiscardingSink;

    impl RunSink for DiscardingSink {
        fn runs(&mut self, runs: &mut Vec<FoundRun>) -> bool {
            runs.clear();
            true
        }
    }

    /// Searching 100 TiB of reserved address space takes about one call for each mapping.
    #[test]
    fn reserved_address_space_costs_nothing() {
        for (arrangement, method) in [
            ("reserve 100 1000", Method::ScanWithGuards),
            ("sparse 100 1000", Method::ScanWithGuards),
            ("reserve 100 1000", Method::Plain),
        ] {
            let target = Target::start(arrangement);
            let mut finder = finder(method);
            let pagemap = Pagemap::open(target.pid()).unwrap();
            let maps = maps(target.pid()).unwrap();
            let mappings = text_of_process(target.pid(), "maps").unwrap();
            let mappings = mappings.iter().filter(|byte| **byte == b'\n').count() as u64;
            let mut devices = Devices::new();
            let counted =
                ProcessSearch::new(&mut finder, target.pid(), &pagemap, &mut DiscardingSink)
                    .search(maps, |mapping| devices.backing(target.pid(), mapping))
                    .unwrap();
            assert!(counted.asked <= mappings + 16, "{arrangement}: {counted:?}, {mappings}");
        }
    }

    /// A mapping that is partly touched must be searched. The search has a limit, and reports that
    /// it was reached.
    #[test]
    fn without_the_scan_a_search_has_an_end() {
        let target = Target::start("sparse 100 200");
        let found = gather_all(&[target.pid()], Method::Plain);
        let problems: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
        assert!(problems.iter().any(|problem| problem.contains("PAGEMAP_SCAN")), "{problems:?}");
        let scan = gather_all(&[target.pid()], Method::ScanWithGuards);
        assert!(scan.problems.is_empty());
        assert!(scan.parts[0].pages.get() >= found.parts[0].pages.get());
        assert!(scan.parts[0].pages.get() >= 200);
    }

    #[test]
    fn shared_memory_of_two_processes_counts_once() {
        let (one, other) = (Target::start("hold 1"), Target::start("hold 1"));
        let both = gather_all(&[one.pid(), other.pid()], Method::ScanWithGuards);
        let alone = gather_all(&[other.pid()], Method::ScanWithGuards);
        // both processes run the same program, whose code is in the page cache once
        assert!(both.parts[1].pages < alone.parts[0].pages, "{:?} {:?}", both.parts, alone.parts);
    }

    #[test]
    fn who_cannot_be_read_is_listed_and_the_rest_goes_on() {
        let target = Target::start("hold 1");
        let found = gather_all(&[u32::MAX, target.pid(), 4_194_305], Method::ScanWithGuards);
        assert_eq!(found.parts.len(), 1);
        let whys: Vec<(u32, WhyUnread)> =
            found.not_read.iter().map(|it| (it.pid, it.why)).collect();
        assert_eq!(whys, [(u32::MAX, WhyUnread::Gone), (4_194_305, WhyUnread::Gone)]);
    }

    #[test]
    fn without_time_nobody_is_begun() {
        let budget = Some(Duration::ZERO);
        let pace = Pace::start(Options { budget, ..Options::default() });
        let finder = finder(Method::Plain);
        let candidate = Candidate { pid: std::process::id(), name: Name::default(), cgroup: None };
        let found = gather(&[candidate], &finder, &pace);
        assert_eq!(found.partial, Some(Partial::Budget));
        assert_eq!((found.parts.len(), found.not_read[0].why), (0, WhyUnread::NoTime));
    }

    /// However many ranges of file pages there are, no page is lost; at worst a page counts twice.
    #[test]
    fn pieces_of_files_are_bounded() {
        let mut files = Files::default();
        let page = |number: u64| FilePage { device: (0, 1), inode: 7, page: number * 2 };
        for number in 0..MOST_RANGES as u64 + 100 {
            assert_eq!(files.new_pages(&page(number), 1), [(number * 2, number * 2 + 1)]);
        }
        assert!(files.is_full && files.ranges <= MOST_RANGES);
        assert!(files.new_pages(&page(5), 1).is_empty());
    }
}
