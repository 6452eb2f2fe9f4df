// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the configuration of tools that set up zram devices as swap: zram-generator
//! (`zram-generator.conf`) and zram-tools (`/etc/default/zramswap`).
//!
//! zram-generator reads one main file, from the first folder that contains one, and then all
//! drop-ins in the order of their names. The order of its folders differs from systemd's: `/run`
//! comes before `/etc`. Sizes are numbers of MiB or expressions such as `min(ram / 2, 4096)`, which
//! are not evaluated here.
//!
//! zram-tools uses a single device, `zram0`. `PERCENT` overrides `SIZE`, which is in MiB.

use pagewise_hostfs::text::{Line, Text, words};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues, absolute_path};
use pagewise_model::{
    Effect, Mechanism, Name, PersistentSetting, Reading, RefusedLine, Source, Target,
};

use crate::collector::{Collector, parse_section, split_assignment};
use crate::conf_files::list_in_order;
use crate::generator_file::{self, SyntaxError};

/// Folders with zram-generator's files; of files with the same name, the one in the earlier folder
/// is read.
const FOLDERS: [&str; 4] =
    ["run/systemd", "etc/systemd", "usr/local/lib/systemd", "usr/lib/systemd"];
/// Name of zram-generator's main file. Drop-ins are in a folder of the same name with the suffix
/// `.d`.
pub const GENERATOR_FILE: &str = "zram-generator.conf";
/// The program of zram-generator, which generates units at boot.
pub const GENERATOR: &str = "usr/lib/systemd/system-generators/zram-generator";
/// The configuration file of zram-tools.
pub const ZRAM_TOOLS: &str = "etc/default/zramswap";
pub(crate) const ZRAMSWAP: &str = "etc/systemd/system/multi-user.target.wants/zramswap.service";
/// Keys in zram-generator's files that are not in the table of settings.
const OPTIONS: [&str; 5] =
    ["host-memory-limit", "mount-point", "fs-type", "options", "memory-limit"];

/// Returns the paths at which zram-generator looks for its main file; earlier ones take precedence.
#[must_use]
pub fn generator_files() -> [String; 4] {
    FOLDERS.map(|folder| format!("{folder}/{GENERATOR_FILE}"))
}

/// Whether a path is zram-generator's main file or a drop-in.
#[must_use]
pub fn is_generator_file(path: &str) -> bool {
    let is_drop_in = |file: &String| {
        path.strip_prefix(file.as_str()).is_some_and(|rest| rest.starts_with(".d/"))
    };
    generator_files().iter().any(|file| path == file || is_drop_in(file))
}

/// Reads the settings in zram-generator's files, and the line because of which it rejects them all.
pub(crate) fn read_generator(host: &HostRoot) -> (Vec<PersistentSetting>, Option<RefusedLine>) {
    let mut all = Collector::new(host, Mechanism::ZramGenerator);
    let mains = generator_files();
    let mut found = mains.iter().filter(|path| host.exists(path));
    let main = found.next();
    let drop_ins = FOLDERS.map(|folder| format!("{folder}/{GENERATOR_FILE}.d"));
    let drop_ins = list_in_order(host, &drop_ins, ".conf");
    let mut general = generator_effect(host);
    let mut refused = None;
    if general == Effect::Applied {
        let read = drop_ins.iter().filter(|file| file.effect() == Effect::Applied);
        let read = main.map(String::as_str).into_iter().chain(read.map(|file| file.path.as_str()));
        refused = find_refused(host, read);
        if let Some(refused) = &refused {
            let place = &refused.line.source;
            let why = format!("zram-generator refuses all its files: {place}: {}", refused.why);
            general = Effect::Ignored(why.into());
        }
    }
    if let Some(main) = main {
        read_generator_file(&mut all, main, &general);
    }
    for file in drop_ins {
        read_generator_file(
            &mut all,
            &file.path,
            &more_restrictive_effect(&general, file.effect()),
        );
    }
    for hidden in found {
        let why = format!("/{} is read instead", main.map_or("", String::as_str));
        read_generator_file(
            &mut all,
            hidden,
            &more_restrictive_effect(&general, Effect::Ignored(why.into())),
        );
    }
    (all.finish(), refused)
}

