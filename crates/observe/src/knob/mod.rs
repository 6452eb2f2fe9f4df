// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the live value of every row of [`KNOBS`] into a [`KnobReading`].
//!
//! A row whose path has placeholders gives one reading for each match on this host, named by
//! [`KnobReading::instance`] (`0`, `2048kB`, `0/64kB`), or a single absent one if there is no
//! match. For files that are write-only, and for the few in which a read has a side effect, only
//! existence is checked. Settings of cgroups are read in [`groups`].
//!
//! A value keeps the file's own spelling with white space folded. Only its type is checked here (a
//! number where a number is expected), not its range, which differs between kernels.
//!
//! The kernel dominates the cost: about 5 µs for each file read and 2 µs for each missing one.

mod groups;
mod places;

use pagewise_model::knob::{Access, Domain, KNOBS, Knob, KnobReading};
use pagewise_model::{Bytes, Cgroups, Name, Reading, Source};

use crate::memory;
use pagewise_hostfs::text::{flag, number, words};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues, absolute_path};
use places::{KnobFile, KnobFiles};

/// At most this many bytes of a setting's value are kept.
const MAX_SHOWN: usize = 200;

/// On a machine with less RAM than this the kernel disables transparent huge pages at boot.
const SMALL: Bytes = Bytes::new(512 << 20);
/// The defaults of huge page settings that the kernel uses on a machine with less RAM than
/// [`SMALL`].
const WHERE_SMALL: [(&str, &str); 3] =
    [("thp.defrag", "never"), ("thp.use_zero_page", "0"), ("thp.khugepaged.defrag", "0")];

/// Reads the settings of the host without those of cgroups: fast enough for shell completions.
pub fn knobs(host: &HostRoot) -> Vec<KnobReading> {
    read(host, &Cgroups::default(), memory::read(host).total.get())
}

pub(crate) fn read(host: &HostRoot, cgroups: &Cgroups, ram: Option<Bytes>) -> Vec<KnobReading> {
    let mut knobs = read_all(host, cgroups);
    if ram.is_some_and(|ram| ram < SMALL) {
        for knob in &mut knobs {
            let own = WHERE_SMALL.iter().find(|(name, _)| *name == knob.knob.name);
            knob.default = own.map_or(knob.default, |(_, value)| Some(value));
        }
    }
    knobs
}

fn read_all(host: &HostRoot, cgroups: &Cgroups) -> Vec<KnobReading> {
    let (of_groups, others): (Vec<&'static Knob>, Vec<_>) =
        KNOBS.iter().partition(|knob| knob.path.contains(groups::PLACEHOLDER));
    let mut places = KnobFiles::new(host);
    let others = others.into_iter().flat_map(|knob| read_everywhere(host, &mut places, knob));
    others.chain(groups::read(host, cgroups, &of_groups)).collect()
}

fn read_everywhere(
    host: &HostRoot,
    places: &mut KnobFiles<'_>,
    knob: &'static Knob,
) -> Vec<KnobReading> {
    let found = places.find(knob.path);
    if found.is_empty() {
        return vec![absent_reading(knob)];
    }
    let reading =
        |KnobFile { path, instance }| make_reading(knob, instance, read_live(host, knob, &path));
    found.into_iter().map(reading).collect()
}

fn make_reading(knob: &'static Knob, instance: Option<Name>, live: Reading<Name>) -> KnobReading {
    KnobReading { knob, instance, live, default: knob.default }
}

/// The reading of a row of the settings table whose placeholders match nothing on this host.
fn absent_reading(knob: &'static Knob) -> KnobReading {
    make_reading(
        knob,
        None,
        Reading::absent("this host has none", Source::file(absolute_path(knob.path))),
    )
}

fn read_live(host: &HostRoot, knob: &Knob, path: &str) -> Reading<Name> {
    match knob.access {
        Access::ReadWrite | Access::ReadOnly => {
            host.value(path, expected_format(knob.domain), |text| parse_shown(knob.domain, text))
        }
        Access::WriteOnly => find_path(host, path, "write-only: the kernel does not tell"),
        Access::ReadActs => find_path(host, path, "not read: reading it does something"),
    }
}

fn find_path(host: &HostRoot, path: &str, why: &'static str) -> Reading<Name> {
    let source = Source::file(absolute_path(path));
    match host.presence(path) {
        Ok(()) => Reading::absent(why, source),
        Err(refusal) => refusal.reading(source),
    }
}

fn parse_shown(domain: Domain, text: &[u8]) -> Option<Name> {
    has_shape(domain, text).then(|| Name::from_bytes(&fold_spaces(text)))
}

fn has_shape(domain: Domain, text: &[u8]) -> bool {
    match domain {
        Domain::Int { .. } => is_whole(text),
        Domain::Ints => !text.is_empty() && words(text).all(is_whole),
        Domain::Bool => flag(text).is_some(),
        Domain::Size => number::<u64>(text).is_some(),
        Domain::Limit => text == b"max" || number::<u64>(text).is_some(),
        Domain::Word { .. } | Domain::Listed | Domain::Bits { .. } => !text.is_empty(),
        Domain::Text | Domain::Trigger => true,
    }
}

/// Whether a word is a whole number: settings are signed or unsigned 64-bit integers.
fn is_whole(word: &[u8]) -> bool {
    number::<i64>(word).is_some() || number::<u64>(word).is_some()
}

fn expected_format(domain: Domain) -> &'static str {
    match domain {
        Domain::Int { .. } => "a whole number",
        Domain::Ints => "whole numbers",
        Domain::Bool => "0 or 1, Y or N",
        Domain::Size => "a size in bytes",
        Domain::Limit => "a size in bytes or max",
        Domain::Bits { .. } => "bits in hexadecimal",
        Domain::Word { .. } | Domain::Listed => "a word",
        Domain::Text | Domain::Trigger => "text",
    }
}

