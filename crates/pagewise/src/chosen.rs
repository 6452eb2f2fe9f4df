// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parsers for names of sections, columns and sort orders; help and completions list the same
//! names.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use pagewise_report::view::{COLUMNS, Field, SECTIONS, Section, Sort};

type Choices<T> = [(T, &'static str, &'static str)];

const ORDERS: [(Sort, &str, &str); 5] = [
    (
        Sort::Size,
        "size",
        "processes by PSS, or by resident size if PSS was not read; cgroups by memory usage",
    ),
    (Sort::Swap, "swap", "processes and cgroups by their memory in swap"),
    (
        Sort::Growth,
        "growth",
        "processes and cgroups by the growth of their anonymous memory (in RAM and in swap) during \
         --interval",
    ),
    (
        Sort::Refaults,
        "refaults",
        "processes by major faults during --interval; cgroups by refaults during --interval",
    ),
    (
        Sort::Cpu,
        "cpu",
        "processes by CPU time during --interval; cgroups by memory usage, because the report shows no CPU \
         time of cgroups",
    ),
];

pub(crate) fn section_parser() -> impl TypedValueParser<Value = Section> {
    parser_of_names(&SECTIONS)
}

pub(crate) fn field_parser() -> impl TypedValueParser<Value = Field> {
    parser_of_names(&COLUMNS)
}

pub(crate) fn order_parser() -> impl TypedValueParser<Value = Sort> {
    parser_of_names(&ORDERS)
}

/// Parser for the ID of a rule of `doctor`.
pub(crate) fn rule_parser() -> impl TypedValueParser<Value = String> {
    let rules = pagewise_decide::rules();
    PossibleValuesParser::new(rules.map(|(id, doc)| PossibleValue::new(id).help(doc)))
}

/// Parser for a subject of `pagewise explain`.
pub(crate) fn subject_parser() -> impl TypedValueParser<Value = String> {
    let subjects = pagewise_explain::subjects().iter();
    PossibleValuesParser::new(
        subjects.map(|subject| PossibleValue::new(subject.name).help(subject.title)),
    )
}

/// Parser for the ID of a rule of `plan`, or of a finding that such a rule fixes.
pub(crate) fn plan_rule_parser() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(pagewise_plan::names())
}

fn parser_of_names<T: Copy + Send + Sync + 'static>(
    choices: &'static Choices<T>,
) -> impl TypedValueParser<Value = T> {
    let words = choices.iter().map(|(_, word, about)| PossibleValue::new(*word).help(*about));
    PossibleValuesParser::new(words).try_map(|typed| {
        let found = choices.iter().find(|(_, word, _)| *word == typed);
        found.map(|(value, _, _)| *value).ok_or("it is none of them")
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::ops::Deref;

    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Verb};

    fn parse_report(
        line: &[&str],
    ) -> Result<impl Deref<Target = crate::cli::Report> + Debug, String> {
        let line = ["pagewise", "report"].iter().chain(line);
        match Cli::try_parse_from(line).map_err(|error| error.to_string())?.verb {
            Some(Verb::Report(report)) => Ok(report),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lists_are_separated_by_commas_and_keep_their_order() {
        let report =
            parse_report(&["--only", "zram,memory", "-o", "swap,pid", "--sort", "cpu"]).unwrap();
        assert_eq!(report.only, [Section::Zram, Section::Memory]);
        assert_eq!(report.columns, [Field::Swap, Field::Pid]);
        assert_eq!(report.sort, Some(Sort::Cpu));
    }

    #[test]
    fn a_word_that_there_is_not_is_refused_with_those_that_there_are() {
        for option in [["--only", "zam"], ["-o", "swapp"], ["--sort", "sizes"]] {
            let refused = parse_report(&option).unwrap_err();
            assert!(refused.contains("possible values"), "{refused}");
            assert!(refused.contains("tip: a similar value exists"), "{refused}");
        }
    }
}
