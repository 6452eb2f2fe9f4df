// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Redacts the files of processes: replaces names of programs, users and cgroups by aliases.

use super::files::redact_lines;
use super::names::Names;
use super::words::is_number;
use pagewise_hostfs::text::{split_three, unescape_name, words};

/// Keys of the lines of `/proc/PID/status` that are kept: ids, and numbers about memory.
const STATUS: &[&[u8]] = &[
    b"State",
    b"Tgid",
    b"Pid",
    b"PPid",
    b"Kthread",
    b"Threads",
    b"VmPeak",
    b"VmSize",
    b"VmLck",
    b"VmPin",
    b"VmHWM",
    b"VmRSS",
    b"RssAnon",
    b"RssFile",
    b"RssShmem",
    b"VmData",
    b"VmStk",
    b"VmExe",
    b"VmLib",
    b"VmPTE",
    b"VmSwap",
    b"HugetlbPages",
    b"THP_enabled",
];

/// Keys of the lines of `/proc/PID/smaps_rollup` that are kept.
#[rustfmt::skip]
const ROLLUP: &[&[u8]] = &[
    b"Rss:", b"Pss:", b"Pss_Dirty:", b"Pss_Anon:", b"Pss_File:", b"Pss_Shmem:", b"Shared_Clean:",
    b"Shared_Dirty:", b"Private_Clean:", b"Private_Dirty:", b"Referenced:", b"Anonymous:", b"KSM:",
    b"LazyFree:", b"AnonHugePages:", b"ShmemPmdMapped:", b"FilePmdMapped:", b"Shared_Hugetlb:",
    b"Private_Hugetlb:", b"Swap:", b"SwapPss:", b"Locked:",
];

impl Names {
    /// Replaces the names in a cgroup's path by aliases, folder by folder.
    pub(super) fn redact_group_path(&mut self, path: &[u8]) -> String {
        let (path, deleted) = match path.strip_suffix(b" (deleted)") {
            Some(path) => (path, " (deleted)"),
            None => (path, ""),
        };
        let parts: Vec<String> =
            path.split(|&byte| byte == b'/').map(|part| self.group(part)).collect();
        format!("{}{deleted}", parts.join("/"))
    }
}

/// Redacts `/proc/PID/status`: keeps only the lines in [`STATUS`].
pub(super) fn redact_status(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    // each process has sixty lines, every few seconds, so a kept line is copied only once
    let mut kept = Vec::with_capacity(bytes.len() / 2);
    for (at, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        if at > 0 {
            kept.push(b'\n');
        }
        push_status_line(names, line, &mut kept);
    }
    kept.shrink_to_fit();
    Some(kept)
}

fn push_status_line(names: &mut Names, line: &[u8], kept: &mut Vec<u8>) {
    let Some(at) = line.iter().position(|&byte| byte == b':') else { return };
    let (field, value) = (&line[..at], line[at + 1..].trim_ascii());
    match field {
        b"Name" => {
            kept.extend_from_slice(b"Name:\t");
            kept.extend_from_slice(names.program(&unescape_name(value)).as_bytes());
        }
        b"Uid" => {
            let users: Vec<String> = words(value).map(|uid| names.user(uid).to_string()).collect();
            kept.extend_from_slice(format!("Uid:\t{}", users.join("\t")).as_bytes());
        }
        field if STATUS.contains(&field) && is_state(value) => kept.extend_from_slice(line),
        _ => {}
    }
}

/// Whether a value has a form that cannot contain a name: `1234 kB`, `7`, `S (sleeping)`.
fn is_state(value: &[u8]) -> bool {
    value.len() <= 40
        && words(value).all(|word| {
            is_number(word)
                || matches!(word, b"kB" | b"R" | b"S" | b"D" | b"T" | b"t" | b"Z" | b"X" | b"I")
                || (word.starts_with(b"(") && word.ends_with(b")"))
        })
}

/// Redacts `/proc/PID/comm`: keeps the name of a widely used program, and replaces any other name.
pub(super) fn redact_comm(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    let name = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    Some(format!("{}\n", names.program(name)).into_bytes())
}

