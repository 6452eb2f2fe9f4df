// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs commands in guests. `cargo xtask test --root` builds the static program and names it in
//! PAGEWISE_STATIC.

use std::process::Command;

pub(crate) use pagewise_testkit::{ProgramRun, finish};

/// The static program.
pub(crate) fn program() -> Command {
    let path = std::env::var_os("PAGEWISE_STATIC").expect("run by cargo xtask test --root");
    Command::new(path)
}

/// `pagewise lab guest` with these arguments.
pub(crate) fn lab(arguments: &[&str]) -> Command {
    let mut command = program();
    command.args(["lab", "guest"]).args(arguments);
    command
}

/// Runs a shell script in a guest.
pub(crate) fn script(options: &[&str], script: &str) -> ProgramRun {
    finish(&mut lab(&[options, &["--", "sh", "-c", script]].concat()))
}

/// Functions for a guest's script, whose output [`answer`] finds: `say NAME COMMAND...` prints all
/// output of the command; `get NAME COMMAND...` prints only its standard output, if it succeeds.
pub(crate) const SAY: &str = r#"
say() { name=$1; shift; echo "== $name"; "$@" 2>&1; printf '\n-- %s\n' $?; }
get() {
    name=$1; shift; echo "== $name"; "$@" 2> /tmp/.said; status=$?
    [ $status = 0 ] || cat /tmp/.said
    printf '\n-- %s\n' $status
}
"#;

/// A function for scripts: prints the privileges of a command where it prints its answer, after those
/// of the shell (`CapPrm CapEff NoNewPrivs Seccomp`). The command waits at a full pipe that nobody
/// reads, as in `root::all_privileges`.
pub(crate) const PRIVILEGES: &str = r#"
shown() { grep -E '^(CapPrm|CapEff|NoNewPrivs|Seccomp):' /proc/$1/status | cut -f 2 | tr '\n' ' '; echo; }
privileges() {
    mkfifo /tmp/.full; exec 9<> /tmp/.full
    dd if=/dev/zero of=/tmp/.full bs=4096 count=16 2> /dev/null
    "$@" > /tmp/.full 2> /tmp/.said & at=$!; looks=0
    until grep -q pipe_write /proc/$at/wchan; do
        looks=$((looks + 1)); sleep 0.1
        [ $looks -lt 1200 ] && [ -e /proc/$at/status ] || { cat /tmp/.said; return 1; }
    done
    shown $$; shown $at
    kill -9 $at; exec 9>&-; rm /tmp/.full
}
"#;

/// What [`PRIVILEGES`] printed of a command that gives up nothing.
#[track_caller]
pub(crate) fn assert_all_privileges(session: &str, name: &str) {
    let printed = answer_of_success(session, name);
    let lines: Vec<&str> = printed.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let [shell, command] = lines[..] else { panic!("{name}: {printed}") };
    assert!(shell == command && command.ends_with(" 0 0"), "{name}: {printed}");
}

/// A function for a script that is about to end the guest: waits until all output has left the
/// guest. It reads the kernel's count of bytes sent by its serial ports, which must not change for
/// a second, and waits for at most a minute. Sid's kernel has no such count, so there it waits for
/// three seconds.
pub(crate) const UNTIL_SENT: &str = r#"
until_all_is_sent() {
    sent=; same=0; looks=0
    [ -e /proc/tty/driver/serial ] || { sleep 3; return 0; }
    while [ $same -lt 5 ] && [ $looks -lt 300 ]; do
        looks=$((looks + 1))
        before=$sent; sent=$(grep -o 'tx:[0-9]*' /proc/tty/driver/serial)
        if [ -n "$sent" ] && [ "$sent" = "$before" ]; then same=$((same + 1)); else same=0; fi
        sleep 0.2
    done
}
"#;

