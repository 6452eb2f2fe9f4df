// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Creates zram devices for an experiment, as the program would, and removes them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pagewise_model::lend::{Lender, LoanId, ZramDevice, ZramSpec};
use pagewise_model::{Compressor, Refusal};

use crate::machine::{Loans, Thing, note_made, read};

/// Provides zram devices and nothing else.
#[derive(Debug)]
pub(crate) struct ZramLender {
    loans: Loans,
    /// Numbers of the devices that exist.
    pub(crate) out: Arc<Mutex<Vec<u32>>>,
}

impl ZramLender {
    pub(crate) fn new() -> Self {
        Self { loans: Loans::new(), out: Arc::default() }
    }
}

/// Writes a setting of a device; the kernel's error is returned.
fn set(device: u32, file: &str, value: &str) -> Result<(), Refusal> {
    let refused =
        |error: std::io::Error| Refusal::new(format!("{file} {value}"), error.to_string());
    std::fs::write(format!("/sys/block/zram{device}/{file}"), value).map_err(refused)
}

fn set_up(device: u32, spec: &ZramSpec) -> Result<(), Refusal> {
    if let Some(Compressor { algorithm, level }) = &spec.compressor {
        set(device, "comp_algorithm", algorithm.as_str())?;
        if let Some(level) = level {
            set(device, "algorithm_params", &format!("algo={algorithm} level={level}"))?;
        }
    }
    set(device, "disksize", &spec.disksize.get().to_string())
}

impl Lender for ZramLender {
    fn lend_zram(&mut self, spec: &ZramSpec) -> Result<ZramDevice, Refusal> {
        let number: u32 = read("/sys/class/zram-control/hot_add").parse().expect("a number");
        let sysfs = PathBuf::from(format!("/sys/block/zram{number}"));
        let own = Thing::zram(number).expect("the device that was made");
        // removed already, unless the test failed; then the number may be that of somebody else's
        // device
        let is_own = own.is_there_in_shell();
        self.loans
            .promise(&format!("! {is_own} || echo {number} > /sys/class/zram-control/hot_remove"));
        self.loans.promise(&format!("! {is_own} || echo 1 > {}/reset", sysfs.display()));
        note_made(&own);
        self.out.lock().expect("unpoisoned").push(number);
        if let Err(refused) = set_up(number, spec) {
            self.return_loan(LoanId(number.into()))?;
            return Err(refused);
        }
        let (loan, device) = (LoanId(number.into()), format!("/dev/zram{number}").into());
        Ok(ZramDevice { loan, number, device, sysfs })
    }

    fn return_loan(&mut self, loan: LoanId) -> Result<(), Refusal> {
        let number = u32::try_from(loan.0).expect("it was one");
        // a program that lists block devices may have it open for a moment
        crate::machine::write(&format!("/sys/block/zram{number}/reset"), "1");
        crate::machine::write("/sys/class/zram-control/hot_remove", &number.to_string());
        self.out.lock().expect("unpoisoned").retain(|&one| one != number);
        Ok(())
    }
}
