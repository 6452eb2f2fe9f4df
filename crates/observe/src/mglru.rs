// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `/sys/kernel/mm/lru_gen` into [`Mglru`].
//!
//! `enabled` is a bit mask printed in hexadecimal (`0x0007`); the kernel may report fewer bits than
//! were written. A kernel without multi-gen LRU has no such folder.

use pagewise_model::{Mglru, Reading};

use pagewise_hostfs::{HostRoot, NO_SUCH_FILE, ReadValues, explain};

pub(crate) fn read(host: &HostRoot) -> Mglru {
    let enabled = "sys/kernel/mm/lru_gen/enabled";
    Mglru {
        enabled: explain_missing_mglru(host.value(enabled, "a hexadecimal number", hexadecimal)),
        min_ttl: explain_missing_mglru(host.millis_at("sys/kernel/mm/lru_gen/min_ttl_ms")),
    }
}

fn explain_missing_mglru<T>(reading: Reading<T>) -> Reading<T> {
    explain(reading, NO_SUCH_FILE, "this kernel has no multi-gen LRU")
}

/// Parses a hexadecimal number: `0x0007`.
fn hexadecimal(word: &[u8]) -> Option<u32> {
    let digits = word.strip_prefix(b"0x")?;
    // from_str_radix would also accept a sign
    let plain = digits.iter().all(u8::is_ascii_hexdigit);
    u32::from_str_radix(std::str::from_utf8(digits).ok().filter(|_| plain)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Millis, Source};
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{host, mangle};
    use pagewise_hostfs::ReadHost;

    const ENABLED: &str = "sys/kernel/mm/lru_gen/enabled";

    #[test]
    fn the_switch_is_a_set_of_bits() {
        let mglru =
            read(&host([(ENABLED, "0x0007\n"), ("sys/kernel/mm/lru_gen/min_ttl_ms", "1000\n")]));
        assert_eq!((mglru.enabled.get(), mglru.is_on()), (Some(7), Some(true)));
        assert_eq!(mglru.min_ttl.get(), Some(Millis::new(1000)));
        assert_eq!(read(&host([(ENABLED, "0x0000\n")])).is_on(), Some(false));
    }

    #[test]
    fn a_kernel_without_it_says_so_and_a_garbled_file_says_that() {
        let why = "this kernel has no multi-gen LRU";
        let none = read(&host([("x", "")]));
        assert_eq!(none.enabled, Reading::absent(why, Source::file(format!("/{ENABLED}"))));
        for text in ["7", "0x", "0x+7", "0x123456789", ""] {
            let host = host([(ENABLED, text)]);
            let mglru = read(&host);
            assert_eq!(mglru.is_on(), None, "{text}");
            assert_eq!(host.take_problems().len(), 1, "{text}");
        }
    }

    proptest! {
        #[test]
        fn bits_are_read_back(bits in any::<u32>()) {
            let mglru = read(&host([(ENABLED, format!("0x{bits:04x}\n"))]));
            prop_assert_eq!(mglru.enabled.get(), Some(bits));
        }

        #[test]
        fn no_bytes_make_it_panic(enabled in mangle("0x0007\n"), ttl in mangle("1000\n")) {
            read(&host([(ENABLED, enabled), ("sys/kernel/mm/lru_gen/min_ttl_ms", ttl)]));
        }
    }
}
