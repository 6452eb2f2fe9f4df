// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sets a knob of the knob table to a temporary value, and restores the old one.
//!
//! The journal stores the value as the kernel will print it (`Y` if `1` was requested, the one word
//! in brackets), so that a later value written by somebody else is recognised. If the kernel stores
//! another value than requested, the old one is restored at once.

use std::io::ErrorKind;

use pagewise_model::knob::{Access, Domain, KNOBS, Knob, Undo};

use crate::error::{Doing, Error};
use crate::host_ops::{HostChange, HostOps};
use crate::journal::{OpenChange, SettingChange, Write};
use pagewise_model::undo::Outcome;

/// The record of a change of a knob for the journal, made before the value is written.
pub(crate) fn new_change(
    host: &dyn HostOps,
    name: &str,
    instance: Option<&str>,
    value: &str,
) -> Result<SettingChange, Error> {
    let knob = lendable_knob(name)?;
    let path = path_of(knob, instance)?;
    let text = read(host, &path)?;
    let old = active_value(knob.domain, &text);
    let ours = spell(knob, &text, value)?;
    let back = restoring_write(host, knob, instance, &path, &old)?;
    Ok(SettingChange { name: name.to_owned(), path, old, ours, back })
}

fn lendable_knob(name: &str) -> Result<&'static Knob, Error> {
    let knob = KNOBS.iter().find(|knob| knob.name == name);
    let knob = knob.ok_or_else(|| Error::NoKnob(name.to_owned()))?;
    let why = match (knob.access, knob.undo) {
        (_, Undo::Never { because }) => because,
        (Access::ReadWrite, Undo::WriteBack | Undo::WriteBackNonZero { .. }) => return Ok(knob),
        _ => "its file does not tell its value",
    };
    Err(Error::NotLent { name: name.to_owned(), why: why.to_owned() })
}

/// Checks that a word only makes the kernel refresh what it reports.
pub(crate) fn check_refresh_word(name: &str, word: &str) -> Result<(), Error> {
    let Domain::Word { words } = lendable_knob(name)?.domain else {
        return Err(Error::NoKnob(name.to_owned()));
    };
    if words.contains(&word) && word.starts_with("update_") {
        return Ok(());
    }
    let expected = "a word that only refreshes what is shown".to_owned();
    Err(Error::Value { name: name.to_owned(), expected, found: word.to_owned() })
}

/// The path of the knob's file, with its placeholders replaced by the parts of `instance` (such as
/// `2048kB`, or `0/64kB`).
fn path_of(knob: &Knob, instance: Option<&str>) -> Result<String, Error> {
    let holes = knob.path.matches('{').count();
    let parts: Vec<&str> = instance.map(|it| it.split('/').collect()).unwrap_or_default();
    let is_plain = parts.iter().all(|part| is_plain(part));
    if knob.path.contains("{cgroup}") || holes != parts.len() || !is_plain {
        return Err(Error::Value {
            name: knob.name.to_owned(),
            expected: format!("what stands in its path, /{}", knob.path),
            found: instance.unwrap_or_default().to_owned(),
        });
    }
    let mut path = format!("/{}", knob.path);
    for part in parts {
        if let (Some(from), Some(to)) = (path.find('{'), path.find('}')) {
            path.replace_range(from..=to, part);
        }
    }
    Ok(path)
}

/// Whether the knob table gives this path to the knob of this name: a journal may only name paths
/// of the table.
fn is_in_table(name: &str, path: &str) -> bool {
    lendable_knob(name).is_ok_and(|knob| is_file_of(knob, path))
}

fn is_of_table(path: &str) -> bool {
    KNOBS.iter().any(|knob| lendable_knob(knob.name).is_ok() && is_file_of(knob, path))
}

fn is_file_of(knob: &Knob, path: &str) -> bool {
    let Some(path) = path.strip_prefix('/') else { return false };
    let parts = knob.path.split('/').zip(path.split('/'));
    let same = |(pattern, part): (&str, &str)| match pattern.split_once('{') {
        Some((before, _)) => part.strip_prefix(before).is_some_and(is_plain),
        None => pattern == part,
    };
    knob.path.split('/').count() == path.split('/').count() && parts.into_iter().all(same)
}

/// Whether a part of an instance may replace a placeholder in a path: it must not lead out of its
/// folder.
fn is_plain(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn read(host: &dyn HostOps, path: &str) -> Result<String, Error> {
    match host.read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Error::Absent { what: path.to_owned(), why: "this kernel has no such file" })
        }
        text => text.doing(|| path.to_owned()),
    }
}

/// The value that the text of a knob's file means, in the form in which values are compared: the
/// word in brackets, white space folded.
fn active_value(domain: Domain, text: &str) -> String {
    let bracketed = || text.split_once('[')?.1.split_once(']').map(|(word, _)| word.to_owned());
    let folded = || text.split_whitespace().collect::<Vec<_>>().join(" ");
    match domain {
        Domain::Word { .. } | Domain::Listed => bracketed().unwrap_or_else(folded),
        _ => folded(),
    }
}

