// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise thp drop-in`: a systemd drop-in that gives a unit huge pages, or takes them from it.
//!
//! Since version 260, systemd has a setting for the kernel's policy (`MemoryTHP=`). Whether the
//! installed systemd has the setting is asked of systemd itself, not concluded from its version.
//! Allocators are controlled by environment variables. A drop-in replaces the whole value of a
//! variable, so the new words are appended to the value that the unit has.

use std::process::Command;

use pagewise_model::Refusal;
use pagewise_observe::{PROGRAM_FOLDERS, find_program};
use pagewise_terminal::{Outcome, output};

use super::run::{Switch, inspect, variables};
use crate::cli::DropInArgs;

/// The properties that `systemctl show` prints of the systemd unit.
#[derive(Debug, Default, PartialEq)]
struct Unit {
    /// The systemd unit's name with its suffix.
    name: String,
    /// Whether this systemd knows `MemoryTHP=`.
    has_setting: bool,
    environment: Vec<(String, String)>,
    program: Option<String>,
}

pub(super) fn run(args: &DropInArgs) -> anyhow::Result<Outcome> {
    let unit = parse(&read_properties(&args.name)?);
    if !unit.name.ends_with(".service") {
        let what = format!("unit {}: only services have an environment and a program", unit.name);
        return Err(Refusal::with_advice(what, LIST).into());
    }
    let switch = Switch::from_args(&args.switch).unwrap_or(Switch::On);
    let text = drop_in(&unit, switch).ok_or_else(|| {
        let what = "--advised: this systemd has no MemoryTHP=, and no variable means only where it is asked for";
        Refusal::with_advice(what, "ExecStart=pagewise thp run --advised --check 0 -- CMD does it")
    })?;
    output::write_out(text.as_bytes())?;
    let name = &unit.name;
    output::print_hint(format_args!(
        "write it to /etc/systemd/system/{name}.d/50-pagewise-thp.conf, where it lasts over reboots; then systemctl \
         daemon-reload, and systemctl restart {name}"
    ));
    Ok(Outcome::Done)
}

const LIST: &str =
    "give a service of this machine's systemd; systemctl list-units --type=service lists them";

#[expect(
    clippy::disallowed_methods,
    reason = "only systemd knows what it can do and what its units have"
)]
fn read_properties(unit: &str) -> anyhow::Result<String> {
    let refused = |what: String, why: String| Refusal {
        next: Some(LIST.to_owned()),
        ..Refusal::new(what, why)
    };
    let program = find_program("systemctl".as_ref());
    let program =
        program.map_err(|error| refused("systemctl show".to_owned(), error.to_string()))?;
    let mut command = Command::new(program);
    // environment variables could name another bus or options, which root must not accept from
    // other users
    command.env_clear().env("PATH", PROGRAM_FOLDERS);
    command.args(["show", "--property=Id,LoadState,MemoryTHP,Environment,ExecStart", "--", unit]);
    let asked = command.output();
    let asked = asked.map_err(|error| refused("systemctl show".to_owned(), error.to_string()))?;
    let text = String::from_utf8_lossy(&asked.stdout).into_owned();
    if !asked.status.success() || !text.lines().any(|line| line == "LoadState=loaded") {
        let said = String::from_utf8_lossy(&asked.stderr);
        let why = said.lines().next().unwrap_or("systemd has not loaded it").to_owned();
        anyhow::bail!(refused(format!("unit {unit}"), why));
    }
    Ok(text)
}

fn parse(shown: &str) -> Unit {
    let mut unit = Unit::default();
    for line in shown.lines() {
        match line.split_once('=') {
            Some(("Id", name)) => name.clone_into(&mut unit.name),
            Some(("MemoryTHP", _)) => unit.has_setting = true,
            Some(("Environment", all)) => unit.environment = parse_variables(all),
            Some(("ExecStart", command)) => {
                let path = command.split("path=").nth(1).and_then(|rest| rest.split(" ;").next());
                unit.program = path.map(str::to_owned);
            }
            _ => (),
        }
    }
    unit
}

