// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Adds names that only the machine knows to completion scripts: processes, settings, experiments.
//!
//! The scripts that clap generates know the words of the parser's table and offer files for all
//! other values. For bash, zsh and fish, this module adds the values that `pagewise names` prints:
//! it searches the script for the names of options and values. The dynamic completion of
//! clap_complete was not chosen: it is unstable, and it starts the program for every word, even for
//! words that a generated script contains.

use clap::Command;
use clap_complete::Shell;

/// The completion script, generated from `command`, with the names added; scripts of other shells
/// are returned unchanged.
pub(super) fn add_names(shell: Shell, script: String, command: &Command) -> String {
    match shell {
        Shell::Bash => add_names_to_bash(&script),
        Shell::Zsh => add_names_to_zsh(&script),
        Shell::Fish => add_names_to_fish(&script, command),
        _ => script,
    }
}

/// The script of completions for bash: wraps the generated function, so that names are completed
/// here and everything else by the generated function.
fn add_names_to_bash(script: &str) -> String {
    let script = script.replace("complete -F _pagewise ", "complete -F _pagewise_named ");
    format!("{BASH}\n{script}")
}

const BASH: &str = r#"# Words that are names of this machine come from `pagewise names`, all others from _pagewise.
_pagewise_named() {
    local cur="${COMP_WORDS[COMP_CWORD]}" at=$((COMP_CWORD - 1)) equals="" kind="" prefix="" before="" name about
    local -a listed=()
    # bash splits words at "=": --pid=1 arrives as three words, and so does vm.swappiness=60
    if [[ $cur == "=" ]]; then
        cur="" equals=yes
    elif [[ $at -gt 1 && ${COMP_WORDS[at]} == "=" ]]; then
        at=$((at - 1)) equals=yes
    fi
    if [[ $at -gt 0 ]]; then
        before="${COMP_WORDS[at - 1]}"
        [[ $before == "=" && $at -gt 1 ]] && before="${COMP_WORDS[at - 2]}"
    fi
    case "${COMP_WORDS[at]}" in
        --pid) kind=pid ;;
        --a | --b) kind=knob ;;
        run | show) [[ $before == lab && $cur != -* ]] && kind=experiment ;;
        *) [[ -n $equals && ($before == --a || $before == --b) ]] && kind=knob prefix="${COMP_WORDS[at]}=" ;;
    esac
    if [[ -z $kind ]]; then
        _pagewise "$@"
        return
    fi
    COMPREPLY=()
    while IFS=$'\t' read -r name about; do
        if [[ $name == "$prefix$cur"* ]]; then
            COMPREPLY+=("${name#"$prefix"}")
            listed+=("$name  $about")
        fi
    done < <(pagewise names "$kind" "$prefix$cur" 2>/dev/null)
    # a list of choices (63 and 33) may say which process it is; what is inserted may not
    if [[ $kind == pid && ${#listed[@]} -gt 1 && (${COMP_TYPE:-9} == 63 || ${COMP_TYPE:-9} == 33) ]]; then
        COMPREPLY=("${listed[@]}")
    elif [[ ${COMPREPLY[0]:-} == *[=:] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
"#;

/// Adds names to the script for zsh, in which a value is completed by the function that follows its
/// name.
fn add_names_to_zsh(script: &str) -> String {
    let script = script
        .replace(":PID:_default", ":PID:_pagewise_pids")
        .replace(":KNOB=VALUE|swap=AREAS:_default", ":KNOB=VALUE|swap=AREAS:_pagewise_knobs");
    let experiment = ":experiment -- Name of the experiment, or path of its file:_default";
    let named = experiment.replace(":_default", ":_pagewise_experiments");
    let script = script.replace(experiment, &named);
    // the last lines call or register the generated function, so the new functions go before them
    match script.rfind("if [ \"$funcstack[1]\"") {
        Some(end) => format!("{}{ZSH}\n{}", &script[..end], &script[end..]),
        None => script,
    }
}

const ZSH: &str = r#"# Names of this machine, with a few words about each.
_pagewise_names() {
    local -a names
    names=("${(@f)$(pagewise names $1 "$PREFIX" 2>/dev/null)}")
    names=("${names[@]//:/\:}")
    names=("${names[@]/$'\t'/:}")
    _describe -t names "$1" names "${@:2}"
}
_pagewise_pids() { _pagewise_names pid }
_pagewise_knobs() {
    if [[ $PREFIX == *=* ]]; then _pagewise_names knob; else _pagewise_names knob -S ''; fi
}
_pagewise_experiments() {
    _pagewise_names experiment
    _files
}
"#;

/// In fish, each option has one line, which ends with `-r` if files are offered for its value.
/// Positional arguments, such as the subject of `explain`, are missing from the generated script
/// and are added.
fn add_names_to_fish(script: &str, command: &Command) -> String {
    let mut with_names = String::with_capacity(script.len() + 2048);
    for line in script.lines() {
        with_names.push_str(line);
        if line.ends_with(" -r") {
            let name = FISH.iter().find(|(option, _)| line.contains(option));
            with_names.extend(name.map(|(_, names)| format!(" -f -a \"({names})\"")));
        }
        with_names.push('\n');
    }
    command.get_subcommands().for_each(|verb| add_words_to_fish(&mut with_names, verb));
    for verb in ["run", "show"] {
        let is_there =
            format!("__fish_pagewise_using_subcommand lab; and __fish_seen_subcommand_from {verb}");
        with_names +=
            &format!("complete -c pagewise -n \"{is_there}\" -a \"(pagewise names experiment)\"\n");
    }
    with_names
}

/// Adds the positional arguments of a verb that have a fixed set of values.
fn add_words_to_fish(script: &mut String, verb: &Command) {
    let values = verb.get_positionals().flat_map(clap::Arg::get_possible_values);
    let words: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
    if !words.is_empty() {
        let verb = verb.get_name();
        let is_there = format!("__fish_pagewise_using_subcommand {verb}");
        *script +=
            &format!("complete -c pagewise -n \"{is_there}\" -f -a \"{}\"\n", words.join(" "));
    }
}

const FISH: [(&str, &str); 3] =
    [(" -l pid -d ", "pagewise names pid"), (" -l a -d ", FISH_KNOBS), (" -l b -d ", FISH_KNOBS)];
const FISH_KNOBS: &str = "pagewise names knob (commandline -ct | string replace -r '^--[ab]=' '')";
