// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Describes the settings of an arm and its program, in words.
//!
//! A built-in workload has many parameters, most of them equal in all arms: it is described by its
//! name, and for an arm with a workload of its own only the different parameters are listed.

use pagewise_model::{Bytes, Program, Trial, TrialArm, TrialSetting, TrialSwap};
use serde_json::Value;

/// The difference between the arms of a trial: `vm.swappiness 60 → 100`, `swap off → swap on a file
/// of 1 GiB`, or the number of arms.
pub fn arms(trial: &Trial) -> String {
    match trial.arms.as_slice() {
        [a, b] if a == &TrialArm { name: a.name.clone(), ..b.clone() } => {
            format!("{}, twice", arm(&trial.program, a))
        }
        [a, b] => describe_single_knob(trial, a, b)
            .unwrap_or_else(|| format!("{} → {}", arm(&trial.program, a), arm(&trial.program, b))),
        several => {
            let names: Vec<&str> = several.iter().map(|arm| arm.name.as_str()).collect();
            format!("{} arms ({})", names.len(), names.join(", "))
        }
    }
}

/// Describes the difference between the arms if it is only the value of one knob.
fn describe_single_knob(trial: &Trial, a: &TrialArm, b: &TrialArm) -> Option<String> {
    let ([one], [other]) = (a.settings.as_slice(), b.settings.as_slice()) else { return None };
    let alike = (&a.swap, &a.program, &one.knob) == (&b.swap, &b.program, &other.knob);
    let shared = arm(&trial.program, &TrialArm { settings: Vec::new(), ..a.clone() });
    let shared = if is_plain(a) { String::new() } else { format!(" ({shared})") };
    alike.then(|| format!("{} {} → {}{shared}", one.knob, one.value, other.value))
}

fn is_plain(arm: &TrialArm) -> bool {
    arm.swap.is_none() && arm.program.is_none()
}

/// The settings of one arm: `swap on zram 512 MiB lz4, then a file of 1 GiB; vm.swappiness = 60`.
pub fn arm(usual: &Program, arm: &TrialArm) -> String {
    let set = |TrialSetting { knob, value }: &TrialSetting| format!("{knob} = {value}");
    let runs = |program: &Program| describe_different_program(usual, program);
    let words: Vec<String> = (arm.swap.iter().map(|areas| swap(areas)))
        .chain(arm.settings.iter().map(set))
        .chain(arm.program.iter().map(runs))
        .collect();
    if words.is_empty() { "as it is".to_owned() } else { words.join("; ") }
}

fn swap(areas: &[TrialSwap]) -> String {
    if areas.is_empty() {
        return "swap off".to_owned();
    }
    let words: Vec<String> = areas.iter().map(area).collect();
    match areas {
        [TrialSwap::Zswap(_), ..] => {
            format!("{}, in front of swap on {}", words[0], words[1..].join(", then "))
        }
        _ => format!("swap on {}", words.join(", then ")),
    }
}

fn area(area: &TrialSwap) -> String {
    let (words, priority) = match area {
        TrialSwap::Zram { size_bytes, algorithm, mem_limit_bytes, writeback, priority } => {
            let algorithm = algorithm.iter().map(|name| format!(" {name}"));
            let limit = mem_limit_bytes.iter().map(|limit| format!(" in at most {}", size(*limit)));
            let writeback = writeback.iter().map(|writeback| format!(" {writeback}"));
            let more: String = algorithm.chain(limit).chain(writeback).collect();
            (format!("zram {}{more}", size(*size_bytes)), priority)
        }
        TrialSwap::File { size_bytes, priority } => {
            (format!("a file of {}", size(*size_bytes)), priority)
        }
        TrialSwap::Device { path, priority } => (path.clone(), priority),
        TrialSwap::Zswap(zswap) => (zswap.to_string(), &None),
    };
    let priority = priority.map(|number| format!(" (priority {number})"));
    words + &priority.unwrap_or_default()
}

/// Formats a size: `512 MiB`; a decimal of 0 is dropped.
fn size(bytes: u64) -> String {
    Bytes::new(bytes).to_string().replace(".0 ", " ")
}

