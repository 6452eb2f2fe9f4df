// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `/sys/kernel/mm/ksm` into [`Ksm`].
//!
//! `general_profit` can be negative, because the metadata of pages without a duplicate costs memory
//! too. `general_profit`, `ksm_zero_pages` and `advisor_mode` are absent on older kernels.

use pagewise_model::{Ksm, Pages, Reading};

use pagewise_hostfs::{HostRoot, ReadValues};

pub(crate) fn read(host: &HostRoot) -> Ksm {
    Ksm {
        run: host.number_at(&path("run")),
        pages_shared: pages(host, "pages_shared"),
        pages_sharing: pages(host, "pages_sharing"),
        pages_unshared: pages(host, "pages_unshared"),
        pages_volatile: pages(host, "pages_volatile"),
        zero_pages: pages(host, "ksm_zero_pages"),
        full_scans: host.number_at(&path("full_scans")),
        general_profit_bytes: host.number_at(&path("general_profit")),
        pages_to_scan: host.number_at(&path("pages_to_scan")),
        sleep: host.millis_at(&path("sleep_millisecs")),
        advisor_mode: host.choice_at(&path("advisor_mode")).map(|choice| choice.active),
    }
}

fn path(file: &str) -> String {
    format!("sys/kernel/mm/ksm/{file}")
}

fn pages(host: &HostRoot, file: &str) -> Reading<Pages> {
    host.number_at(&path(file)).map(Pages::new)
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Millis, Name};
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{host, mangle};

    #[test]
    fn every_file_lands_in_its_field() {
        let ksm = read(&host([
            ("sys/kernel/mm/ksm/run", "1\n"),
            ("sys/kernel/mm/ksm/pages_shared", "2\n"),
            ("sys/kernel/mm/ksm/pages_sharing", "3\n"),
            ("sys/kernel/mm/ksm/pages_unshared", "4\n"),
            ("sys/kernel/mm/ksm/pages_volatile", "5\n"),
            ("sys/kernel/mm/ksm/ksm_zero_pages", "6\n"),
            ("sys/kernel/mm/ksm/full_scans", "7\n"),
            ("sys/kernel/mm/ksm/pages_to_scan", "100\n"),
            ("sys/kernel/mm/ksm/sleep_millisecs", "20\n"),
            ("sys/kernel/mm/ksm/advisor_mode", "[none] scan-time\n"),
        ]));
        let pages =
            [&ksm.pages_shared, &ksm.pages_sharing, &ksm.pages_unshared, &ksm.pages_volatile]
                .map(|reading| reading.get().unwrap().get());
        assert_eq!((ksm.run.get(), pages), (Some(1), [2, 3, 4, 5]));
        assert_eq!(ksm.zero_pages.get(), Some(Pages::new(6)));
        assert_eq!((ksm.full_scans.get(), ksm.pages_to_scan.get()), (Some(7), Some(100)));
        assert_eq!(ksm.sleep.get(), Some(Millis::new(20)));
        assert_eq!(ksm.advisor_mode.value(), Some(&Name::from("none")));
    }

    #[test]
    fn profit_may_be_a_loss_and_may_be_unknown() {
        let ksm = read(&host([("sys/kernel/mm/ksm/general_profit", "-61440\n")]));
        assert_eq!(ksm.general_profit_bytes.get(), Some(-61_440));
        let older = read(&host([("sys/kernel/mm/ksm/run", "0\n")]));
        assert_eq!(older.general_profit_bytes.get(), None);
        assert_eq!(older.run.source.path(), "/sys/kernel/mm/ksm/run");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(number in mangle("-61440\n"), mode in mangle("[none] scan-time\n")) {
            let numbers = ["run", "pages_shared", "general_profit", "sleep_millisecs"].map(path);
            let files = numbers.iter().map(|path| (path.as_str(), &number));
            read(&host(files.chain([("sys/kernel/mm/ksm/advisor_mode", &mode)])));
        }
    }
}
