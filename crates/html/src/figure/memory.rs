// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A figure of the uses of memory: a bar for all RAM, and a table that explains each part of the
//! bar.

use pagewise_model::Bytes;
use pagewise_report::text::{MemoryPart, Role, share};

use crate::page::{escape, wrap_wide_table};
use crate::svg::{Anchor, Svg, length};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 34.0;
/// Minimum width of a part of the bar that shows its name; the name of a narrower part is only in
/// the table.
const NAMED: f64 = 70.0;

pub(crate) fn draw_memory(parts: &[MemoryPart], total: Bytes) -> String {
    bar(parts, total) + &wrap_wide_table("Where memory is", &table(parts, total))
}

fn bar(parts: &[MemoryPart], total: Bytes) -> String {
    let mut svg = Svg::new(WIDTH);
    svg.draw_track([1.0, 1.0], [WIDTH - 2.0, HEIGHT - 1.0]);
    let mut x = 0.0;
    for part in parts {
        let width = length(part.bytes.get(), total.get(), WIDTH).min(WIDTH - x);
        if width >= 1.0 {
            // a gap separates neighbouring parts, so that they can be distinguished without colours
            svg.draw_area(class(part.name, part.role), [x + 1.0, 1.0], [width - 1.0, HEIGHT - 1.0]);
        }
        if width >= NAMED {
            let at = [x + width / 2.0, HEIGHT + 16.0];
            svg.draw_note(Anchor::Middle, at, part.name);
        }
        x += width;
    }
    let all: Vec<String> =
        parts.iter().map(|part| format!("{} {}", part.name, part.bytes)).collect();
    svg.into_figure(HEIGHT + 22.0, &format!("What {total} of RAM are used for"), &all.join(", "))
}

fn table(parts: &[MemoryPart], total: Bytes) -> String {
    let mut text = format!(
        "<table><caption class=\"unseen\">{total} in all</caption>\n<thead><tr><th scope=\"col\">kind</th>\
         <th scope=\"col\" class=\"number\">size</th><th scope=\"col\" class=\"number\">of RAM</th>\
         <th scope=\"col\">what it is</th></tr></thead>\n<tbody>\n"
    );
    for part in parts {
        let share = escape(&share(part.bytes.get(), total.get()).unwrap_or_default());
        text += &format!(
            "<tr><th scope=\"row\"><span class=\"swatch {}\"></span>{}</th>\
             <td class=\"number\">{}</td><td class=\"number\">{share}</td><td>{}</td></tr>\n",
            class(part.name, part.role),
            escape(part.name),
            part.bytes,
            escape(&part.meaning)
        );
    }
    text + "</tbody></table>"
}

/// The CSS class of a use of memory.
pub(crate) fn class(name: &str, role: Role) -> &'static str {
    match role {
        Role::Anon => "f-anon",
        Role::Shmem => "f-shmem",
        Role::File => "f-file",
        Role::Kernel => "f-kernel",
        Role::Compressed => "f-compressed",
        _ if name == "free" => "f-free",
        _ => "f-rest",
    }
}
