// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A plan as differences: files as `diff -u` prints them, settings with old and new value.
//!
//! A file gets one hunk, from its first differing line to its last. Lines are never cut, so the
//! output for a plan that writes files can be passed to `patch`.

use std::fmt::Write as _;

use pagewise_model::plan::{Change, Plan};

use super::words::priority;

/// Number of unchanged lines before and after a hunk.
const CONTEXT: usize = 3;

pub(super) fn print(plan: &Plan) -> String {
    let mut out = String::new();
    for step in &plan.steps {
        match &step.change {
            Change::SetKnob { target, from, to } => {
                line(&mut out, format_args!("# {target}: {from} → {to}"));
            }
            Change::WriteFile { target, from, to } => {
                file(&mut out, target, from.as_deref(), to);
            }
            Change::MakeLink { target, from, to } => {
                let from = from.as_deref().unwrap_or("nothing");
                line(&mut out, format_args!("# link {target}: {from} → {to}"));
            }
            Change::ReloadUnits { .. } => line(&mut out, format_args!("# systemctl daemon-reload")),
            Change::AddZramSwap { target, to } => {
                let device = target.as_deref().unwrap_or("a new zram device");
                let text = format!(
                    "# swap on {device}: nothing → {}, {}, priority {}",
                    to.disksize_bytes, to.compressor, to.priority
                );
                line(&mut out, format_args!("{text}"));
            }
            Change::AddSwapFile { target, to } => {
                let priority = priority(to.priority);
                let text = format!("# swap on {target}: nothing → {}, {priority}", to.size_bytes);
                line(&mut out, format_args!("{text}"));
            }
            Change::SetSwapPriority { target, from, to } => {
                line(&mut out, format_args!("# swap on {target}: priority {from} → {to}"));
            }
            Change::DrainSwap { target, from } => {
                let text = format!(
                    "# swap on {target}: {}, priority {} → off",
                    from.size_bytes, from.priority
                );
                line(&mut out, format_args!("{text}"));
            }
        }
    }
    out
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // writing to a String cannot fail
    let _ = writeln!(out, "{text}");
}

fn file(out: &mut String, path: &str, from: Option<&str>, to: &str) {
    let before: Vec<&str> = from.unwrap_or_default().lines().collect();
    let after: Vec<&str> = to.lines().collect();
    let name = path.trim_start_matches('/');
    match from {
        Some(_) => line(out, format_args!("--- a/{name}")),
        None => line(out, format_args!("--- /dev/null")),
    }
    line(out, format_args!("+++ b/{name}"));
    let pairs = || before.iter().zip(&after);
    let same_start = pairs().take_while(|(one, other)| one == other).count();
    let ends = before[same_start..].iter().rev().zip(after[same_start..].iter().rev());
    let same_end = ends.take_while(|(one, other)| one == other).count();
    let start = same_start.saturating_sub(CONTEXT);
    let end = |all: &[&str]| all.len() - same_end.saturating_sub(CONTEXT);
    line(out, format_args!("@@ -{} +{} @@", range(start, end(&before)), range(start, end(&after))));
    let (removed, added) = (before.len() - same_end, after.len() - same_end);
    before[start..same_start].iter().for_each(|text| line(out, format_args!(" {text}")));
    before[same_start..removed].iter().for_each(|text| line(out, format_args!("-{text}")));
    after[same_start..added].iter().for_each(|text| line(out, format_args!("+{text}")));
    after[added..end(&after)].iter().for_each(|text| line(out, format_args!(" {text}")));
}

/// A range of lines in a diff, `3,7`: the first line, counted from 1, and the number of lines;
/// `0,0` if there are none.
fn range(start: usize, end: usize) -> String {
    let first = if end == start { start } else { start + 1 };
    format!("{first},{}", end - start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(from: Option<&str>, to: &str) -> String {
        let mut out = String::new();
        file(&mut out, "/etc/x", from, to);
        out
    }

    #[test]
    fn a_new_file_is_all_added() {
        let expected = "--- /dev/null\n+++ b/etc/x\n@@ -0,0 +1,2 @@\n+a\n+b\n";
        assert_eq!(diff(None, "a\nb\n"), expected);
    }

    #[test]
    fn a_changed_file_has_one_hunk_with_context() {
        let expected =
            "--- a/etc/x\n+++ b/etc/x\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+more\n 6\n 7\n 8\n";
        assert_eq!(
            diff(Some("1\n2\n3\n4\n5\n6\n7\n8\n9\n"), "1\n2\n3\n4\nfive\nmore\n6\n7\n8\n9\n"),
            expected
        );
        let appended = "--- a/etc/x\n+++ b/etc/x\n@@ -1,1 +1,2 @@\n a\n+b\n";
        assert_eq!(diff(Some("a\n"), "a\nb\n"), appended);
    }
}
