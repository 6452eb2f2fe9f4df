// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the files of `sysctl.d` in the same way as systemd-sysctl.
//!
//! The files of all folders together are read in the order of their names. A file hides those of
//! the same name in later folders, and the last assignment to a name takes effect. A pattern
//! (`vm.dirty_*`) applies only to settings that no line names. A line `-vm.swappiness` without a
//! value excludes the setting from all assignments before it and from all patterns.
//!
//! systemd does not read `/etc/sysctl.conf` at boot unless there is a link to it in `sysctl.d`, as
//! in Debian up to release 12. The command `sysctl --system` reads the file last, and so do init
//! systems other than systemd.

use std::collections::BTreeMap;

use pagewise_hostfs::text::{Line, words};
use pagewise_hostfs::{HostRoot, ReadHost};
use pagewise_model::knob::KNOBS;
use pagewise_model::{Effect, Mechanism, PersistentSetting, Target, most_similar};

use crate::collector::{Collector, fold_spaces, split_assignment};
use crate::conf_files::{ConfFile, list_in_order};
use crate::knob_path;

/// Folders with sysctl's files; of files with the same name, the one in the earlier folder is
/// read.
pub const FOLDERS: [&str; 4] =
    ["etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d"];
/// The file that `sysctl --system` reads last.
pub const CONF: &str = "etc/sysctl.conf";
/// Path of a file that exists only if systemd is the init process.
pub const BOOTED_BY_SYSTEMD: &str = "run/systemd/notify";

/// The settings in files of sysctl.d, and the number of files that were read.
#[derive(Debug, Default)]
pub(crate) struct Sysctl {
    pub(crate) settings: Vec<PersistentSetting>,
    pub(crate) files: usize,
}

pub(crate) fn read(host: &HostRoot) -> Sysctl {
    let files = list_in_order(host, &FOLDERS.map(str::to_owned), ".conf");
    let is_read = |file: &ConfFile| file.effect() == Effect::Applied;
    let mut count = files.iter().filter(|file| is_read(file)).count();
    // a link `99-sysctl.conf` usually points to /etc/sysctl.conf
    let is_linked =
        files.iter().any(|file| is_read(file) && file.path.ends_with("/99-sysctl.conf"));
    let conf = (!is_linked && host.exists(CONF)).then(|| effect_of_sysctl_conf(host));
    count += usize::from(conf.is_some());
    let mut explicit = Collector::new(host, Mechanism::Sysctl);
    let mut reader = Reader::default();
    for file in &files {
        let effect = file.effect();
        explicit.lines(&file.path, |all, line| reader.line(all, line, &effect));
    }
    if let Some(effect) = conf {
        explicit.lines(CONF, |all, line| reader.line(all, line, &effect));
    }
    Sysctl { settings: reader.mark_excluded(explicit.into_settings_with_order()), files: count }
}

/// Whether the lines of `/etc/sysctl.conf` are applied if there is no link to the file.
fn effect_of_sysctl_conf(host: &HostRoot) -> Effect {
    if !host.exists(BOOTED_BY_SYSTEMD) {
        return Effect::Applied;
    }
    let why = "systemd does not read /etc/sysctl.conf at boot; only sysctl --system does";
    Effect::Ignored(why.into())
}

/// The assignments and exclusions that were read so far, by setting.
#[derive(Debug, Default)]
struct Reader {
    /// Number of applied lines that name each setting; patterns do not count.
    named: BTreeMap<Target, usize>,
    /// For each setting, how many of these lines an exclusion cancels. It also cancels all
    /// patterns.
    excluded: BTreeMap<Target, usize>,
}

/// The position of patterns: they come first, because any assignment to a name overrides them.
const PATTERN: usize = 0;
const NAME: usize = 1;

