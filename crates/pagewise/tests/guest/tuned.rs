// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a profile of TuneD sets, compared with TuneD's own loader on generated profiles that include
//! each other. The package is downloaded and unpacked, not installed: its daemon would tune this
//! machine.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::boot::{finish, program};
use crate::owners::Draw;

const PROFILES: usize = 150;
const KNOBS: [&str; 4] =
    ["vm.swappiness", "vm.dirty_ratio", "vm.dirty_background_ratio", "vm.page-cluster"];

/// Prints for each profile what its sections set in the end, or that it is refused. Values with a
/// variable are expanded as the plugins do; sections for some machines only are left out.
const LOADER: &str = r#"
import json, sys
sys.path.insert(0, sys.argv[1])
from tuned.profiles.loader import Loader
from tuned.profiles.locator import Locator
from tuned.profiles.merger import Merger
from tuned.profiles.factory import Factory
from tuned.profiles.variables import Variables
from tuned.utils.commands import commands
for number in range(int(sys.argv[3])):
    variables = Variables()
    try:
        profile = Loader(Locator([sys.argv[2]]), Factory(), Merger(), None, variables).load("p%d" % number)
    except Exception:
        print(json.dumps([number, None]))
        continue
    said = {}
    units = [unit for unit in profile.units.values() if unit.enabled]
    units = [unit for unit in units if unit.uname_regex is None and unit.cpuinfo_regex is None]
    for unit in units:
        for key, value in unit.options.items():
            value = variables.expand(commands().unquote(value))
            if unit.type == "sysctl" and key.startswith("vm."):
                said[key] = value
            elif unit.type == "vm" and key in ("transparent_hugepages", "transparent_hugepage"):
                if value in ("always", "never", "madvise"):
                    said["thp.enabled"] = value
    print(json.dumps([number, said]))
"#;

/// A profile that may include earlier ones.
fn profile(draw: &mut Draw, number: usize) -> String {
    let mut text = String::from("# made up\n[main]\nsummary=x\n");
    if number > 0 && draw.below(3) > 0 {
        let mut earlier = || draw.below(number as u64);
        let (one, two) = (earlier(), earlier());
        let include = match draw.below(5) {
            0 => format!("p{one},p{two}"),
            1 => format!("p{one} ; p{two}"),
            2 => format!("-missing, p{one}"),
            _ => format!("p{one}"),
        };
        writeln!(text, "include={include}").unwrap();
    }
    for _ in 0..=draw.below(3) {
        text.push_str(&section(draw));
    }
    // one line that makes the loader refuse the profile
    if draw.below(20) == 0 {
        text.push_str(draw.one(&["nonsense\n", "= 5\n", "[sysctl\n"]));
    }
    text
}

