// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders a plan as user data of Bottlerocket, which has settings for sysctl and no others that a plan needs.

use std::fmt::Write;

use super::layout::Layout;
use super::{heading, quote};

pub(super) fn render(layout: &Layout<'_>) -> (Option<String>, Vec<String>) {
    let mut left_out = layout.only_apply.clone();
    let mut lines = String::new();
    for setting in &layout.settings {
        if let Some(name) = setting.sysctl() {
            let _ = writeln!(
                lines,
                "{} = {}",
                quote::quote_string(&name),
                quote::quote_string(&setting.value)
            );
        } else {
            let (path, value) = (&setting.path, &setting.value);
            left_out.push(format!("Not possible on Bottlerocket by a setting: {path} = {value}."));
        }
    }
    if layout.zram.is_some() {
        left_out.push("Not possible on Bottlerocket by a setting: a zram device.".to_owned());
    }
    if layout.swap_file.is_some() {
        left_out.push("Not possible on Bottlerocket by a setting: a swap file.".to_owned());
    }
    if lines.is_empty() {
        return (None, left_out);
    }
    let text = format!("{}[settings.kernel.sysctl]\n{lines}", heading(layout, &left_out));
    (Some(text), left_out)
}
