// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Adds steps that write the settings of a plan to files that apply them at each boot: one in
//! `/etc/sysctl.d` and one in `/etc/tmpfiles.d`. Without systemd, a file in `/etc/sysctl.d` is used
//! only if the init system reads that folder; everything else is written to a start script.
//!
//! A file contains all settings that plans of Pagewise have written to it: settings of an earlier
//! plan that this plan does not change are kept.

use pagewise_model::knob::{Knob, KnobReading, Persist};
use pagewise_model::plan::{Change, Step};

use crate::context::Context;
use crate::draft::{Draft, SettingRequest, boot_step};
use crate::names::{find_name_after, find_name_before};
use crate::owner::SYSCTL_CONF;
use crate::start_place::Place;
use crate::start_script;

/// The first lines of each configuration file that a plan writes.
const HEADER: &str = "\
# Written by pagewise: settings of a plan (pagewise plan, pagewise apply).
# To undo: pagewise undo. If you remove this file, the other files decide from the next boot on.
";
const COLUMNS: usize = 100;

/// The mechanism that applies a configuration file at boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Folder {
    Sysctl,
    Tmpfiles,
}

impl Folder {
    const fn path(self) -> &'static str {
        match self {
            Self::Sysctl => "/etc/sysctl.d",
            Self::Tmpfiles => "/etc/tmpfiles.d",
        }
    }

    const fn step(self) -> &'static str {
        match self {
            Self::Sysctl => "sysctl-file",
            Self::Tmpfiles => "tmpfiles-file",
        }
    }

    fn of(knob: &Knob) -> Option<Self> {
        if knob.persist.contains(&Persist::Sysctl) {
            Some(Self::Sysctl)
        } else if knob.persist.contains(&Persist::Tmpfiles) {
            Some(Self::Tmpfiles)
        } else {
            None
        }
    }

    /// Formats the line of a configuration file that sets the value at this path.
    fn line(self, path: &str, value: &str) -> String {
        match self {
            Self::Sysctl => format!("{} = {value}", sysctl_key(path)),
            Self::Tmpfiles => format!("w /{path} - - - - {value}"),
        }
    }
}

/// Returns the name of the sysctl with this path. No component of these paths contains a full stop.
fn sysctl_key(path: &str) -> String {
    path.trim_start_matches("proc/sys/").replace('/', ".")
}

/// A setting that a line of a configuration file must keep, with its reading.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileLine<'a> {
    pub(crate) request: &'a SettingRequest,
    reading: &'a KnobReading,
}

impl FileLine<'_> {
    const fn knob(&self) -> &'static Knob {
        self.reading.knob
    }

    /// Returns the path of the setting's kernel file, without the leading slash.
    pub(crate) fn path(&self) -> &str {
        self.reading.live.source.path().trim_start_matches('/')
    }

    /// Whether a step changes the running value. If not, the value is in force already.
    pub(crate) fn has_step(&self) -> bool {
        self.reading.active_word() != Some(self.request.to.as_str())
    }
}

