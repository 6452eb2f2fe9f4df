// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads udev rules that set up zram devices (`ATTR{disksize}="4G"`) or set a sysctl
//! (`SYSCTL{vm.swappiness}="150"`).
//!
//! A rule applies to devices that match its conditions. It is not known here which devices will
//! appear. A rule that matches a zram device by kernel name, action, subsystem or driver counts as
//! applied. The effect of a rule with other conditions is unknown, and so is that of a rule which
//! an earlier `GOTO` may skip.

use pagewise_hostfs::HostRoot;
use pagewise_hostfs::text::{Line, lines};
use pagewise_model::{Effect, Mechanism, Name, PersistentSetting, Target};

use crate::collector::Collector;
use crate::conf_files::{list_in_order, systemd_folders};
use crate::plain::is_plain;
use crate::{knob_path, sysctl};

pub(crate) fn read(host: &HostRoot) -> Vec<PersistentSetting> {
    let mut all = Collector::new(host, Mechanism::Udev);
    for file in list_in_order(host, &systemd_folders("udev/rules.d"), ".rules") {
        let effect = file.effect();
        let mut rule = Vec::new();
        let mut is_rule_too_long = false;
        let mut is_line_too_long = false;
        let before = all.len();
        // labels that rules may jump to and that were not reached yet
        let mut jumps: Vec<String> = Vec::new();
        all.lines_with(&WORDS, &file.path, |all, line| {
            is_line_too_long |= line.bytes.len() >= MAX_RULE;
            let text = line.bytes.trim_ascii();
            // udev skips a comment even between a line and its continuation
            if is_line_too_long || text.starts_with(b"#") {
                return;
            }
            let is_continued = text.ends_with(b"\\");
            is_rule_too_long |= rule.len() + text.len() >= MAX_RULE;
            if !is_rule_too_long {
                rule.extend_from_slice(text.strip_suffix(b"\\").unwrap_or(text));
            }
            if is_continued {
                return;
            }
            if std::mem::take(&mut is_rule_too_long) {
                rule.clear();
                return;
            }
            let (to, label) = parse_jump(&rule);
            jumps.retain(|open| label.as_ref() != Some(open));
            let is_jumped = Effect::Unknown("a GOTO before the rule may jump over it".into());
            let may_apply = jumps.is_empty() || effect != Effect::Applied;
            add(all, line, &rule, if may_apply { &effect } else { &is_jumped });
            if jumps.len() < MAX_JUMPS {
                jumps.extend(to);
            }
            rule.clear();
        });
        if is_line_too_long {
            let why =
                "the file has a line of 16 KiB or more: some versions of udev read none of it";
            all.doubt_all_after(before, &Effect::Unknown(why.into()));
        }
    }
    all.finish()
}

/// Each rule that is relevant here contains one of these texts.
const WORDS: [&str; 2] = ["zram", "SYSCTL{"];

/// udev's maximum length of a rule in bytes, including its continuation lines; udev ignores a rule
/// of this length or more. If a single line has this length, udev reads no further in that file:
/// version 252 keeps the rules before the line, version 257 does not.
const MAX_RULE: usize = 16 << 10;

/// Maximum number of labels of one file that are kept.
const MAX_JUMPS: usize = 64;

/// Returns the label that a rule jumps to, and the label that the rule itself has.
fn parse_jump(text: &[u8]) -> (Option<String>, Option<String>) {
    let has_words =
        ["GOTO", "LABEL"].iter().any(|it| memchr::memmem::find(text, it.as_bytes()).is_some());
    let Ok(text) = std::str::from_utf8(text) else { return (None, None) };
    if !has_words || text.trim().starts_with('#') {
        return (None, None);
    }
    let tokens = tokens(text);
    let value =
        |key: &str| tokens.iter().find(|token| token.does_set(key)).map(|it| it.value.clone());
    let is_taken = !tokens.iter().any(excludes_zram);
    (value("GOTO").filter(|_| is_taken), value("LABEL"))
}

