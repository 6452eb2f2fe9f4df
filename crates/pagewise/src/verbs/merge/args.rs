// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise merge`.

use std::time::Duration;

use clap::Args;
use pagewise_model::typed::parse_duration;

pub(super) const MERGE: &str = "Merge identical pages on zmerge devices (compressed RAM disks of pagewise's \
    kernel module zmerge). Needs root.\n\n\
    The command starts a merge pass on each selected zmerge device: the kernel compares all pages that the \
    device stores (as swap or as a disk), keeps one copy of each set of identical pages, and frees the \
    memory of the other copies. Programs can read and write the device during a merge pass. A merge pass \
    changes neither the data on the device nor any setting. If a program later writes to a merged page, the \
    device stores the new contents as a separate page. Ctrl-C ends the merge pass; pages that it has merged \
    until then stay merged. The output shows how much memory each device uses and how many of its \
    pages are merged, before and after the pass. With --predict, the command first counts the duplicate \
    pages. To count duplicate pages without merging them, use `pagewise scan --device DEVICE --duplicates`.";

#[derive(Debug, Args)]
pub(crate) struct Merge {
    /// Merge identical pages only on this zmerge device, such as zmerge0; may be given several times
    /// [default: all zmerge devices whose merge_mode is not off]
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Vec<String>,
    /// Wait until the machine is calm before the merge pass starts. Calm means that PSI some over the last 10
    /// seconds is at most 1 % for memory and at most 20 % for CPU
    #[arg(long)]
    pub(crate) when_calm: bool,
    /// How long --when-calm waits for the machine to become calm; after this time, pagewise ends with an
    /// error and merges nothing
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration,
        requires = "when_calm")]
    pub(crate) timeout: Duration,
    /// End the merge pass that is running, and start none
    #[arg(long, conflicts_with_all = ["when_calm", "no_wait", "predict"])]
    pub(crate) stop: bool,
    /// Start the merge pass and exit without waiting for its end
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Count the duplicate pages of each device before the merge pass; counting reads the whole device
    #[arg(long, conflicts_with = "no_wait")]
    pub(crate) predict: bool,
}
