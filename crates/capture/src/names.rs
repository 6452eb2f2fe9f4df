// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replaces names by aliases. The same name has the same alias throughout a capture.

use std::hash::{BuildHasher, RandomState};

use super::aliases::Aliases;
use super::places::Places;
use super::words::{
    DEVICE_UNITS, ENGINES, GROUPS, PROGRAMS, SETTINGS_FILES, TUNED_PROFILES, digits_after,
};
use pagewise_observe::Tape;
use pagewise_observe::formats::kernel_log::Rename;

/// The names that have occurred so far, with their aliases.
#[derive(Debug)]
pub(super) struct Names {
    /// Whether names are kept, because the recording does not leave the machine.
    keeps_names: bool,
    hasher: RandomState,
    programs: Aliases,
    groups: Aliases,
    users: Aliases,
    settings_files: Aliases,
    tuned_profiles: Aliases,
    tuned_sections: Aliases,
    release: Vec<u8>,
    release_digits: String,
    pub(super) places: Places,
}

impl Names {
    /// Creates the aliases for a recording that stays on this machine: names of programs, cgroups
    /// and files are kept if they are printable text; everything else is redacted as in any
    /// recording.
    pub(super) fn of_this_machine(tape: &Tape) -> Self {
        Self { keeps_names: true, ..Self::from_tape(tape) }
    }

    /// Whether names are kept because the recording stays on this machine.
    pub(super) const fn keeps_names(&self) -> bool {
        self.keeps_names
    }

    pub(super) fn from_tape(tape: &Tape) -> Self {
        let release = tape.file("proc/sys/kernel/osrelease").unwrap_or_default().trim_ascii();
        Self {
            keeps_names: false,
            hasher: RandomState::new(),
            programs: Aliases::default(),
            groups: Aliases::default(),
            users: Aliases::default(),
            settings_files: Aliases::default(),
            tuned_profiles: Aliases::default(),
            tuned_sections: Aliases::default(),
            release: release.to_vec(),
            release_digits: version_digits(release),
            places: Places::from_tape(tape),
        }
    }

    /// Adds the mounts and swap areas of the next tape.
    pub(super) fn add_places(&mut self, tape: &Tape) {
        self.places.add_tape(tape);
    }

    /// Returns the alias of the host's name, which is a hash.
    pub(super) fn host(&self, name: &[u8]) -> String {
        if let Some(kept) = self.name_if_kept(name.trim_ascii()) {
            return kept.to_owned();
        }
        format!("host-{:08x}", self.hash("host", name) >> 32)
    }

    /// Returns the alias of the boot id, which is a hash, so that boots can still be distinguished.
    pub(super) fn boot(&self, id: &[u8]) -> String {
        if let Some(kept) = self.name_if_kept(id.trim_ascii()) {
            return kept.to_owned();
        }
        format!("{:016x}", self.hash("boot", id))
    }

    /// Returns the name itself, if names are kept and it is printable text.
    fn name_if_kept<'a>(&self, name: &'a [u8]) -> Option<&'a str> {
        let text = std::str::from_utf8(name).ok().filter(|_| self.keeps_names)?;
        (!text.is_empty() && !text.contains(char::is_control)).then_some(text)
    }

    fn hash(&self, kind: &str, name: &[u8]) -> u64 {
        self.hasher.hash_one((kind, name.trim_ascii()))
    }

    /// Returns the version digits of the kernel's release, without what a vendor or the owner
    /// appended.
    pub(super) fn release(&self) -> &str {
        &self.release_digits
    }

    /// Returns the alias of the kernel's release within a path or file name.
    pub(super) fn alias_of_release_in(&self, text: &[u8]) -> Option<&str> {
        (!self.release.is_empty() && text == self.release).then_some(self.release_digits.as_str())
    }

    /// Returns the name of a program if it is a widely used program, otherwise its alias.
    pub(super) fn program(&mut self, name: &[u8]) -> String {
        let known = || std::str::from_utf8(name).ok().filter(|name| is_known_program(name));
        match self.name_if_kept(name).or_else(known) {
            Some(name) => name.to_owned(),
            None if name.starts_with(b"kworker/") => "kworker".to_owned(),
            None => format!("proc-{}", self.programs.number(name)),
        }
    }

    /// Returns the alias of one component in the path of a cgroup.
    pub(super) fn group(&mut self, name: &[u8]) -> String {
        let known = || std::str::from_utf8(name).ok().filter(|name| is_known_group(name));
        if let Some(known) = self.name_if_kept(name).or_else(known) {
            return known.to_owned();
        }
        let kinds = ["service", "slice", "scope", "mount", "socket", "swap"];
        let kind = kinds.iter().find(|kind| name.ends_with(format!(".{kind}").as_bytes()));
        let kind = kind.map_or_else(String::new, |kind| format!(".{kind}"));
        let engine = engine(name).map_or_else(String::new, |engine| format!("{engine}-"));
        format!("{engine}cg-{}{kind}", self.groups.number(name))
    }

    /// Returns the alias of a configuration file. The two digits that determine its order are kept,
    /// and so are names that packages use.
    pub(super) fn settings_file(&mut self, name: &str, suffix: &str) -> String {
        if SETTINGS_FILES.contains(&name) || self.name_if_kept(name.as_bytes()).is_some() {
            return name.to_owned();
        }
        let is_ordered = |prefix: &&str| prefix[..2].bytes().all(|byte| byte.is_ascii_digit());
        let order = name.get(..3).filter(|prefix| prefix.ends_with('-')).filter(is_ordered);
        let number = self.settings_files.number(name.as_bytes());
        format!("{}file-{number}{suffix}", order.unwrap_or(""))
    }

    /// Returns the alias of a swap unit. The names of units for zram devices are kept.
    pub(super) fn swap_unit(&mut self, name: &str) -> String {
        let device = name.strip_suffix(".swap").and_then(|name| name.strip_prefix("dev-"));
        if device.is_some_and(|device| digits_after(device, "zram")) {
            return name.to_owned();
        }
        self.group(name.as_bytes())
    }

    /// Returns the alias of a TuneD profile. Names that packages use are kept.
    pub(super) fn tuned_profile(&mut self, name: &str) -> String {
        if TUNED_PROFILES.contains(&name) || self.name_if_kept(name.as_bytes()).is_some() {
            return name.to_owned();
        }
        format!("profile-{}", self.tuned_profiles.number(name.as_bytes()))
    }

    /// Returns the number that replaces the name of a section in a TuneD profile.
    pub(super) fn tuned_section(&mut self, name: &[u8]) -> usize {
        self.tuned_sections.number(name)
    }

    /// Returns the alias of a user id. Root is kept; other users are numbered from 1001.
    pub(super) fn user(&mut self, uid: &[u8]) -> usize {
        if uid == b"0" { 0 } else { 1000 + self.users.number(uid) }
    }
}

