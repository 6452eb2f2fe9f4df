// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sorts a plan into the parts that other tools need ([`Layout`]): files, links, settings, swap, and what remains.

use pagewise_model::knob::{KNOBS, Knob};
use pagewise_model::plan::{Change, Plan, Step, SwapFilePlan, ZramSwap, config_mode};

/// The folder of units that the administrator installs.
pub(super) const UNITS: &str = "/etc/systemd/system/";

/// A file of the plan.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlannedFile<'a> {
    pub(super) path: &'a str,
    /// The contents of the file before the plan is applied; `None` if the file does not exist.
    pub(super) from: Option<&'a str>,
    pub(super) to: &'a str,
}

impl<'a> PlannedFile<'a> {
    pub(super) fn is_sysctl(&self) -> bool {
        self.path.starts_with("/etc/sysctl.d/")
    }

    pub(super) fn is_tmpfiles(&self) -> bool {
        self.path.starts_with("/etc/tmpfiles.d/")
    }

    /// The mode that the file gets.
    pub(super) fn mode(&self) -> u32 {
        config_mode(self.path)
    }

    /// The command that runs this file, if it is a start script of another init system than systemd.
    fn start_command(&self) -> Option<Vec<String>> {
        let path = self.path.to_owned();
        if path.starts_with("/etc/init.d/") {
            return Some(vec![path, "start".to_owned()]);
        }
        let is_sourced = path.starts_with("/etc/runit/core-services/");
        is_sourced.then(|| vec!["sh".to_owned(), path])
    }

    /// Whether systemd reads the file when it reloads its units.
    fn is_of_systemd(&self) -> bool {
        self.path.starts_with("/etc/systemd/")
    }

    /// The name of the unit in this file, if it is one.
    pub(super) fn unit(&self) -> Option<&'a str> {
        self.path.strip_prefix(UNITS).filter(|name| !name.contains('/'))
    }

    /// The swap unit of systemd that switches on the device of this file of zram-generator.
    fn generator_unit(&self) -> Option<String> {
        if !self.path.contains("/zram-generator.conf") {
            return None;
        }
        let section = |line: &str| {
            let number = line.strip_prefix("[zram")?.strip_suffix(']')?;
            number.parse::<u32>().ok()
        };
        let number = self.to.lines().find_map(section)?;
        Some(format!("dev-zram{number}.swap"))
    }
}

/// A symbolic link of the plan.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlannedLink<'a> {
    pub(super) path: &'a str,
    pub(super) to: &'a str,
}

impl<'a> PlannedLink<'a> {
    /// The unit that the link starts at boot.
    pub(super) fn enabled_unit(&self) -> Option<&'a str> {
        let (folder, unit) = self.path.strip_prefix(UNITS)?.split_once('/')?;
        (folder.ends_with(".wants") && !unit.contains('/')).then_some(unit)
    }
}

/// A setting of the kernel and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlannedSetting {
    /// Path of the file of the kernel, with the leading slash.
    pub(super) path: String,
    pub(super) value: String,
}

impl PlannedSetting {
    /// The name of the sysctl, if it is one.
    pub(super) fn sysctl(&self) -> Option<String> {
        self.path.strip_prefix("/proc/sys/").map(|name| name.replace('/', "."))
    }
}

/// A plan by its parts.
#[derive(Debug)]
pub(super) struct Layout<'a> {
    plan: &'a Plan,
    pub(super) files: Vec<PlannedFile<'a>>,
    pub(super) links: Vec<PlannedLink<'a>>,
    pub(super) zram: Option<&'a ZramSwap>,
    pub(super) swap_file: Option<(&'a str, SwapFilePlan)>,
    /// The settings of the files of the plan, and of steps without a file.
    pub(super) settings: Vec<PlannedSetting>,
    /// The settings that no file of the plan contains.
    pub(super) only_running: Vec<PlannedSetting>,
    /// Sentences about the steps that only `pagewise apply` carries out.
    pub(super) only_apply: Vec<String>,
}