/// Adds steps that write the configuration files for the accepted requests.
pub(crate) fn add_files(context: &Context<'_>, draft: &mut Draft) {
    let requests = std::mem::take(&mut draft.granted);
    let line = |request| Some(FileLine { request, reading: context.knob_reading(&request.knob)? });
    let granted: Vec<FileLine<'_>> = requests.iter().filter_map(line).collect();
    if let Some(why) = context.reason_against_files() {
        let by_others = |it: &&FileLine<'_>| {
            let last = context.owners().sysctl(it.knob().name).pop();
            last.is_some_and(|last| last.value == it.request.to)
        };
        let lost: Vec<&FileLine<'_>> =
            granted.iter().filter(|it| it.has_step() && !by_others(it)).collect();
        for it in &lost {
            draft.note_lost(&it.request.knob, format!("{why}{}", commands_by_hand(context, &lost)));
        }
        return draft.decline_lost();
    }
    let mut lasting: Vec<String> = Vec::new();
    let place = context.start_place();
    let folder_of = |it: &FileLine<'_>| match place {
        Some(_) if !is_for_reader(context, it) => None,
        _ => Folder::of(it.knob()),
    };
    for folder in [Folder::Sysctl, Folder::Tmpfiles] {
        let of_folder = granted.iter().filter(|it| folder_of(it) == Some(folder));
        let (kept, missing): (Vec<&FileLine<'_>>, Vec<&FileLine<'_>>) =
            of_folder.partition(|it| is_kept(context, folder, it));
        lasting.extend(kept.iter().map(|it| it.request.id.to_string()));
        if !missing.is_empty() && add_file(context, draft, folder, &missing) {
            lasting.extend(missing.iter().map(|it| it.request.id.to_string()));
        }
    }
    if let Some(place) = place {
        let others = granted.iter().filter(|it| folder_of(it).is_none());
        let others = others.filter(|it| Folder::of(it.knob()).is_some());
        lasting.extend(add_to_script(context, draft, place, &others.collect::<Vec<_>>()));
    }
    for step in draft.steps.iter_mut().filter(|step| lasting.contains(&step.id)) {
        step.survives_reboot = true;
    }
    if context.installation.has_keep_list {
        add_keep_list(context, draft);
    }
}

/// Whether a script of the init system that reads sysctl.d keeps this setting. All such scripts
/// apply `/etc/sysctl.conf` as well, and some apply it last, so that a line in that file may
/// override the setting.
fn is_for_reader(context: &Context<'_>, line: &FileLine<'_>) -> bool {
    let is_overruled = || {
        let all = context.owners().sysctl(line.knob().name);
        let conf = all.into_iter().rfind(|it| it.path == SYSCTL_CONF);
        conf.is_some_and(|it| it.value != line.request.to)
    };
    context.installation.sysctl_reader.is_some()
        && Folder::of(line.knob()) == Some(Folder::Sysctl)
        && !is_overruled()
}

/// Adds the start script with these settings. Returns the ids of the steps whose changes the script
/// keeps.
fn add_to_script(
    context: &Context<'_>,
    draft: &mut Draft,
    place: Place,
    settings: &[&FileLine<'_>],
) -> Vec<String> {
    let is_new = |it: &&&FileLine<'_>| {
        let line = start_script::setting_line(it.path(), &it.request.to);
        let is_default = !it.has_step() && it.knob().default == Some(it.request.to.as_str());
        !start_script::has_line(context, place, &line) && !is_default
    };
    let missing: Vec<&FileLine<'_>> = settings.iter().filter(is_new).copied().collect();
    start_script::add_script(context, draft, place, &missing);
    if let Some(why) = place.step_for_owner(context.installation) {
        let changed = missing.iter().filter(|it| it.has_step());
        changed.for_each(|it| draft.note_lost(&it.request.knob, why.to_owned()));
        if draft.started.zram.is_some() {
            draft.note_lost("the zram swap", why.to_owned());
        }
        if draft.started.file.is_some() {
            draft.note_lost("the swap file", why.to_owned());
        }
        draft.decline_lost();
        return Vec::new();
    }
    settings.iter().map(|it| it.request.id.to_string()).collect()
}

/// Formats the commands that set these values, for a file that the machine's owner has to edit;
/// empty on a host with systemd (NixOS), which has no such file.
fn commands_by_hand(context: &Context<'_>, lines: &[&FileLine<'_>]) -> String {
    if context.has_systemd() {
        return String::new();
    }
    let commands: Vec<String> =
        lines.iter().map(|it| format!("`echo {} >/{}`", it.request.to, it.path())).collect();
    format!(": {}", commands.join(", "))
}

/// The file in which a plan lists its files, so that an update of SteamOS does not delete them.
const KEEP_LIST: &str = "/etc/atomic-update.conf.d/pagewise.conf";

