// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All kernel settings in one table, and tests of what must hold for each row.

use super::{Knob, cgroup, damon, ksm, mglru, numa, swap, thp, vm, zram, zswap};

const SECTIONS: [&[Knob]; 13] = [
    zram::ROWS,
    swap::ROWS,
    zswap::ROWS,
    vm::ROWS,
    mglru::ROWS,
    thp::ROWS,
    ksm::ROWS,
    cgroup::ROWS,
    damon::ADMIN,
    damon::RECLAIM,
    damon::LRU_SORT,
    damon::STAT,
    numa::ROWS,
];

/// Every setting that Pagewise knows.
pub static KNOBS: &[Knob] = &ALL;

static ALL: [Knob; count()] = all();

const fn count() -> usize {
    let (mut count, mut section) = (0, 0);
    while section < SECTIONS.len() {
        count += SECTIONS[section].len();
        section += 1;
    }
    count
}

const fn all() -> [Knob; count()] {
    let mut all = [SECTIONS[0][0]; count()];
    let (mut filled, mut section) = (0, 0);
    while section < SECTIONS.len() {
        let mut row = 0;
        while row < SECTIONS[section].len() {
            all[filled] = SECTIONS[section][row];
            filled += 1;
            row += 1;
        }
        section += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::knob::{Access, Domain, KnobReading, Undo};
    use crate::{Name, Reading, Source};

    fn knobs_by_name() -> BTreeMap<&'static str, &'static Knob> {
        KNOBS.iter().map(|knob| (knob.name, knob)).collect()
    }

    fn assert_none(what: &str, wrong: impl Iterator<Item = &'static Knob>) {
        let wrong: Vec<&str> = wrong.map(|knob| knob.name).collect();
        assert!(wrong.is_empty(), "{what}: {wrong:?}");
    }

    #[test]
    fn names_and_paths_are_unique() {
        let paths: BTreeSet<&str> = KNOBS.iter().map(|knob| knob.path).collect();
        assert_eq!(knobs_by_name().len(), KNOBS.len());
        assert_eq!(paths.len(), KNOBS.len());
    }

    #[test]
    fn paths_are_settings_of_the_kernel() {
        let is_setting = |path: &str| path.starts_with("proc/sys/") || path.starts_with("sys/");
        assert_none("elsewhere", KNOBS.iter().filter(|knob| !is_setting(knob.path)));
        let is_clean = |path: &str| path.split('/').all(|part| !matches!(part, "" | "." | ".."));
        assert_none("crooked", KNOBS.iter().filter(|knob| !is_clean(knob.path)));
    }

    /// The placeholders that a path may contain for parts that differ between hosts.
    const PLACEHOLDERS: [&str; 4] = ["{N}", "{size}", "{node}", "{cgroup}"];

    /// Checks that each placeholder is at the end of its path component, because readers expand the
    /// path one folder at a time.
    #[test]
    fn placeholders_are_the_four() {
        let is_plain = |part: &str| {
            let prefix = PLACEHOLDERS.iter().find_map(|hole| part.strip_suffix(hole));
            !prefix.unwrap_or(part).contains(['{', '}'])
        };
        assert_none("other", KNOBS.iter().filter(|knob| !knob.path.split('/').all(is_plain)));
    }

    #[test]
    fn docs_are_one_short_sentence() {
        let is_sentence = |doc: &str| {
            doc.ends_with('.') && !doc.contains(". ") && doc.len() < 160 && doc.trim() == doc
        };
        assert_none("no sentence", KNOBS.iter().filter(|knob| !is_sentence(knob.doc)));
    }

    #[test]
    fn whoever_cannot_be_undone_says_why() {
        let is_mute =
            |knob: &&Knob| matches!(knob.undo, Undo::Never { because } if because.is_empty());
        assert_none("mute", KNOBS.iter().filter(is_mute));
    }

    /// Checks that a setting that cannot be read is not restored from its own file.
    #[test]
    fn undo_fits_the_access() {
        let reads_back =
            |knob: &Knob| matches!(knob.undo, Undo::WriteBack | Undo::WriteBackNonZero { .. });
        let is_readable = |knob: &Knob| knob.access == Access::ReadWrite;
        assert_none("blind", KNOBS.iter().filter(|knob| reads_back(knob) && !is_readable(knob)));
    }

    #[test]
    fn couples_exist_and_are_mutual() {
        let named = knobs_by_name();
        for knob in KNOBS {
            for couple in knob.couples {
                let other = named.get(couple).unwrap_or_else(|| panic!("{}: {couple}?", knob.name));
                assert!(other.couples.contains(&knob.name), "{couple} forgets {}", knob.name);
                assert_ne!(*couple, knob.name);
            }
        }
    }

    #[test]
    fn exclusive_pairs_name_each_other() {
        let named = knobs_by_name();
        let pair_of = |knob: &Knob| match knob.undo {
            Undo::WriteBackNonZero { pair } => Some(pair),
            _ => None,
        };
        let pairs: Vec<(&Knob, &str)> =
            KNOBS.iter().filter_map(|knob| Some((knob, pair_of(knob)?))).collect();
        assert_eq!(pairs.len(), 6);
        for (knob, pair) in pairs {
            assert_eq!(pair_of(named[pair]), Some(knob.name));
            assert!(knob.couples.contains(&pair), "{}", knob.name);
        }
    }

    /// Checks defaults against domains. The default of a setting that reads 0 while its pair is
    /// active is 0, even if 0 is not in its domain.
    #[test]
    fn defaults_fit_their_domain() {
        let unset = |knob: &Knob| {
            matches!(knob.undo, Undo::WriteBackNonZero { .. }) && knob.default == Some("0")
        };
        let misfits = |knob: &&Knob| {
            knob.default.is_some_and(|default| !fits(knob.domain, default)) && !unset(knob)
        };
        assert_none("misfit", KNOBS.iter().filter(misfits));
    }

    fn fits(domain: Domain, value: &str) -> bool {
        match domain {
            Domain::Int { min, max } => {
                value.parse().is_ok_and(|n: i128| (i128::from(min)..=i128::from(max)).contains(&n))
            }
            Domain::Bits { .. } => value.starts_with("0x"),
            Domain::Bool => ["0", "1", "Y", "N", "true", "false"].contains(&value),
            Domain::Size => value.parse::<u64>().is_ok(),
            Domain::Limit => value == "max" || value.parse::<u64>().is_ok(),
            Domain::Word { words } => words.contains(&value),
            Domain::Listed | Domain::Text => !value.is_empty(),
            Domain::Ints => value.split(' ').all(|word| word.parse::<i64>().is_ok()),
            Domain::Trigger => false,
        }
    }

    #[test]
    fn whatever_can_be_set_can_be_kept() {
        let is_lost = |knob: &&Knob| knob.access == Access::ReadWrite && knob.persist.is_empty();
        assert_none("lost", KNOBS.iter().filter(is_lost));
    }

    #[test]
    fn files_that_act_when_read_are_known_as_such() {
        let acting = KNOBS.iter().filter(|knob| knob.access == Access::ReadActs);
        let names: Vec<&str> = acting.map(|knob| knob.name).collect();
        assert_eq!(names, ["zram-control.hot_add", "vm.stat_refresh", "page_idle.bitmap"]);
    }

    fn reading(name: &str, live: &str) -> KnobReading {
        let knob = knobs_by_name()[name];
        let live = Reading::found(Name::from(live), Source::file(knob.path));
        KnobReading { knob, instance: None, live, default: knob.default }
    }

    #[test]
    fn the_active_word_is_the_one_in_brackets() {
        assert_eq!(reading("thp.enabled", "always [madvise] never").active_word(), Some("madvise"));
        assert_eq!(reading("zram.comp_algorithm", "lzo [zstd]").active_word(), Some("zstd"));
        assert_eq!(
            reading("vm.lowmem_reserve_ratio", "256 [x] 0").active_word(),
            Some("256 [x] 0")
        );
        assert_eq!(reading("damon.kdamond.state", "on").active_word(), Some("on"));
    }

    #[test]
    fn a_default_is_recognised_in_each_spelling() {
        assert_eq!(reading("thp.defrag", "always [madvise] never").is_default(), Some(true));
        assert_eq!(reading("vm.swappiness", "100").is_default(), Some(false));
        assert_eq!(reading("numa.demotion_enabled", "0").is_default(), Some(true));
        assert_eq!(reading("numa.demotion_enabled", "perhaps").is_default(), None);
        assert_eq!(reading("vm.min_free_kbytes", "67584").is_default(), None);
    }
}