/// Returns the first line in these files that makes zram-generator fail.
fn find_refused<'p>(host: &HostRoot, files: impl Iterator<Item = &'p str>) -> Option<RefusedLine> {
    let ram = ram_in_mebibytes(host);
    // names that `set!` defines in a file can be used in later files
    let mut variables = false;
    for path in files {
        let Ok(bytes) = host.bytes(path) else { continue };
        let check = |bytes: &[u8], variables: &mut bool| find_first_error(bytes, ram, variables);
        let Some(error) = check(&bytes, &mut variables) else { continue };
        let lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
        let line = *lines.get(error.line.checked_sub(1)?)?;
        let text = String::from_utf8_lossy(line).trim_end().to_owned();
        let candidates =
            [Some(text.trim_start()), generator_file::remove_comment(&text)].into_iter().flatten();
        let candidates = candidates.map(str::to_owned).chain([format!("# {}", text.trim_start())]);
        let is_mended = |candidate: &String| {
            let mut changed = lines.clone();
            if let Some(place) = changed.get_mut(error.line - 1) {
                *place = candidate.as_bytes();
            }
            check(&changed.join(&b'\n'), &mut variables.clone()).is_none()
        };
        let mended = candidates.into_iter().find(is_mended);
        let number = u32::try_from(error.line).unwrap_or(u32::MAX);
        let source = Source::line(absolute_path(path), number);
        return Some(RefusedLine {
            line: Reading::found(Name::from(text.as_str()), source),
            why: error.what,
            mended: mended.map(|line| Name::from(line.as_str())),
        });
    }
    None
}

/// Returns the first line of a file that zram-generator rejects, because of its form or its value.
pub(crate) fn find_first_error(
    bytes: &[u8],
    ram: Option<f64>,
    variables: &mut bool,
) -> Option<SyntaxError> {
    let assignments = match generator_file::parse(bytes) {
        Ok(assignments) => assignments,
        Err(error) => return Some(error),
    };
    *variables |= assignments.iter().any(|it| it.section.is_none() && it.key.starts_with("set!"));
    // of several options with the same name, versions 1.1 and 1.2 use only the last one
    let is_last = |at: usize, it: &generator_file::Assignment| {
        let mut later = assignments.iter().skip(at + 1);
        !later.any(|later| later.section == it.section && later.key == it.key)
    };
    let of_devices = assignments.iter().enumerate().filter(|(at, it)| {
        let is_device =
            it.section.as_ref().is_some_and(|name| parse_zram_section(name.as_bytes()).is_some());
        is_device && is_last(*at, it)
    });
    let of_devices = of_devices.map(|(_, it)| it);
    let error = |it: &generator_file::Assignment| {
        let what = generator_file::explain_rejected_value(&it.key, &it.value, ram, *variables)?;
        Some(SyntaxError { line: it.line, what })
    };
    of_devices.into_iter().find_map(error)
}

/// Returns the size of RAM as zram-generator computes it.
fn ram_in_mebibytes(host: &HostRoot) -> Option<f64> {
    let text = host.text("proc/meminfo").ok()?;
    let of_line = |line: Line<'_>| {
        let mut words = line.words();
        (words.next()? == b"MemTotal:").then_some(())?;
        std::str::from_utf8(words.next()?).ok()?.parse::<u32>().ok()
    };
    text.lines().find_map(of_line).map(|kib| (f64::from(kib) / 1024.0).trunc())
}

/// Combines the effect of all files with that of one file. If no file is applied, that reason takes
/// precedence over the reason of the single file.
fn more_restrictive_effect(of_all: &Effect, of_file: Effect) -> Effect {
    if *of_all == Effect::Applied { of_file } else { of_all.clone() }
}

