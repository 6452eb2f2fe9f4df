// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples a process and prints the CPU time that this took, for each way of choosing pages.
//!
//! ```text
//! cargo run --release -p pagewise-sample --example look -- PID [WORKERS]
//! ```

use std::time::Duration;

use pagewise_observe::HostRoot;
use pagewise_sample::{Choice, OpenError, Options, Origin, Sample, Target, open};

fn main() -> Result<(), OpenError> {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse().ok());
    let pid = arguments.next().flatten().unwrap_or(0);
    let workers = usize::try_from(arguments.next().flatten().unwrap_or(1)).unwrap_or(1);
    let host = HostRoot::live().expect("a root");
    let target = if pid == 0 { Target::Host } else { Target::Process(pid) };
    for choice in [Choice::Exact, Choice::Exact, Choice::Count(5000), Choice::Precise] {
        let options = Options { choice, others_allowed: true, ..Options::default() };
        let begun = cpu();
        let mut sampler = open(&host, &target, options)?;
        let found = cpu() - begun;
        let mut sums = vec![0u64; workers];
        let mut visits: Vec<_> = sums
            .iter_mut()
            .map(|sum| {
                move |_: &Origin, page: &[u8]| {
                    *sum = sum.wrapping_add(u64::from(page[0]));
                }
            })
            .collect();
        let drawn = sampler.run(&mut visits);
        let read = cpu() - begun - found;
        println!(
            "{choice:?}: found {} in {found:?} ({} ns/page), shown {} in {read:?}: {} ns/page",
            sampler.pages().get(),
            found.as_nanos() / u128::from(sampler.pages().get().max(1)),
            drawn.shown.get(),
            read.as_nanos() / u128::from(drawn.shown.get().max(1))
        );
        summary(&sampler.finish());
    }
    Ok(())
}

/// CPU time of all threads, which does not depend on the load of the machine.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}

fn summary(sample: &Sample) {
    println!(
        "  swapped {} parts {} not read {} {:?} {:?} {:?}",
        sample.swapped_pages().get(),
        sample.parts.len(),
        sample.not_read.len(),
        sample.sharing,
        sample.disturbed,
        sample.partial
    );
    for part in sample
        .parts
        .iter()
        .filter(|part| part.ended.is_some() || part.skipped.sum().get() > 0)
        .take(5)
    {
        println!("  {part:?}");
    }
    sample.problems.iter().for_each(|problem| println!("  {problem}"));
}
