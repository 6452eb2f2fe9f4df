// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which line of a configuration file wins at boot, compared with the programs that apply them:
//! systemd-sysctl, `sysctl --system`, systemd-tmpfiles, `systemd-analyze cat-config` and
//! zram-generator, on generated folders of files in a guest with systemd.
//!
//! The files are generated with a fixed seed: the same name in several folders, masks, links that
//! lead nowhere or to themselves, binary bytes, lines that end in a carriage return or a zero byte,
//! files without a suffix, patterns, excluded settings and duplicate lines.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::boot::{SAY, answer, finish, lab};
use crate::generator_table::FILES;

/// Folders in systemd's order of precedence; the last one is for files of packages.
const FOLDERS: [&str; 4] = ["/etc", "/run", "/usr/local/lib", "/usr/lib"];
const ROUNDS: u64 = 6;
/// The settings in the generated files: each accepts any number from 1 to 90.
const KNOBS: [&str; 5] =
    ["swappiness", "dirty_ratio", "dirty_background_ratio", "vfs_cache_pressure", "stat_interval"];

/// A pseudo-random sequence that is the same in every run.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    pub(crate) fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}

/// Shell commands that create the files of one round.
fn files(draw: &mut Draw) -> String {
    let mut script = String::new();
    for kind in ["sysctl.d", "tmpfiles.d"] {
        for folder in FOLDERS {
            writeln!(script, "mkdir -p {folder}/{kind}").unwrap();
            for name in ["10-a", "20-b", "50-c", "50-d", "90-e", "B-f", "zz-g"] {
                if draw.below(3) > 0 {
                    let suffix = if draw.below(8) == 0 { "" } else { ".conf" };
                    let path = format!("{folder}/{kind}/made-{name}{suffix}");
                    script.push_str(&file(draw, kind, &path));
                }
            }
        }
    }
    script
}

fn file(draw: &mut Draw, kind: &str, path: &str) -> String {
    match draw.below(12) {
        0 => format!("ln -sf /dev/null {path}\n"),
        1 => format!(": > {path}\n"),
        2 => format!("printf '\\001\\377\\000x=1\\n' > {path}\n"),
        // both end a line for systemd, also that of a comment
        3 => {
            let (end, hidden) = (draw.one(&["\\r", "\\000", "\\r\\n"]), line(draw, kind));
            let (hidden, more) =
                (hidden.replace('\\', "\\\\"), line(draw, kind).replace('\\', "\\\\"));
            format!("printf '# made up{end}{hidden}{end}{more}\\n' > {path}\n")
        }
        _ => {
            let lines: Vec<String> = (0..=draw.below(3)).map(|_| line(draw, kind)).collect();
            format!("cat > {path} <<'END'\n# made up\n\n{}\nEND\n", lines.join("\n"))
        }
    }
}

fn line(draw: &mut Draw, kind: &str) -> String {
    let value = 1 + draw.below(90);
    let knob = draw.one(&KNOBS);
    if kind == "sysctl.d" {
        return match draw.below(10) {
            0 => format!("vm.dirty_*ratio = {value}"),
            1 => format!("-vm.{knob}"),
            2 => format!("-vm/{knob}={value}"),
            3 => format!("; vm.{knob}={value}"),
            _ => format!("vm.{knob} = {value}"),
        };
    }
    let path = match draw.below(8) {
        0 => "/proc/sys/vm/dirty_*ratio".to_owned(),
        _ => format!("/proc/sys/vm/{knob}"),
    };
    match draw.below(8) {
        0 => format!("w+ {path} - - - - {value}"),
        1 => format!("w! {path} - - - - {value}"),
        2 => format!("w \"{path}\" - - - - {value}\\n"),
        3 => format!("w {path}"),
        _ => format!("w {path} - - - - {value}"),
    }
}

/// One round: generates the files, runs each tool on them, and lets pagewise report the same files.
fn round(number: u64) -> String {
    let reset: String = KNOBS.iter().fold(String::new(), |mut all, knob| {
        writeln!(all, "echo 3 > /proc/sys/vm/{knob}").unwrap();
        all
    });
    let shown: String = KNOBS.iter().fold(String::new(), |mut all, knob| {
        write!(all, " /proc/sys/vm/{knob}").unwrap();
        all
    });
    let clean = "rm -f /*/sysctl.d/made-* /usr/lib/sysctl.d/made-* /usr/local/lib/sysctl.d/made-* \
                 /*/tmpfiles.d/made-* /usr/lib/tmpfiles.d/made-* /usr/local/lib/tmpfiles.d/made-*";
    format!(
        "{clean}\n{}get ours-{number} pagewise report --json --interval 0\n\
         say order-{number} systemd-analyze cat-config sysctl.d\n\
         say tmpfiles-order-{number} systemd-analyze cat-config tmpfiles.d\n\
         {reset}/usr/lib/systemd/systemd-sysctl > /tmp/said 2>&1\nsay sysctl-{number} cat{shown}\n\
         {reset}systemd-tmpfiles --create --boot > /tmp/said 2>&1\nsay tmpfiles-{number} cat{shown}\n\
         say system-{number} sysctl --system\n",
        files(&mut Draw(number))
    )
}

