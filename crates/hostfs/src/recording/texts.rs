// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the files of a host that are inside of other texts of a collection ([`find_contained`]):
//!
//! - A supportconfig writes the output of many commands into a few files. Each part begins with
//!   `#==[ Command ]===#` and a line `# /bin/cat /proc/meminfo`.
//! - `sysctl -a` prints the files below `/proc/sys` as `vm.swappiness = 60`. An sosreport has it, and
//!   not these files.
//! - Somebody may have copied files of `/proc` side by side into one folder: `meminfo.txt`.
//!
//! A file that was copied as it is has precedence over the same file inside of a text.

use pagewise_model::text::lines;

use super::collected::is_kept;
use super::limits::refused_path;
use crate::answer::{Entry, Files};

/// How many files are taken from texts.
const MAX_FILES: usize = 4096;
/// How many bytes are taken from texts.
const MAX_BYTES: usize = 32 << 20;

/// Files of `/proc` that people copy under the name they have there.
const OF_PROC: [&str; 15] = [
    "meminfo",
    "vmstat",
    "zoneinfo",
    "buddyinfo",
    "pagetypeinfo",
    "slabinfo",
    "swaps",
    "cmdline",
    "cpuinfo",
    "loadavg",
    "uptime",
    "stat",
    "filesystems",
    "diskstats",
    "modules",
];

/// Names of the files that hold what `sysctl -a` printed.
const SYSCTL: [&str; 5] =
    ["sos_commands/kernel/sysctl_-a", "sysctl", "sysctl-a", "sysctl_-a", "sysctl_a"];

/// Whether a path is that of a file that [`find_contained`] looks into.
pub(super) fn may_contain(path: &str) -> bool {
    let stem = stem(path);
    let is_named = SYSCTL.contains(&stem) || proc_path(stem).is_some() || path.ends_with(".txt");
    SYSCTL.contains(&path) || (!path.contains('/') && is_named)
}

/// The files of a host that these texts contain, by their paths on the host. The texts are files at
/// the top of a collection, and those that [`may_contain`] accepts.
pub(super) fn find_contained<'t>(texts: impl IntoIterator<Item = (&'t str, &'t [u8])>) -> Files {
    let mut found = Found::default();
    for (path, bytes) in texts {
        let stem = stem(path);
        if SYSCTL.contains(&path) || SYSCTL.contains(&stem) {
            found.add_sysctl(bytes);
        } else if let Some(name) = proc_path(stem) {
            found.add(&format!("proc/{name}"), bytes.to_vec());
        } else if path.ends_with(".txt") {
            found.add_sections(bytes);
        }
    }
    found.files
}

/// The name of a file without `.txt` and `proc_`.
fn stem(name: &str) -> &str {
    let name = name.strip_suffix(".txt").or_else(|| name.strip_suffix(".out")).unwrap_or(name);
    let begins = ["cat_", "cat-", "proc_", "proc-"];
    begins.iter().fold(name, |name, begin| name.strip_prefix(begin).unwrap_or(name))
}

/// The path below `/proc` of a file with this name.
fn proc_path(stem: &str) -> Option<String> {
    let pressure = ["pressure_", "pressure-", "psi_", "psi-"];
    let resource = pressure.iter().find_map(|begin| stem.strip_prefix(begin));
    if let Some(resource) = resource.filter(|it| matches!(*it, "memory" | "io" | "cpu")) {
        return Some(format!("pressure/{resource}"));
    }
    OF_PROC.contains(&stem).then(|| stem.to_owned())
}

#[derive(Default)]
struct Found {
    files: Files,
    bytes: usize,
}

impl Found {
    fn add(&mut self, path: &str, bytes: Vec<u8>) {
        let is_wanted = is_kept(path) && path.contains('/') && refused_path(path).is_none();
        let fits = self.files.len() < MAX_FILES && self.bytes + bytes.len() <= MAX_BYTES;
        if is_wanted && fits && !bytes.trim_ascii().is_empty() && !self.files.contains_key(path) {
            self.bytes += bytes.len();
            self.files.insert(path.to_owned(), Entry::File(bytes));
        }
    }

    /// Adds what `sysctl -a` printed: a line for each file below `/proc/sys`.
    fn add_sysctl(&mut self, text: &[u8]) {
        for line in lines(text) {
            let Some((key, value)) =
                std::str::from_utf8(line).ok().and_then(|it| it.split_once(" ="))
            else {
                continue;
            };
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
            let key = key.trim();
            if key.contains('.') && key.bytes().all(is_plain) {
                let name: String = key.chars().map(exchange_separator).collect();
                self.add(&format!("proc/sys/{name}"), format!("{}\n", value.trim()).into_bytes());
            }
        }
    }

