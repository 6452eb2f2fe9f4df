// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Formats numbers, names and commands for sentences.

/// The comment after a command that changes the machine.
const WRITES: &str = "# writes";

/// The text before the command that undoes a change; nothing follows that command.
const UNDO: &str = "undo with ";

use pagewise_facts::swap_disk::SwapDisk;
use pagewise_model::{Bytes, Target};
pub(crate) use pagewise_model::{group_digits as count, quote_for_shell as quoted};

/// Formats a number with its noun in singular or plural: `1 page`, `2 pages`.
pub(crate) fn count_of(number: u64, one: &str) -> String {
    format!("{} {one}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Formats a process as name and id; the beginning of a long name is cut off.
pub(crate) fn process(name: &str, pid: u32) -> String {
    format!("{} (pid {pid})", shorten_name(name))
}

/// Describes a slow swap disk with its mean latency: `the swap device sda, which answers in 40 ms`.
pub(crate) fn swap_disk(disk: &SwapDisk<'_>) -> String {
    let answers = match disk.latency_ms {
        Some(latency) => format!("answers in {latency:.0} ms"),
        None => "does not answer".to_owned(),
    };
    format!("the swap device {}, which {answers}", shorten_name(disk.name.as_str()))
}

/// Formats a rounded duration in its largest unit: `40 seconds`, `7 minutes`.
pub(crate) fn format_roughly(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 10.0 => "10 seconds".to_owned(),
        seconds if seconds < 90.0 => format!("{seconds:.0} seconds"),
        seconds if seconds < 5400.0 => format!("{:.0} minutes", seconds / 60.0),
        seconds => format!("{:.0} hours", seconds / 3600.0),
    }
}

/// Formats a rate in bytes per second.
pub(crate) fn rate(per_second: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let bytes = Bytes::new(per_second.max(0.0) as u64);
    format!("{bytes}/s")
}

/// Formats the name of a setting for a sentence: `vm.swappiness`, `disksize of zram0`.
pub(crate) fn setting(target: &Target) -> String {
    match target {
        Target::Knob { knob, instance: Some(instance) } => match knob.strip_prefix("zram.") {
            Some(file) => format!("{file} of zram{instance}"),
            None => format!("{knob} of {instance}"),
        },
        _ => target.to_string(),
    }
}

/// Shortens a name so that a title fits into 80 columns. The end is kept, because the end of a path
/// is more useful than its beginning.
pub(crate) fn shorten_name(name: &str) -> String {
    const SHOWN: usize = 24;
    let length = name.chars().count();
    if length <= SHOWN {
        return name.to_owned();
    }
    let tail: String = name.chars().skip(length - SHOWN + 1).collect();
    format!("…{tail}")
}

/// Shortens a title to 80 columns by cutting off its end.
pub(crate) fn shorten_title(title: String) -> String {
    const COLUMNS: usize = 80;
    if title.chars().count() <= COLUMNS {
        return title;
    }
    let kept: String = title.chars().take(COLUMNS - 1).collect();
    format!("{kept}…")
}

/// Shortens the path of a cgroup for a title: the last components that fit.
pub(crate) fn shorten_group(path: &str) -> String {
    const SHOWN: usize = 28;
    if path.chars().count() <= SHOWN {
        return path.to_owned();
    }
    let cuts = path.match_indices('/').map(|(at, _)| at);
    let fits = cuts.skip(1).map(|at| &path[at + 1..]).find(|rest| rest.chars().count() < SHOWN);
    match fits.filter(|rest| !rest.is_empty()) {
        Some(rest) => format!("…/{rest}"),
        None => shorten_name(path),
    }
}

/// Formats a command that changes the machine until the next boot. The result can be pasted,
/// because the remark is a shell comment.
pub(crate) fn mark_writing(command: impl std::fmt::Display) -> String {
    mark_writing_with_caution(command, "until the next boot")
}

/// Formats a command that changes the machine until the next boot, with a caution in the shell
/// comment.
pub(crate) fn mark_writing_with_caution(command: impl std::fmt::Display, caution: &str) -> String {
    format!("{command}  {WRITES}; {caution}")
}

/// Formats a command that changes the machine, with a remark and the complete command that undoes
/// the change in the shell comment.
pub(crate) fn mark_writing_with_undo(
    command: impl std::fmt::Display,
    caution: &str,
    undo: &str,
) -> String {
    mark_writing_with_caution(command, &format!("{caution}; {UNDO}{undo}"))
}

/// Formats a command that writes a value to a kernel file.
pub(crate) fn write_command(value: impl std::fmt::Display, path: &str) -> String {
    mark_writing(write_file(value, path))
}

/// Formats a command that writes a value to a kernel file, with the command that restores the value
/// `before`.
pub(crate) fn write_command_with_undo(
    value: impl std::fmt::Display,
    before: impl std::fmt::Display,
    path: &str,
    caution: &str,
) -> String {
    mark_writing_with_undo(write_file(value, path), caution, &write_file(before, path))
}

fn write_file(value: impl std::fmt::Display, path: &str) -> String {
    format!("echo {value} | sudo tee {}", quoted(path))
}

/// Formats a command that triggers a single action of the kernel.
pub(crate) fn trigger_command(value: impl std::fmt::Display, path: &str) -> String {
    mark_writing_with_caution(
        format!("echo {value} | sudo tee {}", quoted(path)),
        "once; nothing to undo",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        let shown: Vec<String> = [0, 999, 1000, 78_112, 1_234_567].map(count).into();
        assert_eq!(shown, ["0", "999", "1,000", "78,112", "1,234,567"]);
        assert_eq!(count_of(1, "page"), "1 page");
    }

    #[test]
    fn a_group_is_named_by_its_last_parts() {
        assert_eq!(shorten_group("/system.slice/db.service"), "/system.slice/db.service");
        let pod = "/kubepods.slice/kubepods-burstable.slice/pod-7f/container-1";
        assert_eq!(shorten_group(pod), "…/pod-7f/container-1");
        let hash = format!("/docker/{}", "a1b2".repeat(16));
        assert_eq!(shorten_group(&hash), shorten_name(&hash));
    }

    #[test]
    fn long_names_keep_their_end() {
        assert_eq!(shorten_name("/swapfile"), "/swapfile");
        let long = shorten_name("/system.slice/a-service-with-a-long-name.service");
        assert_eq!(long, "…ith-a-long-name.service");
        assert_eq!(long.chars().count(), 24);
    }
}