impl<'a> Layout<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        let mut layout = Self {
            plan,
            files: Vec::new(),
            links: Vec::new(),
            zram: None,
            swap_file: None,
            settings: Vec::new(),
            only_running: Vec::new(),
            only_apply: Vec::new(),
        };
        for step in &plan.steps {
            layout.add(step);
        }
        layout.settings = layout.files.iter().flat_map(settings_of).collect();
        layout.add_running();
        layout
    }

    pub(super) fn id(&self) -> &'a str {
        &self.plan.id
    }

    /// Size of the RAM of the machine that the plan was made for.
    pub(super) fn memory_total(&self) -> Option<u64> {
        self.plan.machine.memory_total_bytes.map(pagewise_model::Bytes::get)
    }

    fn add(&mut self, step: &'a Step) {
        match &step.change {
            Change::WriteFile { target, from, to } => {
                self.files.push(PlannedFile { path: target, from: from.as_deref(), to });
            }
            Change::MakeLink { target, to, .. } => self.links.push(PlannedLink { path: target, to }),
            Change::AddZramSwap { .. } if !step.survives_reboot => self.only_apply.push(
                "Not rendered: the zram device, because nothing of the plan creates it again at boot."
                    .to_owned(),
            ),
            Change::AddZramSwap { to, .. } => self.zram = Some(to),
            Change::AddSwapFile { target, to } => self.swap_file = Some((target, *to)),
            Change::SetSwapPriority { target, from, to } => self.only_apply.push(format!(
                "Not rendered: {target} gets priority {to} instead of {from}; `pagewise apply` on the machine does it."
            )),
            Change::DrainSwap { target, .. } => self.only_apply.push(format!(
                "Not rendered: {target} is not switched off; `pagewise apply` on the machine does it in slices."
            )),
            Change::SetKnob { .. } | Change::ReloadUnits { .. } => {}
        }
    }

    fn add_running(&mut self) {
        for step in &self.plan.steps {
            let Change::SetKnob { target, to, .. } = &step.change else { continue };
            let Some(path) = knob_path(target) else {
                self.only_apply
                    .push(format!("Not rendered: {target} = {to}; its file is not known."));
                continue;
            };
            if self.settings.iter().all(|it| it.path != path) {
                let setting = PlannedSetting { path, value: to.clone() };
                if !step.survives_reboot {
                    self.only_running.push(setting.clone());
                }
                self.settings.push(setting);
            }
        }
    }

    /// The units to start, in the order of the plan.
    fn units_to_start(&self) -> Vec<String> {
        let enabled = self.links.iter().filter(|link| link.to != "/dev/null");
        let by_links = enabled.filter_map(|link| link.enabled_unit().map(str::to_owned));
        by_links.chain(self.files.iter().filter_map(PlannedFile::generator_unit)).collect()
    }

    /// The commands that set the running values after the files are written, each as its arguments.
    pub(super) fn commands(&self) -> Vec<Vec<String>> {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let mut commands = Vec::new();
        for file in &self.files {
            if file.is_sysctl() {
                commands.push(words(&["sysctl", "-p", file.path]));
            } else if file.is_tmpfiles() {
                commands.push(words(&["systemd-tmpfiles", "--create", file.path]));
            }
        }
        for setting in &self.only_running {
            let script = r#"printf '%s\n' "$2" >"$1""#;
            commands.push(words(&["sh", "-c", script, "sh", &setting.path, &setting.value]));
        }
        if let Some((path, plan)) = self.swap_file {
            // fallocate leaves no holes on the file systems on which a plan adds a swap file
            let script =
                r#"[ -e "$1" ] || { umask 077 && fallocate -l "$2" "$1" && mkswap "$1"; }"#;
            let size = plan.size_bytes.get().to_string();
            commands.push(words(&["sh", "-c", script, "sh", path, &size]));
        }
        commands.extend(self.files.iter().filter_map(PlannedFile::start_command));
        let has_links = self.links.iter().any(|link| link.path.starts_with(UNITS));
        if has_links || self.files.iter().any(PlannedFile::is_of_systemd) {
            commands.push(words(&["systemctl", "daemon-reload"]));
        }
        for unit in self.units_to_start() {
            commands.push(words(&["systemctl", "start", &unit]));
        }
        commands
    }

    /// Whether the plan has anything that a tool that writes files and runs commands can express.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.links.is_empty() && self.commands().is_empty()
    }

    /// Sentences about what a tool that only writes files and runs commands leaves out of the plan.
    pub(super) fn list_left_out(&self) -> Vec<String> {
        let mut all = self.only_apply.clone();
        for setting in &self.only_running {
            let PlannedSetting { path, value } = setting;
            all.push(format!(
                "{path} = {value} holds until the next boot: the plan has no file for it."
            ));
        }
        all
    }
}

/// The settings of a file that the planner wrote: `key = value`, or `w /path - - - - value`.
fn settings_of(file: &PlannedFile<'_>) -> Vec<PlannedSetting> {
    let sysctl = |line: &str| {
        let (key, value) = line.split_once('=')?;
        let path = format!("/proc/sys/{}", key.trim().replace('.', "/"));
        Some(PlannedSetting { path, value: value.trim().to_owned() })
    };
    let tmpfiles = |line: &str| {
        let (path, value) = line.strip_prefix("w ")?.split_once(" - - - - ")?;
        Some(PlannedSetting { path: path.to_owned(), value: value.to_owned() })
    };
    let lines = file.to.lines().filter(|line| !line.starts_with('#'));
    if file.is_sysctl() {
        lines.filter_map(sysctl).collect()
    } else if file.is_tmpfiles() {
        lines.filter_map(tmpfiles).collect()
    } else {
        Vec::new()
    }
}

/// The path of a setting by its name in a plan, such as `thp.size.enabled[64kB]`.
fn knob_path(target: &str) -> Option<String> {
    let (name, instance) = match target.split_once('[') {
        Some((name, rest)) => (name, rest.strip_suffix(']')?),
        None => (target, ""),
    };
    let knob: &Knob = KNOBS.iter().find(|knob| knob.name == name)?;
    let mut path = format!("/{}", knob.path);
    for part in instance.split('/').filter(|part| !part.is_empty()) {
        let (from, to) = (path.find('{')?, path.find('}')?);
        path.replace_range(from..=to, part);
    }
    (!path.contains('{')).then_some(path)
}
