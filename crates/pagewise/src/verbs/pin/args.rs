// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise pin`.

use std::time::Duration;

use clap::Args;
use pagewise_model::Bytes;
use pagewise_model::typed::parse_duration;

use super::TargetArgs;

pub(super) const PIN: &str = "Keep the code of running programs in memory.\n\n\
    If files are read faster than memory has room for them, the kernel also reclaims the code of programs, which is in \
    the page cache like other files. The program then waits for the disk to read its own instructions. `pin` locks the \
    pages of their files that the programs have mapped (code and constants), so that the kernel cannot reclaim them, until the programs end or \
    pin ends. It reads nothing and changes no setting. Every 10 seconds, it locks what the programs use since then.\n\n\
    Locked memory is lost to everything else, so there is a limit (--budget). Needs root.\n\n  \
    pagewise pin --pid 4711\n  \
    pagewise pin --unit nginx --budget 32M\n  \
    systemd-run --unit pin-nginx pagewise pin --unit nginx      in the background, until nginx ends";

#[derive(Debug, Args)]
pub(crate) struct Pin {
    #[command(flatten)]
    pub(crate) whose: TargetArgs,
    /// Lock at most this much memory, in all
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub(crate) budget: Bytes,
    /// Time between two looks at what the programs use
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub(crate) every: Duration,
    /// End after this time [default: when the programs end]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub(crate) time: Option<Duration>,
    /// Also open files that a server provides (NFS, SMB, FUSE and the like); if the server does not answer, pin waits
    /// for it and cannot be stopped [default: such files are named and left out]
    #[arg(long)]
    pub(crate) served: bool,
}