/// Reduces white space in a value to single spaces and truncates to [`MAX_SHOWN`] bytes.
fn fold_spaces(text: &[u8]) -> Vec<u8> {
    let mut folded = Vec::new();
    for word in words(text) {
        if !folded.is_empty() {
            folded.push(b' ');
        }
        folded.extend_from_slice(word);
        if folded.len() > MAX_SHOWN {
            folded.truncate(MAX_SHOWN);
            folded.extend_from_slice("…".as_bytes());
            break;
        }
    }
    folded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::host;
    use pagewise_hostfs::{Entry, Refusal};

    fn read_plain(host: &HostRoot) -> Vec<KnobReading> {
        read(host, &Cgroups::default(), None)
    }

    fn readings_named<'a>(readings: &'a [KnobReading], name: &str) -> Vec<&'a KnobReading> {
        let found: Vec<_> = readings.iter().filter(|reading| reading.knob.name == name).collect();
        assert!(!found.is_empty(), "{name}");
        found
    }

    fn values<'a>(readings: &'a [KnobReading], name: &str) -> Vec<(Option<&'a str>, &'a str)> {
        let describe = |r: &'a KnobReading| {
            (r.instance.as_ref().map(Name::as_str), r.live.value().map_or("", Name::as_str))
        };
        readings_named(readings, name).into_iter().map(describe).collect()
    }

    #[test]
    fn a_setting_keeps_the_files_spelling() {
        let host = host([
            ("proc/sys/vm/swappiness", "60\n"),
            ("proc/sys/vm/lowmem_reserve_ratio", "256\t256\t32\t0\t0\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ]);
        let knobs = read_plain(&host);
        assert_eq!(values(&knobs, "vm.swappiness"), [(None, "60")]);
        assert_eq!(readings_named(&knobs, "vm.swappiness")[0].default, Some("60"));
        let place = readings_named(&knobs, "vm.swappiness")[0].live.source.to_string();
        assert_eq!(place, "/proc/sys/vm/swappiness");
        assert_eq!(values(&knobs, "vm.lowmem_reserve_ratio"), [(None, "256 256 32 0 0")]);
        assert_eq!(readings_named(&knobs, "thp.enabled")[0].active_word(), Some("madvise"));
        assert!(host.take_problems().is_empty());
    }

    #[test]
    fn a_small_machine_starts_without_huge_pages() {
        let host = host([("proc/sys/vm/swappiness", "60\n")]);
        let default = |mebibytes: u64, name| {
            let ram = Some(Bytes::new(mebibytes << 20));
            readings_named(&read(&host, &Cgroups::default(), ram), name)[0].default
        };
        assert_eq!(
            (default(511, "thp.defrag"), default(512, "thp.defrag")),
            (Some("never"), Some("madvise"))
        );
        assert_eq!(default(511, "vm.swappiness"), Some("60"));
    }

    #[test]
    fn placeholders_become_what_the_host_has() {
        let thp = "sys/kernel/mm/transparent_hugepage/hugepages-";
        let host = host(
            [
                ("sys/block/zram10/disksize".to_owned(), "0\n"),
                ("sys/block/zram2/disksize".to_owned(), "4294967296\n"),
                ("sys/block/sda/size".to_owned(), "9\n"),
                (format!("{thp}2048kB/enabled"), "always [inherit] madvise never"),
                (format!("{thp}64kB/enabled"), "always inherit madvise [never]"),
                (
                    "sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"
                        .to_owned(),
                    "7",
                ),
            ]
            .each_ref()
            .map(|(path, text)| (path.as_str(), *text)),
        );
        let knobs = read_plain(&host);
        let sizes = values(&knobs, "zram.disksize");
        assert_eq!(sizes, [(Some("2"), "4294967296"), (Some("10"), "0")]);
        let sizes: Vec<_> =
            readings_named(&knobs, "thp.size.enabled").iter().map(|k| k.active_word()).collect();
        assert_eq!(sizes, [Some("never"), Some("inherit")]);
        let pools = values(&knobs, "hugetlb.node.nr_hugepages");
        assert_eq!(pools, [(Some("1/2048kB"), "7")]);
    }

    #[test]
    fn a_row_without_instance_is_one_absence() {
        let knobs = read_plain(&host::<&str>([]));
        assert_eq!(readings_named(&knobs, "zram.disksize").len(), 1);
        let place = readings_named(&knobs, "zram.disksize")[0].live.source.to_string();
        assert_eq!(place, "/sys/block/zram{N}/disksize");
        assert_eq!(knobs.len(), KNOBS.len());
        assert!(knobs.iter().all(|knob| knob.live.value().is_none()));
    }

    /// A file that acts when it is read is only checked for: reading `hot_add` creates a device.
    #[test]
    fn files_that_act_are_looked_for_and_not_read() {
        let path = "sys/class/zram-control/hot_add";
        let host = host([(path, "1\n")]).start_remembering();
        let knobs = read_plain(&host);
        let live = &readings_named(&knobs, "zram-control.hot_add")[0].live;
        assert_eq!(
            live,
            &Reading::absent("not read: reading it does something", live.source.clone())
        );
        assert_eq!(host.take_bytes_read(), 0);
        assert_eq!(host.into_remembered_files().get(path), Some(&Entry::File(Vec::new())));
    }

    #[test]
    fn a_write_only_file_is_there_or_not_or_out_of_reach() {
        let refused = Entry::Refused(Refusal::Denied("run as root".into()));
        let there = Entry::File(Vec::new());
        let host = HostRoot::memory([
            ("sys/kernel/debug/lru_gen".to_owned(), refused),
            ("proc/sys/vm/drop_caches".to_owned(), there),
        ]);
        let knobs = read_plain(&host);
        assert!(readings_named(&knobs, "mglru.command")[0].live.is_denied());
        let why = |name| format!("{:?}", readings_named(&knobs, name)[0].live.outcome);
        assert_eq!(why("vm.drop_caches"), r#"Absent("write-only: the kernel does not tell")"#);
        assert_eq!(why("vm.compact_memory"), r#"Absent("no such file")"#);
    }

    #[test]
    fn what_has_not_the_shape_is_garbled() {
        let digits = "99999999999999999999999999999999";
        let host = host([
            ("proc/sys/vm/swappiness", digits),
            ("proc/sys/vm/oom_dump_tasks", "perhaps"),
            ("sys/kernel/mm/ksm/advisor_mode", "\n"),
        ]);
        let knobs = read_plain(&host);
        assert!(readings_named(&knobs, "vm.swappiness")[0].live.value().is_none());
        let problems = host.take_problems();
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), 3, "{problems:?}");
        let first = format!("/proc/sys/vm/swappiness: expected a whole number, found \"{digits}\"");
        assert!(problems.contains(&first));
    }

    #[test]
    fn long_text_is_cut() {
        let long = "word ".repeat(1000);
        let host = host([("sys/module/zswap/parameters/compressor", long.as_str())]);
        let knobs = read_plain(&host);
        let shown = readings_named(&knobs, "zswap.compressor")[0].live.value().unwrap().as_str();
        assert_eq!(shown.chars().count(), MAX_SHOWN + 1);
    }

    proptest! {
        /// With any file content every row of the settings table gives a reading, and a short one.
        #[test]
        fn any_bytes_give_short_answers(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let files = KNOBS.iter().map(|knob| {
                let path = knob.path.replace("{N}", "0").replace("{size}", "64kB");
                (path.replace("{node}", "0"), Entry::File(bytes.clone()))
            });
            let knobs = read_plain(&HostRoot::memory(files));
            prop_assert_eq!(knobs.len(), KNOBS.len());
            for knob in &knobs {
                let length = knob.live.value().map_or(0, |live| live.as_str().len());
                prop_assert!(length <= 8 * (MAX_SHOWN + 1));
            }
        }
    }
}
