// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the files that set kernel settings at boot, and those that switch on managers of swap, OOM
//! kills and settings, into [`Configuration`].
//!
//! sysctl's files are taken as systemd-sysctl takes them: all folders together in the order of the file
//! names, a file in an earlier folder hides one of the same name in a later one, and the last
//! assignment wins. `/etc/sysctl.conf` is read last, as `sysctl --system` does; systemd reads it only
//! if a link in `sysctl.d` leads there, which Debian has up to 12. Patterns (`vm.*`) are left out.
//!
//! These files are written by people, so a line that is not understood is no Problem: most of them
//! are about other things.

use std::collections::BTreeMap;

use pagewise_model::knob::{Access, KNOBS, Knob};
use pagewise_model::{
    Configuration, GeneratorLine, Manager, Name, PersistentSetting, Purpose, Reading, Source,
};

use crate::limits::{self, SYSCTL_FILES, SYSCTL_LINES, SYSCTL_SETTINGS};
use crate::tuned;
use pagewise_files::text::{Line, words};
use pagewise_files::{HostRoot, ReadHost, ReadValues};

/// Where sysctl's files lie; earlier folders win.
pub const SYSCTL_FOLDERS: [&str; 4] =
    ["etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d"];
/// The file of sysctl that is read last.
pub const SYSCTL_CONF: &str = "etc/sysctl.conf";
/// The same for zram-generator; drop-ins lie in a folder of this name with `.d`.
pub const GENERATOR_FILES: [&str; 4] = [
    "etc/systemd/zram-generator.conf",
    "run/systemd/zram-generator.conf",
    "usr/local/lib/systemd/zram-generator.conf",
    "usr/lib/systemd/zram-generator.conf",
];
const RESUME: &str = "sys/power/resume";

/// Lines of zram-generator's files that name an algorithm and are kept.
const MAX_ALGORITHMS: usize = 128;

/// The program that systemd starts at boot where zram-generator is installed.
pub(crate) const GENERATOR: &str = "usr/lib/systemd/system-generators/zram-generator";

/// The link that `systemctl enable` makes.
macro_rules! wanted {
    ($unit:literal) => {
        concat!("etc/systemd/system/multi-user.target.wants/", $unit, ".service")
    };
}

/// The files that switch a manager on: links that `systemctl enable` makes, and a generator.
pub(crate) const MANAGERS: &[(&str, Purpose, &str)] = &[
    ("zram-generator", Purpose::CompressedSwap, GENERATOR),
    ("zram-tools", Purpose::CompressedSwap, wanted!("zramswap")),
    ("zram-config", Purpose::CompressedSwap, wanted!("zram-config")),
    ("systemd-swap", Purpose::CompressedSwap, wanted!("systemd-swap")),
    ("systemd-oomd", Purpose::OomKiller, wanted!("systemd-oomd")),
    ("earlyoom", Purpose::OomKiller, wanted!("earlyoom")),
    ("nohang", Purpose::OomKiller, wanted!("nohang")),
    ("nohang-desktop", Purpose::OomKiller, wanted!("nohang-desktop")),
    ("tuned", Purpose::Settings, tuned::UNIT),
    ("tlp", Purpose::Settings, wanted!("tlp")),
    ("laptop-mode-tools", Purpose::Settings, wanted!("laptop-mode")),
];

pub(crate) fn read(host: &HostRoot) -> Configuration {
    let files = sysctl_files(host);
    let mut sysctl = Vec::new();
    for path in &files {
        assignments(host, path, &mut sysctl);
    }
    let generator = generator(host);
    let sections = generator.sections > 0;
    let tuned = tuned::read(host);
    let sets = tuned.as_ref().is_some_and(|tuned| !tuned.settings.is_empty());
    let has_work = |name: &str| match name {
        "zram-generator" => sections,
        "tuned" => sets,
        _ => true,
    };
    let managers = MANAGERS.iter().filter(|(name, ..)| has_work(name));
    Configuration {
        sysctl_files: files.len(),
        sysctl,
        managers: managers.filter_map(|row| manager(host, row)).collect(),
        tuned,
        generator: generator.lines,
        resume_device: host.name_at(RESUME),
    }
}