/// Parses the environment variables of a unit as systemd prints them: `A=1 "B=2 3"`.
fn parse_variables(all: &str) -> Vec<(String, String)> {
    let mut words = vec![String::new()];
    let (mut is_quoted, mut letters) = (false, all.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '\\' => words.last_mut().into_iter().for_each(|word| word.extend(letters.next())),
            ' ' if !is_quoted => words.push(String::new()),
            other => words.last_mut().into_iter().for_each(|word| word.push(other)),
        }
    }
    let pair = |word: &String| {
        word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    words.iter().filter_map(pair).collect()
}

/// The text of the drop-in; `None` if no setting of systemd has this effect.
fn drop_in(unit: &Unit, switch: Switch) -> Option<String> {
    let mut lines = vec!["# Made by `pagewise thp drop-in`.".to_owned(), "[Service]".to_owned()];
    let kernel = match switch {
        Switch::On => None,
        Switch::Off => Some("MemoryTHP=disable"),
        Switch::Advised => Some("MemoryTHP=madvise"),
    };
    let is_told = unit.has_setting && kernel.is_some();
    if switch == Switch::Advised && !is_told {
        return None;
    }
    lines.extend(kernel.filter(|_| is_told).map(str::to_owned));
    let has = |name: &str| {
        let own = unit.environment.iter().find(|(known, _)| known == name);
        own.map(|(_, value)| value.clone())
    };
    let mut set = vec![(super::VARIABLE, switch.word().to_owned())];
    // if the kernel gives the process no huge pages, the variables have no effect
    if !is_told {
        let program = inspect(&unit.program.clone().into_iter().collect::<Vec<_>>());
        set.extend(variables(switch, program.allocator, has));
    }
    lines.extend(set.iter().map(|(name, value)| format!("Environment={}", quote(name, value))));
    Some(lines.join("\n") + "\n")
}

/// Quotes an assignment for a unit file: `%` would begin a specifier, and quotes keep spaces.
fn quote(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{name}={value}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: &str = "Id=a.b.service\nLoadState=loaded\nEnvironment=A=1 \"MALLOC_CONF=narenas:2\" \"B=x y\"\n\
        ExecStart={ path=/usr/bin/true ; argv[]=/usr/bin/true -x ; ignore_errors=no }\n";

    #[test]
    fn what_systemd_shows_is_read() {
        let unit = parse(SHOWN);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = [pair("A", "1"), pair("MALLOC_CONF", "narenas:2"), pair("B", "x y")];
        assert_eq!((unit.name.as_str(), unit.environment), ("a.b.service", expected.to_vec()));
        assert_eq!((unit.program.as_deref(), unit.has_setting), (Some("/usr/bin/true"), false));
        assert!(parse("MemoryTHP=inherit\n").has_setting);
    }

    #[test]
    fn a_variable_that_the_unit_has_is_merged() {
        let text = drop_in(&parse(SHOWN), Switch::On).unwrap();
        assert!(text.starts_with(
            "# Made by `pagewise thp drop-in`.\n[Service]\nEnvironment=\"PAGEWISE_THP=on\"\n"
        ));
        assert!(
            text.contains("Environment=\"MALLOC_CONF=narenas:2,thp:always,metadata_thp:auto\"\n"),
            "{text}"
        );
        assert!(!text.contains("JAVA_TOOL_OPTIONS"), "{text}");
    }

    #[test]
    fn the_kernel_is_told_where_systemd_can() {
        let old = parse(SHOWN);
        let new = Unit { has_setting: true, ..parse(SHOWN) };
        assert_eq!(drop_in(&old, Switch::Advised), None);
        let advised = drop_in(&new, Switch::Advised).unwrap();
        assert!(
            advised.contains("\nMemoryTHP=madvise\nEnvironment=\"PAGEWISE_THP=advised\"\n"),
            "{advised}"
        );
        assert!(!drop_in(&new, Switch::On).unwrap().contains("MemoryTHP"));
        assert!(drop_in(&new, Switch::Off).unwrap().contains("\nMemoryTHP=disable\n"));
        assert!(drop_in(&old, Switch::Off).unwrap().contains("GODEBUG=disablethp=1"));
        assert_eq!(quote("A", "50% \"x\""), "\"A=50%% \\\"x\\\"\"");
    }
}
