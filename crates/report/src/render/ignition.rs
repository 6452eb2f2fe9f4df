// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders a plan as a config of Ignition, which runs once, before the first boot: the files then set all values.
//!
//! The config has version 3.0.0 of the specification, which all later versions can read.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::layout::Layout;

pub(super) fn render(layout: &Layout<'_>) -> (Option<String>, Vec<String>) {
    let mut left_out = layout.only_apply.clone();
    for setting in &layout.only_running {
        let (path, value) = (&setting.path, &setting.value);
        left_out.push(format!(
            "Not possible with Ignition: {path} = {value}, as the plan has no file for it."
        ));
    }
    if let Some((path, _)) = layout.swap_file {
        left_out.push(format!(
            "Not possible with Ignition: a swap file with allocated blocks; create {path} with fallocate and mkswap."
        ));
    }
    if layout.files.is_empty() && layout.links.is_empty() {
        return (None, left_out);
    }
    let is_of_unit = |name: &str| layout.files.iter().any(|file| file.unit() == Some(name));
    let enables = |name: &str| layout.links.iter().any(|link| link.enabled_unit() == Some(name));
    let (mut files, mut units): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
    for file in &layout.files {
        if let Some(name) = file.unit() {
            let mut unit = json!({"name": name, "contents": file.to});
            if enables(name) {
                unit["enabled"] = json!(true);
            }
            units.push(unit);
        } else {
            let source = format!("data:,{}", utf8_percent_encode(file.to, NON_ALPHANUMERIC));
            files.push(json!({
                "path": file.path,
                "mode": file.mode(),
                "overwrite": true,
                "contents": {"source": source},
            }));
        }
    }
    let other_links = layout.links.iter().filter(|it| !it.enabled_unit().is_some_and(is_of_unit));
    let links: Vec<Value> = other_links
        .map(|it| json!({"path": it.path, "target": it.to, "overwrite": true, "hard": false}))
        .collect();
    let config = json!({
        "ignition": {"version": "3.0.0"},
        "storage": {"files": files, "links": links},
        "systemd": {"units": units},
    });
    (Some(format!("{config:#}\n")), left_out)
}