fn manager(
    host: &HostRoot,
    &(name, purpose, path): &(&'static str, Purpose, &str),
) -> Option<Manager> {
    let source = Source::file(format!("/{path}"));
    let found = || Manager { name, purpose, found: Reading::found(Name::from("present"), source) };
    host.exists(path).then(found)
}

/// In the order of their names, whatever folder they are in.
fn sysctl_files(host: &HostRoot) -> Vec<String> {
    let mut by_name: BTreeMap<String, String> = BTreeMap::new();
    for folder in SYSCTL_FOLDERS {
        for name in conf_names(host, folder) {
            let path = format!("{folder}/{name}");
            by_name.entry(name).or_insert(path);
        }
    }
    // the link that leads to it
    let linked = by_name.contains_key("99-sysctl.conf");
    let conf = (!linked && host.exists(SYSCTL_CONF)).then(|| SYSCTL_CONF.to_owned());
    let files = by_name.into_values().collect();
    limits::first(host, SYSCTL_FOLDERS[0], SYSCTL_FILES, files).into_iter().chain(conf).collect()
}

fn conf_names(host: &HostRoot, folder: &str) -> Vec<String> {
    let names = host.names(folder).into_iter();
    names.filter(|name| name.ends_with(".conf") && !name.starts_with('.')).collect()
}

fn assignments(host: &HostRoot, path: &str, all: &mut Vec<PersistentSetting>) {
    let Ok(text) = host.text(path) else { return };
    let lines = text.first_lines(host, SYSCTL_LINES);
    let known = lines.filter_map(|line| assignment(&line));
    all.extend(known.take(SYSCTL_SETTINGS.saturating_sub(all.len())));
}

fn assignment(line: &Line<'_>) -> Option<PersistentSetting> {
    let (knob, value) = parsed(line.bytes)?;
    let value = Reading::found(Name::from_bytes(&value), line.source());
    Some(PersistentSetting { knob: knob.name, value })
}

/// `vm.swappiness = 10`, also as `vm/swappiness` and with a leading `-` (errors do not matter).
pub fn parsed(line: &[u8]) -> Option<(&'static Knob, Vec<u8>)> {
    let line = line.trim_ascii();
    if line.starts_with(b"#") || line.starts_with(b";") {
        return None;
    }
    let at = line.iter().position(|&byte| byte == b'=')?;
    let key = line[..at].trim_ascii();
    let key = std::str::from_utf8(key.strip_prefix(b"-").unwrap_or(key)).ok()?;
    let path = key.replace('.', "/");
    let is_it = |knob: &&Knob| knob.path.strip_prefix("proc/sys/") == Some(path.as_str());
    let knob = KNOBS.iter().find(is_it).filter(|knob| knob.access == Access::ReadWrite)?;
    let value: Vec<&[u8]> = words(&line[at + 1..]).collect();
    (!value.is_empty()).then(|| (knob, value.join(&b' ')))
}

#[derive(Debug, Default)]
struct Generator {
    sections: usize,
    lines: Vec<GeneratorLine>,
}

/// The first of the files, and after it all drop-ins.
fn generator(host: &HostRoot) -> Generator {
    let first = GENERATOR_FILES.iter().find(|path| host.exists(path)).map(|&path| path.to_owned());
    let mut by_name: BTreeMap<String, String> = BTreeMap::new();
    for file in GENERATOR_FILES {
        for name in conf_names(host, &format!("{file}.d")) {
            let path = format!("{file}.d/{name}");
            by_name.entry(name).or_insert(path);
        }
    }
    let mut all = Generator::default();
    let drop_ins = by_name.into_values().collect();
    let drop_ins = limits::first(host, GENERATOR_FILES[0], SYSCTL_FILES, drop_ins);
    for path in first.into_iter().chain(drop_ins) {
        sections(host, &path, &mut all);
    }
    all
}

fn sections(host: &HostRoot, path: &str, all: &mut Generator) {
    let Ok(text) = host.text(path) else { return };
    let mut device = None;
    for line in text.first_lines(host, SYSCTL_LINES) {
        if let Some(name) = section(line.bytes) {
            all.sections += 1;
            device = Some(Name::from_bytes(name));
        } else if let (Some(device), Some(algorithms)) = (&device, algorithms(line.bytes)) {
            let algorithms = Reading::found(Name::from_bytes(algorithms), line.source());
            if all.lines.len() < MAX_ALGORITHMS {
                all.lines.push(GeneratorLine { device: device.clone(), algorithms });
            }
        }
    }
}

/// `[zram0]`.
pub fn section(line: &[u8]) -> Option<&[u8]> {
    let name = line.trim_ascii().strip_prefix(b"[")?.strip_suffix(b"]")?;
    let digits = name.strip_prefix(b"zram")?;
    (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit)).then_some(name)
}

