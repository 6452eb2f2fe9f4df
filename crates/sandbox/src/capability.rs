// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Capabilities that a confined thread may keep.

/// What a confined thread may still do beside its user's rights; see capabilities(7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// CAP_DAC_READ_SEARCH: read files and folders of other users.
    ReadFiles,
    /// CAP_SYS_PTRACE: read the memory of other users' processes.
    ReadMemory,
    /// CAP_SYS_ADMIN: `/proc/PID/pagemap` tells frame numbers to nobody else. What else it is good for
    /// needs system calls that the filter refuses.
    ReadFrames,
    /// CAP_SYS_NICE: the kernel asks for it before it takes advice about another process's memory.
    AdviseMemory,
}

impl Capability {
    /// Its bit, by the kernel's `linux/capability.h`.
    const fn bit(self) -> u64 {
        match self {
            Self::ReadFiles => 1 << 2,
            Self::ReadMemory => 1 << 19,
            Self::ReadFrames => 1 << 21,
            Self::AdviseMemory => 1 << 23,
        }
    }
}

/// The bits of all of them.
pub(crate) fn bits(kept: &[Capability]) -> u64 {
    kept.iter().fold(0, |bits, capability| bits | capability.bit())
}
