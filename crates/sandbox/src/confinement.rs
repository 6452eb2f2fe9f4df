// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this process is about to do → the rights that it keeps for it.

use crate::capability::{self, Capability};
use crate::filter::{self, ARCHITECTURE};
use crate::table::{self, Purpose};
use crate::{calls, landlock};

/// Address space of a process that reads a recording: some times what the largest one takes.
const RECORDING_SPACE: u64 = 1 << 30;

/// The rights of a process from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    /// Decides which system calls are left; all of them where there is none.
    purpose: Option<Purpose>,
    /// Beside those of the user; those that there are where nothing is said.
    kept: Option<Vec<Capability>>,
    /// Whether no file may be changed by Landlock, too.
    landlock: bool,
    /// Whether root becomes nobody.
    leave_root: bool,
    /// The most address space.
    address_space: Option<u64>,
    /// Whether the terminal that is open may be set, and signals be raised.
    terminal: bool,
}

/// What of a confinement this kernel could do. What it could not is missing, and the rest holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Confined {
    /// Only the named capabilities are left.
    pub capabilities: bool,
    /// System calls are filtered.
    pub filter: bool,
    /// Landlock holds, by this version of its interface.
    pub landlock: Option<u32>,
}

impl Confinement {
    /// To read the pages of processes.
    #[must_use]
    pub fn for_processes() -> Self {
        let kept = vec![Capability::ReadFiles, Capability::ReadMemory, Capability::ReadFrames];
        Self { kept: Some(kept), ..Self::for_purpose(Purpose::Contents) }
    }

    /// To read the pages of processes, and to have huge ones among them split.
    #[must_use]
    pub fn for_splitting() -> Self {
        let mut splitting = Self { purpose: Some(Purpose::Splitting), ..Self::for_processes() };
        splitting.kept.get_or_insert_default().push(Capability::AdviseMemory);
        splitting
    }

    /// To read pages from a file or device that is open, or that the user may read.
    #[must_use]
    pub fn for_stored_pages() -> Self {
        Self { landlock: true, ..Self::for_purpose(Purpose::Contents) }
    }

    /// To read facts of this machine, but nothing of single processes: only that no file is changed.
    #[must_use]
    pub fn for_facts() -> Self {
        let (purpose, kept) = (None, None);
        Self { purpose, kept, landlock: true, ..Self::for_purpose(Purpose::Contents) }
    }

    /// To parse a recording, which anybody may have made: an open file, or a folder whose files are
    /// opened as they are needed.
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

    /// The same, on a terminal that is set for a live view and restored afterwards.
    #[must_use]
    pub fn for_recording_on_terminal(is_folder: bool) -> Self {
        Self { terminal: true, ..Self::for_recording(is_folder) }
    }

    fn for_purpose(purpose: Purpose) -> Self {
        let (purpose, kept) = (Some(purpose), Some(Vec::new()));
        let (landlock, leave_root, terminal) = (false, false, false);
        Self { purpose, kept, landlock, leave_root, address_space: None, terminal }
    }

    /// Gives up everything else, for good. Threads that run already keep their capabilities, and are
    /// under the filter as all others.
    pub fn enter(self) -> Confined {
        if self.purpose.is_some() {
            crate::forbid_dumps();
        }
        if let Some(most) = self.address_space {
            calls::limit(libc::RLIMIT_AS, most);
        }
        calls::no_new_privileges();
        if self.leave_root {
            calls::leave_root();
        }
        let keep = |kept: Vec<_>| calls::keep_capabilities(capability::bits(&kept)).is_ok();
        let capabilities = self.kept.is_some_and(keep);
        let landlock = self.landlock.then(|| landlock::enter().ok()).flatten();
        let filter = self.purpose.zip(ARCHITECTURE).is_some_and(|(purpose, architecture)| {
            let rules = table::rules(purpose, std::process::id(), self.terminal);
            calls::filter(&filter::program(architecture, &rules)).is_ok()
        });
        Confined { capabilities, filter, landlock }
    }
}
