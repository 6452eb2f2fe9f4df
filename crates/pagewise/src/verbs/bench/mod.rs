// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise bench`: measures the same pages with every algorithm, as block requests and as swap
//! faults.

mod answer;
mod codecs;
mod devices;
mod evidence;
mod pages;
mod swap;
mod times;

use pagewise_bench::block::{Progress, Watch};
use pagewise_model::Snapshot;
use pagewise_observe::Scope;
use pagewise_report::{Benched, csv, json, text};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::progress::Measuring;
use pagewise_terminal::{Global, Outcome, exit, output, screen};

use super::new_page::NewPage;
use super::refuse_recording;
use crate::cli::{Bench, Format};
use crate::input;
use pagewise_lab::redaction::Redaction;

pub(super) fn run(global: &Global, args: &Bench, started: CostMeter) -> anyhow::Result<Outcome> {
    refuse_recording(global, "bench")?;
    // before anything is measured, so that a path that cannot be written is reported at once
    let outputs = Outputs::open(args)?;
    let stop = Stop::listen()?;
    let host = input::open(global)?.without_start();
    let interval = host.interval(&scope(args), || anyhow::Ok(()))?;
    let setting = Setting { global, args, host: &host.end, snapshot: &interval.end, stop: &stop };
    let (drawn, measured) = draw_and_measure(&setting)?;
    let benchmark = answer::build(&measured, &drawn, interval.end.memory.total.get());
    // after the measurement, whose own cost it contains
    let cost = cost::measure_since(started, &interval);
    let benched = Benched { snapshot: &interval.end, benchmark: &benchmark, cost };
    outputs.write(&setting, &benched, &measured)?;
    Ok(if benchmark.stopped { Outcome::Status(exit::STOPPED) } else { Outcome::Done })
}

/// The files that the user asked `bench` to write.
struct Outputs {
    page: Option<NewPage>,
    evidence: Option<evidence::Folder>,
}

impl Outputs {
    fn open(args: &Bench) -> anyhow::Result<Self> {
        let page = NewPage::start(args.html.as_deref())?;
        let folder = |at| evidence::Folder::new(at, Redaction::new(args.keep_names));
        let evidence = args.evidence.as_deref().map(folder).transpose()?;
        Ok(Self { page, evidence })
    }

    /// Writes the evidence first: it is complete even if the answer cannot be printed.
    fn write(
        self,
        setting: &Setting<'_>,
        benched: &Benched<'_>,
        measured: &BenchResults,
    ) -> anyhow::Result<()> {
        if let Some(folder) = self.evidence {
            folder.fill(benched, measured)?;
        }
        show(setting.global, setting.args, self.page, benched)
    }
}

/// Draws the pages to measure with, says how long the measurement will take, and measures.
fn draw_and_measure(setting: &Setting<'_>) -> anyhow::Result<(pages::Drawn, BenchResults)> {
    let Setting { global, args, host, snapshot, stop } = *setting;
    let drawn = pages::draw(global, args, host, snapshot, stop)?;
    if !global.quiet {
        output::print_message(times::Times::estimate(args).announcement());
    }
    let measured = measure(setting, &drawn)?;
    Ok((drawn, measured))
}

/// What to read of the host: processes only if the pages are sampled from processes.
fn scope(args: &Bench) -> Scope {
    let source = &args.source;
    let named = [&source.file, &source.device, &source.core];
    if args.mix.is_some() || named.iter().any(|path| path.is_some()) {
        Scope { settings: true, ..Scope::glance() }
    } else {
        Scope::everything(std::time::Duration::ZERO)
    }
}

/// What every measurement of `bench` needs.
#[derive(Clone, Copy)]
struct Setting<'a> {
    global: &'a Global,
    args: &'a Bench,
    host: &'a pagewise_observe::HostRoot,
    snapshot: &'a Snapshot,
    stop: &'a Stop,
}

/// The results of all measurements of `bench`.
struct BenchResults {
    layer: pagewise_model::BenchLayer,
    block: pagewise_bench::block::Bench,
    /// Results of swap: first all algorithms with one kind of memory, then one algorithm with all
    /// kinds.
    swap: Vec<pagewise_bench::faults::FaultResults>,
    not_measured: Vec<pagewise_model::Refusal>,
    notes: Vec<String>,
}

/// Measures on zram devices if that is possible, otherwise with the libraries.
fn measure(setting: &Setting<'_>, drawn: &pages::Drawn) -> anyhow::Result<BenchResults> {
    if setting.args.codecs {
        return codecs::measure(setting, drawn, Vec::new());
    }
    match devices::measure(setting, drawn) {
        Err(error) => {
            let devices::NoDevices(why) = error.downcast()?;
            codecs::measure(setting, drawn, vec![why])
        }
        measured => measured,
    }
}

impl Setting<'_> {
    /// Calls `work`, and shows its progress meanwhile.
    fn with_progress<T>(&self, what: &str, work: impl FnOnce(&mut Watch<'_>) -> T) -> T {
        let shown = Measuring::start(self.global, what);
        let mut progress = |at: &Progress| shown.show_step(at.done, at.total, at.left, &at.what);
        work(&mut Watch { stop: self.stop.flag(), progress: &mut progress })
    }
}

fn show(
    global: &Global,
    args: &Bench,
    page: Option<NewPage>,
    benched: &Benched<'_>,
) -> anyhow::Result<()> {
    let shown = || match (global.json, args.format) {
        (true, _) => json::bench(benched),
        (false, Format::Csv) => csv::bench(benched.benchmark),
        (false, Format::Text) => text::bench(benched, screen::text_style(global)),
    };
    NewPage::write_or_print(page, global, || pagewise_html::bench_page(benched), shown)?;
    if global.verbose {
        output::print_message(cost::format_line(&benched.cost));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use pagewise_observe::ProcessScope;

    use super::*;
    use crate::cli::{Cli, Verb};

    #[test]
    fn processes_are_read_only_for_their_own_pages() {
        for (source, processes) in [
            ("--file=/x", ProcessScope::Nothing),
            ("--device=/dev/x", ProcessScope::Nothing),
            ("--core=/x", ProcessScope::Nothing),
            ("--mix=text:100", ProcessScope::Nothing),
            ("--pid=1", ProcessScope::Everything),
            ("--name=redis*", ProcessScope::Everything),
        ] {
            let typed = Cli::try_parse_from(["pagewise", "bench", source]).unwrap();
            let Some(Verb::Bench(wanted)) = typed.verb else { panic!("bench") };
            assert_eq!(scope(&wanted).processes, processes, "{source}");
            assert!(scope(&wanted).settings, "what algorithms the kernel has");
        }
    }
}
