// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Removes what programs print before a message of the kernel, and keeps what it says of the
//! message: its time, its machine, and whether the kernel wrote it.
//!
//! Prefixes stand one before the other (a container's log of a syslog of `dmesg`), so each layer is
//! removed alone until none is left. A row of the task table begins with brackets, too
//! (`[    996]  1000 …`): a time since boot has six decimal places.

use pagewise_hostfs::text::number;

/// The kinds of prefixes, as they are named to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Quote,
    Grep,
    Level,
    Facility,
    SinceBoot,
    Delta,
    LocalTime,
    IsoTime,
    Syslog,
    Container,
    Logcat,
    Kmsg,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Quote => "quoted lines",
            Self::Grep => "files and lines (grep)",
            Self::Level => "printk levels",
            Self::Facility => "facilities (dmesg -x)",
            Self::SinceBoot => "times since boot (dmesg)",
            Self::Delta => "time differences (dmesg -d, -H)",
            Self::LocalTime => "times of day (dmesg -T)",
            Self::IsoTime => "ISO times",
            Self::Syslog => "syslog or journalctl",
            Self::Container => "a container's log",
            Self::Logcat => "logcat",
            Self::Kmsg => "/dev/kmsg",
        }
    }
}

/// A line without its prefixes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Peeled<'a> {
    /// The message.
    pub(super) text: &'a [u8],
    /// Time since boot in microseconds.
    pub(super) micros: Option<u64>,
    /// The time as it is printed.
    pub(super) time: Option<&'a [u8]>,
    /// The machine that a syslog names.
    pub(super) machine: Option<&'a [u8]>,
    /// Whether the kernel wrote the message; `None` if no prefix says so.
    pub(super) is_kernel: Option<bool>,
    /// The task or CPU that wrote the message (`CONFIG_PRINTK_CALLER`).
    pub(super) caller: &'a [u8],
    pub(super) kinds: Vec<Kind>,
}

/// Removes all prefixes of a line.
pub(super) fn remove_prefixes(line: &[u8]) -> Peeled<'_> {
    const LAYERS: usize = 8;
    let mut peeled = Peeled { text: line, ..Peeled::default() };
    for _ in 0..LAYERS {
        let layer = remove_quote(&mut peeled)
            .or_else(|| remove_grep(&mut peeled))
            .or_else(|| remove_kmsg(&mut peeled))
            .or_else(|| remove_level(&mut peeled))
            .or_else(|| remove_facility(&mut peeled))
            .or_else(|| remove_brackets(&mut peeled))
            .or_else(|| remove_rfc5424(&mut peeled))
            .or_else(|| remove_logread(&mut peeled))
            .or_else(|| remove_iso_time(&mut peeled))
            .or_else(|| remove_syslog(&mut peeled))
            .or_else(|| remove_weekday(&mut peeled))
            .or_else(|| remove_unix_time(&mut peeled))
            .or_else(|| remove_logcat(&mut peeled));
        let Some(kind) = layer else { break };
        if !peeled.kinds.contains(&kind) {
            peeled.kinds.push(kind);
        }
    }
    // a program in a container may print whatever a syslog would
    if peeled.kinds.contains(&Kind::Container) {
        peeled.is_kernel = peeled.is_kernel.filter(|is_kernel| !is_kernel);
    }
    peeled
}

fn has_digits(text: &[u8], count: usize) -> bool {
    text.len() >= count && text[..count].iter().all(u8::is_ascii_digit)
}

/// The part of `text` before `rest`, which is the end of `text`; without blanks at its end.
fn text_before<'a>(text: &'a [u8], rest: &[u8]) -> &'a [u8] {
    text[..text.len().saturating_sub(rest.len())].trim_ascii_end()
}

/// The first word of a text, and what follows the blanks after it.
fn first_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|&byte| byte == b' ')?;
    Some((&text[..end], text[end..].trim_ascii_start())).filter(|(word, _)| !word.is_empty())
}

