// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab list`: lists the experiments.

use pagewise_lab::library::{self, File};
use pagewise_report::text;
use pagewise_terminal::{Global, Outcome, output, screen};
use serde_json::json;

pub(super) fn run(global: &Global) -> anyhow::Result<Outcome> {
    let mut files: Vec<File> = Vec::new();
    for found in library::all_files() {
        match found {
            Ok(file) => files.push(file),
            Err(wrong) => super::print_message(global, &wrong.to_string()),
        }
    }
    let text = if global.json {
        let entry = |file: &File| {
            json!({ "experiment": file.name, "about": file.about(), "claim": file.claim(),
                "place": file.place() })
        };
        let listed: Vec<_> = files.iter().map(entry).collect();
        let document = json!({
            "schema": "pagewise/lab-list/1",
            "pagewise": env!("CARGO_PKG_VERSION"),
            "experiments": listed,
        });
        format!("{document:#}\n")
    } else {
        let entry = |file: &File| (file.name.clone(), file.about().to_owned());
        let listed: Vec<_> = files.iter().map(entry).collect();
        text::experiments(&listed, screen::text_style(global))
    };
    output::print_answer(global, &text)?;
    Ok(Outcome::Done)
}