impl Rename for Names {
    fn program(&mut self, name: &[u8]) -> Vec<u8> {
        Self::program(self, name).into_bytes()
    }

    fn group(&mut self, path: &[u8]) -> Vec<u8> {
        self.redact_group_path(path).into_bytes()
    }

    fn user(&mut self, uid: u32) -> u32 {
        u32::try_from(Self::user(self, uid.to_string().as_bytes())).unwrap_or(u32::MAX)
    }

    fn boot(&self, id: &[u8]) -> String {
        Self::boot(self, id)
    }
}

/// Returns the container engine that created a cgroup with this name; `None` if it was not a known
/// engine.
fn engine(name: &[u8]) -> Option<&'static str> {
    let made = |engine: &&&str| {
        let rest = name.strip_prefix(engine.as_bytes());
        rest.is_some_and(|rest| rest.starts_with(b"-") || rest.starts_with(b"."))
    };
    ENGINES.iter().find(made).copied()
}

fn is_known_program(name: &str) -> bool {
    PROGRAMS.contains(&name)
        || ["kswapd", "kcompactd", "kdamond."].iter().any(|thread| digits_after(name, thread))
}

fn is_known_group(name: &str) -> bool {
    let service = name.strip_suffix(".service");
    GROUPS.contains(&name)
        || DEVICE_UNITS.contains(&name)
        || service.is_some_and(|name| PROGRAMS.contains(&name))
}

/// Returns the version digits of a kernel release: `6.18.44` for `6.18.44-fc-v657`. The mark of a
/// WSL kernel is kept, because it identifies a container.
fn version_digits(release: &[u8]) -> String {
    let digits = release.iter().take_while(|&&byte| byte.is_ascii_digit() || byte == b'.');
    let version: String = digits.map(|&byte| char::from(byte)).collect();
    let wsl = release.windows(3).any(|part| part == b"WSL");
    format!("{}{}", version.trim_end_matches('.'), if wsl { "-WSL" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::from_tape(&Tape { page_size: None, ends: Vec::new() })
    }

    #[test]
    fn the_same_name_has_the_same_alias_and_known_ones_stay() {
        let mut names = names();
        assert_eq!(names.program(b"payroll"), "proc-1");
        assert_eq!(names.program(b"bank"), "proc-2");
        assert_eq!(names.program(b"payroll"), "proc-1");
        assert_eq!(names.program(b"redis-server"), "redis-server");
        assert_eq!(names.program(b"kswapd0"), "kswapd0");
        assert_eq!(names.program(b"kswapd-of-bob"), "proc-3");
        assert_eq!(names.program(b"kworker/bob"), "kworker");
    }

    #[test]
    fn groups_keep_their_kind() {
        let mut names = names();
        assert_eq!(names.group(b"system.slice"), "system.slice");
        assert_eq!(names.group(b"postgres.service"), "postgres.service");
        assert_eq!(names.group(b"payroll.service"), "cg-1.service");
        assert_eq!(names.group(b"bob"), "cg-2");
        assert_eq!(names.group(b"docker-0123.scope"), "docker-cg-3.scope");
        assert_eq!(names.group(b"dockerbob"), "cg-4");
    }

    #[test]
    fn on_this_machine_names_stay_if_they_are_printable() {
        let tape = Tape { page_size: None, ends: Vec::new() };
        let mut names = Names::of_this_machine(&tape);
        assert_eq!(names.program(b"payroll"), "payroll");
        assert_eq!(names.group(b"payroll.service"), "payroll.service");
        assert_eq!(names.settings_file("10-bank.conf", ".conf"), "10-bank.conf");
        assert_eq!(names.host(b"web-07\n"), "web-07");
        assert_eq!(names.program(b"a\nb"), "proc-1");
        assert_eq!(names.program(b"\xff"), "proc-2");
        assert_eq!(names.group(b"\x1b[2J"), "cg-1");
    }

    #[test]
    fn only_version_digits_stay_of_a_release() {
        assert_eq!(version_digits(b"6.18.44-fc-v657"), "6.18.44");
        assert_eq!(version_digits(b"6.1.0-rc3"), "6.1.0");
        assert_eq!(version_digits(b"6.6.87.2-microsoft-standard-WSL2"), "6.6.87.2-WSL");
        assert_eq!(version_digits(b"secret"), "");
    }

    #[test]
    fn hashes_of_two_captures_do_not_match() {
        let (one, other) = (names(), names());
        assert_eq!(one.host(b"web-07\n"), one.host(b"web-07"));
        assert_ne!(one.host(b"web-07"), other.host(b"web-07"));
        assert_ne!(one.boot(b"id"), other.boot(b"id"));
    }
}
