// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads pages with several threads, and estimates from them the compressed size of all pages
//! together and of each part.

use std::time::Duration;

use anyhow::Context;
use pagewise_model::{Disturbed, EstimateSource, Name, Refusal, Snapshot, group_digits};
use pagewise_observe::HostRoot;
use pagewise_pages::estimate::{Origin, estimate};
use pagewise_pages::random_draw::RandomDraw;
use pagewise_pages::tally::{Question, Tally};
use pagewise_sample::{
    Choice, OpenError, Options, Part, Partial, Sample, Sampler, Sharing, Target,
};
use pagewise_sandbox::Confinement;
use pagewise_terminal::Global;
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::progress::PageBar;

use super::dump::Dump;
use super::target;
use super::worker::{self, Rules, Worker};
use crate::cli::Scan;

/// The relative error of every algorithm's compressed size that a scan aims at, with 95 %
/// confidence.
const PRECISE: f64 = 0.02;

/// The result of a scan.
pub(super) struct ScanOutcome {
    /// The estimates: first that of all parts together, then one for each part if there are
    /// several.
    pub(super) estimates: super::Estimates,
    /// Notes for the reader about the sample.
    pub(super) notes: Vec<String>,
    pub(super) bytes_read: u64,
}

/// Gives up rights: from here on this process can only read pages of the target, and print.
fn confine(target: &Target) {
    match target {
        Target::File(_) | Target::Device(_) | Target::Core(_) => Confinement::for_stored_pages(),
        _ => Confinement::for_processes(),
    }
    .enter();
}

/// Samples the target; afterwards this process can only print and exit.
pub(super) fn scan(
    global: &Global,
    args: &Scan,
    host: &HostRoot,
    snapshot: &Snapshot,
    question: &Question,
) -> anyhow::Result<ScanOutcome> {
    let (target, kind) = target::resolve(&args.source, snapshot)?;
    let options = target::sampler_options(args, Stop::listen()?.shared());
    let mut sampler = pagewise_sample::open(host, &target, options).map_err(add_advice)?;
    refuse_unread(sampler.so_far())?;
    let dump = args.dump.as_deref().map(Dump::new).transpose()?;
    confine(&target);
    let shown = PageBar::start(global);
    let threads = match target::sample_choice(args) {
        Choice::Exact => std::thread::available_parallelism()?.get(),
        _ => 1,
    };
    let rules = Rules {
        question,
        dump: dump.as_ref(),
        shown: &shown,
        lot: RandomDraw::new(
            args.seed,
            target::sample_size(args, sampler.pages()),
            sampler.pages().get(),
        ),
        most_kept: if args.duplicates {
            worker::count_hashes_that_fit(snapshot) / threads
        } else {
            usize::MAX
        },
    };
    let mut workers: Vec<Worker<'_>> = (0..threads).map(|_| Worker::new(rules)).collect();
    draw(&mut sampler, &mut workers, args, &shown);
    let sample = sampler.finish();
    let tallies = merge_workers(question, workers, sample.parts.len());
    drop(shown);
    if let Some(dump) = dump {
        dump.finish()?;
    }
    Ok(run_workers(question, kind, &sample, tallies))
}

/// Adds advice to the error if a process was refused.
fn add_advice(error: OpenError) -> anyhow::Error {
    match error {
        OpenError::Process { why, .. } if why.is_refused() => {
            Refusal::with_advice(error.to_string(), IF_REFUSED).into()
        }
        other => other.into(),
    }
}

const IF_REFUSED: &str = "`sudo pagewise scan --measure …` looks at processes of other users, too";

/// Returns an error if access was refused to every process: an estimate of nothing would say that
/// there is no memory.
fn refuse_unread(found: &Sample) -> anyhow::Result<()> {
    let mut refused = found.not_read.iter().filter(|unread| unread.why.is_refused());
    let Some(first) = refused.next().filter(|_| found.parts.is_empty()) else {
        return Ok(());
    };
    let of = match refused.count() {
        0 => format!("process {} ({})", first.pid, first.name),
        more => format!("process {} ({}) and {more} more", first.pid, first.name),
    };
    let what = format!("{of}: {}", first.why);
    Err(Refusal::with_advice(what, IF_REFUSED).into())
}