/// Runs zram-generator with a main file in each folder, one less each time, and then with drop-ins.
const GENERATOR: &str = r#"
rm -f /etc/systemd/zram-generator.conf
mkdir -p /usr/local/lib/systemd /run/systemd /tmp/out
ask() {
    rm -rf /tmp/out/*; /usr/lib/systemd/system-generators/zram-generator /tmp/out /tmp/out /tmp/out > /tmp/said 2>&1
    say generator-$1 sh -c 'cat /tmp/out/*.swap | grep Priority='
    get generator-ours-$1 pagewise report --json --interval 0
}
for folder in /usr/lib /usr/local/lib /etc /run; do
    n=$((${n:-0} + 1))
    printf '[zram0]\nzram-size = 64\nswap-priority = %s\n' $n > $folder/systemd/zram-generator.conf
    ask $n
done
for folder in /usr/lib /etc /run; do
    n=$(($n + 1)); mkdir -p $folder/systemd/zram-generator.conf.d
    printf '[zram0]\nswap-priority = %s\n' $n > $folder/systemd/zram-generator.conf.d/50-a.conf
    ask $n
done
ln -sf /dev/null /run/systemd/zram-generator.conf.d/50-a.conf
ask 8
"#;

/// Lines of fstab with a command line, for which systemd's generator makes units or does not; then a
/// unit that is masked.
const FSTAB: &str = r#"
mkdir -p /tmp/root/etc /tmp/root/proc; echo 'MemTotal: 300000 kB' > /tmp/root/proc/meminfo
fstab() {
    echo "$2" > /tmp/root/proc/cmdline; printf '%s\n' "$3" > /tmp/root/etc/fstab
    rm -rf /tmp/out; mkdir -p /tmp/out
    SYSTEMD_PROC_CMDLINE="$2" SYSTEMD_FSTAB=/tmp/root/etc/fstab \
        /usr/lib/systemd/system-generators/systemd-fstab-generator /tmp/out /tmp/out /tmp/out > /tmp/said 2>&1
    say fstab-$1 sh -c 'cd /tmp/out && ls -d swap.target.*/*.swap'
    get fstab-ours-$1 pagewise report --json --interval 0 --only owners --root /tmp/root
}
"#;

/// The command line and the line of fstab of each case.
const SWAP_LINES: [(&str, &str); 12] = [
    ("quiet", "/dev/vdz none swap sw 0 0"),
    ("quiet", "/dev/vdz none swap sw,noauto 0 0"),
    ("quiet", "/dev/vdz swap swap defaults,nofail,pri=7"),
    ("quiet", "/var/lib/a-b none swap pri=7 0 0"),
    ("quiet", "UUID=1-2 none swap sw 0 0"),
    ("quiet", "# /dev/vdz none swap sw 0 0"),
    ("systemd.swap=no", "/dev/vdz none swap sw 0 0"),
    ("systemd.swap=0 systemd.swap=1", "/dev/vdz none swap sw 0 0"),
    ("systemd.swap", "/dev/vdz none swap sw 0 0"),
    ("fstab=no", "/dev/vdz none swap sw 0 0"),
    ("systemd.swap=off", "/dev/vdz none swap sw 0 0"),
    ("systemd-swap=no systemd_swap=no", "/dev/vdz none swap sw 0 0"),
];

const MASK: &str = r"
echo '/dev/vdz none swap nofail 0 0' > /etc/fstab
ln -s /dev/null /etc/systemd/system/dev-vdz.swap; systemctl daemon-reload
say mask systemctl show --property LoadState --value dev-vdz.swap
get mask-ours pagewise report --json --interval 0 --only owners
";

/// How many lines about swap fstab applies.
fn fstab_lines(document: &Value) -> usize {
    let owners = document["owners"].as_array().unwrap().iter();
    let lines = owners.flat_map(|it| it["owners"].as_array().unwrap());
    lines.filter(|line| line["mechanism"] == "fstab" && line["effect"]["is"] == "applied").count()
}

