// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses one profile of TuneD in the same way as TuneD ([`parse`]), and merges profiles that
//! include each other ([`Sections`]).
//!
//! The format is that of Python's `configparser` with `=` as the only delimiter. `#` after white
//! space begins a comment, and a line that is indented more than the option before it continues the
//! value of that option. A line that is none of these makes TuneD reject the whole profile
//! (`tuned/profiles/loader.py`). The plugin of a section is its `type` or, without a type, its
//! name; `enabled`, `replace`, `drop` and `priority` affect sections of the same name in several
//! profiles (`tuned/profiles/merger.py`, `tuned/profiles/unit.py`).

use std::collections::BTreeMap;

use pagewise_hostfs::text::Line;

/// One option of a section.
#[derive(Debug, Clone)]
pub(crate) struct ProfileOption<'t> {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) line: Line<'t>,
}

/// A section of a profile: its name and options.
#[derive(Debug, Clone, Default)]
pub(crate) struct Section<'t> {
    pub(crate) name: Vec<u8>,
    pub(crate) options: Vec<ProfileOption<'t>>,
}

impl<'t> Section<'t> {
    /// Returns the value of an option; if there are several with the same name, the last one.
    pub(crate) fn last_value(&self, key: &[u8]) -> Option<&[u8]> {
        let of_key = self.options.iter().rev().find(|option| option.key == key);
        of_key.map(|option| option.value.as_slice())
    }

    fn is_on(&self, key: &[u8]) -> Option<bool> {
        self.last_value(key).map(|value| matches!(value, b"True" | b"true" | b"1"))
    }

    /// Returns the plugin that reads the section.
    pub(crate) fn plugin(&self) -> &[u8] {
        self.last_value(b"type").unwrap_or(&self.name)
    }

    /// Whether the section applies only to some machines.
    pub(crate) fn is_conditional(&self) -> bool {
        [b"uname_regex".as_slice(), b"cpuinfo_regex"]
            .iter()
            .any(|key| self.last_value(key).is_some())
    }
}

/// A line that TuneD cannot parse, so that it rejects the profile.
#[derive(Debug, Clone)]
pub(crate) struct Unreadable<'t> {
    pub(crate) line: Line<'t>,
    pub(crate) why: &'static str,
}

/// Parses the lines of a profile into its sections, in the order of the file.
pub(crate) fn parse<'t>(
    lines: impl Iterator<Item = Line<'t>>,
) -> Result<Vec<Section<'t>>, Unreadable<'t>> {
    let mut sections: Vec<Section<'t>> = Vec::new();
    let mut option_is_open = false;
    let mut indent = 0;
    for line in lines {
        let text = remove_comment(line.bytes);
        if text.is_empty() {
            continue;
        }
        let own_indent = line.bytes.len() - line.bytes.trim_ascii_start().len();
        if std::str::from_utf8(text).is_err() {
            return Err(Unreadable { why: "is not text in UTF-8", line });
        }
        let open = sections.last_mut().filter(|_| option_is_open && own_indent > indent);
        if let Some(option) = open.and_then(|section| section.options.last_mut()) {
            option.value.push(b'\n');
            option.value.extend_from_slice(text);
            continue;
        }
        indent = own_indent;
        if let Some(name) = parse_header(text) {
            option_is_open = false;
            // two sections of the same name are merged to one
            let known = sections.iter().position(|section| section.name == name);
            let section = match known {
                Some(at) => sections.remove(at),
                None => Section { name: name.to_vec(), options: Vec::new() },
            };
            sections.push(section);
            continue;
        }
        let Some(section) = sections.last_mut() else {
            return Err(Unreadable { why: "is in no section", line });
        };
        match text.iter().position(|&byte| byte == b'=') {
            Some(at) if at > 0 => {
                let key = text[..at].trim_ascii().to_vec();
                let value = text[at + 1..].trim_ascii().to_vec();
                section.options.push(ProfileOption { key, value, line });
                option_is_open = true;
            }
            _ => return Err(Unreadable { why: "has no name and value", line }),
        }
    }
    Ok(sections)
}

/// Returns a line without its comment and without white space around it.
fn remove_comment(line: &[u8]) -> &[u8] {
    let text = line.trim_ascii();
    if text.starts_with(b"#") || text.starts_with(b";") {
        return b"";
    }
    let is_comment = |at: &usize| text[at - 1].is_ascii_whitespace();
    let at = memchr::memchr_iter(b'#', text).find(is_comment);
    text[..at.unwrap_or(text.len())].trim_ascii()
}