fn generator_effect(host: &HostRoot) -> Effect {
    if !host.exists(GENERATOR) {
        return Effect::Ignored("zram-generator is not installed".into());
    }
    let text = host.text(crate::modules::COMMAND_LINE).ok();
    let words = text.iter().flat_map(Text::lines).flat_map(|line| line.words());
    let is_off = |word: &[u8]| {
        word.strip_prefix(b"systemd.zram=")
            .is_some_and(|value| matches!(value, b"0" | b"no" | b"off" | b"false"))
    };
    let is_off = words.into_iter().any(is_off);
    match is_off.then_some("systemd.zram=0 on the kernel command line switches zram-generator off")
    {
        Some(why) => Effect::Ignored(why.into()),
        None => Effect::Applied,
    }
}

fn read_generator_file(all: &mut Collector<'_>, path: &str, effect: &Effect) {
    let assignments = all.host.bytes(path).ok().and_then(|it| generator_file::parse(&it).ok());
    let assignments = assignments.unwrap_or_default();
    let mut device: Option<String> = None;
    all.lines(path, |all, line| {
        if let Some(name) = parse_section(line.bytes) {
            device = parse_zram_section(name).map(str::to_owned);
            if let Some(device) = &device {
                all.add(Target::ZramDevice(Name::from(device.as_str())), b"set up", line, effect);
            }
        } else if let (Some(device), Some((key, value))) =
            (&device, parse_generator_line(line.bytes))
        {
            let number = line.source().line_number().and_then(|it| usize::try_from(it).ok());
            let as_read = assignments.iter().find(|it| Some(it.line) == number);
            let effect = more_restrictive_effect(effect, effect_of_line(key, value, as_read));
            let value = as_read.filter(|it| it.key == key).map_or(value, |it| it.value.as_bytes());
            add_generator_key(all, device, key, value, line, &effect);
        }
    });
}

/// Whether a line that zram-generator accepts sets what it seems to set.
fn effect_of_line(key: &str, value: &[u8], as_read: Option<&generator_file::Assignment>) -> Effect {
    if as_read.is_some_and(|it| it.key != key) {
        let why = "a line before it has no =, so zram-generator takes both lines for one name that it ignores";
        return Effect::Ignored(why.into());
    }
    let is_comment = |word: &[u8]| word.starts_with(b"#") || word.starts_with(b";");
    if key == "compression-algorithm" && words(value).any(is_comment) {
        let why = "zram-generator takes the comment for a part of the value, which then names no algorithm";
        return Effect::Ignored(why.into());
    }
    Effect::Applied
}

/// Parses the name of a section of zram-generator's files, such as `zram0`.
#[must_use]
pub fn parse_zram_section(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?;
    let digits = name.strip_prefix("zram")?;
    let is_number = (1..=4).contains(&digits.len()) && digits.bytes().all(|it| it.is_ascii_digit());
    is_number.then_some(name)
}

/// Parses a line of zram-generator's files into its key and value; `None` if the key is unknown.
#[must_use]
pub fn parse_generator_line(line: &[u8]) -> Option<(&'static str, &[u8])> {
    let (key, value) = split_assignment(line)?;
    let known =
        ["zram-size", "zram-fraction", "max-zram-size", "compression-algorithm", "swap-priority"]
            .into_iter()
            .chain(["zram-resident-limit", "writeback-device"])
            .chain(OPTIONS)
            .find(|known| known.as_bytes() == key)?;
    (!value.is_empty()).then_some((known, value))
}

fn add_generator_key(
    all: &mut Collector<'_>,
    device: &str,
    key: &'static str,
    value: &[u8],
    line: &Line<'_>,
    effect: &Effect,
) {
    let number = device.trim_start_matches("zram");
    let knob = |knob| Target::instance_of(knob, number);
    match key {
        "zram-size" => all.add(knob("zram.disksize"), &add_unit(value), line, effect),
        "zram-resident-limit" => all.add(knob("zram.mem_limit"), &add_unit(value), line, effect),
        "compression-algorithm" => all.add(knob("zram.comp_algorithm"), value, line, effect),
        "writeback-device" => all.add(knob("zram.backing_dev"), value, line, effect),
        "swap-priority" => {
            let area = Target::SwapArea(Name::from(format!("/dev/{device}").as_str()));
            all.add(area, value, line, effect);
        }
        other => {
            let name = format!("{device} {other}");
            all.add(Target::Parameter(Name::from(name.as_str())), value, line, effect);
        }
    }
}

