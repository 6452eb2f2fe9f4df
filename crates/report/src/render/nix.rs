// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders a plan as a module of NixOS, which makes the files of /etc itself.

use std::fmt::Write;

use super::layout::Layout;
use super::{heading, quote};

pub(super) fn render(layout: &Layout<'_>) -> (Option<String>, Vec<String>) {
    let mut left_out = layout.only_apply.clone();
    let (mut sysctls, mut rules, mut body) = (String::new(), String::new(), String::new());
    for setting in &layout.settings {
        let value = setting.value.as_str();
        if let Some(name) = setting.sysctl() {
            // some options of NixOS accept only numbers
            let is_number = value.parse::<u32>().is_ok_and(|it| it.to_string() == value);
            let literal = if is_number { value.to_owned() } else { quote::quote_nix(value) };
            let _ = writeln!(sysctls, "    {} = {literal};", quote::quote_nix(&name));
        } else {
            let line = format!("w {} - - - - {value}", setting.path);
            let _ = writeln!(rules, "    {}", quote::quote_nix(&line));
        }
    }
    if !sysctls.is_empty() {
        let _ = write!(body, "  boot.kernel.sysctl = {{\n{sysctls}  }};\n");
    }
    if !rules.is_empty() {
        let _ = write!(body, "  systemd.tmpfiles.rules = [\n{rules}  ];\n");
    }
    body += &zram(layout);
    if let Some((path, plan)) = layout.swap_file {
        let size = plan.size_bytes.get() >> 20;
        let priority = plan.priority.map(|it| format!(" priority = {it};")).unwrap_or_default();
        let _ = writeln!(
            body,
            "  swapDevices = [ {{ device = {}; size = {size};{priority} }} ];",
            quote::quote_nix(path)
        );
    }
    for file in &layout.files {
        let is_of_swap = file.path.contains("zram") || file.path.ends_with(".swap");
        if !file.is_sysctl() && !file.is_tmpfiles() && !is_of_swap {
            left_out.push(format!("Not rendered for NixOS: the file {}.", file.path));
        }
    }
    for link in layout.links.iter().filter(|link| link.to == "/dev/null") {
        left_out.push(format!("Not rendered for NixOS: the mask {}.", link.path));
    }
    if body.is_empty() {
        return (None, left_out);
    }
    (Some(format!("{}{{ ... }}:\n{{\n{body}}}\n", heading(layout, &left_out))), left_out)
}

/// NixOS takes the smaller of a percentage of RAM and a number of bytes: the percentage is high enough
/// that the number of bytes decides.
fn zram(layout: &Layout<'_>) -> String {
    let Some(zram) = layout.zram else { return String::new() };
    let disksize = zram.disksize_bytes.get();
    let percent = match layout.memory_total() {
        Some(total) if total > 0 => (disksize.saturating_mul(100) / total).saturating_add(1),
        _ => 1000,
    };
    let level = zram.compressor.level.map(|level| format!("(level={level})")).unwrap_or_default();
    let algorithm = quote::quote_nix(&format!("{}{level}", zram.compressor.algorithm));
    let mut text = format!(
        "  zramSwap = {{\n    enable = true;\n    algorithm = {algorithm};\n    memoryPercent = {percent};\n    \
         memoryMax = {disksize};\n    priority = {};\n  }};\n",
        zram.priority
    );
    if let Some(limit) = zram.mem_limit_bytes {
        let _ = writeln!(
            text,
            "  services.zram-generator.settings.zram0.zram-resident-limit = {};",
            limit.get() >> 20
        );
    }
    text
}