    /// Adds the files in the sections of a supportconfig's text.
    fn add_sections(&mut self, text: &[u8]) {
        let mut section: Option<(Vec<u8>, Vec<u8>)> = None;
        let mut is_header = false;
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            if line.starts_with(b"#==[") {
                self.add_section(section.take());
                is_header = true;
            } else if is_header {
                is_header = false;
                section = line.strip_prefix(b"# ").map(|named| (named.to_vec(), Vec::new()));
            } else if let Some((_, bytes)) = &mut section {
                bytes.extend_from_slice(line);
            }
        }
        self.add_section(section);
    }

    fn add_section(&mut self, section: Option<(Vec<u8>, Vec<u8>)>) {
        let Some((named, mut bytes)) = section else { return };
        let Ok(named) = std::str::from_utf8(&named) else { return };
        // an empty line is before the next section
        if bytes.ends_with(b"\n\n") {
            bytes.pop();
        }
        let words: Vec<&str> = named.split_whitespace().collect();
        let is_command =
            |name: &str| words.first().is_some_and(|first| first.rsplit('/').next() == Some(name));
        match words.as_slice() {
            [_] if is_command("date") => {
                self.files.entry("date".to_owned()).or_insert(Entry::File(bytes));
            }
            [_, path] if is_command("cat") => self.add(path.trim_start_matches('/'), bytes),
            [path] if path.starts_with('/') => self.add(path.trim_start_matches('/'), bytes),
            [_, "-a"] if is_command("sysctl") => self.add_sysctl(&bytes),
            [_, "-a"] if is_command("uname") => self.add_uname(&bytes),
            _ => {}
        }
    }

    /// Adds the host's name and the kernel's release, as `uname -a` prints them.
    fn add_uname(&mut self, line: &[u8]) {
        let mut words = std::str::from_utf8(line).unwrap_or_default().split_whitespace();
        if let (Some("Linux"), Some(host), Some(release)) =
            (words.next(), words.next(), words.next())
        {
            self.add("proc/sys/kernel/hostname", format!("{host}\n").into_bytes());
            self.add("proc/sys/kernel/osrelease", format!("{release}\n").into_bytes());
        }
    }
}

/// `sysctl` writes a `/` of the path as `.`, and a `.` as `/`.
fn exchange_separator(c: char) -> char {
    match c {
        '.' => '/',
        '/' => '.',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(texts: &[(&str, &str)]) -> Vec<(String, String)> {
        let texts = texts.iter().map(|(path, text)| (*path, text.as_bytes()));
        let text = |(path, entry)| match entry {
            Entry::File(bytes) => (path, String::from_utf8(bytes).unwrap()),
            Entry::Refused(refusal) => panic!("{path}: {refusal:?}"),
        };
        find_contained(texts).into_iter().map(text).collect()
    }

    fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn sections_of_a_supportconfig_are_files() {
        let text = "=====\nSupportconfig\n\n#==[ Command ]====#\n# /bin/cat /proc/meminfo\n\
                    MemTotal: 1 kB\nMemFree: 2 kB\n\n#==[ Command ]====#\n# /bin/uname -a\n\
                    Linux box 5.14.21-1 #1 SMP x86_64\n\n#==[ Configuration File ]===#\n\
                    # /etc/sysctl.conf\nvm.swappiness=1\n\n#==[ Verification ]===#\n# rpm -V x\nok\n\
                    #==[ Command ]====#\n# /sbin/sysctl -a\nvm.swappiness = 60\n\
                    net.ipv4.conf.eth0/1.x = 2\nkernel.threads-max = 3\nsysctl: permission denied\n\
                    #==[ Configuration File ]===#\n# /root/secret\nx\n#==[ Command ]====#\n# /bin/date\nFri Nov 27\n#==[ Command ]====#\n\
                    # /bin/cat /proc/../etc/shadow\ny\n";
        assert_eq!(
            found(&[("memory.txt", text)]),
            pairs(&[
                ("date", "Fri Nov 27\n"),
                ("etc/sysctl.conf", "vm.swappiness=1\n"),
                ("proc/meminfo", "MemTotal: 1 kB\nMemFree: 2 kB\n"),
                ("proc/sys/kernel/hostname", "box\n"),
                ("proc/sys/kernel/osrelease", "5.14.21-1\n"),
                ("proc/sys/kernel/threads-max", "3\n"),
                ("proc/sys/net/ipv4/conf/eth0.1/x", "2\n"),
                ("proc/sys/vm/swappiness", "60\n"),
            ])
        );
    }

    #[test]
    fn files_side_by_side_have_their_places_in_proc() {
        let files = [
            ("meminfo.txt", "a\n"),
            ("proc_vmstat", "b\n"),
            ("cat_proc_zoneinfo.out", "c\n"),
            ("pressure-memory", "d\n"),
            ("sysctl.txt", "vm.page-cluster = 0\n"),
            ("notes.txt", "meminfo\n"),
            ("holiday.jpg", "x"),
        ];
        assert_eq!(
            found(&files),
            pairs(&[
                ("proc/meminfo", "a\n"),
                ("proc/pressure/memory", "d\n"),
                ("proc/sys/vm/page-cluster", "0\n"),
                ("proc/vmstat", "b\n"),
                ("proc/zoneinfo", "c\n"),
            ])
        );
    }

    #[test]
    fn no_text_makes_more_than_the_limits() {
        let many: String = (0..2 * MAX_FILES).map(|at| format!("vm.x{at} = 1\n")).collect();
        assert_eq!(found(&[("sysctl", &many)]).len(), MAX_FILES);
    }
}