#[test]
fn guest_systemd_swap_of_fstab_is_what_systemd_makes_of_it() {
    let mut script = format!("{SAY}{FSTAB}");
    for (number, (words, line)) in SWAP_LINES.iter().enumerate() {
        writeln!(script, "fstab {number} '{words}' '{line}'").unwrap();
    }
    script.push_str(MASK);
    let options = ["--quiet", "--userland=systemd", "--memory", "384M", "--deadline", "9m"];
    let ran = finish(&mut lab(&[&options[..], &["--", "sh", "-c", &script]].concat()));
    let session = format!("{}\n{}", ran.out, ran.err);
    let mut made = 0;
    for (number, case) in SWAP_LINES.iter().enumerate() {
        let theirs = answer(&session, &format!("fstab-{number}")).0;
        let theirs = theirs.lines().filter(|line| line.ends_with(".swap")).count();
        let ours = fstab_lines(&document(&session, &format!("fstab-ours-{number}")));
        assert_eq!(ours, theirs, "{case:?}");
        made += theirs;
    }
    assert!((3..SWAP_LINES.len()).contains(&made), "{made} units");
    assert_eq!(answer(&session, "mask").0.trim(), "masked");
    let masked = document(&session, "mask-ours");
    assert!(masked.to_string().contains("dev-vdz.swap is masked"), "{masked}");
}

fn document(session: &str, name: &str) -> Value {
    let (text, status) = answer(session, name);
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{name} ({status}): {error}: {text}"))
}

/// The lines of generated files that one mechanism applies for one setting, in order: path and
/// value.
fn applied(document: &Value, target: &str, mechanism: &str) -> Vec<(String, String)> {
    let owners = document["owners"].as_array().unwrap();
    let lines = owners.iter().filter(|it| it["target"] == target);
    let lines = lines.flat_map(|it| it["owners"].as_array().unwrap());
    let is_it = |line: &&Value| line["mechanism"] == mechanism && line["effect"]["is"] == "applied";
    lines
        .filter(is_it)
        .map(|line| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let (at, value) = (text(&line["value"]["at"]), text(&line["value"]["value"]));
            (at.rsplit_once(':').map_or(at.clone(), |(path, _)| path.to_owned()), value)
        })
        .collect()
}

/// Compares each setting after a tool has run with the value of the last line in our order.
#[track_caller]
fn assert_values(session: &str, ours: &Value, tool: &str, mechanism: &str, round: u64) -> usize {
    let printed = answer(session, &format!("{tool}-{round}")).0;
    let mut compared = 0;
    for (knob, running) in KNOBS.iter().zip(printed.lines()) {
        let lines = applied(ours, &format!("vm.{knob}"), mechanism);
        let expected = lines.last().map_or("3", |(_, value)| value.as_str());
        assert_eq!(running, expected, "round {round}, {tool}, {knob}: {lines:?}");
        compared += usize::from(lines.len() > 1);
    }
    compared
}

/// The generated files that a tool names in lines starting with `mark`, in its order.
fn named(session: &str, name: &str, mark: &str) -> Vec<String> {
    let lines = answer(session, name).0.lines();
    let paths = lines.filter_map(|line| line.strip_prefix(mark)?.split_whitespace().next());
    paths.filter(|path| path.contains("/made-")).map(str::to_owned).collect()
}

/// Checks our order of files: the paths of our lines are in the order of the tool's list, which
/// contains each.
#[track_caller]
fn assert_order(ours: &Value, mechanism: &str, listed: &[String], what: &str) {
    for knob in KNOBS {
        // a pattern is applied before a name, wherever it is in the files
        let lines = applied(ours, &format!("vm.{knob}"), mechanism);
        let place = |path: &String| listed.iter().position(|known| known == path);
        let places: BTreeMap<&String, Option<usize>> =
            lines.iter().map(|(path, _)| (path, place(path))).collect();
        assert!(places.values().all(Option::is_some), "{what}: {places:?} in {listed:?}");
    }
}