impl Reader {
    fn line(&mut self, all: &mut Collector<'_>, line: &Line<'_>, effect: &Effect) {
        let Some(found) = parse_assignment(line.bytes) else {
            return add_misspelled(all, line, effect);
        };
        let is_read = *effect == Effect::Applied;
        let Some(value) = &found.value else {
            for target in found.targets.into_iter().filter(|_| is_read) {
                let named = self.named.get(&target).copied().unwrap_or_default();
                self.excluded.insert(target, named);
            }
            return;
        };
        let value = remove_comment(value);
        for target in found.targets {
            if is_read && !found.is_pattern {
                *self.named.entry(target.clone()).or_default() += 1;
            }
            let place = if found.is_pattern { PATTERN } else { NAME };
            all.add_at(place, target, &value, line, effect);
        }
    }

    /// Marks the settings that a line without a value excludes: all assignments before that line,
    /// and those by patterns.
    fn mark_excluded(
        self,
        mut settings: Vec<(usize, PersistentSetting)>,
    ) -> Vec<PersistentSetting> {
        let mut seen: BTreeMap<Target, usize> = BTreeMap::new();
        for (place, setting) in &mut settings {
            if setting.effect != Effect::Applied {
                continue;
            }
            let before = seen.entry(setting.target.clone()).or_default();
            *before += usize::from(*place == NAME);
            let is_excluded =
                self.excluded.get(&setting.target).is_some_and(|excluded| *before <= *excluded);
            if is_excluded {
                ignore(setting);
            }
        }
        settings.into_iter().map(|(_, setting)| setting).collect()
    }
}

fn ignore(setting: &mut PersistentSetting) {
    let why = "a line with a leading - and no value excludes this setting";
    setting.effect = Effect::Ignored(why.into());
}

/// Returns the numbers at the beginning of a value that is followed by a comment. sysctl does not
/// support comments after a value and writes all of the text; the kernel then uses the numbers and
/// ignores what follows.
fn remove_comment(value: &[u8]) -> Vec<u8> {
    let is_number = |word: &&[u8]| word.iter().all(u8::is_ascii_digit);
    let numbers: Vec<&[u8]> = words(value).take_while(is_number).collect();
    let next = words(value).nth(numbers.len());
    let has_comment = next.is_some_and(|word| word.starts_with(b"#") || word.starts_with(b";"));
    if numbers.is_empty() || !has_comment { value.to_vec() } else { numbers.join(&b' ') }
}

/// Names below `vm` that some kernels have and that are not in the table of settings.
const OTHER_NAMES: &[&str] = &[
    "block_dump",
    "dirtytime_expire_seconds",
    "hugepages_treat_as_movable",
    "laptop_mode",
    "legacy_va_layout",
    "memfd_noexec",
    "memory_failure_early_kill",
    "memory_failure_recovery",
    "enable_soft_offline",
    "mmap_min_addr",
    "mmap_rnd_bits",
    "mmap_rnd_compat_bits",
    "numa_zonelist_order",
    "nr_pdflush_threads",
    "nr_trim_pages",
    "page_lock_unfairness",
    "percpu_pagelist_fraction",
    "scan_unevictable_pages",
    "shrink_inodes_with_pagecache",
    "vdso_enabled",
];

/// If a line assigns a name below `vm` that does not exist, or a name without `vm`, adds it as not
/// applied to the setting that was probably meant.
fn add_misspelled(all: &mut Collector<'_>, line: &Line<'_>, effect: &Effect) {
    let Some((key, value)) = split_assignment(line.bytes) else { return };
    let Ok(key) = std::str::from_utf8(key.strip_prefix(b"-").unwrap_or(key)) else { return };
    if *effect != Effect::Applied || value.is_empty() || knob_path::has_pattern(key) {
        return;
    }
    let name = key.strip_prefix("vm.").or_else(|| key.strip_prefix("vm/")).unwrap_or(key);
    let is_other = name.contains(['.', '/']) || name.len() < SHORTEST;
    let path = if name == key { format!("proc/sys/{name}") } else { format!("{VM}{name}") };
    if is_other || all.host.exists(&path) {
        return;
    }
    let of_knobs = KNOBS.iter().filter_map(|knob| knob.path.strip_prefix(VM));
    let known = of_knobs.chain(OTHER_NAMES.iter().copied());
    let Some(meant) = most_similar(name, known) else { return };
    if meant == name && name.len() != key.len() {
        return;
    }
    let why = format!("its name is {key}, and there is no such sysctl (vm.{meant} meant?)");
    for target in knob_path::find_targets(&format!("{VM}{meant}")) {
        let value = remove_comment(&fold_spaces(value));
        all.add_at(NAME, target, &value, line, &Effect::Ignored(why.clone().into()));
    }
}

