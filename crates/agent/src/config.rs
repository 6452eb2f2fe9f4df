// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/etc/pagewise/agent.toml` and its drop-ins → [`Config`].
//!
//! ```toml
//! [budget]
//! cpu_seconds_per_minute = 0.3
//!
//! [aging."/system.slice/web.service"]
//! agings_per_hour = 12
//!
//! [reclaim."/system.slice/web.service"]
//! idle_after = "4m"
//!
//! [hugepages."/system.slice/web.service"]
//! max_growth = "8M"
//!
//! [zram.zram0]
//! flash_per_day = "1G"
//!
//! [ksm]
//! least_profit = "64M"
//!
//! [switchback.reclaim]
//! cgroup = "/system.slice/web.service"
//! ```
//!
//! A later file changes single keys of an earlier one. An unknown key is an error that names the most
//! similar one, and every error names file, line and key: a mistyped word must neither switch
//! something on nor silently have no effect.

use std::collections::BTreeMap;
use std::time::Duration;

use pagewise_model::typed::parse_duration_from;
use pagewise_model::{Advice, AgentLoop, Bytes, most_similar};
use pagewise_stats::switchback::SwitchbackPlan;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::guard::GuardSettings;
use crate::hugepages::HugepagesSettings;
use crate::ksm::KsmSettings;
use crate::reclaim::ReclaimSettings;
use crate::switchback::{MetricSource, SwitchbackSettings};
use crate::zram::ZramSettings;

/// What the agent may use, and what it may do.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// CPU seconds that the agent may use per minute.
    pub cpu_seconds_per_minute: f64,
    /// The cgroups for which aging is switched on or off, by path.
    pub aging: BTreeMap<String, AgingSettings>,
    /// The cgroups of which unused memory is taken or not, by path.
    pub reclaim: BTreeMap<String, ReclaimSettings>,
    /// The cgroups whose memory is collapsed into huge pages or not, by path.
    pub hugepages: BTreeMap<String, HugepagesSettings>,
    /// The zram devices for which the loop is switched on or off, by name.
    pub zram: BTreeMap<String, ZramSettings>,
    /// Whether kernel same-page merging is switched on while it pays; `None` without such a section.
    pub ksm: Option<KsmSettings>,
    /// What stops all loops; `None` without such a section.
    pub guard: Option<GuardSettings>,
    /// How loops are proved, by their name.
    pub switchback: BTreeMap<String, SwitchbackSettings>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cpu_seconds_per_minute: 0.3,
            aging: BTreeMap::new(),
            reclaim: BTreeMap::new(),
            hugepages: BTreeMap::new(),
            zram: BTreeMap::new(),
            ksm: None,
            guard: None,
            switchback: BTreeMap::new(),
        }
    }
}

impl Config {
    /// The cgroups for which aging is switched on.
    pub fn aging_targets(&self) -> impl Iterator<Item = (&str, AgingSettings)> {
        let on = self.aging.iter().filter(|(_, settings)| settings.is_on);
        on.map(|(path, settings)| (path.as_str(), *settings))
    }

    /// The cgroups of which unused memory is taken.
    pub fn reclaim_targets(&self) -> impl Iterator<Item = (&str, ReclaimSettings)> {
        let on = self.reclaim.iter().filter(|(_, settings)| settings.is_on);
        on.map(|(path, settings)| (path.as_str(), *settings))
    }

    /// The cgroups whose memory is collapsed into huge pages.
    pub fn hugepages_targets(&self) -> impl Iterator<Item = (&str, HugepagesSettings)> {
        let on = self.hugepages.iter().filter(|(_, settings)| settings.is_on);
        on.map(|(path, settings)| (path.as_str(), *settings))
    }

    /// The loops that are proved.
    pub fn proved_loops(&self) -> impl Iterator<Item = (AgentLoop, &SwitchbackSettings)> {
        let settings_of = move |loop_: AgentLoop| Some((loop_, self.switchback.get(loop_.name())?));
        AgentLoop::PROVED.into_iter().filter_map(settings_of).filter(|(_, settings)| settings.is_on)
    }

    fn has_targets(&self, loop_: AgentLoop) -> bool {
        match loop_ {
            AgentLoop::Aging => self.aging_targets().next().is_some(),
            AgentLoop::Reclaim => self.reclaim_targets().next().is_some(),
            AgentLoop::Hugepages => self.hugepages_targets().next().is_some(),
            AgentLoop::Zram => self.zram_targets().next().is_some(),
            AgentLoop::Ksm => self.ksm_settings().is_some(),
        }
    }

    /// What KSM may cost and must save, if its loop is switched on.
    pub fn ksm_settings(&self) -> Option<KsmSettings> {
        self.ksm.filter(|settings| settings.is_on)
    }

    /// What stops all loops, if that is switched on.
    pub fn guard_settings(&self) -> Option<GuardSettings> {
        self.guard.filter(|settings| settings.is_on)
    }

    /// The zram devices for which the loop is switched on.
    pub fn zram_targets(&self) -> impl Iterator<Item = (&str, ZramSettings)> {
        let on = self.zram.iter().filter(|(_, settings)| settings.is_on);
        on.map(|(name, settings)| (name.as_str(), *settings))
    }
}

/// How a cgroup is aged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AgingSettings {
    /// False if a later file switches off what an earlier one switched on.
    pub is_on: bool,
    /// Fewer refaults of files per second are no reason to age the cgroup.
    pub refaults_per_second: f64,
    /// The largest number of agings in an hour.
    pub agings_per_hour: u32,
    /// Time between two readings, and between two agings.
    pub interval: Duration,
}

impl Default for AgingSettings {
    fn default() -> Self {
        Self {
            is_on: true,
            refaults_per_second: FEWEST_REFAULTS,
            agings_per_hour: 12,
            interval: Duration::from_secs(10),
        }
    }
}

