// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The value of a knob for a while, by its row in the table.
//!
//! The journal gets the value as the file will spell it, so that what stands there later can be
//! told from what somebody else wrote: `Y` where `1` was asked for, the one word in brackets. A file
//! that makes something else of the value gets its old one back at once.

use std::io::ErrorKind;

use pagewise_model::knob::{Access, Domain, KNOBS, Knob, Undo};

use crate::error::{Doing, Error};
use crate::host_ops::{HostChange, HostOps};
use crate::journal::{Loan, Open, Write};
use pagewise_model::undo::Outcome;

/// What the journal must know before the value is written.
pub(crate) fn announced(
    hands: &dyn HostOps,
    name: &str,
    instance: Option<&str>,
    value: &str,
) -> Result<Loan, Error> {
    let knob = row(name)?;
    let path = path_of(knob, instance)?;
    let text = read(hands, &path)?;
    let old = active(knob.domain, &text);
    let ours = spelled(knob, &text, value)?;
    let back = back(hands, knob, instance, &path, &old)?;
    Ok(Loan::Setting { name: name.to_owned(), path, old, ours, back })
}

fn row(name: &str) -> Result<&'static Knob, Error> {
    let knob = KNOBS.iter().find(|knob| knob.name == name);
    let knob = knob.ok_or_else(|| Error::NoKnob(name.to_owned()))?;
    let why = match (knob.access, knob.undo) {
        (_, Undo::Never { because }) => because,
        (Access::ReadWrite, Undo::WriteBack | Undo::WriteBackNonZero { .. }) => return Ok(knob),
        _ => "its file does not tell its value",
    };
    Err(Error::NotLent { name: name.to_owned(), why: why.to_owned() })
}

/// Whether a word makes the kernel refresh what it shows, and does nothing else.
pub(crate) fn tells(name: &str, word: &str) -> Result<(), Error> {
    let Domain::Word { words } = row(name)?.domain else {
        return Err(Error::NoKnob(name.to_owned()));
    };
    if words.contains(&word) && word.starts_with("update_") {
        return Ok(());
    }
    let expected = "a word that only refreshes what is shown".to_owned();
    Err(Error::Value { name: name.to_owned(), expected, found: word.to_owned() })
}

/// The file, with the parts of `instance` (as `2048kB`, or `0/64kB`) in the places for them.
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

/// Whether this is the file of that knob: a journal is no leave to write just anywhere.
fn is_in_table(name: &str, path: &str) -> bool {
    row(name).is_ok_and(|knob| is_at(knob, path))
}

fn is_of_table(path: &str) -> bool {
    KNOBS.iter().any(|knob| row(knob.name).is_ok() && is_at(knob, path))
}

fn is_at(knob: &Knob, path: &str) -> bool {
    let Some(path) = path.strip_prefix('/') else { return false };
    let parts = knob.path.split('/').zip(path.split('/'));
    let same = |(pattern, part): (&str, &str)| match pattern.split_once('{') {
        Some((before, _)) => part.strip_prefix(before).is_some_and(is_plain),
        None => pattern == part,
    };
    knob.path.split('/').count() == path.split('/').count() && parts.into_iter().all(same)
}

/// What may stand in the place of a number or size: no part of a path leaves its folder by it.
fn is_plain(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn read(hands: &dyn HostOps, path: &str) -> Result<String, Error> {
    match hands.read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Error::Absent { what: path.to_owned(), why: "this kernel has no such file" })
        }
        text => text.doing(|| path.to_owned()),
    }
}

/// What a file says, as it is compared: the word in brackets, white space folded.
fn active(domain: Domain, text: &str) -> String {
    let bracketed = || text.split_once('[')?.1.split_once(']').map(|(word, _)| word.to_owned());
    let folded = || text.split_whitespace().collect::<Vec<_>>().join(" ");
    match domain {
        Domain::Word { .. } | Domain::Listed => bracketed().unwrap_or_else(folded),
        _ => folded(),
    }
}

/// The value as the file will spell it after the write.
fn spelled(knob: &Knob, text: &str, value: &str) -> Result<String, Error> {
    let value = value.trim();
    let (spelled, expected) = match knob.domain {
        Domain::Int { min, max } => (whole(value, min, max), format!("{min} to {max}")),
        Domain::Bits { all } => (bits(value, all), format!("bits of {all:#x}")),
        Domain::Bool => (flag(text, value), "0 or 1".to_owned()),
        Domain::Size => (whole(value, 0, u64::MAX), "a size in bytes".to_owned()),
        Domain::Limit if value == "max" => (Some(value.to_owned()), String::new()),
        Domain::Limit => (whole(value, 0, u64::MAX), "a size in bytes, or max".to_owned()),
        Domain::Word { words } => (one_of(words.iter().copied(), value), words.join(", ")),
        Domain::Listed => {
            let words = text.split_whitespace().map(|word| word.trim_matches(['[', ']']));
            (one_of(words, value), format!("one of {text}"))
        }
        Domain::Ints => (numbers(value), "whole numbers".to_owned()),
        Domain::Text => (Some(value.to_owned()), String::new()),
        Domain::Trigger => (None, "nothing: it only acts".to_owned()),
    };
    let wrong = || Error::Value { name: knob.name.to_owned(), expected, found: value.to_owned() };
    spelled.ok_or_else(wrong)
}