/// A value in the spelling in which the kernel prints it after the write.
fn spell(knob: &Knob, text: &str, value: &str) -> Result<String, Error> {
    let value = value.trim();
    let (spelled, expected) = match knob.domain {
        Domain::Int { min, max } => (spell_whole(value, min, max), format!("{min} to {max}")),
        Domain::Bits { all } => (spell_bits(value, all), format!("bits of {all:#x}")),
        Domain::Bool => (spell_flag(text, value), "0 or 1".to_owned()),
        Domain::Size => (spell_whole(value, 0, u64::MAX), "a size in bytes".to_owned()),
        Domain::Limit if value == "max" => (Some(value.to_owned()), String::new()),
        Domain::Limit => (spell_whole(value, 0, u64::MAX), "a size in bytes, or max".to_owned()),
        Domain::Word { words } => (find_word(words.iter().copied(), value), words.join(", ")),
        Domain::Listed => {
            let words = text.split_whitespace().map(|word| word.trim_matches(['[', ']']));
            (find_word(words, value), format!("one of {text}"))
        }
        Domain::Ints => (spell_numbers(value), "whole numbers".to_owned()),
        Domain::Text => (Some(value.to_owned()), String::new()),
        Domain::Trigger => (None, "nothing: it only acts".to_owned()),
    };
    let wrong = || Error::Value { name: knob.name.to_owned(), expected, found: value.to_owned() };
    spelled.ok_or_else(wrong)
}

fn spell_whole(value: &str, min: i64, max: u64) -> Option<String> {
    let number: i128 = value.parse().ok()?;
    (i128::from(min)..=i128::from(max)).contains(&number).then(|| number.to_string())
}

fn spell_bits(value: &str, all: u64) -> Option<String> {
    let number = match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => value.parse().ok()?,
    };
    (number & !all == 0).then(|| format!("{number:#06x}"))
}

fn spell_flag(text: &str, value: &str) -> Option<String> {
    let on = match value {
        "1" | "Y" | "y" | "true" => true,
        "0" | "N" | "n" | "false" => false,
        _ => return None,
    };
    let spelling = match text {
        "Y" | "N" => ["N", "Y"],
        "true" | "false" => ["false", "true"],
        _ => ["0", "1"],
    };
    Some(spelling[usize::from(on)].to_owned())
}

fn find_word<'a>(mut words: impl Iterator<Item = &'a str>, value: &str) -> Option<String> {
    words.find(|word| *word == value).map(str::to_owned)
}

fn spell_numbers(value: &str) -> Option<String> {
    let words: Vec<&str> = value.split_whitespace().collect();
    let all = words.iter().all(|word| word.parse::<i64>().is_ok());
    (all && !words.is_empty()).then(|| words.join(" "))
}

/// The write that restores the old value of a knob: of two knobs that exclude each other, the one
/// that was active is written.
fn restoring_write(
    host: &dyn HostOps,
    knob: &Knob,
    instance: Option<&str>,
    path: &str,
    old: &str,
) -> Result<Write, Error> {
    let own = Write { path: path.to_owned(), value: old.to_owned() };
    let Undo::WriteBackNonZero { pair } = knob.undo else { return Ok(own) };
    if old != "0" {
        return Ok(own);
    }
    let pair = lendable_knob(pair)?;
    let path = path_of(pair, instance)?;
    let value = active_value(pair.domain, &read(host, &path)?);
    // if both knobs are 0, only the one that accepts 0 can be active
    let takes = |knob: &Knob, value: &str| spell(knob, value, value).is_ok();
    let rules = value != "0" || !takes(knob, old);
    Ok(if rules { Write { path, value } } else { own })
}

/// Writes the new value of a setting, and restores the old value if the kernel stores another one.
pub(crate) fn set(host: &mut dyn HostOps, change: &SettingChange) -> Result<(), Error> {
    let SettingChange { name, path, old, ours, back } = change;
    if old == ours {
        return Ok(());
    }
    host.make_change(&HostChange::Write { path, value: ours })
        .doing(|| format!("{name} = {ours}"))?;
    let found = read_current(host, path, ours)?;
    if found == *ours {
        return Ok(());
    }
    restore_value(host, back)?;
    Err(Error::Changed { what: name.clone(), wrote: ours.clone(), found })
}

/// The current value of the file, parsed like `like`: one word if the file lists all words.
fn read_current(host: &dyn HostOps, path: &str, like: &str) -> Result<String, Error> {
    let text = read(host, path)?;
    let is_word = !like.contains([' ', '[']);
    let domain = if is_word { Domain::Listed } else { Domain::Text };
    Ok(active_value(domain, &text))
}

/// Whether the file of a knob still has this value.
pub(crate) fn has_value(host: &dyn HostOps, path: &str, value: &str) -> Result<bool, Error> {
    read_current(host, path, value).map(|found| found == value)
}

fn restore_value(host: &mut dyn HostOps, back: &Write) -> Result<(), Error> {
    let Write { path, value } = back;
    host.make_change(&HostChange::Write { path, value }).doing(|| format!("{path} = {value}"))
}

/// Restores the old value of a knob if its file still has the value that we wrote.
pub(crate) fn undo(
    host: &mut dyn HostOps,
    change: &SettingChange,
    it: &OpenChange,
) -> Result<Outcome, Error> {
    let SettingChange { name, path, old, ours, back } = change;
    if !is_in_table(name, path) || !is_of_table(&back.path) {
        let why = "its journal names another file for it".to_owned();
        return Err(Error::NotLent { name: name.clone(), why });
    }
    let found = match read_current(host, path, old) {
        Err(Error::Absent { .. }) => return Ok(Outcome::Gone),
        found => found?,
    };
    // first check for our own value: one of two changes may have left a value that the other found
    let is_ours = found == *ours && it.conflict.is_none();
    if found == *old || !is_ours && it.origins.contains(&found) {
        return Ok(Outcome::Gone);
    }
    if !is_ours {
        return Ok(Outcome::Conflict { old: old.clone(), ours: ours.clone(), found });
    }
    restore_value(host, back)?;
    let found = read_current(host, path, old)?;
    if found == *old {
        return Ok(Outcome::Returned);
    }
    Err(Error::Changed { what: path.clone(), wrote: old.clone(), found })
}

#[cfg(test)]
mod tests;