/// Removes the `> ` of a mail, also repeated, and blanks before a prefix.
fn remove_quote(peeled: &mut Peeled<'_>) -> Option<Kind> {
    let text = peeled.text;
    let begin = text.trim_ascii_start();
    let rest = begin.strip_prefix(b">").or_else(|| begin.strip_prefix(b"| "))?;
    peeled.text = rest.strip_prefix(b" ").unwrap_or(rest);
    Some(Kind::Quote)
}

/// Removes `kern.log:`, `/var/log/kern.log-12-` and `12:` of `grep -H`, `-n` and `-C`. No message
/// of the kernel begins with a number and a colon, or with the path of a log.
fn remove_grep(peeled: &mut Peeled<'_>) -> Option<Kind> {
    const LONGEST_PATH: usize = 200;
    let mut rest = peeled.text;
    let end = rest.iter().take(LONGEST_PATH).position(|&byte| matches!(byte, b':' | b' '))?;
    let path = &rest[..end];
    let is_log = memchr::memmem::find(path, b".log").is_some() || path.starts_with(b"/var/log/");
    if is_log && rest[end] == b':' {
        rest = &rest[end + 1..];
    }
    let number = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let has_number = (1..10).contains(&number)
        && matches!(rest.get(number), Some(b':' | b'-'))
        // not the hour of a time, and not the year of a date
        && !(number <= 2 && rest.get(number + 1).is_some_and(u8::is_ascii_digit))
        && !(rest[number] == b'-' && rest.get(number + 1).is_some_and(u8::is_ascii_digit));
    if has_number {
        rest = &rest[number + 1..];
    }
    (rest.len() < peeled.text.len()).then(|| peeled.text = rest)?;
    Some(Kind::Grep)
}

/// Removes `1 2025-08-12T03:54:03.123456+02:00 host kernel - - - ` of RFC 5424, after its `<4>`.
fn remove_rfc5424(peeled: &mut Peeled<'_>) -> Option<Kind> {
    let rest = peeled.text.strip_prefix(b"1 ")?;
    let (time, rest) = first_word(rest).filter(|(time, _)| is_iso_time(time))?;
    let (machine, rest) = first_word(rest)?;
    let (tag, rest) = first_word(rest)?;
    let (_process, rest) = first_word(rest)?;
    let (_message_id, rest) = first_word(rest)?;
    let text = match rest.strip_prefix(b"- ") {
        Some(text) => text,
        // structured data: `[a b="c"][d e="f"] message`
        None => &rest[memchr::memmem::find(rest, b"] ").filter(|_| rest.starts_with(b"["))? + 2..],
    };
    peeled.time = Some(time);
    (peeled.machine, peeled.is_kernel, peeled.text) =
        (Some(machine), Some(is_kernel_tag(tag)), text);
    Some(Kind::Syslog)
}

/// Removes `Tue Aug 12 03:54:03 2025 kern.err kernel: ` of OpenWrt's logread.
fn remove_logread(peeled: &mut Peeled<'_>) -> Option<Kind> {
    let text = peeled.text;
    let (_, rest) = first_word(text).filter(|(day, _)| day.len() == 3)?;
    let (_, rest) = first_word(rest).filter(|(month, _)| month.len() == 3)?;
    let (_, rest) = first_word(rest).filter(|(day, _)| day.len() <= 2 && has_digits(day, 1))?;
    let (_, rest) = first_word(rest).filter(|(hour, _)| hour.len() == 8 && hour[2] == b':')?;
    let (_, rest) = first_word(rest).filter(|(year, _)| year.len() == 4 && has_digits(year, 4))?;
    let time = text_before(text, rest);
    let (priority, rest) = first_word(rest)?;
    let dot = memchr::memchr(b'.', priority).filter(|&dot| dot >= 4)?;
    let colon = memchr::memmem::find(rest, b": ").filter(|&at| at < 60)?;
    peeled.time = Some(time);
    peeled.is_kernel = Some(&priority[..dot] == b"kern");
    peeled.text = &rest[colon + 2..];
    Some(Kind::Syslog)
}