fn whole(value: &str, min: i64, max: u64) -> Option<String> {
    let number: i128 = value.parse().ok()?;
    (i128::from(min)..=i128::from(max)).contains(&number).then(|| number.to_string())
}

fn bits(value: &str, all: u64) -> Option<String> {
    let number = match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => value.parse().ok()?,
    };
    (number & !all == 0).then(|| format!("{number:#06x}"))
}

fn flag(text: &str, value: &str) -> Option<String> {
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

fn one_of<'a>(mut words: impl Iterator<Item = &'a str>, value: &str) -> Option<String> {
    words.find(|word| *word == value).map(str::to_owned)
}

fn numbers(value: &str) -> Option<String> {
    let words: Vec<&str> = value.split_whitespace().collect();
    let all = words.iter().all(|word| word.parse::<i64>().is_ok());
    (all && !words.is_empty()).then(|| words.join(" "))
}

/// What brings the old value back: of two that exclude each other the one that rules.
fn back(
    hands: &dyn HostOps,
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
    let pair = row(pair)?;
    let path = path_of(pair, instance)?;
    let value = active(pair.domain, &read(hands, &path)?);
    // where both are 0, only the one that takes 0 can rule
    let takes = |knob: &Knob, value: &str| spelled(knob, value, value).is_ok();
    let rules = value != "0" || !takes(knob, old);
    Ok(if rules { Write { path, value } } else { own })
}

/// A change of a file, and the way back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change<'a> {
    pub(crate) path: &'a str,
    pub(crate) old: &'a str,
    pub(crate) ours: &'a str,
    pub(crate) back: &'a Write,
}

pub(crate) fn set(hands: &mut dyn HostOps, name: &str, change: &Change<'_>) -> Result<(), Error> {
    if change.old == change.ours {
        return Ok(());
    }
    let Change { path, ours, back, .. } = *change;
    hands.act(&HostChange::Write { path, value: ours }).doing(|| format!("{name} = {ours}"))?;
    let found = current(hands, path, change.ours)?;
    if found == ours {
        return Ok(());
    }
    write_back(hands, back)?;
    Err(Error::Changed { what: name.to_owned(), wrote: ours.to_owned(), found })
}

/// What stands in the file, read like `like`: one word where it lists all.
fn current(hands: &dyn HostOps, path: &str, like: &str) -> Result<String, Error> {
    let text = read(hands, path)?;
    let is_word = !like.contains([' ', '[']);
    let domain = if is_word { Domain::Listed } else { Domain::Text };
    Ok(active(domain, &text))
}

/// Whether the file still says that.
pub(crate) fn is_at_value(hands: &dyn HostOps, path: &str, value: &str) -> Result<bool, Error> {
    current(hands, path, value).map(|found| found == value)
}

fn write_back(hands: &mut dyn HostOps, back: &Write) -> Result<(), Error> {
    let Write { path, value } = back;
    hands.act(&HostChange::Write { path, value }).doing(|| format!("{path} = {value}"))
}

pub(crate) fn give_back(
    hands: &mut dyn HostOps,
    name: &str,
    change: &Change<'_>,
    it: &Open,
) -> Result<Outcome, Error> {
    let is_known = is_in_table(name, change.path) && is_of_table(&change.back.path);
    if !is_known {
        let why = "its journal names another file for it".to_owned();
        return Err(Error::NotLent { name: name.to_owned(), why });
    }
    let found = match current(hands, change.path, change.old) {
        Err(Error::Absent { .. }) => return Ok(Outcome::Gone),
        found => found?,
    };
    // ours first: of two loans one may have left what the other found
    let is_ours = found == change.ours && it.conflict.is_none();
    if found == change.old || !is_ours && it.origins.contains(&found) {
        return Ok(Outcome::Gone);
    }
    if !is_ours {
        let (old, ours) = (change.old.to_owned(), change.ours.to_owned());
        return Ok(Outcome::Conflict { old, ours, found });
    }
    write_back(hands, change.back)?;
    let found = current(hands, change.path, change.old)?;
    if found == change.old {
        return Ok(Outcome::Returned);
    }
    Err(Error::Changed { what: change.path.to_owned(), wrote: change.old.to_owned(), found })
}

#[cfg(test)]
mod tests;
