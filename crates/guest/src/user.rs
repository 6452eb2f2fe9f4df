// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which user a program runs as that root starts: QEMU, and busybox of the cache.
//!
//! A guest that breaks out of QEMU is what QEMU is. So for root that is a user who owns no file and no
//! other process: a number of its own for each run, beyond all that systems give to users, services and
//! containers. Inside of a user namespace that has no such number it is `nobody`; where even that is
//! missing (`unshare --map-root-user`) it stays root without any capability, and what root may open by
//! its files' owner stays open to it.
//!
//! Anybody else runs it as themselves. In every case nothing it starts may gain rights.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// systemd leaves the numbers from here to 2^31 unused.
const FIRST: u32 = 1_879_048_192;
/// Runs of one process that get different numbers; with the largest process number they end at 2^31.
const RUNS: u32 = 64;
const NOBODY: u32 = 65534;

/// Who a program is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    /// Who we are.
    Ourselves,
    /// Somebody without rights and files.
    Stranger(u32),
    /// Root without capabilities: nobody else is known here.
    BareRoot,
}

impl User {
    /// For the next program that we start.
    pub(crate) fn without_rights() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            return Self::Ourselves;
        }
        let run = NEXT.fetch_add(1, Ordering::SeqCst) % RUNS;
        let own = FIRST.saturating_add(std::process::id().saturating_mul(RUNS)).saturating_add(run);
        let known = |number: &u32| exists(*number);
        [own, NOBODY].into_iter().find(known).map_or(Self::BareRoot, Self::Stranger)
    }

    /// The number, if it is not ours.
    pub(crate) fn number(self) -> Option<u32> {
        match self {
            Self::Stranger(number) => Some(number),
            Self::Ourselves | Self::BareRoot => None,
        }
    }

    /// The group that a device lets in, for this user to be in: not root's, and none where everybody may
    /// open it.
    pub(crate) fn group_for(self, device: &Path) -> Result<Option<u32>, NoAccess> {
        let Some(_) = self.number() else { return Ok(None) };
        let data = device.metadata().map_err(NoAccess::Refused)?;
        match (data.mode() & 0o006, data.mode() & 0o060, data.gid()) {
            (0o006, _, _) => Ok(None),
            (_, 0o060, group @ 1..) => Ok(Some(group)),
            _ => Err(NoAccess::RootOnly),
        }
    }
}

/// Why a user without rights cannot open a device.
#[derive(Debug)]
pub(crate) enum NoAccess {
    /// What the system said.
    Refused(std::io::Error),
    /// By its owner, group and mode.
    RootOnly,
}

/// Whether this user namespace knows the number, as user and as group.
pub(crate) fn exists(number: u32) -> bool {
    ["/proc/self/uid_map", "/proc/self/gid_map"]
        .iter()
        .all(|path| fs::read_to_string(path).is_ok_and(|map| is_mapped(&map, number)))
}

/// The number of an account, as /etc/passwd has it.
pub(crate) fn number_of(name: &str, accounts: &str) -> Option<u32> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

/// Lines of first number inside, first number outside, and how many.
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
        assert_eq!(number_of("_apt", accounts), Some(42));
        assert_eq!((number_of("apt", accounts), number_of("", accounts)), (None, None));
    }

    #[test]
    fn numbers_stay_below_two_to_the_31() {
        let largest = (1 << 22) - 1;
        assert_eq!(FIRST + largest * RUNS + RUNS - 1, (1 << 31) - 1);
    }

    #[test]
    fn root_is_somebody_else_each_time() {
        let [one, two] = [User::without_rights(), User::without_rights()];
        if rustix::process::geteuid().is_root() {
            assert!(one != User::Ourselves && (one != two || one.number() == Some(NOBODY)));
        } else {
            assert_eq!((one, two), (User::Ourselves, User::Ourselves));
        }
    }
}