fn section(draw: &mut Draw) -> String {
    let name = draw.one(&["sysctl", "sysctl", "vm", "mine", "net", "variables", "sysctl.db"]);
    let mut text = format!("[{name}]{}\n", draw.one(&["", " ", " # x", "y"]));
    if name == "variables" {
        writeln!(text, "x={}\ny = ${{x}}", draw.below(50)).unwrap();
        return text;
    }
    if !matches!(name, "sysctl" | "vm") {
        let kind = draw.one(&["sysctl", "sysctl", "vm", "script"]);
        writeln!(text, "type={kind}").unwrap();
    }
    match draw.below(12) {
        0 => text.push_str("enabled=false\n"),
        1 => text.push_str("enabled=1\n"),
        2 => text.push_str("replace=true\n"),
        3 => text.push_str("drop=vm.swappiness; vm.dirty_ratio\n"),
        4 => text.push_str("uname_regex=aarch64\n"),
        _ => {}
    }
    for _ in 0..=draw.below(3) {
        let value = draw.below(50);
        let knob = draw.one(&KNOBS);
        let line = match draw.below(12) {
            0 => format!("{knob} = {value} # {value}"),
            1 => format!("{knob}={value}#{value}"),
            2 => format!("{knob}=\"{value}\""),
            3 => format!("# {knob}={value}"),
            4 => format!("; {knob}={value}"),
            5 => format!("{knob}={value}\n    7"),
            6 => format!("  {knob}={value}"),
            7 => format!("{knob}=${{x}}"),
            8 => format!("transparent_hugepages={}", draw.one(&["never", "always", "maybe"])),
            _ => format!("{knob}={value}"),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Unpacks Debian's package `tuned` into a folder.
fn unpack(folder: &Path) {
    // apt's own user downloads, so that the folder must be open to it
    let script = "chmod 755 . && { test $(id -u) != 0 || apt-get --quiet=2 update; } && apt-get --quiet=2 download tuned && \
                  dpkg-deb --extract tuned_*.deb unpacked";
    let ran = Command::new("sh").args(["-c", script]).current_dir(folder).output().unwrap();
    let error = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "TuneD cannot be downloaded: {error}");
}

/// The value that each setting gets in the end, empty if it is not known.
fn ours(root: &Path) -> BTreeMap<String, String> {
    let options = ["report", "--json", "--interval", "0", "--no-contents", "--only", "owners"];
    let ran = finish(program().args(options).arg("--root").arg(root));
    let document: Value = serde_json::from_str(&ran.out)
        .unwrap_or_else(|error| panic!("{error}: {} {}", ran.out, ran.err));
    let mut all = BTreeMap::new();
    for owner in document["owners"].as_array().unwrap() {
        let lines = owner["owners"].as_array().unwrap().iter();
        let mut lines = lines.filter(|line| line["effect"]["is"] != "ignored");
        if let Some(line) = lines.next_back() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let is_known = line["effect"]["is"] == "applied";
            let value = if is_known { text(&line["value"]["value"]) } else { String::new() };
            all.insert(text(&owner["target"]), value);
        }
    }
    all
}

#[test]
fn tuned_sets_what_we_say_it_sets() {
    let folder = tempfile::tempdir().unwrap();
    unpack(folder.path());
    let profiles = folder.path().join("root/etc/tuned");
    let enabled = folder.path().join("root/etc/systemd/system/multi-user.target.wants");
    fs::create_dir_all(folder.path().join("root/proc")).unwrap();
    fs::write(folder.path().join("root/proc/meminfo"), "MemTotal: 1000000 kB\n").unwrap();
    fs::create_dir_all(&enabled).unwrap();
    fs::write(enabled.join("tuned.service"), "").unwrap();
    let mut draw = Draw(7);
    for number in 0..PROFILES {
        let own = profiles.join(format!("p{number}"));
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("tuned.conf"), profile(&mut draw, number)).unwrap();
    }
    let packages = folder.path().join("unpacked/usr/lib/python3/dist-packages");
    let loader = folder.path().join("loader.py");
    fs::write(&loader, LOADER).unwrap();
    let mut python = Command::new("python3");
    python.arg(&loader).arg(&packages).arg(&profiles).arg(PROFILES.to_string());
    let ran = python.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let (mut refused, mut compared, mut unknown) = (0, 0, 0);
    for line in out.lines() {
        let theirs: (usize, Option<BTreeMap<String, String>>) = serde_json::from_str(line).unwrap();
        let (number, theirs) = theirs;
        fs::write(profiles.join("active_profile"), format!("p{number}\n")).unwrap();
        refused += usize::from(theirs.is_none());
        let ours = ours(&folder.path().join("root"));
        // values that are no words are not set, or are computed
        let shown = |(key, value): (String, String)| {
            let is_word = value.bytes().all(|byte| byte.is_ascii_alphanumeric());
            let is_unknown = ours.get(&key).is_some_and(String::is_empty) && !is_word;
            (key, if is_unknown { String::new() } else { value })
        };
        let theirs: BTreeMap<_, _> = theirs.unwrap_or_default().into_iter().map(shown).collect();
        unknown += ours.values().filter(|value| value.is_empty()).count();
        let text = || fs::read_to_string(profiles.join(format!("p{number}/tuned.conf"))).unwrap();
        assert_eq!(ours, theirs, "profile p{number}:\n{}", text());
        compared += ours.len();
    }
    assert_eq!(out.lines().count(), PROFILES, "{err}");
    let counts = format!("{refused} refused, {compared} values, {unknown} not known");
    println!("{counts}");
    assert!(refused > 5 && compared > PROFILES && 2 * unknown < compared, "{counts}: {err}");
}