/// Parses the header of a section, such as `[sysctl]`, into its name. Text after the last bracket
/// is ignored.
pub(crate) fn parse_header(text: &[u8]) -> Option<&[u8]> {
    let inner = text.strip_prefix(b"[")?;
    let end = inner.iter().rposition(|&byte| byte == b']')?;
    (end > 0).then(|| &inner[..end])
}

/// A section that was merged from all profiles.
#[derive(Debug)]
struct Merged<'t> {
    section: Section<'t>,
    is_enabled: bool,
    is_conditional: bool,
    priority: i64,
}

/// The merged sections of all profiles that were read; options of later profiles override those of
/// earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Sections<'t> {
    merged: Vec<Merged<'t>>,
    variables: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl<'t> Sections<'t> {
    /// Merges the sections of a profile into these.
    pub(crate) fn add(&mut self, profile: Vec<Section<'t>>) {
        for section in profile {
            match section.name.as_slice() {
                b"main" => {}
                b"variables" => self.add_variables(&section),
                _ => self.add_section(section),
            }
        }
    }

    fn add_variables(&mut self, section: &Section<'t>) {
        if section.is_on(b"replace") == Some(true) {
            self.variables.clear();
        }
        for option in &section.options {
            let value = self.expand(&option.value).unwrap_or_else(|| option.value.clone());
            self.variables.insert(option.key.clone(), value);
        }
    }

    fn add_section(&mut self, section: Section<'t>) {
        let known = self.merged.iter().position(|merged| merged.section.name == section.name);
        let is_enabled = section.is_on(b"enabled").unwrap_or(true);
        let is_conditional = section.is_conditional();
        let priority = section.last_value(b"priority").map_or(Some(None), |text| {
            Some(std::str::from_utf8(text).ok().and_then(|text| text.trim().parse::<i64>().ok()))
        });
        let priority = priority.flatten();
        match known.and_then(|at| self.merged.get_mut(at)) {
            Some(merged) if section.is_on(b"replace") != Some(true) => {
                merged.is_enabled = is_enabled;
                merged.is_conditional |= is_conditional;
                merged.priority = priority.unwrap_or(merged.priority);
                let dropped: Vec<Vec<u8>> =
                    section.last_value(b"drop").map(split_list).unwrap_or_default();
                merged.section.options.retain(|option| !dropped.contains(&option.key));
                // the plugin of the newer section is used
                merged.section.options.retain(|option| option.key != b"type");
                merged.section.options.extend(section.options);
            }
            _ => {
                let priority = priority.unwrap_or_default();
                let new = Merged { section, is_enabled, is_conditional, priority };
                match known {
                    Some(at) => self.merged[at] = new,
                    None => self.merged.push(new),
                }
            }
        }
    }

    /// Returns the sections that TuneD applies on every machine, in the order in which it applies
    /// them.
    pub(crate) fn applied_sections(&self) -> Vec<&Section<'t>> {
        let of_all = |merged: &&Merged<'t>| merged.is_enabled && !merged.is_conditional;
        let mut all: Vec<&Merged<'t>> = self.merged.iter().filter(of_all).collect();
        all.sort_by_key(|merged| merged.priority);
        all.into_iter().map(|merged| &merged.section).collect()
    }

    /// Returns a value with its variables replaced; `None` if a variable is unknown or a function
    /// computes the value.
    pub(crate) fn expand(&self, value: &[u8]) -> Option<Vec<u8>> {
        let mut rest = value;
        let mut all = Vec::new();
        while let Some(at) = memchr::memmem::find(rest, b"${") {
            let end = memchr::memchr(b'}', rest).filter(|end| *end > at)?;
            all.extend_from_slice(&rest[..at]);
            all.extend_from_slice(self.variables.get(&rest[at + 2..end])?);
            rest = &rest[end + 1..];
        }
        all.extend_from_slice(rest);
        Some(all)
    }
}

/// Splits a list of names such as `a, b;c`.
pub(crate) fn split_list(names: &[u8]) -> Vec<Vec<u8>> {
    let names = names.split(|byte| matches!(byte, b',' | b';')).map(<[u8]>::trim_ascii);
    names.filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect()
}
