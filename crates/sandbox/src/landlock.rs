// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Confines this process with Landlock: it can change or execute no file, use no TCP port, and
//! signal no process outside.
//!
//! Files that are already open are not affected. Each version of the interface supports more; the
//! kernel reports which one it has.

use std::io;

use crate::calls;

/// Landlock's rights to files, by the version of the interface that introduced them; see
/// `linux/landlock.h`.
const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
/// Landlock's rights to remove folders and files, and to create devices, folders, files, sockets,
/// pipes and links.
const REMOVE_AND_MAKE: u64 = 0b1_1111_1111 << 4;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
/// Landlock's rights to bind and connect TCP ports.
const TCP: u64 = 0b11;
/// Landlock's scopes: connecting to abstract sockets and sending signals outside of the sandbox.
const OUTSIDE: u64 = 0b11;

/// The rights that Landlock handles for this process, and therefore refuses.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ruleset {
    files: u64,
    net: u64,
    scoped: u64,
}

impl Ruleset {
    /// All rights that a version of the interface can refuse, except those to read.
    pub(crate) fn for_version(version: u32) -> Self {
        let since = |first: u32, rights: u64| if version >= first { rights } else { 0 };
        Self {
            files: since(1, EXECUTE | WRITE_FILE | REMOVE_AND_MAKE)
                | since(2, REFER)
                | since(3, TRUNCATE),
            net: since(4, TCP),
            scoped: since(6, OUTSIDE),
        }
    }
}

/// Puts this process under Landlock; returns the version of the interface.
///
/// # Errors
/// ENOSYS or EOPNOTSUPP if the kernel has none or it is disabled.
pub(crate) fn enter() -> io::Result<u32> {
    let version = calls::landlock_version()?;
    calls::apply_ruleset(&Ruleset::for_version(version))?;
    Ok(version)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests try what is refused")]
mod tests {
    use super::*;

    /// Landlock applies only to the thread that enters it, so that other tests can continue to
    /// write.
    #[test]
    fn a_thread_inside_reads_and_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "there").unwrap();
        let entered = std::thread::scope(|scope| {
            let inside = || {
                calls::forbid_new_privileges();
                let entered = enter()?;
                let refused = [
                    std::fs::write(&path, "changed").map_err(|error| error.kind()),
                    std::fs::remove_file(&path).map_err(|error| error.kind()),
                    std::fs::create_dir(folder.path().join("new")).map_err(|error| error.kind()),
                ];
                assert_eq!(refused, [Err(io::ErrorKind::PermissionDenied); 3]);
                assert_eq!(std::fs::read_to_string(&path)?, "there");
                Ok::<_, io::Error>(entered)
            };
            scope.spawn(inside).join().unwrap()
        });
        match entered {
            Ok(version) => assert!(version > 0),
            Err(error) => {
                let without = [Some(libc::ENOSYS), Some(libc::EOPNOTSUPP)];
                assert!(without.contains(&error.raw_os_error()), "{error}");
            }
        }
    }

    #[test]
    fn each_version_refuses_what_those_before_it_do() {
        assert_eq!(Ruleset::for_version(0), Ruleset::default());
        for version in 1..10 {
            let (before, now) = (Ruleset::for_version(version - 1), Ruleset::for_version(version));
            assert_eq!(now.files & before.files, before.files);
            assert!(now.net >= before.net && now.scoped >= before.scoped);
            assert_eq!(now.files & (0b11 << 2), 0, "reading stays possible");
        }
        assert_eq!(Ruleset::for_version(9).files, 0x7ff3);
    }
}
