// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: zram-generator does not apply the parameters of secondary algorithms.
//!
//! Up to version 1.2.1, zram-generator writes the parameters to `recompress` before the device has
//! a size, which the kernel refuses (zram-generator issue 215). The secondary algorithms themselves
//! are set, but not their level or dictionary.

use pagewise_model::{Finding, Interval, Mechanism, PersistentSetting, Severity, Subject, Target};

use crate::Rule;
use crate::proof::EvidenceList;

pub(super) const RULE: Rule = Rule {
    id: "generator-parameters",
    doc: "The configuration of zram-generator sets parameters of a second algorithm, which zram-generator does \
          not apply.",
    diagnose,
};

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let lines = interval.end.configuration.by(Mechanism::ZramGenerator);
    lines.filter(|line| line.is_applied()).filter_map(finding).collect()
}

fn finding(line: &PersistentSetting) -> Option<Finding> {
    let Target::Knob { knob: "zram.comp_algorithm", instance: Some(number) } = &line.target else {
        return None;
    };
    let algorithms = line.wanted();
    let lost = words(algorithms).into_iter().skip(1).find(|word| has_parameters(word))?;
    let (name, _) = lost.split_once('(')?;
    let device = format!("zram{number}");
    Some(Finding {
        id: RULE.id,
        about: Some(Subject::device(&device)),
        severity: Severity::Info,
        title: format!(
            "zram-generator does not apply the parameters of {}",
            crate::text::shorten_name(name)
        ),
        what: format!(
            "{} lists {lost} for {device} after another algorithm, but zram-generator (up to version 1.2.1) \
             applies the parameters (level, dictionary) of the first algorithm only.",
            line.value.source
        ),
        why: format!(
            "zram-generator writes the parameters of all other algorithms to /sys/block/{device}/recompress \
             before the device has a size, and the kernel refuses this write. As a result, the device uses \
             these algorithms with their default level and without a dictionary."
        ),
        evidence: EvidenceList::new().named("compression-algorithm", &line.value).into_evidence(),
        next: vec![
            format!("journalctl -b -u systemd-zram-setup@{device}.service"),
            "dpkg -s systemd-zram-generator | grep Version".to_owned(),
        ],
    })
}

/// Splits text at white space outside of parentheses.
fn words(text: &str) -> Vec<&str> {
    let mut depth = 0usize;
    let is_between = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && c.is_whitespace()
    };
    text.split(is_between).filter(|word| !word.is_empty()).collect()
}

/// Whether a word contains a level or a dictionary. `(type=idle)` without an algorithm applies to
/// all algorithms and is not lost.
fn has_parameters(word: &str) -> bool {
    let inner = word.split_once('(').filter(|(name, _)| !name.is_empty());
    inner.is_some_and(|(_, inner)| inner.contains("level=") || inner.contains("dict="))
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::Name;

    use super::*;
    use crate::testing::{assert_silent, calm, line, only, with};

    fn interval_with(algorithms: &str) -> Interval {
        with(|host| {
            let value = line("/etc/systemd/zram-generator.conf", 3, Name::from(algorithms));
            let target = Target::instance_of("zram.comp_algorithm", "0");
            let mechanism = Mechanism::ZramGenerator;
            host.configuration.settings =
                vec![PersistentSetting::applied(mechanism, target, value)];
        })
    }

    pub(crate) fn host_with_finding() -> Interval {
        interval_with("lzo-rle zstd(level=9, dict=/etc/dict) (type=idle)")
    }

    #[test]
    fn parameters_of_a_second_algorithm_are_lost() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(finding.title, "zram-generator does not apply the parameters of zstd");
        assert!(
            finding.what.contains(" lists zstd(level=9, dict=/etc/dict) for zram0 after another")
        );
    }

    #[test]
    fn those_of_the_first_and_of_all_are_not() {
        assert_silent(&RULE, &interval_with("zstd(level=3) lzo-rle (type=idle)"));
        assert_silent(&RULE, &interval_with("zstd(level=3)"));
        assert_silent(&RULE, &interval_with(")( ("));
        assert_silent(&RULE, &calm());
    }
}
