// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads pressure files, of the host (`/proc/pressure`) and of cgroups, into [`Pressure`].
//!
//! Averages are percent with two decimals, totals microseconds. Old kernels print no `full` line for
//! the CPU, newer ones print it for the host as zero: the first is absent, the second is zero. A
//! kernel that has PSI and was not told to use it refuses the read and says so with its own error.

use pagewise_model::{Micros, Percent, Pressure, Psi, Reading, Source, Stall};

use pagewise_files::text::{Line, NO_LINE, Text, number};
use pagewise_files::{HostRoot, ReadValues, Refusal, SWITCHED_OFF, absolute, explained};

/// Who waits for what, on the host as a whole.
pub fn read(host: &HostRoot) -> Psi {
    Psi {
        cpu: pressure(host, "proc/pressure/cpu"),
        memory: pressure(host, "proc/pressure/memory"),
        io: pressure(host, "proc/pressure/io"),
    }
}

/// One pressure file, as `proc/pressure/memory` or a cgroup's `memory.pressure`.
pub(crate) fn pressure(host: &HostRoot, path: &str) -> Pressure {
    match host.text(path) {
        Ok(text) => {
            Pressure { some: stall(host, &text, b"some"), full: stall(host, &text, b"full") }
        }
        Err(refusal) => {
            let source = Source::file(absolute(path));
            Pressure { some: refused(&refusal, &source), full: refused(&refusal, &source) }
        }
    }
}

fn stall(host: &HostRoot, text: &Text, which: &[u8]) -> Stall {
    let Some(line) = text.lines().find(|line| line.words().next() == Some(which)) else {
        return refused(&Refusal::Absent(NO_LINE.into()), &text.source());
    };
    let average = |key| field(host, &line, key, percent);
    Stall {
        avg10: average("avg10"),
        avg60: average("avg60"),
        avg300: average("avg300"),
        total_us: field(host, &line, "total", |word| number(word).map(Micros::new)),
    }
}

fn refused(refusal: &Refusal, source: &Source) -> Stall {
    Stall {
        avg10: refused_field(refusal, source),
        avg60: refused_field(refusal, source),
        avg300: refused_field(refusal, source),
        total_us: refused_field(refusal, source),
    }
}

fn refused_field<T>(refusal: &Refusal, source: &Source) -> Reading<T> {
    let why = "compiled in but switched off: boot with psi=1";
    explained(refusal.clone().reading(source.clone()), SWITCHED_OFF, why)
}

/// The value of `key=value` on a line.
fn field<T>(
    host: &HostRoot,
    line: &Line<'_>,
    key: &str,
    parse: impl FnOnce(&[u8]) -> Option<T>,
) -> Reading<T> {
    let mut words = line.words();
    let value = words.find_map(|word| word.strip_prefix(key.as_bytes())?.strip_prefix(b"="));
    line.reading(host, &format!("{key}= and a number"), value.and_then(parse))
}

/// `12.34`, from 0 to 100.
fn percent(word: &[u8]) -> Option<Percent> {
    let plain = word.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let value: f64 = std::str::from_utf8(word).ok().filter(|_| plain)?.parse().ok()?;
    (0.0..=100.0).contains(&value).then(|| Percent::new(value))
}

#[cfg(test)]
mod tests {
    use pagewise_model::Outcome;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{host, mangled};
    use pagewise_files::Entry;
    use pagewise_files::ReadHost;

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
        assert!(
            [&io.some.avg10, &io.some.avg60, &io.some.avg300].iter().all(|r| r.get().is_none())
        );
        assert_eq!(io.some.total_us.get(), Some(Micros::new(7)));
        assert_eq!(io.full.avg10.get(), Some(Percent::new(99.99)));
        let problems = host.take_problems();
        assert_eq!(problems.len(), 6);
        assert_eq!(
            (problems[5].line, problems[5].expected.as_str()),
            (Some(2), "total= and a number")
        );
    }

    proptest! {
        /// What is printed as the kernel prints it is read back.
        #[test]
        fn printed_pressure_is_read_back(hundredths in 0u32..=10_000, total in any::<u64>()) {
            let share = format!("{}.{:02}", hundredths / 100, hundredths % 100);
            let line = format!("full avg10={share} avg60=0.00 avg300=0.00 total={total}\n");
            let full = pressure(&host([("g/memory.pressure", &line)]), "g/memory.pressure").full;
            let read = full.avg10.get().unwrap().get();
            prop_assert!((read * 100.0 - f64::from(hundredths)).abs() < 1e-6);
            prop_assert_eq!(full.total_us.get(), Some(Micros::new(total)));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in mangled(MEMORY)) {
            pressure(&host([("f", &bytes)]), "f");
        }
    }
}