/// With fewer refaults of files per second, the action ages nothing.
const FEWEST_REFAULTS: f64 = 50.0;
const MOST_REFAULTS: f64 = 1e9;
const CPU_SECONDS: (f64, f64) = (0.001, 60.0);
const AGINGS: (f64, f64) = (1.0, 60.0);
/// Maximum number of characters of a wrong value that an error repeats.
const LONGEST_FOUND: usize = 80;
/// Maximum number of characters of a key with its sections that an error repeats.
const LONGEST_KEY: usize = 300;
const BLOCK: (Duration, Duration) = (Duration::from_secs(7200), Duration::from_secs(86_400));
const WASH_OUT: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(43_200));
const RELEVANT_PERCENT: (f64, f64) = (0.1, 50.0);
/// Maximum number of arguments of a command, with its path.
const MOST_ARGUMENTS: usize = 64;
/// Maximum length of a path, an argument, or the name of a counter.
const LONGEST_TEXT: usize = 4096;
const COVERAGE_PERCENT: (f64, f64) = (1.0, 100.0);
const REFAULT_PERCENT: (f64, f64) = (0.1, 10.0);
/// Two agings are half of this apart.
const SHORTEST_IDLE: Duration = Duration::from_secs(20);
const SHORTEST_INTERVAL: Duration = Duration::from_secs(2);
const LONGEST_INTERVAL: Duration = Duration::from_secs(600);
const LONGEST_IDLE: Duration = Duration::from_secs(86_400);
const LONGEST_ROUND: Duration = Duration::from_secs(3600);

const A_CGROUP: &str =
    "the path of a cgroup below /sys/fs/cgroup, such as \"/system.slice/web.service\"";
const A_COMMAND: &str = "the absolute path of a program and its arguments, such as [\"/usr/local/bin/served\", \"--total\"]";

const SECTIONS: &[&str] =
    &["budget", "aging", "reclaim", "hugepages", "zram", "ksm", "guard", "switchback"];
const BUDGET_KEYS: &[&str] = &["cpu_seconds_per_minute"];
const AGING_KEYS: &[&str] = &["enabled", "refaults_per_second", "agings_per_hour", "interval"];
const RECLAIM_KEYS: &[&str] =
    &["enabled", "files_only", "idle_after", "refault_cpu_percent", "keep", "interval"];
const HUGEPAGES_KEYS: &[&str] = &["enabled", "max_growth", "coverage_percent", "interval"];
const SWITCHBACK_KEYS: &[&str] = &[
    "enabled",
    "cgroup",
    "metric_file",
    "metric_command",
    "metric",
    "block",
    "wash_out",
    "relevant_percent",
];
const GUARD_KEYS: &[&str] = &["enabled", "undo", "watch", "stall_percent", "lasts", "interval"];
const STALL_PERCENT: (f64, f64) = (0.1, 100.0);
const SHORTEST_WATCH: Duration = Duration::from_secs(60);
const KSM_KEYS: &[&str] = &["enabled", "least_profit", "cpu_percent", "interval", "retry_after"];
const KSM_CPU_PERCENT: (f64, f64) = (0.1, 100.0);
const RETRY: (Duration, Duration) = (Duration::from_secs(3600), Duration::from_secs(30 * 86_400));
const ZRAM_KEYS: &[&str] = &["enabled", "idle_after", "recompress", "flash_per_day", "interval"];

/// A configuration file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// Its path, for errors.
    pub path: String,
    /// Its contents.
    pub text: String,
}

/// What is wrong in a configuration file, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}:{line}: {}{what}", key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default())]
pub struct ConfigError {
    /// The file.
    pub path: String,
    /// The number of the line, from 1.
    pub line: usize,
    /// The key with its sections; `None` if the file is no TOML.
    pub key: Option<String>,
    /// What was expected, and what was found.
    pub what: String,
}

impl Advice for ConfigError {
    fn next(&self) -> Option<String> {
        Some("`pagewise agent --help` shows a configuration; `pagewise agent --check` reads it again".to_owned())
    }
}

/// Joins the configuration files, the first one first.
///
/// # Errors
/// The first error of the first file that has one.
pub fn parse(files: &[ConfigFile]) -> Result<Config, ConfigError> {
    let mut config = Config::default();
    // the last section about each loop: where all files together are wrong
    let mut sections = BTreeMap::new();
    for (number, file) in files.iter().enumerate() {
        Reader { file, number }.add_to(&mut config, &mut sections)?;
    }
    for (loop_, settings) in config.proved_loops() {
        let Some((number, start)) = sections.get(loop_.name()) else { continue };
        if let Some(what) = describe_unsound(settings, config.has_targets(loop_), loop_) {
            let section = format!("switchback.{}", loop_.name());
            let reader = Reader { file: &files[*number], number: *number };
            return Err(reader.error(*start, Some(section), what));
        }
    }
    Ok(config)
}

/// Why a loop cannot be proved in this way; `None` if it can.
fn describe_unsound(
    settings: &SwitchbackSettings,
    has_targets: bool,
    loop_: AgentLoop,
) -> Option<String> {
    let SwitchbackSettings { cgroup, metric, metric_name, block, wash_out, .. } = settings;
    let what = if cgroup.is_empty() {
        "expected the key cgroup: the cgroup whose CPU time and memory are measured".to_owned()
    } else if metric_name.is_some() && *metric == MetricSource::None {
        "expected the key metric_file or metric_command beside metric".to_owned()
    } else if SwitchbackPlan::new(0, *block, *wash_out).is_none() {
        "expected a block of which a day has a whole number, such as \"4h\" or \"6h\", and a wash_out of at most half of it"
            .to_owned()
    } else if !has_targets {
        format!("expected a section [{0}.…] that switches the loop {0} on", loop_.name())
    } else {
        return None;
    };
    Some(what)
}