/// Adds a step that lists the plan's files and links in `/etc`, so that an update does not delete
/// them.
fn add_keep_list(context: &Context<'_>, draft: &mut Draft) {
    let target = |step: &Step| match &step.change {
        Change::WriteFile { target, .. } | Change::MakeLink { target, .. } => {
            Some((step.id.clone(), target.clone()))
        }
        _ => None,
    };
    let written: Vec<(String, String)> = draft.steps.iter().filter_map(target).collect();
    let before = context.installation.own_files.get(KEEP_LIST);
    let listed = |path: &str| before.is_some_and(|text| text.lines().any(|line| line == path));
    let new: Vec<&(String, String)> = written.iter().filter(|(_, path)| !listed(path)).collect();
    if new.is_empty() {
        return;
    }
    let mut to = before.cloned().unwrap_or_else(|| {
        "# Written by pagewise: files of its plans that an update of the system keeps.\n\
         # To undo: pagewise undo.\n"
            .to_owned()
    });
    for (_, path) in &new {
        to.push_str(path);
        to.push('\n');
    }
    draft.steps.push(Step {
        change: Change::WriteFile { target: KEEP_LIST.to_owned(), from: before.cloned(), to },
        reason: "An update of this system keeps only those files in /etc that are listed in /etc/atomic-update.conf.d."
            .to_owned(),
        needs: new.iter().map(|(id, _)| id.clone()).collect(),
        ..boot_step("keep-list", describe_undo(before.is_some()))
    });
}

/// Says what undoing a step does that writes a file.
const fn describe_undo(existed: bool) -> &'static str {
    if existed { "writes the earlier contents back" } else { "removes the file" }
}

/// Whether the value is set at boot anyway, without a new file.
fn is_kept(context: &Context<'_>, folder: Folder, line: &FileLine<'_>) -> bool {
    let (knob, to) = (line.knob(), line.request.to.as_str());
    let text = folder.line(line.path(), to);
    let in_own =
        own_file(context, folder).is_some_and(|(_, own)| own.lines().any(|known| known == text));
    match folder {
        Folder::Tmpfiles => in_own,
        // systemd does not read /etc/sysctl.conf
        Folder::Sysctl => {
            match context.owners().sysctl(knob.name).iter().rfind(|it| it.path != SYSCTL_CONF) {
                Some(last) => last.value == to,
                None => in_own || (!line.has_step() && knob.default == Some(to)),
            }
        }
    }
}

/// Returns path and content of the file that Pagewise wrote to this folder earlier. An empty file,
/// or a link to `/dev/null`, masks the name and was not written by Pagewise.
fn own_file<'a>(context: &'a Context<'_>, folder: Folder) -> Option<(&'a str, &'a str)> {
    let mut own = context.installation.own_files.iter();
    let is_own = |path: &str, text: &str| path.starts_with(folder.path()) && !is_mask(text);
    let (path, text) = own.find(|(path, text)| is_own(path, text))?;
    Some((path, text))
}

/// Returns those names of Pagewise's files in this folder that the administrator has masked.
fn masked_names<'a>(
    context: &'a Context<'_>,
    folder: Folder,
) -> impl Iterator<Item = &'a str> + use<'a> {
    let masked = context.installation.own_files.iter().filter(|(_, text)| is_mask(text));
    masked.filter_map(move |(path, _)| path.strip_prefix(folder.path())?.strip_prefix('/'))
}

fn is_mask(text: &str) -> bool {
    text.trim().is_empty()
}

