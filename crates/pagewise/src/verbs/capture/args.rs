// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise capture`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pagewise_model::typed::parse_duration;

/// The long help of the verb.
pub(super) const CAPTURE: &str = "Record this machine's memory statistics in a redacted file, to send to \
    somebody or to use in tests.\n\n\
    A recording contains two readings of the kernel's memory statistics, one from the start and one from the \
    end of --interval. A recording contains no memory contents, no command lines and no environment \
    variables. The name of a program, cgroup, user, disk or file is kept only if it is a common name that \
    pagewise knows (such as systemd or nginx); any other name is replaced by a word with a number (such as \
    proc-15). The host name and the boot ID are hashed with a random key, and the key is then discarded. At \
    the end, the command prints which kinds of files it left out of the recording, and how many files of \
    each kind.\n\n\
    With --every and --for, the recording contains a reading at each of these times: the first reading in \
    full, and of each later one what changed. Ctrl-C ends the recording early; what was read until then is \
    kept. `pagewise report --root FILE` shows the last two readings, and `pagewise compare FILE` compares the \
    first two with the last two. Such a recording contains no proportional set sizes (PSS).\n\n  \
    pagewise capture -o before.tar.zst\n  \
    pagewise capture --every 10s --for 1h hour.tar.zst";

#[derive(Debug, Args)]
pub(crate) struct Capture {
    /// The same as --output
    #[arg(value_name = "FILE", conflicts_with_all = ["folder", "output"])]
    pub(crate) file: Option<PathBuf>,
    /// Write the recording to this file, which must not exist yet, or to standard output (-)
    /// [default: pagewise-HASH-DATE.tar.zst]
    #[arg(short, long, value_name = "FILE", conflicts_with = "folder")]
    pub(crate) output: Option<PathBuf>,
    /// Write the recording as separate files into this folder, which must be empty or new
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Time from one reading to the next, such as 10s; at least 1s
    #[arg(long, value_name = "TIME", requires = "length", conflicts_with = "folder", value_parser = parse_duration)]
    pub(crate) every: Option<Duration>,
    /// How long to record, such as 1h
    #[arg(long = "for", id = "length", value_name = "TIME", requires = "every", value_parser = parse_duration)]
    pub(crate) length: Option<Duration>,
    /// Write nothing but hand the recording to the process that started this one
    #[arg(long, hide = true)]
    pub(crate) hand_over: bool,
}