/// The folder of the kernel's memory settings.
const VM: &str = "proc/sys/vm/";
/// Minimum length of a name that is compared with others: shorter names are similar to too many
/// others.
const SHORTEST: usize = 5;

/// One line that assigns or excludes a setting of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The settings that the line names; several if the name is a pattern.
    pub targets: Vec<Target>,
    /// The assigned value; `None` if the line excludes the setting.
    pub value: Option<Vec<u8>>,
    /// Whether the name is a pattern.
    pub is_pattern: bool,
}

/// Parses a line such as `vm.swappiness = 10`, also `vm/swappiness` and with a leading `-` (ignore
/// errors).
#[must_use]
pub fn parse_assignment(line: &[u8]) -> Option<Assignment> {
    let line = line.trim_ascii();
    if line.starts_with(b"#") || line.starts_with(b";") {
        return None;
    }
    let at = line.iter().position(|&byte| byte == b'=');
    let (key, value) = match at {
        Some(at) => (line[..at].trim_ascii(), Some(fold_spaces(&line[at + 1..]))),
        None => (line.strip_prefix(b"-").map(|_| line)?, None),
    };
    if value.as_ref().is_some_and(Vec::is_empty) {
        return None;
    }
    let key = std::str::from_utf8(key.strip_prefix(b"-").unwrap_or(key)).ok()?;
    let targets = targets_of(key);
    let is_pattern = knob_path::has_pattern(key);
    (!targets.is_empty()).then_some(Assignment { targets, value, is_pattern })
}

