// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completion scripts in a real bash: the script is sourced, and its function is called as bash
//! would call it.
//!
//! zsh and fish are not on every test machine. Here only the contents of their scripts are checked;
//! that they work was tested by hand.

use std::path::Path;
use std::process::Command;

use pagewise_testkit::ProgramRun;

use crate::program::{empty_folder, finish, run};

/// Sources the script, sets the command line to `words` with the cursor after the last one, calls
/// the registered function and prints what it offers. `COMP_TYPE` is 63 for a list of choices, 9
/// for a single tab.
const COMPLETE: &str = r#"
set -u
source "$SCRIPT"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
function=$(complete -p pagewise | sed 's/.*-F \([^ ]*\).*/\1/')
previous=""
[ $# -lt 2 ] || previous="${COMP_WORDS[$# - 2]}"
"$function" pagewise "${COMP_WORDS[COMP_CWORD]}" "$previous"
printf '%s\n' "${COMPREPLY[@]:-}"
"#;

/// What bash offers after these words in a folder; `tab` is `COMP_TYPE`.
fn offered_in(folder: &Path, tab: u32, words: &[&str]) -> Vec<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_pagewise"));
    let script = folder.join("completion.bash");
    std::fs::write(&script, run(&["completions", "bash"]).out).unwrap();
    let path =
        format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", COMPLETE, "bash"]).args(words).current_dir(folder);
    bash.env("SCRIPT", script).env("PATH", path).env("COMP_TYPE", tab.to_string());
    bash.env("XDG_CONFIG_HOME", folder);
    let ProgramRun { status, out, err, .. } = finish(&mut bash);
    assert_eq!((status, err.as_str()), (0, ""), "{words:?}");
    out.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn offered(words: &[&str]) -> Vec<String> {
    offered_in(empty_folder().path(), 9, words)
}

#[test]
fn bash_offers_the_words_of_the_table() {
    for (words, expected) in [
        (&["pagewise", "ex"][..], "explain"),
        (&["pagewise", "explain", "sw"], "swappiness"),
        (&["pagewise", "doctor", "--ignore", "zram-u"], "zram-unused"),
        (&["pagewise", "doctor", "--explain", "zram-u"], "zram-unused"),
        (&["pagewise", "plan", "--only", "zram-u"], "zram-unused"),
        (&["pagewise", "lab", "run", "x", "--kernel", "trixie/"], "trixie/generic"),
        (&["pagewise", "lab", "guest", "--userland", "sys"], "systemd/bookworm"),
        (&["pagewise", "trial", "--list"], "--list-knobs"),
    ] {
        let found = offered(words);
        assert!(found.iter().any(|word| word == expected), "{words:?}: {found:?}");
        let typed = words.last().unwrap();
        assert!(found.iter().all(|word| word.starts_with(typed)), "{words:?}: {found:?}");
    }
}

#[test]
fn bash_does_not_offer_helpers_of_other_verbs() {
    let verbs = offered(&["pagewise", ""]);
    assert!(verbs.iter().any(|word| word == "trial"), "{verbs:?}");
    for hidden in ["names", "settle-file"] {
        assert!(!verbs.iter().any(|word| word == hidden), "{hidden}");
    }
}

#[test]
fn bash_offers_settings_behind_a_and_b() {
    for option in ["--a", "--b"] {
        assert_eq!(offered(&["pagewise", "trial", option, "vm.swappi"]), ["vm.swappiness="]);
    }
    assert_eq!(offered(&["pagewise", "trial", "--b", "=", "vm.swappi"]), ["vm.swappiness="]);
    let all = offered(&["pagewise", "--json", "trial", "--b", ""]);
    assert!(all.iter().any(|word| word == "swap=") && all.len() > 20, "{all:?}");
    assert!(!all.iter().any(|word| word.starts_with("cgroup.")), "no arm can set those");
}

/// The words that bash passes after `vm.swappiness=`, with and without the first character of the
/// value.
#[test]
fn bash_offers_values_behind_a_setting() {
    let line = ["pagewise", "trial", "--b", "zswap.enabled", "="];
    if std::path::Path::new("/sys/module/zswap/parameters/enabled").exists() {
        assert_eq!(offered(&line), ["0", "1"]);
        assert_eq!(offered(&[&line[..], &["1"]].concat()), ["1"]);
    }
    let now = std::fs::read_to_string("/proc/sys/vm/swappiness").unwrap();
    let values = offered(&["pagewise", "trial", "--b", "=", "vm.swappiness", "="]);
    assert_eq!(values[0], now.trim());
    let swap = offered(&["pagewise", "trial", "--a", "swap", "=", "z"]);
    assert_eq!(swap, ["zram:", "zswap:"]);
}

#[test]
fn bash_offers_processes_by_id_and_lists_them_with_their_names() {
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = sleeper.id().to_string();
    let folder = empty_folder();
    for words in [
        &["pagewise", "scan", "--pid", &pid][..],
        &["pagewise", "thp", "collapse", "--pid", "=", &pid],
    ] {
        let found = offered_in(folder.path(), 9, words);
        assert!(found.contains(&pid), "{words:?}: {found:?}");
    }
    let listed = offered_in(folder.path(), 63, &["pagewise", "scan", "--pid", ""]);
    assert!(listed.contains(&format!("{pid}  sleep")), "{listed:?}");
    let plain = offered_in(folder.path(), 9, &["pagewise", "scan", "--pid", ""]);
    assert!(plain.len() > 1 && plain.iter().all(|pid| pid.parse::<u32>().is_ok()), "{plain:?}");
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn bash_offers_experiments_the_users_own_too() {
    let built_in = offered(&["pagewise", "lab", "run", ""]);
    let listed: serde_json::Value =
        serde_json::from_str(&run(&["lab", "list", "--json"]).out).unwrap();
    let first = listed["experiments"][0]["experiment"].as_str().unwrap().to_owned();
    assert!(built_in.contains(&first), "{first}: {built_in:?}");
    let folder = empty_folder();
    let own = folder.path().join("pagewise/experiments");
    std::fs::create_dir_all(&own).unwrap();
    let example = include_str!("../../../../lab/experiments/swap.toml");
    std::fs::write(own.join("mine $(touch trap).toml"), example).unwrap();
    let found = offered_in(folder.path(), 9, &["pagewise", "lab", "show", "mi"]);
    assert_eq!(found, ["mine $(touch trap)"], "a name is a word, and nothing runs it");
    assert!(!folder.path().join("trap").exists());
    assert_eq!(offered(&["pagewise", "lab", "run", "./no"]), [""; 0], "bash then offers files");
}

/// If the function offers nothing, bash offers files, because of the options of `complete`.
#[test]
fn bash_offers_files_for_files() {
    let folder = empty_folder();
    std::fs::write(folder.path().join("before.tar.zst"), "").unwrap();
    let found = offered_in(folder.path(), 9, &["pagewise", "status", "--root", "bef"]);
    assert_eq!(found, ["before.tar.zst"]);
    let script = run(&["completions", "bash"]).out;
    assert_eq!(script.matches("complete -F _pagewise_named -o").count(), 2, "both kinds of bash");
    assert!(!script.contains("complete -F _pagewise "), "the generated function is not registered");
}

/// Every option that takes a process, a setting or an experiment calls `pagewise names`.
#[test]
fn zsh_and_fish_call_for_names() {
    let zsh = run(&["completions", "zsh"]).out;
    let options = zsh.matches("--pid=[").count();
    assert!(options >= 5, "{options}");
    assert_eq!(zsh.matches(":PID:_pagewise_pids'").count(), options);
    assert_eq!(zsh.matches(":_pagewise_knobs'").count(), 2);
    assert_eq!(zsh.matches(":_pagewise_experiments'").count(), 2, "lab run and lab show");
    for function in ["_pagewise_pids()", "_pagewise_knobs()", "_pagewise_experiments()"] {
        assert!(zsh.find(function) < zsh.rfind("compdef _pagewise pagewise"), "{function}");
        assert_eq!(zsh.matches(function).count(), 1, "{function}");
    }
    let fish = run(&["completions", "fish"]).out;
    assert_eq!(fish.matches("-a \"(pagewise names pid)\"").count(), options);
    assert_eq!(fish.matches("(pagewise names knob (commandline").count(), 2);
    assert_eq!(fish.matches("-a \"(pagewise names experiment)\"").count(), 2);
    let subjects = fish.lines().find(|line| line.contains("using_subcommand explain\" -f -a "));
    assert!(subjects.is_some_and(|line| line.contains(" swappiness ")), "{subjects:?}");
}
