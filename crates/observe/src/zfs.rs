// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the size of ZFS's cache (ARC) from `/proc/spl/kstat/zfs/arcstats`.
//!
//! Two lines of heading, then `name type data`. The file exists only while the module is loaded.
//! The cache is memory of the kernel that `/proc/meminfo` counts neither as page cache nor in
//! MemAvailable. ZFS gives it back when memory is short, down to `c_min`; without pressure it grows
//! up to `c_max`.

use pagewise_model::{Bytes, Reading, Source, ZfsCache};

use pagewise_hostfs::text::{NO_LINE, number};
use pagewise_hostfs::{HostRoot, ReadValues, absolute_path};

const ARCSTATS: &str = "proc/spl/kstat/zfs/arcstats";

pub(crate) fn read(host: &HostRoot) -> ZfsCache {
    let source = || Source::file(absolute_path(ARCSTATS));
    let text = match host.text(ARCSTATS) {
        Ok(text) => text,
        Err(refusal) => {
            let none = || refusal.clone().reading(source());
            return ZfsCache { size: none(), min: none(), max: none() };
        }
    };
    let missing = || Reading::absent(NO_LINE, source());
    let mut cache = ZfsCache { size: missing(), min: missing(), max: missing() };
    for line in text.lines() {
        let mut words = line.words();
        let field = match words.next() {
            Some(b"size") => &mut cache.size,
            Some(b"c_min") => &mut cache.min,
            Some(b"c_max") => &mut cache.max,
            _ => continue,
        };
        let size = words.nth(1).and_then(number).map(Bytes::new);
        *field = line.reading(host, "a size in bytes", size);
    }
    cache
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{denied_entry, host, mangle};

    /// The text as OpenZFS 2.2 prints it, shortened.
    const TEXT: &str = "13 1 0x01 147 39984 5303291826 11405279345683\nname                            type data\nhits                            4    170384\nc                               4    8589934592\nc_min                           4    1073741824\nc_max                           4    17179869184\nsize                            4    6442450944\ncompressed_size                 4    3221225472\n";

    fn read_of(text: impl AsRef<[u8]>) -> ZfsCache {
        read(&host([(ARCSTATS, text.as_ref().to_vec())]))
    }

    #[test]
    fn size_and_limits_are_lines_of_three_columns() {
        let cache = read_of(TEXT);
        let gib = |gib: u64| Some(Bytes::new(gib << 30));
        assert_eq!((cache.size.get(), cache.min.get(), cache.max.get()), (gib(6), gib(1), gib(16)));
        assert_eq!(cache.reclaimable(), gib(5));
        assert_eq!(cache.size.source.to_string(), "/proc/spl/kstat/zfs/arcstats:7");
    }

    #[test]
    fn half_a_file_is_not_a_cache_of_zero_bytes() {
        let half = read_of(&TEXT[..TEXT.len() - 110]);
        assert!(half.size.get().is_none() && half.reclaimable().is_none(), "{half:?}");
        assert_eq!(read(&host([("proc/meminfo", "")])).size.get(), None);
        let denied = read(&HostRoot::memory([denied_entry(ARCSTATS)]));
        assert!(denied.size.is_denied() && denied.reclaimable().is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(text in mangle(TEXT)) {
            read_of(text).reclaimable();
        }
    }
}