/// Number of pages that a scan for `report` samples, and its time limit.
const GLANCE: u64 = 1000;
const GLANCE_TIME: Duration = Duration::from_millis(300);

/// Scans a small sample for the report, or says why there is none. It is the last step before a
/// report is printed, because it gives up rights.
pub(super) fn scan_for_report(
    host: &HostRoot,
    target: &Target,
    question: &Question,
) -> anyhow::Result<super::Estimates> {
    Confinement::for_processes().enter();
    let budget = Some(GLANCE_TIME);
    let options = Options { choice: Choice::Count(GLANCE), budget, ..Options::default() };
    let mut sampler =
        pagewise_sample::open(host, target, options).context("no page could be read")?;
    let shown = PageBar::silent();
    let (lot, most_kept) = (RandomDraw::all(), usize::MAX);
    let mut workers = [Worker::new(Rules { question, dump: None, shown: &shown, lot, most_kept })];
    sampler.run(&mut workers);
    let sample = sampler.finish();
    let tallies = merge_workers(question, workers, sample.parts.len());
    if sample.sampled_pages().get() == 0 {
        anyhow::bail!(explain_unread(&sample));
    }
    Ok(run_workers(question, "processes", &sample, tallies).estimates)
}

/// Explains why no page of the largest processes could be read, and what would help.
fn explain_unread(sample: &Sample) -> String {
    let mut reasons = count_reasons(sample);
    reasons.extend(sample.partial.map(|why| why.to_string()));
    if reasons.is_empty() {
        reasons.push("none of them has memory that swap would take".to_owned());
    }
    let tried = count_in_words(sample.parts.len() + sample.not_read.len());
    let help = if sample.not_read.iter().any(|unread| unread.why.is_refused()) {
        "; `sudo pagewise scan --host --measure` reads processes of all users, `pagewise scan --pid PID` \
         one of your own"
    } else {
        "; `pagewise scan --pid PID` takes its time"
    };
    format!(
        "no page of the {tried} with the most memory could be read: {}{help}",
        reasons.join("; ")
    )
}