/// Adds the step that writes the configuration file, or declines it if there is no suitable file
/// name.
fn add_file(
    context: &Context<'_>,
    draft: &mut Draft,
    folder: Folder,
    missing: &[&FileLine<'_>],
) -> bool {
    let listed = missing.iter().map(|it| &*it.request.knob).collect::<Vec<_>>().join(", ");
    let Some(name) = file_name(context, folder, missing) else {
        let why = "another program's file sets the same setting, and no plain file name exists under which a file \
                   of Pagewise would take precedence over it";
        draft.decline(format!("keep {listed} over a reboot"), why);
        return false;
    };
    let path = format!("{}/{name}", folder.path());
    let before = own_file(context, folder).filter(|(known, _)| *known == path).map(|it| it.1);
    let to = merge_contents(before, folder, missing);
    let of_plan = missing.iter().filter(|it| it.has_step());
    draft.steps.push(Step {
        change: Change::WriteFile { target: path, from: before.map(str::to_owned), to },
        reason: reason(context, folder, missing, &listed),
        risk: risk(context, folder, missing),
        needs: of_plan.map(|it| it.request.id.to_string()).collect(),
        ..boot_step(folder.step(), describe_undo(before.is_some()))
    });
    true
}

fn file_name(context: &Context<'_>, folder: Folder, missing: &[&FileLine<'_>]) -> Option<String> {
    let own = own_file(context, folder).and_then(|(path, _)| path.rsplit('/').next());
    match folder {
        Folder::Sysctl => {
            let owners = context.owners();
            let set = missing.iter().flat_map(|it| owners.sysctl(it.knob().name));
            let names: Vec<String> = set
                .filter(|it| it.path != SYSCTL_CONF && Some(it.file_name()) != own)
                .map(|it| it.file_name().to_owned())
                .collect();
            let others = || names.iter().map(String::as_str).chain(masked_names(context, folder));
            let own = own.filter(|own| others().all(|other| other < *own));
            own.map(str::to_owned).or_else(|| find_name_after(others()))
        }
        Folder::Tmpfiles => {
            let names = context.installation.tmpfiles_names.iter().map(String::as_str);
            let masked = || masked_names(context, folder);
            let others = || names.clone().filter(|name| Some(*name) != own).chain(masked());
            let own = own.filter(|own| others().all(|other| *own < other));
            own.or_else(|| find_name_before(others())).map(str::to_owned)
        }
    }
}

/// Formats the text after the name in a line of a configuration file: `= VALUE`, or nothing if the
/// value is empty.
fn equals_value(value: &str) -> String {
    if value.is_empty() { String::new() } else { format!(" = {value}") }
}

fn reason(
    context: &Context<'_>,
    folder: Folder,
    missing: &[&FileLine<'_>],
    listed: &str,
) -> String {
    let them = if missing.len() == 1 { "it" } else { "them" };
    let first = match folder {
        Folder::Sysctl => {
            let reader =
                context.installation.sysctl_reader.as_deref().filter(|_| !context.has_systemd());
            let reader = reader.unwrap_or("systemd-sysctl");
            format!("From this file, {reader} sets {listed} at each boot")
        }
        Folder::Tmpfiles => format!("From this file, systemd-tmpfiles sets {listed} at each boot"),
    };
    let owners = context.owners();
    let others: Vec<String> = missing
        .iter()
        .filter_map(|it| {
            let last = owners.sysctl(it.knob().name).pop().filter(|it| it.path != SYSCTL_CONF)?;
            (folder == Folder::Sysctl && last.value != it.request.to)
                .then(|| format!("{}{} in {}", it.request.knob, equals_value(&last.value), last.at))
        })
        .collect();
    if others.is_empty() {
        return format!("{first}; without the file a reboot resets {them}.");
    }
    format!(
        "{first}. Because of its name, it is applied after the file whose value wins now ({}).",
        others.join("; ")
    )
}

fn risk(context: &Context<'_>, folder: Folder, missing: &[&FileLine<'_>]) -> String {
    let overruled: Vec<String> = missing
        .iter()
        .filter(|_| folder == Folder::Sysctl)
        .filter_map(|it| {
            let all = context.owners().sysctl(it.knob().name);
            let conf = all.into_iter().rfind(|line| line.path == SYSCTL_CONF)?;
            (conf.value != it.request.to)
                .then(|| format!("{}{}", conf.at, equals_value(&conf.value)))
        })
        .collect();
    if overruled.is_empty() {
        return "a program that sets the same setting after boot overrides this file".to_owned();
    }
    format!(
        "`sysctl --system` applies {SYSCTL_CONF} last, and that file sets another value ({}): remove that \
         line",
        overruled.join("; ")
    )
}