/// Whether a condition is false for all zram devices when they appear or get their size.
fn excludes_zram(token: &Token<'_>) -> bool {
    let is_one_of = |words: &[&str]| token.value.split('|').any(|value| words.contains(&value));
    match (token.key, token.operator) {
        ("KERNEL", "!=") => is_one_of(&["zram*", "zram[0-9]*", "zram?*"]),
        ("KERNEL", "==") => token.value.split('|').all(|value| {
            value.starts_with(|c: char| c.is_ascii_alphanumeric()) && !value.starts_with('z')
        }),
        ("SUBSYSTEM", "!=") => is_one_of(&["block"]),
        ("ACTION", "!=") => is_one_of(&["add"]) && is_one_of(&["change"]),
        ("ACTION", "==") => !is_one_of(&["add", "change"]) && !token.value.contains(['*', '?']),
        _ => false,
    }
}

fn add(all: &mut Collector<'_>, line: &Line<'_>, text: &[u8], effect: &Effect) {
    let Some(rule) = parse_rule(text) else { return };
    let effect = if *effect == Effect::Applied { &rule.effect } else { effect };
    for device in &rule.makes {
        let device = Name::from(format!("zram{device}").as_str());
        all.add(Target::ZramDevice(device), rule.size.as_bytes(), line, effect);
    }
    for (target, value) in rule.sets {
        all.add(target, value.as_bytes(), line, effect);
    }
}

/// The settings that one udev rule sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// Numbers of the zram devices whose size the rule sets; patterns are not included.
    pub makes: Vec<String>,
    /// The size that the rule sets for these devices.
    pub size: String,
    /// The settings that the rule sets, with their values.
    pub sets: Vec<(Target, String)>,
    /// Whether the rule is applied, according to its conditions.
    pub effect: Effect,
}

/// One part of a rule: `KEY{attribute}=="value"`.
#[derive(Debug, PartialEq, Eq)]
struct Token<'a> {
    key: &'a str,
    attribute: &'a str,
    operator: &'a str,
    value: String,
}

impl Token<'_> {
    fn is_match(&self) -> bool {
        matches!(self.operator, "==" | "!=")
    }

    fn does_set(&self, key: &str) -> bool {
        self.key == key && matches!(self.operator, "=" | ":=")
    }
}

