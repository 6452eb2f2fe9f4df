// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory pressure: the time lost by stalls, or why it is unknown.

use pagewise_model::{Pressure, Psi, Stall};

use super::kit::Page;
use super::table::{Cell, Column, Table};
use super::words::{cell_with, describe_lack, describe_stall};

pub(super) fn print(page: &mut Page, psi: &Psi) {
    if let Some(why) = unknown(psi) {
        page.gap();
        return page.fact("Pressure", &why);
    }
    let resources = [("memory", &psi.memory), ("io", &psi.io), ("cpu", &psi.cpu)];
    let known: Vec<_> = resources.into_iter().filter(|(_, pressure)| is_known(pressure)).collect();
    if known.is_empty() {
        return;
    }
    page.heading("Pressure", "share of time lost waiting, by some task and by all that could run");
    let spans = ["some: 10 s", "60 s", "300 s", "  all: 10 s", "60 s", "300 s"];
    let ranks = [0, 2, 1, 0, 2, 1];
    let spans = spans.into_iter().zip(ranks).map(|(span, rank)| Column::right(span).spare(rank));
    let columns = [Column::left("")].into_iter().chain(spans).collect();
    let mut table = Table::new(4, columns);
    for (name, pressure) in known {
        let mut row = vec![Cell::from(name)];
        row.extend(averages(&pressure.some));
        row.extend(averages(&pressure.full));
        table.row(row);
    }
    table.print(page);
}

fn is_known(pressure: &Pressure) -> bool {
    pressure.some.avg10.value().is_some()
}

fn averages(stall: &Stall) -> [Cell; 3] {
    [&stall.avg10, &stall.avg60, &stall.avg300]
        .map(|average| cell_with(average, |share| describe_stall(share.get())))
}

/// Why memory pressure is unknown; `None` if it is known, or was not read.
pub(super) fn unknown(psi: &Psi) -> Option<String> {
    let why = describe_lack(&psi.memory.some.avg10)?;
    Some(match why.as_str() {
        "compiled in but switched off" => format!("{why}: boot with psi=1"),
        _ => why,
    })
}
