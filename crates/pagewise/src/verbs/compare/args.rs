// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise compare`.

use std::path::PathBuf;

use clap::Args;

/// The long help of the verb.
pub(super) const COMPARE: &str = "Compare two recordings, or a recording with this machine now.\n\n\
    The output shows which settings changed (kernel settings, boot parameters, swap areas, zram devices), \
    where memory was and is, pressure, refaults, swapping, the CPU time of kswapd, kcompactd and khugepaged, \
    and which cgroups and processes changed most. If both are of the same boot, rates over the time between \
    are shown, too. Recordings contain no host name and no boot ID, so pagewise infers this from the time of \
    the boot and from processes that both contain, and says what it infers it from.\n\n\
    Of a recording over time (`pagewise capture --every`), its last two readings are compared. Given alone, its \
    first two readings are compared with its last two.\n\n\
    Two times (--at) compare two readings of the record that `pagewise monitor` keeps, each with the reading before \
    it.\n\n\
    The output lists measures that became better or worse, but a comparison is not an experiment: the load \
    differs, too. If a setting changed that `pagewise trial` can test, the output contains the command. The \
    exit status does not depend on what changed.\n\n  \
    pagewise capture -o before.tar.zst           record this machine\n  \
    pagewise compare before.tar.zst              compare the recording with this machine now\n  \
    pagewise compare before.tar.zst after.tar.zst\n  \
    pagewise compare --at 02:50 --at 03:12       two times of the record of `pagewise monitor`";

#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// The recording from before: a file or a folder that `pagewise capture` wrote
    #[arg(value_name = "BEFORE", required_unless_present = "at")]
    pub(crate) before: Option<PathBuf>,
    /// The recording from after, in the same form [default: this machine now]
    #[arg(value_name = "AFTER")]
    pub(crate) after: Option<PathBuf>,
    /// A time of the record, in UTC, such as 03:12 or '2026-11-27 03:12'; give two
    #[arg(long, value_name = "TIME", conflicts_with = "before")]
    pub(crate) at: Vec<String>,
    /// Folder of the record [default: that of `pagewise monitor`]
    #[arg(long, value_name = "DIR", requires = "at")]
    pub(crate) record: Option<PathBuf>,
}