struct Reader<'a> {
    file: &'a ConfigFile,
    /// The number of the file, from 0.
    number: usize,
}

type Key<'a> = Spanned<toml::de::DeString<'a>>;
type Value<'a> = Spanned<DeValue<'a>>;

impl Reader<'_> {
    fn add_to(
        &self,
        config: &mut Config,
        sections: &mut BTreeMap<String, (usize, usize)>,
    ) -> Result<(), ConfigError> {
        let parsed = DeTable::parse(&self.file.text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            // the message omits the line itself: the file can be any one, also one with secrets
            self.error(start, None, error.message().trim_end().replace('\n', "; "))
        })?;
        for (key, value) in parsed.get_ref() {
            match key.get_ref().as_ref() {
                name @ "budget" => self.add_budget(name, value, config)?,
                name @ "aging" => {
                    for (path, value) in self.table(name, value)? {
                        self.add_aging(path, value, config)?;
                    }
                }
                name @ "reclaim" => {
                    for (path, value) in self.table(name, value)? {
                        self.add_reclaim(path, value, config)?;
                    }
                }
                name @ "hugepages" => {
                    for (path, value) in self.table(name, value)? {
                        self.add_hugepages(path, value, config)?;
                    }
                }
                name @ "zram" => {
                    for (device, value) in self.table(name, value)? {
                        self.add_zram(device, value, config)?;
                    }
                }
                name @ "ksm" => self.add_ksm(name, value, config)?,
                name @ "guard" => self.add_guard(name, value, config)?,
                name @ "switchback" => {
                    for (loop_, value) in self.table(name, value)? {
                        self.add_switchback(loop_, value, config)?;
                        let place = (self.number, loop_.span().start);
                        sections.insert(loop_.get_ref().to_string(), place);
                    }
                }
                name => return Err(self.unknown(key, name, "section", SECTIONS)),
            }
        }
        Ok(())
    }

    fn add_budget(
        &self,
        section: &str,
        value: &Value<'_>,
        config: &mut Config,
    ) -> Result<(), ConfigError> {
        for (key, value) in self.table(section, value)? {
            let name = format!("{section}.{}", key.get_ref());
            match key.get_ref().as_ref() {
                "cpu_seconds_per_minute" => {
                    config.cpu_seconds_per_minute = self.number(&name, value, CPU_SECONDS)?;
                }
                _ => return Err(self.unknown(key, &name, "key", BUDGET_KEYS)),
            }
        }
        Ok(())
    }

    fn add_aging(
        &self,
        path: &Key<'_>,
        value: &Value<'_>,
        config: &mut Config,
    ) -> Result<(), ConfigError> {
        let section = self.cgroup_section("aging", path)?;
        let table = self.table(&section, value)?;
        let settings = config.aging.entry(path.get_ref().to_string()).or_default();
        for (key, value) in table {
            let name = format!("{section}.{}", key.get_ref());
            match key.get_ref().as_ref() {
                "enabled" => settings.is_on = self.boolean(&name, value)?,
                "refaults_per_second" => {
                    settings.refaults_per_second =
                        self.number(&name, value, (FEWEST_REFAULTS, MOST_REFAULTS))?;
                }
                "agings_per_hour" => settings.agings_per_hour = self.whole(&name, value, AGINGS)?,
                "interval" => settings.interval = self.duration(&name, value, LONGEST_INTERVAL)?,
                _ => return Err(self.unknown(key, &name, "key", AGING_KEYS)),
            }
        }
        Ok(())
    }

    fn add_reclaim(
        &self,
        path: &Key<'_>,
        value: &Value<'_>,
        config: &mut Config,
    ) -> Result<(), ConfigError> {
        let section = self.cgroup_section("reclaim", path)?;
        let table = self.table(&section, value)?;
        let settings = config.reclaim.entry(path.get_ref().to_string()).or_default();
        for (key, value) in table {
            let name = format!("{section}.{}", key.get_ref());
            match key.get_ref().as_ref() {
                "enabled" => settings.is_on = self.boolean(&name, value)?,
                "files_only" => settings.files_only = self.boolean(&name, value)?,
                "idle_after" => {
                    settings.idle_after =
                        self.duration_in(&name, value, (SHORTEST_IDLE, LONGEST_IDLE))?;
                }
                "refault_cpu_percent" => {
                    settings.refault_cpu_percent = self.number(&name, value, REFAULT_PERCENT)?;
                }
                "keep" => settings.keep = self.size(&name, value)?,
                "interval" => settings.interval = self.duration(&name, value, LONGEST_INTERVAL)?,
                _ => return Err(self.unknown(key, &name, "key", RECLAIM_KEYS)),
            }
        }
        Ok(())
    }

    /// The name of the section of a cgroup, whose path is checked.
    fn cgroup_section(&self, kind: &str, path: &Key<'_>) -> Result<String, ConfigError> {
        let section = format!("{kind}.\"{}\"", path.get_ref());
        if !is_clean_path(path.get_ref()) {
            let what = format!("expected {A_CGROUP}");
            return Err(self.error(path.span().start, Some(section), what));
        }
        Ok(section)
    }

    fn add_switchback(
        &self,
        loop_: &Key<'_>,
        value: &Value<'_>,
        config: &mut Config,
    ) -> Result<(), ConfigError> {
        let section = format!("switchback.{}", loop_.get_ref());
        let loops = AgentLoop::PROVED.map(AgentLoop::name);
        if !loops.contains(&loop_.get_ref().as_ref()) {
            return Err(self.unknown(loop_, &section, "loop", &loops));
        }
        let table = self.table(&section, value)?;
        let settings = config.switchback.entry(loop_.get_ref().to_string()).or_default();
        let mut source = None;
        for (key, value) in table {
            let name = format!("{section}.{}", key.get_ref());
            match key.get_ref().as_ref() {
                "enabled" => settings.is_on = self.boolean(&name, value)?,
                "cgroup" => settings.cgroup = self.path(&name, value, A_CGROUP)?,
                "metric_file" | "metric_command" if source.is_some() => {
                    let what = "expected metric_file or metric_command, found both".to_owned();
                    return Err(self.error(key.span().start, Some(name), what));
                }
                "metric_file" => {
                    let path = self.path(&name, value, "the absolute path of a file")?;
                    source = Some(MetricSource::File(path));
                }
                "metric_command" => {
                    source = Some(MetricSource::Command(self.command(&name, value)?));
                }
                "metric" => settings.metric_name = Some(self.metric_name(&name, value)?),
                "block" => settings.block = self.duration_in(&name, value, BLOCK)?,
                "wash_out" => settings.wash_out = self.duration_in(&name, value, WASH_OUT)?,
                "relevant_percent" => {
                    settings.relevant_percent = self.number(&name, value, RELEVANT_PERCENT)?;
                }
                _ => return Err(self.unknown(key, &name, "key", SWITCHBACK_KEYS)),
            }
        }
        if let Some(source) = source {
            settings.metric = source;
        }
        Ok(())
    }

    fn path(&self, name: &str, value: &Value<'_>, expected: &str) -> Result<String, ConfigError> {
        let path = text(value).filter(|path| is_clean_path(path) && path.len() < LONGEST_TEXT);
        path.map(str::to_owned).ok_or_else(|| self.wrong(name, value, expected))
    }

    /// A program and its arguments. They are given to no shell.
    fn command(&self, name: &str, value: &Value<'_>) -> Result<Vec<String>, ConfigError> {
        let words = match value.get_ref() {
            DeValue::Array(words) if (1..=MOST_ARGUMENTS).contains(&words.len()) => words,
            _ => return Err(self.wrong(name, value, A_COMMAND)),
        };
        let is_sound = |word: &&str| word.len() < LONGEST_TEXT && !word.contains('\0');
        let words = words.iter().map(|word| text(word).filter(is_sound).map(str::to_owned));
        let words: Option<Vec<String>> = words.collect();
        let words = words.filter(|words| is_clean_path(&words[0]));
        words.ok_or_else(|| self.wrong(name, value, A_COMMAND))
    }

    fn metric_name(&self, name: &str, value: &Value<'_>) -> Result<String, ConfigError> {
        let is_plain = |metric: &&str| {
            let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':');
            (1..=200).contains(&metric.len()) && metric.bytes().all(is_of_name)
        };
        let metric = text(value).filter(is_plain);
        let expected = "the name of a counter without labels, such as \"requests_total\"";
        metric.map(str::to_owned).ok_or_else(|| self.wrong(name, value, expected))
    }

    fn add_hugepages(
        &self,
        path: &Key<'_>,
        value: &Value<'_>,
        config: &mut Config,
    ) -> Result<(), ConfigError> {
        let section = self.cgroup_section("hugepages", path)?;
        let table = self.table(&section, value)?;
        let settings = config.hugepages.entry(path.get_ref().to_string()).or_default();
        for (key, value) in table {
            let name = format!("{section}.{}", key.get_ref());
            match key.get_ref().as_ref() {
                "enabled" => settings.is_on = self.boolean(&name, value)?,
                "max_growth" => settings.max_growth = self.size(&name, value)?,
                "coverage_percent" => {
                    settings.coverage_percent = self.number(&name, value, COVERAGE_PERCENT)?;
                }
                "interval" => settings.interval = self.duration(&name, value, LONGEST_INTERVAL)?,
                _ => return Err(self.unknown(key, &name, "key", HUGEPAGES_KEYS)),
            }
        }
        Ok(())
    }

    fn add_zram(
        &self,
        device: &Key<'_>,
        value: &Value<'_>,
        config: &mut Config,
    ) -> Result<(), ConfigError> {
        let section = format!("zram.{}", device.get_ref());
        let is_number = |digits: &str| {
            let canonical = digits.parse::<u32>().map(|number| number.to_string());
            canonical.is_ok_and(|canonical| canonical == digits)
        };
        if !device.get_ref().strip_prefix("zram").is_some_and(is_number) {
            let what = "expected the name of a zram device, such as zram0".to_owned();
            return Err(self.error(device.span().start, Some(section), what));
        }
        let table = self.table(&section, value)?;
        let settings = config.zram.entry(device.get_ref().to_string()).or_default();
        for (key, value) in table {
            let name = format!("{section}.{}", key.get_ref());
            match key.get_ref().as_ref() {
                "enabled" => settings.is_on = self.boolean(&name, value)?,
                "idle_after" => settings.idle_after = self.duration(&name, value, LONGEST_IDLE)?,
                "recompress" => settings.recompresses = self.boolean(&name, value)?,
                "flash_per_day" => settings.flash_per_day = self.size(&name, value)?,
                "interval" => settings.interval = self.duration(&name, value, LONGEST_ROUND)?,
                _ => return Err(self.unknown(key, &name, "key", ZRAM_KEYS)),
            }
        }
        Ok(())
    }

    fn add_guard(
        &self,
        section: &str,
        value: &Value<'_>,
        config: &mut Config,
    ) -> Result<(), ConfigError> {
        let settings = config.guard.get_or_insert_default();
        for (key, value) in self.table(section, value)? {
            let name = format!("{section}.{}", key.get_ref());
            match key.get_ref().as_ref() {
                "enabled" => settings.is_on = self.boolean(&name, value)?,
                "undo" => settings.undoes = self.boolean(&name, value)?,
                "watch" => {
                    settings.watch = self.duration_in(&name, value, (SHORTEST_WATCH, RETRY.1))?;
                }
                "stall_percent" => {
                    settings.stall_percent = self.number(&name, value, STALL_PERCENT)?;
                }
                "lasts" => settings.lasts = self.duration(&name, value, LONGEST_ROUND)?,
                "interval" => settings.interval = self.duration(&name, value, LONGEST_INTERVAL)?,
                _ => return Err(self.unknown(key, &name, "key", GUARD_KEYS)),
            }
        }
        Ok(())
    }

    fn add_ksm(
        &self,
        section: &str,
        value: &Value<'_>,
        config: &mut Config,
    ) -> Result<(), ConfigError> {
        let settings = config.ksm.get_or_insert_default();
        for (key, value) in self.table(section, value)? {
            let name = format!("{section}.{}", key.get_ref());
            match key.get_ref().as_ref() {
                "enabled" => settings.is_on = self.boolean(&name, value)?,
                "least_profit" => settings.least_profit = self.size(&name, value)?,
                "cpu_percent" => {
                    settings.cpu_percent = self.number(&name, value, KSM_CPU_PERCENT)?;
                }
                "interval" => settings.interval = self.duration(&name, value, LONGEST_INTERVAL)?,
                "retry_after" => settings.retry_after = self.duration_in(&name, value, RETRY)?,
                _ => return Err(self.unknown(key, &name, "key", KSM_KEYS)),
            }
        }
        Ok(())
    }

    fn table<'v, 'i>(
        &self,
        name: &str,
        value: &'v Value<'i>,
    ) -> Result<&'v DeTable<'i>, ConfigError> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(table),
            _ => Err(self.wrong(name, value, &format!("a table, [{name}]"))),
        }
    }

    fn boolean(&self, name: &str, value: &Value<'_>) -> Result<bool, ConfigError> {
        match value.get_ref() {
            DeValue::Boolean(on) => Ok(*on),
            _ => Err(self.wrong(name, value, "true or false")),
        }
    }

    fn number(
        &self,
        name: &str,
        value: &Value<'_>,
        (least, most): (f64, f64),
    ) -> Result<f64, ConfigError> {
        let number = match value.get_ref() {
            DeValue::Float(float) => float.as_str().parse().ok(),
            DeValue::Integer(integer) => {
                i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|it| it as f64)
            }
            _ => None,
        };
        let sane = number.filter(|number: &f64| (least..=most).contains(number));
        sane.ok_or_else(|| self.wrong(name, value, &format!("a number from {least} to {most}")))
    }

    fn whole(
        &self,
        name: &str,
        value: &Value<'_>,
        (least, most): (f64, f64),
    ) -> Result<u32, ConfigError> {
        let number = self.number(name, value, (least, most))?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is in the range"
        )]
        let whole = number as u32;
        if f64::from(whole) == number {
            return Ok(whole);
        }
        Err(self.wrong(name, value, &format!("a whole number from {least} to {most}")))
    }

    fn duration(
        &self,
        name: &str,
        value: &Value<'_>,
        longest: Duration,
    ) -> Result<Duration, ConfigError> {
        self.duration_in(name, value, (SHORTEST_INTERVAL, longest))
    }

    fn duration_in(
        &self,
        name: &str,
        value: &Value<'_>,
        (shortest, longest): (Duration, Duration),
    ) -> Result<Duration, ConfigError> {
        let time = text(value).and_then(|text| parse_duration_from(text, shortest).ok());
        let sane = time.filter(|time| *time <= longest);
        let show = |time: Duration| match time.as_secs() {
            hours if hours % 3600 == 0 => format!("{}h", hours / 3600),
            minutes if minutes % 60 == 0 => format!("{}m", minutes / 60),
            seconds => format!("{seconds}s"),
        };
        let expected = format!("a time from \"{}\" to \"{}\"", show(shortest), show(longest));
        sane.ok_or_else(|| self.wrong(name, value, &expected))
    }

    fn size(&self, name: &str, value: &Value<'_>) -> Result<Bytes, ConfigError> {
        let size = text(value).and_then(|text| text.parse().ok());
        size.ok_or_else(|| self.wrong(name, value, "a size as \"256M\" or \"2G\""))
    }

    fn unknown(&self, key: &Key<'_>, name: &str, kind: &str, known: &[&str]) -> ConfigError {
        let near = most_similar(key.get_ref(), known.iter().copied());
        let hint = near.map_or_else(
            || format!("; expected one of {}", known.join(", ")),
            |near| format!("; did you mean {near}?"),
        );
        self.error(
            key.span().start,
            Some(name.to_owned()),
            format!("no such {kind} is known{hint}"),
        )
    }

    fn wrong(&self, name: &str, value: &Value<'_>, expected: &str) -> ConfigError {
        let found = self.file.text.get(value.span()).unwrap_or_default();
        let line = found.lines().next().unwrap_or_default();
        let cut = line.char_indices().nth(LONGEST_FOUND).map(|(at, _)| &line[..at]);
        let what = match cut {
            Some(cut) => format!("expected {expected}, found {cut}…"),
            None => format!("expected {expected}, found {line}"),
        };
        self.error(value.span().start, Some(name.to_owned()), what)
    }

    fn error(&self, start: usize, key: Option<String>, what: String) -> ConfigError {
        let key = key.map(|key| match key.char_indices().nth(LONGEST_KEY) {
            Some((at, _)) => format!("{}…", &key[..at]),
            None => key,
        });
        let before = self.file.text.get(..start).unwrap_or_default();
        let line = 1 + before.matches('\n').count();
        ConfigError { path: self.file.path.clone(), line, key, what }
    }
}