/// Names under which syslogs write the kernel's messages; `vmunix` is FreeBSD's and some routers'.
fn is_kernel_tag(tag: &[u8]) -> bool {
    matches!(tag, b"kernel" | b"vmunix")
}

/// Removes `4,12,601273226,-;` of `/dev/kmsg`. Escapes in the text stay.
fn remove_kmsg(peeled: &mut Peeled<'_>) -> Option<Kind> {
    let semicolon = memchr::memchr(b';', peeled.text).filter(|&at| at < 80)?;
    let (head, text) = (&peeled.text[..semicolon], &peeled.text[semicolon + 1..]);
    let mut fields = head.split(|&byte| byte == b',');
    let priority: u32 = number(fields.next()?)?;
    number::<u64>(fields.next()?)?;
    peeled.micros = Some(number(fields.next()?)?);
    fields.next()?;
    peeled.caller = fields.find_map(|field| field.strip_prefix(b"caller=")).unwrap_or_default();
    peeled.is_kernel = Some(priority < 8);
    peeled.text = text;
    Some(Kind::Kmsg)
}

/// Removes `<4>`. If the number is below 8, the kernel wrote the message.
fn remove_level(peeled: &mut Peeled<'_>) -> Option<Kind> {
    let rest = peeled.text.trim_ascii_start().strip_prefix(b"<")?;
    let end = memchr::memchr(b'>', rest).filter(|&at| at <= 4)?;
    let level: u32 = number(&rest[..end])?;
    peeled.is_kernel = Some(level < 8);
    peeled.text = &rest[end + 1..];
    Some(Kind::Level)
}

/// Removes `kern  :err   : ` of `dmesg -x`, and `kern:    info: ` of Talos.
fn remove_facility(peeled: &mut Peeled<'_>) -> Option<Kind> {
    const FACILITIES: [&str; 12] = [
        "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron",
        "authpriv", "local",
    ];
    const LEVELS: [&str; 8] = ["emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"];
    let colon = memchr::memchr(b':', peeled.text).filter(|&at| at < 12)?;
    let name = peeled.text[..colon].trim_ascii();
    let rest = &peeled.text[colon + 1..];
    let end = memchr::memchr(b':', rest).filter(|&at| at < 14)?;
    let level = rest[..end].trim_ascii();
    let is_known = FACILITIES.iter().any(|known| name == known.as_bytes());
    let has_level = LEVELS.iter().any(|known| level.starts_with(known.as_bytes()));
    (is_known && has_level).then_some(())?;
    peeled.is_kernel = Some(name == b"kern");
    let rest = &rest[end + 1..];
    peeled.text = rest.strip_prefix(b" ").unwrap_or(rest);
    Some(Kind::Facility)
}

/// Removes a pair of brackets with a time since boot, a difference of times, a time of day, or a
/// caller.
fn remove_brackets(peeled: &mut Peeled<'_>) -> Option<Kind> {
    const LONGEST: usize = 48;
    let rest = peeled.text.trim_ascii_start().strip_prefix(b"[")?;
    let end = memchr::memchr(b']', rest).filter(|&at| at < LONGEST)?;
    let inside = rest[..end].trim_ascii();
    let after = &rest[end + 1..];
    // journalctl -o short-delta: `[  601.270000 <    0.100000 >]`
    let moment = match memchr::memchr(b'<', inside) {
        Some(at) => inside[..at].trim_ascii_end(),
        None => inside,
    };
    let kind = if let Some(micros) = parse_since_boot(moment) {
        peeled.micros = Some(micros);
        Kind::SinceBoot
    } else if inside.starts_with(b"+") && parse_since_boot(inside[1..].trim_ascii_start()).is_some()
    {
        Kind::Delta
    } else if peeled.micros.is_some() && is_caller(inside) {
        peeled.caller = inside;
        Kind::SinceBoot
    } else if is_iso_time(inside) {
        peeled.time = Some(inside);
        Kind::IsoTime
    } else if is_time_of_day(inside) {
        peeled.time = Some(inside);
        Kind::LocalTime
    } else {
        return None;
    };
    let after = after.strip_prefix(b":").unwrap_or(after);
    peeled.text = after.strip_prefix(b" ").unwrap_or(after);
    // journalctl -o short-monotonic names the machine and the program after the time
    if let Some((machine, text)) = parse_kernel_tag(peeled.text) {
        (peeled.machine, peeled.is_kernel, peeled.text) = (Some(machine), Some(true), text);
    }
    Some(kind)
}

