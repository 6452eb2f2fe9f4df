// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `sudo -E` hands on of another user is not used by root: programs in their PATH, and
//! experiments in their folder.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::machine::{Place, said};

const THEIRS: u32 = 4242;

/// A folder of another user with programs that leave a mark when they are started.
struct TheirPrograms {
    folder: tempfile::TempDir,
}

impl TheirPrograms {
    fn new(names: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let path = folder.path().join(name);
            let mark = folder.path().join("mark");
            fs::write(&path, format!("#!/bin/sh\necho {name} >> '{}'\n", mark.display())).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
            chown(&path, Some(THEIRS), None).unwrap();
        }
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        chown(folder.path(), Some(THEIRS), None).unwrap();
        Self { folder }
    }

    /// PATH with this folder before the others.
    fn path(&self) -> String {
        format!("{}:{}", self.folder.path().display(), std::env::var("PATH").unwrap())
    }

    fn started(&self) -> Option<String> {
        fs::read_to_string(self.folder.path().join("mark")).ok()
    }
}

fn pagewise(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagewise"));
    command.args(arguments).envs(variables.iter().copied()).output().unwrap()
}

#[test]
fn a_program_of_another_user_in_path_is_not_started() {
    let theirs = TheirPrograms::new(&["setpriv", "sh", "systemctl", "true", "only-theirs"]);
    let path = theirs.path();
    // each run needs setpriv and sh: it succeeds with those of the system
    let place = Place::new();
    let knob = ["--a", "vm.extfrag_threshold=400", "--b", "vm.extfrag_threshold=600"];
    let options = ["--pairs", "1", "--warm-up", "0", "--", "true"];
    let mut trial = place.command(&[&["trial"], &knob[..], &options].concat());
    let ran = trial.env("PATH", &path).output().unwrap();
    assert!(matches!(ran.status.code(), Some(0 | 3)), "{}", said(&ran));
    assert_eq!(theirs.started(), None);
    // these two may fail for other reasons
    let counted = ["thp", "watch", "--counter", "echo 1", "--for", "1s", "--pid", "1"];
    let _ = pagewise(&counted, &[("PATH", &path)]);
    let _ = pagewise(&["thp", "drop-in", "none.service"], &[("PATH", &path)]);
    let ran = pagewise(&["thp", "run", "--check", "0", "--", "true"], &[("PATH", &path)]);
    assert_eq!(ran.status.code(), Some(0), "{}", said(&ran));
    assert_eq!(theirs.started(), None);
    let ran = pagewise(&["thp", "run", "--check", "0", "--", "only-theirs"], &[("PATH", &path)]);
    assert_ne!(ran.status.code(), Some(0));
    let told = said(&ran);
    assert!(
        told.contains("only-theirs: root does not start it: ") && told.contains("4242"),
        "{told}"
    );
    assert_eq!(theirs.started(), None);
    // a path is the user's choice
    let by_path = theirs.folder.path().join("only-theirs").display().to_string();
    let ran = pagewise(&["thp", "run", "--check", "0", "--", &by_path], &[("PATH", &path)]);
    assert_eq!(theirs.started().as_deref(), Some("only-theirs\n"), "{}", said(&ran));
}

fn printed(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

fn own_experiment(home: &Path, name: &str) -> PathBuf {
    let folder = home.join("pagewise/experiments");
    fs::create_dir_all(&folder).unwrap();
    let text = "about = \"theirs\"\n[workload]\nkind = \"command\"\nargv = [\"true\"]\n\
        [measure]\nprimary = \"cpu\"\n[[arm]]\nname = \"a\"\n\
        [[arm]]\nname = \"b\"\nset = { \"vm.swappiness\" = 1 }\n";
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn an_experiment_that_another_user_can_change_does_not_replace_the_built_in_one() {
    let home = tempfile::tempdir().unwrap();
    let file = own_experiment(home.path(), "swap.toml");
    let variables = [("XDG_CONFIG_HOME", home.path().to_str().unwrap())];
    let own = pagewise(&["lab", "show", "swap"], &variables);
    assert!(printed(&own).contains("theirs"), "{}", said(&own));
    chown(file.parent().unwrap(), Some(THEIRS), None).unwrap();
    let shown = pagewise(&["lab", "show", "swap"], &variables);
    let told = said(&shown);
    assert_eq!(shown.status.code(), Some(0), "{told}");
    let text = printed(&shown);
    assert!(text.contains("swap (built in)") && !text.contains("theirs"), "{text}");
    assert!(told.contains("swap.toml: root does not use this experiment"), "{told}");
    let listed = pagewise(&["lab", "list"], &variables);
    assert!(said(&listed).contains("swap.toml: root does not use this experiment"));
    // a file of theirs in a folder of root
    chown(file.parent().unwrap(), Some(0), None).unwrap();
    chown(&file, Some(THEIRS), None).unwrap();
    let shown = pagewise(&["lab", "show", "swap"], &variables);
    assert!(said(&shown).contains("belongs to user 4242"), "{}", said(&shown));
    let by_path = pagewise(&["lab", "show", file.to_str().unwrap()], &variables);
    assert!(printed(&by_path).contains("theirs"), "{}", said(&by_path));
}