/// Whether this can be the absolute path of a cgroup or file other than the root: the kernel makes no
/// cgroup whose name has a newline, and no file whose name has a zero byte or more bytes.
fn is_clean_path(path: &str) -> bool {
    let is_clean = |step: &str| {
        !matches!(step, "" | "." | "..") && step.len() <= 255 && !step.contains(['\n', '\0'])
    };
    path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_clean))
}

fn text<'v>(value: &'v Value<'_>) -> Option<&'v str> {
    match value.get_ref() {
        DeValue::String(text) => Some(text.as_ref()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(path: &str, text: &str) -> ConfigFile {
        ConfigFile { path: path.to_owned(), text: text.to_owned() }
    }

    fn refused(text: &str) -> String {
        parse(&[file("a.toml", text)]).unwrap_err().to_string()
    }

    #[test]
    fn a_long_wrong_value_is_cut() {
        let why = refused(&format!("[aging.\"/web\"]\ninterval = \"{}\"", "é".repeat(60_000)));
        assert!(why.ends_with("éé…") && why.len() < 400, "{why}");
        let why = refused(&format!("[aging.\"/{}\"]", "é".repeat(30_000)));
        assert!(why.contains("éé…: expected the path") && why.len() < 1000, "{why}");
        let why = refused(&format!("[aging.\"/web\"]\n{} = 1", "k".repeat(30_000)));
        assert!(why.contains("kk…: no such key") && why.len() < 1000, "{why}");
    }

    #[test]
    fn nothing_is_switched_on_until_it_is_named() {
        assert_eq!(parse(&[]).unwrap(), Config::default());
        let budget = parse(&[file("a", "[budget]\ncpu_seconds_per_minute = 2")]).unwrap();
        assert!(budget.aging_targets().next().is_none());
        assert!((budget.cpu_seconds_per_minute - 2.0).abs() < 1e-9);
        let named = parse(&[file("a", "[aging.\"/web\"]\n")]).unwrap();
        let all: Vec<_> = named.aging_targets().collect();
        assert_eq!(all, [("/web", AgingSettings::default())]);
    }

    #[test]
    fn a_later_file_changes_single_keys() {
        let first = "[aging.\"/web\"]\nagings_per_hour = 5\ninterval = '1m'\n[aging.\"/db\"]";
        let second = "[aging.\"/web\"]\nagings_per_hour = 0x06\nrefaults_per_second = 1_000.5\n[aging.\"/db\"]\nenabled = false";
        let config = parse(&[file("a", first), file("b", second)]).unwrap();
        let all: Vec<_> = config.aging_targets().collect();
        let web = AgingSettings {
            is_on: true,
            refaults_per_second: 1000.5,
            agings_per_hour: 6,
            interval: Duration::from_secs(60),
        };
        assert_eq!(all, [("/web", web)]);
    }

    #[test]
    fn ksm_is_left_alone_without_a_section() {
        assert_eq!(parse(&[file("a", "[zram.zram3]")]).unwrap().ksm_settings(), None);
        let named = parse(&[file("a", "[ksm]")]).unwrap();
        assert_eq!(named.ksm_settings(), Some(KsmSettings::default()));
        let first = "[ksm]\nleast_profit = '64M'\ncpu_percent = 2\nretry_after = '2h'";
        let off = "[ksm]\nenabled = false";
        let third = "[ksm]\ninterval = '5s'";
        let both = parse(&[file("a", first), file("c", third)]).unwrap();
        let expected = KsmSettings {
            is_on: true,
            least_profit: Bytes::new(64 << 20),
            cpu_percent: 2.0,
            interval: Duration::from_secs(5),
            retry_after: Duration::from_secs(7200),
        };
        assert_eq!(both.ksm_settings(), Some(expected));
        let all = [file("a", first), file("b", off), file("c", third)];
        assert_eq!(parse(&all).unwrap().ksm_settings(), None);
        let why = refused("[ksm]\ncpu_percent = 0");
        assert_eq!(why, "a.toml:2: ksm.cpu_percent: expected a number from 0.1 to 100, found 0");
        assert!(refused("[ksm]\nleast_profits = '1M'").ends_with("did you mean least_profit?"));
        let why = refused("[switchback.ksm]\ncgroup = '/web'");
        assert!(why.contains("no such loop is known; expected one of aging"), "{why}");
    }

    #[test]
    fn a_guard_undoes_nothing_until_that_is_asked_for() {
        assert_eq!(parse(&[file("a", "[ksm]")]).unwrap().guard_settings(), None);
        let named = parse(&[file("a", "[guard]")]).unwrap();
        assert_eq!(named.guard_settings(), Some(GuardSettings::default()));
        let text = "[guard]\nundo = true\nwatch = '2h'\nstall_percent = 20\nlasts = '30s'\ninterval = '5s'";
        let expected = GuardSettings {
            is_on: true,
            undoes: true,
            watch: Duration::from_secs(7200),
            stall_percent: 20.0,
            lasts: Duration::from_secs(30),
            interval: Duration::from_secs(5),
        };
        assert_eq!(parse(&[file("a", text)]).unwrap().guard_settings(), Some(expected));
        let off = [file("a", text), file("b", "[guard]\nenabled = false")];
        assert_eq!(parse(&off).unwrap().guard_settings(), None);
        assert!(refused("[guard]\nundoes = true").ends_with("did you mean undo?"));
    }

    #[test]
    fn a_zram_device_is_named_and_writes_nothing_until_a_limit_is_set() {
        let named = parse(&[file("a", "[zram.zram3]\n")]).unwrap();
        let all: Vec<_> = named.zram_targets().collect();
        assert_eq!(all, [("zram3", ZramSettings::default())]);
        assert_eq!(ZramSettings::default().flash_per_day, Bytes::new(0));
        let first = "[zram.zram0]\nidle_after = '2h'\nflash_per_day = '640K'\nrecompress = false";
        let second = "[zram.zram0]\ninterval = '1m'\n[zram.zram3]\nenabled = false";
        let both = parse(&[file("a", first), file("b", second)]).unwrap();
        let expected = ZramSettings {
            is_on: true,
            idle_after: Duration::from_secs(7200),
            recompresses: false,
            flash_per_day: Bytes::new(640 << 10),
            interval: Duration::from_secs(60),
        };
        assert_eq!(both.zram_targets().collect::<Vec<_>>(), [("zram0", expected)]);
        for name in ["zram", "zram00", "zram-1", "sda", "zram0x", "\"zram0/..\""] {
            let why = refused(&format!("[zram.{name}]"));
            assert!(why.contains("expected the name of a zram device"), "{why}");
        }
        for (line, expected) in [
            ("idle_after = '25h'", "a time from \"2s\" to \"24h\", found '25h'"),
            ("interval = '2h'", "a time from \"2s\" to \"1h\", found '2h'"),
            ("flash_per_day = 5", "a size as \"256M\" or \"2G\", found 5"),
            ("recompress = 1", "true or false, found 1"),
            ("flash_per_dai = '1G'", "did you mean flash_per_day?"),
        ] {
            let why = refused(&format!("[zram.zram0]\n{line}"));
            assert!(why.starts_with("a.toml:2: zram.zram0.") && why.contains(expected), "{why}");
        }
    }

    #[test]
    fn memory_is_taken_of_a_named_cgroup_within_the_defaults() {
        let named = parse(&[file("a", "[reclaim.\"/web\"]\n")]).unwrap();
        assert!(named.aging_targets().next().is_none());
        let all: Vec<_> = named.reclaim_targets().collect();
        assert_eq!(all, [("/web", ReclaimSettings::default())]);
        let text = "files_only = true\nidle_after = '20s'\nrefault_cpu_percent = 2.5\nkeep = '64M'\ninterval = '2s'";
        let set = parse(&[file("a", &format!("[reclaim.\"/web\"]\n{text}"))]).unwrap();
        let expected = ReclaimSettings {
            is_on: true,
            files_only: true,
            idle_after: Duration::from_secs(20),
            refault_cpu_percent: 2.5,
            keep: Bytes::new(64 << 20),
            interval: Duration::from_secs(2),
        };
        assert_eq!(set.reclaim["/web"], expected);
        for (line, expected) in [
            ("idle_after = '19s'", "a time from \"20s\" to \"24h\", found '19s'"),
            ("refault_cpu_percent = 11", "a number from 0.1 to 10, found 11"),
            ("keep = 64", "a size as \"256M\" or \"2G\", found 64"),
            ("files_onli = true", "did you mean files_only?"),
        ] {
            let why = refused(&format!("[reclaim.\"/web\"]\n{line}"));
            assert!(
                why.starts_with("a.toml:2: reclaim.\"/web\".") && why.contains(expected),
                "{why}"
            );
        }
        assert!(refused("[reclaim.web]").contains("expected the path of a cgroup"));
    }

    #[test]
    fn memory_of_a_named_cgroup_is_collapsed_within_the_defaults() {
        let named =
            parse(&[file("a", "[hugepages.\"/web\"]\n[switchback.hugepages]\ncgroup = '/web'")]);
        let named = named.unwrap();
        let all: Vec<_> = named.hugepages_targets().collect();
        assert_eq!(all, [("/web", HugepagesSettings::default())]);
        assert_eq!(named.proved_loops().next().unwrap().0, AgentLoop::Hugepages);
        let text = "max_growth = '4K'\ncoverage_percent = 75.5\ninterval = '10s'";
        let later = "[hugepages.\"/web\"]\nenabled = false";
        let set = parse(&[file("a", &format!("[hugepages.\"/web\"]\n{text}")), file("b", later)]);
        let expected = HugepagesSettings {
            is_on: false,
            max_growth: Bytes::new(4096),
            coverage_percent: 75.5,
            interval: Duration::from_secs(10),
        };
        assert_eq!(set.unwrap().hugepages["/web"], expected);
        for (line, expected) in [
            ("max_growth = 8", "a size as \"256M\" or \"2G\", found 8"),
            ("coverage_percent = 101", "a number from 1 to 100, found 101"),
            ("max_grow = '8M'", "did you mean max_growth?"),
        ] {
            let why = refused(&format!("[hugepages.\"/web\"]\n{line}"));
            assert!(
                why.starts_with("a.toml:2: hugepages.\"/web\".") && why.contains(expected),
                "{why}"
            );
        }
    }

    #[test]
    fn a_loop_is_proved_by_a_counter_of_the_user() {
        let reclaim = "[reclaim.'/web']\n";
        let text = "[switchback.reclaim]\ncgroup = '/web'\nmetric_file = '/run/web'\nmetric = 'requests_total'\n\
                    block = '6h'\nwash_out = '1h'\nrelevant_percent = 2\n";
        let config = parse(&[file("a", text), file("b", reclaim)]).unwrap();
        let all: Vec<_> = config.proved_loops().collect();
        let expected = SwitchbackSettings {
            is_on: true,
            cgroup: "/web".to_owned(),
            metric: MetricSource::File("/run/web".to_owned()),
            metric_name: Some("requests_total".to_owned()),
            block: Duration::from_secs(6 * 3600),
            wash_out: Duration::from_secs(3600),
            relevant_percent: 2.0,
        };
        assert_eq!(all, [(AgentLoop::Reclaim, &expected)]);
        // a later file changes single keys, also where the first one is not complete
        let later = "[switchback.reclaim]\nmetric_command = ['/bin/served', '-t']\n";
        let both = parse(&[file("a", text), file("b", reclaim), file("c", later)]).unwrap();
        let command = MetricSource::Command(vec!["/bin/served".to_owned(), "-t".to_owned()]);
        assert_eq!(both.switchback["reclaim"].metric, command);
        let off = "[switchback.reclaim]\nenabled = false";
        assert_eq!(parse(&[file("a", text), file("b", off)]).unwrap().proved_loops().count(), 0);
        let wrong =
            parse(&[file("a", reclaim), file("b", "\n[switchback.reclaim]"), file("c", "")]);
        let wrong = wrong.unwrap_err().to_string();
        assert!(wrong.starts_with("b:2: switchback.reclaim: expected the key cgroup"), "{wrong}");
    }

    #[test]
    fn a_proof_that_makes_no_sense_is_refused() {
        let refused_with =
            |text: &str| refused(&format!("[zram.zram0]\n[switchback.zram]\n{text}"));
        for (text, expected) in [
            ("", "2: switchback.zram: expected the key cgroup"),
            ("cgroup = 'web'", "3: switchback.zram.cgroup: expected the path of a cgroup"),
            ("cgroup = '/web'\nmetric = 'x'", "2: switchback.zram: expected the key metric_file"),
            (
                "cgroup = '/web'\nmetric = 'x y'",
                "4: switchback.zram.metric: expected the name of a counter",
            ),
            ("metric_file = 'x'", "3: switchback.zram.metric_file: expected the absolute path"),
            (
                "metric_command = 'served'",
                "expected the absolute path of a program and its arguments",
            ),
            ("metric_command = []", "expected the absolute path of a program"),
            ("metric_command = ['served']", "expected the absolute path of a program"),
            ("metric_command = ['/bin/a', 1]", "expected the absolute path of a program"),
            ("metric_command = ['/bin/a']\nmetric_file = '/x'", "found both"),
            (
                "cgroup = '/web'\nblock = '5h'",
                "2: switchback.zram: expected a block of which a day has",
            ),
            ("cgroup = '/web'\nwash_out = '3h'", "at most half of it"),
            ("block = '1h'", "expected a time from \"2h\" to \"24h\", found '1h'"),
            ("wash_out = '5s'", "expected a time from \"1m\" to \"12h\", found '5s'"),
            ("relevant_percent = 0", "expected a number from 0.1 to 50, found 0"),
            ("wash_uot = '1h'", "did you mean wash_out?"),
        ] {
            let why = refused_with(text);
            assert!(why.starts_with("a.toml:") && why.contains(expected), "{text}: {why}");
        }
        let why = refused("[switchback.reclame]");
        assert!(why.contains("no such loop is known; did you mean reclaim?"), "{why}");
        let why = refused("[aging.'/web']\nenabled = false\n[switchback.aging]\ncgroup = '/web'");
        let expected = "a.toml:3: switchback.aging: expected a section [aging.…] that switches the loop aging on";
        assert_eq!(why, expected);
    }

    #[test]
    fn an_error_names_file_line_and_key() {
        assert_eq!(
            refused("[budget]\ncpu_second_per_minute = 1"),
            "a.toml:2: budget.cpu_second_per_minute: no such key is known; did you mean cpu_seconds_per_minute?"
        );
        assert_eq!(
            refused("\n[agin]"),
            "a.toml:2: agin: no such section is known; did you mean aging?"
        );
        assert_eq!(
            refused("[aging.\"/web\"]\nxyzxyz = 1"),
            "a.toml:2: aging.\"/web\".xyzxyz: no such key is known; expected one of enabled, refaults_per_second, \
             agings_per_hour, interval"
        );
        assert_eq!(
            refused("[aging.\"/web\"]\n\nagings_per_hour = 1.5"),
            "a.toml:3: aging.\"/web\".agings_per_hour: expected a whole number from 1 to 60, found 1.5"
        );
        let long = "/".to_owned() + &"a".repeat(256);
        for path in ["web", "/", "/a/../b", "/a//b", "/a/", "/a\\nb", "/a\\u0000", &long] {
            let why = refused(&format!("[aging.\"{path}\"]"));
            assert!(why.contains("expected the path of a cgroup"), "{path}: {why}");
        }
        for (line, expected) in [
            ("agings_per_hour = 0", "a number from 1 to 60, found 0"),
            ("agings_per_hour = \"5\"", "found \"5\""),
            ("refaults_per_second = 49", "a number from 50 to 1000000000, found 49"),
            ("refaults_per_second = nan", "found nan"),
            ("interval = \"1s\"", "a time from \"2s\" to \"10m\", found \"1s\""),
            ("interval = 5", "found 5"),
            ("interval = \"11m\"", "found \"11m\""),
            ("enabled = 1", "true or false, found 1"),
        ] {
            let why = refused(&format!("[aging.\"/web\"]\n{line}"));
            assert!(why.starts_with("a.toml:2: ") && why.contains(expected), "{why}");
        }
        assert!(refused("[aging.\"/web\"]\ninterval = ").starts_with("a.toml:2: "));
        assert!(refused("aging = 3").contains("expected a table, [aging], found 3"));
        assert!(refused("[budget]\na = 1\na = 2").starts_with("a.toml:3: duplicate key"));
        let second = parse(&[file("a", ""), file("b", "x = 1")]).unwrap_err();
        assert_eq!((second.path.as_str(), second.line), ("b", 1));
        assert!(second.next().is_some());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in ".{0,200}") {
            if let Err(error) = parse(&[file("a", &text)]) {
                prop_assert!(error.line <= 1 + text.matches('\n').count());
            }
        }

        /// Whatever one setting is changed to, the others stay as they are.
        #[test]
        fn a_valid_number_is_what_was_written(agings in 1u32..=60, seconds in 2u64..=600) {
            let text = format!("[aging.\"/web\"]\nagings_per_hour = {agings}\ninterval = \"{seconds}s\"");
            let config = parse(&[file("a", &text)]).unwrap();
            let expected = AgingSettings {
                agings_per_hour: agings,
                interval: Duration::from_secs(seconds),
                ..AgingSettings::default()
            };
            prop_assert_eq!(config.aging["/web"], expected);
        }
    }
}
