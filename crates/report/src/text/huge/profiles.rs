// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise thp profiles`: sets of settings that belong together, next to the values of this host.

use pagewise_model::ThpProfile;
use pagewise_model::knob::KnobReading;

use crate::text::kit::{Line, Page, Role};
use crate::text::table::{Cell, Column, NONE, Table};

pub(in crate::text) fn print(page: &mut Page, profiles: &[ThpProfile], knobs: &[KnobReading]) {
    for (at, profile) in profiles.iter().enumerate() {
        if at > 0 {
            page.gap();
        }
        let start = Line::default().span(Role::Strong, profile.name);
        page.hang(start.plain("  "), 2, Role::Plain, profile.purpose);
        print_values(page, profile, knobs);
        page.prose(2, Role::Quiet, &format!("from: {}", profile.source));
    }
}

fn print_values(page: &mut Page, profile: &ThpProfile, knobs: &[KnobReading]) {
    let columns = vec![Column::left("knob"), Column::right("value"), Column::right("here")];
    let mut table = Table::new(4, columns);
    for (name, value) in profile.knobs {
        let here = knobs.iter().find(|knob| knob.knob.name == *name);
        let here = here.and_then(KnobReading::active_word).map(str::to_owned);
        let same = here.as_deref() == Some(*value);
        let role = if same { Role::Quiet } else { Role::Strong };
        table.row(vec![
            (*name).into(),
            (*value).into(),
            Cell::new(role, here.unwrap_or_else(|| NONE.to_owned())),
        ]);
    }
    table.print(page);
}