/// Returns the new content of the configuration file: these settings, and all previous lines except
/// those that plans wrote for these settings. Lines that somebody else added are kept.
fn merge_contents(before: Option<&str>, folder: Folder, missing: &[&FileLine<'_>]) -> String {
    let kept = remove_own_lines(before.unwrap_or_default(), folder, missing);
    let kept = kept.join("\n").trim().to_owned();
    let new = missing.iter().map(|it| {
        let comment = wrap_comment(&comment_text(it));
        format!("{comment}{}", folder.line(it.path(), &it.request.to))
    });
    let new = new.collect::<Vec<_>>().join("\n\n");
    let blocks = match folder {
        // of several lines for a sysctl the last takes effect, but of several lines for a path in
        // tmpfiles.d the first
        Folder::Sysctl => [kept, new],
        Folder::Tmpfiles => [new, kept],
    };
    let blocks: Vec<&str> = blocks.iter().map(String::as_str).filter(|it| !it.is_empty()).collect();
    format!("{HEADER}\n{}\n", blocks.join("\n\n"))
}

fn comment_text(line: &FileLine<'_>) -> String {
    format!("{}: {}", line.request.knob, line.request.reason)
}

/// Returns the lines of the earlier file without the header, and without lines and comments that
/// plans wrote for these settings. A line for one of the settings that has no comment of a plan was
/// written by somebody else.
fn remove_own_lines<'a>(
    before: &'a str,
    folder: Folder,
    missing: &[&FileLine<'_>],
) -> Vec<&'a str> {
    let mut kept: Vec<&str> = Vec::new();
    let mut is_after_removed = false;
    for line in before.lines().filter(|line| !HEADER.lines().any(|header| header == *line)) {
        let is_second_blank = line.is_empty() && kept.last().is_none_or(|last| last.is_empty());
        if is_after_removed && is_second_blank {
            continue;
        }
        is_after_removed = false;
        let of = missing.iter().find(|it| line.starts_with(&line_start(folder, it.path())));
        match of.and_then(|it| find_own_comment(&kept, &it.request.knob)) {
            Some(comment) => {
                kept.drain(comment);
                is_after_removed = true;
            }
            None => kept.push(line),
        }
    }
    kept
}

/// Finds the comment that a plan wrote above its line for this setting, among the comment lines at
/// the end of `lines`. Lines that are not wrapped in the way in which a plan wraps comments were
/// added later by somebody else.
fn find_own_comment(lines: &[&str], knob: &str) -> Option<std::ops::Range<usize>> {
    let first = lines.iter().rposition(|line| !line.starts_with('#')).map_or(0, |at| at + 1);
    let start = format!("# {knob}: ");
    let begin = first + lines[first..].iter().rposition(|line| line.starts_with(&start))?;
    let is_own = |end: &usize| {
        let words: Vec<&str> =
            lines[begin..*end].iter().map(|line| line.trim_start_matches('#')).collect();
        wrap_comment(&words.join(" ")).lines().eq(lines[begin..*end].iter().copied())
    };
    Some(begin..(begin + 1..=lines.len()).rev().find(is_own).unwrap_or(begin + 1))
}

/// Returns the beginning of a setting's line in a configuration file, up to its value.
fn line_start(folder: Folder, path: &str) -> String {
    match folder {
        Folder::Sysctl => format!("{} =", sysctl_key(path)),
        Folder::Tmpfiles => format!("w /{path} "),
    }
}

/// Formats text as a comment of a configuration file, wrapped to several lines.
pub(crate) fn wrap_comment(text: &str) -> String {
    let mut lines = String::new();
    let mut line = "#".to_owned();
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push_str(&line);
            lines.push('\n');
            "#".clone_into(&mut line);
        }
        line.push(' ');
        line.push_str(word);
    }
    format!("{lines}{line}\n")
}