/// `compression-algorithm = zstd(level=3) lz4`.
pub fn algorithms(line: &[u8]) -> Option<&[u8]> {
    let rest = line.trim_ascii().strip_prefix(b"compression-algorithm")?.trim_ascii();
    Some(rest.strip_prefix(b"=")?.trim_ascii()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::host;

    fn settings(configuration: &Configuration) -> Vec<(&'static str, String, String)> {
        let shown = |setting: &'_ PersistentSetting| {
            let value = setting.value.value().unwrap().to_string();
            (setting.knob, value, setting.value.source.to_string())
        };
        configuration.sysctl.iter().map(shown).collect()
    }

    #[test]
    fn files_apply_in_the_order_of_their_names_and_etc_hides_the_vendors() {
        let host = host([
            ("usr/lib/sysctl.d/10-vendor.conf", "vm.swappiness=60\n"),
            ("usr/lib/sysctl.d/50-hidden.conf", "vm.swappiness=1\n"),
            ("etc/sysctl.d/50-hidden.conf", "# nothing\n"),
            ("run/sysctl.d/70-run.conf", "\n; x\n-vm/swappiness = 180\n"),
            ("etc/sysctl.conf", "kernel.hostname=bob\nvm.dirty_ratio =\t30\nvm.*=1\n"),
            ("etc/sysctl.d/README", "vm.swappiness=5\n"),
        ]);
        let read = read(&host);
        let at = |knob, value: &str, at: &str| (knob, value.to_owned(), at.to_owned());
        assert_eq!(
            settings(&read),
            [
                at("vm.swappiness", "60", "/usr/lib/sysctl.d/10-vendor.conf:1"),
                at("vm.swappiness", "180", "/run/sysctl.d/70-run.conf:3"),
                at("vm.dirty_ratio", "30", "/etc/sysctl.conf:2"),
            ]
        );
        assert_eq!(read.last("vm.swappiness").unwrap().value.value().unwrap().as_str(), "180");
        assert_eq!(read.sysctl_files, 4);
        assert!(host.take_problems().is_empty());
    }

    #[test]
    fn a_generator_counts_where_it_has_something_to_do() {
        let binary = "usr/lib/systemd/system-generators/zram-generator";
        let file = "etc/systemd/zram-generator.conf";
        let idle = host([(binary, ""), (file, "# [zram0]\n")]);
        assert!(read(&idle).managers.is_empty());
        let text = "[zram0]\nzram-size = ram\ncompression-algorithm = zstd(level=3) lz4(level=1)\n";
        let busy = host([
            (binary, ""),
            (file, text),
            ("usr/lib/systemd/zram-generator.conf", "[zram1]\ncompression-algorithm=lzo\n"),
            ("etc/systemd/system/multi-user.target.wants/earlyoom.service", ""),
        ]);
        let read = read(&busy);
        let names: Vec<&str> = read.managers.iter().map(|manager| manager.name).collect();
        assert_eq!(names, ["zram-generator", "earlyoom"]);
        let [line] = read.generator.as_slice() else { panic!("{:?}", read.generator) };
        assert_eq!(line.algorithms.value().unwrap().as_str(), "zstd(level=3) lz4(level=1)");
        assert_eq!(line.algorithms.source.to_string(), format!("/{file}:3"));
    }

    #[test]
    fn nothing_there_is_no_wish() {
        let read = read(&host::<&str>([]));
        assert_eq!((read.sysctl.len(), read.sysctl_files, read.managers.len()), (0, 0, 0));
        assert!(read.resume_device.value().is_none());
    }

    #[test]
    fn a_file_and_a_link_to_it_are_one() {
        let text = "vm.swappiness=1\n";
        let host = host([("etc/sysctl.d/99-sysctl.conf", text), ("etc/sysctl.conf", text)]);
        let at = "/etc/sysctl.d/99-sysctl.conf:1".to_owned();
        assert_eq!(settings(&read(&host)), [("vm.swappiness", "1".to_owned(), at)]);
    }

    #[test]
    fn endless_files_are_bounded() {
        let text = "vm.swappiness=1\n".repeat(20_000);
        let host = host([("etc/sysctl.d/1.conf", text.as_str()), ("etc/sysctl.conf", &text)]);
        assert_eq!(read(&host).sysctl.len(), SYSCTL_SETTINGS);
    }
}
