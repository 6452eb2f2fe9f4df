// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zram devices of a test, lent to an experiment as the program would lend them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pagewise_model::lend::{LoanId, Refused, Treatment, Zram, ZramWanted};

use crate::machine::{Loans, read};

/// The rest of a Treatment for the block path, which borrows nothing but zram devices.
macro_rules! lends_no_more {
    () => {
        fn swap_on(
            &mut self,
            _: &std::path::Path,
            _: Option<i16>,
        ) -> Result<pagewise_model::lend::LoanId, pagewise_model::lend::Refused> {
            unreachable!("the block path swaps nothing")
        }

        fn swap_file(
            &mut self,
            _: &std::path::Path,
            _: pagewise_model::Bytes,
        ) -> Result<pagewise_model::lend::SwapFile, pagewise_model::lend::Refused> {
            unreachable!("the block path swaps nothing")
        }

        fn group(
            &mut self,
            _: pagewise_model::lend::GroupWanted,
        ) -> Result<pagewise_model::lend::Group, pagewise_model::lend::Refused> {
            unreachable!("the block path needs no group")
        }

        fn knob(
            &mut self,
            _: &str,
            _: &str,
        ) -> Result<pagewise_model::lend::LoanId, pagewise_model::lend::Refused> {
            unreachable!("the block path sets no knob")
        }
    };
}
pub(crate) use lends_no_more;

/// Lends zram devices and nothing else.
#[derive(Debug)]
pub(crate) struct Lender {
    loans: Loans,
    /// Numbers of those that are out.
    pub(crate) out: Arc<Mutex<Vec<u32>>>,
}

impl Lender {
    pub(crate) fn new() -> Self {
        Self { loans: Loans::new(), out: Arc::default() }
    }
}

/// Writes a setting of a device; the kernel's refusal is an answer.
fn set(device: u32, file: &str, value: &str) -> Result<(), Refused> {
    let refused = |error: std::io::Error| Refused {
        what: format!("{file} {value}"),
        why: error.to_string(),
        next: None,
    };
    std::fs::write(format!("/sys/block/zram{device}/{file}"), value).map_err(refused)
}

fn set_up(device: u32, wanted: &ZramWanted) -> Result<(), Refused> {
    if let Some(algorithm) = &wanted.algorithm {
        set(device, "comp_algorithm", algorithm)?;
    }
    if let Some(level) = wanted.level {
        let algorithm = wanted.algorithm.as_deref().unwrap_or_default();
        set(device, "algorithm_params", &format!("algo={algorithm} level={level}"))?;
    }
    set(device, "disksize", &wanted.disksize.get().to_string())
}

impl Treatment for Lender {
    fn zram(&mut self, wanted: &ZramWanted) -> Result<Zram, Refused> {
        let number: u32 = read("/sys/class/zram-control/hot_add").parse().expect("a number");
        let sysfs = PathBuf::from(format!("/sys/block/zram{number}"));
        // given back already, unless the test failed
        self.loans.promise(&format!(
            "! [ -e {0} ] || echo {number} > /sys/class/zram-control/hot_remove",
            sysfs.display()
        ));
        self.loans.promise(&format!("! [ -e {0} ] || echo 1 > {0}/reset", sysfs.display()));
        self.out.lock().expect("unpoisoned").push(number);
        if let Err(refused) = set_up(number, wanted) {
            self.give_back(LoanId(number.into()))?;
            return Err(refused);
        }
        let (loan, device) = (LoanId(number.into()), format!("/dev/zram{number}").into());
        Ok(Zram { loan, number, device, sysfs })
    }

    fn give_back(&mut self, loan: LoanId) -> Result<(), Refused> {
        let number = u32::try_from(loan.0).expect("it was one");
        set(number, "reset", "1")?;
        crate::machine::write("/sys/class/zram-control/hot_remove", &number.to_string());
        self.out.lock().expect("unpoisoned").retain(|&one| one != number);
        Ok(())
    }

    lends_no_more!();
}
