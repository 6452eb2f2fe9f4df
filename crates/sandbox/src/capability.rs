// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Capabilities that a confined thread may keep.

/// What a confined thread may do in addition to its user's rights; see capabilities(7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// CAP_DAC_READ_SEARCH: read files and folders of other users.
    ReadFiles,
    /// CAP_SYS_PTRACE: read the memory of other users' processes.
    ReadMemory,
    /// CAP_SYS_ADMIN: without it, `/proc/PID/pagemap` does not show frame numbers. The filter
    /// forbids the system calls for most other uses of this capability.
    ReadFrames,
    /// CAP_SYS_NICE: required for advice about another process's memory.
    AdviseMemory,
}

impl Capability {
    /// The bit of the capability, as in the kernel's `linux/capability.h`.
    const fn bit(self) -> u64 {
        match self {
            Self::ReadFiles => 1 << 2,
            Self::ReadMemory => 1 << 19,
            Self::ReadFrames => 1 << 21,
            Self::AdviseMemory => 1 << 23,
        }
    }
}

/// The bits of these capabilities, as the kernel numbers them.
pub(crate) fn bits(kept: &[Capability]) -> u64 {
    kept.iter().fold(0, |bits, capability| bits | capability.bit())
}