/// Parses a time since boot, such as `601.273226` with six decimal places.
fn parse_since_boot(text: &[u8]) -> Option<u64> {
    let dot = memchr::memchr(b'.', text)?;
    let (seconds, micros) = (&text[..dot], &text[dot + 1..]);
    (micros.len() == 6 && has_digits(micros, 6)).then_some(())?;
    let (seconds, micros): (u64, u64) = (number(seconds)?, number(micros)?);
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}

/// Whether a text is a caller such as `T123` or `C2`.
fn is_caller(text: &[u8]) -> bool {
    text.split_first().is_some_and(|(first, rest)| {
        matches!(first, b'T' | b'C') && !rest.is_empty() && rest.iter().all(u8::is_ascii_digit)
    })
}

/// Whether a text has a time such as `03:54`, as `dmesg -T` and `dmesg -H` print it in any
/// language: `Di Aug 12 03:54:03 2025`, `Aug12 03:54`.
fn is_time_of_day(text: &[u8]) -> bool {
    text.windows(5).any(|five| has_digits(five, 2) && five[2] == b':' && has_digits(&five[3..], 2))
        && text.iter().any(u8::is_ascii_alphabetic)
}

/// Whether a text is a time such as `2026-07-25T14:23:17.527201795Z`, also with a blank or with any
/// offset.
fn is_iso_time(text: &[u8]) -> bool {
    text.len() >= 19
        && has_digits(text, 4)
        && text[4] == b'-'
        && text[7] == b'-'
        && matches!(text[10], b'T' | b' ')
        && text[13] == b':'
        && has_digits(&text[14..], 2)
}

/// Removes `2025-08-12T03:54:03.123456+02:00 host kernel: `, or the time with `stdout F ` of
/// Kubernetes, or the time alone.
fn remove_iso_time(peeled: &mut Peeled<'_>) -> Option<Kind> {
    let (time, mut rest) = first_word(peeled.text)?;
    let mut end = time.len();
    // `2025-08-12 03:54:03 `
    if time.len() == 10 && has_digits(time, 4) {
        let (hour, after) = first_word(rest)?;
        end = peeled.text.len() - rest.len() + hour.len();
        rest = after;
    }
    let time = peeled.text.get(..end).filter(|time| is_iso_time(time))?;
    peeled.time = Some(time);
    if let Some(text) = strip_container(rest) {
        peeled.text = text;
        return Some(Kind::Container);
    }
    if let Some((machine, is_kernel, text)) = parse_tagged(rest) {
        (peeled.machine, peeled.is_kernel, peeled.text) = (Some(machine), Some(is_kernel), text);
        return Some(Kind::Syslog);
    }
    peeled.text = rest;
    Some(Kind::IsoTime)
}

/// The message after `stdout F ` of a container's log.
fn strip_container(text: &[u8]) -> Option<&[u8]> {
    let rest = text.strip_prefix(b"stdout ").or_else(|| text.strip_prefix(b"stderr "))?;
    rest.strip_prefix(b"F ").or_else(|| rest.strip_prefix(b"P "))
}

/// Removes `Aug 12 03:54:03 host kernel: `; the day has one digit or two.
fn remove_syslog(peeled: &mut Peeled<'_>) -> Option<Kind> {
    const MONTHS: [&[u8]; 12] = [
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
        b"Dec",
    ];
    let text = peeled.text;
    let (_, rest) = first_word(text).filter(|(month, _)| MONTHS.contains(month))?;
    let (_, rest) = first_word(rest).filter(|(day, _)| day.len() <= 2 && has_digits(day, 1))?;
    let (hour, rest) = first_word(rest)?;
    (hour.len() >= 8 && has_digits(hour, 2) && hour[2] == b':').then_some(())?;
    let (machine, is_kernel, message) = parse_tagged(rest)?;
    peeled.time = Some(text_before(text, rest));
    (peeled.machine, peeled.is_kernel) = (Some(machine), Some(is_kernel));
    peeled.text = message;
    Some(Kind::Syslog)
}

