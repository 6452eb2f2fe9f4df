// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise thp oci-hook`: reads the configuration of a container that is about to be created from
//! standard input, and prints it with the environment variables that make its allocator request
//! huge pages.
//!
//! Podman and CRI-O run such hooks in the stage `precreate`. If the container did not request huge
//! pages, or the configuration is not understood, it is printed byte for byte as it was: a hook
//! must not prevent a container from starting.

use std::io::{IsTerminal, Read};

use pagewise_model::{Bytes, Refusal};
use pagewise_observe::json_values;
use pagewise_terminal::{Outcome, output};
use serde_json::Value;

use super::VARIABLE;
use super::run::{Allocator, Switch, variables};

/// The annotation by which an image or a container may request huge pages, like the environment
/// variable.
const ANNOTATION: &str = "dev.pagewise.thp";

/// Maximum length in bytes of a container's configuration that is parsed; typical ones have 20 KiB.
const LONGEST: u64 = 4 << 20;
/// Maximum number of values in a container's configuration that is parsed; typical ones have 1,000.
const MOST_VALUES: usize = 50_000;

pub(super) fn run() -> anyhow::Result<Outcome> {
    let mut stdin = std::io::stdin();
    if stdin.is_terminal() {
        let what = "oci-hook: expected the configuration of a container on standard input";
        let next = "pagewise thp oci-hook --help has the file by which Podman and CRI-O run it";
        return Err(Refusal::with_advice(what, next).into());
    }
    let mut given = Vec::new();
    stdin.by_ref().take(LONGEST).read_to_end(&mut given)?;
    if given.len() as u64 == LONGEST {
        let limit = Bytes::new(LONGEST);
        output::print_message(format_args!(
            "the container's configuration stays as it is: it is longer than {limit}"
        ));
        // the configuration is passed on in pieces, so that memory use does not depend on its
        // length
        while !given.is_empty() {
            output::write_out(&given)?;
            given.clear();
            stdin.by_ref().take(LONGEST).read_to_end(&mut given)?;
        }
        return Ok(Outcome::Done);
    }
    let changed = change_config(&given).unwrap_or_else(|why| {
        output::print_message(format_args!("the container's configuration stays as it is: {why}"));
        None
    });
    output::write_out(changed.as_deref().unwrap_or(&given))?;
    Ok(Outcome::Done)
}

/// The container's configuration with huge pages added; `None` if the container did not request
/// them.
fn change_config(given: &[u8]) -> Result<Option<Vec<u8>>, String> {
    if json_values(given) > MOST_VALUES {
        return Err(format!("it has more than {MOST_VALUES} values"));
    }
    let mut config: Value = serde_json::from_slice(given).map_err(|error| error.to_string())?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let labelled = config["annotations"].get(ANNOTATION).and_then(text);
    let program = config["process"]["args"].get(0).and_then(text);
    let Some(environment) = config.pointer_mut("/process/env") else { return Ok(None) };
    let Some(environment) = environment.as_array_mut() else {
        return Err("process.env is no list".to_owned());
    };
    let has = |name: &str| {
        let value =
            |line: &Value| line.as_str()?.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
        environment.iter().find_map(value)
    };
    let Some(word) = has(VARIABLE).or(labelled).filter(|word| !word.is_empty()) else {
        return Ok(None);
    };
    let switch = Switch::from_word(&word)
        .ok_or_else(|| format!("{VARIABLE}: expected on, off or advised, found {word:?}"))?;
    let is_java = program.as_deref().is_some_and(is_java);
    let allocator = if is_java { Allocator::Jvm } else { Allocator::Glibc };
    let mut set = variables(switch, allocator, has);
    set.push((VARIABLE, word));
    for (name, value) in set {
        let is_it = |line: &Value| {
            line.as_str().is_some_and(|line| {
                line.strip_prefix(name).is_some_and(|rest| rest.starts_with('='))
            })
        };
        environment.retain(|line| !is_it(line));
        environment.push(Value::String(format!("{name}={value}")));
    }
    serde_json::to_vec(&config).map(Some).map_err(|error| error.to_string())
}

/// Whether the program is Java, by its name alone: the container's file system does not exist yet,
/// so the file cannot be read.
fn is_java(program: &str) -> bool {
    program.rsplit('/').next() == Some("java")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(config: &str) -> Vec<String> {
        let changed: Value =
            serde_json::from_slice(&change_config(config.as_bytes()).unwrap().unwrap()).unwrap();
        assert_eq!(changed["root"]["path"], "rootfs", "what is not ours stays");
        serde_json::from_value(changed["process"]["env"].clone()).unwrap()
    }

    #[test]
    fn who_asks_by_variable_or_label_gets_the_variables_of_allocators() {
        let by_variable = r#"{"root":{"path":"rootfs"},"process":{"args":["x"],"env":["PAGEWISE_THP=on","MALLOC_CONF=a:b"]}}"#;
        let set = environment(by_variable);
        let expected = [
            "MALLOC_CONF=a:b,thp:always,metadata_thp:auto",
            "GLIBC_TUNABLES=glibc.malloc.hugetlb=1",
            "PAGEWISE_THP=on",
        ];
        assert!(expected.iter().all(|line| set.iter().any(|it| it == line)), "{set:?}");
        assert!(
            !set.iter().any(|line| line.starts_with("JAVA") || line == "MALLOC_CONF=a:b"),
            "{set:?}"
        );
        let by_label = r#"{"root":{"path":"rootfs"},"annotations":{"dev.pagewise.thp":"off"},"process":{"args":["/opt/bin/java"],"env":["A=1"]}}"#;
        let set = environment(by_label);
        assert_eq!(set[0], "A=1");
        let expected = ["PAGEWISE_THP=off", "JAVA_TOOL_OPTIONS=-XX:-UseTransparentHugePages"];
        assert!(expected.iter().all(|line| set.iter().any(|it| it == line)), "{set:?}");
    }

    #[test]
    fn who_did_not_ask_stays_as_it_is() {
        for config in
            ["{}", r#"{"process":{"env":[]}}"#, r#"{"process":{"env":["PAGEWISE_THPX=on"]}}"#]
        {
            assert_eq!(change_config(config.as_bytes()), Ok(None), "{config}");
        }
    }

    #[test]
    fn what_is_not_understood_is_told() {
        for (config, why) in [
            ("{", "EOF"),
            (r#"{"process":{"env":7}}"#, "no list"),
            (r#"{"process":{"env":["PAGEWISE_THP=yes"]}}"#, "expected on, off or advised"),
        ] {
            let error = change_config(config.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
