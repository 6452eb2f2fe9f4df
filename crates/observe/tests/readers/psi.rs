// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pressure.

use pagewise_hostfs::{Entry, HostRoot, ReadHost, Refusal, SWITCHED_OFF};
use pagewise_model::{Micros, Outcome, Percent, Reading, Source};
use pagewise_observe::psi as read;
use proptest::prelude::*;

use crate::testing::{host, mangle};

const MEMORY: &str = "\
some avg10=0.24 avg60=0.37 avg300=0.16 total=5769559
full avg10=0.12 avg60=0.07 avg300=0.06 total=5395309
";

#[test]
fn averages_are_percent_and_totals_microseconds() {
    let memory = read(&host([("proc/pressure/memory", MEMORY)])).memory;
    let line = |n| Source::line("/proc/pressure/memory", n);
    assert_eq!(memory.some.avg60, Reading::found(Percent::new(0.37), line(1)));
    assert_eq!(memory.full.avg300, Reading::found(Percent::new(0.06), line(2)));
    assert_eq!(memory.full.total_us, Reading::found(Micros::new(5_395_309), line(2)));
}

#[test]
fn an_old_kernel_has_no_full_line_for_the_cpu() {
    let text = "some avg10=8.77 avg60=4.02 avg300=1.21 total=17494562\n";
    let host = host([("proc/pressure/cpu", text)]);
    let cpu = read(&host).cpu;
    assert_eq!(cpu.some.avg10.get(), Some(Percent::new(8.77)));
    let why = "this kernel prints no such line";
    assert_eq!(cpu.full.total_us, Reading::absent(why, Source::file("/proc/pressure/cpu")));
    assert!(host.take_problems().is_empty());
}

#[test]
fn off_and_missing_and_forbidden_are_three_things() {
    let entry = |path: &str, refusal| (path.to_owned(), Entry::Refused(refusal));
    let psi = read(&HostRoot::memory([
        entry("proc/pressure/cpu", Refusal::Absent(SWITCHED_OFF.into())),
        entry("proc/pressure/io", Refusal::Denied("run as root".into())),
    ]));
    let why = "compiled in but switched off: boot with psi=1";
    assert_eq!(psi.cpu.some.avg10.outcome, Outcome::Absent(why.into()));
    assert_eq!(psi.cpu.full.total_us.outcome, Outcome::Absent(why.into()));
    assert_eq!(psi.memory.some.avg10.outcome, Outcome::Absent("no such file".into()));
    assert!(psi.io.full.avg300.is_denied());
}

#[test]
fn what_is_no_percentage_is_garbled_and_the_rest_of_the_line_stands() {
    let text = "some avg10=nan avg60=1e1 avg300=100.01 total=7\nfull avg10=99.99\n";
    let host = host([("proc/pressure/io", text)]);
    let io = read(&host).io;
    assert!([&io.some.avg10, &io.some.avg60, &io.some.avg300].iter().all(|r| r.get().is_none()));
    assert_eq!(io.some.total_us.get(), Some(Micros::new(7)));
    assert_eq!(io.full.avg10.get(), Some(Percent::new(99.99)));
    let problems = host.take_problems();
    assert_eq!(problems.len(), 6);
    assert_eq!((problems[5].line, problems[5].expected.as_str()), (Some(2), "total= and a number"));
}

proptest! {
    /// Pressure printed in the kernel's format is parsed back.
    #[test]
    fn printed_pressure_is_read_back(hundredths in 0u32..=10_000, total in any::<u64>()) {
        let share = format!("{}.{:02}", hundredths / 100, hundredths % 100);
        let line = format!("full avg10={share} avg60=0.00 avg300=0.00 total={total}\n");
        let full = read(&host([("proc/pressure/memory", &line)])).memory.full;
        let read = full.avg10.get().unwrap().get();
        prop_assert!((read * 100.0 - f64::from(hundredths)).abs() < 1e-6);
        prop_assert_eq!(full.total_us.get(), Some(Micros::new(total)));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in mangle(MEMORY)) {
        read(&host([("proc/pressure/memory", &bytes)]));
    }
}
