// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise merge`.

use std::time::Duration;

use clap::Args;
use pagewise_model::typed::parse_duration;

pub(super) const MERGE: &str = "Merge the identical pages in zmerge devices immediately. Needs root.\n\n\
    A merge pass examines every page that a device of the zmerge module stores (as swap or as a disk), stores \
    identical pages once, and frees the memory of the copies. Programs can read and write the device during a \
    merge pass. A merge pass changes neither the data on the device nor any setting. If a program writes to a \
    merged page later, the device stores the written page separately again. The kernel always completes a \
    merge pass: Ctrl-C ends this command but not the pass. The output shows the memory that the device uses \
    and the number of merged pages, before and after the pass. With --predict, the command counts duplicate \
    pages before the pass; `pagewise scan --device` counts duplicate pages without a merge pass.";

#[derive(Debug, Args)]
pub(crate) struct Merge {
    /// A zmerge device, such as zmerge0; may be given several times [default: all devices that can be merged]
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Vec<String>,
    /// Start the pass only when almost no task is waiting for memory or a CPU
    #[arg(long)]
    pub(crate) when_calm: bool,
    /// Time limit for the wait of --when-calm; if the time limit expires, pagewise merges nothing
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration,
        requires = "when_calm")]
    pub(crate) timeout: Duration,
    /// Start the pass and exit without waiting for its end
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Count the duplicate pages of each device before the pass; counting reads the whole device
    #[arg(long, conflicts_with = "no_wait")]
    pub(crate) predict: bool,
}
