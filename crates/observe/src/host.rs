// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads what machine this is into [`HostSummary`].
//!
//! `container.rs` detects containers, `virt.rs` virtual machines. The page size is in no file, so a
//! recording stores it separately.

use pagewise_model::{Bytes, Copies, CopiesKind, HostSummary, Name, Reading, Source};

use crate::mounts::Mounts;
use crate::{container, virt};
use pagewise_hostfs::text::number;
use pagewise_hostfs::{HostRoot, NOT_COLLECTED, ReadHost, ReadValues};

pub(crate) fn read(host: &HostRoot, mounts: &Mounts) -> HostSummary {
    HostSummary {
        name: name(host),
        architecture: architecture(host),
        cpus: host.value("sys/devices/system/cpu/online", "ranges of CPUs", count_cpus),
        page_size: page_size(host),
        virtualization: virt::read(host),
        container: container::read(host, mounts),
        root: host.label().clone(),
        copies: host.is_copy().then(|| copies(host)),
    }
}

/// What collected the copies of some files of a machine, and when.
fn copies(host: &HostRoot) -> Copies {
    let is = |paths: &[&str]| paths.iter().any(|path| host.exists(path));
    let kind = if is(&["sos_commands", "sos_reports"]) {
        CopiesKind::Sosreport
    } else if is(&["basic-environment.txt", "supportconfig.txt"]) {
        CopiesKind::Supportconfig
    } else {
        CopiesKind::Folder
    };
    let missing = || Reading::denied(NOT_COLLECTED, Source::none());
    let date = DATE.into_iter().find_map(|path| {
        let text = host.bytes(path).ok()?;
        // GNU date prints only the time; timedatectl, which sos prefers, prints a label before it
        let line = text.split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty())?;
        let is_date = line.len() <= 64 && line.iter().filter(|&&byte| byte == b':').count() == 2;
        is_date.then(|| Reading::found(Name::from_bytes(line.trim_ascii()), Source::file(path)))
    });
    Copies { kind, date: date.unwrap_or_else(missing) }
}

/// Where support tools store the output of `date`.
const DATE: [&str; 3] = ["sos_commands/date/date", "sos_commands/general/date", "date"];

/// The host name. The kernel prints `(none)` if no name was set.
fn name(host: &HostRoot) -> Reading<Name> {
    let name = host.name_at("proc/sys/kernel/hostname").and_then(|name| match name.as_str() {
        "(none)" => Err("nobody gave this host a name".into()),
        _ => Ok(name),
    });
    match name.value() {
        None if host.is_copy() => word_of_uname(host, 1).unwrap_or(name),
        _ => name,
    }
}

/// The release of the kernel.
pub(crate) fn kernel(host: &HostRoot) -> Reading<Name> {
    let release = host.name_at("proc/sys/kernel/osrelease");
    match release.value() {
        None if host.is_copy() => word_of_uname(host, 2).unwrap_or(release),
        _ => release,
    }
}

/// Where support tools store the output of `uname -a`.
const UNAME: [&str; 2] = ["sos_commands/kernel/uname_-a", "uname"];

/// A word of the output of `uname -a` among copied files: the host name is the second, the release
/// of the kernel the third.
fn word_of_uname(host: &HostRoot, number: usize) -> Option<Reading<Name>> {
    UNAME.into_iter().find_map(|path| {
        let line = host.bytes(path).ok()?;
        let mut words = line.split(u8::is_ascii_whitespace);
        let is_linux = words.next() == Some(b"Linux".as_slice());
        let word = words.nth(number.checked_sub(1)?).filter(|word| is_linux && !word.is_empty())?;
        Some(Reading::found(Name::from_bytes(word), Source::file(path)))
    })
}

/// The machine's architecture. Kernels before 6.1 have no file for it; on a live host the
/// architecture of this program is used.
fn architecture(host: &HostRoot) -> Reading<Name> {
    let listed = host.name_at("proc/sys/kernel/arch");
    if listed.value().is_none() && host.is_live() {
        return Reading::found(Name::from(std::env::consts::ARCH), Source::none());
    }
    listed
}

pub(crate) fn page_size(host: &HostRoot) -> Reading<Bytes> {
    match host.facts().page_size {
        Some(bytes) => Reading::found(Bytes::new(bytes), Source::none()),
        None => Reading::absent("this recording does not say", Source::none()),
    }
}

/// An upper limit above the largest `CONFIG_NR_CPUS` of any kernel.
const MAX_CPUS: u32 = 1 << 20;

/// Number of CPUs in a list like `0-3,8,10-11`.
fn count_cpus(ranges: &[u8]) -> Option<u32> {
    ranges.split(|&byte| byte == b',').try_fold(0u32, |sum, range| {
        let mut ends = range.split(|&byte| byte == b'-');
        let first: u32 = ends.next().and_then(number)?;
        let last = ends.next().map_or(Some(first), number)?;
        let count = last.checked_sub(first)?.checked_add(1)?;
        sum.checked_add(count).filter(|sum| *sum <= MAX_CPUS && ends.next().is_none())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_of_cpus_are_counted_and_never_walked() {
        assert_eq!(count_cpus(b"0"), Some(1));
        assert_eq!(count_cpus(b"0-1,4"), Some(3));
        assert_eq!(count_cpus(b"0-3,8,10-11"), Some(7));
        for bad in [&b""[..], b"3-1", b"0-4294967295", b"1-2-3", b"a", b"0-,1", b"0,,1"] {
            assert_eq!(count_cpus(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_ranges_are_survived(text in "[0-9,-]{0,40}") {
            let _ = count_cpus(text.as_bytes());
        }
    }
}