/// From the output of a script that calls `say NAME COMMAND...`: the output of the command with
/// this name, and its exit status.
#[track_caller]
pub(crate) fn answer<'a>(session: &'a str, name: &str) -> (&'a str, &'a str) {
    let start = session.split_once(&format!("== {name}\n"));
    let (_, start) = start.unwrap_or_else(|| panic!("no answer to {name}: {session}"));
    let ended = start.split_once("\n-- ");
    let (text, rest) = ended.unwrap_or_else(|| panic!("{name} did not end: {session}"));
    (text, rest.lines().next().unwrap_or_default())
}

/// The output of the command with this name, which must have succeeded.
#[track_caller]
pub(crate) fn answer_of_success<'a>(session: &'a str, name: &str) -> &'a str {
    let (text, status) = answer(session, name);
    assert_eq!(status, "0", "{name}: {text}");
    text
}

/// The output of the command with this name, as a JSON document.
#[track_caller]
pub(crate) fn document(session: &str, name: &str) -> serde_json::Value {
    let text = answer_of_success(session, name);
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"))
}

/// One run: the document that --json prints, and the output of the command, which is in the
/// document.
pub(crate) fn run(options: &[&str], command: &[&str]) -> (serde_json::Value, String) {
    let ran = finish(&mut lab(&[&["--json"], options, &["--"], command].concat()));
    let document: serde_json::Value = serde_json::from_str(&ran.out)
        .unwrap_or_else(|_| panic!("no document: {} {}", ran.out, ran.err));
    (document["runs"][0].clone(), ran.err)
}

/// One boot of a guest that reboots.
#[derive(Debug)]
pub(crate) struct Boot {
    /// What `--json` reports about it.
    pub(crate) run: serde_json::Value,
    /// What its script printed to standard output and standard error.
    pub(crate) output: String,
}

impl Boot {
    /// Checks that the script ended with this status and the disk was unmounted.
    #[track_caller]
    pub(crate) fn assert_exited(&self, status: i32) {
        let found = (&self.run["outcome"], &self.run["status"], &self.run["disk"]["state"]);
        assert_eq!(found, (&"exited".into(), &status.into(), &"clean".into()), "{self:#?}");
    }
}

/// A guest with systemd that runs one script at each of its boots, all on one root disk; `scripts` are two or
/// more. There are fewer boots than scripts if one of them fails. The options are those of `lab guest`; with
/// `--lose-power 0`, a script loses its power when it prints the line `lose-power`.
pub(crate) fn reboots(options: &[&str], scripts: &[&str]) -> Vec<Boot> {
    let folder = tempfile::tempdir().unwrap();
    let last = (scripts.len() - 1).to_string();
    let sent = scripts.iter().enumerate().map(|(number, script)| {
        let path = folder.path().join(number.to_string());
        std::fs::write(&path, script).unwrap();
        format!("--file={}:/root/boots/{number}", path.display())
    });
    let sent: Vec<String> = sent.collect();
    let is_named = options.iter().any(|option| option.starts_with("--userland"));
    let userland = if is_named { &[][..] } else { &["--userland=systemd"] };
    let sent: Vec<&str> = sent.iter().map(String::as_str).collect();
    let own = [&["--json", "--reboots", &last], userland, &sent].concat();
    let command = "echo \"== boot $PAGEWISE_BOOT\"; exec sh /root/boots/$PAGEWISE_BOOT";
    let ran = finish(&mut lab(&[&own[..], options, &["--", "sh", "-c", command]].concat()));
    let document: serde_json::Value = serde_json::from_str(&ran.out)
        .unwrap_or_else(|_| panic!("no document: {} {}", ran.out, ran.err));
    let runs = document["runs"].as_array().unwrap();
    let boot = |(number, run): (usize, &serde_json::Value)| {
        let (begin, end) = (format!("== boot {number}\n"), format!("== boot {}\n", number + 1));
        let output = ran.err.split_once(&begin).map_or("", |(_, rest)| rest);
        let output = output.split_once(&end).map_or(output, |(output, _)| output).to_owned();
        Boot { run: run.clone(), output }
    };
    runs.iter().enumerate().map(boot).collect()
}