/// Formats a size in the file of zram-tools with its unit. A plain number is in MiB; other values
/// are expressions.
fn add_unit(value: &[u8]) -> Vec<u8> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    if is_number { [value, b"M"].concat() } else { value.to_vec() }
}

pub(crate) fn read_zram_tools(host: &HostRoot) -> Vec<PersistentSetting> {
    let mut all = Collector::new(host, Mechanism::ZramTools);
    let is_on = host.exists(ZRAMSWAP);
    let effect = if is_on {
        Effect::Applied
    } else {
        Effect::Ignored("zramswap.service is not enabled".into())
    };
    all.lines(ZRAM_TOOLS, |all, line| {
        let Some((key, value)) = parse_zram_tools_line(line.bytes) else { return };
        let (target, value) = match key {
            "ALGO" => (Target::instance_of("zram.comp_algorithm", "0"), value.to_vec()),
            "SIZE" => (Target::instance_of("zram.disksize", "0"), [value, b"M"].concat()),
            "PERCENT" => (Target::instance_of("zram.disksize", "0"), [value, b"% of RAM"].concat()),
            _ => (Target::SwapArea(Name::from("/dev/zram0")), value.to_vec()),
        };
        all.add(target, &value, line, &effect);
    });
    let mut all = all.finish();
    // the percentage overrides the size, in whatever order they are written
    all.sort_by_key(|setting| setting.wanted().ends_with("% of RAM"));
    if is_on {
        let source = pagewise_model::Source::file(pagewise_hostfs::absolute_path(ZRAMSWAP));
        let value = pagewise_model::Reading::found(Name::from("set up"), source);
        let device = Target::ZramDevice(Name::from("zram0"));
        all.push(PersistentSetting::applied(Mechanism::ZramTools, device, value));
    }
    all
}

