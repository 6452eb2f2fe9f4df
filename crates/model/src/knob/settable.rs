// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which settings an arm (variant) of a trial may set, derived from the table of settings and from
//! the settings of this host.
//!
//! Settings of cgroups are left out. An arm may set only two of them, which belong to zswap, and
//! only for the program that runs beside the command; only experiment files have such a program.
//! `trial --memory` limits the command.

use schemars::JsonSchema;
use serde::Serialize;

use crate::arm::{is_of_zram, refusal};
use crate::knob::{Domain, KNOBS, Knob, KnobReading};
use crate::{Name, Reading};

/// One setting that `--a` and `--b` of a trial accept.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SettableKnob<'a> {
    /// The setting as it is typed before `=`. If `scope` is `each-place`, an instance in brackets
    /// must follow, as in `[64kB]`.
    pub name: &'static str,
    /// What a change of the setting affects.
    pub scope: KnobScope,
    /// The accepted values in words, such as `0 to 200`.
    pub accepts: String,
    /// All words that the setting accepts, if they are known; empty for numbers and text.
    pub words: Vec<&'a str>,
    /// The kernel's default value; `null` if it is computed or chosen at build time.
    pub default: Option<&'static str>,
    /// What the setting does, in a sentence.
    pub about: &'static str,
    /// What the brackets contain, for example a size of huge pages such as `2048kB`; `null` if no
    /// brackets are typed after the setting.
    pub place: Option<&'static str>,
    /// The current values of the setting, one for each place; empty for `arm-zram`, because the
    /// devices do not exist yet.
    pub values: Vec<KnobValue<'a>>,
}

/// What a change of a setting applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KnobScope {
    /// The setting applies to the whole host.
    Host,
    /// The setting applies to one of several places, such as a size of huge pages, given in
    /// brackets.
    EachPlace,
    /// The setting applies to the zram devices that the arm adds.
    ArmZram,
}

/// The current value of a setting, or of one instance of it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct KnobValue<'a> {
    /// What to type in brackets for this instance; `null` if the setting exists once.
    pub instance: Option<&'a Name>,
    /// The current value; if the file lists all words, the word in brackets. `null` if there is no
    /// value.
    pub active: Option<&'a str>,
    /// The whole text of the setting's file.
    pub now: &'a Reading<Name>,
}

impl SettableKnob<'_> {
    /// Whether this host has the setting or an instance of it, even if Pagewise may not read it.
    #[must_use]
    pub fn is_here(&self) -> bool {
        let is_known = |value: &KnobValue<'_>| value.now.value().is_some() || value.now.is_denied();
        self.scope == KnobScope::ArmZram || self.values.iter().any(is_known)
    }

    /// How the setting is typed: `vm.swappiness`, or `thp.size.enabled[64kB]` for an instance.
    #[must_use]
    pub fn format_typed(&self, instance: Option<&Name>) -> String {
        let brackets = instance.map(|instance| format!("[{instance}]")).unwrap_or_default();
        format!("{}{brackets}", self.name)
    }
}

/// All settings that an arm may set, in the order of the table, with their values from `readings`.
#[must_use]
pub fn list_settable(readings: &[KnobReading]) -> Vec<SettableKnob<'_>> {
    let may = |knob: &&'static Knob| refusal(knob).is_none() && !knob.path.contains("{cgroup}");
    KNOBS.iter().filter(may).map(|knob| settable_knob(knob, readings)).collect()
}

fn settable_knob<'a>(knob: &'static Knob, readings: &'a [KnobReading]) -> SettableKnob<'a> {
    let scope = match knob.path.contains('{') {
        _ if is_of_zram(knob.name) => KnobScope::ArmZram,
        true => KnobScope::EachPlace,
        false => KnobScope::Host,
    };
    let of_it = readings.iter().filter(|it| it.knob.name == knob.name);
    let of_it: Vec<&KnobReading> = of_it.filter(|_| scope != KnobScope::ArmZram).collect();
    let value = |it: &&'a KnobReading| KnobValue {
        instance: it.instance.as_ref(),
        active: it.active_word(),
        now: &it.live,
    };
    SettableKnob {
        name: knob.name,
        scope,
        accepts: knob.domain.accepted_values(),
        words: accepted_words(knob.domain, of_it.first().copied()),
        default: knob.default,
        about: knob.doc,
        place: (scope == KnobScope::EachPlace).then(|| placeholder_name(knob.path)),
        values: of_it.iter().map(value).collect(),
    }
}