/// Describes how the program of an arm differs from that of the other arms.
fn describe_different_program(usual: &Program, own: &Program) -> String {
    let (Some(usual), Some(own_keys)) = (usual.workload(), own.workload()) else {
        return format!("runs {}", command_line(own));
    };
    let differs = own_keys.iter().filter(|(key, value)| usual.get(*key) != Some(*value));
    let words: Vec<String> =
        differs.map(|(key, value)| format!("{key} = {}", format_value(value))).collect();
    words.join(", ")
}

fn format_value(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A built-in workload with all its parameters; empty for any other command.
pub fn workload(program: &Program) -> String {
    let keys = program.workload().into_iter().flatten();
    let words: Vec<String> =
        keys.map(|(key, value)| format!("{key} = {}", format_value(value))).collect();
    words.join(", ")
}

/// The command as it could be typed; for a built-in workload its kind.
pub fn command_line(program: &Program) -> String {
    let kind = program.workload().and_then(|keys| keys.get("kind")).and_then(Value::as_str);
    if let Some(kind) = kind {
        return format!("the workload {kind}");
    }
    let plain = |word: &String| {
        !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_./=:,+%@".contains(c))
    };
    let words = program.argv().iter().map(|word| {
        if plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use pagewise_model::lend::ZswapSpec;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_arm_is_told_in_words() {
        let arm = |wanted: &TrialArm| super::arm(&Program::from_words(&["true"]), wanted);
        let zram = TrialSwap::Zram {
            size_bytes: 512 << 20,
            algorithm: Some("lz4".to_owned()),
            mem_limit_bytes: None,
            writeback: None,
            priority: None,
        };
        let file = TrialSwap::File { size_bytes: 1 << 30, priority: Some(1) };
        let setting = TrialSetting { knob: "vm.swappiness".to_owned(), value: "60".to_owned() };
        let both = TrialArm {
            swap: Some(vec![zram, file]),
            settings: vec![setting],
            ..TrialArm::default()
        };
        assert_eq!(
            arm(&both),
            "swap on zram 512 MiB lz4, then a file of 1 GiB (priority 1); vm.swappiness = 60"
        );
        let zswap = TrialSwap::Zswap(ZswapSpec {
            max_pool_percent: Some(15),
            accept_threshold_percent: Some(80),
            shrinker: true,
            ..ZswapSpec::new("zstd")
        });
        let file = TrialSwap::File { size_bytes: 1 << 30, priority: None };
        let in_front = TrialArm { swap: Some(vec![zswap, file]), ..TrialArm::default() };
        assert_eq!(
            arm(&in_front),
            "zswap zstd in at most 15 % of RAM, accepting below 80 % of that, with shrinker, in front of swap \
             on a file of 1 GiB"
        );
        let program = Some(Program::from_words(&["sh", "-c", "it's"]));
        let off = TrialArm { swap: Some(Vec::new()), program, ..TrialArm::default() };
        assert_eq!(arm(&off), r"swap off; runs sh -c 'it'\''s'");
        assert_eq!(arm(&TrialArm::default()), "as it is");
    }

    #[test]
    fn a_workload_of_ours_is_called_by_its_name() {
        let ours = |keys: Value| match keys {
            Value::Object(keys) => Program::Workload { argv: vec!["/init".to_owned()], keys },
            _ => panic!("an object"),
        };
        let usual =
            ours(json!({"kind": "swap", "data": "224M", "contents": "text:100", "parts": 1}));
        let own =
            ours(json!({"kind": "swap", "data": "224M", "contents": "random:100", "parts": 3}));
        let none = Program::from_words(&["true"]);
        assert_eq!(command_line(&usual), "the workload swap");
        assert_eq!(describe_different_program(&usual, &own), "contents = random:100, parts = 3");
        assert_eq!(describe_different_program(&usual, &none), "runs true");
        assert!(workload(&usual).contains("data = 224M") && workload(&none).is_empty());
        assert_eq!(command_line(&ours(json!({"data": "224M"}))), "/init");
    }
}
