// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings, zram devices and swap areas that configuration files set at boot: all lines that set
//! them, the line that takes effect, and the running value.

use pagewise_model::{Effect, InForce, KnobOwnership, Name, PersistentSetting, Reading};

use super::kit::{Page, Role};
use super::table::{Cell, Column, NONE, Table};
use super::words::count;

/// Maximum number of settings printed.
const SHOWN: usize = 40;

pub(super) fn print(page: &mut Page, owners: &[KnobOwnership]) {
    if owners.is_empty() {
        return;
    }
    page.heading("Settings that files set", "in the order in which they are applied at boot");
    let columns = vec![
        Column::name("setting"),
        Column::name("is"),
        Column::name("file says"),
        Column::left(""),
        Column::words("in"),
    ];
    let mut table = Table::new(4, columns);
    for owned in owners.iter().take(SHOWN) {
        for (at, line) in owned.owners.iter().enumerate() {
            table.row(row(owned, at, line));
        }
    }
    table.print(page);
    for owned in owners.iter().take(SHOWN).filter(|it| is_disputed(it)) {
        page.prose(4, Role::Quiet, &format!("{}: {}", owned.target, owned.why));
    }
    if owners.len() > SHOWN {
        let rest = count((owners.len() - SHOWN) as u64);
        page.prose(4, Role::Quiet, &format!("and {rest} more: pagewise report --json lists all"));
    }
}

/// Whether lines are applied, but it is unknown which one takes effect last.
fn is_disputed(owned: &KnobOwnership) -> bool {
    owned.winner.is_none() && owned.applied().next().is_some()
}

fn row(owned: &KnobOwnership, at: usize, line: &PersistentSetting) -> Vec<Cell> {
    let (name, running) = match at {
        0 => (owned.target.to_string(), format_reading(&owned.running)),
        _ => (String::new(), String::new()),
    };
    let (role, outcome) = outcome(owned, at, line);
    let place = match &line.effect {
        Effect::Applied => line.value.source.to_string(),
        Effect::Ignored(why) | Effect::Unknown(why) => format!("{}: {why}", line.value.source),
    };
    vec![
        Cell::new(Role::Strong, name),
        running.into(),
        line.wanted().into(),
        Cell::new(role, outcome),
        Cell::new(Role::Quiet, place),
    ]
}

fn format_reading(reading: &Reading<Name>) -> String {
    reading.value().map_or_else(|| NONE.to_owned(), Name::to_string)
}

/// Describes whether a line of a configuration file takes effect at boot, and the role of that
/// text.
fn outcome(owned: &KnobOwnership, at: usize, line: &PersistentSetting) -> (Role, &'static str) {
    match &line.effect {
        Effect::Ignored(_) => (Role::Quiet, "not read"),
        Effect::Unknown(_) => (Role::Quiet, "effect unknown"),
        Effect::Applied => match owned.winner {
            Some(winner) if winner == at && owned.in_force == InForce::No => {
                (Role::Warning, "changed later")
            }
            Some(winner) if winner == at => (Role::Plain, "wins"),
            Some(_) => (Role::Quiet, "overridden"),
            None => (Role::Plain, "may win"),
        },
    }
}