/// Parses a line of zram-tools' file such as `ALGO=zstd`, as the shell does.
#[must_use]
pub fn parse_zram_tools_line(line: &[u8]) -> Option<(&'static str, &[u8])> {
    let (key, value) = split_assignment(line)?;
    let key = key.strip_prefix(b"export ").unwrap_or(key).trim_ascii();
    let key =
        ["ALGO", "SIZE", "PERCENT", "PRIORITY"].into_iter().find(|it| it.as_bytes() == key)?;
    let value = value.split(|&byte| byte == b'#').next().unwrap_or_default().trim_ascii();
    let quotes = |byte: &u8| matches!(byte, b'"' | b'\'');
    let value = value.strip_prefix(b"\"").or(value.strip_prefix(b"'")).unwrap_or(value);
    let value = if value.last().is_some_and(quotes) { &value[..value.len() - 1] } else { value };
    (!value.is_empty()).then_some((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{host, show_all};

    #[test]
    fn all_keys_of_all_sections_and_the_folder_of_run_comes_first() {
        let host = host([
            (GENERATOR, ""),
            (
                "run/systemd/zram-generator.conf",
                "[zram0]\nzram-size = ram / 2\nswap-priority=100\n",
            ),
            ("etc/systemd/zram-generator.conf", "[zram0]\nzram-size = 4096\n"),
            (
                "usr/lib/systemd/zram-generator.conf.d/10.conf",
                "[other]\nzram-size=1\n[zram1]\ncompression-algorithm = zstd(level=3) lz4\n\
                 fs-type=ext4\nunknown=1\nzram-resident-limit=512\n#swap-priority=1\n",
            ),
        ]);
        let main = "/run/systemd/zram-generator.conf";
        let drop_in = "/usr/lib/systemd/zram-generator.conf.d/10.conf";
        let hidden = "/etc/systemd/zram-generator.conf";
        let ignored = format!("ignored: {main} is read instead");
        assert_eq!(
            show_all(&read_generator(&host).0),
            [
                format!("zram0 set up {main}:1"),
                format!("zram.disksize[0] ram / 2 {main}:2"),
                format!("swap /dev/zram0 100 {main}:3"),
                format!("zram1 set up {drop_in}:3"),
                format!("zram.comp_algorithm[1] zstd(level=3) lz4 {drop_in}:4"),
                format!("zram1 fs-type ext4 {drop_in}:5"),
                format!("zram.mem_limit[1] 512M {drop_in}:7"),
                format!("zram0 set up {hidden}:1 {ignored}"),
                format!("zram.disksize[0] 4096M {hidden}:2 {ignored}"),
            ]
        );
    }

    #[test]
    fn without_the_generator_or_its_service_nothing_reads_the_files() {
        let files = [
            ("etc/systemd/zram-generator.conf", "[zram0]\nzram-size = 100\n"),
            (ZRAM_TOOLS, "#ALGO=lz4\nPERCENT=\"50\"\nSIZE=256 # MiB\nPRIORITY=10\n"),
        ];
        let host = host(files);
        assert!(
            read_generator(&host)
                .0
                .iter()
                .all(|it| it.effect == Effect::Ignored("zram-generator is not installed".into()))
        );
        let why = "ignored: zramswap.service is not enabled";
        assert_eq!(
            show_all(&read_zram_tools(&host)),
            [
                format!("zram.disksize[0] 256M /etc/default/zramswap:3 {why}"),
                format!("swap /dev/zram0 10 /etc/default/zramswap:4 {why}"),
                format!("zram.disksize[0] 50% of RAM /etc/default/zramswap:2 {why}"),
            ]
        );
    }

    #[test]
    fn an_enabled_service_owns_its_device_without_any_line() {
        let host = host([(ZRAMSWAP, "")]);
        assert_eq!(show_all(&read_zram_tools(&host)), [format!("zram0 set up /{ZRAMSWAP}")]);
    }

    #[test]
    fn a_line_that_the_generator_refuses_takes_all_its_files_with_it() {
        let main = "[zram0]\nzram-size = ram / 2 # half\ncompression-algorithm = zstd\n";
        let drop_in = "etc/systemd/zram-generator.conf.d/1.conf";
        let host = host([
            (GENERATOR, ""),
            ("proc/meminfo", "MemTotal: 1000000 kB\n"),
            ("etc/systemd/zram-generator.conf", main),
            (drop_in, "[zram1]\n"),
        ]);
        let (settings, refused) = read_generator(&host);
        let refused = refused.expect("the comment is part of the size");
        assert_eq!(refused.line.source.to_string(), "/etc/systemd/zram-generator.conf:2");
        assert_eq!(refused.mended.unwrap().as_str(), "zram-size = ram / 2");
        assert_eq!(settings.len(), 4);
        assert!(settings.iter().all(|it| !it.is_applied()), "{settings:?}");
    }

    #[test]
    fn a_stray_line_is_mended_as_a_comment_or_hides_the_next_line() {
        let file = "etc/systemd/zram-generator.conf";
        let refused = read_generator(&host([(GENERATOR, ""), (file, "[zram0]\n`\n")])).1.unwrap();
        assert_eq!(refused.mended.unwrap().as_str(), "# `");
        let hidden = host([(GENERATOR, ""), (file, "[zram0]\nstray\nzram-size = 5\n")]);
        let (settings, refused) = read_generator(&hidden);
        assert!(refused.is_none());
        let size = settings.iter().find(|it| it.target.knob() == Some("zram.disksize")).unwrap();
        assert!(!size.is_applied());
    }

    #[test]
    fn the_command_line_switches_the_generator_off() {
        let host = host([
            (GENERATOR, ""),
            ("proc/cmdline", "quiet systemd.zram=0\n"),
            ("etc/systemd/zram-generator.conf", "[zram0]\n"),
        ]);
        assert!(matches!(read_generator(&host).0[0].effect, Effect::Ignored(_)));
    }
}
