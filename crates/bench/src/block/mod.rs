// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures what each zram algorithm costs for given pages at the block layer, request by request.
//!
//! [`measure_devices`] borrows a device for each algorithm, fills all with the same [`Pages`], and
//! measures them together with [references](BlockSpec::references) in interleaved rounds; [`Bench`]
//! has every round of every cell. [`measure`] is the engine below it: it takes any [`Store`], so
//! that codecs in user space can be measured in the same way if there is no zram.
//!
//! Requests are `pread` and `pwrite` of random blocks that hold data, with O_DIRECT, one at a time
//! per job. io_uring is not used: it passes zram's requests to a worker thread, whose cost would be
//! measured, too. Writes do not change the contents: otherwise neither the ratio nor the memory
//! used would be meaningful. The buffer that is written from is as large as the span, so that it
//! does not fit into the CPU's caches; pages that are swapped out are not in the caches either.
//!
//! Requests of 32 KiB do not show the cost of swap with `vm.page-cluster` 3; the page fault
//! benchmark (`faults`) does.
//!
//! ```text
//! let mut pages = Pages::with_room(65_536);            // or Pages::read(&mut file, 65_536)
//! sampler.run(&mut [|_, page| _ = pages.push(page)]);
//! let spec = BlockSpec::new(candidates, Duration::from_secs(40), 9);     // fields are public
//! let mut watch = Watch { stop: &stop, progress: &mut |step| bar.show(step) };
//! let bench = measure_devices(&mut lender, &host, &pages, &spec, &mut watch)?;
//! bench.rows();             // BenchRow, of medians        bench.references();    // Reference
//! bench.cells[0].rounds;    // Round of every round: those of one number are pairs
//! ```

mod cell;
mod clock;
mod contest;
mod contestant;
mod devices;
mod error;
mod latencies;
mod noise;
mod outcome;
mod pace;
mod pages;
mod plan;
mod reference;
mod room;
mod round;
mod slice;
mod spec;
mod store;
mod stores;
mod zram;

pub use cell::Cell;
pub use contest::{ContestResults, Watch, measure};
pub use contestant::Contestant;
pub use devices::measure_devices;
pub use error::Error;
pub use outcome::{Bench, Entrant};
pub use pace::Progress;
pub use pages::Pages;
pub use plan::Plan;
pub use reference::Disk;
pub use round::Round;
pub use spec::BlockSpec;
pub use store::{Device, Store};
pub use stores::{FilledStore, measure_stores};
pub use zram::Filled;
