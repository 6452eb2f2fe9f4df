// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `/proc/uptime`: the time since boot, including suspend. Start times of processes are on
//! this clock. The second number (idle time of all CPUs) is not read.

use pagewise_model::{Millis, Reading};

use pagewise_hostfs::text::{number, words};
use pagewise_hostfs::{HostRoot, ReadValues};

pub(crate) fn read(host: &HostRoot) -> Reading<Millis> {
    host.value("proc/uptime", "seconds since boot", |text| since_boot(words(text).next()?))
}

/// Parses the time since boot in seconds, `11700.23`; the kernel prints two decimals.
fn since_boot(word: &[u8]) -> Option<Millis> {
    let dot = word.iter().position(|&byte| byte == b'.')?;
    let (whole, part) = (&word[..dot], &word[dot + 1..]);
    let seconds: u64 = number(whole)?;
    let hundredths: u64 = number(part).filter(|_| part.len() == 2)?;
    Some(Millis::new(seconds.checked_mul(1000)?.checked_add(hundredths * 10)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{host, mangle};

    #[test]
    fn the_first_number_is_seconds_with_two_decimals() {
        let at = |text: &str| read(&host([("proc/uptime", text)])).get();
        assert_eq!(at("11700.23 20118.90\n"), Some(Millis::new(11_700_230)));
        assert_eq!(at("0.05 0.00\n"), Some(Millis::new(50)));
        for garbled in ["11700", "1.2 3", "-1.00", "1.-1", "99999999999999999999.00", ""] {
            assert_eq!(at(garbled), None, "{garbled}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(text in mangle("11700.23 20118.90\n")) {
            let _ = read(&host([("proc/uptime", text)]));
        }
    }
}