/// Samples the requested number of pages; by default, as many as [`PRECISE`] needs.
fn draw(sampler: &mut Sampler, workers: &mut [Worker<'_>], args: &Scan, shown: &PageBar) {
    let population = sampler.pages().get();
    let first = Choice::pages_of(target::sample_choice(args), sampler.pages()).get();
    shown.expect(first);
    let mut drawn = sampler.run(workers);
    if target::sample_choice(args) != Choice::Precise {
        return;
    }
    // the target is computed twice, because the variance estimated from the first pages is itself
    // uncertain
    for _ in 0..2 {
        let Some(all) = tally_of_all(workers) else { return };
        let needed = all.needed_sample(PRECISE, population).saturating_sub(all.sampled_pages());
        if needed == 0 || drawn.partial.is_some() {
            return;
        }
        shown.expect(needed);
        drawn = sampler.draw(needed, workers);
    }
}

fn tally_of_all(workers: &[Worker<'_>]) -> Option<Tally> {
    let question = workers.first()?.rules.question;
    Some(Tally::of_all(question, workers.iter().flat_map(|worker| &worker.tallies)))
}

/// The tally of each part, merged from all threads.
fn merge_workers<'a>(
    question: &Question,
    workers: impl IntoIterator<Item = Worker<'a>>,
    parts: usize,
) -> Vec<Tally> {
    let mut merged: Vec<Tally> = (0..parts).map(|_| Tally::new(question)).collect();
    for worker in workers {
        for (into, tally) in merged.iter_mut().zip(worker.tallies) {
            into.merge(tally);
        }
    }
    merged
}

fn run_workers(
    question: &Question,
    kind: &str,
    sample: &Sample,
    mut tallies: Vec<Tally>,
) -> ScanOutcome {
    let is_one = sample.parts.len() == 1;
    let mut estimates = Vec::new();
    if !is_one {
        let parts = sample.parts.iter().zip(&mut tallies);
        let of_part = |(part, tally): (&Part, &mut Tally)| {
            let origin = origin(part.kind.word(), part.name.clone(), part.pid, (part, sample));
            estimate(question, origin, std::slice::from_mut(tally))
        };
        estimates = parts.map(of_part).collect();
    }
    estimates.insert(0, estimate(question, origin_of_all(kind, sample), &mut tallies));
    ScanOutcome {
        estimates,
        notes: notes(sample),
        bytes_read: sample.sampled_pages().get() * sample.page_size.get(),
    }
}

fn origin(kind: &str, name: Name, pid: Option<u32>, (part, sample): (&Part, &Sample)) -> Origin {
    Origin {
        source: EstimateSource { kind: kind.into(), name, pid },
        places: population(sample, part),
        swapped_pages: part.swapped.get(),
        partial: part.ended.map(|_| "it ended or was replaced meanwhile".to_owned()),
        disturbed: Disturbed::default(),
    }
}

/// An origin without an owner, for tests.
#[cfg(test)]
pub(super) fn origin_for_tests(places: u64) -> Origin {
    let source = EstimateSource { kind: "file".into(), name: Name::default(), pid: None };
    Origin { source, places, swapped_pages: 0, partial: None, disturbed: Disturbed::default() }
}

fn origin_of_all(kind: &str, sample: &Sample) -> Origin {
    let (name, pid) = match sample.parts.as_slice() {
        [one] => (one.name.clone(), one.pid),
        parts => (Name::from(format!("{} processes", parts.len()).as_str()), None),
    };
    let disturbed = sample.disturbed;
    Origin {
        source: EstimateSource { kind: kind.into(), name, pid },
        places: sample.parts.iter().map(|part| population(sample, part)).sum(),
        swapped_pages: sample.swapped_pages().get(),
        partial: sample
            .partial
            .map(|why| describe_partial(why, sample))
            .or_else(|| describe_refusal(kind, sample)),
        disturbed: Disturbed {
            referenced_pages: disturbed.referenced_pages.get(),
            unshared_pages: disturbed.unshared_pages.get(),
            faults: disturbed.faults,
        },
    }
}

/// Describes how many of the named processes were refused. With `--host`, refusals are expected and
/// not described.
fn describe_refusal(kind: &str, sample: &Sample) -> Option<String> {
    let refused = sample.not_read.iter().filter(|unread| unread.why.is_refused()).count();
    let all = count_in_words(sample.parts.len() + sample.not_read.len());
    (refused > 0 && kind != "host")
        .then(|| format!("{refused} of {all} refused; {IF_REFUSED}; what follows is of the others"))
}

/// The number of pages that an estimate stands for. An exact scan reads pages in address order; if
/// it stops early, the pages that it read are no random sample, so the estimate covers only these.
/// If a process ended, only its sampled pages are known to have existed.
fn population(sample: &Sample, part: &Part) -> u64 {
    let seen_alone = sample.choice == Choice::Exact || part.ended.is_some();
    if seen_alone { part.sampled.get() } else { part.pages.get() }
}

fn describe_partial(why: Partial, sample: &Sample) -> String {
    match (sample.choice, why) {
        (Choice::Exact, _) => (),
        (_, Partial::Ended) => return format!("{why}; what was left of it is not counted"),
        _ => return why.to_string(),
    }
    let (shown, all) =
        (group_digits(sample.sampled_pages().get()), group_digits(sample.pages().get()));
    format!("{why} after {shown} of {all} pages; what follows is of those alone")
}

/// Further notes about the sample for the reader.
fn notes(sample: &Sample) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    if sample.sharing == Sharing::Proportional {
        notes.push(
            "Which private pages processes share since a fork is told to root alone: here they count by \
             the proportional size of their mappings (smaps), so that processes outside of this scan \
             take their part away."
                .to_owned(),
        );
    }
    notes.extend(count_reasons(sample));
    notes.extend(sample.problems.iter().map(ToString::to_string));
    notes
}

/// Why processes could not be sampled: each reason once, with the number of its processes.
fn count_reasons(sample: &Sample) -> Vec<String> {
    let mut reasons: Vec<_> = sample.not_read.iter().map(|unread| unread.why).collect();
    reasons.sort_unstable();
    let listed = reasons
        .chunk_by(|a, b| a == b)
        .map(|of_one| format!("{} not read: {}", count_in_words(of_one.len()), of_one[0]));
    listed.collect()
}

fn count_in_words(count: usize) -> String {
    if count == 1 { "1 process".to_owned() } else { format!("{count} processes") }
}
