// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A figure of the shares of time that tasks lost by waiting for memory, I/O and CPUs (PSI).

use pagewise_model::{Percent, Pressure, Psi, Reading};

use super::rows::{Bar, ROOM, Rows};

/// Minimum range of the axis, in percent, so that noise does not look large.
const LEAST: f64 = 10.0;

pub(crate) fn draw_pressure(psi: &Psi) -> Option<String> {
    let all: Vec<(String, Percent, Option<Percent>)> =
        [("memory", &psi.memory), ("io", &psi.io), ("cpu", &psi.cpu)]
            .iter()
            .flat_map(|(name, pressure)| spans(name, pressure))
            .collect();
    let most = all.iter().map(|(_, some, _)| some.get()).fold(LEAST, f64::max);
    let mut rows = Rows::default();
    for (name, some, full) in all {
        let scaled = |share: f64| (share / most).clamp(0.0, 1.0) * ROOM;
        let stopped = full.map_or(0.0, Percent::get).min(some.get());
        rows.push(Bar {
            name,
            pieces: vec![
                ("f-bad", scaled(stopped)),
                ("f-kernel", scaled(some.get()) - scaled(stopped)),
            ],
            value: describe_stalls(some, full),
        });
    }
    rows.draw(&format!(
        "Time lost waiting, by all tasks (left part) and by some; the axis ends at {most:.0} %"
    ))
}

/// Returns the averages over 10 and 300 seconds, if they are known.
fn spans(
    name: &str,
    Pressure { some, full }: &Pressure,
) -> impl Iterator<Item = (String, Percent, Option<Percent>)> {
    let of = |span: &str, some: &Reading<Percent>, full: &Reading<Percent>| {
        Some((format!("{name}, {span}"), some.get()?, full.get()))
    };
    let spans = [of("10 s", &some.avg10, &full.avg10), of("5 min", &some.avg300, &full.avg300)];
    spans.into_iter().flatten()
}

fn describe_stalls(some: Percent, full: Option<Percent>) -> String {
    let all = full.map(|full| format!(", all {}", full.format_share_of_time()));
    format!("some {}{}", some.format_share_of_time(), all.unwrap_or_default())
}