/// The words that a setting accepts: those in the table or, if they differ between kernels, those
/// that the setting's file lists.
fn accepted_words(domain: Domain, reading: Option<&KnobReading>) -> Vec<&str> {
    match domain {
        Domain::Word { words } => words.to_vec(),
        Domain::Bool => vec!["0", "1"],
        Domain::Listed => {
            let text = reading.and_then(|it| it.live.value()).map_or("", Name::as_str);
            text.split(' ')
                .map(|word| word.trim_matches(['[', ']']))
                .filter(|it| !it.is_empty())
                .collect()
        }
        _ => Vec::new(),
    }
}

/// A name in words for the placeholder in a setting's path.
fn placeholder_name(path: &str) -> &'static str {
    match (path.contains("{node}"), path.contains("{size}")) {
        (true, true) => "NODE/SIZE",
        (true, false) => "NODE",
        (false, true) => "SIZE",
        (false, false) => match path.matches("{N}").count() {
            0 | 1 => "N",
            2 => "N/N",
            _ => "N/N/N",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, arm};

    fn reading(name: &str, instance: Option<&str>, live: Reading<Name>) -> KnobReading {
        let knob = KNOBS.iter().find(|knob| knob.name == name).unwrap();
        KnobReading { knob, instance: instance.map(Name::from), live, default: knob.default }
    }

    fn value(text: &str) -> Reading<Name> {
        Reading::found(Name::from(text), Source::file("/x"))
    }

    /// The list contains exactly what `--a` and `--b` accept, except for settings of cgroups.
    #[test]
    fn the_list_and_the_parser_agree() {
        let listed = list_settable(&[]);
        for knob in KNOBS {
            let row = listed.iter().find(|it| it.name == knob.name);
            let brackets =
                if knob.path.contains('{') && !is_of_zram(knob.name) { "[1]" } else { "" };
            let word = row.and_then(|it| it.words.first().copied());
            let word =
                word.unwrap_or(if matches!(knob.domain, Domain::Int { .. }) { "100" } else { "1" });
            let parsed = arm::parse_setting(&format!("{}{brackets}={word}", knob.name));
            let wrong_number = parsed.as_ref().is_err_and(|why| why.contains("whole number"));
            let is_parsed = parsed.is_ok() || wrong_number;
            let of_group = knob.path.contains("{cgroup}");
            assert_eq!(row.is_some(), is_parsed && !of_group, "{}: {parsed:?}", knob.name);
        }
        assert!(listed.len() > 50, "{}", listed.len());
    }

    #[test]
    fn a_setting_has_a_value_for_each_place() {
        let absent = Reading::absent("no such file", Source::file("/y"));
        let readings = [
            reading("thp.size.enabled", Some("64kB"), value("always inherit madvise [never]")),
            reading("thp.size.enabled", Some("2048kB"), value("[always] inherit madvise never")),
            reading("vm.swappiness", None, value("60")),
            reading("vm.defrag_mode", None, absent),
            reading("zram.writeback_limit", Some("0"), value("5")),
        ];
        let all = list_settable(&readings);
        let named = |name: &str| all.iter().find(|it| it.name == name).unwrap();
        let sizes = named("thp.size.enabled");
        assert_eq!((sizes.scope, sizes.place), (KnobScope::EachPlace, Some("SIZE")));
        assert_eq!(sizes.values.len(), 2);
        assert_eq!(sizes.values[0].active, Some("never"));
        assert_eq!(sizes.format_typed(sizes.values[0].instance), "thp.size.enabled[64kB]");
        assert!(sizes.words.contains(&"madvise"), "{:?}", sizes.words);
        assert!(named("vm.swappiness").is_here());
        assert_eq!(named("vm.swappiness").accepts, "0 to 200");
        assert!(!named("vm.defrag_mode").is_here());
        let zram = named("zram.writeback_limit");
        assert!(zram.values.is_empty() && zram.is_here(), "of devices that the arm brings");
    }

    #[test]
    fn words_that_a_file_lists_are_those_of_this_host() {
        let knob = KNOBS.iter().find(|knob| knob.domain == Domain::Listed).unwrap();
        let it = reading(knob.name, None, value("lzo [zstd]"));
        assert_eq!(accepted_words(Domain::Listed, Some(&it)), ["lzo", "zstd"]);
        assert!(accepted_words(Domain::Listed, None).is_empty());
    }
}