/// Redacts `/proc/PID/stat`: replaces the name by its alias, and keeps the fields before the first
/// address.
pub(super) fn redact_stat(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    /// Number of fields after the name in `/proc/PID/stat` before the first address: fields 3 to
    /// 24.
    const KEPT: usize = 22;
    let open = bytes.iter().position(|&byte| byte == b'(')?;
    let close = bytes.iter().rposition(|&byte| byte == b')')?;
    let name = bytes.get(open + 1..close)?;
    let pid = words(bytes.get(..open)?).next().filter(|pid| is_number(pid))?;
    let program = names.program(name);
    let mut kept = Vec::with_capacity(bytes.len());
    kept.extend_from_slice(pid);
    kept.extend_from_slice(b" (");
    kept.extend_from_slice(program.as_bytes());
    kept.extend_from_slice(b")");
    for (index, field) in words(&bytes[close + 1..]).enumerate() {
        let is_kept = index < KEPT && (index == 0 && field.len() == 1 || is_number(field));
        kept.push(b' ');
        kept.extend_from_slice(if is_kept { field } else { b"0" });
    }
    kept.push(b'\n');
    kept.shrink_to_fit();
    Some(kept)
}

/// Redacts `/proc/PID/cgroup`, whose lines look like `4:memory:/path`.
pub(super) fn redact_cgroup_file(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    redact_lines(bytes, |line| {
        let [id, controllers, path] = split_three(line)?;
        let known = controllers.split(|&byte| byte == b',').all(|one| {
            one.is_empty()
                || one == b"name=systemd"
                || super::words::CONTROLLERS.iter().any(|known| known.as_bytes() == one)
        });
        let path = names.redact_group_path(path);
        (known && is_number(id)).then(|| [id, controllers, path.as_bytes()].join(&b':'))
    })
}

/// Redacts `/proc/PID/smaps_rollup`: keeps the sizes, and drops the first line, which contains
/// addresses.
pub(super) fn redact_smaps_rollup(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    const HEAD: &[u8] = b"00000000-00000000 ---p 00000000 00:00 0 [rollup]";
    redact_lines(bytes, |line| {
        if line.ends_with(b"[rollup]") {
            return Some(HEAD.to_vec());
        }
        let mut words = words(line);
        let name = words.next()?;
        let size = is_number(words.next()?) && words.next() == Some(b"kB");
        (size && ROLLUP.contains(&name)).then(|| line.to_vec())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_observe::Tape;

    fn kept(by: fn(&mut Names, &[u8]) -> Option<Vec<u8>>, text: &str) -> String {
        let mut names = Names::from_tape(&Tape { page_size: None, ends: Vec::new() });
        String::from_utf8(by(&mut names, text.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn a_status_keeps_sizes_and_loses_names() {
        let text = "Name:\tbob\\\\s\nUmask:\t0022\nUid:\t1000\t1000\t0\t0\nVmRSS:\t 12 kB\nState:\tS (sleeping)\n";
        let expected =
            "Name:\tproc-1\n\nUid:\t1001\t1001\t0\t0\nVmRSS:\t 12 kB\nState:\tS (sleeping)\n";
        assert_eq!(kept(redact_status, text), expected);
    }

    #[test]
    fn a_stat_loses_name_and_addresses() {
        let fields: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let text = format!("7 (a) (b) S {}\n", fields.join(" "));
        let kept = kept(redact_stat, &text);
        assert!(kept.starts_with("7 (proc-1) S 4 5 6 "), "{kept}");
        assert!(kept.contains(" 23 24 0 0 "), "{kept}");
        assert_eq!(kept.split(' ').count(), 52);
    }

    #[test]
    fn a_cgroup_path_loses_its_names() {
        let text =
            "9:name=systemd:/\n4:memory:/bob/app.service\n3:bob:/\n0::/system.slice (deleted)\n";
        let expected =
            "9:name=systemd:/\n4:memory:/cg-1/cg-2.service\n\n0::/system.slice (deleted)\n";
        assert_eq!(kept(redact_cgroup_file, text), expected);
    }

    #[test]
    fn a_rollup_loses_its_addresses() {
        let text = "5566-7ffd ---p 00000000 00:00 0    [rollup]\nRss:   12 kB\nSecret: bob\n";
        let kept = kept(redact_smaps_rollup, text);
        assert_eq!(kept, "00000000-00000000 ---p 00000000 00:00 0 [rollup]\nRss:   12 kB\n\n");
    }
}
