// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads or generates the pages with which everything is measured.
//!
//! Same-filled pages are left out: zram stores them without compressing them.

use pagewise_bench::block::Pages;
use pagewise_model::{Bytes, Refusal, Snapshot};
use pagewise_observe::HostRoot;
use pagewise_pages::same;
use pagewise_sample::{Choice, Options, Origin, Sample, Target};
use pagewise_terminal::Global;
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::progress::PageBar;

use crate::cli::Bench;
use crate::verbs::scan::target;

/// The pages to measure with, and where they come from.
pub(super) struct Drawn {
    pub(super) pages: Pages,
    pub(super) name: String,
    pub(super) same_filled: u64,
    pub(super) notes: Vec<String>,
}

/// The minimum number of pages to measure with: they fill a request of 32 KiB twice (with pages of
/// 4 KiB).
const FEWEST: usize = 16;

pub(super) fn draw(
    global: &Global,
    args: &Bench,
    host: &HostRoot,
    snapshot: &Snapshot,
    stop: &Stop,
) -> anyhow::Result<Drawn> {
    let page = rustix::param::page_size();
    let most = usize::try_from(max_size(args).get())? / page;
    let drawn = match &args.mix {
        Some(mix) => make_up_pages(mix, most, args.seed),
        None => sample_pages(global, args, host, snapshot, (most, stop))?,
    };
    if drawn.pages.count() >= FEWEST {
        return Ok(drawn);
    }
    let found = drawn.pages.count();
    let what = format!(
        "{}: expected at least {FEWEST} pages that are not same-filled, found {found}",
        drawn.name
    );
    anyhow::bail!(Refusal::with_advice(
        what,
        "name other memory (--pid, --file), or make some up: --mix text:100"
    ))
}

/// The maximum size of the sample. Filling a device takes time, whatever the time limit is: the
/// default size fills one within a few seconds.
fn max_size(args: &Bench) -> Bytes {
    let usual = if args.quick { 64 << 20 } else { 256 << 20 };
    args.size.unwrap_or(Bytes::new(usual))
}

fn make_up_pages(mix: &pagewise_workload::contents::Mix, most: usize, seed: u64) -> Drawn {
    let page = rustix::param::page_size();
    let mut drawn = Drawn::empty(format!("made-up pages, {mix}"), most);
    mix.pages(most, page, seed).chunks_exact(page).for_each(|page| drawn.add(page));
    drawn
}

fn sample_pages(
    global: &Global,
    args: &Bench,
    host: &HostRoot,
    snapshot: &Snapshot,
    (most, stop): (usize, &Stop),
) -> anyhow::Result<Drawn> {
    let target = if args.source.is_named() {
        target::resolve(&args.source, snapshot)?.0
    } else {
        Target::Host
    };
    let options = Options {
        choice: Choice::Count(most as u64),
        others_allowed: args.measure,
        seed: args.seed,
        stop: Some(stop.shared()),
        ..Options::default()
    };
    let mut sampler = pagewise_sample::open(host, &target, options)?;
    let shown = PageBar::start(global);
    let expected = sampler.pages().get().min(most as u64);
    shown.expect(expected);
    let mut drawn = Drawn::empty(String::new(), usize::try_from(expected)?);
    let visit = |_: &Origin, page: &[u8]| {
        drawn.add(page);
        shown.count_page();
    };
    sampler.run(&mut [visit]);
    let sample = sampler.finish();
    drawn.name = name_of_sample(&sample);
    drawn
        .notes
        .extend(sample.partial.map(|why| format!("the sample is smaller than asked for: {why}")));
    drawn.notes.extend(describe_incomplete_page(args));
    Ok(drawn)
}

/// The name of the sample: that of its only part, or the number of parts.
fn name_of_sample(sample: &Sample) -> String {
    match sample.parts.as_slice() {
        [one] => match one.pid {
            Some(pid) => format!("{} (pid {pid})", one.name),
            None => one.name.to_string(),
        },
        parts => format!("{} processes", parts.len()),
    }
}

/// A note if the file with the pages ends within a page.
fn describe_incomplete_page(args: &Bench) -> Option<String> {
    let path = args.source.file.as_ref()?;
    let page = rustix::param::page_size() as u64;
    let over = rustix::fs::stat(path).ok().map(|stat| stat.st_size.unsigned_abs() % page)?;
    let over = Some(over).filter(|over| *over > 0)?;
    Some(format!("{} ends {} into a page: filled up with zeros", path.display(), Bytes::new(over)))
}

impl Drawn {
    fn empty(name: String, most: usize) -> Self {
        Self { pages: Pages::with_room(most), name, same_filled: 0, notes: Vec::new() }
    }

    fn add(&mut self, page: &[u8]) {
        if same::fill_word(page).is_some() {
            self.same_filled += 1;
        } else {
            self.pages.push(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Verb};

    #[test]
    fn quick_fills_less_unless_it_is_told_how_much() {
        for (options, mib) in [
            (&[][..], 256),
            (&["--full"], 256),
            (&["--quick"], 64),
            (&["--quick", "--size", "128M"], 128),
        ] {
            let line = [&["pagewise", "bench", "--mix", "text:100"][..], options].concat();
            let Some(Verb::Bench(wanted)) = Cli::try_parse_from(line).unwrap().verb else {
                panic!()
            };
            assert_eq!(max_size(&wanted), Bytes::new(mib << 20), "{options:?}");
        }
    }
}