/// Removes `Tue 2025-08-12 03:54:03 UTC host kernel: ` of `journalctl -o short-full`.
fn remove_weekday(peeled: &mut Peeled<'_>) -> Option<Kind> {
    let text = peeled.text;
    let (_, rest) = first_word(text).filter(|(day, _)| day.len() <= 4)?;
    let (_, rest) = first_word(rest).filter(|(date, _)| date.len() == 10 && has_digits(date, 4))?;
    let (_, rest) = first_word(rest).filter(|(hour, _)| hour.len() >= 8 && hour[2] == b':')?;
    let (_, rest) = first_word(rest)?;
    let (machine, is_kernel, message) = parse_tagged(rest)?;
    peeled.time = Some(text_before(text, rest));
    (peeled.machine, peeled.is_kernel) = (Some(machine), Some(is_kernel));
    peeled.text = message;
    Some(Kind::Syslog)
}

/// Removes `1754970843.123456 host kernel: ` of `journalctl -o short-unix`.
fn remove_unix_time(peeled: &mut Peeled<'_>) -> Option<Kind> {
    let (time, rest) = first_word(peeled.text)?;
    parse_since_boot(time).filter(|_| time.len() >= 16)?;
    let (machine, is_kernel, message) = parse_tagged(rest)?;
    peeled.time = Some(time);
    (peeled.machine, peeled.is_kernel) = (Some(machine), Some(is_kernel));
    peeled.text = message;
    Some(Kind::Syslog)
}

/// Removes `08-12 03:54:03.123  0  0 W kernel  : ` and `W/kernel  (    0): ` of Android.
fn remove_logcat(peeled: &mut Peeled<'_>) -> Option<Kind> {
    let text = peeled.text;
    let (_, rest) = first_word(text).filter(|(day, _)| {
        day.len() == 5 && has_digits(day, 2) && day[2] == b'-' && has_digits(&day[3..], 2)
    })?;
    let (_, rest) = first_word(rest).filter(|(hour, _)| hour.len() >= 8 && hour[2] == b':')?;
    let colon = memchr::memmem::find(rest, b": ").filter(|&at| at < 60)?;
    let (tag, message) = (&rest[..colon], &rest[colon + 2..]);
    // the kernel's messages have its name, or the pid 0
    let is_kernel = memchr::memmem::find(tag, b"kernel").is_some()
        || first_word(tag).is_some_and(|(pid, _)| pid == b"0");
    peeled.time = Some(text_before(text, rest));
    peeled.is_kernel = Some(is_kernel);
    peeled.text = message;
    Some(Kind::Logcat)
}

/// Parses `host tag[pid]: message` of a syslog into the machine, whether the kernel wrote it, and
/// the message.
fn parse_tagged(text: &[u8]) -> Option<(&[u8], bool, &[u8])> {
    const LONGEST_TAG: usize = 80;
    let (machine, rest) = first_word(text).filter(|(machine, _)| !machine.ends_with(b":"))?;
    let colon = memchr::memchr(b':', rest).filter(|&at| at < LONGEST_TAG)?;
    let (tag, message) = (&rest[..colon], &rest[colon + 1..]);
    let message = if message.is_empty() { message } else { message.strip_prefix(b" ")? };
    let is_tag = !tag.is_empty() && !tag.contains(&b' ');
    is_tag.then_some((machine, is_kernel_tag(tag), message))
}

/// Parses `host kernel: message` into the machine and the message.
fn parse_kernel_tag(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (machine, rest) = first_word(text)?;
    let message = rest.strip_prefix(b"kernel:")?;
    Some((machine, message.strip_prefix(b" ").unwrap_or(message)))
}
