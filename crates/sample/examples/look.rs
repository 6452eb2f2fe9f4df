// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Looks at a process and says what that took, for each way of choosing pages.
//!
//! ```text
//! cargo run --release -p pagewise-sample --example look -- PID [WORKERS]
//! ```

use std::time::Instant;

use pagewise_observe::HostRoot;
use pagewise_sample::{Choice, OpenError, Options, Origin, Sample, Target, open};

fn main() -> Result<(), OpenError> {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse().ok());
    let pid = arguments.next().flatten().unwrap_or(0);
    let workers: usize = arguments.next().flatten().unwrap_or(1) as usize;
    let host = HostRoot::live().expect("a root");
    let target = if pid == 0 { Target::Host } else { Target::Process(pid) };
    for choice in [Choice::Exact, Choice::Exact, Choice::Count(5000), Choice::Precise] {
        let options = Options { choice, others_allowed: true, ..Options::default() };
        let begun = Instant::now();
        let mut sampler = open(&host, &target, options)?;
        let found = begun.elapsed();
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
        let read = begun.elapsed() - found;
        println!(
            "{choice:?}: found {} in {found:?}, shown {} in {read:?}: {} ns/page",
            sampler.pages().get(),
            drawn.shown.get(),
            read.as_nanos() / u128::from(drawn.shown.get().max(1))
        );
        summary(&sampler.finish());
    }
    Ok(())
}

fn summary(sample: &Sample) {
    println!(
        "  swapped {} parts {} not read {} {:?} {:?} {:?}",
        sample.swapped().get(),
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
