// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders a plan as patches of the machine configuration of Talos Linux.
//!
//! `machine.sysfs` names a file below /sys with full stops between the parts of its path. zswap has a
//! document of its own, `ZswapConfig`, since Talos 1.11.

use std::fmt::Write;

use super::layout::Layout;
use super::{heading, quote};

const ZSWAP: &str = "/sys/module/zswap/parameters/";

pub(super) fn render(layout: &Layout<'_>) -> (Option<String>, Vec<String>) {
    let mut left_out = layout.only_apply.clone();
    let (mut sysctls, mut sysfs, mut zswap) = (String::new(), String::new(), String::new());
    let mut has_zswap = false;
    for setting in &layout.settings {
        let value = setting.value.as_str();
        let parameter = setting.path.strip_prefix(ZSWAP);
        if let Some(name) = setting.sysctl() {
            let _ = writeln!(
                sysctls,
                "    {}: {}",
                quote::quote_string(&name),
                quote::quote_string(value)
            );
        } else if parameter == Some("enabled") && value == "Y" {
            has_zswap = true;
        } else if parameter == Some("shrinker_enabled") && matches!(value, "Y" | "N") {
            let _ = writeln!(zswap, "shrinkerEnabled: {}", value == "Y");
        } else if let (Some("max_pool_percent"), Ok(percent)) = (parameter, value.parse::<u8>()) {
            let _ = writeln!(zswap, "maxPoolPercent: {percent}");
        } else if let Some(path) = setting.path.strip_prefix("/sys/").filter(|it| !it.contains('.'))
        {
            let name = path.replace('/', ".");
            let _ = writeln!(
                sysfs,
                "    {}: {}",
                quote::quote_string(&name),
                quote::quote_string(value)
            );
        } else {
            left_out.push(format!("Not possible on Talos: {} = {value}.", setting.path));
        }
    }
    if layout.zram.is_some() {
        left_out.push("Not possible on Talos by its configuration: a zram device.".to_owned());
    }
    if layout.swap_file.is_some() {
        let why = "Not possible on Talos: a swap file. Swap is a volume there (SwapVolumeConfig), for which you \
                   choose the disk.";
        left_out.push(why.to_owned());
    }
    if has_zswap && layout.swap_file.is_none() {
        let what = "zswap needs swap on a disk: on Talos, a volume (SwapVolumeConfig) for which you choose the disk.";
        left_out.push(what.to_owned());
    }
    let mut text = String::new();
    if !sysctls.is_empty() || !sysfs.is_empty() {
        text += "machine:\n";
    }
    for (name, lines) in [("sysctls", sysctls), ("sysfs", sysfs)] {
        if !lines.is_empty() {
            let _ = write!(text, "  {name}:\n{lines}");
        }
    }
    if has_zswap || !zswap.is_empty() {
        let mark = if text.is_empty() { "" } else { "---\n" };
        let _ = write!(text, "{mark}apiVersion: v1alpha1\nkind: ZswapConfig\n{zswap}");
    }
    if text.is_empty() {
        return (None, left_out);
    }
    (Some(heading(layout, &left_out) + &text), left_out)
}
