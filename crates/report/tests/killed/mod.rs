// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Texts about kills: of today, of yesterday, and at an unknown time.

use std::sync::LazyLock;

use pagewise_model::{
    Name, OomEvent, OomExplanation, OomFact, Source, WhatIf, WhatIfEffect, WhatIfKind,
};
use pagewise_report::OomFound;

const ENDED: f64 = 1_795_183_111.4;

pub(crate) fn explained() -> Vec<OomExplanation> {
    let fact = |label, text: &str| OomFact { label, text: text.to_owned() };
    let what_if = |change: &str, effect, because: &str| WhatIf {
        change: change.to_owned(),
        kind: WhatIfKind::Other,
        size: None,
        effect,
        seconds_later: None,
        because: because.to_owned(),
    };
    let today = OomExplanation {
        source: Source::line("/dev/kmsg", 17_611),
        unix_seconds: Some(ENDED),
        stamp: None,
        title: "nginx (pid 980) was killed by the limit of /system.slice/web.service (64.0 MiB), not \
                because the machine ran out"
            .to_owned(),
        facts: vec![
            fact("the group held", "anon 58.0 MiB, shmem 4.0 MiB, swap 0 B of 0 B"),
            fact("who held it", "nginx 980: 41.0 MiB · nginx 981: 17.0 MiB and 1.0 MiB in swap · 3 smaller: 5.0 MiB"),
            fact("why no swap", "the group may not use any: memory.swap.max was 0, although 3.9 GiB of swap are free now"),
        ],
        change: vec![
            "sudo systemctl set-property web.service MemorySwapMax=infinity  # writes; lasts; undo with sudo systemctl set-property web.service MemorySwapMax=0".to_owned(),
            "pagewise scan --cgroup /system.slice/web.service  # what compressing its memory would free".to_owned(),
        ],
        what_if: vec![
            what_if("a limit of 112.0 MiB for /system.slice/web.service", WhatIfEffect::Avoided, "if nginx (pid 980) took no more than was mapped: 40.0 MiB were mapped and not used yet, and there would have been room for 48.0 MiB more"),
            what_if("without nginx (pid 980), which held 41.0 MiB", WhatIfEffect::NotKnown, "one report does not show how fast the others grew"),
        ],
    };
    let earlier = OomExplanation {
        source: Source::line("/dev/kmsg", 12_001),
        unix_seconds: Some(ENDED - 90_000.0),
        stamp: None,
        title: "java (pid 77) was killed because the whole machine ran out of memory".to_owned(),
        facts: vec![fact("why no swap", "the machine had none")],
        change: vec!["pagewise scan  # what compressing memory would free".to_owned()],
        what_if: Vec::new(),
    };
    let unknown = OomExplanation {
        unix_seconds: None,
        stamp: None,
        facts: Vec::new(),
        title: "x (pid 5) was killed for lack of memory; the kernel printed no report beside it"
            .to_owned(),
        ..earlier.clone()
    };
    vec![today, earlier, unknown]
}

/// A command that may show the part of the log that was overwritten.
pub(crate) fn elsewhere() -> Vec<String> {
    let command = "sudo journalctl --dmesg --boot --grep 'oom-kill:|Killed process'  # this boot, as far \
                   back as journald keeps it";
    vec![command.to_owned()]
}

/// A kill by the kernel and one by a program whose time is not known.
static TIME_LINE: LazyLock<Vec<OomEvent>> = LazyLock::new(|| {
    let of_kernel = OomEvent {
        source: Source::line("/dev/kmsg", 17_611),
        unix_seconds: Some(ENDED),
        by: "kernel",
        victim: Name::from("nginx"),
        pid: Some(980),
        rule: "limit of /system.slice/web.service (64.0 MiB)".to_owned(),
        unit: Some(Name::from("web.service")),
        ..OomEvent::default()
    };
    let of_program = OomEvent {
        source: Source::line("/var/log/journal", 88),
        by: "systemd-oomd",
        victim: Name::from("/user.slice/user-1000.slice/user@1000.service/app.slice/editor.scope"),
        rule: "swap used above 90.00%".to_owned(),
        ..OomEvent::default()
    };
    vec![of_kernel, of_program]
});

/// Everything that `oom` can explain, with the same explanations in each place.
pub(crate) fn found(explained: &[OomExplanation]) -> OomFound<'_> {
    OomFound {
        explained,
        failures: explained,
        hung: explained,
        programs: explained,
        time_line: &TIME_LINE,
    }
}
