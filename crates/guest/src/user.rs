// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Chooses the user that a program runs as if root starts it: QEMU, and the cached busybox.
//!
//! A guest that escapes from QEMU has QEMU's rights. So root starts QEMU as a user who owns no file
//! and no other process: each run gets its own uid from a range that systems do not give to users,
//! services or containers. In a user namespace that lacks such uids QEMU runs as `nobody`; if even
//! that uid is not mapped (`unshare --map-root-user`), QEMU stays root without capabilities, and
//! can then open all files that belong to root.
//!
//! If another user than root runs Pagewise, QEMU runs as that user. In all cases the program cannot
//! gain privileges (`no_new_privs`).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// First uid of the range up to 2^31 that systemd leaves unused.
const FIRST: u32 = 1_879_048_192;
/// Number of runs of one process that get different uids. With the largest possible pid, the uids
/// stay below 2^31.
const RUNS: u32 = 64;
const NOBODY: u32 = 65534;

/// The user that a program runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    /// The user that this process runs as.
    Ourselves,
    /// A user with this uid, who has no privileges and no files.
    Stranger(u32),
    /// Root without capabilities: no other uid is mapped in this user namespace.
    BareRoot,
}

impl User {
    /// Chooses the user for the next program to be started.
    pub(crate) fn choose_unprivileged() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            return Self::Ourselves;
        }
        let run = NEXT.fetch_add(1, Ordering::SeqCst) % RUNS;
        let own = FIRST.saturating_add(std::process::id().saturating_mul(RUNS)).saturating_add(run);
        let known = |number: &u32| is_mapped_here(*number);
        [own, NOBODY].into_iter().find(known).map_or(Self::BareRoot, Self::Stranger)
    }

    /// The uid that the program gets, if it differs from that of this process.
    pub(crate) fn uid(self) -> Option<u32> {
        match self {
            Self::Stranger(number) => Some(number),
            Self::Ourselves | Self::BareRoot => None,
        }
    }

    /// The supplementary group with which this user can open a device; `None` if no group is
    /// needed. Root's group is never returned.
    pub(crate) fn group_for(self, device: &Path) -> Result<Option<u32>, NoAccess> {
        let Some(_) = self.uid() else { return Ok(None) };
        let data = device.metadata().map_err(NoAccess::Refused)?;
        match (data.mode() & 0o006, data.mode() & 0o060, data.gid()) {
            (0o006, _, _) => Ok(None),
            (_, 0o060, group @ 1..) => Ok(Some(group)),
            _ => Err(NoAccess::RootOnly),
        }
    }
}

/// Why an unprivileged user cannot open a device.
#[derive(Debug)]
pub(crate) enum NoAccess {
    /// The error of the system call.
    Refused(std::io::Error),
    /// Only root has access to the file, by its owner, group and mode.
    RootOnly,
}

/// Whether this number is mapped in this user namespace, as uid and as gid.
pub(crate) fn is_mapped_here(number: u32) -> bool {
    ["/proc/self/uid_map", "/proc/self/gid_map"]
        .iter()
        .all(|path| fs::read_to_string(path).is_ok_and(|map| is_mapped(&map, number)))
}

/// The uid of an account, from the text of /etc/passwd.
pub(crate) fn uid_of_account(name: &str, accounts: &str) -> Option<u32> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

/// Whether a number is mapped by uid_map or gid_map; a line has the first id inside, the first id
/// outside, and the length.
fn is_mapped(map: &str, number: u32) -> bool {
    map.lines().any(|line| {
        let mut words = line.split_whitespace().map(str::parse::<u32>);
        let (Some(Ok(first)), Some(Ok(length))) = (words.next(), words.nth(1)) else {
            return false;
        };
        number.checked_sub(first).is_some_and(|offset| offset < length)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_namespace_are_told_from_others() {
        let whole = "         0          0 4294967295\n";
        assert!(is_mapped(whole, FIRST) && is_mapped(whole, 0));
        let container = "0 1000 1\n1 100000 65536\n";
        assert!(is_mapped(container, NOBODY) && is_mapped(container, 65536));
        assert!(!is_mapped(container, 65537) && !is_mapped(container, FIRST));
        assert!(!is_mapped("0 1000 1\n", NOBODY) && !is_mapped("", 0) && !is_mapped("a b c", 0));
    }

    #[test]
    fn an_account_has_the_number_of_its_line() {
        let accounts =
            "root:x:0:0:root:/root:/bin/bash\n_apt:x:42:65534::/nonexistent:/bin/false\n";
        assert_eq!(uid_of_account("_apt", accounts), Some(42));
        assert_eq!((uid_of_account("apt", accounts), uid_of_account("", accounts)), (None, None));
    }

    #[test]
    fn numbers_stay_below_two_to_the_31() {
        let largest = (1 << 22) - 1;
        assert_eq!(FIRST + largest * RUNS + RUNS - 1, (1 << 31) - 1);
    }

    #[test]
    fn root_is_somebody_else_each_time() {
        let [one, two] = [User::choose_unprivileged(), User::choose_unprivileged()];
        if rustix::process::geteuid().is_root() {
            assert!(one != User::Ourselves && (one != two || one.uid() == Some(NOBODY)));
        } else {
            assert_eq!((one, two), (User::Ourselves, User::Ourselves));
        }
    }
}
