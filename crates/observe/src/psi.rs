// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads pressure files, of the host (`/proc/pressure`) and of cgroups, into [`Pressure`].
//!
//! Averages are percentages with two decimals, totals are microseconds. Old kernels print no `full`
//! line for the CPU, newer ones print zeros for the host: the first is absent, the second is zero.
//! A kernel with PSI built in but switched off refuses the read with an error of its own
//! (EOPNOTSUPP).

use pagewise_model::{Micros, Percent, Pressure, Psi, Reading, Source, Stall};

use pagewise_hostfs::text::{Line, NO_LINE, Text, number};
use pagewise_hostfs::{HostRoot, ReadValues, Refusal, SWITCHED_OFF, absolute_path, explain};

/// Reads the pressure (PSI) of the host.
pub fn read(host: &HostRoot) -> Psi {
    Psi {
        cpu: pressure(host, "proc/pressure/cpu"),
        memory: pressure(host, "proc/pressure/memory"),
        io: pressure(host, "proc/pressure/io"),
    }
}

/// Reads the memory pressure of the host alone.
pub(crate) fn read_memory(host: &HostRoot) -> Psi {
    Psi { memory: pressure(host, "proc/pressure/memory"), ..Psi::default() }
}

/// Reads one pressure file, as `proc/pressure/memory` or a cgroup's `memory.pressure`.
pub(crate) fn pressure(host: &HostRoot, path: &str) -> Pressure {
    match host.text(path) {
        Ok(text) => {
            Pressure { some: stall(host, &text, b"some"), full: stall(host, &text, b"full") }
        }
        Err(refusal) => {
            let source = Source::file(absolute_path(path));
            Pressure {
                some: refused_stall(&refusal, &source),
                full: refused_stall(&refusal, &source),
            }
        }
    }
}

fn stall(host: &HostRoot, text: &Text, which: &[u8]) -> Stall {
    let Some(line) = text.lines().find(|line| line.words().next() == Some(which)) else {
        return refused_stall(&Refusal::Absent(NO_LINE.into()), &text.source());
    };
    let average = |key| field(host, &line, key, percent);
    Stall {
        avg10: average("avg10"),
        avg60: average("avg60"),
        avg300: average("avg300"),
        total_us: field(host, &line, "total", |word| number(word).map(Micros::new)),
    }
}

fn refused_stall(refusal: &Refusal, source: &Source) -> Stall {
    Stall {
        avg10: refused_field(refusal, source),
        avg60: refused_field(refusal, source),
        avg300: refused_field(refusal, source),
        total_us: refused_field(refusal, source),
    }
}

fn refused_field<T>(refusal: &Refusal, source: &Source) -> Reading<T> {
    let why = "compiled in but switched off: boot with psi=1";
    explain(refusal.clone().reading(source.clone()), SWITCHED_OFF, why)
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

/// Parses a percentage: `12.34`, from 0 to 100.
fn percent(word: &[u8]) -> Option<Percent> {
    let plain = word.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let value: f64 = std::str::from_utf8(word).ok().filter(|_| plain)?.parse().ok()?;
    (0.0..=100.0).contains(&value).then(|| Percent::new(value))
}