/// Parses a udev rule; returns `None` if it sets no setting of the table.
#[must_use]
pub fn parse_rule(text: &[u8]) -> Option<Rule> {
    if !has_words(text) {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?.trim();
    if text.starts_with('#') {
        return None;
    }
    let tokens = tokens(text);
    let devices = devices(&tokens);
    let mut rule = Rule { effect: judge_conditions(&tokens), ..Rule::default() };
    for token in &tokens {
        if token.does_set("SYSCTL") {
            let targets = sysctl::targets_of(token.attribute).into_iter();
            rule.sets.extend(targets.map(|target| (target, token.value.clone())));
        } else if token.does_set("ATTR") {
            for device in &devices {
                let path = format!("sys/block/zram{device}/{}", token.attribute);
                let targets = knob_path::find_targets(&path).into_iter();
                rule.sets.extend(targets.map(|target| (target, token.value.clone())));
            }
            if token.attribute == "disksize" {
                let is_number = |device: &&String| device.bytes().all(|byte| byte.is_ascii_digit());
                rule.makes = devices.iter().filter(is_number).cloned().collect();
                rule.size.clone_from(&token.value);
            }
        }
    }
    (!rule.sets.is_empty()).then_some(rule)
}

fn has_words(text: &[u8]) -> bool {
    WORDS.iter().any(|word| memchr::memmem::find(text, word.as_bytes()).is_some())
}

/// Returns the texts after `zram` in the kernel names of the devices that the rule matches.
fn devices(tokens: &[Token<'_>]) -> Vec<String> {
    let named = tokens.iter().find(|token| token.key == "KERNEL" && token.operator == "==");
    let names = named.map_or("", |token| token.value.as_str()).split('|');
    let numbers = names.filter_map(|name| name.strip_prefix("zram"));
    numbers.filter(|number| !number.is_empty()).map(str::to_owned).take(64).collect()
}

/// Whether the conditions of a rule match a zram device when it appears or gets its size.
fn judge_conditions(tokens: &[Token<'_>]) -> Effect {
    let is_zram = |token: &Token<'_>| match (token.key, token.attribute) {
        ("KERNEL", _) => token.operator == "==" && token.value.starts_with("zram"),
        ("SUBSYSTEM", _) => matches!(token.value.as_str(), "block" | "module"),
        ("ACTION", _) => {
            let boots = ["add", "change"].iter().any(|action| token.value.contains(action));
            boots == (token.operator == "==")
        }
        ("DRIVER", _) => true,
        ("ATTR", "initstate" | "disksize") => true,
        _ => false,
    };
    let names_zram = tokens.iter().any(|token| token.is_match() && token.key == "KERNEL");
    let mut matches = tokens.iter().filter(|token| token.is_match());
    if names_zram && matches.all(is_zram) {
        return Effect::Applied;
    }
    Effect::Unknown("the rule has conditions that pagewise does not evaluate".into())
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut rest = text;
    let mut all = Vec::new();
    while let Some((token, after)) = parse_token(rest) {
        all.push(token);
        rest = after;
        if all.len() >= 256 {
            break;
        }
    }
    all
}

/// Parses one part of a rule, `KEY{attribute}=="value",`, and returns it with the remaining text.
fn parse_token(text: &str) -> Option<(Token<'_>, &str)> {
    let text = text.trim_start_matches([' ', '\t', ',']);
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
    let (key, mut rest) = text.split_at(end);
    let mut attribute = "";
    if let Some(inner) = rest.strip_prefix('{') {
        (attribute, rest) = inner.split_once('}')?;
    }
    rest = rest.trim_start();
    let operators = ["==", "!=", "+=", "-=", ":=", "="];
    let operator = operators.into_iter().find(|operator| rest.starts_with(operator))?;
    rest = rest[operator.len()..].trim_start();
    rest = rest.strip_prefix(['e', 'i']).filter(|it| it.starts_with('"')).unwrap_or(rest);
    let (value, rest) = parse_quoted(rest)?;
    (!key.is_empty()).then_some((Token { key, attribute, operator, value }, rest))
}

/// Parses a quoted text, in which `\"` stands for a quotation mark, and returns it with the
/// remaining text.
fn parse_quoted(text: &str) -> Option<(String, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut value = String::new();
    let mut chars = inner.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &inner[at + 1..])),
            '\\' if inner[at + 1..].starts_with('"') => {
                value.push('"');
                chars.next();
            }
            other => value.push(other),
        }
    }
    None
}

/// Returns the parts of a rule that a recording may contain: assignments to settings of the table,
/// and conditions about zram devices.
#[must_use]
pub fn keep_line(line: &[u8]) -> Option<Vec<u8>> {
    let continues = line.trim_ascii_end().ends_with(b"\\");
    let text =
        std::str::from_utf8(line.trim_ascii_end().trim_ascii()).ok()?.trim_end_matches('\\').trim();
    if text.starts_with('#') {
        return None;
    }
    let is_kernel = |name: &str| {
        let numbers = name.split('|').map(|name| name.strip_prefix("zram"));
        let is_pattern =
            |text: &str| text.bytes().all(|it| it.is_ascii_digit() || b"*?[]-".contains(&it));
        numbers.into_iter().all(|number| number.is_some_and(is_pattern))
    };
    let mut all = Vec::new();
    for token in tokens(text) {
        let is_sysctl = token.key == "SYSCTL" && !sysctl::targets_of(token.attribute).is_empty();
        let path = || format!("sys/block/zram0/{}", token.attribute);
        let is_attribute = token.key == "ATTR"
            && (token.attribute == "initstate" || !knob_path::find_targets(&path()).is_empty());
        let is_condition = match token.key {
            "KERNEL" => is_kernel(&token.value),
            "SUBSYSTEM" => matches!(token.value.as_str(), "block" | "module"),
            "ACTION" => token.value.split('|').all(|it| matches!(it, "add" | "change" | "remove")),
            "DRIVER" => token.value.is_empty(),
            _ => false,
        };
        if matches!(token.key, "GOTO" | "LABEL") {
            // in a recording, all labels have the same name
            all.push(format!("{}{}\"x\"", token.key, token.operator));
            continue;
        }
        let is_set = (is_sysctl || is_attribute) && is_plain(token.value.as_bytes());
        if is_set || is_condition {
            let attribute = match token.attribute {
                "" => String::new(),
                attribute => format!("{{{attribute}}}"),
            };
            all.push(format!("{}{attribute}{}\"{}\"", token.key, token.operator, token.value));
        } else if excludes_zram(&token) {
            all.push("KERNEL!=\"zram*\"".to_owned());
        } else if token.is_match() {
            // replaces a condition of another kind, so that the effect remains unknown
            all.push("ENV{x}==\"x\"".to_owned());
        }
    }
    let end = if continues { ", \\" } else { "" };
    (!all.is_empty()).then(|| format!("{}{end}", all.join(", ")).into_bytes())
}