/// Returns the settings that a sysctl name refers to. The first separator in the name (`.` or `/`)
/// is the separator between all its parts.
#[must_use]
pub fn targets_of(key: &str) -> Vec<Target> {
    let swap = |c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    let is_path = key.find(['.', '/']).is_none_or(|at| key[at..].starts_with('/'));
    let path = if is_path { key.to_owned() } else { key.chars().map(swap).collect() };
    knob_path::find_targets(&format!("proc/sys/{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{host, show_all};

    #[test]
    fn files_apply_in_the_order_of_their_names_and_etc_hides_the_vendors() {
        let host = host([
            ("usr/lib/sysctl.d/10-vendor.conf", "vm.swappiness=60\n"),
            ("usr/lib/sysctl.d/50-hidden.conf", "vm.swappiness=1\n"),
            ("etc/sysctl.d/50-hidden.conf", "# nothing\n"),
            ("run/sysctl.d/70-run.conf", "\n; x\n-vm/swappiness = 180\n"),
            ("etc/sysctl.conf", "kernel.hostname=bob\nvm.dirty_ratio =\t30\n"),
            ("etc/sysctl.d/README", "vm.swappiness=5\n"),
        ]);
        let read = read(&host);
        assert_eq!(
            show_all(&read.settings),
            [
                "vm.swappiness 60 /usr/lib/sysctl.d/10-vendor.conf:1",
                "vm.swappiness 180 /run/sysctl.d/70-run.conf:3",
                "vm.swappiness 1 /usr/lib/sysctl.d/50-hidden.conf:1 ignored: \
                 /etc/sysctl.d/50-hidden.conf has the same name and is read instead",
                "vm.dirty_ratio 30 /etc/sysctl.conf:2",
            ]
        );
        assert_eq!(read.files, 4);
        assert!(host.take_problems().is_empty());
    }

    #[test]
    fn a_name_wins_over_a_pattern_and_can_be_taken_out() {
        let host = host([
            ("etc/sysctl.d/10.conf", "vm.dirty_ratio=5\nvm.dirty_ratio=6\nvm.swappiness=1\n"),
            (
                "etc/sysctl.d/20.conf",
                "vm.dirty_*ratio=30\n-vm.dirty_background_ratio\n-vm.swappiness\n",
            ),
            ("etc/sysctl.d/30.conf", "vm.swappiness=2\n"),
        ]);
        let why = "ignored: a line with a leading - and no value excludes this setting";
        assert_eq!(
            show_all(&read(&host).settings),
            [
                "vm.dirty_ratio 30 /etc/sysctl.d/20.conf:1".to_owned(),
                format!("vm.dirty_background_ratio 30 /etc/sysctl.d/20.conf:1 {why}"),
                "vm.dirty_ratio 5 /etc/sysctl.d/10.conf:1".to_owned(),
                "vm.dirty_ratio 6 /etc/sysctl.d/10.conf:2".to_owned(),
                format!("vm.swappiness 1 /etc/sysctl.d/10.conf:3 {why}"),
                "vm.swappiness 2 /etc/sysctl.d/30.conf:1".to_owned(),
            ]
        );
    }

    #[test]
    fn systemd_does_not_read_the_old_file_unless_a_link_leads_there() {
        let text = "vm.swappiness=1\n";
        let linked = host([("etc/sysctl.d/99-sysctl.conf", text), ("etc/sysctl.conf", text)]);
        assert_eq!(
            show_all(&read(&linked).settings),
            ["vm.swappiness 1 /etc/sysctl.d/99-sysctl.conf:1"]
        );
        let unlinked = host([("etc/sysctl.conf", text), (BOOTED_BY_SYSTEMD, "")]);
        assert_eq!(
            show_all(&read(&unlinked).settings),
            [
                "vm.swappiness 1 /etc/sysctl.conf:1 ignored: systemd does not read /etc/sysctl.conf at boot; \
              only sysctl --system does"
            ]
        );
    }

    #[test]
    fn names_have_two_spellings() {
        let one = |key| targets_of(key).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(one("vm.swappiness"), ["vm.swappiness"]);
        assert_eq!(one("vm/swappiness"), ["vm.swappiness"]);
        assert_eq!(one("vm"), [""; 0]);
        assert_eq!(parse_assignment(b"vm.swappiness"), None);
        assert_eq!(parse_assignment(b"vm.swappiness ="), None);
        assert_eq!(parse_assignment(b"#vm.swappiness = 1"), None);
    }

    #[test]
    fn a_name_that_does_not_exist_is_shown_with_the_one_that_was_meant() {
        let text = "vm.swapiness=10\nswappiness=50\nvm/page_cluster=0\nvm.laptop_mode=5\n\
                    kernel.swapiness=1\nvm.newer_name_of_a_kernel=1\nvm.swap*nes=1\n";
        let host = host([("etc/sysctl.d/1.conf", text), ("proc/sys/vm/swappiness", "60\n")]);
        assert_eq!(
            show_all(&read(&host).settings),
            [
                "vm.swappiness 10 /etc/sysctl.d/1.conf:1 ignored: its name is vm.swapiness, and there is no \
                 such sysctl (vm.swappiness meant?)",
                "vm.swappiness 50 /etc/sysctl.d/1.conf:2 ignored: its name is swappiness, and there is no \
                 such sysctl (vm.swappiness meant?)",
                "vm.page-cluster 0 /etc/sysctl.d/1.conf:3 ignored: its name is vm/page_cluster, and there is \
                 no such sysctl (vm.page-cluster meant?)",
            ]
        );
    }

    #[test]
    fn the_kernel_takes_the_numbers_in_front_of_a_comment() {
        let text = "vm.swappiness = 10 # less\nvm.lowmem_reserve_ratio = 256 32 ; x\n\
                    vm.dirty_ratio = 5 percent\n";
        let values = read(&host([("etc/sysctl.d/1.conf", text)])).settings;
        let values: Vec<&str> = values.iter().map(PersistentSetting::wanted).collect();
        assert_eq!(values, ["10", "256 32", "5 percent"]);
    }

    #[test]
    fn endless_files_are_bounded() {
        let text = "vm.swappiness=1\n".repeat(20_000);
        let host = host([("etc/sysctl.d/1.conf", text.as_str()), ("etc/sysctl.conf", &text)]);
        assert_eq!(read(&host).settings.len(), crate::limits::CONFIG_SETTINGS);
    }
}
