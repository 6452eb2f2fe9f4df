// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise oom`.

use std::path::PathBuf;

use clap::Args;

pub(super) const OOM: &str = "Explain kills for lack of memory (by the kernel's OOM killer) and failed allocations, from \
    any log: who was killed, because of which limit or which part of memory, and what would have prevented it; exit \
    status 3 if there is a kill.\n\n\
    FILE is a text from this or any other machine, of Linux 3.10 or newer, whole or in parts: dmesg (also -T, -x, -H, \
    --json), kern.log, syslog, journalctl (all of its forms that are text or JSON), a container's log, logcat, a \
    serial console, a quoted mail; also compressed with gzip, xz or zstd. It may also be a file of systemd's journal, \
    or a folder of such files. - reads the standard input:\n\n  \
    journalctl -k -b -1 | pagewise oom -\n\n\
    Without FILE, oom reads the kernel log of this machine (or of the recording that --root names), as pagewise doctor \
    --oom does. Nothing is known of the machine that wrote a text but what the text says. Therefore, for a text, oom \
    says in words what would have prevented the kill, and prints no command to paste.";

#[derive(Debug, Args)]
pub(crate) struct Oom {
    /// The text to read; - for the standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// State for each kill which single changes (swap, a limit, less shared memory, without the process that grew)
    /// would have avoided it, would have delayed it and by how long, or of which that is not known; by the numbers of
    /// the log alone
    #[arg(long)]
    pub(crate) what_if: bool,
    /// Do the newest kill again in a guest (a virtual machine), with the same shares of memory, once as it was and
    /// once with each of these changes; takes about a minute, and needs QEMU
    #[arg(long)]
    pub(crate) prove: bool,
    /// Start the guest at once, without waiting for other guests or for free memory
    #[arg(long, requires = "prove")]
    pub(crate) now: bool,
    /// Write the sizes of the newest kill to the pipe with this number; `oom --prove` starts this
    #[arg(long, hide = true, value_name = "NUMBER")]
    pub(crate) rebuild_to: Option<u32>,
}