/// Whether a file of udev rules contains a rule that is relevant here. Other files are left out of
/// recordings.
#[must_use]
pub fn is_of_interest(file: &[u8]) -> bool {
    lines(file).any(|line| {
        let is_comment = line.trim_ascii_start().starts_with(b"#");
        !is_comment && has_words(line)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{host, show_all};

    const ZRAM: &str = "KERNEL==\"zram0\", SUBSYSTEM==\"block\", ACTION==\"add\", \\\n  \
        ATTR{comp_algorithm}=\"zstd\", ATTR{disksize}=\"4G\", RUN+=\"/sbin/mkswap /dev/%k\"\n";

    #[test]
    fn a_rule_over_which_another_may_jump_is_not_known() {
        let rule = "KERNEL==\"zram0\", ATTR{disksize}=\"4G\"";
        let effect = |before: &str| {
            let text = format!("{before}\n{rule}\nLABEL=\"end\"\n");
            let kept: Vec<u8> =
                lines(text.as_bytes()).filter_map(keep_line).collect::<Vec<_>>().join(&b'\n');
            let read = |text: &[u8]| {
                let host = host([("etc/udev/rules.d/1.rules", text)]);
                show_all(&read(&host)).remove(0).split_once(" unknown: ").map(|it| it.1.to_owned())
            };
            let of_text = read(text.as_bytes());
            assert_eq!(of_text, read(&kept), "{before}");
            of_text.is_none()
        };
        for (before, is_applied) in [
            ("ENV{ID_X}==\"1\", GOTO=\"end\"", false),
            ("GOTO=\"end\"", false),
            ("# GOTO=\"end\"", true),
            ("GOTO=\"other\"\nLABEL=\"other\"", true),
            ("SUBSYSTEM!=\"block\", GOTO=\"end\"", true),
            ("ACTION!=\"add|change\", GOTO=\"end\"", true),
            ("ACTION==\"remove\", GOTO=\"end\"", true),
            ("KERNEL!=\"zram*\", GOTO=\"end\"", true),
            ("KERNEL==\"loop*|ram*\", GOTO=\"end\"", true),
            ("ACTION!=\"add\", GOTO=\"end\"", false),
        ] {
            assert_eq!(effect(before), is_applied, "{before}");
        }
    }

    #[test]
    fn a_rule_that_is_too_long_for_udev_sets_nothing() {
        let read = |text: String| show_all(&read(&host([("etc/udev/rules.d/1.rules", text)])));
        let rule = "KERNEL==\"zram0\", SYSCTL{vm.swappiness}=\"1\"";
        let padded = |length: usize| format!("{rule}{}", " ".repeat(length - rule.len()));
        assert_eq!(read(format!("{}\n{rule}\n", padded(MAX_RULE - 1))).len(), 2);
        let shown = read(format!("{rule}\n{}\n{rule}\n", padded(MAX_RULE)));
        assert_eq!(
            shown,
            [
                "vm.swappiness 1 /etc/udev/rules.d/1.rules:1 unknown: the file has a line of 16 KiB or \
              more: some versions of udev read none of it"
            ]
        );
        let half = format!("ENV{{x}}=\"{}\", \\\n", "a".repeat(MAX_RULE / 2));
        assert_eq!(read(format!("{half}{rule}\n{rule}\n")).len(), 2);
        assert_eq!(read(format!("{half}{half}{rule}\n{rule}\n")).len(), 1);
    }

    /// udev of systemd 252 and 257 behaves in the same way.
    #[test]
    fn a_rule_goes_on_behind_a_comment_and_ends_at_a_carriage_return() {
        let read = |text: &str| show_all(&read(&host([("etc/udev/rules.d/1.rules", text)])));
        let sysctl = "SYSCTL{vm.swappiness}=\"1\"";
        let setting = |line| [format!("vm.swappiness 1 /etc/udev/rules.d/1.rules:{line}")];
        for end in ["\n", "\r\n"] {
            let text = format!("KERNEL==\"zram0\", \\{end}# zram{end}  {sysctl}{end}");
            assert_eq!(read(&text), setting(3), "{text:?}");
        }
        for end in ["\r", "\0"] {
            let text = format!("# a comment{end}KERNEL==\"zram0\", {sysctl}\n");
            assert_eq!(read(&text), setting(1), "{text:?}");
        }
    }

    #[test]
    fn a_rule_sets_up_a_device_and_a_sysctl() {
        let host = host([
            ("etc/udev/rules.d/90-zram.rules", ZRAM),
            (
                "usr/lib/udev/rules.d/30-zram.rules",
                "ACTION==\"change\", KERNEL==\"zram*\", ATTR{initstate}==\"1\", \
                 SYSCTL{vm.swappiness}=\"150\", SYSCTL{vm/page-cluster}=\"0\"\n\
                 KERNEL==\"sd*\", ENV{ID_SERIAL}==\"x\", SYSCTL{vm.dirty_ratio}=\"5\"\n\
                 KERNEL==\"sda\", ATTR{queue/scheduler}=\"none\"\n",
            ),
        ]);
        assert_eq!(
            show_all(&read(&host)),
            [
                "vm.swappiness 150 /usr/lib/udev/rules.d/30-zram.rules:1",
                "vm.page-cluster 0 /usr/lib/udev/rules.d/30-zram.rules:1",
                "vm.dirty_ratio 5 /usr/lib/udev/rules.d/30-zram.rules:2 unknown: \
                 the rule has conditions that pagewise does not evaluate",
                "zram0 4G /etc/udev/rules.d/90-zram.rules:2",
                "zram.comp_algorithm[0] zstd /etc/udev/rules.d/90-zram.rules:2",
                "zram.disksize[0] 4G /etc/udev/rules.d/90-zram.rules:2",
            ]
        );
    }

    #[test]
    fn a_recording_keeps_what_the_rule_sets_and_no_command() {
        let keep =
            |line: &str| keep_line(line.as_bytes()).map(|line| String::from_utf8(line).unwrap());
        let line = "KERNEL==\"zram0\", ENV{SERIAL}==\"bob\", ATTR{disksize}=\"4G\", RUN+=\"/home/bob\", \\";
        assert_eq!(
            keep(line).unwrap(),
            "KERNEL==\"zram0\", ENV{x}==\"x\", ATTR{disksize}=\"4G\", \\"
        );
        assert_eq!(keep("# zram of bob"), None);
        let again = keep(&keep(line).unwrap());
        assert_eq!(again, keep(line), "a recording replays");
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in "[A-Z{}=\"\\\\,! a-z0-9*|]{0,80}") {
            let _ = parse_rule(format!("KERNEL==\"zram0\", {line}").as_bytes());
            let _ = keep_line(line.as_bytes());
        }
    }
}
