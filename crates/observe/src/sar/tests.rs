// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Texts as sysstat 12.6 prints them, in two forms of time, damaged, and made up.

use pagewise_hostfs::{Entry, HostRoot};
use proptest::prelude::*;

use super::*;

/// `LC_ALL=C sar -A` of sysstat 12.6.1, without the sections and columns in between.
const C: &str = "\
Linux 6.18.44 (a host) \t11/28/26 \t_x86_64_\t(2 CPU)

13:07:16        CPU      %usr     %nice
13:07:17        all     95.81      0.00
Average:        all     95.81      0.00

13:07:16     pgpgin/s pgpgout/s   fault/s  majflt/s
13:07:17         0.00    188.00  18441.00      3.00
13:07:18         0.00      0.00  11442.00     71.50
Average:         0.00     64.00  16048.33      0.00

13:07:16    kbmemfree   kbavail kbmemused  %memused
13:07:17      6071136  20941096   3210548     13.01
13:07:18        46000    917120  23234352     93.10
Average:      6039329  20910168   3241368     13.13

13:07:16    kbswpfree kbswpused  %swpused  kbswpcad   %swpcad
13:07:17            0         0      0.00         0      0.00
13:07:18           10      1024     98.50         0      0.00

13:07:18     LINUX RESTART\t(2 CPU)

13:07:18     %smem-10  %smem-60 %smem-300     %smem  %fmem-10  %fmem-60 %fmem-300     %fmem
13:07:19         0.00      0.00      0.00     44.25      0.00      0.00      0.00     12.00
";

fn host(files: &[(&str, &str)]) -> HostRoot {
    let files = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), Entry::File(text.as_bytes().to_vec())));
    HostRoot::memory(files)
}

#[test]
fn the_worst_times_of_a_day_are_found() {
    let history = read(&host(&[("sos_commands/sar/sar28", C)])).unwrap();
    assert_eq!((history.times, history.texts.len(), history.unread.len()), (3, 1, 0));
    let least = history.least_available.unwrap();
    assert_eq!(least.time.as_str(), "13:07:18 on 11/28/26");
    assert_eq!(least.available, Bytes::from_kib(917_120));
    assert_eq!((least.swap_percent, least.major_faults_per_second), (Some(98.5), Some(71.5)));
    let waiting = history.most_waiting.unwrap();
    assert_eq!(waiting.time.as_str(), "13:07:19 on 11/28/26");
    assert_eq!((waiting.some_percent, waiting.full_percent), (Some(44.25), Some(12.0)));
    assert_eq!(waiting.available, None, "not zero");
}

#[test]
fn times_with_am_and_pm_and_decimal_commas_are_read() {
    let text = "Linux 5.14.0 (x) \t2026-11-28 \t_x86_64_\t(4 CPU)\n\n\
                12:10:01 AM kbmemfree   kbavail kbmemused\n12:20:01 AM 5 6 7\n12:20:01 PM 5 4 7\n\n\
                12:10:01 AM kbswpfree kbswpused  %swpused\n12:20:01 PM 5 6 7,5\n";
    let history = read(&host(&[("var/log/sa/sar28", text)])).unwrap();
    let least = history.least_available.unwrap();
    assert_eq!(least.time.as_str(), "12:20:01 PM on 2026-11-28");
    assert_eq!((history.times, least.swap_percent), (2, Some(7.5)));
    assert!(history.most_waiting.is_none() && history.most_major_faults.is_none());
}

#[test]
fn binary_files_are_named_unless_their_text_is_there() {
    let files = [
        ("var/log/sa/sa27", "\u{96}d"),
        ("var/log/sa/sa28", "\u{96}d"),
        ("sos_commands/sar/sar28", C),
    ];
    let history = read(&host(&files)).unwrap();
    let binary: Vec<&str> = history.binary.iter().map(Name::as_str).collect();
    assert_eq!(binary, ["var/log/sa/sa27"]);
    assert_eq!(read(&host(&[("proc/meminfo", "")])), None);
    let other = read(&host(&[("sos_commands/sar/sar28", "sar: command not found")])).unwrap();
    assert_eq!((other.unread.len(), other.times), (1, 0));
}

#[test]
fn the_name_of_a_host_and_absurd_values_are_no_values() {
    let text = "Linux 5.14.0 (x) \t01/01/01 \t) \t11/28/26 \t_x86_64_\n\
                13:07:16 kbmemfree kbavail kbmemused\n13:07:17 1 -5 nan\n13:07:18 1 1e300 7\n\
                13:07:19 1 2\n13:07:20 1 2 3 4\n";
    let history = read(&host(&[("sos_commands/sar/sar28", text)])).unwrap();
    assert_eq!(history.times, 2);
    assert_eq!(history.least_available, None, "{history:?}");
}

/// A text of sar in which lines were replaced, repeated or cut.
fn any_damage() -> impl Strategy<Value = String> {
    let lines: Vec<&str> = C.lines().collect();
    let line = prop_oneof![
        6 => prop::sample::select(lines),
        1 => prop::sample::select(vec!["", "::::::::", "13:07:1é 5", "99:99:99", "12:00:00 AM", "Linux ", "Linux () "]),
    ];
    prop::collection::vec((line, any::<prop::sample::Index>(), any::<bool>()), 0..40).prop_map(
        |lines| {
            let cut = |(line, at, is_cut): &(&str, prop::sample::Index, bool)| {
                let end = if *is_cut { at.index(line.len() + 1) } else { line.len() };
                line.get(..end).unwrap_or(line).to_owned()
            };
            lines.iter().map(cut).collect::<Vec<String>>().join("\n")
        },
    )
}

proptest! {
    /// Whatever a text contains, it is read without a panic, and the worst time is one of the text.
    #[test]
    fn any_text_is_read(text in prop_oneof![any_damage(), any::<String>()]) {
        if let Some(history) = read(&host(&[("sos_commands/sar/sar28", &text)])) {
            for time in [history.least_available, history.most_waiting, history.most_swap] {
                let Some(time) = time else { continue };
                let clock = time.time.as_str().split(' ').next().unwrap().to_owned();
                prop_assert!(text.contains(&clock), "{clock}");
            }
        }
    }
}