#[test]
fn guest_systemd_owners_of_settings_are_those_of_the_real_tools() {
    let rounds: String = (0..ROUNDS).map(round).collect();
    let script = format!("{SAY}{rounds}{GENERATOR}");
    let options = ["--quiet", "--userland=systemd", "--memory", "384M", "--deadline", "9m"];
    let ran = finish(&mut lab(&[&options[..], &["--", "sh", "-c", &script]].concat()));
    let session = format!("{}\n{}", ran.out, ran.err);
    let mut compared = 0;
    for number in 0..ROUNDS {
        let ours = document(&session, &format!("ours-{number}"));
        compared += assert_values(&session, &ours, "sysctl", "sysctl", number);
        compared += assert_values(&session, &ours, "tmpfiles", "tmpfiles", number);
        let listed = named(&session, &format!("order-{number}"), "# ");
        assert_order(&ours, "sysctl", &listed, "cat-config sysctl.d");
        let listed = named(&session, &format!("tmpfiles-order-{number}"), "# ");
        assert_order(&ours, "tmpfiles", &listed, "cat-config tmpfiles.d");
        // procps's sysctl also orders files by name, but for equal names it may prefer another
        // folder
        let names = |paths: Vec<String>| -> Vec<String> {
            let name = |path: String| path.rsplit('/').next().unwrap_or_default().to_owned();
            paths.into_iter().map(name).collect()
        };
        let system = names(named(&session, &format!("system-{number}"), "* Applying "));
        let listed = names(named(&session, &format!("order-{number}"), "# "));
        let has = |name: &&String| system.contains(name);
        let in_both: Vec<&String> = listed.iter().filter(has).collect();
        assert_eq!(in_both, system.iter().collect::<Vec<_>>(), "sysctl --system, round {number}");
        assert!(system.len() > 2, "{system:?}");
    }
    assert!(compared > 20, "only {compared} settings had several lines");
    for number in 1..=8 {
        let ours = document(&session, &format!("generator-ours-{number}"));
        let lines = applied(&ours, "swap /dev/zram0", "zram-generator");
        let priority = answer(&session, &format!("generator-{number}")).0;
        let expected = priority.trim().strip_prefix("Priority=").unwrap_or_default();
        assert_eq!(lines.last().map_or("", |(_, value)| value), expected, "{number}: {lines:?}");
    }
}

/// Gives each file of the table to zram-generator, with 2,000 MB of memory, and prints its number if
/// it is accepted.
const ACCEPTED: &str = r#"
root=/tmp/root; mkdir -p $root/etc/systemd $root/proc
echo 'MemTotal: 2048000 kB' > $root/proc/meminfo; : > $root/proc/cmdline
export ZRAM_GENERATOR_ROOT=$root
try() {
    rm -rf /tmp/made; mkdir /tmp/made
    /usr/lib/systemd/system-generators/zram-generator /tmp/made /tmp/made /tmp/made > /dev/null 2>&1
    echo "$1 $?"
}
"#;

/// Each byte of a text in octal, for printf.
fn octal(text: &str) -> String {
    text.bytes().fold(String::new(), |mut all, byte| {
        write!(all, "\\{byte:03o}").unwrap();
        all
    })
}

/// zram-generator itself accepts and refuses the files that the table says.
fn assert_generator_agrees(userland: &str) {
    let mut script = ACCEPTED.to_owned();
    for (number, (text, _)) in FILES.iter().enumerate() {
        let text = octal(text);
        writeln!(script, "printf '{text}' > $root/etc/systemd/zram-generator.conf; try {number}")
            .unwrap();
    }
    let userland = format!("--userland={userland}");
    let options = ["--quiet", &userland, "--memory", "384M", "--deadline", "9m"];
    let ran = finish(&mut lab(&[&options[..], &["--", "sh", "-c", &script]].concat()));
    let answers: BTreeMap<usize, i32> = ran
        .out
        .lines()
        .filter_map(|line| {
            let (number, status) = line.split_once(' ')?;
            Some((number.parse().ok()?, status.parse().ok()?))
        })
        .collect();
    assert_eq!(answers.len(), FILES.len(), "{} {}", ran.out, ran.err);
    let differs = |(number, (_, line)): &(usize, &(&str, Option<usize>))| {
        (answers[number] == 0) != line.is_none()
    };
    let differing: Vec<_> = FILES.iter().enumerate().filter(differs).collect();
    assert!(differing.is_empty(), "{userland}: {differing:#?}");
    // a program that cannot be started refuses all
    assert!(answers.values().any(|status| *status == 0), "{userland}: nothing is accepted");
}

#[test]
fn guest_systemd_zram_generator_of_bookworm_refuses_what_we_refuse() {
    assert_generator_agrees("systemd/bookworm");
}

#[test]
fn guest_systemd_zram_generator_of_trixie_refuses_what_we_refuse() {
    assert_generator_agrees("systemd");
}
