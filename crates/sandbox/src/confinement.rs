// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The privileges that this process keeps for its next task.

use seccompiler::BpfProgram;

use crate::capability::{self, Capability};
use crate::filter;
use crate::table::{self, Purpose};
use crate::{calls, landlock};

/// Limit on the address space of a process that reads a recording, in bytes: several times what
/// the largest recording takes.
const RECORDING_SPACE: u64 = 1 << 30;

/// The privileges that a process keeps for its next task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    /// The task, which determines which system calls remain allowed; `None` for all of them.
    purpose: Option<Purpose>,
    /// The capabilities that the process keeps; `None` keeps all.
    kept: Option<Vec<Capability>>,
    /// Whether Landlock also forbids changing files.
    landlock: bool,
    /// Whether a process of root becomes one of the user nobody.
    leave_root: bool,
    /// Limit on the address space of the process, in bytes; `None` for no limit.
    address_space: Option<u64>,
    /// Whether the process may configure an open terminal and raise signals.
    terminal: bool,
}

/// Which parts of a confinement this kernel supports. Parts that it does not support are missing;
/// the others are in force.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Confined {
    /// Whether the process has only the capabilities that it was to keep.
    pub capabilities: bool,
    /// Whether the process can make only the system calls of its task.
    pub filter: bool,
    /// The version of Landlock's interface that is in force; `None` if Landlock is not.
    pub landlock: Option<u32>,
}

impl Confinement {
    /// Privileges for reading the pages of processes.
    #[must_use]
    pub fn for_processes() -> Self {
        let kept = vec![Capability::ReadFiles, Capability::ReadMemory, Capability::ReadFrames];
        Self { kept: Some(kept), ..Self::for_purpose(Purpose::Contents) }
    }

    /// Privileges for reading the pages of processes, and splitting huge pages among them.
    #[must_use]
    pub fn for_splitting() -> Self {
        let mut splitting = Self { purpose: Some(Purpose::Splitting), ..Self::for_processes() };
        splitting.kept.get_or_insert_default().push(Capability::AdviseMemory);
        splitting
    }

    /// Privileges for reading pages from a file or device that is already open, or that the user
    /// may read.
    #[must_use]
    pub fn for_stored_pages() -> Self {
        Self { landlock: true, ..Self::for_purpose(Purpose::Contents) }
    }

    /// Privileges for reading facts about this machine, but nothing about single processes: only
    /// changing files is forbidden.
    #[must_use]
    pub fn for_facts() -> Self {
        let (purpose, kept) = (None, None);
        Self { purpose, kept, landlock: true, ..Self::for_purpose(Purpose::Contents) }
    }

    /// Privileges for parsing a recording from an untrusted source: an open file, or a folder
    /// whose files are opened as they are needed.
    #[must_use]
    pub fn for_recording(is_folder: bool) -> Self {
        Self {
            kept: Some(if is_folder { vec![Capability::ReadFiles] } else { Vec::new() }),
            landlock: true,
            leave_root: true,
            address_space: Some(RECORDING_SPACE),
            ..Self::for_purpose(if is_folder { Purpose::Folder } else { Purpose::Recording })
        }
    }

    /// Privileges for parsing a recording on a terminal that is configured for a live view and
    /// restored afterwards.
    #[must_use]
    pub fn for_recording_on_terminal(is_folder: bool) -> Self {
        Self { terminal: true, ..Self::for_recording(is_folder) }
    }

    fn for_purpose(purpose: Purpose) -> Self {
        let (purpose, kept) = (Some(purpose), Some(Vec::new()));
        let (landlock, leave_root, terminal) = (false, false, false);
        Self { purpose, kept, landlock, leave_root, address_space: None, terminal }
    }

    /// Permanently drops all privileges that this confinement does not keep. Threads that are
    /// already running keep their capabilities, but the filter applies to them too.
    pub fn enter(self) -> Confined {
        if self.purpose.is_some() {
            crate::forbid_dumps();
        }
        if let Some(most) = self.address_space {
            calls::lower_limit(libc::RLIMIT_AS, most);
        }
        calls::forbid_new_privileges();
        if self.leave_root {
            calls::leave_root();
        }
        let keep = |kept: Vec<_>| calls::keep_capabilities(capability::bits(&kept)).is_ok();
        let capabilities = self.kept.is_some_and(keep);
        let landlock = self.landlock.then(|| landlock::enter().ok()).flatten();
        let filter = self.purpose.zip(filter::architecture()).is_some_and(|(purpose, known)| {
            let rules = table::rules(purpose, std::process::id(), self.terminal);
            let apply = |program: &BpfProgram| calls::apply_filter(program).is_ok();
            filter::build_programs(known, &rules).is_ok_and(|programs| programs.iter().all(apply))
        });
        Confined { capabilities, filter, landlock }
    }
}
