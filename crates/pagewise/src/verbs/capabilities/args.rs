// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise capabilities`.

use clap::Args;

pub(super) const CAPABILITIES: &str = "Print which features of memory management this kernel has.\n\n\
    Each feature is probed by its file, never by the kernel's version. If a feature is not there, the output says \
    what would bring it: a module, an option of the kernel's build, or a word on its command line.\n\n\
    With --labels, the output is a file for node-feature-discovery, which makes labels of Kubernetes nodes from it. A \
    scheduler can then place services where the kernel has what they need:\n\n  \
    pagewise capabilities\n  \
    pagewise capabilities --labels > /etc/kubernetes/node-feature-discovery/features.d/pagewise";

#[derive(Debug, Args)]
pub(crate) struct Capabilities {
    /// Print labels in the format of node-feature-discovery's local feature files, such as
    /// pagewise.dev/mglru=true
    #[arg(long, conflicts_with = "json")]
    pub(crate) labels: bool,
}
