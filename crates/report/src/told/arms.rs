// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an arm has, in words.

use pagewise_model::{Bytes, Trial, TrialArm, TrialSetting, TrialSwap};

/// `vm.swappiness 60 → 100`, `swap off → swap on a file of 1 GiB`, or how many arms there are.
pub(crate) fn arms(trial: &Trial) -> String {
    match trial.arms.as_slice() {
        [a, b] if a == &TrialArm { name: a.name.clone(), ..b.clone() } => {
            format!("{}, twice", arm(a))
        }
        [a, b] => one_knob(a, b).unwrap_or_else(|| format!("{} → {}", arm(a), arm(b))),
        several => {
            let names: Vec<&str> = several.iter().map(|arm| arm.name.as_str()).collect();
            format!("{} arms ({})", names.len(), names.join(", "))
        }
    }
}

/// Where all that differs is the value of one knob.
fn one_knob(a: &TrialArm, b: &TrialArm) -> Option<String> {
    let ([one], [other]) = (a.settings.as_slice(), b.settings.as_slice()) else { return None };
    let alike = (&a.swap, &a.command, &one.knob) == (&b.swap, &b.command, &other.knob);
    let shared = arm(&TrialArm { settings: Vec::new(), ..a.clone() });
    let shared = if is_plain(a) { String::new() } else { format!(" ({shared})") };
    alike.then(|| format!("{} {} → {}{shared}", one.knob, one.value, other.value))
}

fn is_plain(arm: &TrialArm) -> bool {
    arm.swap.is_none() && arm.command.is_none()
}

/// `swap on zram 512 MiB lz4, then a file of 1 GiB; vm.swappiness = 60`.
pub(crate) fn arm(arm: &TrialArm) -> String {
    let set = |TrialSetting { knob, value }: &TrialSetting| format!("{knob} = {value}");
    let runs = |command: &Vec<String>| format!("runs {}", typed(command));
    let words: Vec<String> = (arm.swap.iter().map(|areas| swap(areas)))
        .chain(arm.settings.iter().map(set))
        .chain(arm.command.iter().map(runs))
        .collect();
    if words.is_empty() { "as it is".to_owned() } else { words.join("; ") }
}

fn swap(areas: &[TrialSwap]) -> String {
    if areas.is_empty() {
        return "swap off".to_owned();
    }
    let words: Vec<String> = areas.iter().map(area).collect();
    format!("swap on {}", words.join(", then "))
}

fn area(area: &TrialSwap) -> String {
    let (words, priority) = match area {
        TrialSwap::Zram { size_bytes, algorithm, mem_limit_bytes, priority } => {
            let algorithm = algorithm.iter().map(|name| format!(" {name}"));
            let limit = mem_limit_bytes.iter().map(|limit| format!(" in at most {}", size(*limit)));
            let more: String = algorithm.chain(limit).collect();
            (format!("zram {}{more}", size(*size_bytes)), priority)
        }
        TrialSwap::File { size_bytes, priority } => {
            (format!("a file of {}", size(*size_bytes)), priority)
        }
        TrialSwap::Device { path, priority } => (path.clone(), priority),
    };
    let priority = priority.map(|number| format!(" (priority {number})"));
    words + &priority.unwrap_or_default()
}

/// `512 MiB`: nobody asks for tenths that are none.
fn size(bytes: u64) -> String {
    Bytes::new(bytes).to_string().replace(".0 ", " ")
}

/// A command as it could be typed.
pub(crate) fn typed(command: &[String]) -> String {
    let plain = |word: &String| {
        !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_./=:,+%@".contains(c))
    };
    let words = command.iter().map(|word| match plain(word) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arm_is_told_in_words() {
        let zram = TrialSwap::Zram {
            size_bytes: 512 << 20,
            algorithm: Some("lz4".to_owned()),
            mem_limit_bytes: None,
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
        let command = Some(vec!["sh".to_owned(), "-c".to_owned(), "it's".to_owned()]);
        let off = TrialArm { swap: Some(Vec::new()), command, ..TrialArm::default() };
        assert_eq!(arm(&off), r"swap off; runs sh -c 'it'\''s'");
        assert_eq!(arm(&TrialArm::default()), "as it is");
    }
}
